//! GPUs that are only pretended, as they are written on a command line.

use anyhow::Context;
use cleave_model::board::Catalogue;
use std::{fmt, path::Path};

/// Nodes and GPUs at most: the processes of all of them are on this machine.
const MOST_NODES: u32 = 64;
const MOST_GPUS: u32 = 64;

/// Equal nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    nodes: u32,
    /// How many of which board each node has.
    gpus: Vec<(u32, String)>,
}

impl Pool {
    /// Reads `4xA100-80GB`, `2xA100-80GB,2xL4` or `2x(4xA100-80GB)`.
    pub fn read(text: &str) -> anyhow::Result<Self> {
        let wrong = || {
            format!(
                "--sim {}: write the number and the board, as in 4xA100-80GB, or \
                 2x(4xA100-80GB) for two nodes; `cleave boards` lists them",
                text.escape_debug()
            )
        };
        let (nodes, inner) = match text.strip_suffix(')') {
            Some(rest) => {
                let (nodes, inner) = rest.split_once("x(").with_context(wrong)?;
                (nodes.trim().parse().ok().with_context(wrong)?, inner)
            }
            None => (1, text),
        };
        let boards = Catalogue::builtin();
        let mut gpus = Vec::new();
        for part in inner.split(',') {
            let (number, board) = part.trim().split_once('x').with_context(wrong)?;
            let number: u32 = number.parse().ok().with_context(wrong)?;
            let found = boards.find(board.trim());
            let found = found.map_err(|error| anyhow::anyhow!("--sim {text}: {error}"))?;
            gpus.push((number, boards.board(found).name.clone()));
        }
        let each: u32 = gpus.iter().map(|(number, _)| *number.min(&1_000)).sum();
        let zero = nodes == 0 || gpus.iter().any(|(number, _)| *number == 0);
        anyhow::ensure!(!zero, wrong());
        anyhow::ensure!(
            nodes <= MOST_NODES && each <= MOST_GPUS,
            "--sim {text}: at most {MOST_NODES} nodes of {MOST_GPUS} GPUs each"
        );
        Ok(Self { nodes, gpus })
    }

    /// As it is read.
    pub fn text(&self) -> String {
        match self.nodes {
            1 => self.of_node(),
            many => format!("{many}x({})", self.of_node()),
        }
    }

    /// The GPUs of each node, as an agent is told.
    pub fn of_node(&self) -> String {
        let parts: Vec<String> = self
            .gpus
            .iter()
            .map(|(n, board)| format!("{n}x{board}"))
            .collect();
        parts.join(",")
    }

    /// Whether some of them can be cut.
    pub fn is_cut(&self) -> bool {
        let boards = Catalogue::builtin();
        let mut found = self
            .gpus
            .iter()
            .filter_map(|(_, board)| boards.find(board).ok());
        found.any(|board| !boards.board(board).profiles.is_empty())
    }

    /// The names of the nodes.
    pub fn names(&self) -> impl Iterator<Item = String> {
        (0..self.nodes).map(|node| format!("n{node}"))
    }
}

/// For people: `4 x A100-80GB`.
impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self
            .gpus
            .iter()
            .map(|(n, board)| format!("{n} x {board}"))
            .collect();
        f.write_str(&parts.join(" and "))?;
        match self.nodes {
            1 => Ok(()),
            many => write!(f, " on each of {many} nodes"),
        }
    }
}

/// Whether this is the directory of a node.
pub fn is_node(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let number = name.and_then(|name| name.strip_prefix('n'));
    number.is_some_and(|number| number.parse::<u32>().is_ok()) && path.is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_read() {
        for (text, canonical, people) in [
            ("4xA100-80GB", "4xA100-80GB", "4 x A100-80GB"),
            (
                "2x(4xH100-80GB-SXM)",
                "2x(4xH100-80GB-SXM)",
                "4 x H100-80GB-SXM on each of 2 nodes",
            ),
            (
                "1xA100-80GB, 2xL4",
                "1xA100-80GB,2xL4",
                "1 x A100-80GB and 2 x L4",
            ),
        ] {
            let pool = Pool::read(text).unwrap();
            assert_eq!(pool.text(), canonical);
            assert_eq!(Pool::read(canonical).unwrap(), pool);
            assert_eq!(pool.to_string(), people);
        }
        for (text, says) in [
            ("", "4xA100-80GB"),
            ("A100-80GB", "4xA100-80GB"),
            ("0xA100-80GB", "4xA100-80GB"),
            ("x(4xA100-80GB)", "4xA100-80GB"),
            ("4xA10O", "A10O"),
            ("99xA100-80GB", "at most"),
            ("999x(1xA100-80GB)", "at most"),
        ] {
            let error = format!("{:#}", Pool::read(text).unwrap_err());
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}

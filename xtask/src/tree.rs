//! The tree as the checks see it: the project's files as text, its packages, what was found.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// One fault, where it is and the way out.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    place: String,
    text: String,
}

impl Finding {
    /// A fault of a whole file or package.
    pub fn file(path: &str, text: impl Into<String>) -> Finding {
        Finding {
            place: path.into(),
            text: text.into(),
        }
    }

    /// A fault in one line, counted from one.
    pub fn line(path: &str, line: usize, text: impl Into<String>) -> Finding {
        Finding {
            place: format!("{path}:{line}"),
            text: text.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// A text file; `path` is relative to the workspace root, with `/` between its parts.
pub struct File {
    pub path: String,
    pub text: String,
}

/// A workspace member, as `cargo metadata` tells it.
#[derive(Deserialize)]
pub struct Package {
    pub name: String,
    pub dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
pub struct Dependency {
    pub name: String,
    /// `None` for an ordinary one, else `dev` or `build`.
    pub kind: Option<String>,
    /// Set for workspace members only, as the workspace has no other path dependency.
    pub path: Option<String>,
}

/// All that the checks look at.
pub struct Tree {
    /// Every file's path, pictures included.
    pub paths: Vec<String>,
    /// The files that are text.
    pub files: Vec<File>,
    pub packages: Vec<Package>,
}

impl Tree {
    /// Reads the project under `root`. Files that are not UTF-8 count as not text.
    pub fn load(root: &Path) -> Result<Tree> {
        let paths = project_files(root)?;
        let mut files = Vec::new();
        for path in &paths {
            let bytes =
                fs::read(root.join(path)).with_context(|| format!("cannot read `{path}`"))?;
            if let Ok(text) = String::from_utf8(bytes) {
                files.push(File {
                    path: path.clone(),
                    text,
                });
            }
        }
        Ok(Tree {
            paths,
            files,
            packages: packages(root)?,
        })
    }

    /// The content of the file at `path`.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files
            .iter()
            .find(|file| file.path == path)
            .map(|file| file.text.as_str())
    }

    /// The Rust sources.
    pub fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// A tree of these (path, text) files, without packages.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Tree {
        let file = |&(path, text): &(&str, &str)| File {
            path: path.into(),
            text: text.into(),
        };
        Tree {
            paths: files.iter().map(|(path, _)| path.to_string()).collect(),
            files: files.iter().map(file).collect(),
            packages: Vec::new(),
        }
    }
}

/// The paths of the project's files, sorted: what git tracks or would, or without git
/// everything but build output.
pub fn project_files(root: &Path) -> Result<Vec<String>> {
    let git = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output();
    let mut paths: Vec<String> = match git {
        Ok(output) if output.status.success() => String::from_utf8(output.stdout)?
            .split_terminator('\0')
            .map(Into::into)
            .collect(),
        _ => {
            let mut paths = Vec::new();
            walk(root, "", &mut paths)?;
            paths
        }
    };
    // Git lists a deleted file until the deletion is committed.
    paths.retain(|path| root.join(path).is_file());
    paths.sort();
    paths.dedup();
    Ok(paths)
}

fn walk(root: &Path, below: &str, paths: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let path = if below.is_empty() {
            name.clone()
        } else {
            format!("{below}/{name}")
        };
        match entry.file_type()? {
            kind if kind.is_dir() && name != ".git" && name != "target" => {
                walk(root, &path, paths)?;
            }
            kind if kind.is_file() => paths.push(path),
            _ => {}
        }
    }
    Ok(())
}

fn packages(root: &Path) -> Result<Vec<Package>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(root)
        .output()
        .context("cannot start `cargo metadata`")?;
    if !output.status.success() {
        bail!(
            "`cargo metadata` failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let metadata: Metadata = serde_json::from_slice(&output.stdout)?;
    Ok(metadata.packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_git_the_walk_finds_the_same_kind_of_paths() {
        let root = crate::workspace_root(&std::env::current_dir().unwrap()).unwrap();
        let mut walked = Vec::new();
        walk(&root, "", &mut walked).unwrap();
        for path in ["Cargo.toml", ".ci/run", "xtask/src/tree.rs"] {
            assert!(walked.iter().any(|walked| walked == path), "{path}");
        }
        assert!(!walked.iter().any(|path| path.starts_with("target/")));
    }
}

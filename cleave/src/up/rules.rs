//! The file with the policy and the queues of a server.

use anyhow::Context;
use cleave_model::{policy::Policy, queue::Queue};
use std::path::Path;

/// What a server decides by.
#[derive(Debug, Default)]
pub struct Rules {
    /// The policy.
    pub policy: Policy,
    /// The tree of teams; none: one queue, `default`.
    pub queues: Vec<Queue>,
}

/// Reads the file, if there is one.
pub fn read(file: Option<&Path>) -> anyhow::Result<Rules> {
    let Some(file) = file else {
        return Ok(Rules::default());
    };
    let name = file.display();
    let text = crate::scenario_text(file).with_context(|| format!("{name}: not read"))?;
    parse(&text, &name.to_string())
}

fn parse(text: &str, name: &str) -> anyhow::Result<Rules> {
    let read = cleave_scenario::parse(text);
    let read = read.map_err(|problems| anyhow::anyhow!("{}", problems.in_file(name)))?;
    let sections = [
        ("nodes", !read.nodes.is_empty()),
        ("workloads", !read.workloads.is_empty()),
        ("boards", !read.boards.is_empty()),
        ("prior", !read.prior.is_empty()),
        ("events", !read.events.is_empty()),
        ("expect", !read.expects.is_empty()),
        ("latency", read.latency.is_some()),
    ];
    for (section, there) in sections {
        anyhow::ensure!(
            !there,
            "{name}: `{section}` belongs to a scenario: a server reads `policy` and `queues` alone"
        );
    }
    Ok(Rules {
        policy: read.policy,
        queues: read.queues,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_and_queues_alone() {
        let rules = parse(
            "cleave: 1\npolicy: {grace: 5s}\nqueues:\n  - {name: lab}\n",
            "x",
        );
        let rules = rules.unwrap();
        assert_eq!(rules.policy.grace_ms, 5_000);
        assert!(rules.queues.iter().any(|queue| queue.name == *"lab"));
        for (text, says) in [
            (
                "cleave: 1\nnodes:\n  - {name: a, gpus: 1, board: L4}\n",
                "`nodes` belongs",
            ),
            (
                "cleave: 1\nworkloads:\n  - {name: a}\n",
                "`workloads` belongs",
            ),
            ("cleave: 1\npolcy: {}\n", "x:2:1"),
        ] {
            let error = parse(text, "x").unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}

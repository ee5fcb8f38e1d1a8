//! The file as it is written: one type for each mapping, each key with its place.
//!
//! The doc comments here become the descriptions in the JSON Schema.

pub(crate) mod cluster;
pub(crate) mod expect;
pub(crate) mod work;

use crate::place::{At, Key};
use crate::quantity::Duration;
use cleave_model::{ask::Isolation, policy::Mix};
use schemars::JsonSchema;
use serde::Deserialize;

/// Keys that belong to later releases: (a key of the mapping they will stand in, the keys).
/// They are refused by name until what they ask for exists.
pub(crate) const LATER: &[(&str, &[&str])] = &[
    ("nodes", &["offers", "pools", "prices", "calendar"]),
    (
        "isolation-default",
        &["placement", "reclaim", "consolidate", "rules", "protect"],
    ),
    ("board", &["offer", "boot"]),
    ("parent", &["budget"]),
    (
        "groups",
        &[
            "topology",
            "checkpoint",
            "duty",
            "keep",
            "budget",
            "deadline",
            "grace",
            "wake",
        ],
    ),
    ("cancel", &["notice", "signal", "drain", "price", "policy"]),
];

/// A Cleave scenario: what there is, what is wanted, what happens and what should come of it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct File {
    /// Version of the scenario language: 1.
    #[schemars(range(min = 1, max = 1))]
    pub cleave: At<u32>,
    /// Seed of everything random in a simulation. Default 0.
    #[serde(default)]
    pub seed: Key<u64>,
    /// Rules in force; each has a default.
    #[serde(default)]
    pub policy: Policy,
    /// Label keys of nested domains, widest first; `host` is the node itself. Default `[host]`.
    #[serde(default)]
    pub topology: Key<Vec<At<String>>>,
    /// Boards beyond the built-in ones; one of the same name replaces a built-in one.
    #[serde(default)]
    pub boards: Vec<cluster::Board>,
    /// How long things take in a simulation.
    #[serde(default)]
    pub latency: Option<Latency>,
    /// Machines.
    #[serde(default)]
    pub nodes: Vec<cluster::Node>,
    /// The tree of teams. Without any there is one queue, `default`.
    #[serde(default)]
    pub queues: Vec<cluster::Queue>,
    /// What is wanted, pending or already running.
    #[serde(default)]
    pub workloads: Vec<work::Workload>,
    /// The distribution of asks to expect, for `mix: prior`.
    #[serde(default)]
    pub prior: Vec<work::Prior>,
    /// What happens later.
    #[serde(default)]
    pub events: Vec<work::Event>,
    /// What should come of it.
    #[serde(default)]
    pub expect: Vec<At<expect::Expect>>,
}

/// Rules in force.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct Policy {
    /// What an ask for a part of a GPU is promised where it says nothing. Default hard.
    #[schemars(with = "IsolationWord")]
    pub isolation_default: Key<Isolation>,
    /// Where the expected mix of asks comes from: `learned` from arrivals (default), or `prior`.
    #[schemars(with = "MixWord")]
    pub mix: Key<Mix>,
    /// Bid prices are refined at the latest after so many arrivals; 0 is never. Default 1000.
    pub refine_every: Key<u64>,
    /// Refined prices take effect so many arrivals after they were asked for. Default 10.
    pub refine_lag: Key<u64>,
    /// How long a placement may take before it is overdue. Default 5m. What is left of a gang that
    /// lost workers with a node keeps its places as long, for the missing ones to come back.
    pub start_deadline: Key<Duration>,
    /// Time between telling a worker to leave and ending it. Default 30s.
    pub grace: Key<Duration>,
    /// A message to a silent node is repeated after this long. Default 15s.
    pub resend_after: Key<Duration>,
    /// Wait after the first failed start, or failure that is retried, doubled with each.
    /// Default 10s.
    pub back_off: Key<Duration>,
    /// Longest wait after a failed start. Default 5m.
    pub back_off_max: Key<Duration>,
    /// A GPU that failed to cut so often in a row is withheld. Default 3.
    pub quarantine_after: Key<u32>,
}

/// How long things take on the nodes of a simulation; without it everything is done at once.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct Latency {
    /// Cutting one slice. Default 1500ms.
    pub cut: Key<Duration>,
    /// Joining one slice back. Default 1s.
    pub join: Key<Duration>,
    /// Switching a GPU's MIG mode without a reset. Default 3s.
    pub mode: Key<Duration>,
    /// Switching it on boards that need a reset. Default 60s.
    pub reset: Key<Duration>,
    /// Starting a worker once its slices are there. Default 0s.
    pub start: Key<Duration>,
    /// From telling a worker to leave until it has left. Default 0s.
    pub exit: Key<Duration>,
}

/// The schema of [`Isolation`].
#[derive(JsonSchema)]
#[schemars(rename = "Isolation", rename_all = "kebab-case")]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum IsolationWord {
    /// Nothing beyond turns (time-slicing).
    None,
    /// An enforced memory cap (MPS, time-sliced vGPU).
    Limited,
    /// Own memory, faults and bandwidth (whole GPU, MIG, passthrough).
    Hard,
}

/// The schema of [`Mix`].
#[derive(JsonSchema)]
#[schemars(rename = "Mix", rename_all = "kebab-case")]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum MixWord {
    /// From the arrivals so far.
    Learned,
    /// From `prior`.
    Prior,
}

//! Nodes: what there is.

use crate::{Millis, Name};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A node as it is described from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its name.
    pub name: Name,
    /// Milli-cores that work may use.
    pub cpu_milli: u64,
    /// Host memory in bytes that work may use.
    pub memory_bytes: u64,
    /// How many workers it can hold.
    pub pods: u32,
    /// The board of each GPU, by device index.
    pub gpus: Vec<Name>,
    /// How the GPUs are connected; empty: all alike.
    pub links: Vec<LinkLevel>,
    /// Labels.
    pub labels: BTreeMap<Name, Name>,
    /// Taints: only asks that tolerate the key may come.
    pub taints: Vec<Name>,
    /// Where its capacity comes from.
    pub pool: Name,
    /// List price in micro-units of currency per GPU and hour; `None`: unpriced.
    pub price_micros: Option<u64>,
}

/// One level of the tree inside a node, tightest first: NVLink clique, PCIe switch, NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkLevel {
    /// What connects them, for people.
    pub name: Name,
    /// GPU indexes of each group; groups do not overlap.
    pub groups: Vec<Vec<u8>>,
}

/// What the control plane knows of a node's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// Takes work.
    Ready,
    /// Keeps its work, takes no more.
    Cordoned,
    /// Being emptied until the deadline (milliseconds), then gone.
    Reclaiming(Millis),
    /// Not heard of; what it held is not free.
    Lost,
}

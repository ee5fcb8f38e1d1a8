//! One node as placement sees it, and a choice of place.

use super::moves::StateIx;
use crate::price::{BoardIx, Gpu};

/// Index of a node, given by the caller.
pub type NodeIx = u32;

/// What is left of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// Labels, taints and pool as one number; nodes that no selector tells apart share it.
    pub hard: u32,
    /// The board of its GPUs.
    pub board: Option<BoardIx>,
    /// CPU left in milli-cores.
    pub cpu_milli: u32,
    /// Host memory left in bytes.
    pub memory_bytes: u64,
    /// Pod slots left.
    pub pods: u32,
    /// Index of the tree of its GPUs in the list of topologies; 0 = flat.
    pub topology: u16,
    /// Each GPU, or `None` where it can't be used.
    pub gpus: Vec<Option<Gpu>>,
}

/// Where one part of an ask goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Index of the GPU in the node.
    pub gpu: u8,
    /// The memory unit where a slice starts; 0 for other parts.
    pub start: u8,
    /// The state of the GPU after this part.
    pub after: Gpu,
}

/// The best place for an ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The node.
    pub node: NodeIx,
    /// The GPUs and starts, one for each part.
    pub parts: Vec<Placed>,
    /// The fall of value in milli-GPU.
    pub loss: i32,
}

/// A [`NodeView`] with its GPU states and its class as numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub hard: u32,
    pub board: Option<BoardIx>,
    pub cpu_milli: u32,
    pub memory_bytes: u64,
    pub pods: u32,
    pub topology: u16,
    pub gpus: Vec<Option<StateIx>>,
    pub class: u32,
}

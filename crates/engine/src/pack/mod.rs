//! Placement: the node, the GPUs and the starts where an ask costs the least value.
//!
//! [`Pack`] is a working copy of what placement needs of the cluster. Nodes in equal state, as
//! far as value goes, form a class; for every kind of ask the classes are kept in order of the
//! value that placing it there would cost, so that a choice looks at few nodes. The order of
//! preference is: least loss of value (to 1/16 milli-GPU), tightest set of GPUs in the node, least
//! rise of waste among the few such classes with least CPU left, least CPU left, lowest node
//! index. Fit is checked on exact numbers, never on the rounded ones of pricing.
//!
//! Trials: [`Pack::mark`], any changes, [`Pack::rollback`].

mod class;
mod moves;
mod node;
mod select;
mod topology;

#[cfg(test)]
mod tests;

pub use node::{Choice, NodeIx, NodeView, Placed};
pub use select::KindIx;
pub use topology::Topology;

use crate::price::{Board, BoardIx, Kind, Prices, Shape, Tables, bids};
use class::Classes;
use moves::States;
use node::Node;
use select::Selector;

/// Placement-relevant state of a cluster, and the choice of places in it.
#[derive(Debug)]
pub struct Pack {
    boards: Vec<Board>,
    topologies: Vec<Topology>,
    max_gpus: usize,
    /// The kinds of the last prices.
    kinds: Vec<Kind>,
    tables: Tables,
    states: States,
    classes: Classes,
    nodes: Vec<Option<Node>>,
    selector: Selector,
    undo: Vec<(NodeIx, Option<Node>)>,
    marks: usize,
}

/// A point in the history of a [`Pack`] to which it can be rolled back.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Mark(usize);

impl Pack {
    /// An empty cluster of nodes with up to `max_gpus` GPUs of these boards, all bids zero.
    /// `topologies` are the in-node trees that nodes refer to; the first is for nodes that have
    /// none, whatever it says.
    pub fn new(boards: Vec<Board>, topologies: Vec<Topology>, max_gpus: usize) -> Pack {
        let tables = Tables::new(&boards, &[], max_gpus);
        Pack {
            states: States::new(&boards),
            kinds: Vec::new(),
            tables,
            boards,
            topologies,
            max_gpus,
            classes: Classes::default(),
            nodes: Vec::new(),
            selector: Selector::default(),
            undo: Vec::new(),
            marks: 0,
        }
    }

    /// Takes new prices. Losses are computed anew when a kind is next asked for.
    pub fn set_prices(&mut self, prices: &Prices) {
        let kinds = prices.demands.iter().map(|demand| &demand.kind);
        if !kinds.clone().eq(&self.kinds) {
            self.kinds = kinds.cloned().collect();
            self.tables = Tables::new(&self.boards, &self.kinds, self.max_gpus);
        }
        self.tables.fill(&bids(prices));
        self.states
            .reprice(&self.boards, &self.tables, &self.kinds, &prices.shares());
        self.classes.reprice(&self.tables, &self.states);
        for node in self.nodes.iter_mut().flatten() {
            node.class = self.classes.renamed(node.class);
        }
        self.selector.forget();
    }

    /// Sets the state of a node, or removes it.
    pub fn set_node(&mut self, ix: NodeIx, view: Option<NodeView>) {
        let node = view.map(|view| {
            let mut intern = |gpu| {
                self.states
                    .intern(view.board, gpu, &self.boards, &self.tables)
            };
            let gpus = view.gpus.iter().map(|gpu| gpu.map(&mut intern)).collect();
            Node {
                hard: view.hard,
                board: view.board,
                cpu_milli: view.cpu_milli,
                memory_bytes: view.memory_bytes,
                pods: view.pods,
                topology: view.topology,
                gpus,
                class: 0,
            }
        });
        self.put(ix, node);
    }

    /// The state of a node.
    pub fn node(&self, ix: NodeIx) -> Option<NodeView> {
        let node = self.nodes.get(ix as usize)?.as_ref()?;
        Some(NodeView {
            hard: node.hard,
            board: node.board,
            cpu_milli: node.cpu_milli,
            memory_bytes: node.memory_bytes,
            pods: node.pods,
            topology: node.topology,
            gpus: node
                .gpus
                .iter()
                .map(|gpu| gpu.map(|gpu| self.states.gpu(gpu)))
                .collect(),
        })
    }

    /// Takes from a node what `choice` says, which [`Pack::best`] gave for this kind and memory.
    pub fn place(&mut self, kind: KindIx, memory_bytes: u64, choice: &Choice) {
        let Some(mut node) = self.nodes.get(choice.node as usize).cloned().flatten() else {
            debug_assert!(false, "node {} is not there", choice.node);
            return;
        };
        let kind = self.selector.kind(kind);
        node.cpu_milli -= kind.cpu_milli;
        node.memory_bytes -= memory_bytes;
        node.pods -= 1;
        for placed in &choice.parts {
            let gpu = &mut node.gpus[usize::from(placed.gpu)];
            *gpu = Some(
                self.states
                    .intern(node.board, placed.after, &self.boards, &self.tables),
            );
        }
        self.put(choice.node, Some(node));
    }

    /// Begins a trial.
    pub fn mark(&mut self) -> Mark {
        self.marks += 1;
        Mark(self.undo.len())
    }

    /// Undoes all changes since `mark` and ends its trial. Marks end in the reverse order.
    pub fn rollback(&mut self, mark: Mark) {
        self.marks -= 1;
        // Of a node that changed several times only the first state before counts.
        let mut undone = self.undo.split_off(mark.0);
        undone.sort_by_key(|(ix, _)| *ix);
        undone.dedup_by_key(|(ix, _)| *ix);
        for (ix, node) in undone {
            self.replace(ix, node);
        }
    }

    /// Ends the trial of `mark` and keeps its changes.
    pub fn keep(&mut self, mark: Mark) {
        self.marks -= 1;
        if self.marks == 0 {
            self.undo.clear();
        }
        drop(mark);
    }

    /// The nodes' states with counts, as [`crate::price::refine`] takes them, in a fixed order.
    pub fn shapes(&self) -> Vec<Shape> {
        self.classes.shapes(&self.states)
    }

    fn put(&mut self, ix: NodeIx, node: Option<Node>) {
        let before = self.replace(ix, node);
        if self.marks > 0 {
            self.undo.push((ix, before));
        }
    }

    fn replace(&mut self, ix: NodeIx, mut node: Option<Node>) -> Option<Node> {
        let at = ix as usize;
        if self.nodes.len() <= at {
            self.nodes.resize(at + 1, None);
        }
        let before = self.nodes[at].take();
        if let Some(node) = &before {
            self.classes.leave(node.class, ix);
        }
        if let Some(node) = &mut node {
            let flat = node.topology == 0;
            node.class = self
                .classes
                .enter(ix, node, flat, &self.states, &self.tables);
        }
        self.nodes[at] = node;
        before
    }
}

/// The board of a state whose node has none; no GPU is ever in it.
const NO_BOARD: BoardIx = BoardIx::MAX;

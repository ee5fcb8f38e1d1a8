//! Classes: nodes that value can't tell apart.

use super::moves::{StateIx, States};
use super::node::{Node, NodeIx};
use crate::price::{BoardIx, Gpu, LANES, Lanes, Shape, Tables};
use std::collections::{BTreeMap, BTreeSet};

/// Index of a class; valid until the next prices.
pub type ClassIx = u32;

/// What nodes of a class have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub board: Option<BoardIx>,
    pub cpu_milli: u32,
    /// States of the usable GPUs in the order of what they say.
    pub gpus: Vec<StateIx>,
    /// Tree and mask of free GPUs, where the node has a tree.
    pub topology: Option<(u16, u32)>,
}

/// A class with what prices make of it.
#[derive(Debug)]
pub struct Class {
    pub key: Key,
    pub nodes: BTreeSet<NodeIx>,
    /// GPUs that nobody uses.
    pub free: usize,
    /// What the others are worth, per λ.
    pub rest: Lanes,
    /// Value of a node.
    pub value: i32,
    /// Equal for equal classes however they came about; the last tie-break but node order.
    pub mark: u64,
}

/// All classes that have nodes, or had some since the last prices.
#[derive(Debug, Default)]
pub struct Classes {
    known: BTreeMap<Key, ClassIx>,
    classes: Vec<Class>,
    /// Classes in the order in which they came to have nodes.
    pub arrivals: Vec<ClassIx>,
    renamed: Vec<ClassIx>,
}

impl Classes {
    pub fn get(&self, class: ClassIx) -> &Class {
        &self.classes[class as usize]
    }

    pub fn enter(
        &mut self,
        ix: NodeIx,
        node: &Node,
        flat: bool,
        states: &States,
        tables: &Tables,
    ) -> ClassIx {
        let mut gpus: Vec<StateIx> = node.gpus.iter().copied().flatten().collect();
        // Not by number: numbers tell in which order states were first seen.
        gpus.sort_unstable_by_key(|gpu| states.gpu(*gpu));
        let topology = (!flat).then(|| (node.topology, node.free_mask(states)));
        let key = Key {
            board: node.board,
            cpu_milli: node.cpu_milli,
            gpus,
            topology,
        };
        let class = match self.known.get(&key) {
            Some(class) => *class,
            None => {
                let class = self.classes.len() as ClassIx;
                self.known.insert(key.clone(), class);
                self.classes.push(Class::new(key, states, tables));
                class
            }
        };
        let nodes = &mut self.classes[class as usize].nodes;
        if nodes.is_empty() {
            self.arrivals.push(class);
        }
        nodes.insert(ix);
        class
    }

    pub fn leave(&mut self, class: ClassIx, ix: NodeIx) {
        self.classes[class as usize].nodes.remove(&ix);
    }

    /// Drops empty classes and values the others anew.
    pub fn reprice(&mut self, tables: &Tables, states: &States) {
        self.renamed.clear();
        self.arrivals.clear();
        self.known.clear();
        let old = std::mem::take(&mut self.classes);
        for mut class in old {
            let ix = self.classes.len() as ClassIx;
            self.renamed.push(ix);
            if !class.nodes.is_empty() {
                class.value(states, tables);
                self.known.insert(class.key.clone(), ix);
                self.arrivals.push(ix);
                self.classes.push(class);
            }
        }
    }

    /// The number after [`Classes::reprice`] of a class that has nodes.
    pub fn renamed(&self, class: ClassIx) -> ClassIx {
        self.renamed[class as usize]
    }

    pub fn shapes(&self, states: &States) -> Vec<Shape> {
        let live = self
            .known
            .iter()
            .map(|(key, ix)| (key, self.get(*ix).nodes.len()));
        let live = live.filter(|(_, count)| *count > 0);
        let mut shapes: Vec<Shape> = live
            .map(|(key, count)| Shape {
                board: key.board,
                cpu_milli: key.cpu_milli,
                gpus: key.gpus.iter().map(|gpu| states.gpu(*gpu)).collect(),
                count: count as u32,
            })
            .collect();
        for shape in &mut shapes {
            shape.gpus.sort_unstable();
        }
        shapes.sort_unstable();
        shapes
    }
}

impl Class {
    fn new(key: Key, states: &States, tables: &Tables) -> Class {
        let mark = mark(&key, states);
        let (free, rest, value) = (0, [0; LANES], 0);
        let mut class = Class {
            key,
            nodes: BTreeSet::new(),
            free,
            rest,
            value,
            mark,
        };
        class.value(states, tables);
        class
    }

    fn value(&mut self, states: &States, tables: &Tables) {
        (self.free, self.rest) = (0, [0; LANES]);
        let Some(board) = self.key.board else {
            self.value = tables.bare(self.key.cpu_milli);
            return;
        };
        for gpu in &self.key.gpus {
            let state = states.get(*gpu);
            if state.gpu == Gpu::Free {
                self.free += 1;
                continue;
            }
            let cell = tables.cell(board, state.cell);
            for (rest, value) in self.rest.iter_mut().zip(cell) {
                *rest += value;
            }
        }
        self.value = tables.node(board, self.key.cpu_milli, self.free, &self.rest);
    }
}

/// A number made of what the key says, not of the numbers that states happen to have.
fn mark(key: &Key, states: &States) -> u64 {
    let mix = |hash: u64, word: u64| {
        (hash ^ word)
            .wrapping_mul(0x0000_0100_0000_01b3)
            .rotate_left(23)
    };
    let gpu = |gpu: &StateIx| match states.gpu(*gpu) {
        Gpu::Free => mix(1, 0),
        Gpu::Shared {
            units,
            memory_mib,
            by,
        } => mix(mix(2 + 2 * (by as u64), units.into()), memory_mib.into()),
        Gpu::Cut(layout) => mix(3, layout.into()),
    };
    let board = key.board.map_or(u64::MAX, u64::from);
    let (tree, mask) = key.topology.unwrap_or((0, 0));
    let start = mix(
        mix(mix(0xcbf2_9ce4_8422_2325, board), tree.into()),
        mask.into(),
    );
    key.gpus.iter().map(gpu).fold(start, |sum, gpu| {
        sum.wrapping_add(gpu.wrapping_mul(gpu | 1))
    })
}

//! Classes: nodes that value can't tell apart.

use super::NO_BOARD;
use super::moves::{StateIx, States, hash};
use super::node::{Node, NodeIx};
use crate::price::{BoardIx, Gpu, LANES, Lanes, Part, Shape, Tables};
use std::collections::{BTreeMap, BTreeSet};

/// Index of a class; valid until the next prices.
pub type ClassIx = u32;

/// What nodes of a class have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Equal for equal keys however they came about, and different for others but by a chance
    /// of 2^-64. First, so that keys are told apart at once.
    pub mark: u64,
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
    /// Its nodes but for the first, which [`Glance`] has: mostly there is one.
    pub others: BTreeSet<NodeIx>,
    /// GPUs that nobody uses.
    pub free: usize,
    /// What the others are worth, per λ.
    pub rest: Lanes,
    /// Value of a node.
    pub value: i32,
}

/// What tells at a glance that a kind does not fit a class; kept apart from the rest of it, so
/// that the many classes of full nodes are passed over quickly.
#[derive(Clone, Copy, Debug, Default)]
pub struct Glance {
    pub cpu_milli: u32,
    /// The most units that are left for shares on a GPU that others share.
    pub units: u32,
    /// The board, or [`NO_BOARD`].
    pub board: BoardIx,
    /// How many nodes there are.
    pub nodes: u32,
    /// The lowest of them, if any.
    pub first: NodeIx,
    /// GPUs that nobody uses.
    pub free: u8,
    /// Whether a GPU that is cut can take more instances.
    pub cut: bool,
}

impl Glance {
    fn of(key: &Key, states: &States) -> Glance {
        let mut glance = Glance {
            cpu_milli: key.cpu_milli,
            board: key.board.unwrap_or(NO_BOARD),
            ..Glance::default()
        };
        for gpu in &key.gpus {
            match states.gpu(*gpu) {
                Gpu::Free => glance.free += 1,
                Gpu::Shared { units, .. } => glance.units = glance.units.max(units),
                Gpu::Cut(_) => glance.cut |= !states.get(*gpu).full,
            }
        }
        glance
    }

    /// Whether nothing more fits any of the GPUs.
    pub fn is_shut(&self) -> bool {
        self.free == 0 && self.units == 0 && !self.cut
    }

    /// Whether one part of this sort may fit.
    pub fn may_take(&self, part: Part, count: u16) -> bool {
        match part {
            Part::Whole => u16::from(self.free) >= count,
            Part::Share { units, .. } => self.free > 0 || self.units >= units,
            Part::Slice(_) => self.free > 0 || self.cut,
        }
    }
}

/// Classes in the order in which they came to have nodes.
#[derive(Debug, Default)]
pub struct Arrivals {
    /// Those with room on some GPU.
    pub open: Vec<ClassIx>,
    /// The others, which only work without GPUs can use.
    pub shut: Vec<ClassIx>,
}

impl Arrivals {
    fn add(&mut self, class: ClassIx, glance: &Glance) {
        match glance.is_shut() {
            true => self.shut.push(class),
            false => self.open.push(class),
        }
    }
}

/// All classes that have nodes, or had some since the last prices.
#[derive(Debug, Default)]
pub struct Classes {
    known: BTreeMap<Key, ClassIx>,
    classes: Vec<Class>,
    glances: Vec<Glance>,
    pub arrivals: Arrivals,
    renamed: Vec<ClassIx>,
}

impl Classes {
    pub fn get(&self, class: ClassIx) -> &Class {
        &self.classes[class as usize]
    }

    pub fn glance(&self, class: ClassIx) -> &Glance {
        &self.glances[class as usize]
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
            mark: mark(node.board, topology, &gpus, states),
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
                self.glances.push(Glance::of(&key, states));
                self.classes.push(Class::new(key, states, tables));
                class
            }
        };
        let glance = &mut self.glances[class as usize];
        if glance.nodes == 0 {
            glance.first = ix;
            self.arrivals.add(class, glance);
        } else {
            let other = glance.first.max(ix);
            glance.first = glance.first.min(ix);
            self.classes[class as usize].others.insert(other);
        }
        glance.nodes += 1;
        class
    }

    pub fn leave(&mut self, class: ClassIx, ix: NodeIx) {
        let glance = &mut self.glances[class as usize];
        glance.nodes -= 1;
        if glance.nodes > 0 {
            let others = &mut self.classes[class as usize].others;
            match ix == glance.first {
                true => glance.first = others.pop_first().expect("there are more"),
                false => assert!(others.remove(&ix), "{ix} is of another class"),
            }
        }
    }

    /// Drops empty classes and values the others anew.
    pub fn reprice(&mut self, tables: &Tables, states: &States) {
        let mut live = 0;
        let number = |glance: &Glance| {
            live += ClassIx::from(glance.nodes > 0);
            live.saturating_sub(1)
        };
        self.renamed = self.glances.iter().map(number).collect();
        let (glances, renamed) = (&self.glances, &self.renamed);
        self.known.retain(|_, ix| {
            let has_nodes = glances[*ix as usize].nodes > 0;
            *ix = renamed[*ix as usize];
            has_nodes
        });
        let mut nodes = self.glances.iter().map(|glance| glance.nodes);
        self.classes.retain(|_| nodes.next() > Some(0));
        self.glances.retain(|glance| glance.nodes > 0);
        self.arrivals = Arrivals::default();
        for (ix, class) in (0..).zip(&mut self.classes) {
            class.value(states, tables);
            self.arrivals.add(ix, &self.glances[ix as usize]);
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
            .map(|(key, ix)| (key, self.glance(*ix).nodes));
        let live = live.filter(|(_, count)| *count > 0);
        let mut shapes: Vec<Shape> = live
            .map(|(key, count)| Shape {
                board: key.board,
                cpu_milli: key.cpu_milli,
                gpus: key.gpus.iter().map(|gpu| states.gpu(*gpu)).collect(),
                count,
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
        let (free, rest, value) = (0, [0; LANES], 0);
        let mut class = Class {
            key,
            others: BTreeSet::new(),
            free,
            rest,
            value,
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

/// See [`Key::mark`]; made of what states say, not of the numbers that they happen to have.
fn mark(
    board: Option<BoardIx>,
    topology: Option<(u16, u32)>,
    gpus: &[StateIx],
    states: &States,
) -> u64 {
    let board = board.map_or(u64::MAX, u64::from);
    let (tree, mask) = topology.unwrap_or((0, 0));
    let start = hash(&[board, tree.into(), mask.into()]);
    let gpus = gpus.iter().map(|gpu| states.get(*gpu).mark);
    gpus.fold(start, u64::wrapping_add)
}

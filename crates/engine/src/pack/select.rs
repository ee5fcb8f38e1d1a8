//! For each kind, the classes in order of the loss of placing it there.

use super::class::{Class, ClassIx};
use super::moves::{StateIx, States, Step};
use super::node::{Choice, Node, NodeIx, Placed};
use super::{Pack, Topology};
use crate::price::{Board, Gpu, Kind, LANES, Lanes, Part, Tables, VALUE_BITS};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Index of a kind that can be asked for.
pub type KindIx = u32;

/// What places are compared by, before nodes: (loss in milli-GPU, level of the set of GPUs, rise
/// of waste, CPU left, mark of the class, class).
type Rank = (i32, u8, i64, u32, u64, ClassIx);

/// The kinds and their orders of classes.
#[derive(Default)]
pub(super) struct Selector {
    known: BTreeMap<Kind, KindIx>,
    kinds: Vec<Ordered>,
}

/// A kind with the classes in order.
struct Ordered {
    kind: Kind,
    /// How many of the classes' arrivals are in `heap`.
    seen: usize,
    heap: BinaryHeap<Reverse<Rank>>,
    /// The ways to place one part on a GPU, by state.
    steps: Vec<Option<Vec<Step>>>,
}

/// A part's way: on a GPU of this state, this step.
type Way = (StateIx, Step);

impl Selector {
    pub fn kind(&self, kind: KindIx) -> &Kind {
        &self.kinds[kind as usize].kind
    }

    /// Forgets all orders: the prices are new.
    pub fn forget(&mut self) {
        for ordered in &mut self.kinds {
            ordered.seen = 0;
            ordered.heap.clear();
            ordered.steps.clear();
        }
    }
}

impl Pack {
    /// The number of a kind.
    pub fn kind(&mut self, kind: &Kind) -> KindIx {
        if let Some(ix) = self.selector.known.get(kind) {
            return *ix;
        }
        let ix = self.selector.kinds.len() as KindIx;
        self.selector.known.insert(kind.clone(), ix);
        self.selector.kinds.push(Ordered {
            kind: kind.clone(),
            seen: 0,
            heap: BinaryHeap::new(),
            steps: Vec::new(),
        });
        ix
    }

    /// The best place for one ask of `kind` with `memory_bytes` of host memory on the nodes that
    /// `accept` lets pass, given (node, its hard class); `None` exactly if it fits on none.
    pub fn best(
        &mut self,
        kind: KindIx,
        memory_bytes: u64,
        accept: &dyn Fn(NodeIx, u32) -> bool,
    ) -> Option<Choice> {
        let Pack {
            boards,
            topologies,
            tables,
            states,
            classes,
            nodes,
            selector,
            ..
        } = self;
        let ordered = &mut selector.kinds[kind as usize];
        let mut scale = Scale {
            boards,
            topologies,
            tables,
            states,
        };
        while ordered.seen < classes.arrivals.len() {
            let class = classes.arrivals[ordered.seen];
            ordered.seen += 1;
            if let Some(rank) = scale.rank(ordered, classes.get(class), class) {
                ordered.heap.push(Reverse(rank));
            }
        }
        let fits = |ix: &NodeIx| {
            let Some(Some(node)) = nodes.get(*ix as usize) else {
                return false;
            };
            node.memory_bytes >= memory_bytes && node.pods > 0 && accept(*ix, node.hard)
        };
        let mut passed: Vec<Reverse<Rank>> = Vec::new();
        let mut found = None;
        while let Some(Reverse(rank)) = ordered.heap.peek() {
            let class = classes.get(rank.5);
            found = class
                .nodes
                .iter()
                .copied()
                .find(fits)
                .map(|node| (node, *rank));
            if found.is_some() {
                break;
            }
            if let Some(top) = ordered.heap.pop()
                && !class.nodes.is_empty()
            {
                passed.push(top);
            }
        }
        ordered.heap.extend(passed);
        let (ix, (loss, .., class)) = found?;
        let node = nodes[ix as usize].as_ref()?;
        let parts = scale.parts(ordered, classes.get(class), node);
        Some(Choice {
            node: ix,
            parts,
            loss,
        })
    }

    /// What [`Pack::best`] answers, by looking at every node (for tests of the order).
    #[doc(hidden)]
    pub fn best_by_scan(
        &mut self,
        kind: KindIx,
        memory_bytes: u64,
        accept: &dyn Fn(NodeIx, u32) -> bool,
    ) -> Option<Choice> {
        let Pack {
            boards,
            topologies,
            tables,
            states,
            classes,
            nodes,
            selector,
            ..
        } = self;
        let ordered = &mut selector.kinds[kind as usize];
        let mut scale = Scale {
            boards,
            topologies,
            tables,
            states,
        };
        let mut best: Option<(Rank, NodeIx)> = None;
        for (ix, node) in nodes.iter().enumerate() {
            let Some(node) = node else { continue };
            if node.memory_bytes < memory_bytes || node.pods == 0 || !accept(ix as u32, node.hard) {
                continue;
            }
            let class = classes.get(node.class);
            if let Some(rank) = scale.rank(ordered, class, node.class)
                && best.is_none_or(|best| (rank, ix as u32) < best)
            {
                best = Some((rank, ix as u32));
            }
        }
        let ((loss, .., class), ix) = best?;
        let node = nodes[ix as usize].as_ref()?;
        let parts = scale.parts(ordered, classes.get(class), node);
        Some(Choice {
            node: ix,
            parts,
            loss,
        })
    }
}

/// Weighs kinds against classes.
struct Scale<'a> {
    boards: &'a [Board],
    topologies: &'a [Topology],
    tables: &'a Tables,
    states: &'a States,
}

impl Scale<'_> {
    /// The rank of the class for the kind, if it fits there.
    fn rank(&mut self, ordered: &mut Ordered, class: &Class, ix: ClassIx) -> Option<Rank> {
        let cpu_left = class.key.cpu_milli.checked_sub(ordered.kind.cpu_milli)?;
        let mut level = 0;
        let mut waste = 0;
        let after = if ordered.kind.count == 0 {
            match class.key.board {
                Some(board) => self.tables.node(board, cpu_left, class.free, &class.rest),
                None => self.tables.bare(cpu_left),
            }
        } else {
            let board = class.key.board?;
            match ordered.kind.part_on(board)? {
                Part::Whole => {
                    let free = class.free.checked_sub(usize::from(ordered.kind.count))?;
                    if let Some((tree, mask)) = class.key.topology {
                        let tree = &self.topologies[usize::from(tree)];
                        level = tree.tightest(mask, ordered.kind.count.into())?.0;
                    }
                    self.tables.node(board, cpu_left, free, &class.rest)
                }
                part => {
                    let mut after = 0;
                    self.ways(ordered, class, part, cpu_left, |way, value| {
                        waste += way.1.waste;
                        after = value;
                    })?;
                    after
                }
            }
        };
        let loss = (class.value - after + (1 << (VALUE_BITS - 1))) >> VALUE_BITS;
        let loss = if crate::price::exp(0) != 0 {
            (class.value - after) >> (8 - crate::price::exp(0))
        } else {
            loss
        };
        let waste = if crate::price::exp(1) == 1 { 0 } else { waste };
        Some((loss, level, waste, cpu_left, class.mark, ix))
    }

    /// Chooses a way for each part of a kind on a node of the class, one part after the other,
    /// and tells each with the value of the node after it. Shares go to different GPUs; slices
    /// may follow each other on one.
    fn ways(
        &mut self,
        ordered: &mut Ordered,
        class: &Class,
        part: Part,
        cpu_left: u32,
        mut tell: impl FnMut(&Way, i32),
    ) -> Option<()> {
        let board = class.key.board?;
        let mut gpus = class.key.gpus.clone();
        let mut changed: Vec<(StateIx, Gpu)> = Vec::new();
        let (mut free, mut rest) = (class.free, class.rest);
        let _ = &mut changed;
        for _ in 0..ordered.kind.count {
            let stay = self.tables.lanes(board, cpu_left, free, &rest);
            let open = (free > 0).then(|| self.tables.lanes(board, cpu_left, free - 1, &rest));
            let mut best: Option<(i32, i64, usize, Step)> = None;
            for at in 0..gpus.len() {
                if at > 0 && gpus[at] == gpus[at - 1] {
                    continue;
                }
                let state = self.states.get(gpus[at]);
                let is_free = state.gpu == Gpu::Free;
                let (lanes, less) = match &open {
                    Some(open) if is_free => (open, &[0; LANES]),
                    _ => (&stay, self.tables.cell(board, state.cell)),
                };
                for step in ordered.steps(gpus[at], part, self) {
                    let value = least(lanes, less, self.tables.cell(board, step.cell));
                    let loss = (class.value - value + (1 << (VALUE_BITS - 1))) >> VALUE_BITS;
                    let better =
                        best.is_none_or(|(l, waste, _, _)| (loss, step.waste) < (l, waste));
                    if better {
                        best = Some((loss, step.waste, at, *step));
                    }
                }
            }
            let (_, _, at, step) = best?;
            let state = self.states.get(gpus[at]);
            let cell = self.tables.cell(board, step.cell);
            if state.gpu == Gpu::Free {
                free -= 1;
            } else {
                let less = self.tables.cell(board, state.cell);
                (0..LANES).for_each(|lane| rest[lane] -= less[lane]);
            }
            (0..LANES).for_each(|lane| rest[lane] += cell[lane]);
            tell(
                &(gpus[at], step),
                self.tables.node(board, cpu_left, free, &rest),
            );
            gpus.remove(at);
        }
        Some(())
    }

    /// The GPUs and starts for a kind on a node of the class.
    fn parts(&mut self, ordered: &mut Ordered, class: &Class, node: &Node) -> Vec<Placed> {
        let count = ordered.kind.count;
        let Some(part) = class
            .key
            .board
            .and_then(|board| ordered.kind.part_on(board))
        else {
            return Vec::new();
        };
        let after = Gpu::Shared {
            units: 0,
            memory_mib: 0,
        };
        if part == Part::Whole {
            let tree = &self.topologies[usize::from(node.topology)];
            let flat = Topology::default();
            let tree = if node.topology == 0 { &flat } else { tree };
            let mask = tree.tightest(node.free_mask(self.states), count.into());
            let mask = mask.map_or(0, |(_, mask)| mask);
            let gpus = (0..32u8).filter(|gpu| mask >> gpu & 1 == 1);
            return gpus
                .map(|gpu| Placed {
                    gpu,
                    start: 0,
                    after,
                })
                .collect();
        }
        let mut parts: Vec<Placed> = Vec::new();
        let cpu_left = class.key.cpu_milli - ordered.kind.cpu_milli;
        let _ = self.ways(ordered, class, part, cpu_left, |(state, step), _| {
            let taken = |gpu: usize| parts.iter().any(|p| usize::from(p.gpu) == gpu);
            let gpu = (0..node.gpus.len()).find(|g| node.gpus[*g] == Some(*state) && !taken(*g));
            let gpu = gpu.unwrap_or(0) as u8;
            parts.push(Placed {
                gpu,
                start: step.start,
                after: step.after,
            });
        });
        parts
    }
}

impl Ordered {
    fn steps(&mut self, state: StateIx, part: Part, scale: &Scale) -> &[Step] {
        let at = state as usize;
        if self.steps.len() <= at {
            self.steps.resize(scale.states.len(), None);
        }
        self.steps[at]
            .get_or_insert_with(|| scale.states.steps(state, part, scale.boards, scale.tables))
    }
}

impl Node {
    /// The GPUs that nobody uses, one bit each.
    pub fn free_mask(&self, states: &States) -> u32 {
        let free = |gpu: &Option<StateIx>| gpu.is_some_and(|gpu| states.gpu(gpu) == Gpu::Free);
        let gpus = self.gpus.iter().enumerate();
        gpus.filter(|(_, gpu)| free(gpu))
            .fold(0, |mask, (ix, _)| mask | 1 << ix)
    }
}

/// The least of `lanes − less + more`.
fn least(lanes: &Lanes, less: &Lanes, more: &Lanes) -> i32 {
    let mut least = i32::MAX;
    for lane in 0..LANES {
        least = least.min(lanes[lane] - less[lane] + more[lane]);
    }
    least
}

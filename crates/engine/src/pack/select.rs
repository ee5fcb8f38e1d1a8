//! For each kind, the classes in order of the loss of placing it there.

use super::class::{Class, ClassIx, Classes, Glance};
use super::moves::{FULL, StateIx, States, Step, cell};
use super::node::{Choice, Node, NodeIx, Placed};
use super::{Pack, Topology};
use crate::price::{Board, BoardIx, Gpu, Kind, LANES, Lanes, Part, Tables, VALUE_BITS};
use cleave_model::units::GPU;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Index of a kind that can be asked for.
pub type KindIx = u32;

/// What classes are ordered by: (loss in 1/16 milli-GPU, level of the set of GPUs, CPU left, mark,
/// class).
type Rank = (i32, u8, u32, u64, ClassIx);

/// Of equally good classes, so many are compared by waste: those with least CPU left.
const CONTENDERS: usize = 16;

/// What came of looking at a class.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    On,
    /// It has no nodes any more.
    Gone,
    /// It and all after it are no better than what was found.
    Enough,
}

/// The kinds and their orders of classes.
#[derive(Debug, Default)]
pub(super) struct Selector {
    known: BTreeMap<Kind, KindIx>,
    kinds: Vec<Ordered>,
}

/// A kind with the classes in order.
#[derive(Debug)]
struct Ordered {
    kind: Kind,
    /// What the kind takes of each board.
    parts: Vec<Option<Part>>,
    /// How many of the classes' arrivals, open and shut, are in `front` and `rest`.
    seen: (usize, usize),
    /// The best classes in order, with the rise of waste where it was asked for.
    front: BTreeMap<Rank, Option<i64>>,
    /// The others, none better than any of `front`.
    rest: BinaryHeap<Reverse<Rank>>,
    /// The ways to place one part on a GPU, by state.
    steps: Vec<Option<Vec<Step>>>,
}

impl Selector {
    pub fn kind(&self, kind: KindIx) -> &Kind {
        &self.kinds[kind as usize].kind
    }

    /// Forgets all orders: the prices are new.
    pub fn forget(&mut self) {
        for ordered in &mut self.kinds {
            ordered.seen = (0, 0);
            ordered.front.clear();
            ordered.rest.clear();
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
        let boards = 0..self.boards.len() as BoardIx;
        self.selector.kinds.push(Ordered {
            kind: kind.clone(),
            parts: boards.map(|board| kind.part_on(board)).collect(),
            seen: (0, 0),
            front: BTreeMap::new(),
            rest: BinaryHeap::new(),
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
        let shut = match ordered.kind.count {
            0 => &classes.arrivals.shut[..],
            _ => &[],
        };
        let open = &classes.arrivals.open[..];
        let new = open[ordered.seen.0..].iter().chain(&shut[ordered.seen.1..]);
        ordered.seen = (open.len(), shut.len());
        for class in new {
            if !ordered.may_fit(classes.glance(*class)) {
                continue;
            }
            if let Some(rank) = scale.rank(ordered, classes, *class) {
                match ordered.front.last_key_value() {
                    Some((last, _)) if rank < *last => {
                        ordered.front.insert(rank, None);
                    }
                    _ => ordered.rest.push(Reverse(rank)),
                }
            }
        }
        let fits = |ix: &NodeIx| {
            let Some(Some(node)) = nodes.get(*ix as usize) else {
                return false;
            };
            node.memory_bytes >= memory_bytes && node.pods > 0 && accept(*ix, node.hard)
        };
        // (rise of waste, rank, node) of equally good classes.
        let mut contenders: Vec<(i64, Rank, NodeIx)> = Vec::new();
        let mut look = |ordered: &mut Ordered, rank: &Rank, waste: &mut Option<i64>| {
            let best = contenders.first().map(|(_, best, _)| (best.0, best.1));
            if contenders.len() == CONTENDERS || best.is_some_and(|best| best < (rank.0, rank.1)) {
                return Look::Enough;
            }
            let glance = classes.glance(rank.4);
            if glance.nodes == 0 || contenders.last().is_some_and(|last| last.1 == *rank) {
                return Look::Gone;
            }
            let first = Some(glance.first).filter(fits);
            let others = || {
                let others = (glance.nodes > 1).then(|| &classes.get(rank.4).others);
                others.into_iter().flatten().copied().find(fits)
            };
            if let Some(node) = first.or_else(others) {
                let waste = *waste.get_or_insert_with(|| scale.waste(ordered, classes.get(rank.4)));
                contenders.push((waste, *rank, node));
            }
            Look::On
        };
        let (mut gone, mut more) = (Vec::new(), Vec::new());
        let mut front = std::mem::take(&mut ordered.front);
        let mut last = Look::On;
        for (rank, waste) in &mut front {
            last = look(ordered, rank, waste);
            match last {
                Look::On => {}
                Look::Gone => gone.push(*rank),
                Look::Enough => break,
            }
        }
        while last != Look::Enough
            && let Some(Reverse(rank)) = ordered.rest.pop()
        {
            let mut waste = None;
            last = look(ordered, &rank, &mut waste);
            if last != Look::Gone {
                more.push((rank, waste));
            }
        }
        for rank in gone {
            front.remove(&rank);
        }
        front.extend(more);
        ordered.front = front;
        let (_, (loss, .., class), ix) = contenders.into_iter().min()?;
        let node = nodes[ix as usize].as_ref()?;
        let parts = scale.parts(ordered, classes.get(class), node);
        Some(Choice {
            node: ix,
            parts,
            loss: loss >> 4,
        })
    }

    /// What [`Pack::best`] answers if no other nodes were there: better where they are few.
    pub fn best_among(
        &mut self,
        among: impl IntoIterator<Item = NodeIx>,
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
        let mut ranks: Vec<(Rank, NodeIx)> = Vec::new();
        for ix in among {
            let Some(Some(node)) = nodes.get(ix as usize) else {
                continue;
            };
            if node.memory_bytes < memory_bytes || node.pods == 0 || !accept(ix, node.hard) {
                continue;
            }
            let rank = scale.rank(ordered, classes, node.class);
            ranks.extend(rank.map(|rank| (rank, ix)));
        }
        ranks.sort_unstable();
        ranks.dedup_by_key(|(rank, _)| rank.4);
        let first = ranks.first()?.0;
        ranks.retain(|(rank, _)| (rank.0, rank.1) == (first.0, first.1));
        ranks.truncate(CONTENDERS);
        let waste =
            |(rank, ix): (Rank, NodeIx)| (scale.waste(ordered, classes.get(rank.4)), rank, ix);
        let (_, (loss, .., class), ix) = ranks.into_iter().map(waste).min()?;
        let node = nodes[ix as usize].as_ref()?;
        let parts = scale.parts(ordered, classes.get(class), node);
        Some(Choice {
            node: ix,
            parts,
            loss: loss >> 4,
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
    fn rank(&mut self, ordered: &mut Ordered, classes: &Classes, ix: ClassIx) -> Option<Rank> {
        let (class, glance) = (classes.get(ix), classes.glance(ix));
        let cpu_left = class.key.cpu_milli.checked_sub(ordered.kind.cpu_milli)?;
        let mut level = 0;
        let after = if ordered.kind.count == 0 {
            match class.key.board {
                Some(board) if !glance.is_shut() => {
                    self.tables.node(board, cpu_left, class.free, &class.rest)
                }
                // GPUs that take nothing more are worth nothing.
                _ => self.tables.bare(cpu_left),
            }
        } else {
            let board = class.key.board?;
            match ordered.parts[usize::from(board)]? {
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
                    self.ways(ordered, class, part, cpu_left, |_, _, value| after = value)?;
                    after
                }
            }
        };
        let loss = loss(class.value, after);
        Some((loss, level, cpu_left, class.key.mark, ix))
    }

    /// The rise of waste where a kind goes to a node of the class, in which it fits.
    fn waste(&mut self, ordered: &mut Ordered, class: &Class) -> i64 {
        let Some(board) = class.key.board else {
            return 0;
        };
        let count = usize::from(ordered.kind.count);
        let part = ordered.parts[usize::from(board)];
        let cpu_left = class.key.cpu_milli - ordered.kind.cpu_milli;
        let gap = |gpu: &StateIx| room_for_shares(self.states.gpu(*gpu));
        let before: Vec<u32> = class.key.gpus.iter().map(gap).collect();
        let mut after = before.clone();
        match part.filter(|_| count > 0) {
            None => {}
            Some(Part::Whole) => {
                let whole = after.iter_mut().filter(|gap| **gap == GPU);
                whole.take(count).for_each(|gap| *gap = 0);
            }
            Some(part) => {
                let mut slices = 0;
                let _ = self.ways(ordered, class, part, cpu_left, |at, step, _| {
                    after[at] = room_for_shares(step.after);
                    slices += step.waste;
                });
                if matches!(part, Part::Slice(_)) {
                    return slices;
                }
            }
        }
        let rise = |cpu, gaps: &[u32]| self.states.fragments(board, cpu, gaps);
        rise(cpu_left, &after) - rise(class.key.cpu_milli, &before)
    }

    /// Chooses a step for each part of a kind on a node of the class, one part after the other,
    /// and tells each with its GPU (as a place in the class's list) and the value of the node
    /// after it. Shares go to different GPUs; slices may follow each other on one.
    fn ways(
        &mut self,
        ordered: &mut Ordered,
        class: &Class,
        part: Part,
        cpu_left: u32,
        mut tell: impl FnMut(usize, &Step, i32),
    ) -> Option<()> {
        let board = class.key.board?;
        let many = ordered.kind.count > 1 && matches!(part, Part::Slice(_));
        let (mut free, mut rest) = (class.free, class.rest);
        // What each GPU has become; nothing more goes on `None`.
        let mut gpus: Vec<Option<Gpu>> = Vec::new();
        let mut room: Vec<u16> = Vec::new();
        if ordered.kind.count > 1 {
            gpus.extend(class.key.gpus.iter().map(|gpu| Some(self.states.gpu(*gpu))));
            for gpu in &class.key.gpus {
                let steps = ordered.steps(*gpu, part, many, self).iter();
                room.push(steps.map(|step| step.more + 1).max().unwrap_or(0));
            }
        }
        for left in (0..ordered.kind.count).rev() {
            let stay = self.tables.lanes(board, cpu_left, free, &rest);
            let open = (free > 0).then(|| self.tables.lanes(board, cpu_left, free - 1, &rest));
            let all_room: u16 = room.iter().sum();
            let mut best: Option<(i32, i64, usize, Step)> = None;
            for (at, state) in class.key.gpus.iter().enumerate() {
                let first = self.states.get(*state);
                let gpu = gpus.get(at).copied().unwrap_or(Some(first.gpu));
                let twin = at > 0 && class.key.gpus[at - 1] == *state;
                if gpu.is_none() || twin && gpus.get(at - 1).is_none_or(|before| *before == gpu) {
                    continue;
                }
                let changed = gpu.filter(|gpu| *gpu != first.gpu);
                let (lanes, less) = match (&open, changed) {
                    (_, Some(gpu)) => (&stay, self.cell(board, gpu)),
                    (Some(open), None) if first.gpu == Gpu::Free => (open, &[0; LANES]),
                    _ => (&stay, self.tables.cell(board, first.cell)),
                };
                let fresh: Vec<Step>;
                let steps = match changed {
                    None => ordered.steps(*state, part, many, self),
                    Some(gpu) => {
                        fresh = self.steps((board, gpu), part, many);
                        &fresh
                    }
                };
                for step in steps {
                    if left > 0 && all_room - room[at] + step.more < left {
                        continue;
                    }
                    let value = least(lanes, less, self.tables.cell(board, step.cell));
                    let loss = loss(class.value, value);
                    if best.is_none_or(|(least, waste, _, _)| (loss, step.waste) < (least, waste)) {
                        best = Some((loss, step.waste, at, *step));
                    }
                }
            }
            let (_, _, at, step) = best?;
            let first = self.states.get(class.key.gpus[at]);
            let before = gpus.get(at).copied().flatten().unwrap_or(first.gpu);
            if before == Gpu::Free {
                free -= 1;
            } else {
                let less = self.cell(board, before);
                (0..LANES).for_each(|lane| rest[lane] -= less[lane]);
            }
            let more = self.tables.cell(board, step.cell);
            (0..LANES).for_each(|lane| rest[lane] += more[lane]);
            tell(at, &step, self.tables.node(board, cpu_left, free, &rest));
            if ordered.kind.count > 1 {
                gpus[at] = many.then_some(step.after);
                room[at] = step.more;
            }
        }
        Some(())
    }

    /// The GPUs and starts for a kind on a node of the class.
    fn parts(&mut self, ordered: &mut Ordered, class: &Class, node: &Node) -> Vec<Placed> {
        let board = class.key.board;
        let Some(part) = board.and_then(|board| ordered.parts[usize::from(board)]) else {
            return Vec::new();
        };
        if part == Part::Whole {
            let flat = Topology::default();
            let tree = match node.topology {
                0 => &flat,
                tree => &self.topologies[usize::from(tree)],
            };
            let set = tree.tightest(node.free_mask(self.states), ordered.kind.count.into());
            let mask = set.map_or(0, |(_, mask)| mask);
            let whole = |gpu| Placed {
                gpu,
                start: 0,
                after: FULL,
            };
            return (0..32u8)
                .filter(|gpu| mask >> gpu & 1 == 1)
                .map(whole)
                .collect();
        }
        // The class lists the node's GPUs by state; equal ones by index.
        let usable = (0u8..).zip(&node.gpus);
        let mut gpus: Vec<(StateIx, u8)> =
            usable.filter_map(|(ix, gpu)| Some(((*gpu)?, ix))).collect();
        gpus.sort_unstable_by_key(|&(gpu, ix)| (self.states.gpu(gpu), ix));
        let mut parts: Vec<Placed> = Vec::new();
        let cpu_left = class.key.cpu_milli - ordered.kind.cpu_milli;
        let _ = self.ways(ordered, class, part, cpu_left, |at, step, _| {
            parts.push(Placed {
                gpu: gpus[at].1,
                start: step.start,
                after: step.after,
            });
        });
        parts
    }

    fn steps(&self, gpu: (BoardIx, Gpu), part: Part, many: bool) -> Vec<Step> {
        self.states.steps(gpu, part, many, self.boards, self.tables)
    }

    fn cell(&self, board: BoardIx, gpu: Gpu) -> &Lanes {
        self.tables
            .cell(board, cell(board, gpu, self.boards, self.tables))
    }
}

impl Ordered {
    /// Whether the kind may fit a class, at a glance.
    fn may_fit(&self, glance: &Glance) -> bool {
        if glance.nodes == 0 || glance.cpu_milli < self.kind.cpu_milli {
            return false;
        }
        let part = self.parts.get(usize::from(glance.board)).copied().flatten();
        self.kind.count == 0 || part.is_some_and(|part| glance.may_take(part, self.kind.count))
    }

    fn steps(&mut self, state: StateIx, part: Part, many: bool, scale: &Scale) -> &[Step] {
        let at = state as usize;
        if self.steps.len() <= at {
            self.steps.resize(scale.states.len(), None);
        }
        let from = scale.states.get(state);
        self.steps[at].get_or_insert_with(|| scale.steps((from.board, from.gpu), part, many))
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

/// What of a GPU shares may still take, in GPU units.
fn room_for_shares(gpu: Gpu) -> u32 {
    match gpu {
        Gpu::Free => GPU,
        Gpu::Shared { units, .. } => units,
        Gpu::Cut(_) => 0,
    }
}

/// The fall of a node's value in sixteenths of a milli-GPU.
fn loss(before: i32, after: i32) -> i32 {
    (before - after) >> (VALUE_BITS - 4)
}

/// The least of `lanes − less + more`.
fn least(lanes: &Lanes, less: &Lanes, more: &Lanes) -> i32 {
    let mut least = i32::MAX;
    for lane in 0..LANES {
        least = least.min(lanes[lane] - less[lane] + more[lane]);
    }
    least
}

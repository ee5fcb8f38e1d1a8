//! Every legal layout of a board, numbered once, with what can be added to it.
use super::legal::{self, Key, key};
use super::{Board, ProfileIx};
use crate::units::GPU;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// Number of a layout in its board's [`Layouts`]. Smaller numbers never hold more instances.
///
/// The numbers follow from the board's rows alone. They shift when rows change, so records name
/// instances, not numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LayoutId(pub u16);

impl LayoutId {
    /// The GPU without instances.
    pub const EMPTY: Self = Self(0);
}

/// An instance placed on a board's line of memory units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Instance {
    /// First memory unit.
    pub start: u8,
    /// Shape.
    pub profile: ProfileIx,
}

/// All layouts of one board as flat tables: a layout's answers are look-ups.
///
/// **The better layout.** Of two layouts that hold the same multiset of instances, the better one
/// keeps more open: the summed weight of all placements that could still be added, each alone.
/// Between equals, at the leftmost unit where something starts in only one of them, the better one
/// starts nothing. So single-unit slices fill the right half from its end (6, 5, 4 on 8 units)
/// while the left half, the only home of the half-board profile with most compute, stays clear.
#[derive(Clone, Debug)]
pub struct Layouts {
    /// Sorted, by (number of instances, key); a layout's number is its position.
    sets: Vec<(u8, Key)>,
    weights: Vec<u32>,
    /// By layout: its instances, and in parallel the layout left when that one goes.
    instances: Rows<Instance>,
    without: Vec<LayoutId>,
    /// By layout and profile: legal placements and where they lead, best first.
    placements: Rows<(u8, LayoutId)>,
    /// By layout and profile.
    room: Vec<u8>,
    /// By layout.
    used: Vec<u32>,
    best_fill: Vec<u32>,
    /// By layout: place in the order of better layouts, 0 the best.
    rank: Vec<u16>,
}

impl Layouts {
    /// Builds the tables of a checked board; takes about a millisecond.
    pub fn of(board: &Board) -> Self {
        let weights: Vec<u32> = board.indices().map(|ix| board.weight(ix)).collect();
        let mut sets = legal::enumerate(board).sets;
        sets.sort_unstable();
        let number = |set: (u8, Key)| sets.binary_search(&set).expect("parts of legal are legal");

        let mut instances = Rows::new(sets.len());
        let mut without = Vec::new();
        let mut edges = Vec::new();
        for (id, &(len, set)) in sets.iter().enumerate() {
            for start in 0..board.units {
                let Some(profile) = profile_at(set, start) else {
                    continue;
                };
                let less = number((len - 1, set & !key_mask(start)));
                instances.push(id, Instance { start, profile });
                without.push(LayoutId(less as u16));
                edges.push((less as u16, profile.0, start, LayoutId(id as u16)));
            }
        }
        instances.close();
        edges.sort_unstable();

        // An edge leads to a greater number, so walking them backwards finds its end settled.
        let (count, kinds) = (sets.len(), weights.len());
        let mut room = vec![0; count * kinds];
        let mut best_fill = vec![0; count];
        let mut open = vec![0; count];
        for &(from, profile, _, to) in edges.iter().rev() {
            let (from, to, profile) = (usize::from(from), usize::from(to.0), usize::from(profile));
            let weight = weights[profile];
            let alone = room[to * kinds + profile] + 1;
            room[from * kinds + profile] = alone.max(room[from * kinds + profile]);
            best_fill[from] = best_fill[from].max(best_fill[to] + weight);
            open[from] += u64::from(weight);
        }
        let used = (0..count)
            .map(|id| {
                instances
                    .row(id)
                    .iter()
                    .map(|i| weights[usize::from(i.profile.0)])
                    .sum()
            })
            .collect();

        let mut order: Vec<usize> = (0..count).collect();
        order.sort_unstable_by_key(|&id| (Reverse(open[id]), id));
        let mut rank = vec![0; count];
        for (place, &id) in order.iter().enumerate() {
            rank[id] = place as u16;
        }

        edges.sort_unstable_by_key(|&(from, profile, _, to)| {
            (from, profile, rank[usize::from(to.0)])
        });
        let mut placements = Rows::new(count * kinds);
        for (from, profile, start, to) in edges {
            placements.push(
                usize::from(from) * kinds + usize::from(profile),
                (start, to),
            );
        }
        placements.close();
        Self {
            weights,
            instances,
            without,
            placements,
            room,
            used,
            best_fill,
            rank,
            sets,
        }
    }

    /// Number of layouts, the empty one included.
    #[expect(
        clippy::len_without_is_empty,
        reason = "the empty layout is always there"
    )]
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// All layouts in order of their numbers, the empty one first.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = LayoutId> + use<> {
        (0..self.sets.len() as u16).map(LayoutId)
    }

    /// The layout of exactly these instances in any order; `None` if they may not stand together.
    pub fn find(&self, instances: &[Instance]) -> Option<LayoutId> {
        let mut set: Key = 0;
        for i in instances {
            let known = usize::from(i.profile.0) < self.weights.len();
            if !known || i.start >= legal::MAX_UNITS || profile_at(set, i.start).is_some() {
                return None;
            }
            set |= key(i.profile.0, i.start);
        }
        let len = u8::try_from(instances.len()).ok()?;
        let id = self.sets.binary_search(&(len, set)).ok()?;
        Some(LayoutId(id as u16))
    }

    /// The layout's instances from left to right.
    pub fn instances(&self, id: LayoutId) -> &[Instance] {
        self.instances.row(usize::from(id.0))
    }

    /// Legal placements of one more `profile` as (start, layout it leads to), best first.
    pub fn starts(&self, id: LayoutId, profile: ProfileIx) -> &[(u8, LayoutId)] {
        self.placements.row(self.cell(id, profile))
    }

    /// True if one more `profile` can be added.
    pub fn fits(&self, id: LayoutId, profile: ProfileIx) -> bool {
        !self.starts(id, profile).is_empty()
    }

    /// The placement of one more `profile` that leads to the best layout (see [`Layouts`]).
    pub fn best_start(&self, id: LayoutId, profile: ProfileIx) -> Option<(u8, LayoutId)> {
        self.starts(id, profile).first().copied()
    }

    /// The layout with an instance more; `None` if it may not be placed there.
    pub fn add(&self, id: LayoutId, profile: ProfileIx, start: u8) -> Option<LayoutId> {
        self.starts(id, profile)
            .iter()
            .find(|&&(s, _)| s == start)
            .map(|&(_, to)| to)
    }

    /// The layout with an instance less; `None` if it has no such instance.
    pub fn remove(&self, id: LayoutId, profile: ProfileIx, start: u8) -> Option<LayoutId> {
        let row = self.instances.range(usize::from(id.0));
        let gone = Instance { start, profile };
        row.into_iter()
            .find(|&at| self.instances.items[at] == gone)
            .map(|at| self.without[at])
    }

    /// Most instances of `profile` alone that can still be added.
    pub fn room(&self, id: LayoutId, profile: ProfileIx) -> u8 {
        self.room[self.cell(id, profile)]
    }

    /// Weight of one instance of `profile`, GPU units (see [`Board::weight`]).
    pub fn weight(&self, profile: ProfileIx) -> u32 {
        self.weights[usize::from(profile.0)]
    }

    /// Summed weight of the layout's instances, GPU units.
    pub fn used(&self, id: LayoutId) -> u32 {
        self.used[usize::from(id.0)]
    }

    /// Greatest summed weight of instances that can still be added together, GPU units.
    pub fn best_fill(&self, id: LayoutId) -> u32 {
        self.best_fill[usize::from(id.0)]
    }

    /// GPU units that no legal placement can use while the present instances stay: what is neither
    /// used nor part of the best fill. An empty GPU strands nothing, for it can be given whole.
    pub fn stranded(&self, id: LayoutId) -> u32 {
        match id {
            LayoutId::EMPTY => 0,
            id => GPU - self.used(id) - self.best_fill(id),
        }
    }

    /// True if nothing can be added.
    pub fn maximal(&self, id: LayoutId) -> bool {
        self.best_fill(id) == 0
    }

    /// Place of a layout in the order of what layouts keep open, 0 the best.
    pub fn rank(&self, id: LayoutId) -> usize {
        usize::from(self.rank[usize::from(id.0)])
    }

    /// True if `a` is the better of two layouts that hold the same multiset of instances (see
    /// [`Layouts`]); a strict total order.
    pub fn better(&self, a: LayoutId, b: LayoutId) -> bool {
        self.rank[usize::from(a.0)] < self.rank[usize::from(b.0)]
    }

    /// The best layout that adds the whole batch of (profile, count) to `id`; `None` if no legal
    /// placement of all exists. The search is exhaustive, and neither the batch's order nor how it
    /// is grouped matters. [`Layouts::missing`] tells the new instances.
    pub fn joint(&self, id: LayoutId, batch: &[(ProfileIx, u8)]) -> Option<LayoutId> {
        let asked = |&(profile, count): &(ProfileIx, u8)| -> u64 {
            u64::from(self.weight(profile)) * u64::from(count)
        };
        if batch.iter().map(asked).sum::<u64>() > u64::from(self.best_fill(id))
            || batch
                .iter()
                .any(|&(profile, count)| count > self.room(id, profile))
        {
            return None;
        }
        let mut batch = batch.to_vec();
        batch.sort_unstable_by_key(|&(profile, _)| (Reverse(self.weight(profile)), profile));
        // All layouts that hold the batch so far. Each is met once, however it was reached.
        let mut reached = vec![id];
        for (profile, count) in batch {
            for _ in 0..count {
                reached = reached
                    .iter()
                    .flat_map(|&from| self.starts(from, profile).iter().map(|&(_, to)| to))
                    .collect();
                reached.sort_unstable();
                reached.dedup();
            }
        }
        reached
            .into_iter()
            .min_by_key(|to| self.rank[usize::from(to.0)])
    }

    /// Instances of `target` that `from` lacks, left to right: what to create to get there. Swap
    /// the two for what to destroy first.
    pub fn missing(&self, from: LayoutId, target: LayoutId) -> impl Iterator<Item = Instance> {
        let have = self.sets[usize::from(from.0)].1;
        let wanted = self.instances(target).iter().copied();
        wanted.filter(move |i| profile_at(have, i.start) != Some(i.profile))
    }

    fn cell(&self, id: LayoutId, profile: ProfileIx) -> usize {
        debug_assert!(
            usize::from(profile.0) < self.weights.len(),
            "a profile of another board"
        );
        usize::from(id.0) * self.weights.len() + usize::from(profile.0)
    }
}

fn key_mask(start: u8) -> Key {
    key(u8::MAX - 1, start)
}

fn profile_at(set: Key, start: u8) -> Option<ProfileIx> {
    set.to_be_bytes()[usize::from(start)]
        .checked_sub(1)
        .map(ProfileIx)
}

/// Rows of uneven length in one array, filled in order.
#[derive(Clone, Debug)]
struct Rows<T> {
    /// Row `n` is `items[ends[n]..ends[n + 1]]`.
    ends: Vec<u32>,
    items: Vec<T>,
    rows: usize,
}

impl<T> Rows<T> {
    fn new(rows: usize) -> Self {
        Self {
            ends: Vec::with_capacity(rows + 1),
            items: Vec::new(),
            rows,
        }
    }

    /// Appends to `row`, which is the last one filled or a later one.
    fn push(&mut self, row: usize, item: T) {
        self.ends.resize(row + 1, self.items.len() as u32);
        self.items.push(item);
    }

    fn close(&mut self) {
        self.ends.resize(self.rows + 1, self.items.len() as u32);
    }

    fn range(&self, row: usize) -> std::ops::Range<usize> {
        self.ends[row] as usize..self.ends[row + 1] as usize
    }

    fn row(&self, row: usize) -> &[T] {
        &self.items[self.range(row)]
    }
}

//! The one rule of which instances may stand side by side, as an enumeration of all legal sets.
use super::{Board, Engines};

/// Most layouts a board may have, so that a layout's number fits 16 bits.
pub const MAX_LAYOUTS: usize = 65_000;

/// Most memory units a board may have: one byte each in a [`Key`].
pub(super) const MAX_UNITS: u8 = 16;

/// A set of instances: byte `start` from the most significant one is profile + 1, or 0 for none.
/// No two instances share a start, so every set has one key.
pub(super) type Key = u128;

/// The key of one instance alone.
pub(super) fn key(profile: u8, start: u8) -> Key {
    (Key::from(profile) + 1) << (8 * (MAX_UNITS - 1 - start))
}

/// What was found: all legal sets as (number of instances, key), in no order of meaning.
pub(super) struct Legal {
    pub sets: Vec<(u8, Key)>,
    /// Most compute slices that any set holds.
    pub compute: u32,
    /// True if the search ended at [`MAX_LAYOUTS`].
    pub truncated: bool,
}

/// Every set of instances in which none overlap, no profile exceeds its maximum and the media
/// engines suffice. A part of a legal set is legal, so each one can be reached from the empty one.
pub(super) fn enumerate(board: &Board) -> Legal {
    let starts = |ix: u8| {
        board.profiles[usize::from(ix)]
            .starts
            .iter()
            .map(move |&s| (s, ix))
    };
    let mut placements: Vec<_> = (0..board.profiles.len() as u8).flat_map(starts).collect();
    placements.sort_unstable();
    let mut search = Search {
        board,
        placements,
        counts: vec![0; board.profiles.len()],
        legal: Legal {
            sets: Vec::new(),
            compute: 0,
            truncated: false,
        },
    };
    let empty = Set {
        len: 0,
        key: 0,
        clear: 0,
        compute: 0,
        engines: Engines::default(),
    };
    search.extend(0, empty);
    search.legal
}

#[derive(Clone, Copy)]
struct Set {
    len: u8,
    key: Key,
    /// First unit after the last instance.
    clear: u8,
    compute: u32,
    engines: Engines,
}

struct Search<'a> {
    board: &'a Board,
    /// All (start, profile), from left to right.
    placements: Vec<(u8, u8)>,
    counts: Vec<u8>,
    legal: Legal,
}

impl Search<'_> {
    /// Adds `set` and all its extensions by placements `from` that one on.
    fn extend(&mut self, from: usize, set: Set) {
        if self.legal.sets.len() == MAX_LAYOUTS {
            self.legal.truncated = true;
            return;
        }
        self.legal.sets.push((set.len, set.key));
        self.legal.compute = self.legal.compute.max(set.compute);
        for at in from..self.placements.len() {
            let (start, ix) = self.placements[at];
            let profile = &self.board.profiles[usize::from(ix)];
            let engines = set.engines.plus(profile.engines);
            if start < set.clear
                || self.counts[usize::from(ix)] == profile.max
                || !engines.within(self.board.engines)
            {
                continue;
            }
            let more = Set {
                len: set.len + 1,
                key: set.key | key(ix, start),
                clear: start + profile.size,
                compute: set.compute + u32::from(profile.compute),
                engines,
            };
            self.counts[usize::from(ix)] += 1;
            self.extend(at + 1, more);
            self.counts[usize::from(ix)] -= 1;
            if self.legal.truncated {
                return;
            }
        }
    }
}

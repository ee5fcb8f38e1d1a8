//! Published rules for MIG slices on many equal boards, restated on layouts.
//!
//! All of them look at one GPU at a time and see nothing but its layout, so that a rule is a
//! table: for every layout and profile the start it takes and how much it likes the GPU.

use cleave_model::board::{Board, LayoutId, Layouts, ProfileIx};

/// A rule of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The first GPU that takes the slice, at its lowest start.
    FirstFit,
    /// The fullest GPU by memory units, at its lowest start.
    BestFit,
    /// Fragmentation gradient descent (Weng et al., USENIX ATC '23): where the memory units that
    /// a slice drawn from the mix cannot use grow least. All free units of a GPU are lost to a
    /// slice that does not fit on it; none is to one that does.
    Fgd,
    /// HAMi's score of starts (Project-HAMi/HAMi#2855): the largest free run that is left, then
    /// the most placements that stay legal; on the fullest GPU.
    Hami,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::FirstFit, Self::BestFit, Self::Fgd, Self::Hami];

    /// As reports call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FirstFit => "first-fit",
            Self::BestFit => "best-fit",
            Self::Fgd => "fgd",
            Self::Hami => "hami",
        }
    }
}

/// One board's layouts and the profiles that are asked for.
#[derive(Clone, Debug)]
pub struct Geometry {
    board: Board,
    layouts: Layouts,
    profiles: Vec<ProfileIx>,
}

/// Placements of each profile by layout; none where it does not fit.
#[derive(Clone, Debug)]
struct Table(Vec<Vec<Option<Placement>>>);

/// What a rule does with a profile on a GPU of some layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Placement {
    /// How much it likes that GPU; the first of those it likes best is taken.
    liking: i64,
    start: u8,
    after: LayoutId,
}

/// What was placed, in the three ways to look at it, as a part of all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Filled {
    /// Memory units, %.
    pub memory: f64,
    /// Compute slices, %.
    pub compute: f64,
    /// Weight (half compute share, half memory share), %.
    pub weight: f64,
}

impl Geometry {
    /// The profiles are told by their places in the slice from here on.
    pub fn new(board: Board, profiles: Vec<ProfileIx>) -> Self {
        let layouts = Layouts::of(&board);
        Self {
            board,
            layouts,
            profiles,
        }
    }

    /// The board.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// Its layouts.
    pub fn layouts(&self) -> &Layouts {
        &self.layouts
    }

    /// The profiles asked for.
    pub fn profiles(&self) -> &[ProfileIx] {
        &self.profiles
    }

    /// How full `gpus` boards are with so many slices of each profile.
    pub fn filled(&self, gpus: usize, counts: &[u64]) -> Filled {
        let sum = |of: &dyn Fn(ProfileIx) -> u64, whole: u64| {
            let all = self.profiles.iter().zip(counts);
            let taken: u64 = all.map(|(&profile, count)| count * of(profile)).sum();
            taken as f64 * 100.0 / (whole * gpus as u64) as f64
        };
        let board = &self.board;
        Filled {
            memory: sum(&|p| board.at(p).size.into(), board.units.into()),
            compute: sum(&|p| board.at(p).compute.into(), board.compute.into()),
            weight: sum(&|p| board.weight(p).into(), cleave_model::GPU.into()),
        }
    }

    /// Which memory units are taken, as bits.
    fn taken(&self, layout: LayoutId) -> u32 {
        let mask =
            |start: u8, profile: ProfileIx| ((1u32 << self.board.at(profile).size) - 1) << start;
        let instances = self.layouts.instances(layout).iter();
        instances.fold(0, |taken, i| taken | mask(i.start, i.profile))
    }

    fn free_units(&self, layout: LayoutId) -> i64 {
        i64::from(self.board.units) - i64::from(self.taken(layout).count_ones())
    }

    /// Length of the longest run of free memory units.
    fn longest_run(&self, layout: LayoutId) -> i64 {
        let taken = self.taken(layout);
        let (mut run, mut longest) = (0, 0);
        for unit in 0..self.board.units {
            run = if taken >> unit & 1 == 0 { run + 1 } else { 0 };
            longest = longest.max(run);
        }
        longest
    }

    /// Placements that are legal, over all profiles asked for.
    fn survivors(&self, layout: LayoutId) -> i64 {
        let starts = |&profile| self.layouts.starts(layout, profile).len() as i64;
        self.profiles.iter().map(starts).sum()
    }

    /// Free units times the part of the mix that cannot use them.
    fn fragmented(&self, layout: LayoutId, mix: &[u64]) -> i64 {
        let all = self.profiles.iter().zip(mix);
        let lost = all.filter(|(profile, _)| !self.layouts.fits(layout, **profile));
        lost.map(|(_, &share)| share as i64 * self.free_units(layout))
            .sum()
    }

    fn table(&self, rule: Rule, mix: &[u64]) -> Table {
        let used = |layout| -self.free_units(layout);
        let best = |before: LayoutId, profile: ProfileIx| {
            let starts = self.layouts.starts(before, profile).iter();
            let judged = starts.map(|&(start, after)| {
                let grown = || self.fragmented(after, mix) - self.fragmented(before, mix);
                let (liking, by_start) = match rule {
                    Rule::FirstFit => (0, (0, 0)),
                    Rule::BestFit => (used(before), (0, 0)),
                    Rule::Fgd => (-grown(), (-grown(), 0)),
                    Rule::Hami => {
                        let left = (self.longest_run(after), self.survivors(after));
                        (used(before), left)
                    }
                };
                let placement = Placement {
                    liking,
                    start,
                    after,
                };
                (by_start, std::cmp::Reverse(start), placement)
            });
            judged
                .max_by_key(|&(by_start, low, _)| (by_start, low))
                .map(|(.., placement)| placement)
        };
        let row = |layout| self.profiles.iter().map(|&p| best(layout, p)).collect();
        Table(self.layouts.ids().map(row).collect())
    }

    /// Slices placed of each profile when `arrivals` (places in the profiles) come to so many
    /// empty GPUs and go where the rule says; `mix` is what FGD expects.
    pub fn run(&self, rule: Rule, gpus: usize, mix: &[u64], arrivals: &[usize]) -> Vec<u64> {
        let table = self.table(rule, mix);
        let mut fleet = vec![LayoutId::EMPTY; gpus];
        let mut placed = vec![0; self.profiles.len()];
        for &profile in arrivals {
            let mut best: Option<(usize, Placement)> = None;
            for (gpu, layout) in fleet.iter().enumerate() {
                let Some(here) = table.0[usize::from(layout.0)][profile] else {
                    continue;
                };
                if best.is_none_or(|(_, there)| here.liking > there.liking) {
                    best = Some((gpu, here));
                }
            }
            if let Some((gpu, placement)) = best {
                fleet[gpu] = placement.after;
                placed[profile] += 1;
            }
        }
        placed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cleave_model::board::{Catalogue, Instance};

    const NAMES: [&str; 6] = [
        "1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb",
    ];

    fn h100() -> Geometry {
        super::super::mixes::geometry()
    }

    /// A layout by (profile, start).
    fn layout(of: &Geometry, instances: &[(usize, u8)]) -> LayoutId {
        let instances: Vec<_> = (instances.iter())
            .map(|&(profile, start)| Instance {
                start,
                profile: of.profiles[profile],
            })
            .collect();
        of.layouts.find(&instances).expect("legal")
    }

    #[test]
    fn measures_by_hand() {
        let h100 = h100();
        let names: Vec<_> = (h100.profiles().iter())
            .map(|&p| h100.board().at(p).name.as_str())
            .collect();
        assert_eq!(names, NAMES);
        assert!(Catalogue::builtin().find("H100-80GB-SXM").is_ok());
        for (instances, free, run, survivors) in [
            // Starts of the six profiles: 7 + 4 + 3 + 2 + 1 + 1.
            (&[][..], 8, 8, 18),
            // 1g at 6: 6 of 1g, three of 1g.20gb, 2g all, 3g at 0, 4g.
            (&[(0, 6)], 7, 6, 6 + 3 + 3 + 1 + 1),
            (&[(0, 0)], 7, 7, 6 + 3 + 2 + 1),
            // 3g at 0 and at 4: nothing is free.
            (&[(3, 0), (3, 4)], 0, 0, 0),
            // 4g at 0, 1g at 5: 1g at 4 and 6, 1g.20gb at 6.
            (&[(4, 0), (0, 5)], 3, 2, 2 + 1),
        ] {
            let layout = layout(&h100, instances);
            let got = (
                h100.free_units(layout),
                h100.longest_run(layout),
                h100.survivors(layout),
            );
            assert_eq!(got, (free, run, survivors), "{instances:?}");
        }
        // 5 of 12 want 1g.10gb, 7 want 4g: with a 1g at 0 only the 4g find no use for 7 units.
        let mix = [5, 0, 0, 0, 7, 0];
        assert_eq!(h100.fragmented(layout(&h100, &[(0, 0)]), &mix), 7 * 7);
        assert_eq!(h100.fragmented(layout(&h100, &[(0, 6)]), &mix), 0);
        let full = h100.filled(2, &[0, 0, 0, 2, 0, 1]);
        assert_eq!(full.memory, 100.0);
        assert!((full.compute - 13.0 / 14.0 * 100.0).abs() < 1e-9);
        assert!((full.weight - (2.0 * 390.0 + 840.0) / 16.8).abs() < 1e-9);
    }

    /// What each rule does with one slice on a GPU that stands in some layout.
    #[test]
    fn starts_by_hand() {
        let h100 = h100();
        let mix = [5, 0, 0, 0, 7, 0];
        let start = |rule, before: &[(usize, u8)], profile: usize| {
            let table = h100.table(rule, &mix);
            table.0[usize::from(layout(&h100, before).0)][profile].map(|p| p.start)
        };
        for (rule, before, profile, expected) in [
            (Rule::FirstFit, &[][..], 0, Some(0)),
            (Rule::BestFit, &[], 0, Some(0)),
            (Rule::BestFit, &[(0, 0)], 2, Some(2)),
            // At 4, 5 and 6 the 4g keeps its home: the lowest of them.
            (Rule::Fgd, &[], 0, Some(4)),
            // A run of 7 units is left only by a start at 0.
            (Rule::Hami, &[], 0, Some(0)),
            // 1g.20gb at 0 or 6 leaves runs of 6; at 6 more placements stay legal.
            (Rule::Hami, &[], 1, Some(6)),
            (Rule::Hami, &[(5, 0)], 0, None),
        ] {
            assert_eq!(
                start(rule, before, profile),
                expected,
                "{rule:?} {before:?}"
            );
        }
    }

    /// Which GPU each rule takes.
    #[test]
    fn choices_by_hand() {
        let h100 = h100();
        let mix = [1, 1, 1, 1, 1, 1];
        // A 4g, then a 7g, then a 1g.
        let arrivals = [4, 5, 0, 5];
        for rule in Rule::ALL {
            let placed = h100.run(rule, 2, &mix, &arrivals);
            assert_eq!(placed, [1, 0, 0, 0, 1, 1], "{rule:?}");
        }
        // 2g on the first GPU, 4g on the second, then a 1g: beside the 4g it blocks the home of
        // a 3g, of which two come next.
        let mix = [0, 0, 0, 1, 0, 0];
        for (rule, expected) in [
            (Rule::FirstFit, 2),
            (Rule::BestFit, 1),
            (Rule::Fgd, 2),
            (Rule::Hami, 1),
        ] {
            let placed = h100.run(rule, 2, &mix, &[2, 4, 0, 3, 3]);
            assert_eq!(placed[3], expected, "{rule:?}");
        }
    }
}

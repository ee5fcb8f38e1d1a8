//! Boards: those that the file describes, and names that mean one.

use super::{Converter, Known, unknown};
use crate::ast::cluster;
use crate::place::{At, Place};
use crate::quantity::Memory;
use cleave_model::{
    Name,
    board::{Board, Engines, ModeChange, Profile, ProfileName},
};
use std::collections::BTreeSet;

impl Converter {
    /// Puts the file's boards into the catalogue.
    pub(super) fn boards(&mut self, boards: &[cluster::Board]) -> Vec<Board> {
        let mut known = Known::new();
        let mut made = Vec::new();
        for keys in boards {
            let place = keys.name.place;
            let Some(name) = self.name(place, &keys.name.value) else {
                continue;
            };
            if !Self::define(self, &mut known, "board", &name, place) {
                continue;
            }
            let board = self.board(keys);
            let inserted = self.catalogue.insert(board.clone());
            made.extend(self.take(place, inserted).map(|_| board));
        }
        made.sort_by(|a, b| a.name.cmp(&b.name));
        made
    }

    fn board(&mut self, keys: &cluster::Board) -> Board {
        let units = keys.units.or(1);
        let name = keys.name.value.clone();
        let profiles: Vec<_> = keys.profiles.iter().zip(0u16..).collect();
        let profiles = profiles
            .into_iter()
            .map(|(p, at)| self.profile(p, at))
            .collect();
        let mode = match keys.profiles.is_empty() {
            true => ModeChange::Never,
            false => ModeChange::Live,
        };
        Board {
            family: keys.family.get().unwrap_or(&name).clone(),
            name,
            aliases: keys.aliases.clone(),
            memory_mib: self.mib(keys.memory.place, keys.memory.value),
            units,
            compute: keys.compute.or(units),
            engines: engines(keys.engines),
            mode_change: keys.mode_change.or(mode),
            profiles,
        }
    }

    fn profile(&mut self, keys: &cluster::Profile, at: u16) -> Profile {
        let name = &keys.name.value;
        let compute = ProfileName::parse(name).map_or(1, |parts| parts.compute);
        let size = keys.size.or(1);
        let mut starts = keys.starts.value.clone();
        starts.sort_unstable();
        // The earliest start clear of the last instance packs the most.
        let (mut most, mut clear) = (0u8, 0u8);
        for &start in &starts {
            if start >= clear {
                (most, clear) = (most.saturating_add(1), start.saturating_add(size));
            }
        }
        Profile {
            name: name.clone(),
            compute,
            size,
            memory_mib: self.mib(keys.memory.place, keys.memory.value),
            starts,
            max: keys.max.or(most),
            engines: engines(keys.engines),
            gi_profile: keys.gi_profile.or(at),
            sm: keys.sm.get().copied(),
        }
    }

    /// GPU memory in MiB, rounded up.
    pub(super) fn mib(&mut self, place: Place, memory: Memory) -> u32 {
        match u32::try_from(memory.mib()) {
            Ok(mib) if mib > 0 => mib,
            _ => {
                self.fail(
                    place,
                    format!("{memory} is no memory of a GPU: write like 80GiB"),
                );
                1
            }
        }
    }

    /// The canonical name of exactly one board.
    pub(super) fn exact_board(&mut self, at: &At<String>) -> Option<Name> {
        if let Ok(id) = self.catalogue.find(&at.value) {
            let name = self.catalogue.board(id).name.clone();
            return self.name(at.place, &name);
        }
        let ids = self.catalogue.answering(&at.value);
        let family: Vec<_> = ids
            .map(|id| self.catalogue.board(id).name.clone())
            .collect();
        let message = if family.is_empty() {
            let all: Vec<_> = self.board_names();
            unknown("board", &at.value, all.iter().map(String::as_str))
        } else {
            format!(
                "`{}` is a family of boards: write one of {}",
                at.value,
                family.join(", ")
            )
        };
        self.fail(at.place, message);
        None
    }

    /// Names, aliases and families of all boards.
    pub(super) fn board_names(&self) -> Vec<String> {
        let boards = self.catalogue.ids().map(|id| self.catalogue.board(id));
        let names = boards.flat_map(|b| {
            [&b.name, &b.family]
                .into_iter()
                .chain(&b.aliases)
                .cloned()
                .collect::<Vec<_>>()
        });
        let mut seen = BTreeSet::new();
        names.filter(|name| seen.insert(name.clone())).collect()
    }
}

fn engines(keys: cluster::Engines) -> Engines {
    let cluster::Engines {
        decoders,
        encoders,
        jpegs,
        flows,
    } = keys;
    Engines {
        decoders,
        encoders,
        jpegs,
        flows,
    }
}

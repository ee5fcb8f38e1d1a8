//! Workers that run from the start: where they are, and that they can be there together.

use super::{Converter, unknown};
use crate::ast::{File, work::Spots};
use crate::place::{At, Place};
use crate::range::Names;
use crate::scenario::{Held, Spot};
use cleave_model::{
    Name, WorkerId,
    ask::{Gpus, Part},
    board::Instance,
    node::Node,
    workload::Workload,
};
use std::collections::BTreeMap;

impl Converter {
    /// Gives the workers of the workloads their places in order.
    pub(super) fn held(&mut self, on: &At<Spots>, made: &[Workload]) -> Vec<Held> {
        let place = on.place;
        let mut spots = Vec::new();
        for spot in &on.value.0 {
            let names = spot.as_ref().map(|text| self.names(place, text));
            let Some(names) = names.map_or(Some(None), |names| names.map(Some)) else {
                return Vec::new();
            };
            spots.push(names);
        }
        let count = |names: &Option<Names>| names.as_ref().map_or(1, Names::count);
        let places = spots.iter().map(count).fold(0, u64::saturating_add);
        let workers: u64 = made.iter().map(|w| u64::from(w.workers())).sum();
        if made.is_empty() {
            return Vec::new();
        }
        if workers.checked_rem(places) != Some(0) {
            let message = format!("{places} places for {workers} workers: give each its own");
            self.fail(place, message);
            return Vec::new();
        }
        if !self.spend(place, workers) {
            return Vec::new();
        }
        let mut texts = Vec::new();
        for names in &spots {
            match names {
                None => texts.push(None),
                Some(names) => texts.extend(names.all().map(Some)),
            }
        }
        let mut texts = texts.iter().cycle();
        let mut held = Vec::new();
        for workload in made {
            for index in 0..workload.workers() {
                let Some(text) = texts.next().expect("a cycle of some never ends") else {
                    continue;
                };
                let (group, _) = workload.group_of(index).expect("an index below the sum");
                let gpus = group.ask.gpus.clone();
                let Some((node, spots)) = self.spots(place, text, gpus.as_ref()) else {
                    return held;
                };
                let worker = WorkerId {
                    workload: workload.name.clone(),
                    index,
                };
                held.push(Held {
                    worker,
                    node,
                    spots,
                });
            }
        }
        held
    }

    /// Reads `node`, `node/3`, `node/0-3`, `node/0@4,0@5`.
    fn spots(
        &mut self,
        place: Place,
        text: &str,
        gpus: Option<&Gpus>,
    ) -> Option<(Name, Vec<Spot>)> {
        if let Some((name, _)) = self.nodes.get_key_value(text) {
            return Some((name.clone(), Vec::new()));
        }
        let found = text.rsplit_once('/').and_then(|(node, list)| {
            self.nodes
                .get(node)
                .map(|node| (node.clone(), list.to_string()))
        });
        let Some((node, list)) = found else {
            let name = text.rsplit_once('/').map_or(text, |(node, _)| node);
            let message = unknown("node", name, self.nodes.keys().map(Name::as_str));
            self.fail(place, message);
            return None;
        };
        let Some(spots) = read_spots(&list) else {
            let message = format!("`{list}` names no GPUs: write like 3, 0-3, 0@4 or 0@4,0@5");
            self.fail(place, message);
            return None;
        };
        self.check_spots(place, &node, &spots, gpus)?;
        Some((node.name.clone(), spots))
    }

    fn check_spots(
        &mut self,
        place: Place,
        node: &Node,
        spots: &[Spot],
        gpus: Option<&Gpus>,
    ) -> Option<()> {
        let has = node.gpus.len();
        if let Some(spot) = spots.iter().find(|s| usize::from(s.gpu) >= has) {
            let message = format!("there is no GPU {}: `{}` has {has}", spot.gpu, node.name);
            self.fail(place, message);
            return None;
        }
        let wants = gpus.map_or(0, |g| g.count as usize);
        if spots.len() != wants {
            let named = spots.len();
            let message = format!("the place names {named} GPUs, but each worker asks for {wants}");
            self.fail(place, message);
            return None;
        }
        for spot in spots {
            let Some(start) = spot.start else { continue };
            let board = self
                .catalogue
                .find(node.gpus[usize::from(spot.gpu)].as_str())
                .ok()?;
            let board = self.catalogue.board(board).clone();
            if let Some(Part::Profile(name)) = gpus.map(|g| &g.part) {
                let ix = self.take(place, board.profile(name.as_str()))?;
                let starts = &board.at(ix).starts;
                if !starts.contains(&start) {
                    let message = format!("{name} on {} starts at {starts:?} only", board.name);
                    self.fail(place, message);
                    return None;
                }
            } else if matches!(gpus.map(|g| &g.part), Some(Part::Whole)) {
                self.fail(place, "a whole GPU starts nowhere: leave out `@`");
                return None;
            }
        }
        Some(())
    }

    /// No GPU may be given twice, and the slices that are named must stand together.
    pub(super) fn check_claims(&mut self, held: &[Held], file: &File) {
        let mut gpus: BTreeMap<(&Name, u8), Claims<'_>> = BTreeMap::new();
        for one in held {
            let Some(workload) = self.workloads.get(&one.worker.workload) else {
                continue;
            };
            let group = workload.group_of(one.worker.index);
            let Some(part) = group
                .and_then(|(g, _)| g.ask.gpus.as_ref())
                .map(|g| g.part.clone())
            else {
                continue;
            };
            for spot in &one.spots {
                let claims = gpus.entry((&one.node, spot.gpu)).or_default();
                let alone = part == Part::Whole;
                let mut clash = claims.last.is_some() && (alone || claims.whole);
                claims.whole |= alone;
                let beside = claims.last.replace(&one.worker.workload);
                if let (Part::Profile(name), Some(start)) = (&part, spot.start) {
                    let board = self.nodes[&one.node].gpus[usize::from(spot.gpu)].as_str();
                    let Ok(id) = self.catalogue.find(board) else {
                        continue;
                    };
                    let Ok(profile) = self.catalogue.board(id).profile(name.as_str()) else {
                        continue;
                    };
                    claims.instances.push(Instance { start, profile });
                    clash |= self.catalogue.layouts(id).find(&claims.instances).is_none();
                }
                if clash {
                    let place = place_of(file, &one.worker.workload);
                    let beside = beside.unwrap_or(&one.worker.workload);
                    let message = format!(
                        "`{}` can't be on {}/{} beside `{beside}`, put there at {}",
                        one.worker.workload,
                        one.node,
                        spot.gpu,
                        place_of(file, beside),
                    );
                    self.fail(place, message);
                    return;
                }
            }
        }
    }
}

/// What is put on one GPU so far.
#[derive(Default)]
struct Claims<'a> {
    whole: bool,
    instances: Vec<Instance>,
    last: Option<&'a Name>,
}

/// Where the file says on which nodes a workload runs.
fn place_of(file: &File, workload: &Name) -> Place {
    let entry = file.workloads.iter().find(|keys| {
        let names = Names::read(&keys.name.value);
        names.is_ok_and(|names| names.all().any(|name| *workload == *name.as_str()))
    });
    let place = entry.and_then(|keys| keys.on.at()).map(|at| at.place);
    place.unwrap_or(Place { line: 1, column: 1 })
}

/// Reads `3`, `0-3`, `0@4`, `0@4,0@5`.
fn read_spots(text: &str) -> Option<Vec<Spot>> {
    let mut spots = Vec::new();
    for part in text.split(',') {
        let (gpus, start) = match part.split_once('@') {
            Some((gpu, start)) => (gpu, Some(start.parse().ok()?)),
            None => (part, None),
        };
        let (from, to) = gpus.split_once('-').unwrap_or((gpus, gpus));
        let (from, to): (u8, u8) = (from.parse().ok()?, to.parse().ok()?);
        spots.extend((from..=to).map(|gpu| Spot { gpu, start }));
    }
    (!spots.is_empty()).then_some(spots)
}

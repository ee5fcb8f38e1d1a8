//! What should come of it.

use super::{Converter, Known};
use crate::ast::expect::{
    self as ast, Count, CountOrNames, Pending, When, WhereKeys, Which, WhichKeys,
};
use crate::forms::Many;
use crate::place::{At, Key, Place};
use crate::quantity::{GpuAmount, Memory};
use crate::reason::reason_code;
use crate::scenario::{Check, Demand, Expect, Holding, Set, Whereabouts};
use cleave_model::{Name, board::ProfileName};
use std::collections::BTreeMap;

/// More plans than this, over the same state, tell nothing more.
const MAX_PLANS: u32 = 1_000;

impl Converter {
    /// All expectations by time, each list in the order of the file.
    pub(super) fn expects(
        &mut self,
        expects: &[At<ast::Expect>],
        topology: &[Name],
    ) -> Vec<Expect> {
        let nodes = self
            .nodes
            .keys()
            .map(|n| (n.clone(), Place { line: 1, column: 1 }))
            .collect();
        let known = std::mem::take(&mut self.known_workloads);
        let names = Names {
            workloads: &known,
            nodes: &nodes,
            topology,
        };
        let mut made: Vec<_> = expects
            .iter()
            .filter_map(|e| self.expect(e, &names))
            .collect();
        self.known_workloads = known;
        made.sort_by_key(|e| e.at);
        made
    }

    fn expect(&mut self, expect: &At<ast::Expect>, names: &Names<'_>) -> Option<Expect> {
        let At { value: keys, place } = expect;
        let (own, before) = (*place, self.problems.len());
        let at = keys.at.or(When::End);
        let mut checks = Vec::new();
        let sets = [
            (Set::Running, &keys.running),
            (Set::Evicted, &keys.evicted),
            (Set::Moved, &keys.moved),
            (Set::Finished, &keys.finished),
        ];
        for (set, which) in sets {
            if let Some(At { value, place }) = which.at() {
                checks.push((*place, Check::Set(set, self.which(*place, value, names))));
            }
        }
        for (text, count) in &keys.workers {
            self.bounds(count.place, count.value);
            for name in self.refer(count.place, "workload", text, names.workloads) {
                checks.push((count.place, Check::Workers(name, count.value)));
            }
        }
        if let Some(At { value, place }) = keys.pending.at() {
            self.pending(*place, value, names, &mut checks);
        }
        for (text, at) in &keys.on {
            let conditions = self.whereabouts(at, names);
            for name in self.refer(at.place, "workload", text, names.workloads) {
                let on = conditions
                    .iter()
                    .cloned()
                    .map(|c| Check::On(name.clone(), c));
                checks.extend(on.map(|check| (at.place, check)));
            }
        }
        for (text, at) in &keys.slices {
            for (node, gpu) in self.gpus_called(at.place, text) {
                let holdings = self.holdings(at, &node, gpu);
                checks.push((at.place, Check::Slices(node, gpu, holdings)));
            }
        }
        for (text, at) in &keys.fits {
            for (node, gpu) in self.gpus_called(at.place, text) {
                for profile in &at.value {
                    self.profile_of(at.place, profile, &node, gpu);
                }
                checks.push((at.place, Check::Fits(node, gpu, at.value.clone())));
            }
        }
        if let Some(At { value, place }) = keys.untouched.at() {
            checks.push((*place, Check::Untouched(self.many(*place, value, names))));
        }
        let counts = [
            (&keys.evictions, Check::Evictions as fn(Count) -> Check),
            (&keys.moves, Check::Moves),
        ];
        for (key, check) in counts {
            if let Some(at) = key.at() {
                self.bounds(at.place, at.value);
                checks.push((at.place, check(at.value)));
            }
        }
        let plans = [
            keys.minimal.at().map(|at| at.place),
            keys.stable.at().map(|at| at.place),
        ];
        if names.workloads.is_empty() {
            for place in plans.into_iter().flatten() {
                self.fail(place, "always holds, as there are no workloads: name some");
            }
        }
        if let Some(at) = keys.minimal.at() {
            if !at.value {
                self.fail(at.place, "`minimal: false` demands nothing: leave it out");
            }
            checks.push((at.place, Check::Minimal));
        }
        if let Some(at) = keys.stable.at() {
            if at.value == 0 {
                self.fail(at.place, "no more plans decide nothing: write 1 or more");
            }
            if at.value > MAX_PLANS {
                let message = format!("so many plans take long: {MAX_PLANS} at most");
                self.fail(at.place, message);
            }
            checks.push((at.place, Check::Stable(at.value)));
        }
        if checks.is_empty() && self.problems.len() == before {
            self.fail(own, "expects nothing: say what, as in `running: [train]`");
        }
        let place = checks.iter().map(|(place, _)| *place).min();
        let place = keys.at.at().map(|at| at.place).or(place);
        checks.sort_by_key(|(place, _)| *place);
        place.map(|place| Expect { place, at, checks })
    }

    /// Names of workloads, in order, each once.
    fn many(&mut self, outer: Place, many: &Many<String>, names: &Names<'_>) -> Vec<Name> {
        if many.0.is_empty() {
            self.fail(
                outer,
                "an empty list says nothing: write `none`, or leave the key out",
            );
        }
        let mut found = Vec::new();
        for (place, text) in many.items(outer) {
            found.extend(self.refer(place, "workload", text, names.workloads));
        }
        found.sort();
        found.dedup();
        found
    }

    fn which(&mut self, place: Place, which: &Which, names: &Names<'_>) -> Vec<Demand> {
        let keys = match which {
            Which::None => return vec![Demand::Count(Count { least: 0, most: 0 }, None)],
            Which::All(many) => return vec![Demand::All(self.many(place, many, names))],
            Which::Keys(keys) => keys,
        };
        let WhichKeys {
            exactly,
            at_least,
            at_most,
            among,
            only,
        } = &**keys;
        let mut demands = Vec::new();
        let list = |c: &mut Self, key: &Key<Many<String>>| {
            key.at().map(|at| c.many(at.place, &at.value, names))
        };
        let among_names = list(self, among);
        demands.extend(list(self, only).map(Demand::Only));
        let mut count = Count {
            least: at_least.or(0),
            most: at_most.or(u64::MAX),
        };
        let mut counts = at_least.get().is_some() || at_most.get().is_some();
        match exactly.at() {
            Some(At {
                value: CountOrNames::Count(n),
                place,
            }) => {
                if counts {
                    self.fail(
                        *place,
                        "`exactly` leaves nothing to `at-least` and `at-most`",
                    );
                }
                (count, counts) = (
                    Count {
                        least: *n,
                        most: *n,
                    },
                    true,
                );
            }
            Some(At {
                value: CountOrNames::Names(many),
                place,
            }) => {
                let names = self.many(*place, many, names);
                demands.extend([Demand::All(names.clone()), Demand::Only(names)]);
            }
            None => {}
        }
        if counts {
            self.bounds(place, count);
            demands.push(Demand::Count(count, among_names));
        } else if let Some(at) = among.at() {
            self.fail(
                at.place,
                "`among` goes with a count: exactly, at-least or at-most",
            );
        }
        if demands.is_empty() && among.at().is_none() {
            self.fail(
                place,
                "says nothing: give exactly, at-least, at-most or only",
            );
        }
        demands
    }

    /// Bounds that some number keeps and some number breaks.
    fn bounds(&mut self, place: Place, count: Count) {
        match count {
            Count {
                least: 0,
                most: u64::MAX,
            } => self.fail(place, "at least 0 always holds: write 1 or more"),
            Count { least, most } if least > most => {
                let message = format!("at least {least} and at most {most} is no number");
                self.fail(place, message);
            }
            _ => {}
        }
    }

    fn pending(
        &mut self,
        place: Place,
        pending: &Pending,
        names: &Names<'_>,
        checks: &mut Vec<(Place, Check)>,
    ) {
        match pending {
            Pending::None => {
                let none = Demand::Count(Count { least: 0, most: 0 }, None);
                checks.push((place, Check::Set(Set::Pending, vec![none])));
            }
            Pending::Names(many) => {
                checks.push((place, Check::Pending(self.many(place, many, names), None)));
            }
            Pending::Reasons(reasons) => {
                if reasons.is_empty() {
                    self.fail(place, "says nothing: write `none`, or leave the key out");
                }
                for (text, at) in reasons {
                    let found = self.refer(at.place, "workload", text, names.workloads);
                    let code = reason_code(&at.value);
                    if let Some(code) = self.take(at.place, code) {
                        checks.push((at.place, Check::Pending(found, Some(code))));
                    }
                }
            }
        }
    }

    fn whereabouts(&mut self, at: &At<ast::Whereabouts>, names: &Names<'_>) -> Vec<Whereabouts> {
        let nodes = |c: &mut Self, outer: Place, many: &Many<String>| {
            let mut found = Vec::new();
            for (place, text) in many.items(outer) {
                found.extend(c.refer(place, "node", text, names.nodes));
            }
            found.sort();
            found.dedup();
            Whereabouts::Nodes(found)
        };
        let keys = match &at.value {
            ast::Whereabouts::Nodes(many) => return vec![nodes(self, at.place, many)],
            ast::Whereabouts::Keys(keys) => keys,
        };
        let WhereKeys {
            nodes: many,
            same,
            apart,
            link,
        } = &**keys;
        let mut made = Vec::new();
        if let Some(at) = many.at() {
            made.push(nodes(self, at.place, &at.value));
        }
        let same_apart = [
            (same, Whereabouts::Same as fn(Name) -> Whereabouts),
            (apart, Whereabouts::Apart as fn(Name) -> Whereabouts),
        ];
        for (key, make) in same_apart {
            let Some(at) = key.at() else { continue };
            match names
                .topology
                .iter()
                .find(|level| **level == *at.value.as_str())
            {
                Some(level) => made.push(make(level.clone())),
                None => {
                    let levels = names.topology.iter().map(Name::as_str);
                    self.fail(
                        at.place,
                        super::unknown("level of topology", &at.value, levels),
                    );
                }
            }
        }
        if let Some(at) = link.at() {
            let levels: BTreeMap<Name, Place> = self
                .nodes
                .values()
                .flat_map(|n| &n.links)
                .map(|l| (l.name.clone(), at.place))
                .collect();
            made.extend(
                self.refer_one("level of links", at, &levels)
                    .map(Whereabouts::Link),
            );
        }
        let given = many.at().is_some() || [same, apart, link].iter().any(|key| key.at().is_some());
        if !given {
            self.fail(at.place, "says nothing: give nodes, same, apart or link");
        }
        made
    }

    fn holdings(&mut self, at: &At<Vec<String>>, node: &Name, gpu: u8) -> Vec<Holding> {
        let mut holdings = Vec::new();
        for text in &at.value {
            let profile = text
                .split_once('@')
                .map_or(text.as_str(), |(profile, _)| profile);
            if text == "whole" {
                holdings.push(Holding::Whole);
            } else if ProfileName::parse(profile).is_some() {
                self.profile_of(at.place, profile, node, gpu);
                let start = text.split_once('@').map(|(_, start)| start.parse::<u8>());
                let Some(start) = self.take(at.place, start.transpose()) else {
                    continue;
                };
                holdings.push(Holding::Instance(profile.into(), start));
            } else if Memory::looks_like(text) {
                let memory = text.parse::<Memory>();
                let Some(memory) = self.take(at.place, memory) else {
                    continue;
                };
                holdings.push(Holding::Memory(self.mib(at.place, memory)));
            } else {
                match text
                    .parse::<GpuAmount>()
                    .ok()
                    .and_then(|amount| super::units(&amount))
                {
                    Some(units) => holdings.push(Holding::Compute(units)),
                    None => {
                        let way = "whole, 1g.10gb@4, 1g.10gb, 0.25 or 12GiB";
                        self.fail(at.place, format!("`{text}` is no slice: write like {way}"));
                    }
                }
            }
        }
        holdings
    }

    /// The profile must be one of the GPU's board.
    fn profile_of(&mut self, place: Place, profile: &str, node: &Name, gpu: u8) {
        let board = &self.nodes[node].gpus[usize::from(gpu)];
        if let Ok(id) = self.catalogue.find(board.as_str()) {
            let found = self.catalogue.board(id).profile(profile);
            self.take(place, found);
        }
    }
}

/// What expectations may name.
struct Names<'a> {
    workloads: &'a Known,
    nodes: &'a Known,
    topology: &'a [Name],
}

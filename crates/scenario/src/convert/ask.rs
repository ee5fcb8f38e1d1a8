//! Asks for GPUs, from their short and long forms.

use super::{Converter, units};
use crate::ast::work::{Gpu, GpuKeys};
use crate::place::{At, Key, Place};
use crate::read::near;
use cleave_model::{
    GPU, Name,
    ask::{Gpus, Isolation, Part},
};
use std::collections::BTreeSet;

impl Converter {
    pub(super) fn gpu_ask(&mut self, key: &Key<Gpu>, outer: &Key<Isolation>) -> Option<Gpus> {
        let At { value: gpu, place } = key.at()?;
        let share = |compute, memory_mib| Part::Share {
            compute,
            memory_mib,
        };
        let mut asked = Gpus {
            count: 1,
            part: Part::Whole,
            isolation: Isolation::Hard,
            models: Vec::new(),
            graphics: false,
        };
        let mut isolation = outer.get().copied();
        match gpu {
            Gpu::Whole(0) => return None,
            Gpu::Whole(count) => asked.count = *count,
            Gpu::Share(units) => asked.part = share(Some(*units), None),
            Gpu::Memory(memory) => asked.part = share(None, Some(self.mib(*place, *memory))),
            Gpu::Profile(name) => asked.part = Part::Profile(self.name(*place, name)?),
            Gpu::Full(keys) => {
                asked.count = keys.count.or(1);
                if asked.count == 0 {
                    self.fail(*place, "a count of 0 GPUs: leave `gpu` out");
                }
                asked.part = self.part(keys)?;
                asked.models = self.models(keys);
                asked.graphics = keys.graphics.or(false);
                if let (Some(inner), Some(outer)) = (keys.isolation.at(), outer.at()) {
                    let other = outer.place;
                    self.fail(
                        inner.place,
                        format!("isolation is given here and at {other}"),
                    );
                }
                isolation = isolation.or(keys.isolation.get().copied());
            }
        }
        let default = match asked.part {
            Part::Share { .. } => self.policy.isolation_default,
            Part::Whole | Part::Profile(_) => Isolation::Hard,
        };
        asked.isolation = isolation.unwrap_or(default);
        if let Part::Profile(name) = &asked.part {
            let (name, place) = match gpu {
                Gpu::Full(keys) => (name, keys.profile.at().map_or(*place, |at| at.place)),
                _ => (name, *place),
            };
            self.known_profile(place, name.as_str(), &asked.models);
        }
        Some(asked)
    }

    fn part(&mut self, keys: &GpuKeys) -> Option<Part> {
        let given = [
            keys.profile.at().map(|at| ("profile", at.place)),
            keys.share.at().map(|at| ("share", at.place)),
            keys.compute.at().map(|at| ("compute", at.place)),
            keys.memory.at().map(|at| ("memory", at.place)),
        ];
        match given.map(|g| g.is_some()) {
            [true, false, false, false] | [false, true, false, false] | [false, false, _, _] => {}
            _ => {
                let all: Vec<_> = given.into_iter().flatten().collect();
                let ((a, at), (b, place)) = (all[0], all[1]);
                let way = "a part is a profile, a share, or memory and compute";
                self.fail(
                    place,
                    format!("`{b}` does not go with `{a}` at {at}: {way}"),
                );
                return None;
            }
        }
        if let Some(At { value: name, place }) = keys.profile.at() {
            return self.name(*place, name).map(Part::Profile);
        }
        let memory_mib = keys.memory.at().map(|at| self.mib(at.place, at.value));
        let compute = match keys.share.at().or(keys.compute.at()) {
            None => None,
            Some(At { value, place }) => match units(value) {
                Some(units) => Some(units),
                None => {
                    let way = "for several GPUs use count";
                    self.fail(*place, format!("a share of {value} of one GPU: {way}"));
                    return None;
                }
            },
        };
        Some(match (compute, memory_mib) {
            (None, None) | (Some(GPU), None) => Part::Whole,
            (compute, memory_mib) => Part::Share {
                compute,
                memory_mib,
            },
        })
    }

    /// Boards by name in order; `any` at the end stands for all that are not named.
    fn models(&mut self, keys: &GpuKeys) -> Vec<Vec<Name>> {
        let mut models: Vec<Vec<Name>> = Vec::new();
        let Some(At { value: many, place }) = keys.models.at() else {
            return models;
        };
        let last = many.0.len().saturating_sub(1);
        if many.0.is_empty() {
            self.fail(*place, "no models: leave the key out to allow any");
        }
        for (i, (place, text)) in many.items(*place).enumerate() {
            if text == "any" {
                if i != last {
                    self.fail(place, "`any` stands last: nothing is left for what follows");
                }
                let boards = self.catalogue.ids().map(|id| self.catalogue.board(id));
                let named = |b: &cleave_model::board::Board| {
                    models.iter().flatten().any(|m| b.answers_to(m.as_str()))
                };
                let rest = boards.filter(|b| !named(b));
                let rest: Vec<_> = rest.filter_map(|b| Name::new(&b.name).ok()).collect();
                models.push(rest);
                continue;
            }
            let first = self.catalogue.answering(text).next();
            let Some(board) = first.map(|id| self.catalogue.board(id).clone()) else {
                let names = self.board_names();
                let message = super::unknown("board", text, names.iter().map(String::as_str));
                self.fail(place, message);
                continue;
            };
            // A spelling that is no name, such as one with blanks, is put as the board's own.
            let own = if board.is_called(text) {
                &board.name
            } else {
                &board.family
            };
            let model = Name::new(text).or_else(|_| Name::new(own));
            models.extend(model.map(|model| vec![model]));
        }
        models
    }

    fn known_profile(&mut self, place: Place, name: &str, models: &[Vec<Name>]) {
        let boards = || self.catalogue.ids().map(|id| self.catalogue.board(id));
        let allowed = || {
            boards().filter(|b| {
                let mut named = models.iter().flatten();
                models.is_empty() || named.any(|m| b.answers_to(m.as_ref()))
            })
        };
        if allowed().any(|board| board.profile(name).is_ok()) {
            return;
        }
        let all: BTreeSet<_> = allowed()
            .flat_map(|b| b.profiles.iter().map(|p| p.name.clone()))
            .collect();
        let all: Vec<_> = all.iter().map(String::as_str).collect();
        let way = match near(name, all.iter().copied()) {
            Some(near) => format!(" (did you mean `{near}`?)"),
            None if all.is_empty() => ": they can't be cut".into(),
            None => format!("; there are {}", all.join(", ")),
        };
        self.fail(
            place,
            format!("no allowed board has a profile like `{name}`{way}"),
        );
    }
}

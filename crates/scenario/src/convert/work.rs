//! What is wanted: workloads, groups, asks.

use super::Converter;
use crate::ast::File;
use crate::ast::work::{Group as GroupKeys, Shape, Workload as Keys};
use crate::forms::Many;
use crate::place::{At, Key, Place};
use crate::quantity::{Cpu, Duration, Memory};
use crate::scenario::Held;
use cleave_model::{
    Millis, Name,
    ask::{Affinity, AffinityKind, Ask, Constraints},
    policy::Mix,
    workload::{Class, Group, Workload},
};
use std::collections::BTreeSet;

impl Converter {
    /// Collects the names of all workloads, so that they may refer to each other in any order.
    pub(super) fn name_workloads(&mut self, file: &File) {
        let mut known = std::mem::take(&mut self.known_workloads);
        let submitted = file
            .events
            .iter()
            .filter_map(|e| e.submit.get())
            .map(|keys| &**keys);
        for keys in file.workloads.iter().chain(submitted) {
            let place = keys.name.place;
            let Some(names) = self.names(place, &keys.name.value) else {
                continue;
            };
            for name in names.all() {
                let Some(name) = self.name(place, &name) else {
                    break;
                };
                if !Self::define(self, &mut known, "workload", &name, place) {
                    break;
                }
            }
        }
        self.known_workloads = known;
    }

    /// Makes all workloads and returns the workers that run from the start.
    pub(super) fn all_workloads(&mut self, file: &File) -> Vec<Held> {
        let mut held = Vec::new();
        for keys in &file.workloads {
            let submit = keys.submit.or(Duration(0)).0;
            let made = self.workload(keys, submit);
            if let Some(on) = keys.on.at() {
                if submit > 0 {
                    let message = "it runs from the start but is submitted later: keep one";
                    self.fail(on.place, message);
                }
                held.extend(self.held(on, &made));
            }
            self.workloads
                .extend(made.into_iter().map(|w| (w.name.clone(), w)));
        }
        for event in &file.events {
            let Some(keys) = event.submit.get() else {
                continue;
            };
            let twice = keys.submit.at().map(|at| at.place);
            if let Some(place) = twice.or(keys.on.at().map(|at| at.place)) {
                self.fail(place, "the event says when it is submitted: leave this out");
            }
            let made = self.workload(keys, event.at.value.0);
            self.workloads
                .extend(made.into_iter().map(|w| (w.name.clone(), w)));
        }
        self.check_claims(&held, file);
        self.check_worker_names();
        held.sort();
        held
    }

    /// No workload is called like a worker of another: `x.1` is the second worker of `x`.
    fn check_worker_names(&mut self) {
        let mut alike = Vec::new();
        for name in self.workloads.keys() {
            let worker = name.as_str().rsplit_once('.').and_then(|(other, index)| {
                let other = self.workloads.get(other)?;
                let index: u32 = index.parse().ok()?;
                (index < other.workers()).then_some((&other.name, index))
            });
            alike.extend(worker.map(|(other, index)| (name.clone(), other.clone(), index)));
        }
        for (name, other, index) in alike {
            let [place, first] = [&name, &other].map(|name| self.known_workloads[name]);
            let message = format!(
                "`{name}` is also a worker of `{other}` at {first}: call it `{other}-{index}`, say"
            );
            self.fail(place, message);
        }
    }

    pub(super) fn workload(&mut self, keys: &Keys, submitted: Millis) -> Vec<Workload> {
        let place = keys.name.place;
        let queue = match keys.queue.at() {
            Some(at) => {
                let known = std::mem::take(&mut self.known_queues);
                let queue = self.refer_one("queue", at, &known);
                self.known_queues = known;
                queue
            }
            None => self.default_queue(place),
        };
        let groups = self.groups(keys);
        let (Some(queue), Some(groups)) = (queue, groups) else {
            return Vec::new();
        };
        let model = Workload {
            name: queue.clone(),
            queue,
            class: keys.class.or(Class::Batch),
            priority: keys.priority.or(0),
            groups,
            submitted,
            duration: keys.duration.get().map(|d| d.0),
            retries: keys.retries.or(0),
        };
        let Ok(names) = crate::range::Names::read(&keys.name.value) else {
            return Vec::new();
        };
        let named = names
            .all()
            .map_while(|name| Name::new(name).ok())
            .map(|name| {
                let mut workload = Workload {
                    name: name.clone(),
                    ..model.clone()
                };
                // An affinity that names nobody is about the workload itself.
                for affinity in workload
                    .groups
                    .iter_mut()
                    .flat_map(|g| &mut g.ask.limits.affinity)
                {
                    if affinity.with.is_empty() {
                        affinity.with.push(name.clone());
                    }
                }
                workload
            });
        named.collect()
    }

    fn default_queue(&mut self, place: Place) -> Option<Name> {
        if let Some((name, _)) = self.known_queues.get_key_value("default") {
            return Some(name.clone());
        }
        let some: Vec<_> = self.known_queues.keys().take(5).map(Name::as_str).collect();
        let message = format!(
            "its queue is missing: write `queue: {}`",
            some.join("` or `")
        );
        self.fail(place, message);
        None
    }

    fn groups(&mut self, keys: &Keys) -> Option<Vec<Group>> {
        let Some(At {
            value: groups,
            place,
        }) = keys.groups.at()
        else {
            return self
                .group("workers", keys.name.place, keys.shape())
                .map(|group| vec![group]);
        };
        if let Some(other) = keys.shape().first() {
            self.fail(
                other,
                format!("the groups at {place} say this: write it into each group"),
            );
        }
        if groups.is_empty() {
            self.fail(*place, "no groups: leave the key out, or name at least one");
            return None;
        }
        let mut seen = BTreeSet::new();
        let mut made = Vec::new();
        for keys in groups {
            let GroupKeys { name, .. } = keys;
            if !seen.insert(&name.value) {
                self.fail(
                    name.place,
                    format!("a second group `{}` in one workload", name.value),
                );
            }
            made.extend(self.group(&name.value, name.place, keys.shape()));
        }
        (made.len() == groups.len()).then_some(made)
    }

    fn group(&mut self, name: &str, place: Place, shape: Shape<'_>) -> Option<Group> {
        let name = self.name(place, name)?;
        let workers = shape.workers.or(1);
        if workers == 0 {
            let at = shape.workers.at().map_or(place, |at| at.place);
            self.fail(at, "at least one worker is wanted");
            return None;
        }
        let min = shape.min.or(workers);
        if let Some(at) = shape.min.at()
            && (min > workers || min == 0)
        {
            let wanted = match shape.workers.at() {
                Some(workers) => format!("{} workers at {}", workers.value, workers.place),
                None => "1 worker".into(),
            };
            self.fail(
                at.place,
                format!("a minimum of {min} for {wanted}: it must be 1 to that"),
            );
            return None;
        }
        let isolation = shape.isolation;
        let ask = Ask {
            cpu_milli: shape.cpu.or(Cpu(0)).0,
            memory_bytes: shape.memory.or(Memory(0)).0,
            gpus: self.gpu_ask(shape.gpu, isolation),
            limits: self.limits(shape),
        };
        if let (Some(at), None) = (isolation.at(), shape.gpu.at()) {
            self.fail(at.place, "`isolation` says nothing without `gpu`");
        }
        Some(Group {
            name,
            workers,
            min,
            ask,
        })
    }

    fn limits(&mut self, shape: Shape<'_>) -> Constraints {
        let mut limits = Constraints::default();
        for (key, at) in shape.select {
            let (key, value) = (self.name(at.place, key), self.name(at.place, &at.value));
            limits.select.extend(key.zip(value));
        }
        if let Some(at) = shape.tolerate.at() {
            for (place, text) in at.value.items(at.place) {
                limits.tolerate.extend(self.name(place, text));
            }
        }
        if let Some(at) = shape.apart.at() {
            for (place, apart) in at.value.items(at.place) {
                let kind = AffinityKind::Apart;
                limits
                    .affinity
                    .extend(self.affinity(place, kind, &apart.level, &apart.from));
            }
        }
        if let Some(at) = shape.near.at() {
            for (place, near) in at.value.items(at.place) {
                let kind = AffinityKind::Near;
                limits
                    .affinity
                    .extend(self.affinity(place, kind, &near.level, &near.to));
            }
        }
        limits.tolerate.sort();
        limits.tolerate.dedup();
        limits.affinity.sort();
        limits
    }

    fn affinity(
        &mut self,
        place: Place,
        kind: AffinityKind,
        level: &At<String>,
        with: &Key<Many<String>>,
    ) -> Option<Affinity> {
        let place = level.place.or(place);
        let level = self.name(place, &level.value)?;
        if level != "host" && !self.labels.contains(&level) {
            self.warn(place, format!("no node has the label `{level}`"));
        }
        let mut names = Vec::new();
        if let Some(at) = with.at() {
            let known = std::mem::take(&mut self.known_workloads);
            for (place, text) in at.value.items(at.place) {
                names.extend(self.refer(place, "workload", text, &known));
            }
            self.known_workloads = known;
            if names.is_empty() {
                return None;
            }
        }
        names.sort();
        names.dedup();
        Some(Affinity {
            kind,
            level,
            with: names,
        })
    }

    /// The distribution of asks to expect.
    pub(super) fn prior(&mut self, file: &File) -> Vec<(Ask, u64)> {
        let mut prior = Vec::new();
        for keys in &file.prior {
            let At {
                value: count,
                place,
            } = keys.count;
            if count == 0 {
                self.fail(place, "a count of 0: leave it out");
            }
            let ask = Ask {
                cpu_milli: keys.cpu.or(Cpu(0)).0,
                memory_bytes: keys.memory.or(Memory(0)).0,
                gpus: self.gpu_ask(&keys.gpu, &Key::default()),
                limits: Constraints::default(),
            };
            prior.push((ask, count));
        }
        let first = file.prior.first().map(|keys| keys.count.place);
        match (self.policy.mix, first, file.policy.mix.at()) {
            (Mix::Learned, Some(place), _) => {
                self.fail(
                    place,
                    "`prior` is used only with `mix: prior` in the policy",
                );
            }
            (Mix::Prior, None, Some(mix)) => {
                self.fail(
                    mix.place,
                    "`mix: prior` needs the list `prior` of the asks to expect",
                );
            }
            _ => {}
        }
        prior.sort();
        prior
    }
}

impl Shape<'_> {
    /// The place of any key that is there.
    fn first(self) -> Option<Place> {
        fn place<T>(key: &Key<T>) -> Option<Place> {
            key.at().map(|at| at.place)
        }
        let keys = [
            place(self.workers),
            place(self.min),
            place(self.gpu),
            place(self.cpu),
            place(self.memory),
            place(self.isolation),
            self.select.values().map(|at| at.place).next(),
            place(self.tolerate),
            place(self.apart),
            place(self.near),
        ];
        keys.into_iter().flatten().min()
    }
}

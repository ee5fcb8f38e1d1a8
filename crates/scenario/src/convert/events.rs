//! What happens.

use super::{Converter, Known};
use crate::ast::work::Event;
use crate::forms::Many;
use crate::place::{Key, Place};
use crate::range::Names;
use crate::scenario::{Happening, Timed};
use cleave_model::{Millis, Name};

/// Reads what happens to the things that a text names.
type Read<'a> = dyn Fn(&mut Converter, Place, &str) -> Vec<Happening> + 'a;

impl Converter {
    /// Everything that happens beyond submissions, by time, then in the order of kinds and names.
    pub(super) fn events(&mut self, events: &[Event]) -> Vec<Timed> {
        let nodes = self
            .nodes
            .keys()
            .map(|n| (n.clone(), Place { line: 1, column: 1 }))
            .collect();
        let mut timed = Vec::new();
        for keys in events {
            self.event(keys, &nodes, &mut timed);
        }
        timed.sort_by(|a: &Timed, b| (a.at, order(&a.what)).cmp(&(b.at, order(&b.what))));
        timed
    }

    fn event(&mut self, keys: &Event, nodes: &Known, timed: &mut Vec<Timed>) {
        let mut kinds = usize::from(keys.submit.get().is_some());
        let mut happens = Vec::new();
        if let Some(node) = keys.add_node.get() {
            kinds += 1;
            if let Ok(names) = Names::read(&node.name.value) {
                let added = names
                    .all()
                    .filter_map(|name| self.nodes.get(name.as_str()).cloned());
                happens.extend(added.map(Happening::AddNode));
            }
        }
        let mut each = |c: &mut Self, key: &Key<Many<String>>, read: &Read<'_>| {
            let Some(many) = key.at() else { return };
            kinds += 1;
            for (place, text) in many.value.items(many.place) {
                happens.extend(read(c, place, text));
            }
        };
        let node = |make: fn(Name) -> Happening| {
            move |c: &mut Self, place: Place, text: &str| {
                c.refer(place, "node", text, nodes)
                    .into_iter()
                    .map(make)
                    .collect()
            }
        };
        each(self, &keys.node_down, &node(Happening::NodeDown));
        each(self, &keys.node_up, &node(Happening::NodeUp));
        each(self, &keys.cordon, &node(Happening::Cordon));
        each(self, &keys.uncordon, &node(Happening::Uncordon));
        let gpu = |make: fn(Name, u8) -> Happening| {
            move |c: &mut Self, place: Place, text: &str| {
                c.gpus_called(place, text)
                    .into_iter()
                    .map(|(n, i)| make(n, i))
                    .collect()
            }
        };
        each(self, &keys.gpu_down, &gpu(Happening::GpuDown));
        each(self, &keys.gpu_up, &gpu(Happening::GpuUp));
        let worker = |make: fn(Name, Option<u32>) -> Happening| {
            move |c: &mut Self, place: Place, text: &str| {
                c.workers_called(place, text)
                    .into_iter()
                    .map(|(n, i)| make(n, i))
                    .collect()
            }
        };
        each(self, &keys.finish, &worker(Happening::Finish));
        each(self, &keys.fail, &worker(Happening::Fail));
        each(self, &keys.cancel, &|c, place, text| {
            c.workloads_called(place, text)
                .into_iter()
                .map(Happening::Cancel)
                .collect()
        });
        if kinds != 1 {
            let message = "an event is a time and exactly one thing that happens, such as submit, \
                           finish or node-down";
            self.fail(keys.at.place, message);
        }
        let at = keys.at.value.0;
        self.check_submitted(keys.at.place, at, &happens);
        timed.extend(happens.into_iter().map(|what| Timed { at, what }));
    }

    /// Nothing ends before it is submitted.
    fn check_submitted(&mut self, place: Place, at: Millis, happens: &[Happening]) {
        for what in happens {
            let (Happening::Cancel(name) | Happening::Finish(name, _) | Happening::Fail(name, _)) =
                what
            else {
                continue;
            };
            let submitted = self.workloads.get(name).map_or(0, |w| w.submitted);
            if submitted > at {
                let message = format!("`{name}` is submitted only after this");
                self.fail(place, message);
                return;
            }
        }
    }

    /// Workloads, or a worker written as `train.3`.
    fn workers_called(&mut self, place: Place, text: &str) -> Vec<(Name, Option<u32>)> {
        let worker = text.rsplit_once('.').and_then(|(name, index)| {
            let workload = self.workloads.get(name)?;
            let index: u32 = index.parse().ok()?;
            (index < workload.workers()).then(|| (workload.name.clone(), Some(index)))
        });
        match worker {
            Some(worker) if !self.workloads.contains_key(text) => vec![worker],
            _ => self
                .workloads_called(place, text)
                .into_iter()
                .map(|n| (n, None))
                .collect(),
        }
    }

    fn workloads_called(&mut self, place: Place, text: &str) -> Vec<Name> {
        let known = std::mem::take(&mut self.known_workloads);
        let names = self.refer(place, "workload", text, &known);
        self.known_workloads = known;
        names
    }

    /// GPUs written as `n0/3`, with ranges.
    pub(super) fn gpus_called(&mut self, place: Place, text: &str) -> Vec<(Name, u8)> {
        let Some(names) = self.names(place, text) else {
            return Vec::new();
        };
        let mut gpus = Vec::new();
        if !self.spend(place, names.count()) {
            return gpus;
        }
        for name in names.all() {
            let Some((node, gpu)) = name.rsplit_once('/') else {
                self.fail(
                    place,
                    format!("`{name}` is no GPU: write node/index, as in n0/3"),
                );
                return gpus;
            };
            let Some(node) = self.nodes.get(node) else {
                let nodes = self.nodes.keys().map(Name::as_str);
                let message = super::unknown("node", node, nodes);
                self.fail(place, message);
                return gpus;
            };
            let has = node.gpus.len();
            match gpu.parse::<u8>() {
                Ok(gpu) if usize::from(gpu) < has => gpus.push((node.name.clone(), gpu)),
                _ => {
                    let message = format!("there is no GPU {gpu}: `{}` has {has}", node.name);
                    self.fail(place, message);
                    return gpus;
                }
            }
        }
        gpus
    }
}

/// The order of things that happen at one time.
fn order(what: &Happening) -> (u8, &Name, Option<u32>) {
    match what {
        Happening::AddNode(node) => (0, &node.name, None),
        Happening::NodeUp(node) => (1, node, None),
        Happening::Uncordon(node) => (2, node, None),
        Happening::GpuUp(node, gpu) => (3, node, Some((*gpu).into())),
        Happening::NodeDown(node) => (4, node, None),
        Happening::Cordon(node) => (5, node, None),
        Happening::GpuDown(node, gpu) => (6, node, Some((*gpu).into())),
        Happening::Cancel(name) => (7, name, None),
        Happening::Finish(name, index) => (8, name, *index),
        Happening::Fail(name, index) => (9, name, *index),
    }
}

//! What there is: boards, nodes, queues, topology.

use super::{Converter, Known};
use crate::ast::{File, cluster};
use crate::place::{At, Key, Place};
use crate::quantity::{Cpu, Memory};
use crate::range::Names;
use cleave_model::{
    Name,
    node::{LinkLevel, Node},
    queue::{Amounts, Queue},
};
use std::collections::{BTreeMap, BTreeSet};

/// Workers that a node holds where it says nothing, as in Kubernetes.
const PODS: u32 = 110;

impl Converter {
    /// Makes all nodes, those of events included.
    pub(super) fn cluster(&mut self, file: &File) {
        let mut known = Known::new();
        for keys in &file.nodes {
            self.nodes_of(keys, &mut known);
        }
        for event in &file.events {
            if let Some(keys) = event.add_node.get() {
                let made = self.nodes_of(keys, &mut known);
                self.later.extend(made);
            }
        }
    }

    /// Makes the nodes of one entry and returns their names.
    fn nodes_of(&mut self, keys: &cluster::Node, known: &mut Known) -> Vec<Name> {
        let place = keys.name.place;
        let mut made = Vec::new();
        let Some(names) = self.names(place, &keys.name.value) else {
            return made;
        };
        let gpus = self.gpus(keys);
        let links = keys
            .links
            .iter()
            .filter_map(|link| self.link(link, gpus.len()))
            .collect();
        let mut labels = Vec::new();
        for (key, at) in &keys.labels {
            let key = self.name(at.place, key);
            let value = self.take(at.place, Names::template(&at.value));
            let (Some(key), Some(value)) = (key, value) else {
                continue;
            };
            if value.most_value() > names.ranges() {
                let most = names.ranges();
                self.fail(
                    at.place,
                    format!("the node's name has {most} ranges: use `$n` up to it"),
                );
                continue;
            }
            labels.push((key, value, at.place));
        }
        let taints = keys
            .taints
            .iter()
            .filter_map(|at| self.name(at.place, &at.value))
            .collect();
        let pool = keys.pool.at().map(|at| self.name(at.place, &at.value));
        let model = Node {
            name: Name::new("n").expect("a letter is a name"),
            cpu_milli: keys.cpu.or(Cpu(0)).0,
            memory_bytes: keys.memory.or(Memory(0)).0,
            pods: keys.pods.or(PODS),
            price_micros: self.price(keys, gpus.len() as u64),
            gpus,
            links,
            labels: BTreeMap::new(),
            taints,
            pool: pool
                .flatten()
                .unwrap_or_else(|| Name::new("on-demand").expect("a name")),
        };
        for i in 0..names.count() {
            let values = names.values(i);
            let Some(name) = self.name(place, &names.nth(i, &[])) else {
                break;
            };
            if !Self::define(self, known, "node", &name, place) {
                break;
            }
            let mut node = Node {
                name: name.clone(),
                ..model.clone()
            };
            for (key, value, place) in &labels {
                let Some(value) = self.name(*place, &value.nth(i, &values)) else {
                    return made;
                };
                node.labels.insert(key.clone(), value);
            }
            made.push(name.clone());
            self.nodes.insert(name, node);
        }
        self.labels.extend(labels.into_iter().map(|(key, ..)| key));
        made
    }

    /// The board of each GPU.
    fn gpus(&mut self, keys: &cluster::Node) -> Vec<Name> {
        match (keys.gpus.at(), keys.board.at()) {
            (None, None) => Vec::new(),
            (None, Some(board)) => {
                self.fail(
                    board.place,
                    "`board` says nothing without `gpus`, as in gpus: 8",
                );
                Vec::new()
            }
            (
                Some(At {
                    value: cluster::Gpus::Each(each),
                    ..
                }),
                None,
            ) => each.iter().filter_map(|at| self.exact_board(at)).collect(),
            (
                Some(At {
                    value: cluster::Gpus::Each(_),
                    place,
                }),
                Some(board),
            ) => {
                let other = board.place;
                self.fail(
                    *place,
                    format!("the list names the boards, and so does {other}: keep one"),
                );
                Vec::new()
            }
            (
                Some(At {
                    value: cluster::Gpus::Count(0),
                    ..
                }),
                None,
            ) => Vec::new(),
            (
                Some(At {
                    value: cluster::Gpus::Count(n),
                    place,
                }),
                None,
            ) => {
                let way = format!("{n} GPUs of what? add `board: H100-80GB-SXM` or the like");
                self.fail(*place, way);
                Vec::new()
            }
            (
                Some(At {
                    value: cluster::Gpus::Count(n),
                    ..
                }),
                Some(board),
            ) => {
                let board = self.exact_board(board);
                board.map_or_else(Vec::new, |board| vec![board; usize::from(*n)])
            }
        }
    }

    fn link(&mut self, link: &cluster::Link, gpus: usize) -> Option<LinkLevel> {
        let name = self.name(link.name.place, &link.name.value)?;
        let mut seen = BTreeSet::new();
        for group in &link.groups.value {
            for &gpu in &group.value.0 {
                if usize::from(gpu) >= gpus {
                    self.fail(
                        group.place,
                        format!("there is no GPU {gpu}: the node has {gpus}"),
                    );
                    return None;
                }
                if !seen.insert(gpu) {
                    self.fail(group.place, format!("GPU {gpu} stands twice at one level"));
                    return None;
                }
            }
        }
        let groups = link
            .groups
            .value
            .iter()
            .map(|group| group.value.0.clone())
            .collect();
        Some(LinkLevel { name, groups })
    }

    fn price(&mut self, keys: &cluster::Node, gpus: u64) -> Option<u64> {
        let At {
            value: price,
            place,
        } = keys.price.at()?;
        if price.per_gpu {
            return Some(price.micros);
        }
        match price.micros.checked_rem(gpus) {
            Some(0) => Some(price.micros / gpus),
            Some(_) => {
                let message = format!(
                    "{price} does not divide by {gpus} GPUs to the millionth: write it per GPU, \
                     as in 3.50/h/gpu"
                );
                self.fail(*place, message);
                None
            }
            None => {
                self.fail(
                    *place,
                    "only nodes with GPUs have a price so far: leave it out",
                );
                None
            }
        }
    }

    pub(super) fn queues(&mut self, queues: &[cluster::Queue]) -> Vec<Queue> {
        let mut known = Known::new();
        let mut made = BTreeMap::new();
        let mut parents = Vec::new();
        for keys in queues {
            let place = keys.name.place;
            let Some(names) = self.names(place, &keys.name.value) else {
                continue;
            };
            for name in names.all() {
                let Some(name) = self.name(place, &name) else {
                    break;
                };
                if !Self::define(self, &mut known, "queue", &name, place) {
                    break;
                }
                parents.extend(
                    keys.parent
                        .at()
                        .map(|parent| (name.clone(), parent.clone())),
                );
                let queue = Queue {
                    name: name.clone(),
                    parent: None,
                    quota: amounts(&keys.quota),
                    limit: amounts(&keys.limit),
                    weight: keys.weight.or(1),
                    priority: keys.priority.or(0),
                };
                made.insert(name, queue);
            }
            over_limit(self, keys);
            self.not_yet(keys);
        }
        for (name, parent) in parents {
            let found = self.refer_one("queue", &parent, &known);
            if let (Some(found), Some(queue)) = (found, made.get_mut(&name)) {
                queue.parent = Some(found);
            }
        }
        for (name, queue) in &made {
            let mut above = queue.parent.as_ref();
            for _ in 0..made.len() {
                above = above.and_then(|name| made[name].parent.as_ref());
            }
            if above.is_some() {
                let place = known[name];
                self.fail(
                    place,
                    format!("queue `{name}` stands above itself: check its parents"),
                );
                break;
            }
        }
        if queues.is_empty() {
            let name = Name::new("default").expect("a name");
            known.insert(name.clone(), Place { line: 1, column: 1 });
            let none = Amounts::default();
            let (quota, limit) = (none, none);
            let default = Queue {
                name: name.clone(),
                parent: None,
                quota,
                limit,
                weight: 1,
                priority: 0,
            };
            made.insert(name, default);
        }
        self.known_queues = known;
        made.into_values().collect()
    }

    /// Levels, widest first; the last is always `host`.
    pub(super) fn topology(&mut self, file: &File) -> Vec<Name> {
        let mut known = Known::new();
        let mut levels = Vec::new();
        for at in file.topology.get().into_iter().flatten() {
            let Some(level) = self.name(at.place, &at.value) else {
                continue;
            };
            if levels.last().is_some_and(|last| *last == "host") {
                self.fail(at.place, "`host` is the narrowest level: write it last");
            }
            if !Self::define(self, &mut known, "level", &level, at.place) {
                continue;
            }
            if level != "host" && !self.labels.contains(&level) {
                self.warn(at.place, format!("no node has the label `{level}`"));
            }
            levels.push(level);
        }
        let host = Name::new("host").expect("a name");
        if !levels.contains(&host) {
            levels.push(host);
        }
        levels
    }
}

impl Converter {
    /// What is decided by nothing yet is refused, so that nobody relies on it.
    fn not_yet(&mut self, keys: &cluster::Queue) {
        let places = |amounts: &cluster::Amounts| {
            let gpu = amounts.gpu.at().map(|at| at.place);
            let cpu = amounts.cpu.at().map(|at| at.place);
            gpu.or(cpu).or(amounts.memory.at().map(|at| at.place))
        };
        let weight = keys.weight.at().map(|at| at.place);
        for (key, place) in [
            ("quota", places(&keys.quota)),
            ("limit", places(&keys.limit)),
            ("weight", weight),
        ] {
            if let Some(place) = place {
                self.fail(place, format!("`{key}` is not supported yet: leave it out"));
            }
        }
    }
}

/// A quota above the limit can't be meant.
fn over_limit(c: &mut Converter, keys: &cluster::Queue) {
    fn check<T: Copy + Ord + std::fmt::Display>(c: &mut Converter, quota: &Key<T>, limit: &Key<T>) {
        if let (Some(quota), Some(limit)) = (quota.at(), limit.at())
            && quota.value > limit.value
        {
            let (q, l) = (quota.value, limit.value);
            let message = format!(
                "a quota of {q} is above the limit of {l} at {}",
                limit.place
            );
            c.fail(quota.place, message);
        }
    }
    check(c, &keys.quota.gpu, &keys.limit.gpu);
    check(c, &keys.quota.cpu, &keys.limit.cpu);
    check(c, &keys.quota.memory, &keys.limit.memory);
}

fn amounts(keys: &cluster::Amounts) -> Amounts {
    Amounts {
        gpu: keys.gpu.get().map(|v| v.0),
        cpu_milli: keys.cpu.get().map(|v| v.0),
        memory_bytes: keys.memory.get().map(|v| v.0),
    }
}

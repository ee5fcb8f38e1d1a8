//! From the file's types to values of the model, collecting every problem on the way.

mod ask;
mod boards;
mod cluster;
mod events;
mod expects;
mod held;
mod jobs;
mod work;

pub(crate) use jobs::jobs;

use crate::ast::{File, Latency as LatencyKeys, Policy as PolicyKeys, cluster::Gpus};
use crate::place::{At, Key, Place, Problem, Problems};
use crate::quantity::Duration;
use crate::range::{MAX_THINGS, Names};
use crate::read::near;
use crate::scenario::{Latency, Scenario};
use crate::{VERSION, quantity};
use cleave_model::{Name, board::Catalogue, node::Node, policy::Policy, workload::Workload};
use std::collections::{BTreeMap, BTreeSet};

/// Names with the place where each is first given.
pub(crate) type Known = BTreeMap<Name, Place>;

/// Most problems that are listed; a file with more has one cause.
const MAX_PROBLEMS: usize = 50;
/// The longest that one step of a simulation may take: a day.
const LONGEST_STEP: Duration = Duration(24 * 3_600_000);

/// What is known so far, and what is wrong so far.
pub(crate) struct Converter {
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
    things: u64,
    policy: Policy,
    catalogue: Catalogue,
    /// All nodes, those that come later included.
    nodes: BTreeMap<Name, Node>,
    /// The nodes that come later.
    later: BTreeSet<Name>,
    /// The label keys of all nodes.
    labels: BTreeSet<Name>,
    /// All workloads, once by name, then by value.
    known_workloads: Known,
    known_queues: Known,
    workloads: BTreeMap<Name, Workload>,
}

/// Converts a file.
///
/// # Errors
/// All problems found, in order of place.
pub(crate) fn convert(file: &File) -> Result<Scenario, Problems> {
    let mut c = Converter::begin(file)?;
    let boards = c.boards(&file.boards);
    c.cluster(file);
    let queues = c.queues(&file.queues);
    c.name_workloads(file);
    let held = c.all_workloads(file);
    let prior = c.prior(file);
    let events = c.events(&file.events);
    let topology = c.topology(file);
    let latency = file.latency.as_ref().map(|keys| c.latency(keys));
    let expects = c.expects(&file.expect, &topology);

    let mut workloads: Vec<_> = std::mem::take(&mut c.workloads).into_values().collect();
    workloads.sort_by_key(|w| w.submitted);
    let nodes = std::mem::take(&mut c.nodes).into_values();
    let nodes = nodes.filter(|node| !c.later.contains(&node.name)).collect();
    let mut warnings = std::mem::take(&mut c.warnings);
    warnings.sort();
    let scenario = Scenario {
        seed: file.seed.or(0),
        policy: c.policy.clone(),
        topology,
        catalogue: c.catalogue.clone(),
        boards,
        latency,
        nodes,
        queues,
        workloads,
        held,
        prior,
        events,
        expects,
        warnings,
    };
    c.end(scenario)
}

fn policy(keys: &PolicyKeys) -> Policy {
    let default = Policy::default();
    let ms = |key: &Key<Duration>, default: u64| key.or(Duration(default)).0;
    Policy {
        isolation_default: keys.isolation_default.or(default.isolation_default),
        mix: keys.mix.or(default.mix),
        refine_every: keys.refine_every.or(default.refine_every),
        refine_lag: keys.refine_lag.or(default.refine_lag),
        start_deadline_ms: ms(&keys.start_deadline, default.start_deadline_ms),
        grace_ms: ms(&keys.grace, default.grace_ms),
        resend_after_ms: ms(&keys.resend_after, default.resend_after_ms),
        back_off_ms: ms(&keys.back_off, default.back_off_ms),
        back_off_max_ms: ms(&keys.back_off_max, default.back_off_max_ms),
        quarantine_after: keys.quarantine_after.or(default.quarantine_after),
    }
}

impl Converter {
    /// Ready for a file of the right version and size.
    fn begin(file: &File) -> Result<Self, Problems> {
        let mut c = Self {
            problems: Vec::new(),
            warnings: Vec::new(),
            things: 0,
            policy: policy(&file.policy),
            catalogue: Catalogue::builtin(),
            nodes: BTreeMap::new(),
            later: BTreeSet::new(),
            labels: BTreeSet::new(),
            known_workloads: BTreeMap::new(),
            known_queues: BTreeMap::new(),
            workloads: BTreeMap::new(),
        };
        if file.cleave.value != VERSION {
            let message = format!("this release reads `cleave: {VERSION}`");
            return Err(Problems(vec![Problem::new(file.cleave.place, message)]));
        }
        c.count(file);
        c.end(())?;
        Ok(c)
    }

    /// What was made, if nothing was wrong on the way.
    fn end<T>(&mut self, made: T) -> Result<T, Problems> {
        let mut problems = std::mem::take(&mut self.problems);
        if problems.is_empty() {
            return Ok(made);
        }
        problems.sort();
        problems.dedup();
        problems.truncate(MAX_PROBLEMS);
        Err(Problems(problems))
    }

    fn latency(&mut self, keys: &LatencyKeys) -> Latency {
        let mut ms = |key: &Key<Duration>, default: u64| {
            if let Some(at) = key.at().filter(|at| at.value > LONGEST_STEP) {
                let message = format!("one step takes no longer than {LONGEST_STEP}");
                self.fail(at.place, message);
            }
            key.or(Duration(default)).0
        };
        Latency {
            cut_ms: ms(&keys.cut, 1_500),
            join_ms: ms(&keys.join, 1_000),
            mode_ms: ms(&keys.mode, 3_000),
            reset_ms: ms(&keys.reset, 60_000),
            start_ms: ms(&keys.start, 0),
            exit_ms: ms(&keys.exit, 0),
        }
    }

    pub(crate) fn fail(&mut self, place: Place, message: impl Into<String>) {
        if self.problems.len() < 10 * MAX_PROBLEMS {
            self.problems.push(Problem::new(place, message));
        }
    }

    pub(crate) fn warn(&mut self, place: Place, message: impl Into<String>) {
        if self.warnings.len() < MAX_PROBLEMS {
            self.warnings.push(Problem::new(place, message));
        }
    }

    /// Checks before anything is made that the file does not stand for too many things.
    fn count(&mut self, file: &File) {
        let events = file.events.iter();
        let nodes = events
            .clone()
            .filter_map(|e| e.add_node.get())
            .map(|keys| (&keys.name, gpus(keys)));
        let workloads = events
            .filter_map(|e| e.submit.get())
            .map(|keys| (&keys.name, 0));
        let all = file.nodes.iter().map(|keys| (&keys.name, gpus(keys)));
        let all = all.chain(nodes).chain(workloads);
        let all = all.chain(file.queues.iter().map(|keys| (&keys.name, 0)));
        let all = all.chain(file.workloads.iter().map(|keys| (&keys.name, 0)));
        for (at, each) in all {
            if let Ok(names) = Names::read(&at.value)
                && !self.spend(at.place, names.count().saturating_mul(1 + each))
            {
                return;
            }
        }
    }

    /// The value, or nothing and a problem.
    pub(crate) fn take<T, E: ToString>(&mut self, place: Place, value: Result<T, E>) -> Option<T> {
        value
            .map_err(|error| self.fail(place, error.to_string()))
            .ok()
    }

    pub(crate) fn name(&mut self, place: Place, text: &str) -> Option<Name> {
        self.take(place, Name::new(text))
    }

    pub(crate) fn names(&mut self, place: Place, text: &str) -> Option<Names> {
        self.take(place, Names::read(text))
    }

    fn spend(&mut self, place: Place, things: u64) -> bool {
        let fits = self.things.saturating_add(things) <= MAX_THINGS;
        if fits {
            self.things += things;
        } else {
            self.fail(
                place,
                format!("the file stands for more than {MAX_THINGS} things: make ranges smaller"),
            );
        }
        fits
    }

    /// Remembers where a name is given; a name given before is a problem that tells where.
    pub(crate) fn define(
        problems: &mut Self,
        known: &mut Known,
        what: &str,
        name: &Name,
        place: Place,
    ) -> bool {
        if let Some(first) = known.get(name) {
            problems.fail(
                place,
                format!("a second {what} `{name}`: the first is at {first}"),
            );
            return false;
        }
        known.insert(name.clone(), place);
        true
    }

    /// The names of `known` that a text means, by ranges or with `*` for any text.
    pub(crate) fn refer(
        &mut self,
        place: Place,
        what: &str,
        text: &str,
        known: &Known,
    ) -> Vec<Name> {
        if text.contains('*') {
            let found: Vec<_> = known
                .keys()
                .filter(|n| glob(text, n.as_str()))
                .cloned()
                .collect();
            if found.is_empty() {
                self.fail(place, format!("no {what} is called like `{text}`"));
            }
            return if self.spend(place, found.len() as u64) {
                found
            } else {
                Vec::new()
            };
        }
        let Some(names) = self.names(place, text) else {
            return Vec::new();
        };
        if !self.spend(place, names.count()) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for name in names.all() {
            match known.get_key_value(name.as_str()) {
                Some((name, _)) => found.push(name.clone()),
                None => {
                    let keys = known.keys().map(Name::as_str);
                    self.fail(place, unknown(what, &name, keys));
                    return Vec::new();
                }
            }
        }
        found
    }

    /// The one name of `known` that a text means.
    pub(crate) fn refer_one(&mut self, what: &str, at: &At<String>, known: &Known) -> Option<Name> {
        match known.get_key_value(at.value.as_str()) {
            Some((name, _)) => Some(name.clone()),
            None => {
                let keys = known.keys().map(Name::as_str);
                self.fail(at.place, unknown(what, &at.value, keys));
                None
            }
        }
    }
}

/// `no node is called x`, with the nearest name or some that there are.
pub(crate) fn unknown<'a>(
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> String {
    let shown: String = name.chars().take(60).collect();
    let start = format!("no {what} is called `{}`", shown.escape_debug());
    if let Some(near) = near(name, known.clone().take(1_000)) {
        return format!("{start} (did you mean `{near}`?)");
    }
    let some: Vec<_> = known.take(6).collect();
    match some.len() {
        0 => format!("{start}: there is none"),
        6 => format!("{start}; there are {}, ...", some[..5].join(", ")),
        _ => format!("{start}; there are {}", some.join(", ")),
    }
}

/// Whether `name` is the pattern with any text for each `*`.
fn glob(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<_> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// GPU units as the model counts parts of one GPU.
pub(crate) fn units(amount: &quantity::GpuAmount) -> Option<u32> {
    u32::try_from(amount.0)
        .ok()
        .filter(|u| (1..=cleave_model::GPU).contains(u))
}

/// GPUs of each node that the keys stand for.
fn gpus(keys: &crate::ast::cluster::Node) -> u64 {
    match keys.gpus.get() {
        Some(Gpus::Count(count)) => (*count).into(),
        Some(Gpus::Each(each)) => each.len() as u64,
        None => 0,
    }
}

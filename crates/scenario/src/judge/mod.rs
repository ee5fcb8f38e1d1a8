//! Comparing what should be with what is.

mod gpus;

use crate::ast::expect::{Count, When};
use crate::place::Place;
use crate::quantity::Duration;
use crate::reason::verdict_code;
use crate::scenario::{Check, Demand, Expect, ReasonCode, Scenario, Set, Whereabouts};
use cleave_model::{
    Name,
    lease::{Hold, Lease, Phase},
    verdict::Verdict,
    workload::Workload,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// What is at one time, with what happened to each workload until then.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Everything held, in whatever phase.
    pub leases: Vec<Lease>,
    /// Every workload submitted so far.
    pub standings: BTreeMap<Name, Standing>,
    /// GPUs that take no new work: sick, or on a node that is not ready.
    pub withheld: BTreeSet<(Name, u8)>,
    /// What of the plans so far could be given back without breaking them; asked for by
    /// [`Check::Minimal`].
    pub spare: Option<Vec<String>>,
    /// What further plans over the same state decided; asked for by [`Check::Stable`].
    pub restless: Option<Vec<String>>,
}

/// How one workload stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// What is said of it.
    pub verdict: Option<Verdict>,
    /// It ended by itself.
    pub finished: bool,
    /// It was cancelled.
    pub cancelled: bool,
    /// How many of its workers were told to leave so far, other than by a move.
    pub evicted: u64,
    /// How many of its workers were moved so far.
    pub moved: u64,
}

/// An expectation that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where the file says so.
    pub place: Place,
    /// When.
    pub at: When,
    /// What should be.
    pub expected: String,
    /// What is.
    pub got: String,
    /// The workloads concerned, each with what is said of it.
    pub verdicts: Vec<(Name, String)>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            place,
            at,
            expected,
            got,
            verdicts,
        } = self;
        match at {
            When::End => write!(f, "{place}: at the end: ")?,
            When::At(ms) => write!(f, "{place}: at {}: ", Duration(*ms))?,
        }
        write!(f, "expected {expected}\n  got {got}")?;
        verdicts
            .iter()
            .try_for_each(|(name, verdict)| write!(f, "\n  `{name}`: {verdict}"))
    }
}

/// Compares one expectation with what is. Empty if it holds.
pub fn judge(scenario: &Scenario, expect: &Expect, snapshot: &Snapshot) -> Vec<Difference> {
    let mut view = View {
        scenario,
        snapshot,
        workloads: scenario.workloads.iter().map(|w| (&w.name, w)).collect(),
        leases: BTreeMap::new(),
    };
    for lease in &snapshot.leases {
        view.leases
            .entry(&lease.worker.workload)
            .or_default()
            .push(lease);
    }
    let mut differences = Vec::new();
    for (place, check) in &expect.checks {
        if let Err(Wrong {
            expected,
            got,
            about,
        }) = view.check(check)
        {
            let said = about.into_iter().take(5).map(|name| {
                let said = view.said(&name);
                (name, said)
            });
            let (place, at, verdicts) = (*place, expect.at, said.collect());
            differences.push(Difference {
                place,
                at,
                expected,
                got,
                verdicts,
            });
        }
    }
    differences
}

struct View<'a> {
    scenario: &'a Scenario,
    snapshot: &'a Snapshot,
    workloads: BTreeMap<&'a Name, &'a Workload>,
    leases: BTreeMap<&'a Name, Vec<&'a Lease>>,
}

struct Wrong {
    expected: String,
    got: String,
    about: Vec<Name>,
}

fn wrong<T>(expected: String, got: String, about: Vec<Name>) -> Result<T, Wrong> {
    Err(Wrong {
        expected,
        got,
        about,
    })
}

impl View<'_> {
    fn check(&self, check: &Check) -> Result<(), Wrong> {
        match check {
            Check::Set(set, demands) => demands.iter().try_for_each(|d| self.set(*set, d)),
            Check::Workers(name, count) => {
                let got = self.holds(name).count() as u64;
                self.count(
                    *count,
                    got,
                    &format!("workers of `{name}` placed"),
                    vec![name.clone()],
                )
            }
            Check::Pending(names, code) => names
                .iter()
                .try_for_each(|name| self.pending(name, code.as_ref())),
            Check::On(name, whereabouts) => self.on(name, whereabouts),
            Check::Slices(node, gpu, holdings) => self.slices(node, *gpu, holdings),
            Check::Fits(node, gpu, profiles) => self.fits(node, *gpu, profiles),
            Check::Untouched(names) => {
                let touched = |n: &&Name| {
                    self.standing(n)
                        .is_some_and(|s| s.evicted > 0 || s.moved > 0)
                };
                let about: Vec<_> = names.iter().filter(touched).cloned().collect();
                if about.is_empty() {
                    return Ok(());
                }
                let got = format!("told to leave: {}", list(&about));
                wrong(format!("{} untouched", list(names)), got, about)
            }
            Check::Evictions(count) => {
                let got = self.snapshot.standings.values().map(|s| s.evicted).sum();
                self.count(*count, got, "workers evicted", self.members(Set::Evicted))
            }
            Check::Moves(count) => {
                let got = self.snapshot.standings.values().map(|s| s.moved).sum();
                self.count(*count, got, "workers moved", self.members(Set::Moved))
            }
            Check::Minimal => none_of(
                &self.snapshot.spare,
                "no eviction or move that could be given back",
            ),
            Check::Stable(plans) => {
                let plans = format!("{plans} more plans that decide nothing");
                none_of(&self.snapshot.restless, &plans)
            }
        }
    }

    fn standing(&self, name: &Name) -> Option<&Standing> {
        self.snapshot.standings.get(name)
    }

    /// What the workers of a workload hold, those that are leaving left out, by worker.
    fn holds(&self, name: &Name) -> impl Iterator<Item = (u32, &Hold)> {
        let own = self.leases.get(name).into_iter().flatten();
        own.filter(|l| l.phase != Phase::Draining)
            .map(|l| (l.worker.index, &l.hold))
    }

    /// Every group has its minimum placed.
    fn runs(&self, workload: &Workload) -> bool {
        let mut first = 0;
        workload.groups.iter().all(|group| {
            let range = first..first + group.workers;
            first = range.end;
            let placed = self
                .holds(&workload.name)
                .filter(|(index, _)| range.contains(index));
            placed.count() as u64 >= u64::from(group.min)
        })
    }

    fn is(&self, set: Set, name: &Name) -> bool {
        let standing = self.standing(name);
        match set {
            Set::Running => self.workloads.get(name).is_some_and(|w| self.runs(w)),
            Set::Pending => {
                let wanted = standing.is_some_and(|s| !s.finished && !s.cancelled);
                wanted && !self.is(Set::Running, name)
            }
            Set::Evicted => standing.is_some_and(|s| s.evicted > 0),
            Set::Moved => standing.is_some_and(|s| s.moved > 0),
            Set::Finished => standing.is_some_and(|s| s.finished),
        }
    }

    fn members(&self, set: Set) -> Vec<Name> {
        let names = self
            .snapshot
            .standings
            .keys()
            .filter(|name| self.is(set, name));
        names.cloned().collect()
    }

    fn set(&self, set: Set, demand: &Demand) -> Result<(), Wrong> {
        let word = match set {
            Set::Running => "running",
            Set::Pending => "pending",
            Set::Evicted => "evicted",
            Set::Moved => "moved",
            Set::Finished => "finished",
        };
        match demand {
            Demand::All(names) => {
                let lacks = names.iter().filter(|name| !self.is(set, name));
                let lacks: Vec<_> = lacks.cloned().collect();
                if lacks.is_empty() {
                    return Ok(());
                }
                let got = format!("not {word}: {}", list(&lacks));
                wrong(format!("{} {word}", list(names)), got, lacks)
            }
            Demand::Only(names) => {
                let others = self.members(set).into_iter();
                let others: Vec<_> = others.filter(|n| names.binary_search(n).is_err()).collect();
                if others.is_empty() {
                    return Ok(());
                }
                let got = format!("also {word}: {}", list(&others));
                wrong(format!("none but {} {word}", list(names)), got, others)
            }
            Demand::Count(count, among) => {
                let members = self.members(set).into_iter();
                let counted = |n: &Name| among.as_ref().is_none_or(|a| a.binary_search(n).is_ok());
                let members: Vec<_> = members.filter(counted).collect();
                let what = match among {
                    Some(among) => format!("{word} among {}", list(among)),
                    None => word.into(),
                };
                self.count(*count, members.len() as u64, &what, members)
            }
        }
    }

    fn count(&self, want: Count, got: u64, what: &str, about: Vec<Name>) -> Result<(), Wrong> {
        if (want.least..=want.most).contains(&got) {
            return Ok(());
        }
        let want = match (want.least, want.most) {
            (0, 0) => "none".into(),
            (least, most) if least == most => format!("exactly {least}"),
            (0, most) => format!("at most {most}"),
            (least, u64::MAX) => format!("at least {least}"),
            (least, most) => format!("{least} to {most}"),
        };
        let shown = match about.is_empty() {
            true => got.to_string(),
            false => format!("{got}: {}", list(&about)),
        };
        wrong(format!("{want} {what}"), shown, about)
    }

    fn pending(&self, name: &Name, code: Option<&ReasonCode>) -> Result<(), Wrong> {
        let expected = match code {
            None => format!("`{name}` pending"),
            Some(code) => format!("`{name}` pending, {code}"),
        };
        let about = vec![name.clone()];
        if !self.is(Set::Pending, name) {
            let got = match self.standing(name) {
                None => "not submitted yet".into(),
                Some(s) if s.finished => "finished".into(),
                Some(s) if s.cancelled => "cancelled".into(),
                Some(_) => format!("running on {}", self.nodes_of(name)),
            };
            return wrong(expected, got, about);
        }
        let verdict = self.standing(name).and_then(|s| s.verdict.as_ref());
        match (code, verdict) {
            (None, _) => Ok(()),
            (Some(code), Some(verdict)) if code.matches(verdict) => Ok(()),
            (Some(_), Some(verdict)) => wrong(expected, verdict_code(verdict).to_string(), about),
            (Some(_), None) => wrong(expected, "no verdict".into(), about),
        }
    }

    fn nodes_of(&self, name: &Name) -> String {
        let mut nodes: Vec<_> = self
            .holds(name)
            .map(|(_, hold)| hold.node.clone())
            .collect();
        nodes.sort();
        nodes.dedup();
        list(&nodes)
    }

    /// The domain of a node at a level; `None` where it has no such label.
    fn domain(&self, node: &Name, level: &Name) -> Option<Name> {
        if *level == "host" {
            return Some(node.clone());
        }
        self.scenario
            .node(node.as_str())?
            .labels
            .get(level)
            .cloned()
    }

    fn on(&self, name: &Name, whereabouts: &Whereabouts) -> Result<(), Wrong> {
        let holds: Vec<_> = self.holds(name).collect();
        let about = vec![name.clone()];
        let expected = format!("`{name}` {whereabouts}");
        if holds.is_empty() {
            return wrong(expected, "it has no place".into(), about);
        }
        let domains = |level| {
            let domains = holds.iter().map(|(_, h)| self.domain(&h.node, level));
            let mut domains: Vec<_> = domains.collect();
            domains.sort();
            domains
        };
        let good = match whereabouts {
            Whereabouts::Nodes(nodes) => holds
                .iter()
                .all(|(_, hold)| nodes.binary_search(&hold.node).is_ok()),
            Whereabouts::Same(level) => {
                let domains = domains(level);
                domains[0].is_some() && domains.iter().all(|domain| *domain == domains[0])
            }
            // A node without the label shares its domain with none.
            Whereabouts::Apart(level) => domains(level)
                .windows(2)
                .all(|two| two[0].is_none() || two[0] != two[1]),
            Whereabouts::Link(level) => holds.iter().all(|(_, hold)| self.linked(hold, level)),
        };
        if good {
            return Ok(());
        }
        let got = holds.iter().map(|(index, hold)| {
            let gpus: Vec<_> = hold.slices.iter().map(|s| s.gpu.to_string()).collect();
            let slash = if gpus.is_empty() { "" } else { "/" };
            format!("{index} on {}{slash}{}", hold.node, gpus.join(","))
        });
        wrong(expected, short(got), about)
    }

    /// Whether all GPUs of a hold lie in one group of the level.
    fn linked(&self, hold: &Hold, level: &Name) -> bool {
        let node = self.scenario.node(hold.node.as_str());
        let links = node
            .into_iter()
            .flat_map(|n| &n.links)
            .filter(|link| link.name == *level);
        links
            .flat_map(|link| &link.groups)
            .any(|group| hold.slices.iter().all(|slice| group.contains(&slice.gpu)))
    }

    fn said(&self, name: &Name) -> String {
        match self.standing(name) {
            None => "not submitted yet".into(),
            Some(Standing { finished: true, .. }) => "finished".into(),
            Some(Standing {
                verdict: Some(verdict),
                ..
            }) => verdict.to_string(),
            Some(_) if self.holds(name).next().is_some() => {
                format!("placed on {}", self.nodes_of(name))
            }
            Some(_) => "no verdict".into(),
        }
    }
}

fn none_of(found: &Option<Vec<String>>, expected: &str) -> Result<(), Wrong> {
    match found {
        Some(found) if found.is_empty() => Ok(()),
        Some(found) => wrong(expected.into(), short(found.iter().cloned()), Vec::new()),
        None => wrong(expected.into(), "it was not looked for".into(), Vec::new()),
    }
}

/// The first few, and how many more there are.
fn short(items: impl IntoIterator<Item = String>) -> String {
    let mut items: Vec<_> = items.into_iter().collect();
    let more = items.len().saturating_sub(8);
    items.truncate(8);
    let text = items.join(", ");
    if more > 0 {
        format!("{text} and {more} more")
    } else {
        text
    }
}

fn list(names: &[Name]) -> String {
    if names.is_empty() {
        "nobody".into()
    } else {
        short(names.iter().map(|n| format!("`{n}`")))
    }
}

fn or_nothing(items: &[String]) -> String {
    if items.is_empty() {
        "nothing".into()
    } else {
        items.join(", ")
    }
}

impl fmt::Display for Whereabouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nodes(nodes) => write!(f, "on {}", list(nodes)),
            Self::Same(level) => write!(f, "within one {level}"),
            Self::Apart(level) => write!(f, "with every worker in another {level}"),
            Self::Link(level) => write!(f, "with the GPUs of each worker in one {level}"),
        }
    }
}

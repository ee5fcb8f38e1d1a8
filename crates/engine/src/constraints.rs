//! Where an ask may run: labels, taints, and distance to other work.

use crate::{
    inventory::{NodeBooks, NodeIx},
    state::{State, Work},
};
use cleave_model::{
    Name,
    ask::{Affinity, AffinityKind, Constraints},
    node::Node,
    verdict::Reason,
};
use std::collections::BTreeSet;

/// The taint key that stands for every taint.
const ALL: &str = "all";
/// The level at which every node is a domain of its own.
const HOST: &str = "host";

/// Whether labels and taints let such work onto the node.
///
/// # Errors
/// The label that is missing or different, or the taint that is not tolerated.
pub fn admits(node: &Node, limits: &Constraints) -> Result<(), Reason> {
    for (key, value) in &limits.select {
        if node.labels.get(key) != Some(value) {
            return Err(Reason::NoLabel(key.clone()));
        }
    }
    match untolerated(&node.taints, limits) {
        Some(taint) => Err(Reason::Taint(taint.clone())),
        None => Ok(()),
    }
}

/// The first of the taints that is not tolerated.
pub fn untolerated<'a>(taints: &'a [Name], limits: &Constraints) -> Option<&'a Name> {
    let tolerated = |taint: &Name| limits.tolerate.iter().any(|t| t == taint || *t == ALL);
    taints.iter().find(|taint| !tolerated(taint))
}

/// The domain of a node at a level; nodes without the label are in none.
pub fn domain<'a>(node: &'a Node, level: &Name) -> Option<&'a Name> {
    if *level == HOST {
        Some(&node.name)
    } else {
        node.labels.get(level)
    }
}

/// Domains to be in and to keep out of, for one worker at one moment.
#[derive(Clone, Debug, Default)]
pub struct Domains<'a> {
    /// In one of these domains; in any, as long as in one, where it says nothing.
    within: Vec<(&'a Name, Option<BTreeSet<&'a Name>>)>,
    outside: Vec<(&'a Name, BTreeSet<&'a Name>)>,
}

impl<'a> Domains<'a> {
    /// What holds for the next worker of `work` in the group with these limits. `placed` are the
    /// placements that the same plan has made already. Keeping apart is mutual: work that must
    /// not be near this one keeps it away, too.
    pub fn of(
        state: &'a State,
        work: &'a Work,
        limits: &'a Constraints,
        placed: &[(Name, NodeIx)],
    ) -> Self {
        let mut domains = Self::default();
        let taken = |names: &[Name], level: &Name| -> BTreeSet<&'a Name> {
            let works = names
                .iter()
                .filter_map(|name| state.workload(name.as_str()));
            let leases = works.flat_map(|work| work.workers.iter().filter_map(|w| w.lease()));
            let held = leases.filter_map(|lease| state.node_ix(lease.hold.node.as_str()));
            let now = placed
                .iter()
                .filter(|(name, _)| names.contains(name))
                .map(|&(_, ix)| ix);
            let nodes = held.chain(now).filter_map(|ix| state.node(ix));
            nodes
                .filter_map(|books| domain(&books.node, level))
                .collect()
        };
        for Affinity { kind, level, with } in &limits.affinity {
            let found = taken(with, level);
            match kind {
                // The first of a group that wants to be near itself may go to any domain.
                AffinityKind::Near if found.is_empty() && with.contains(work.name()) => {
                    domains
                        .within
                        .extend((*level != *HOST).then_some((level, None)));
                }
                AffinityKind::Near => domains.within.push((level, Some(found))),
                AffinityKind::Apart => domains.outside.push((level, found)),
            }
        }
        for other in state.shy() {
            for group in &other.spec.groups {
                for Affinity { kind, level, with } in &group.ask.limits.affinity {
                    let apart = *kind == AffinityKind::Apart && with.contains(work.name());
                    if apart && other.name() != work.name() {
                        let found = taken(std::slice::from_ref(other.name()), level);
                        domains.outside.push((level, found));
                    }
                }
            }
        }
        domains
    }

    /// Whether every node will do.
    pub fn is_free(&self) -> bool {
        self.within.is_empty() && self.outside.is_empty()
    }

    /// Whether this node will do.
    ///
    /// # Errors
    /// The level at which it will not.
    pub fn admit(&self, books: &NodeBooks) -> Result<(), Reason> {
        let here = |level: &Name| domain(&books.node, level);
        let mut within = self.within.iter();
        let left = within.find(|(level, set)| {
            !here(level).is_some_and(|here| set.as_ref().is_none_or(|set| set.contains(here)))
        });
        let mut outside = self.outside.iter();
        let met = outside.find(|(level, set)| here(level).is_some_and(|here| set.contains(here)));
        let level = left.map(|(level, _)| level);
        match level.or(met.map(|(level, _)| level)) {
            Some(level) => Err(Reason::Affinity((*level).clone())),
            None => Ok(()),
        }
    }
}

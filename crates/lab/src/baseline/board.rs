//! Scores of every kind of request on every node, kept up to date by what changed.

use std::collections::HashMap;

use super::{GPU_MILLI, Node, Policy, Request};

/// Does not fit.
const NO: i16 = -1;

/// Where a request went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Place of the node in the fleet.
    pub node: usize,
    /// Places of its GPUs on the node.
    pub gpus: Vec<usize>,
    /// What is held there.
    pub held: Request,
}

/// A fleet in use and a policy over it.
///
/// One placement changes one node, and requests come in few kinds: each kind keeps its scores and
/// where it stood in the log of changed nodes, and scores only those anew when it is next asked.
#[derive(Clone, Debug)]
pub struct Board<P> {
    nodes: Vec<Node>,
    policy: P,
    kinds: HashMap<Request, usize>,
    scores: Vec<Scores>,
    changed: Vec<usize>,
}

#[derive(Clone, Debug)]
struct Scores {
    by_node: Vec<i16>,
    seen: usize,
}

impl<P: Policy> Board<P> {
    /// Over nodes in the order that decides ties.
    pub fn new(nodes: Vec<Node>, policy: P) -> Self {
        Self {
            nodes,
            policy,
            kinds: HashMap::new(),
            scores: Vec::new(),
            changed: Vec::new(),
        }
    }

    /// The nodes as they are now.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The policy.
    pub fn policy_mut(&mut self) -> &mut P {
        &mut self.policy
    }

    /// Says what a node has now.
    pub fn set(&mut self, node: usize, now: Node) {
        if self.nodes[node] != now {
            self.nodes[node] = now;
            self.changed.push(node);
        }
    }

    /// The node and GPUs the policy takes, or none where the request fits nowhere. Changes nothing.
    pub fn choose(&mut self, request: &Request) -> Option<Placement> {
        self.choose_where(request, |_| true)
    }

    /// As [`Board::choose`], passing over nodes for which `admit` refuses the placement.
    pub fn choose_where(
        &mut self,
        request: &Request,
        mut admit: impl FnMut(&Placement) -> bool,
    ) -> Option<Placement> {
        let held = self.policy.reserved(request);
        let kind = self.brought_up(&held);
        let mut passed: Option<Vec<i16>> = None;
        loop {
            let scores = passed.as_ref().unwrap_or(&self.scores[kind].by_node);
            let node = self.policy.pick(scores)?;
            let placement = self.placement(node, held);
            if admit(&placement) {
                return Some(placement);
            }
            passed.get_or_insert_with(|| self.scores[kind].by_node.clone())[node] = NO;
        }
    }

    fn placement(&mut self, node: usize, held: Request) -> Placement {
        let here = &self.nodes[node];
        let gpus = if held.is_share() {
            vec![self.policy.gpu(here, &held)]
        } else {
            let empty = (0..here.gpu_milli.len()).filter(|&g| here.gpu_milli[g] == GPU_MILLI);
            empty.take(usize::from(held.gpus)).collect()
        };
        Placement { node, gpus, held }
    }

    /// Takes what the placement holds.
    ///
    /// # Panics
    /// If there is not enough left.
    pub fn take(&mut self, placement: &Placement) {
        let node = &mut self.nodes[placement.node];
        let left = |have: u32, asked: u32| have.checked_sub(asked).expect("enough is left");
        node.cpu_milli = left(node.cpu_milli, placement.held.cpu_milli);
        node.memory_mib = left(node.memory_mib, placement.held.memory_mib);
        for &gpu in &placement.gpus {
            let left = node.gpu_milli[gpu].checked_sub(placement.held.gpu_milli);
            node.gpu_milli[gpu] = left.expect("enough is left");
        }
        self.changed.push(placement.node);
    }

    /// Gives back what [`Board::take`] took.
    pub fn give_back(&mut self, placement: &Placement) {
        let node = &mut self.nodes[placement.node];
        node.cpu_milli += placement.held.cpu_milli;
        node.memory_mib += placement.held.memory_mib;
        for &gpu in &placement.gpus {
            node.gpu_milli[gpu] += placement.held.gpu_milli;
        }
        self.changed.push(placement.node);
    }

    /// The place of this kind's scores, brought up to date.
    fn brought_up(&mut self, held: &Request) -> usize {
        let next = self.scores.len();
        let kind = *self.kinds.entry(*held).or_insert(next);
        if kind == next {
            self.scores.push(Scores {
                by_node: vec![NO; self.nodes.len()],
                seen: 0,
            });
        }
        let scores = &mut self.scores[kind];
        let new = &self.changed[scores.seen..];
        let anew = |node: usize, by_node: &mut Vec<i16>, policy: &mut P| {
            let fits = self.nodes[node].fits(held);
            by_node[node] = if fits {
                policy.score(&self.nodes[node], held)
            } else {
                NO
            };
        };
        if kind == next || new.len() >= self.nodes.len() {
            (0..self.nodes.len()).for_each(|n| anew(n, &mut scores.by_node, &mut self.policy));
        } else {
            (new.iter()).for_each(|&n| anew(n, &mut scores.by_node, &mut self.policy));
        }
        scores.seen = self.changed.len();
        kind
    }
}

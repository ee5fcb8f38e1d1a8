//! Fragmentation gradient descent (Weng et al., USENIX ATC '23), the authors' `FGDScore`.
//!
//! A GPU milli is *fragmented* for a typical pod when that pod cannot use it: all that is left on
//! a node where the pod does not fit (or which it does not need, for a CPU-only pod), else the
//! GPUs with less room than it asks of one. The measure of a node is the mean over the typical
//! pods. Each pod goes where the measure rises least: score = 100 × sigmoid(fall in milli /
//! 1,000), cut to an integer. The cut matters: it makes many nodes equal, and the fleet's order
//! decides between them.

use std::collections::HashMap;

use super::{Node, Policy, Request};

/// Part of the list's pods that the typical ones make up.
const POPULARITY: f64 = 0.95;

/// The pods that fragmentation is measured by: the most frequent kinds of a list, most frequent
/// first, until they make up 95 % of its pods. Kinds are told apart by CPU, GPUs, share and
/// models, not by memory; CPU-only pods count.
#[derive(Clone, Debug, Default)]
pub struct TypicalPods(Vec<(Request, f64)>);

impl TypicalPods {
    /// Of kinds of requests with how often each comes; a kind may be listed more than once.
    pub fn of(mix: &[(Request, u64)]) -> Self {
        // The authors' order among equally frequent kinds: the larger first.
        let mut counts: HashMap<_, u64> = HashMap::new();
        for (r, count) in mix {
            let kind = (r.cpu_milli, r.gpu_milli, r.gpus, r.models);
            *counts.entry(kind).or_default() += count;
        }
        let mut kinds: Vec<_> = counts.into_iter().map(|(kind, n)| (n, kind)).collect();
        kinds.sort_unstable_by(|a, b| b.cmp(a));

        let total = mix.iter().map(|(_, count)| count).sum::<u64>() as f64;
        let mut covered = 0.0;
        let mut typical = Vec::new();
        for (count, (cpu_milli, gpu_milli, gpus, models)) in kinds {
            if covered >= POPULARITY * total {
                break;
            }
            covered += count as f64;
            let request = Request {
                cpu_milli,
                memory_mib: 0,
                gpus,
                gpu_milli,
                models,
            };
            typical.push((request, count as f64 / total));
        }
        for (_, share) in &mut typical {
            *share /= covered / total;
        }
        Self(typical)
    }

    /// Expected GPU milli of the node that a typical pod cannot use.
    ///
    /// Sums in the authors' order, by kind of obstacle and then over kinds, so that falls which
    /// are equal on paper differ by the same rounding: whether such a fall scores 49 or 50 shows
    /// in the results.
    pub fn fragmented_milli(&self, node: &Node) -> f64 {
        let left = node.total_gpu_milli() as f64;
        let [
            mut both,
            mut gpu,
            mut cpu,
            mut idle,
            mut idle_cpu,
            mut model,
        ] = [0.0f64; 6];
        for (pod, share) in &self.0 {
            let enough_cpu = node.cpu_milli >= pod.cpu_milli;
            if pod.gpu_milli == 0 {
                *(if enough_cpu { &mut idle } else { &mut idle_cpu }) += share * left;
            } else if !pod.models.allow(node.model) {
                model += share * left;
            } else {
                match (node.holds(pod), enough_cpu) {
                    (true, true) => {
                        let tight = node.gpu_milli.iter().filter(|&&left| left < pod.gpu_milli);
                        let tight: u64 = tight.map(|&left| u64::from(left)).sum();
                        gpu += share * tight as f64;
                    }
                    (true, false) => cpu += share * left,
                    (false, true) => gpu += share * left,
                    (false, false) => both += share * left,
                }
            }
        }
        both + gpu + cpu + idle + idle_cpu + model
    }
}

/// A node's state as far as fragmentation can tell: CPU left, model, GPUs' room in order of size.
type State = Box<[u32]>;

/// The policy; remembers the measure of every state it meets. Typical are the pods it is told to
/// [expect](Policy::expect); before that, nothing is fragmented and every node is as good.
#[derive(Clone, Debug, Default)]
pub struct Fgd {
    typical: TypicalPods,
    measured: HashMap<State, f64>,
    scored: HashMap<State, i16>,
    key: Vec<u32>,
}

impl Fgd {
    /// [`TypicalPods::fragmented_milli`], remembered.
    pub fn fragmented_milli(&mut self, node: &Node) -> f64 {
        write_state(&mut self.key, node);
        if let Some(&known) = self.measured.get(&self.key[..]) {
            return known;
        }
        let measure = self.typical.fragmented_milli(node);
        self.measured.insert(self.key[..].into(), measure);
        measure
    }

    /// The best score a share reaches on the node and the first GPU that reaches it.
    fn best_gpu(&mut self, node: &Node, request: &Request) -> (i16, usize) {
        let before = self.fragmented_milli(node);
        let mut best = (-1, 0);
        for gpu in 0..node.gpu_milli.len() {
            let left = node.gpu_milli[gpu];
            // A GPU as full as an earlier one scores the same and loses the tie.
            if left < request.gpu_milli || node.gpu_milli[..gpu].contains(&left) {
                continue;
            }
            let after = Node {
                cpu_milli: node.cpu_milli - request.cpu_milli,
                gpu_milli: taken(&node.gpu_milli, gpu, request.gpu_milli),
                ..*node
            };
            let score = score(before, self.fragmented_milli(&after));
            if score > best.0 {
                best = (score, gpu);
            }
        }
        best
    }

    fn score_anew(&mut self, node: &Node, request: &Request) -> i16 {
        if request.is_share() {
            return self.best_gpu(node, request).0;
        }
        let mut after = node.clone();
        after.cpu_milli -= request.cpu_milli;
        let empty = after
            .gpu_milli
            .iter_mut()
            .filter(|left| **left >= request.gpu_milli);
        for left in empty.take(usize::from(request.gpus)) {
            *left -= request.gpu_milli;
        }
        score(self.fragmented_milli(node), self.fragmented_milli(&after))
    }
}

impl Policy for Fgd {
    fn expect(&mut self, mix: &[(Request, u64)]) {
        *self = Self {
            typical: TypicalPods::of(mix),
            ..Self::default()
        };
    }

    fn score(&mut self, node: &Node, request: &Request) -> i16 {
        write_state(&mut self.key, node);
        let ask = [
            request.cpu_milli,
            u32::from(request.gpu_milli),
            u32::from(request.gpus),
        ];
        self.key.extend(ask);
        if let Some(&known) = self.scored.get(&self.key[..]) {
            return known;
        }
        let key: State = self.key[..].into();
        let score = self.score_anew(node, request);
        self.scored.insert(key, score);
        score
    }

    fn gpu(&mut self, node: &Node, request: &Request) -> usize {
        self.best_gpu(node, request).1
    }
}

/// 100 × sigmoid(fall / 1,000), cut.
fn score(before: f64, after: f64) -> i16 {
    let fall = (before - after) / 1_000.0;
    (1.0 / (1.0 + (-fall).exp()) * 100.0) as i16
}

fn taken(gpus: &[u16], gpu: usize, milli: u16) -> Vec<u16> {
    let mut gpus = gpus.to_vec();
    gpus[gpu] -= milli;
    gpus
}

fn write_state(key: &mut Vec<u32>, node: &Node) {
    key.clear();
    key.push(node.cpu_milli);
    key.push(node.model.map_or(u32::MAX, u32::from));
    key.extend(node.gpu_milli.iter().map(|&left| u32::from(left)));
    key[2..].sort_unstable();
}

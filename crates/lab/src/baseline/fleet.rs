//! An openb trace as requests over nodes.

use super::{GPU_MILLI, Models, Node, Request};
use crate::random::SplitMix64;
use crate::trace::openb;

/// Nodes, requests and the models both speak of.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// Model names; a model's number is its place here.
    pub models: Vec<String>,
    /// Names of the nodes, in the order that decides ties.
    pub names: Vec<String>,
    /// The nodes, all empty, in the same order.
    pub nodes: Vec<Node>,
    /// One request a pod, in the list's order.
    pub requests: Vec<Request>,
}

/// Why a trace is not a fleet.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// More models than a set of them holds, or more ways to list them than are counted.
    #[error(
        "{models} GPU models in {lists} combinations: at most {limit} and {most} can be told apart",
        limit = Models::LIMIT,
        most = u16::MAX
    )]
    Models {
        /// Different models.
        models: usize,
        /// Different lists of models over all pods.
        lists: usize,
    },
    /// More GPUs asked for or had than one node is expected to hold.
    #[error("{name:?} has or asks for {gpus} GPUs: at most {most} on a node", most = u16::MAX)]
    Gpus {
        /// The node or pod.
        name: String,
        /// Its GPUs.
        gpus: u32,
    },
}

impl Fleet {
    /// Nodes in the order of their names, as the trace's own simulator sorts them.
    pub fn of(trace: &openb::Trace) -> Result<Self, FleetError> {
        let of_nodes = trace.nodes.iter().filter_map(|node| node.model.as_ref());
        let of_pods = trace.pods.iter().flat_map(|pod| &pod.models);
        let models = distinct(of_nodes.chain(of_pods));
        let lists = distinct(
            trace
                .pods
                .iter()
                .map(|pod| &pod.models)
                .filter(|m| !m.is_empty()),
        );
        if models.len() > Models::LIMIT || lists.len() > usize::from(u16::MAX) {
            return Err(FleetError::Models {
                models: models.len(),
                lists: lists.len(),
            });
        }
        let number = |model: &String| place(&models, model) as u8;
        let gpus = |name: &String, gpus: u32| {
            u16::try_from(gpus).map_err(|_| FleetError::Gpus {
                name: name.clone(),
                gpus,
            })
        };
        let mut sorted: Vec<&openb::Node> = trace.nodes.iter().collect();
        sorted.sort_by(|a, b| a.name.cmp(&b.name));
        let node = |node: &&openb::Node| {
            Ok(Node {
                cpu_milli: node.cpu_milli,
                memory_mib: node.memory_mib,
                model: node.model.as_ref().map(number),
                gpu_milli: vec![GPU_MILLI; usize::from(gpus(&node.name, node.gpus)?)],
            })
        };
        let request = |pod: &openb::Pod| {
            Ok(Request {
                cpu_milli: pod.cpu_milli,
                memory_mib: pod.memory_mib,
                gpus: gpus(&pod.name, pod.gpus)?,
                gpu_milli: pod.gpu_milli as u16,
                models: match pod.models[..] {
                    [] => Models::ANY,
                    _ => Models::of(
                        place(&lists, &pod.models) as u16 + 1,
                        pod.models.iter().map(number),
                    ),
                },
            })
        };
        Ok(Self {
            names: sorted.iter().map(|node| node.name.clone()).collect(),
            nodes: sorted.iter().map(node).collect::<Result<_, _>>()?,
            requests: trace.pods.iter().map(request).collect::<Result<_, _>>()?,
            models: models.into_iter().cloned().collect(),
        })
    }

    /// The same nodes in an order drawn from `seed`.
    pub fn shuffled(&self, seed: u64) -> Self {
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        SplitMix64::new(seed).shuffle(&mut order);
        self.ordered(&order)
    }

    /// The same nodes, in the order of these places.
    ///
    /// # Panics
    /// If `order` is no order of all the nodes.
    pub fn ordered(&self, order: &[usize]) -> Self {
        let mut all = order.to_vec();
        all.sort_unstable();
        assert!(
            all.iter().copied().eq(0..self.nodes.len()),
            "every node once"
        );
        Self {
            models: self.models.clone(),
            names: order.iter().map(|&n| self.names[n].clone()).collect(),
            nodes: order.iter().map(|&n| self.nodes[n].clone()).collect(),
            requests: self.requests.clone(),
        }
    }

    /// Every request of the list as a kind, once for each time it is there.
    pub fn mix(&self) -> Vec<(Request, u64)> {
        self.requests.iter().map(|&request| (request, 1)).collect()
    }

    /// Thousandths of a GPU over all nodes.
    pub fn total_gpu_milli(&self) -> u64 {
        self.nodes.iter().map(Node::total_gpu_milli).sum()
    }
}

/// The different ones, sorted.
fn distinct<'a, T: Ord>(all: impl Iterator<Item = &'a T>) -> Vec<&'a T> {
    let mut all: Vec<&T> = all.collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn place<T: Ord>(sorted: &[&T], item: &T) -> usize {
    sorted
        .binary_search(&item)
        .expect("listed from the same trace")
}

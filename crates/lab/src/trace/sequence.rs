//! Arrival orders: a list shuffled and inflated from a seed, or an order that is given.

use std::collections::{HashMap, HashSet};

use super::TraceError;
use super::openb::Pod;
use crate::random::SplitMix64;

/// Most arrivals one sequence may have.
pub const MAX_ARRIVALS: usize = 10_000_000;

/// One arrival: a pod of the list, or a copy of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Index into the list.
    pub pod: usize,
    /// How often that pod arrived before: 0 for the pod itself, 1 for its first copy.
    pub copy: u32,
}

/// Every pod once, shuffled; then copies drawn evenly until the next would pass `target_gpu_milli`
/// thousandths of a GPU in all. A list that asks for more than that is cut where it passes it.
///
/// Same list, seed and target, same sequence, on every platform: [`SplitMix64`] shuffles, then
/// draws, over the list sorted by name.
pub fn shuffled(
    pods: &[Pod],
    seed: u64,
    target_gpu_milli: u64,
) -> Result<Vec<Arrival>, TraceError> {
    let mut by_name: Vec<usize> = (0..pods.len()).collect();
    by_name.sort_by(|&a, &b| pods[a].name.cmp(&pods[b].name));
    let mut rng = SplitMix64::new(seed);
    let mut order = by_name.clone();
    rng.shuffle(&mut order);

    let asked = |pod: usize| pods[pod].total_gpu_milli();
    let refused = |reason| TraceError::Inflation {
        target_gpu_milli,
        reason,
    };
    if target_gpu_milli > 0 && order.iter().all(|&pod| asked(pod) == 0) {
        return Err(refused("no pod of the list asks for a GPU"));
    }
    let mut demand = 0u64;
    let mut arrivals = Vec::new();
    let mut once = order.into_iter();
    loop {
        let pod = match once.next() {
            Some(pod) => pod,
            None if demand >= target_gpu_milli => break,
            None => by_name[rng.below(by_name.len())],
        };
        if demand.saturating_add(asked(pod)) > target_gpu_milli {
            break;
        }
        if arrivals.len() == MAX_ARRIVALS {
            return Err(refused(
                "ten million arrivals are not enough: lower the target",
            ));
        }
        demand += asked(pod);
        arrivals.push(pod);
    }
    Ok(counted(arrivals, pods.len()))
}

/// The arrivals of a given order of pod numbers ([`Pod::number`]).
pub fn given(pods: &[Pod], order: &[u64]) -> Result<Vec<Arrival>, TraceError> {
    let index: HashMap<u64, usize> = (pods.iter().enumerate())
        .filter_map(|(index, pod)| Some((pod.number()?, index)))
        .collect();
    let order = (order.iter().enumerate())
        .map(|(position, &number)| {
            index.get(&number).copied().ok_or(TraceError::UnknownPod {
                position: position + 1,
                number,
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(counted(order, pods.len()))
}

/// A unique name for each arrival: the pod's own, then `NAME.1`, `NAME.2` for its copies, passing
/// over names that the list has already.
pub fn names(pods: &[Pod], arrivals: &[Arrival]) -> Vec<String> {
    let mut taken: HashSet<String> = pods.iter().map(|p| p.name.clone()).collect();
    let mut next = vec![1u32; pods.len()];
    let name = |arrival: &Arrival| {
        let name = &pods[arrival.pod].name;
        if arrival.copy == 0 {
            return name.clone();
        }
        loop {
            let copy = format!("{name}.{}", next[arrival.pod]);
            next[arrival.pod] += 1;
            if taken.insert(copy.clone()) {
                return copy;
            }
        }
    };
    arrivals.iter().map(name).collect()
}

fn counted(order: Vec<usize>, pods: usize) -> Vec<Arrival> {
    let mut copies = vec![0u32; pods];
    let arrival = |pod: usize| {
        let copy = copies[pod];
        copies[pod] += 1;
        Arrival { pod, copy }
    };
    order.into_iter().map(arrival).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Text, openb};

    fn list(rows: &str) -> Vec<Pod> {
        let text = format!("name,cpu_milli,memory_mib,num_gpu,gpu_milli\n{rows}");
        openb::pods(&Text::decode("f", text.as_bytes()).expect("text")).expect("valid")
    }

    #[test]
    fn shuffled_and_inflated() {
        let pods = list("b-0,1,1,1,1000\nb-1,1,1,1,500\nb-2,1,1,0,0\nb-2.1,1,1,2,1000\n");
        let once = shuffled(&pods, 3, 20_000).expect("can be inflated");
        assert_eq!(once, shuffled(&pods, 3, 20_000).expect("can be inflated"));
        assert_ne!(once, shuffled(&pods, 4, 20_000).expect("can be inflated"));
        // The list's order on disk does not matter, only its names do.
        let mut turned = pods.clone();
        turned.reverse();
        let turned_once = shuffled(&turned, 3, 20_000).expect("can be inflated");
        assert_eq!(names(&pods, &once), names(&turned, &turned_once));

        let demand: u64 = once.iter().map(|a| pods[a.pod].total_gpu_milli()).sum();
        assert!((18_000..=20_000).contains(&demand), "{demand}");
        let mut first: Vec<usize> = once[..4].iter().map(|a| a.pod).collect();
        first.sort_unstable();
        assert_eq!(first, [0, 1, 2, 3]);

        let mut unique = names(&pods, &once);
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), once.len());

        let cut = shuffled(&pods, 3, 1_500).expect("more than that is asked");
        assert!(cut.len() < 4 && cut == once[..cut.len()], "{cut:?}");
        let wrong = shuffled(&list("c,1,1,0,0\n"), 1, 5)
            .expect_err("no demand")
            .to_string();
        assert!(
            wrong.starts_with("cannot inflate demand to 5 GPU milli: no pod"),
            "{wrong}"
        );
    }

    #[test]
    fn a_given_order() {
        let pods = list("p-0007,1,1,1,1000\np-0003,1,1,0,0\n");
        let arrivals = given(&pods, &[3, 7, 3]).expect("known");
        assert_eq!(names(&pods, &arrivals), ["p-0003", "p-0007", "p-0003.1"]);
        let wrong = given(&pods, &[3, 8]).expect_err("unknown").to_string();
        assert!(
            wrong.starts_with("arrival 2: the list has no pod number 8"),
            "{wrong}"
        );
    }
}

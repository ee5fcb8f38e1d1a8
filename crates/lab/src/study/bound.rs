//! The most that slices of one board can be worth on so many of them, if some may be refused.

use std::collections::BTreeSet;

use microlp::{ComparisonOp, OptimizationDirection, Problem};

use super::slices::Geometry;

/// Upper bound of the weight placed, as a part of all, %.
///
/// A linear program: how many GPUs stand in each layout to which nothing can be added, in
/// fractions, so that as much weight as possible of the slices asked for (`demand` by profile)
/// is served. Layouts with the same slices are one.
pub fn most_weight(geometry: &Geometry, gpus: usize, demand: &[u64]) -> f64 {
    let layouts = geometry.layouts();
    let count = |id| {
        let instances = layouts.instances(id);
        let of = |profile| instances.iter().filter(|i| i.profile == profile).count();
        let counts = geometry
            .profiles()
            .iter()
            .map(|&p| of(p))
            .collect::<Vec<_>>();
        (counts.iter().sum::<usize>() == instances.len()).then_some(counts)
    };
    let full = |&id: &_| geometry.profiles().iter().all(|&p| !layouts.fits(id, p));
    let whole: BTreeSet<Vec<usize>> = layouts.ids().filter(full).filter_map(count).collect();

    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let stands: Vec<_> = (whole.iter())
        .map(|_| problem.add_var(0.0, (0.0, gpus as f64)))
        .collect();
    let one_each: Vec<_> = stands.iter().map(|&y| (y, 1.0)).collect();
    problem.add_constraint(&one_each, ComparisonOp::Le, gpus as f64);
    for (at, (&profile, &asked)) in geometry.profiles().iter().zip(demand).enumerate() {
        let weight = f64::from(layouts.weight(profile)) / f64::from(cleave_model::GPU);
        let served = problem.add_var(weight, (0.0, asked as f64));
        let supplied = whole.iter().zip(&stands);
        let supplied = supplied.map(|(counts, &y)| (y, -(counts[at] as f64)));
        let row: Vec<_> = std::iter::once((served, 1.0)).chain(supplied).collect();
        problem.add_constraint(&row, ComparisonOp::Le, 0.0);
    }
    let outcome = problem.solve().expect("bounded, and nothing is a solution");
    let solution = outcome.solution().expect("there is no limit of time");
    solution.objective() * 100.0 / gpus as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_by_hand() {
        let h100 = super::super::mixes::geometry();
        for (gpus, demand, expected) in [
            // Two 3g on a GPU: 2 × 390 of 840.
            (3, [0, 0, 0, 100, 0, 0], 780.0 / 8.4),
            // 4g beside 3g is the whole GPU.
            (3, [0, 0, 0, 3, 3, 0], 100.0),
            (1, [0, 0, 0, 0, 0, 9], 100.0),
            // Half of the GPUs are asked for.
            (2, [0, 0, 0, 0, 0, 1], 50.0),
            // 7 × 112.5.
            (1, [99, 0, 0, 0, 0, 0], 787.5 / 8.4),
            // Three 2g and a 1g.20gb leave no unit free.
            (1, [0, 1, 3, 0, 0, 0], (165.0 + 3.0 * 225.0) / 8.4),
            (1, [0; 6], 0.0),
        ] {
            let bound = most_weight(&h100, gpus, &demand);
            assert!((bound - expected).abs() < 1e-6, "{demand:?}: {bound}");
        }
    }
}

//! One plan over a large synthetic cluster.

use std::path::Path;

use anyhow::Result;
use cleave_lab::study::cluster::{Cluster, Planned};
use serde_json::json;

use super::row::{Row, Taker, hundredths};

const SEED: u64 = 1;

/// 100,000 GPUs, 100,000 asks.
pub fn scale(_data: &Path, words: &[&str], note: &mut dyn FnMut(Row)) -> Result<()> {
    let (size, times) = (words.first(), words.get(1));
    let size = size.map_or(Ok(100_000), |word| word.parse())?;
    let times = times.map_or(Ok(3), |word| word.parse())?;
    note(take(size, times).1);
    Ok(())
}

/// 10,000 of each, then 100,000 of each.
pub fn growth(_data: &Path, _words: &[&str], note: &mut dyn FnMut(Row)) -> Result<()> {
    let (small, row) = take(10_000, 5);
    note(row);
    let (large, row) = take(100_000, 3);
    note(row.with("times_as_long_as_a_tenth", hundredths(large / small)));
    Ok(())
}

/// The median in seconds beside the row.
fn take(size: usize, times: usize) -> (f64, Row) {
    let cluster = Cluster::new(size, size, SEED);
    let (states, with_racks) = cluster.node_states();
    let input = json!({
        "gpus": size, "nodes": cluster.nodes.len(), "asks": size, "kinds": cluster.kinds(),
        "node_states": states, "node_states_with_racks": with_racks, "seed": SEED,
        "mix": "known", "runs": times,
    });
    let mut taker = Taker::new();
    let mut all: Vec<Planned> = Vec::new();
    for _ in 0..times {
        let planned = cluster.clone().plan();
        taker.note(planned.apply + planned.plan);
        all.push(planned);
    }
    all.sort_by_key(|planned| planned.apply + planned.plan);
    let planned = all[(times - 1) / 2];
    let (apply, plan) = (planned.apply.as_secs_f64(), planned.plan.as_secs_f64());
    let outcome = json!({
        "placed": planned.placed, "weight_percent": hundredths(planned.weight),
        "apply_ms": hundredths(apply * 1e3), "plan_ms": hundredths(plan * 1e3),
        "refine_ms": hundredths(planned.refine.as_secs_f64() * 1e3),
        "classes": planned.classes,
        "placements_per_s": (planned.placed as f64 / (apply + plan)).round(),
    });
    (
        apply + plan,
        taker.row(format!("scale {size}"), input, outcome),
    )
}

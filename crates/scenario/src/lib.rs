//! The scenario language: YAML to model, expectations, readable differences.
//!
//! One document says everything that decisions depend on: nodes, queues, workloads, events, and
//! what should come of it. [`parse`] reads it, [`judge`] compares an expectation with what is, and
//! [`schema`] describes the language to editors.
//!
//! ```
//! let text = "
//! cleave: 1
//! nodes:
//!   - {name: 'n[0-3]', gpus: 8, board: H100-80GB-SXM, cpu: 96, memory: 1024GiB}
//! workloads:
//!   - {name: train, class: training, workers: 4, gpu: 8, cpu: 64}
//!   - {name: note, class: interactive, gpu: 12GiB}
//! expect:
//!   - running: [train]
//!     pending: {note: full gpu}
//! ";
//! let scenario = cleave_scenario::parse(text).unwrap();
//! assert_eq!(scenario.nodes.len(), 4);
//!
//! let wrong = text.replace("workers", "wrokers");
//! let problems = cleave_scenario::parse(&wrong).unwrap_err();
//! let line = problems.in_file("demo.yaml");
//! assert!(line.starts_with("demo.yaml:6:36: unknown key `wrokers` (did you mean `workers`?)"));
//! ```

mod ast;
mod convert;
mod forms;
mod judge;
mod place;
mod quantity;
mod range;
mod read;
mod reason;
mod scenario;

pub use ast::expect::{Count, When};
pub use judge::{Difference, Snapshot, Standing, judge};
pub use place::{Place, Problem, Problems};
pub use quantity::{Cpu, Duration, GpuAmount, Memory, Price};
pub use range::MAX_THINGS;
pub use read::near;
pub use scenario::{
    Check, Demand, Expect, Happening, Held, Holding, Job, Latency, ReasonCode, Scenario, Set, Spot,
    Timed, Whereabouts,
};

use cleave_model::Name;

/// The version of the language that this release reads.
pub const VERSION: u32 = 1;

/// Reads a scenario.
///
/// # Errors
/// Everything that is wrong with the file, each with its place and a way out. A file that can't
/// be read as YAML of the right shape gives the first problem alone.
pub fn parse(text: &str) -> Result<Scenario, Problems> {
    let file = read::read(text).map_err(|problem| Problems(vec![problem]))?;
    convert::convert(&file)
}

/// Reads a job file for a cluster that has these queues: workloads that say what they run, `most`
/// of them at most.
///
/// # Errors
/// As [`parse`].
pub fn parse_jobs(text: &str, queues: &[Name], most: u64) -> Result<Vec<Job>, Problems> {
    let file = read::read(text).map_err(|problem| Problems(vec![problem]))?;
    convert::jobs(&file, queues, most)
}

/// The JSON Schema of scenario files, as it is checked in: generated from the types.
pub fn schema() -> String {
    let mut schema = schemars::schema_for!(ast::File);
    plain_text(
        schema
            .as_object_mut()
            .map(|map| map.values_mut())
            .into_iter()
            .flatten(),
    );
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema is plain JSON");
    text.push('\n');
    text
}

/// Where any text will do, YAML's numbers and truth values are texts as well.
fn plain_text<'a>(values: impl Iterator<Item = &'a mut serde_json::Value>) {
    for value in values {
        match value {
            serde_json::Value::Array(items) => plain_text(items.iter_mut()),
            serde_json::Value::Object(map) => {
                let narrow = ["pattern", "const", "enum"]
                    .iter()
                    .any(|key| map.contains_key(*key));
                let kind = map.get("type").cloned();
                match kind {
                    Some(kind) if !narrow && kind == "string" => {
                        map.insert(
                            "type".into(),
                            serde_json::json!(["string", "number", "boolean"]),
                        );
                    }
                    Some(kind) if !narrow && kind == serde_json::json!(["string", "null"]) => {
                        map.insert(
                            "type".into(),
                            serde_json::json!(["string", "number", "boolean", "null"]),
                        );
                    }
                    _ => {}
                }
                plain_text(map.values_mut());
            }
            _ => {}
        }
    }
}

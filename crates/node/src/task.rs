//! A task: all that a shim and the process it starts need to know, passed on in a private file.

use crate::users::Identity;
use cleave_device::hands::Start;
use cleave_model::{
    Name,
    lease::{Share, Slice},
    units::GPU,
};
use cleave_wire::job::{Bounds, Job, Limit, Run};
use serde::{Deserialize, Serialize};
use std::{path::PathBuf, sync::Arc};

/// What one attempt runs, as whom and where.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// Command, whole environment, directory, limits, terminal.
    pub run: Run,
    /// As whom.
    pub identity: Identity,
    /// Its control group, if there is one.
    pub cgroup: Option<PathBuf>,
    /// The process that is to be its parent: where that is another, the job must not start.
    pub parent: i32,
}

/// What the surroundings of a job say of its node.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The node.
    pub node: Name,
    /// The UUID of each GPU, by device index.
    pub gpus: Vec<String>,
    /// Whether the GPUs are only pretended.
    pub simulated: bool,
    /// Bounds of open files before the agent raised its own.
    pub open_files: Bounds,
}

/// The task of a start.
///
/// # Errors
/// Nobody could run this; why.
pub fn task(
    job: Job,
    start: &Start,
    identity: Identity,
    around: &Surroundings,
) -> Result<Task, String> {
    let mut run = Arc::unwrap_or_clone(job.run);
    check(&run)?;
    let slices = &start.hold.slices;
    let devices: Vec<&str> = slices
        .iter()
        .zip(&start.uuids)
        .filter_map(|(slice, uuid)| match uuid {
            Some(uuid) => Some(uuid.as_str()),
            None => around.gpus.get(usize::from(slice.gpu)).map(String::as_str),
        })
        .collect();
    if devices.len() != slices.len() {
        return Err("a GPU of the hold is not on this node".into());
    }
    let id = &start.id;
    let mut set = |key: &str, value: String| run.env.insert(key.into(), value);
    set("CLEAVE_JOB", id.worker.workload.to_string());
    set("CLEAVE_WORKER", id.worker.index.to_string());
    set("CLEAVE_WORKERS", job.workers.to_string());
    set("CLEAVE_ATTEMPT", id.attempt.to_string());
    set("CLEAVE_NODE", around.node.to_string());
    set("CUDA_DEVICE_ORDER", "PCI_BUS_ID".into());
    set("CUDA_VISIBLE_DEVICES", devices.join(","));
    if let Some(index) = job.array {
        set("CLEAVE_ARRAY_INDEX", index.to_string());
    }
    if around.simulated {
        set("CLEAVE_SIMULATED", "1".into());
    }
    let per_share = |what: fn(Share) -> u64| {
        let shares = slices.iter().filter_map(|slice: &Slice| slice.share);
        let texts: Vec<String> = shares.map(|share| what(share).to_string()).collect();
        (!texts.is_empty()).then(|| texts.join(","))
    };
    if let Some(memory) = per_share(|share| share.memory_mib.into()) {
        set("CLEAVE_GPU_MEMORY_MIB", memory);
    }
    let percent = |share: Share| u64::from(share.compute) * 100 / u64::from(GPU);
    if let Some(compute) = per_share(percent) {
        set("CLEAVE_GPU_COMPUTE_PERCENT", compute);
    }
    let account = &identity.account;
    for (key, value) in [
        ("HOME", &account.home),
        ("USER", &account.name),
        ("LOGNAME", &account.name),
        ("SHELL", &account.shell),
    ] {
        if !value.contains('\0') {
            run.env.entry(key.into()).or_insert_with(|| value.clone());
        }
    }
    run.limits
        .entry(Limit::OpenFiles)
        .or_insert(around.open_files);
    Ok(Task {
        run,
        identity,
        cgroup: None,
        parent: 0,
    })
}

/// What no process can be started with. The texts name places, never contents.
fn check(run: &Run) -> Result<(), String> {
    if run.argv.first().is_none_or(String::is_empty) {
        return Err("the job has no command".into());
    }
    if let Some(at) = run.argv.iter().position(|arg| arg.contains('\0')) {
        return Err(format!("argument {at} of the job holds a NUL byte"));
    }
    let bad_key = |key: &String| key.is_empty() || key.contains(['=', '\0']);
    if run.env.keys().any(bad_key) {
        return Err(
            "a variable of the job's environment is named by nothing, or by a name with `=` or a \
             NUL byte"
                .into(),
        );
    }
    if let Some((key, _)) = run.env.iter().find(|(_, value)| value.contains('\0')) {
        return Err(format!(
            "the value of the job's variable `{}` holds a NUL byte",
            key.escape_debug()
        ));
    }
    if !run.directory.starts_with('/') || run.directory.contains('\0') {
        return Err("the job's directory is not an absolute path".into());
    }
    Ok(())
}

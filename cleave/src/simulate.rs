//! `cleave simulate`: a scenario, or a recorded cluster trace, under one policy or several.

mod jobs;
mod openb;
mod story;

use std::{path::PathBuf, process::ExitCode};

#[derive(clap::Args)]
pub struct Args {
    /// A scenario file
    #[arg(required_unless_present = "format", conflicts_with = "format")]
    file: Option<PathBuf>,
    /// The format of a recorded trace
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Who decides; several, separated by commas, or `all` are compared
    #[arg(long, default_value = "cleave", value_delimiter = ',')]
    policy: Vec<String>,
    /// Where cleave gets the expected mix of asks: `learned` as they arrive, `known` (the whole
    /// list's distribution, as the published policies read it), or `prior:FILE` (a pod list)
    #[arg(long, default_value = "learned")]
    mix: String,
    /// openb: the node list (CSV, may be compressed)
    #[arg(long, conflicts_with = "file")]
    nodes: Option<PathBuf>,
    /// openb: the pod list (CSV, may be compressed)
    #[arg(long, conflicts_with = "file")]
    pods: Option<PathBuf>,
    /// openb: a given order of arrivals, one pod number a line
    #[arg(long, conflicts_with = "file")]
    order: Option<PathBuf>,
    /// Seed of the shuffle where no order is given, and of the random policy
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// openb: how far arrivals go, as a part of the GPUs there are
    #[arg(long, default_value_t = 1.3)]
    until: f64,
    /// csv: the job list (CSV, may be compressed)
    #[arg(long, conflicts_with = "file")]
    jobs: Option<PathBuf>,
    /// csv: which column means what, such as `id=job_id,submit=time:ms,gpus=n,duration=run:ms`
    #[arg(long, conflicts_with = "file")]
    columns: Option<String>,
    /// csv: the cluster, as nodes x GPUs, and perhaps a board: `8x8`, `8x8:H100-80GB-SXM`
    #[arg(long, conflicts_with = "file")]
    cluster: Option<String>,
    /// Also write the results as JSON (`-` for standard output instead of tables)
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Formats of recorded traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Alibaba's cluster-trace-gpu-v2023: a node list and a pod list
    Openb,
    /// A job list in any CSV
    Csv,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match (args.format, &args.file) {
        (Some(Format::Openb), _) => openb::run(args),
        (Some(Format::Csv), _) => jobs::run(args),
        (None, Some(file)) => story::run(args, file),
        (None, None) => anyhow::bail!("name a scenario file, or a trace with --format"),
    }
}

/// Puts JSON where it was asked for; true if that was standard output.
fn put_json(args: &Args, value: &serde_json::Value) -> anyhow::Result<bool> {
    use anyhow::Context;
    let Some(path) = &args.json else {
        return Ok(false);
    };
    let text = serde_json::to_string_pretty(value)? + "\n";
    if path.as_os_str() == "-" {
        crate::screen::print(&text)?;
        return Ok(true);
    }
    std::fs::write(path, text).with_context(|| format!("{}: not written", path.display()))?;
    Ok(false)
}

/// The most memory this process ever held, in MiB, where the system tells.
fn peak_rss_mib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024)
}

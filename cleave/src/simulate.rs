//! `cleave simulate`: a scenario, or a recorded cluster trace, under one policy or several.

mod jobs;
mod openb;
mod story;

use crate::json::Json;
use std::{path::PathBuf, process::ExitCode};

#[derive(clap::Args)]
pub struct Args {
    /// A scenario file
    #[arg(required_unless_present = "format", conflicts_with = "format")]
    file: Option<PathBuf>,
    /// The format of a recorded trace
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Who decides; several, separated by commas, or `all` are compared [default: cleave]
    #[arg(long, value_delimiter = ',')]
    policy: Option<Vec<String>>,
    /// openb: where cleave gets the expected mix of asks: `learned` as they arrive, `known` (the
    /// whole list's distribution, as the published policies read it), or `prior:FILE` (a pod list)
    /// [default: learned]
    #[arg(long)]
    mix: Option<String>,
    /// openb: the node list (CSV, may be compressed)
    #[arg(long)]
    nodes: Option<PathBuf>,
    /// openb: the pod list (CSV, may be compressed)
    #[arg(long)]
    pods: Option<PathBuf>,
    /// openb: a given order of arrivals, one pod number a line
    #[arg(long)]
    order: Option<PathBuf>,
    /// openb: seed of the shuffle where no order is given, and of the random policy [default: 42]
    #[arg(long)]
    seed: Option<u64>,
    /// openb: how far arrivals go, as a part of the GPUs there are [default: 1.3]
    #[arg(long, conflicts_with = "order")]
    until: Option<f64>,
    /// csv: the job list (CSV, may be compressed)
    #[arg(long)]
    jobs: Option<PathBuf>,
    /// csv: which column means what, such as `id=job_id,submit=time:ms,gpus=n,duration=run:ms`
    #[arg(long)]
    columns: Option<String>,
    /// csv: the cluster, as nodes x GPUs, and perhaps a board: `8x8`, `8x8:H100-80GB-SXM`
    /// (a board left out is A100-80GB)
    #[arg(long)]
    cluster: Option<String>,
    #[command(flatten)]
    json: Json,
}

/// Formats of recorded traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Alibaba's cluster-trace-gpu-v2023: a node list and a pod list
    Openb,
    /// A job list in any CSV
    Csv,
}

impl Args {
    /// Who decides, by name.
    fn policies(&self) -> Vec<&str> {
        match &self.policy {
            Some(names) => names.iter().map(String::as_str).collect(),
            None => vec!["cleave"],
        }
    }

    /// Refuses an option that would change nothing, rather than to let it pass for one that did.
    fn check(&self) -> anyhow::Result<()> {
        use Format::{Csv, Openb};
        let given: [(&str, bool, &[Format]); 10] = [
            ("policy", self.policy.is_some(), &[Openb, Csv]),
            ("mix", self.mix.is_some(), &[Openb]),
            ("nodes", self.nodes.is_some(), &[Openb]),
            ("pods", self.pods.is_some(), &[Openb]),
            ("order", self.order.is_some(), &[Openb]),
            ("seed", self.seed.is_some(), &[Openb]),
            ("until", self.until.is_some(), &[Openb]),
            ("jobs", self.jobs.is_some(), &[Csv]),
            ("columns", self.columns.is_some(), &[Csv]),
            ("cluster", self.cluster.is_some(), &[Csv]),
        ];
        for (name, given, formats) in given {
            let of_use = self.format.is_some_and(|format| formats.contains(&format));
            if given && !of_use {
                let with = formats.iter().map(|format| match format {
                    Openb => "--format openb",
                    Csv => "--format csv",
                });
                let with: Vec<_> = with.collect();
                let here = match self.format {
                    Some(Openb) => "not with openb",
                    Some(Csv) => "not with csv",
                    None => "a scenario file says itself what happens and who decides",
                };
                anyhow::bail!("--{name} goes with {}: {here}", with.join(" or "));
            }
        }
        Ok(())
    }
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    args.check()?;
    match (args.format, &args.file) {
        (Some(Format::Openb), _) => openb::run(args),
        (Some(Format::Csv), _) => jobs::run(args),
        (None, Some(file)) => story::run(args, file),
        (None, None) => anyhow::bail!("name a scenario file, or a trace with --format"),
    }
}

/// The most memory this process ever held, in MiB, where the system tells.
fn peak_rss_mib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024)
}

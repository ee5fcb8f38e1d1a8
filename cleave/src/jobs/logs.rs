//! `cleave logs`: the output of a job.

use super::{
    Server, block_on, follow,
    follow::{End, Source, patiently},
    job_name, refused, told,
};
use crate::client::{Client, Failure};
use cleave_server::api::Row;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Args {
    /// The job, or one of its workers: `train`, `train.3`
    name: String,
    /// Go on until it has ended
    #[arg(long, short)]
    follow: bool,
    /// The last so many lines alone
    #[arg(long, short = 'n', value_name = "LINES")]
    tail: Option<u64>,
    /// An earlier attempt, by its number in `cleave why` [default: the latest]
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    #[command(flatten)]
    server: Server,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let name = job_name(&args.name)?;
    let client = args.server.client();
    block_on(async {
        let (row, worker) = find(&client, &name).await.map_err(told)?;
        let source = Source {
            name: row.name.clone(),
            worker,
            attempt: args.attempt,
            tail: args.tail,
            follow: args.follow,
        };
        if args.follow && args.attempt.is_none() {
            begun(&client, row).await.map_err(told)?;
        }
        match follow::output(&client, &source).await? {
            End::Over => Ok(ExitCode::SUCCESS),
            End::Nothing(why) => Ok(refused(&format!("cleave: {why}"))),
            End::Cut => Ok(refused("cleave: the output was cut off: try again")),
        }
    })
}

/// The job of that name, or the worker of a job.
async fn find(client: &Client, name: &str) -> Result<(Row, u32), Failure> {
    let whole = client.wait(name, None).await;
    let missing = matches!(&whole, Err(failure) if failure.is_missing());
    let worker = name
        .rsplit_once('.')
        .and_then(|(job, worker)| Some((job, worker.parse().ok()?)));
    match worker {
        Some((job, worker)) if missing => match client.wait(job, None).await {
            Err(failure) if failure.is_missing() => whole.map(|row| (row, 0)),
            found => found.map(|row| (row, worker)),
        },
        _ => whole.map(|row| (row, 0)),
    }
}

/// Waits until a job has a place, or is over.
async fn begun(client: &Client, mut row: Row) -> Result<(), Failure> {
    while row.places.is_empty() && row.started.is_none() && !row.phase.is_over() {
        let seen = &row;
        row = patiently(|| client.wait(&seen.name, Some(seen))).await?;
    }
    Ok(())
}

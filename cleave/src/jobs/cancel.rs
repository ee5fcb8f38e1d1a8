//! `cleave cancel`: ends jobs.

use super::{Server, block_on, matches, outline, own_name, pattern, refused, told};
use crate::json::Json;
use crate::{client::Client, error, screen};
use cleave_server::api::{Cancellation, Cancelled, Jobs, Row};
use std::process::ExitCode;

/// Jobs that are fetched at most to find those that are meant.
const MOST: u32 = 100_000;

#[derive(clap::Args)]
pub struct Args {
    /// Jobs by name; `*` stands for any text and means your own jobs alone
    #[arg(required_unless_present = "all")]
    names: Vec<String>,
    /// All your jobs
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// With --all or `*`: those of others too, for administrators
    #[arg(long)]
    everyone: bool,
    #[command(flatten)]
    json: Json,
    #[command(flatten)]
    server: Server,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    for name in &args.names {
        pattern(name)?;
    }
    let client = args.server.client();
    block_on(async {
        let jobs = meant(args, &client).await?;
        if jobs.is_empty() {
            if args.all {
                screen::print("nothing to cancel\n")?;
                return Ok(ExitCode::SUCCESS);
            }
            let names = args.names.join(" ");
            return Ok(refused(&format!(
                "cleave: no job of yours is called like {names}; `cleave ps` lists them"
            )));
        }
        let cancellation = Cancellation { jobs };
        let answer: Cancelled = client
            .post("/v1/cancel", &cancellation)
            .await
            .map_err(told)?;
        if !args.json.put(&answer)? && !answer.jobs.is_empty() {
            screen::print(&format!("cancelled: {}\n", outline::names(&answer.jobs)))?;
        }
        for (name, why) in &answer.refused {
            screen::complain(&format!("cleave: {name}: {why}"));
        }
        Ok(match answer.refused.is_empty() {
            true => ExitCode::SUCCESS,
            false => ExitCode::from(error::BAD),
        })
    })
}

/// The names as given, with own jobs in place of patterns.
async fn meant(args: &Args, client: &Client) -> anyhow::Result<Vec<String>> {
    let open = |name: &&String| name.contains('*');
    if !args.all && !args.names.iter().any(|name| open(&name)) {
        return Ok(args.names.clone());
    }
    let path = format!("/v1/jobs?all=false&limit={MOST}");
    let jobs: Jobs = client.get(&path).await.map_err(told)?;
    let me = own_name();
    let patterns: Vec<&String> = args.names.iter().filter(open).collect();
    let wanted = |row: &Row| {
        let named = args.all || patterns.iter().any(|pattern| matches(pattern, &row.name));
        named && (args.everyone || row.user == me)
    };
    let plain = args.names.iter().filter(|name| !open(name)).cloned();
    let mut names: Vec<String> = plain.collect();
    for row in jobs
        .jobs
        .iter()
        .filter(|row| !row.phase.is_over() && wanted(row))
    {
        if !args.names.contains(&row.name) {
            names.push(row.name.clone());
        }
    }
    Ok(names)
}

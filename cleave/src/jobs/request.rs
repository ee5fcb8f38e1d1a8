//! From flags to a job file, so that flags and files have one reader: the server's.

use super::surroundings;
use anyhow::Context;
use cleave_server::api::Submission;
use cleave_wire::job::Size;
use serde_json::{Map, Value, json};
use std::{ffi::OsString, path::PathBuf};

/// What one worker wants and what it runs.
#[derive(clap::Args)]
pub struct Flags {
    /// The job's name [default: the command's, with a number]
    #[arg(long, short)]
    name: Option<String>,
    /// GPUs for each worker: `2`, or a part of one: `12GiB`, `0.25`, `1g.10gb`
    #[arg(long, short, value_name = "AMOUNT")]
    gpu: Option<String>,
    /// What it must be promised: none, limited or hard
    #[arg(long, requires = "gpu")]
    isolation: Option<String>,
    /// A board or family it may run on (`cleave boards`); several, best first
    #[arg(long, value_name = "BOARD", requires = "gpu")]
    model: Vec<String>,
    /// CPU cores for each worker
    #[arg(long, value_name = "CORES")]
    cpu: Option<String>,
    /// Memory for each worker, such as `8GiB`
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Workers, all or none of them [default: 1]
    #[arg(long, value_name = "N")]
    workers: Option<u32>,
    /// Workers that are enough to start
    #[arg(long, value_name = "N")]
    min: Option<u32>,
    /// What it is for: serving, interactive, training or batch [default: batch]
    #[arg(long)]
    class: Option<String>,
    /// Higher goes first [default: 0]
    #[arg(long, allow_hyphen_values = true)]
    priority: Option<i32>,
    /// Its queue [default: default]
    #[arg(long)]
    queue: Option<String>,
    /// How often a worker that failed is tried again [default: 0]
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// A variable beside those of this shell, `NAME=VALUE`
    #[arg(long, short, value_name = "K=V")]
    env: Vec<String>,
    /// Working directory [default: this one]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// What to run, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Flags {
    /// The job as a submission; `array` is a range of indices, such as `0-99`.
    pub fn submission(
        &self,
        array: Option<&str>,
        terminal: Option<Size>,
    ) -> anyhow::Result<Submission> {
        let file = self.file(array)?;
        Ok(Submission {
            file: file.to_string(),
            number: self.name.is_none(),
            surroundings: surroundings::here(terminal)?,
        })
    }

    fn file(&self, array: Option<&str>) -> anyhow::Result<Value> {
        let command = self.command.iter().map(|word| utf8(word.clone()));
        let command: Vec<String> = command.collect::<anyhow::Result<_>>()?;
        let first = command.first();
        let first = first.context("nothing to run: write the command after `--`")?;
        let mut name = self.name.clone().unwrap_or_else(|| name_of(first));
        if let Some(array) = array {
            name = format!("{name}-[{array}]");
        }
        let mut job = Map::new();
        job.insert("name".into(), json!(name));
        job.insert("command".into(), json!(command));
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                job.insert(key.into(), value);
            }
        };
        put("gpu", self.gpu.as_deref().map(|amount| self.amount(amount)));
        put("isolation", self.isolation.as_ref().map(|v| json!(v)));
        put("cpu", self.cpu.as_ref().map(|v| json!(v)));
        put("memory", self.memory.as_ref().map(|v| json!(v)));
        put("workers", self.workers.map(|v| json!(v)));
        put("min", self.min.map(|v| json!(v)));
        put("class", self.class.as_ref().map(|v| json!(v)));
        put("priority", self.priority.map(|v| json!(v)));
        put("queue", self.queue.as_ref().map(|v| json!(v)));
        put("retries", self.retries.map(|v| json!(v)));
        let mut env = Map::new();
        for pair in &self.env {
            let (key, value) = pair
                .split_once('=')
                .with_context(|| format!("--env {pair}: write NAME=VALUE"))?;
            env.insert(key.into(), json!(value));
        }
        put("env", (!env.is_empty()).then_some(Value::Object(env)));
        if let Some(directory) = &self.dir {
            let directory = utf8(directory.clone().into_os_string())?;
            put("directory", Some(json!(directory)));
        }
        Ok(json!({"cleave": cleave_scenario::VERSION, "workloads": [job]}))
    }

    /// The amount as the job file has it: in short, or in full where boards are named.
    fn amount(&self, amount: &str) -> Value {
        if self.model.is_empty() {
            return json!(amount);
        }
        let key = if amount.contains("g.") {
            "profile"
        } else if amount.ends_with(['B', 'b']) {
            "memory"
        } else if amount.contains(['.', '/']) {
            "share"
        } else {
            "count"
        };
        let value = match amount.parse::<u32>() {
            Ok(count) => json!(count),
            Err(_) => json!(amount),
        };
        json!({key: value, "models": self.model})
    }
}

fn utf8(text: OsString) -> anyhow::Result<String> {
    text.into_string()
        .map_err(|text| anyhow::anyhow!("{}: not UTF-8", text.display()))
}

/// A job's name from its command: the program's, with what a name can't hold left out.
fn name_of(command: &str) -> String {
    let base = command.rsplit('/').next().unwrap_or(command);
    let base = base.split_whitespace().next().unwrap_or_default();
    let legal = |c: char| {
        if c.is_ascii_alphanumeric() || "._-".contains(c) {
            c
        } else {
            '-'
        }
    };
    let name: String = base.chars().take(40).map(legal).collect();
    let name = name.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    if name.is_empty() {
        "job".into()
    } else {
        name.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: Flags,
        #[arg(long)]
        array: Option<String>,
    }

    fn file(line: &str) -> Result<Value, String> {
        let words = std::iter::once("submit").chain(line.split(' '));
        let line = Line::try_parse_from(words).map_err(|e| e.to_string())?;
        let file = line.flags.file(line.array.as_deref());
        file.map_err(|e| e.to_string())
    }

    /// What flags say is what the job language reads.
    #[test]
    fn flags_become_a_job_file() {
        let queues = [cleave_model::Name::new("default").unwrap()];
        for (line, jobs, says) in [
            (
                "--gpu 12GiB -- ./train.py --lr 0.1",
                1,
                r#""name":"train.py""#,
            ),
            (
                "--gpu 0.25 --cpu 4 --memory 8GiB -- /usr/bin/env x",
                1,
                r#""name":"env""#,
            ),
            (
                "--gpu 2 --model H100 --model A100 -- a",
                1,
                r#"{"count":2,"models":["H100","A100"]}"#,
            ),
            (
                "--gpu 1g.10gb --model A100-80GB -- a",
                1,
                r#""profile":"1g.10gb""#,
            ),
            ("--gpu 0.5 --model any -- a", 1, r#""share":"0.5""#),
            (
                "--gpu 12GiB --model any --isolation none -- a",
                1,
                r#""memory":"12GiB""#,
            ),
            (
                "--workers 4 --min 2 --gpu 1 --class training -- a",
                1,
                r#""min":2"#,
            ),
            (
                "--priority -3 --retries 2 --env A=b=c --dir x -- a",
                1,
                r#""env":{"A":"b=c"}"#,
            ),
            (
                "--name sweep --array 0-99 -- a",
                100,
                r#""name":"sweep-[0-99]""#,
            ),
        ] {
            let file = file(line).unwrap().to_string();
            assert!(file.contains(says), "{line}: {file}");
            let read = cleave_scenario::parse_jobs(&file, &queues, 10_000);
            assert_eq!(read.map(|jobs| jobs.len()), Ok(jobs), "{line}: {file}");
        }
        for (line, says) in [
            ("--gpu 1", "nothing to run"),
            ("--env A -- a", "NAME=VALUE"),
            ("--isolation hard -- a", "--gpu"),
        ] {
            let error = file(line).unwrap_err();
            assert!(error.contains(says), "{line}: {error}");
        }
    }

    #[test]
    fn names_come_from_commands() {
        for (command, name) in [
            ("/usr/bin/python3", "python3"),
            ("./a b", "a"),
            ("_x", "x"),
            ("€", "job"),
            ("", "job"),
        ] {
            assert_eq!(name_of(command), name);
        }
    }
}

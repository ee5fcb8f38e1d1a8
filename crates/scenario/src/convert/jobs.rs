//! Job files: workloads that say what they run.

use super::Converter;
use crate::ast::{File, work::Workload as Keys};
use crate::place::{NOWHERE, Place, Problems};
use crate::range::Names;
use crate::scenario::Job;
use cleave_model::Name;

/// Makes the jobs of a file for a cluster that has these queues.
///
/// # Errors
/// All problems found, in order of place.
pub(crate) fn jobs(file: &File, queues: &[Name], most: u64) -> Result<Vec<Job>, Problems> {
    let mut c = Converter::begin(file)?;
    // Before any of them is made.
    let count = file
        .workloads
        .iter()
        .filter_map(|keys| Names::read(&keys.name.value).ok());
    let count: u64 = count.map(|names| names.count()).sum();
    if count > most {
        let message = format!("{count} jobs at once, {most} is the most: submit them in parts");
        c.fail(file.cleave.place, message);
        return c.end(Vec::new());
    }
    c.only_workloads(file);
    let queues = queues.iter().map(|name| (name.clone(), NOWHERE));
    c.known_queues = queues.collect();
    c.name_workloads(file);
    let mut jobs = Vec::new();
    for keys in &file.workloads {
        jobs.extend(c.jobs(keys));
    }
    c.end(jobs)
}

impl Converter {
    fn only_workloads(&mut self, file: &File) {
        let first = |place: Option<Place>| place.unwrap_or(file.cleave.place);
        let sections = [
            (
                "nodes",
                !file.nodes.is_empty(),
                file.nodes.first().map(|n| n.name.place),
            ),
            (
                "queues",
                !file.queues.is_empty(),
                file.queues.first().map(|q| q.name.place),
            ),
            ("boards", !file.boards.is_empty(), None),
            ("latency", file.latency.is_some(), None),
            (
                "prior",
                !file.prior.is_empty(),
                file.prior.first().map(|p| p.count.place),
            ),
            (
                "events",
                !file.events.is_empty(),
                file.events.first().map(|e| e.at.place),
            ),
            ("expect", !file.expect.is_empty(), None),
        ];
        for (section, there, place) in sections {
            if there {
                let message =
                    format!("`{section}` belongs to a scenario: a job file has `workloads` alone");
                self.fail(first(place), message);
            }
        }
        if file.workloads.is_empty() {
            let message = "no workloads: write at least one under `workloads`";
            self.fail(file.cleave.place, message);
        }
    }

    fn jobs(&mut self, keys: &Keys) -> Vec<Job> {
        let place = keys.name.place;
        let early = keys.submit.at().map(|at| at.place);
        if let Some(place) = early.or(keys.on.at().map(|at| at.place)) {
            self.fail(
                place,
                "a job is submitted now and placed by the engine: leave this out",
            );
        }
        let Some(command) = keys.command.get() else {
            let message = "what it runs is missing: write `command: [python, train.py]`";
            self.fail(place, message);
            return Vec::new();
        };
        let env = keys
            .env
            .iter()
            .map(|(key, at)| (key.clone(), at.value.clone()));
        let model = (
            command.0.clone(),
            env.collect(),
            keys.directory.get().cloned(),
        );
        let Ok(names) = Names::read(&keys.name.value) else {
            return Vec::new();
        };
        let index = |i: u64| names.values(i).first()?.parse().ok();
        let made = self.workload(keys, 0);
        let made = (0..).zip(made).map(|(i, workload)| {
            let (command, env, directory) = model.clone();
            Job {
                workload,
                command,
                env,
                directory,
                array: (names.ranges() > 0).then(|| index(i).unwrap_or(i as u32)),
            }
        });
        made.collect()
    }
}

//! Jobs and attempts as rows: what records say of them, for people who ask later.

use crate::journal::{Incoming, Ticket};
use cleave_engine::state::State;
use cleave_model::{
    Name, WorkerId,
    action::{Failure, Subject, What},
    event::{Batch, Event},
    observation::Exit,
};
use cleave_wire::job::{Job, Run};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

type Result<T> = std::result::Result<T, rusqlite::Error>;

/// The jobs that are not over.
pub fn open_jobs(db: &Connection) -> Result<BTreeMap<Name, Ticket>> {
    let mut query = db.prepare("SELECT name, id, uid, user FROM jobs WHERE ended IS NULL")?;
    let rows = query.query_map([], |row| {
        let ticket = Ticket {
            id: row.get(1)?,
            uid: row.get(2)?,
            user: row.get(3)?,
        };
        Ok((row.get::<_, String>(0)?, ticket))
    })?;
    rows.filter_map(|row| {
        row.map(|(name, ticket)| Some((Name::new(name).ok()?, ticket)))
            .transpose()
    })
    .collect()
}

/// What a job runs, from a row of uid, gid, workers, array, run.
fn job(row: &Row<'_>) -> Result<Job> {
    let run: String = row.get(4)?;
    let run = serde_json::from_str(&run).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(4, rusqlite::types::Type::Text, error.into())
    })?;
    Ok(Job {
        uid: row.get(0)?,
        gid: row.get(1)?,
        workers: row.get(2)?,
        array: row.get(3)?,
        run,
    })
}

/// Writes what records say of jobs. `state` is as of the last of them.
pub fn follow(
    tx: &Transaction<'_>,
    records: &[Batch],
    state: &State,
    incoming: &BTreeMap<Name, Incoming>,
    open: &mut BTreeMap<Name, Ticket>,
) -> Result<()> {
    let mut last_run: Option<(&Arc<Run>, i64)> = None;
    let mut touched = BTreeSet::new();
    for batch in records {
        for event in &batch.events {
            match event {
                Event::Submit(work) => {
                    let Some(new) = incoming.get(&work.name) else {
                        continue;
                    };
                    let run = match last_run {
                        Some((run, id)) if Arc::ptr_eq(run, &new.job.run) => id,
                        _ => {
                            let text = json(&*new.job.run);
                            execute(tx, "INSERT INTO runs (run) VALUES (?1)", params![text])?;
                            tx.last_insert_rowid()
                        }
                    };
                    last_run = Some((&new.job.run, run));
                    let sql = "INSERT INTO jobs
                        (name, uid, gid, user, workers, array, run, workload, submitted)
                        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
                    let job = &new.job;
                    let (name, submitted) = (work.name.as_str(), ms(work.submitted));
                    let what = json(work);
                    let values = params![
                        name,
                        job.uid,
                        job.gid,
                        new.user,
                        job.workers,
                        job.array,
                        run,
                        what,
                        submitted
                    ];
                    execute(tx, sql, values)?;
                    let ticket = Ticket {
                        id: tx.last_insert_rowid(),
                        uid: job.uid,
                        user: new.user.clone(),
                    };
                    open.insert(work.name.clone(), ticket);
                }
                Event::Cancel(name) => {
                    if let Some(ticket) = open.get(name) {
                        execute(
                            tx,
                            "UPDATE jobs SET cancelled = 1 WHERE id = ?1",
                            [ticket.id],
                        )?;
                        touched.insert(name);
                    }
                }
                Event::Decided(plan) => {
                    for action in &plan.withdrawn {
                        if let Subject::Worker(worker) = &action.subject {
                            let of = (worker, action.attempt);
                            end(tx, open, of, batch.now, "withdrawn", None)?;
                        }
                    }
                    for action in &plan.actions {
                        if let (Subject::Worker(worker), What::Place(hold)) =
                            (&action.name.subject, &action.what)
                            && let Some(ticket) = open.get(&worker.workload)
                        {
                            let sql = "INSERT OR IGNORE INTO attempts
                                (job, worker, attempt, node, placed)
                                VALUES (?1, ?2, ?3, ?4, ?5)";
                            let (node, now) = (hold.node.as_str(), ms(batch.now));
                            let attempt = action.name.attempt;
                            execute(
                                tx,
                                sql,
                                params![ticket.id, worker.index, attempt, node, now],
                            )?;
                        }
                    }
                }
                Event::Started(worker, attempt) => {
                    if let Some(ticket) = open.get(&worker.workload) {
                        let sql = "UPDATE attempts SET started = ?4
                            WHERE job = ?1 AND worker = ?2 AND attempt = ?3";
                        let now = ms(batch.now);
                        execute(tx, sql, params![ticket.id, worker.index, attempt, now])?;
                        let sql = "UPDATE jobs SET started = coalesce(started, ?2) WHERE id = ?1";
                        execute(tx, sql, params![ticket.id, now])?;
                    }
                }
                Event::Freed(worker, attempt, exit) => {
                    let (outcome, code) = match exit {
                        Exit::Done => ("done".into(), Some(0)),
                        Exit::Error(code) => (failed(*code), Some(*code)),
                        Exit::Evicted => ("told to leave".into(), None),
                        Exit::Lost => ("lost".into(), None),
                    };
                    end(tx, open, (worker, *attempt), batch.now, &outcome, code)?;
                    touched.insert(&worker.workload);
                }
                Event::Failed(worker, attempt, why) => {
                    let outcome = match why {
                        Failure::Cut(gpu) => format!("GPU {gpu} could not be cut"),
                        Failure::Start => "could not be started".into(),
                        Failure::Stale => "never arrived at its node".into(),
                        Failure::NodeGone => "its node is gone".into(),
                    };
                    end(tx, open, (worker, *attempt), batch.now, &outcome, None)?;
                    touched.insert(&worker.workload);
                }
                Event::NodeGone(node) => {
                    let sql = "UPDATE attempts SET ended = ?2, outcome = 'lost with its node'
                        WHERE node = ?1 AND ended IS NULL";
                    execute(tx, sql, params![node.as_str(), ms(batch.now)])?;
                }
                _ => {}
            }
        }
    }
    let over = touched
        .into_iter()
        .filter(|name| state.workload(name.as_str()).is_none());
    for name in over {
        let Some(ticket) = open.remove(name) else {
            continue;
        };
        // Of the last attempts of all workers the first that failed says how it ended.
        let sql = "UPDATE jobs SET ended = ?2, exit = (
                SELECT exit FROM attempts AS a WHERE job = ?1
                    AND attempt = (SELECT max(attempt) FROM attempts
                        WHERE job = a.job AND worker = a.worker)
                ORDER BY coalesce(exit, 0) = 0, worker LIMIT 1)
            WHERE id = ?1";
        execute(tx, sql, params![ticket.id, ms(state.now())])?;
    }
    Ok(())
}

fn end(
    tx: &Transaction<'_>,
    open: &BTreeMap<Name, Ticket>,
    (worker, attempt): (&WorkerId, u32),
    now: u64,
    outcome: &str,
    code: Option<i32>,
) -> Result<()> {
    let Some(ticket) = open.get(&worker.workload) else {
        return Ok(());
    };
    let sql = "UPDATE attempts SET ended = ?4, outcome = ?5, exit = ?6
        WHERE job = ?1 AND worker = ?2 AND attempt = ?3";
    let values = params![ticket.id, worker.index, attempt, ms(now), outcome, code];
    execute(tx, sql, values)
}

/// How an exit code reads.
pub fn failed(code: i32) -> String {
    let signal = match code {
        129 => " (hang-up)",
        130 => " (interrupt)",
        132 => " (illegal instruction)",
        134 => " (abort)",
        135 => " (bus error)",
        136 => " (arithmetic error)",
        137 => " (killed)",
        139 => " (segmentation fault)",
        143 => " (terminated)",
        126 => " (command can't be run)",
        127 => " (command not found)",
        _ => "",
    };
    format!("exit code {code}{signal}")
}

fn execute(tx: &Transaction<'_>, sql: &str, values: impl rusqlite::Params) -> Result<()> {
    tx.prepare_cached(sql)?.execute(values).map(|_| ())
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("plain data")
}

fn ms(time: u64) -> i64 {
    time.cast_signed()
}

/// A row of `jobs`.
#[derive(Clone, Debug)]
pub struct Past {
    /// Its row and owner.
    pub ticket: Ticket,
    /// Its name.
    pub name: String,
    /// As submitted, JSON.
    pub workload: String,
    /// When it was submitted, began, and was over.
    pub times: (i64, Option<i64>, Option<i64>),
    /// Whether it was cancelled.
    pub cancelled: bool,
    /// Its exit code.
    pub exit: Option<i32>,
}

const PAST: &str =
    "SELECT id, uid, user, name, workload, submitted, started, ended, cancelled, exit
    FROM jobs";

fn past(row: &Row<'_>) -> Result<Past> {
    Ok(Past {
        ticket: Ticket {
            id: row.get(0)?,
            uid: row.get(1)?,
            user: row.get(2)?,
        },
        name: row.get(3)?,
        workload: row.get(4)?,
        times: (row.get(5)?, row.get(6)?, row.get(7)?),
        cancelled: row.get(8)?,
        exit: row.get(9)?,
    })
}

/// Jobs that are over, latest first.
pub fn finished(db: &Connection, most: u32) -> Result<Vec<Past>> {
    let sql = format!("{PAST} WHERE ended IS NOT NULL ORDER BY ended DESC, id DESC LIMIT ?1");
    let mut query = db.prepare_cached(&sql)?;
    let rows = query.query_map([most], past)?;
    rows.collect()
}

/// The last job of that name, over or not.
pub fn latest(db: &Connection, name: &str) -> Result<Option<Past>> {
    let sql = format!("{PAST} WHERE name = ?1 ORDER BY id DESC LIMIT 1");
    db.prepare_cached(&sql)?.query_row([name], past).optional()
}

/// What a job runs.
pub fn run_of(db: &Connection, id: i64) -> Result<Job> {
    let sql = "SELECT jobs.uid, jobs.gid, jobs.workers, jobs.array, runs.run
        FROM jobs JOIN runs ON runs.id = jobs.run WHERE jobs.id = ?1";
    db.prepare_cached(sql)?.query_row([id], job)
}

/// The attempts of a job, by worker and number.
pub fn attempts(db: &Connection, id: i64) -> Result<Vec<crate::api::Attempt>> {
    let sql = "SELECT worker, attempt, node, placed, started, ended, outcome, exit, note
        FROM attempts WHERE job = ?1 ORDER BY worker, attempt";
    let time = |ms: i64| ms.unsigned_abs();
    let mut query = db.prepare_cached(sql)?;
    let rows = query.query_map([id], |row| {
        Ok(crate::api::Attempt {
            worker: row.get(0)?,
            attempt: row.get(1)?,
            node: row.get(2)?,
            placed: time(row.get(3)?),
            started: row.get::<_, Option<i64>>(4)?.map(time),
            ended: row.get::<_, Option<i64>>(5)?.map(time),
            outcome: row.get(6)?,
            exit: row.get(7)?,
            note: row.get(8)?,
        })
    })?;
    rows.collect()
}

/// Keeps what an agent had to say of an attempt.
pub fn note(db: &Connection, worker: &WorkerId, attempt: u32, text: &str) -> Result<()> {
    let sql = "UPDATE attempts SET note = ?4 WHERE worker = ?2 AND attempt = ?3 AND job =
        (SELECT max(id) FROM jobs WHERE name = ?1)";
    let values = params![worker.workload.as_str(), worker.index, attempt, text];
    db.prepare_cached(sql)?.execute(values).map(|_| ())
}

/// Writes a state out, and drops what is older than the one before and than `keep_from`.
pub fn write_genesis(db: &mut Connection, batch: &Batch, keep_from: u64) -> Result<()> {
    let tx = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let before: i64 = tx.query_row("SELECT coalesce(max(after), 0) FROM genesis", [], |row| {
        row.get(0)
    })?;
    let (number, now) = (ms(batch.number), ms(batch.now));
    execute(
        &tx,
        "INSERT OR REPLACE INTO genesis VALUES (?1, ?2, ?3, ?4)",
        params![
            number,
            now,
            cleave_model::event::FORMAT,
            json(&batch.events)
        ],
    )?;
    let old = params![before, ms(keep_from)];
    execute(
        &tx,
        "DELETE FROM records WHERE number <= ?1 AND now < ?2",
        old,
    )?;
    execute(
        &tx,
        "DELETE FROM genesis WHERE after < ?1 AND now < ?2",
        old,
    )?;
    let gone = params![ms(keep_from)];
    let sql = "DELETE FROM attempts WHERE job IN (SELECT id FROM jobs WHERE ended < ?1)";
    execute(&tx, sql, gone)?;
    execute(&tx, "DELETE FROM jobs WHERE ended < ?1", gone)?;
    let unused = "DELETE FROM runs WHERE id NOT IN (SELECT run FROM jobs)";
    execute(&tx, unused, [])?;
    tx.commit()
}

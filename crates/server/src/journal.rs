//! The journal: records, what jobs run, and their history, in one SQLite file.
//!
//! Records are the truth; `genesis` rows are states written out, so that a start need not read
//! everything. Jobs and attempts are written in the transaction of the record that they come from.

use crate::history;
use cleave_engine::state::State;
use cleave_model::{
    Name,
    event::{Batch, Event, FORMAT},
};
use cleave_wire::{fault, job::Job};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior, params};
use std::{
    collections::BTreeMap,
    fmt,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

/// Steps from an empty file to what this release writes; never edited, only added to.
const MIGRATIONS: &[&str] = &[include_str!("schema/1.sql")];

/// A journal that is written to.
#[derive(Debug)]
pub struct Journal {
    db: Connection,
    path: PathBuf,
    /// Jobs that are not over, by name.
    open: BTreeMap<Name, Ticket>,
}

/// What is remembered of a job beside its workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Its row.
    pub id: i64,
    /// Whose it is.
    pub uid: u32,
    /// Their name.
    pub user: String,
}

/// A job that was asked for, with what it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// Who asked.
    pub user: String,
    /// What it runs.
    pub job: Job,
}

/// A journal that can't be used, or a write that did not happen.
#[derive(Debug)]
pub struct Broken {
    path: PathBuf,
    why: Why,
}

/// What is wrong.
#[derive(Debug)]
enum Why {
    /// SQLite says so.
    Sqlite(rusqlite::Error),
    /// A later release wrote it.
    Newer(u32),
    /// A check of the file found this.
    Damaged,
    /// A record is not understood.
    Record(i64, String),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use rusqlite::ErrorCode as Code;
        let path = self.path.display();
        let code = match &self.why {
            Why::Sqlite(error) => error.sqlite_error_code(),
            _ => None,
        };
        match (&self.why, code) {
            (_, Some(Code::DiskFull)) => write!(
                f,
                "{path}: the disk is full: free some space and start again; everything up to the \
                 last answer is safe"
            ),
            (_, Some(Code::ReadOnly)) => {
                write!(
                    f,
                    "{path}: can't be written: make the file and its directory writable"
                )
            }
            (_, Some(Code::CannotOpen | Code::PermissionDenied)) => write!(
                f,
                "{path}: can't be opened: see that its directory exists and is yours"
            ),
            (_, Some(Code::NotADatabase | Code::DatabaseCorrupt)) => damaged(f, &self.path),
            (Why::Sqlite(error), _) => write!(f, "{path}: {error}"),
            (Why::Newer(version), _) => write!(
                f,
                "{path}: written by a later release (store version {version}): start that release"
            ),
            (Why::Damaged, _) => damaged(f, &self.path),
            (Why::Record(number, why), _) => write!(
                f,
                "{path}: record {number} can't be understood: start the release that wrote it \
                 ({why})"
            ),
        }
    }
}

fn damaged(f: &mut fmt::Formatter<'_>, path: &Path) -> fmt::Result {
    write!(
        f,
        "{}: no journal, or damaged: nothing was changed; restore it from a copy, or move it away \
         to begin anew",
        path.display()
    )
}

impl std::error::Error for Broken {}

impl Journal {
    /// Opens a journal, or begins one, and brings it to this release's form.
    ///
    /// # Errors
    /// It can't be opened or written, is damaged, or a later release wrote it.
    pub fn open(path: &Path) -> Result<Self, Broken> {
        let broken = |why| Broken {
            path: path.into(),
            why,
        };
        let sqlite = |error| broken(Why::Sqlite(error));
        keep_private(path);
        let mut db = Connection::open(path).map_err(sqlite)?;
        settle(&db).map_err(sqlite)?;
        let health: String = db
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(sqlite)?;
        if health != "ok" {
            return Err(broken(Why::Damaged));
        }
        let version: u32 = db
            .query_row("PRAGMA user_version", [], |row| row.get(0))
            .map_err(sqlite)?;
        let Some(missing) = MIGRATIONS.get(version as usize..) else {
            return Err(broken(Why::Newer(version)));
        };
        for (at, step) in (version + 1..).zip(missing) {
            let tx = db.transaction().map_err(sqlite)?;
            let made = tx.execute_batch(step);
            made.and_then(|()| tx.pragma_update(None, "user_version", at))
                .and_then(|()| tx.commit())
                .map_err(sqlite)?;
        }
        let open = history::open_jobs(&db).map_err(sqlite)?;
        Ok(Self {
            db,
            path: path.into(),
            open,
        })
    }

    /// The records from the last written state on, the state itself first; none in a new journal.
    ///
    /// # Errors
    /// A record can't be read or understood.
    pub fn load(&self) -> Result<Vec<Batch>, Broken> {
        records(&self.db).map_err(|why| self.broken(why))
    }

    /// The job of that name that is not over.
    pub fn ticket(&self, name: &Name) -> Option<&Ticket> {
        self.open.get(name)
    }

    /// The jobs that are not over.
    pub fn tickets(&self) -> &BTreeMap<Name, Ticket> {
        &self.open
    }

    /// A second connection, for a follower.
    ///
    /// # Errors
    /// The store can't be opened again.
    pub fn reader(&self) -> Result<Connection, Broken> {
        let open = || {
            let db = Connection::open(&self.path)?;
            settle(&db)?;
            Ok(db)
        };
        open().map_err(|error| self.broken(Why::Sqlite(error)))
    }

    /// The number of the next job.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn next_job(&self) -> Result<i64, Broken> {
        let sql = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'jobs'), 0) + 1";
        let next = self.db.query_row(sql, [], |row| row.get(0));
        next.map_err(|error| self.broken(Why::Sqlite(error)))
    }

    /// What a job that is not over runs.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn job(&self, name: &Name) -> Result<Option<Job>, Broken> {
        let Some(ticket) = self.open.get(name) else {
            return Ok(None);
        };
        let job = history::run_of(&self.db, ticket.id);
        job.map(Some)
            .map_err(|error| self.broken(Why::Sqlite(error)))
    }

    /// Makes records durable, together with what they say of jobs; all or nothing. `state` is as
    /// of the last of them, `incoming` is what the jobs that they submit run.
    ///
    /// # Errors
    /// Nothing was written; the journal is not to be used any more.
    pub fn commit(
        &mut self,
        records: &[Batch],
        state: &State,
        incoming: &BTreeMap<Name, Incoming>,
    ) -> Result<(), Broken> {
        if records.is_empty() {
            return Ok(());
        }
        fault::point("commit-before");
        let (db, open) = (&mut self.db, &mut self.open);
        let written = (|| {
            let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for batch in records {
                write(&tx, batch)?;
            }
            history::follow(&tx, records, state, incoming, open)?;
            fault::point("commit-within");
            tx.commit()
        })();
        written.map_err(|error| self.broken(Why::Sqlite(error)))?;
        fault::point("commit-after");
        Ok(())
    }

    /// Brings everything into the one file. It is only a convenience for whoever copies that file.
    pub fn settle(&self) {
        let _ = self
            .db
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    }

    fn broken(&self, why: Why) -> Broken {
        Broken {
            path: self.path.clone(),
            why,
        }
    }
}

/// The records of a journal that is not written to, from the last written state on.
///
/// # Errors
/// It can't be read, or a record is not understood.
pub fn read(path: &Path) -> Result<Vec<Batch>, Broken> {
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY);
    let all = db.map_err(Why::Sqlite).and_then(|db| records(&db));
    all.map_err(|why| Broken {
        path: path.into(),
        why,
    })
}

fn records(db: &Connection) -> Result<Vec<Batch>, Why> {
    let read = || -> Result<Vec<(i64, i64, u32, String)>, rusqlite::Error> {
        let sql = "SELECT after, now, format, events FROM
                (SELECT * FROM genesis ORDER BY after DESC LIMIT 1)
            UNION ALL
            SELECT number, now, format, events FROM records
                WHERE number > coalesce((SELECT max(after) FROM genesis), 0)
            ORDER BY 1";
        let mut query = db.prepare(sql)?;
        let rows = query.query_map([], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })?;
        rows.collect()
    };
    let batch = |(number, now, format, events): (i64, i64, u32, String)| {
        if format != FORMAT {
            return Err(Why::Record(number, format!("event format {format}")));
        }
        let events: Vec<Event> = serde_json::from_str(&events)
            .map_err(|error| Why::Record(number, error.to_string()))?;
        Ok(Batch {
            number: number.unsigned_abs(),
            now: now.unsigned_abs(),
            events,
        })
    };
    read()
        .map_err(Why::Sqlite)?
        .into_iter()
        .map(batch)
        .collect()
}

/// Nobody else may read what people run. Whatever is wrong with the file is found out when it is
/// opened as a database.
fn keep_private(path: &Path) {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let _ = options.open(path);
    let private = std::fs::Permissions::from_mode(0o600);
    let _ = std::fs::set_permissions(path, private);
}

fn settle(db: &Connection) -> Result<(), rusqlite::Error> {
    db.busy_timeout(Duration::from_secs(10))?;
    db.pragma_update(None, "journal_mode", "wal")?;
    db.pragma_update(None, "synchronous", "full")?;
    db.pragma_update(None, "foreign_keys", "on")
}

fn write(tx: &Transaction<'_>, batch: &Batch) -> Result<(), rusqlite::Error> {
    let events = serde_json::to_string(&batch.events).expect("events are plain data");
    let number = batch.number.cast_signed();
    let mut insert = tx.prepare_cached("INSERT INTO records VALUES (?1, ?2, ?3, ?4)")?;
    insert.execute(params![number, batch.now.cast_signed(), FORMAT, events])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cleave_engine::state::NoSink;
    use cleave_model::policy::Policy;

    /// A directory of its own that goes with the test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("cleave-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).expect("a temporary directory");
            Self(path)
        }

        fn file(&self) -> PathBuf {
            self.0.join("journal.sqlite")
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn batch(number: u64, events: usize) -> Batch {
        Batch {
            number,
            now: number,
            events: vec![Event::Policy(Policy::default()); events],
        }
    }

    fn commit(journal: &mut Journal, batch: Batch) -> Result<(), Broken> {
        let mut state = State::new();
        state.apply(&batch, &mut NoSink);
        journal.commit(&[batch], &state, &BTreeMap::new())
    }

    #[test]
    fn what_was_committed_is_there_and_states_stand_for_what_came_before() {
        let scratch = Scratch::new("committed");
        let mut journal = Journal::open(&scratch.file()).expect("new");
        for number in 1..=4 {
            commit(&mut journal, batch(number, 1)).expect("written");
        }
        let genesis = batch(3, 2);
        history::write_genesis(&mut journal.reader().expect("again"), &genesis, 0)
            .expect("written");
        drop(journal);
        let journal = Journal::open(&scratch.file()).expect("old");
        assert_eq!(journal.load().expect("read"), [genesis, batch(4, 1)]);
    }

    #[test]
    fn a_full_disk_ends_in_an_error_and_loses_nothing() {
        let scratch = Scratch::new("full");
        let mut journal = Journal::open(&scratch.file()).expect("new");
        commit(&mut journal, batch(1, 1)).expect("written");
        let pages: i64 = journal
            .db
            .query_row("PRAGMA page_count", [], |row| row.get(0))
            .expect("a number");
        let most = format!("PRAGMA max_page_count = {}", pages + 1);
        journal.db.query_row(&most, [], |_| Ok(())).expect("set");
        let error = commit(&mut journal, batch(2, 1_000)).expect_err("no room");
        assert!(
            error
                .to_string()
                .contains("the disk is full: free some space"),
            "{error}"
        );
        drop(journal);
        let journal = Journal::open(&scratch.file()).expect("old");
        assert_eq!(journal.load().expect("read"), [batch(1, 1)]);
    }

    #[test]
    fn what_can_not_be_used_is_said_and_left_alone() {
        type Spoil = fn(&Path);
        let rows: [(&str, Spoil, &str); 4] = [
            (
                "newer",
                |path| sql(path, "PRAGMA user_version = 99"),
                "start that release",
            ),
            (
                "unknown",
                |path| sql(path, "UPDATE records SET events = '[{\"later\": 1}]'"),
                "record 1 can't be understood",
            ),
            (
                "noise",
                |path| std::fs::write(path, [7; 9_000]).expect("written"),
                "restore it",
            ),
            (
                "torn",
                |path| {
                    let mut bytes = std::fs::read(path).expect("read");
                    let half = bytes.len() / 2;
                    bytes[half..].fill(0xA5);
                    std::fs::write(path, bytes).expect("written");
                },
                "restore it",
            ),
        ];
        for (name, spoil, expected) in rows {
            let scratch = Scratch::new(name);
            let mut journal = Journal::open(&scratch.file()).expect("new");
            commit(&mut journal, batch(1, 1)).expect("written");
            drop(journal);
            spoil(&scratch.file());
            let before = std::fs::read(scratch.file()).expect("read");
            let opened = Journal::open(&scratch.file()).and_then(|journal| journal.load());
            let error = opened.expect_err(name).to_string();
            assert!(error.contains(expected), "{name}: {error}");
            assert_eq!(
                std::fs::read(scratch.file()).expect("read"),
                before,
                "{name}"
            );
        }
    }

    fn sql(path: &Path, sql: &str) {
        let db = Connection::open(path).expect("a database");
        db.execute_batch(sql).expect("spoiled");
        db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
            .expect("written");
    }
}

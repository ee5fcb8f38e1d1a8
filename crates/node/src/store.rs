//! What an agent knows after a crash: one SQLite file in its directory.

use cleave_device::{
    gpu::Image,
    table::{Attempt, AttemptId, Cut, Record, Table},
};
use cleave_model::observation::MessageNo;
use cleave_wire::job::Job;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// Each brings the file from the version before to its own number, from 1.
const MIGRATIONS: &[&str] = &["
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
    CREATE TABLE attempts (id TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
    CREATE TABLE cuts (
        gpu INTEGER NOT NULL, start INTEGER NOT NULL, value TEXT NOT NULL,
        PRIMARY KEY (gpu, start)
    ) STRICT;
    CREATE TABLE jobs (id TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
    CREATE TABLE homes (
        serial INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, uid INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE devices (gpu INTEGER PRIMARY KEY, board TEXT NOT NULL, value TEXT NOT NULL) STRICT;
"];

/// Why the store can't be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// SQLite says no.
    #[error("{0}: {1}")]
    Sqlite(PathBuf, #[source] rusqlite::Error),
    /// Written by a later release.
    #[error("{0} is of version {1} and this release knows {2} at most: use a newer release")]
    Newer(PathBuf, usize, usize),
    /// A value in it makes no sense.
    #[error("{0}: a row of {1} can't be understood: {2}")]
    Value(PathBuf, &'static str, String),
}

/// What is known of an attempt's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// In the home of this number.
    Home(u64),
    /// Nothing yet: it has not been started.
    NotYet,
    /// Nothing, and nothing will come.
    Nothing,
}

/// The store.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    file: Connection,
}

fn key(id: &AttemptId) -> String {
    text(id)
}

fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain data with text keys")
}

fn parse<T: DeserializeOwned>(text: String) -> rusqlite::Result<T> {
    let bad = |e| rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, e);
    serde_json::from_str(&text).map_err(|e| bad(Box::new(e)))
}

impl Store {
    /// Opens the store in an agent's directory, or begins it.
    ///
    /// # Errors
    /// The disk, or a file that this release doesn't understand.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join("agent.sqlite");
        let file = Connection::open(&path).map_err(|e| StoreError::Sqlite(path.clone(), e))?;
        let mut store = Self { path, file };
        let version = store.with(|file| {
            file.pragma_update(None, "journal_mode", "WAL")?;
            file.pragma_update(None, "synchronous", "FULL")?;
            file.busy_timeout(Duration::from_secs(10))?;
            file.query_row("PRAGMA user_version", [], |row| row.get::<_, u32>(0))
        })?;
        let version = version as usize;
        if version > MIGRATIONS.len() {
            return Err(StoreError::Newer(store.path, version, MIGRATIONS.len()));
        }
        store.with(|file| {
            let change = file.transaction()?;
            for (at, step) in MIGRATIONS.iter().enumerate().skip(version) {
                change.execute_batch(step)?;
                change.pragma_update(None, "user_version", at as u32 + 1)?;
            }
            change.commit()
        })?;
        Ok(store)
    }

    /// Opens the store for looking only.
    ///
    /// # Errors
    /// The disk.
    pub fn open_to_look(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join("agent.sqlite");
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let file = Connection::open_with_flags(&path, flags);
        let mut store = Self {
            file: file.map_err(|e| StoreError::Sqlite(path.clone(), e))?,
            path,
        };
        store.with(|file| {
            file.pragma_update(None, "query_only", true)?;
            file.busy_timeout(Duration::from_secs(10))
        })?;
        Ok(store)
    }

    fn with<T>(
        &mut self,
        act: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        act(&mut self.file).map_err(|e| StoreError::Sqlite(self.path.clone(), e))
    }

    /// The node whose store this is: `node`, unless it was another's before.
    ///
    /// # Errors
    /// The disk.
    pub fn node(&mut self, node: &str) -> Result<String, StoreError> {
        self.with(|file| {
            file.execute("INSERT OR IGNORE INTO meta VALUES ('node', ?)", [node])?;
            let sql = "SELECT value FROM meta WHERE key = 'node'";
            file.query_row(sql, [], |row| row.get(0))
        })
    }

    /// The hands' table.
    ///
    /// # Errors
    /// The disk.
    pub fn table(&mut self) -> Result<Table, StoreError> {
        self.with(|file| {
            let meta = |key: &str| -> rusqlite::Result<Option<String>> {
                file.query_row("SELECT value FROM meta WHERE key = ?", [key], |row| {
                    row.get(0)
                })
                .optional()
            };
            let starts = meta("starts")?.map(parse::<u64>).transpose()?;
            let heard = meta("heard")?.map(parse::<MessageNo>).transpose()?;
            let mut table = Table {
                starts: starts.unwrap_or_default(),
                heard: heard.unwrap_or_default(),
                ..Table::default()
            };
            let mut rows = file.prepare("SELECT id, value FROM attempts")?;
            for row in rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))? {
                let (id, value) = row?;
                table.attempts.insert(parse(id)?, parse::<Attempt>(value)?);
            }
            let mut rows = file.prepare("SELECT gpu, start, value FROM cuts")?;
            for row in rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))? {
                let (gpu, start, value) = row?;
                table.cuts.insert((gpu, start), parse::<Cut>(value)?);
            }
            Ok(table)
        })
    }

    /// Makes lines of the table durable, all or none. What was to be run goes with its attempt.
    ///
    /// # Errors
    /// The disk.
    pub fn persist(&mut self, records: &[Record]) -> Result<(), StoreError> {
        const META: &str = "INSERT OR REPLACE INTO meta VALUES (?, ?)";
        self.with(|file| {
            let change = file.transaction()?;
            for record in records {
                match record {
                    Record::Starts(starts) => {
                        change.execute(META, params!["starts", text(starts)])?;
                    }
                    Record::Heard(heard) => {
                        change.execute(META, params!["heard", text(heard)])?;
                    }
                    Record::Attempt(id, Some(attempt)) => {
                        let sql = "INSERT OR REPLACE INTO attempts VALUES (?, ?)";
                        change.execute(sql, params![key(id), text(attempt)])?;
                    }
                    Record::Attempt(id, None) => {
                        change.execute("DELETE FROM attempts WHERE id = ?", [key(id)])?;
                        change.execute("DELETE FROM jobs WHERE id = ?", [key(id)])?;
                    }
                    Record::Cut {
                        gpu,
                        start,
                        cut: Some(cut),
                    } => {
                        let sql = "INSERT OR REPLACE INTO cuts VALUES (?, ?, ?)";
                        change.execute(sql, params![gpu, start, text(cut)])?;
                    }
                    Record::Cut {
                        gpu,
                        start,
                        cut: None,
                    } => {
                        let sql = "DELETE FROM cuts WHERE gpu = ? AND start = ?";
                        change.execute(sql, params![gpu, start])?;
                    }
                }
            }
            change.commit()
        })
    }

    /// Keeps what an attempt is to run, unless that is known already.
    ///
    /// # Errors
    /// The disk.
    pub fn put_job(&mut self, id: &AttemptId, job: &Job) -> Result<(), StoreError> {
        let sql = "INSERT OR IGNORE INTO jobs VALUES (?, ?)";
        self.with(|file| file.execute(sql, params![key(id), text(job)]).map(drop))
    }

    /// What an attempt is to run.
    ///
    /// # Errors
    /// The disk.
    pub fn job(&mut self, id: &AttemptId) -> Result<Option<Job>, StoreError> {
        let sql = "SELECT value FROM jobs WHERE id = ?";
        let found = self.with(|file| {
            file.query_row(sql, [key(id)], |row| row.get::<_, String>(0))
                .optional()
        })?;
        // The details would show what is in it.
        let bad = || StoreError::Value(self.path.clone(), "jobs", "not a job".into());
        found
            .map(|text| serde_json::from_str(&text).map_err(|_| bad()))
            .transpose()
    }

    /// Forgets what was to be run by attempts that are not in the table.
    ///
    /// # Errors
    /// The disk.
    pub fn drop_stray_jobs(&mut self) -> Result<(), StoreError> {
        let sql = "DELETE FROM jobs WHERE id NOT IN (SELECT id FROM attempts)";
        self.with(|file| file.execute(sql, []).map(drop))
    }

    /// A new home for an attempt of a user's.
    ///
    /// # Errors
    /// The disk.
    pub fn new_home(&mut self, id: &AttemptId, uid: u32) -> Result<u64, StoreError> {
        let sql = "INSERT OR REPLACE INTO homes (id, uid) VALUES (?, ?)";
        self.with(|file| {
            file.execute(sql, params![key(id), uid])?;
            Ok(file.last_insert_rowid() as u64)
        })
    }

    /// The home of an attempt and its user.
    ///
    /// # Errors
    /// The disk.
    pub fn home(&mut self, id: &AttemptId) -> Result<Option<(u64, u32)>, StoreError> {
        let sql = "SELECT serial, uid FROM homes WHERE id = ?";
        self.with(|file| {
            let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)? as u64, row.get(1)?));
            file.query_row(sql, [key(id)], row).optional()
        })
    }

    /// The homes of attempts that are in the table.
    ///
    /// # Errors
    /// The disk.
    pub fn wanted_homes(&mut self) -> Result<Vec<u64>, StoreError> {
        let sql = "SELECT serial FROM homes WHERE id IN (SELECT id FROM attempts)";
        self.with(|file| {
            let mut rows = file.prepare(sql)?;
            let serial = |row: &rusqlite::Row<'_>| Ok(row.get::<_, i64>(0)? as u64);
            rows.query_map([], serial)?.collect()
        })
    }

    /// The number of the last home there was.
    ///
    /// # Errors
    /// The disk.
    pub fn last_home(&mut self) -> Result<u64, StoreError> {
        let sql = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'homes'";
        self.with(|file| file.query_row(sql, [], |row| Ok(row.get::<_, i64>(0)? as u64)))
    }

    /// Forgets homes that are no more.
    ///
    /// # Errors
    /// The disk.
    pub fn drop_homes(&mut self, serials: &[u64]) -> Result<(), StoreError> {
        self.with(|file| {
            let change = file.transaction()?;
            for serial in serials {
                change.execute("DELETE FROM homes WHERE serial = ?", [*serial as i64])?;
            }
            change.commit()
        })
    }

    /// Where the output of an attempt is.
    ///
    /// # Errors
    /// The disk.
    pub fn kept(&mut self, id: &AttemptId) -> Result<Kept, StoreError> {
        if let Some((serial, _)) = self.home(id)? {
            return Ok(Kept::Home(serial));
        }
        let sql = "SELECT value FROM attempts WHERE id = ?";
        self.with(|file| {
            let found = file
                .query_row(sql, [key(id)], |row| row.get::<_, String>(0))
                .optional()?;
            let attempt = found.map(parse::<Attempt>).transpose()?;
            let waits = attempt.is_some_and(|attempt| attempt.stage.is_live());
            Ok(if waits { Kept::NotYet } else { Kept::Nothing })
        })
    }

    /// The simulated devices: by index the board's name and what the device is.
    ///
    /// # Errors
    /// The disk.
    pub fn devices(&mut self) -> Result<Vec<(u8, String, Image)>, StoreError> {
        self.with(|file| {
            let mut rows = file.prepare("SELECT gpu, board, value FROM devices ORDER BY gpu")?;
            let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, parse(row.get(2)?)?));
            rows.query_map([], row)?.collect()
        })
    }

    /// Makes simulated devices durable, all or none: index, board's name, what it is.
    ///
    /// # Errors
    /// The disk.
    pub fn put_devices(&mut self, devices: &[(u8, &str, Image)]) -> Result<(), StoreError> {
        let sql = "INSERT OR REPLACE INTO devices VALUES (?, ?, ?)";
        self.with(|file| {
            let change = file.transaction()?;
            for (gpu, board, image) in devices {
                change.execute(sql, params![gpu, board, text(image)])?;
            }
            change.commit()
        })
    }
}

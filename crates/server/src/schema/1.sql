-- What was decided and what happened, in order: the truth.
CREATE TABLE records (
    number INTEGER PRIMARY KEY,
    now INTEGER NOT NULL,       -- milliseconds since 1970
    format INTEGER NOT NULL,    -- of the events
    events TEXT NOT NULL        -- JSON
) STRICT;

-- States written out as facts, as of a record.
CREATE TABLE genesis (
    after INTEGER PRIMARY KEY,
    now INTEGER NOT NULL,
    format INTEGER NOT NULL,
    events TEXT NOT NULL
) STRICT;

-- What jobs run; one row for all jobs of a submission that run the same.
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL           -- JSON: command, environment, directory, limits
) STRICT;

CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    uid INTEGER NOT NULL,
    gid INTEGER NOT NULL,
    user TEXT NOT NULL,
    workers INTEGER NOT NULL,
    array INTEGER,
    run INTEGER NOT NULL REFERENCES runs (id),
    workload TEXT NOT NULL,     -- JSON, as submitted
    submitted INTEGER NOT NULL,
    started INTEGER,
    cancelled INTEGER NOT NULL DEFAULT 0,
    ended INTEGER,
    exit INTEGER
) STRICT;
CREATE UNIQUE INDEX jobs_unfinished ON jobs (name) WHERE ended IS NULL;
CREATE INDEX jobs_finished ON jobs (ended);
CREATE INDEX jobs_named ON jobs (name);
CREATE INDEX jobs_run ON jobs (run);

CREATE TABLE attempts (
    job INTEGER NOT NULL REFERENCES jobs (id),
    worker INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    node TEXT NOT NULL,
    placed INTEGER NOT NULL,
    started INTEGER,
    ended INTEGER,
    outcome TEXT,
    exit INTEGER,
    note TEXT,
    PRIMARY KEY (job, worker, attempt)
) STRICT, WITHOUT ROWID;

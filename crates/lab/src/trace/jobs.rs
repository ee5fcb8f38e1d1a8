//! Job lists in any CSV, by a column map: which column is what, and in which unit.
//!
//! ```text
//! id=job_id,submit=submit_time:ms,gpus=num_gpu,duration=duration:ms
//! ```
//!
//! What the map leaves out is looked for under its common names, so that most lists need none.

use super::table::{Column, Names, Row, Table};
use super::units::{Round, clock_ms, date_ms, decimal};
use super::{Text, TraceError};

/// GPUs one worker of a job asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gpus {
    /// A count of whole GPUs; 0 for a job without.
    Whole(u32),
    /// 1 to 999 thousandths of one GPU, rounded up.
    Milli(u16),
}

/// One job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Unique in the list; `job-N` (N the line) where the list has no such column.
    pub name: String,
    /// Milliseconds since the list's own zero (1970-01-01 UTC for dates).
    pub submit_ms: u64,
    /// Per worker.
    pub gpus: Gpus,
    /// Workers that run together.
    pub workers: u32,
    /// Thousandths of a vCPU per worker, rounded up; none where the list does not say.
    pub cpu_milli: Option<u32>,
    /// MiB of host memory per worker, rounded up; none where the list does not say.
    pub memory_mib: Option<u32>,
    /// How long it runs; none where the list does not say.
    pub duration_ms: Option<u64>,
    /// The queue, virtual cluster or organisation it belongs to.
    pub queue: Option<String>,
    /// Who submitted it.
    pub user: Option<String>,
}

/// What a column can hold: its key in a map, its common names, its units (the first is meant
/// where none is given) and whether a list can do without.
struct Field {
    key: &'static str,
    headers: &'static [&'static str],
    units: &'static [Unit],
    needed: bool,
}

/// A unit and the factor `times / per` that leads to ours.
struct Unit {
    name: &'static str,
    times: u64,
    per: u64,
}

const fn unit(name: &'static str, times: u64, per: u64) -> Unit {
    Unit { name, times, per }
}

const NAME: &[Unit] = &[unit("name", 1, 1)];
/// Milliseconds.
const TIME: &[Unit] = &[
    unit("s", 1_000, 1),
    unit("ms", 1, 1),
    unit("us", 1, 1_000),
    unit("min", 60_000, 1),
    unit("h", 3_600_000, 1),
];
/// Thousandths of a GPU.
const GPU: &[Unit] = &[
    unit("count", 1_000, 1),
    unit("milli", 1, 1),
    unit("percent", 10, 1),
];
/// Thousandths of a vCPU.
const CPU: &[Unit] = &[
    unit("cores", 1_000, 1),
    unit("milli", 1, 1),
    unit("percent", 10, 1),
];
/// MiB.
const MEMORY: &[Unit] = &[
    unit("MiB", 1, 1),
    unit("GiB", 1_024, 1),
    unit("TiB", 1 << 20, 1),
    unit("KiB", 1, 1_024),
    unit("B", 1, 1 << 20),
];
const COUNT: &[Unit] = &[unit("count", 1, 1)];

const FIELDS: [Field; 9] = [
    Field {
        key: "id",
        headers: &[
            "job_id",
            "jobid",
            "job_name",
            "job_index",
            "task_name",
            "id",
            "name",
        ],
        units: NAME,
        needed: false,
    },
    Field {
        key: "submit",
        headers: &[
            "submit_time",
            "submit",
            "submitted",
            "submitted_time",
            "submission_time",
            "arrival_time",
            "arrival_s",
            "creation_time",
            "timestamp",
            "time",
        ],
        units: TIME,
        needed: true,
    },
    Field {
        key: "gpus",
        headers: &[
            "num_gpu",
            "num_gpus",
            "gpu_num",
            "n_gpu",
            "gpus",
            "gpu_request",
            "gpu_count",
            "gpu",
        ],
        units: GPU,
        needed: true,
    },
    Field {
        key: "workers",
        headers: &[
            "worker_num",
            "workers",
            "num_workers",
            "inst_num",
            "replicas",
        ],
        units: COUNT,
        needed: false,
    },
    Field {
        key: "cpu",
        headers: &["cpu_request", "num_cpu", "cpu_num", "cpus", "cpu"],
        units: CPU,
        needed: false,
    },
    Field {
        key: "memory",
        headers: &["memory_mib", "memory", "mem"],
        units: MEMORY,
        needed: false,
    },
    Field {
        key: "duration",
        headers: &["duration", "run_time", "runtime", "elapsed", "duration_s"],
        units: TIME,
        needed: false,
    },
    Field {
        key: "queue",
        headers: &[
            "queue",
            "vc",
            "organization",
            "partition",
            "account",
            "group",
        ],
        units: NAME,
        needed: false,
    },
    Field {
        key: "user",
        headers: &["user", "username", "user_id"],
        units: NAME,
        needed: false,
    },
];

const LARGEST_COUNT: u64 = 1_000_000;

/// Which column of a list is what: `KEY=COLUMN[:UNIT]`, parted by commas.
///
/// | key | units, the default first |
/// |---|---|
/// | `submit`, `duration` | `s`, `ms`, `us`, `min`, `h` |
/// | `gpus` (per worker) | `count` (`0.25` is a fraction), `milli`, `percent` |
/// | `cpu` (per worker) | `cores`, `milli`, `percent` |
/// | `memory` (per worker) | `MiB`, `GiB`, `TiB`, `KiB`, `B` |
/// | `workers`, `id`, `queue`, `user` | none |
///
/// Dates (`2020-01-31 12:00:00`, UTC) and clock times (`1-02:03:04`) are told by their form,
/// whatever the unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnMap {
    /// By place in `FIELDS`.
    chosen: [Option<Choice>; FIELDS.len()],
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Choice {
    header: String,
    unit: usize,
}

impl std::str::FromStr for ColumnMap {
    type Err = TraceError;

    fn from_str(map: &str) -> Result<Self, TraceError> {
        let mut chosen: [Option<Choice>; FIELDS.len()] = Default::default();
        for item in map.split(',').map(str::trim).filter(|i| !i.is_empty()) {
            let wrong = |reason: String| TraceError::ColumnMap {
                item: item.chars().take(60).collect(),
                reason,
            };
            let (key, column) = item
                .split_once('=')
                .ok_or_else(|| wrong("expected KEY=COLUMN or KEY=COLUMN:UNIT".to_owned()))?;
            let field = FIELDS
                .iter()
                .position(|f| f.key == key.trim())
                .ok_or_else(|| {
                    let keys: Vec<_> = FIELDS.iter().map(|f| f.key).collect();
                    wrong(format!("the keys are {}", keys.join(", ")))
                })?;
            let (header, unit) = match column.rsplit_once(':') {
                None => (column, 0),
                Some((header, unit)) => {
                    let units = FIELDS[field].units;
                    let found = units.iter().position(|u| u.name == unit.trim());
                    let names = || units.iter().map(|u| u.name).collect::<Vec<_>>().join(", ");
                    let found = found.ok_or_else(|| wrong(format!("the units are {}", names())))?;
                    (header, found)
                }
            };
            if header.trim().is_empty() {
                return Err(wrong("the column's name is empty".to_owned()));
            }
            let choice = Choice {
                header: header.trim().to_owned(),
                unit,
            };
            if chosen[field].replace(choice).is_some() {
                return Err(wrong(format!("{} is mapped twice", FIELDS[field].key)));
            }
        }
        Ok(Self { chosen })
    }
}

/// A field's column in one list.
type Found = Option<(Column, &'static Unit)>;

impl ColumnMap {
    /// Finds each field's column: the mapped one, else the first of the common names, upper or
    /// lower case.
    fn find(&self, table: &Table<'_>) -> Result<[Found; FIELDS.len()], TraceError> {
        let mut found: [Found; FIELDS.len()] = Default::default();
        for ((slot, field), choice) in found.iter_mut().zip(&FIELDS).zip(&self.chosen) {
            *slot = match choice {
                Some(choice) => {
                    let column = table.column(&choice.header)?;
                    Some((column, &field.units[choice.unit]))
                }
                None => {
                    let headers = field.headers.iter();
                    let name = headers
                        .filter_map(|h| table.names().iter().find(|n| n.eq_ignore_ascii_case(h)))
                        .next();
                    name.and_then(|n| table.optional(n))
                        .map(|c| (c, &field.units[0]))
                }
            };
            if slot.is_none() && field.needed {
                let usual = field.headers.join(" or ");
                return Err(table.missing(&format!("for {} ({usual})", field.key)));
            }
        }
        Ok(found)
    }
}

/// Reads a job list.
pub fn read(text: &Text, map: &ColumnMap) -> Result<Vec<Job>, TraceError> {
    let table = Table::open(text)?;
    let [
        id,
        submit,
        gpus,
        workers,
        cpu,
        memory,
        duration,
        queue,
        user,
    ] = map.find(&table)?;
    let mut names = Names::default();
    table.read(|row| {
        let label = |found: &Found| match found {
            Some((c, _)) if row.optional(Some(c)).is_some() => {
                row.name(c).map(|n| Some(n.to_owned()))
            }
            _ => Ok(None),
        };
        let name = match &id {
            Some((column, _)) => row.name(column)?.to_owned(),
            None => format!("job-{}", row.line),
        };
        Ok(Job {
            name: names.claim(row, &name)?,
            submit_ms: needed(row, &submit, time_ms)?,
            gpus: needed(row, &gpus, gpus_asked)?,
            workers: quantity(row, &workers, count)?.unwrap_or(1),
            cpu_milli: quantity(row, &cpu, amount)?,
            memory_mib: quantity(row, &memory, amount)?,
            duration_ms: quantity(row, &duration, time_ms)?,
            queue: label(&queue)?,
            user: label(&user)?,
        })
    })
}

type Parse<T> = fn(&str, &Unit) -> Result<T, &'static str>;

/// The field read by `parse`; none where it is empty or there is no such column.
fn quantity<T>(row: &Row<'_>, found: &Found, parse: Parse<T>) -> Result<Option<T>, TraceError> {
    let Some((column, unit)) = found else {
        return Ok(None);
    };
    let Some(field) = row.optional(Some(column)) else {
        return Ok(None);
    };
    let wrong = |reason| row.wrong(column, format!("{reason} (unit {})", unit.name));
    parse(field, unit).map(Some).map_err(wrong)
}

fn needed<T>(row: &Row<'_>, found: &Found, parse: Parse<T>) -> Result<T, TraceError> {
    let value = quantity(row, found, parse)?;
    value.ok_or_else(|| match found {
        Some((column, _)) => row.wrong(column, "must not be empty"),
        None => unreachable!("needed columns were found before any row"),
    })
}

fn time_ms(field: &str, unit: &Unit) -> Result<u64, &'static str> {
    decimal(field, unit.times, unit.per, Round::Nearest)
        .or_else(|| date_ms(field))
        .or_else(|| clock_ms(field))
        .filter(|&ms| ms < 1 << 53)
        .ok_or("expected a time: digits, 2020-01-31 12:00:00 or 1-02:03:04")
}

fn gpus_asked(field: &str, unit: &Unit) -> Result<Gpus, &'static str> {
    let milli = decimal(field, unit.times, unit.per, Round::Up)
        .filter(|&milli| milli <= LARGEST_COUNT * 1_000)
        .ok_or("expected GPUs: digits, at most one point, at most a million")?;
    match (milli / 1_000, milli % 1_000) {
        (whole, 0) => Ok(Gpus::Whole(whole as u32)),
        (0, part) => Ok(Gpus::Milli(part as u16)),
        _ => Err("above one, GPUs are whole: round up or split the job"),
    }
}

fn amount(field: &str, unit: &Unit) -> Result<u32, &'static str> {
    decimal(field, unit.times, unit.per, Round::Up)
        .and_then(|amount| u32::try_from(amount).ok())
        .ok_or("expected an amount: digits, at most one point")
}

fn count(field: &str, _: &Unit) -> Result<u32, &'static str> {
    let count = field.parse::<u32>().ok();
    count
        .filter(|&n| (1..=LARGEST_COUNT).contains(&u64::from(n)))
        .ok_or("expected a count from 1 to a million")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn jobs(text: &str, map: &str) -> Result<Vec<Job>, TraceError> {
        read(&Text::decode("f", text.as_bytes())?, &map.parse()?)
    }

    const MURI: &str =
        "job_id,num_gpu,submit_time,duration,priority\n0,4,0,2868294000,1\n7,1,1500,90,0\n";

    #[test]
    fn lists_as_they_come() {
        let muri = jobs(MURI, "submit=submit_time:ms,duration=duration:ms").expect("valid");
        assert_eq!(
            (muri[0].gpus, muri[0].duration_ms),
            (Gpus::Whole(4), Some(2_868_294_000))
        );
        assert_eq!((muri[1].name.as_str(), muri[1].submit_ms), ("7", 1_500));

        // No map: common names, seconds, dates and clock times told by their form.
        let slurm =
            "JobID,Submit,GPUs,Elapsed,User,Account\nx,2020-01-31T00:00:01,0.25,1-00:00:01,ann,\n";
        let slurm = jobs(slurm, "").expect("valid");
        assert_eq!(slurm[0].submit_ms, 1_580_428_801_000);
        assert_eq!(
            (slurm[0].gpus, slurm[0].duration_ms),
            (Gpus::Milli(250), Some(86_401_000))
        );
        assert_eq!(
            (slurm[0].user.as_deref(), &slurm[0].queue),
            (Some("ann"), &None)
        );

        let odd = "t;when\n".replace(';', ",") + "50,1.5\n25,2\n";
        let odd = jobs(&odd, "gpus = t:percent, submit=when:h").expect("valid");
        assert_eq!(
            (odd[0].name.as_str(), odd[0].submit_ms),
            ("job-2", 5_400_000)
        );
        assert_eq!((odd[1].gpus, odd[1].workers), (Gpus::Milli(250), 1));

        let gang = "job_name,organization,cpu_request,gpu_request,worker_num,submit_time,memory\n\
                    a,org1,11.5,8,4,3,1025\n";
        let gang = jobs(gang, "memory=memory:KiB").expect("valid");
        assert_eq!(
            (gang[0].workers, gang[0].cpu_milli, gang[0].memory_mib),
            (4, Some(11_500), Some(2))
        );
        assert_eq!(
            (gang[0].queue.as_deref(), gang[0].duration_ms),
            (Some("org1"), None)
        );
    }

    #[test]
    fn errors_name_the_place_and_the_way_out() {
        for (text, map, message) in [
            (
                MURI,
                "submit",
                "column map: \"submit\": expected KEY=COLUMN or KEY=COLUMN:UNIT",
            ),
            (
                MURI,
                "when=x",
                "column map: \"when=x\": the keys are id, submit, gpus, workers, cpu, \
                 memory, duration, queue, user",
            ),
            (
                MURI,
                "submit=x:y",
                "column map: \"submit=x:y\": the units are s, ms, us, min, h",
            ),
            (
                MURI,
                "id=a,id=b",
                "column map: \"id=b\": id is mapped twice",
            ),
            (
                MURI,
                "id=",
                "column map: \"id=\": the column's name is empty",
            ),
            (
                MURI,
                "id=x",
                "f: no column x; there is job_id, num_gpu, submit_time, duration, priority: \
                 rename one or map it",
            ),
            (
                "id,gpus\na,1\n",
                "",
                "f: no column for submit (submit_time or submit or submitted or submitted_time or \
                 submission_time or arrival_time or arrival_s or creation_time or timestamp or \
                 time); there is id, gpus: rename one or map it",
            ),
            (
                "id,gpus,time\na,1.5,0\n",
                "",
                "f:2: gpus is \"1.5\": above one, GPUs are whole: round up or split the \
                 job (unit count)",
            ),
            (
                "id,gpus,time\na,,0\n",
                "",
                "f:2: gpus is \"\": must not be empty",
            ),
            (
                "id,gpus,time\na,-1,0\n",
                "",
                "f:2: gpus is \"-1\": expected GPUs: digits, at most one point, at most a \
                 million (unit count)",
            ),
            (
                "id,gpus,time\na,1,soon\n",
                "",
                "f:2: time is \"soon\": expected a time: digits, 2020-01-31 12:00:00 or \
                 1-02:03:04 (unit s)",
            ),
            (
                "id,gpus,time\na,1,0\na,1,0\n",
                "",
                "f:3: \"a\" is also on line 2: names must be unique",
            ),
            (
                "id,gpus,time,workers\na,1,0,0\n",
                "",
                "f:2: workers is \"0\": expected a count from 1 to a million (unit count)",
            ),
        ] {
            assert_eq!(jobs(text, map).expect_err(message).to_string(), message);
        }
    }

    fn edit() -> impl Strategy<Value = (prop::sample::Index, String)> {
        (any::<prop::sample::Index>(), "[,\"\n0-9.:T-]{0,3}")
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            map in "[a-z=,:]{0,30}|gpus=[a-z]{0,3}:[a-z]{0,7}",
            edits in proptest::collection::vec(edit(), 0..8),
        ) {
            let mut edited = MURI.to_owned();
            for (at, with) in &edits {
                let at = at.index(edited.len());
                edited.replace_range(at..at + 1, with);
                if edited.is_empty() { break }
            }
            let parsed: Option<ColumnMap> = map.parse().ok();
            for map in [parsed, Some(ColumnMap::default())].into_iter().flatten() {
                for bytes in [&bytes, edited.as_bytes()] {
                    let Ok(text) = Text::decode("f", bytes) else { continue };
                    for job in read(&text, &map).unwrap_or_default() {
                        prop_assert!(job.workers > 0 && !job.name.is_empty());
                        prop_assert!(!matches!(job.gpus, Gpus::Milli(0 | 1_000..)));
                    }
                }
            }
        }
    }
}

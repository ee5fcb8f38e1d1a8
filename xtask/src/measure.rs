//! Measurements that the documents quote, so that anybody can take them again.
//!
//! Every row says what went in, what came out, how long it took and the most memory it used. The
//! program measures itself only as a release build.

mod engine;
mod openb;
mod row;
mod slices;
mod up;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail};

use row::Row;
use serde_json::Value;

const USAGE: &str = "\
usage: cargo xtask measure NAME… [--data DIR] [--json FILE]
       cargo xtask measure --all

  openb [LIST…]             allocation on the openb lists, beside the published results
  openb-departures [LIST…]  the same lists at 95 % load, pods leaving again
  decision                  time of one decision, on the default openb list
  mig-mixes [SEEDS]         streams of MIG slices in random mixes (200 seeds)
  growth                    one plan over 10,000 GPUs and over 100,000
  scale-100k                the latter alone
  up [MINUTES]              `cleave up` with 10,000 jobs queued and 2,000 running

A data directory (--data, else CLEAVE_DATA) is needed for openb.
";

/// One measurement: its name, and what takes it with the words that follow the name.
type Measurement = (
    &'static str,
    fn(&Path, &[&str], &mut dyn FnMut(Row)) -> Result<()>,
);

const MEASUREMENTS: &[Measurement] = &[
    ("openb", openb::allocation),
    ("openb-departures", openb::departures),
    ("decision", openb::decision),
    ("mig-mixes", slices::mixes),
    ("scale-100k", engine::scale),
    ("growth", engine::growth),
    ("up", up::many_jobs),
];

/// What is asked for.
struct Wanted<'a> {
    measurements: Vec<(&'a Measurement, Vec<&'a str>)>,
    data: PathBuf,
    json: Option<PathBuf>,
}

/// Takes the measurements named in `what`.
pub fn run(root: &Path, what: &[&str]) -> Result<bool> {
    let wanted = parse(root, what)?;
    if cfg!(debug_assertions) {
        return in_release(root, what);
    }
    // Before minutes of work, so that a wrong path costs nothing.
    let json = wanted.json.as_ref().map(|file| {
        let opened = fs::File::create(file);
        opened.with_context(|| file.display().to_string())
    });
    let json = json.transpose()?;
    let rows = match &wanted.measurements[..] {
        [(measurement, words)] => take(measurement, words, &wanted.data)?,
        several => apart(root, several, &wanted.data)?,
    };
    if let Some(file) = json {
        serde_json::to_writer_pretty(file, &rows)?;
    }
    Ok(true)
}

fn take(&(name, take): &Measurement, words: &[&str], data: &Path) -> Result<Vec<Value>> {
    println!("== {name}");
    let mut rows = Vec::new();
    let mut note = |row: Row| {
        println!("{row}");
        rows.push(serde_json::to_value(row).expect("a row is plain data"));
    };
    take(data, words, &mut note).with_context(|| name.to_owned())?;
    Ok(rows)
}

/// Each in a process of its own, so that none inherits the memory of the one before.
fn apart(root: &Path, all: &[(&Measurement, Vec<&str>)], data: &Path) -> Result<Vec<Value>> {
    let part = env::temp_dir().join(format!("cleave-measure-{}.json", std::process::id()));
    let mut rows = Vec::new();
    for ((name, _), words) in all {
        let status = Command::new(env::current_exe()?)
            .args(["measure", name])
            .args(words)
            .arg("--data")
            .arg(data)
            .arg("--json")
            .arg(&part)
            .current_dir(root)
            .status()?;
        if !status.success() {
            bail!("{name}: ended with {status}");
        }
        rows.extend(serde_json::from_str::<Vec<Value>>(&fs::read_to_string(
            &part,
        )?)?);
        fs::remove_file(&part)?;
    }
    Ok(rows)
}

/// The same again as a release build.
fn in_release(root: &Path, what: &[&str]) -> Result<bool> {
    let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([
            "run",
            "--quiet",
            "--release",
            "--package",
            "xtask",
            "--",
            "measure",
        ])
        .args(what)
        .current_dir(root)
        .status()
        .context("cannot start cargo")?;
    Ok(status.success())
}

fn parse<'a>(root: &Path, what: &[&'a str]) -> Result<Wanted<'a>> {
    let data = env::var_os("CLEAVE_DATA");
    let mut wanted = Wanted {
        measurements: Vec::new(),
        data: data.map_or_else(|| root.join("../shared/data"), PathBuf::from),
        json: None,
    };
    let here = env::current_dir()?;
    let mut words = what.iter().copied();
    while let Some(word) = words.next() {
        let mut file = || {
            words
                .next()
                .map(|file| here.join(file))
                .context("no file is named")
        };
        match word {
            "--data" => wanted.data = file()?,
            "--json" => wanted.json = Some(file()?),
            "--all" => {
                // Growth takes the large cluster, too.
                let all = MEASUREMENTS
                    .iter()
                    .filter(|(name, _)| *name != "scale-100k");
                wanted.measurements.extend(all.map(|m| (m, Vec::new())));
            }
            _ => match MEASUREMENTS.iter().find(|(name, _)| *name == word) {
                Some(measurement) => wanted.measurements.push((measurement, Vec::new())),
                None => match wanted.measurements.last_mut() {
                    Some((_, words)) if !word.starts_with('-') => words.push(word),
                    _ => bail!("no measurement `{word}`\n{USAGE}"),
                },
            },
        }
    }
    if wanted.measurements.is_empty() {
        bail!("nothing to measure\n{USAGE}");
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_belong_to_the_measurement_before_them() {
        let root = Path::new("/root");
        let words = ["openb", "default", "--json", "/f", "growth", "--data", "/d"];
        let wanted = parse(root, &words).expect("all are known");
        let taken = wanted
            .measurements
            .iter()
            .map(|((name, _), words)| (*name, words.len()));
        assert_eq!(taken.collect::<Vec<_>>(), [("openb", 1), ("growth", 0)]);
        assert_eq!(wanted.data, Path::new("/d"));
        assert_eq!(wanted.json.as_deref(), Some(Path::new("/f")));
        for wrong in [
            &[][..],
            &["default"],
            &["openb", "--jsno"],
            &["openb", "--json"],
        ] {
            assert!(parse(root, wrong).is_err(), "{wrong:?}");
        }
    }
}

//! `--json FILE`, the same for every command that reports.

use crate::screen;
use anyhow::Context;
use serde_json::Value;
use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
};

/// Where results go as JSON.
#[derive(clap::Args)]
pub struct Json {
    /// Also write the results to FILE as JSON; `-` is standard output, instead of tables
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A place that takes one JSON document.
pub enum Sink {
    Nowhere,
    Output,
    File(PathBuf, File),
}

impl Json {
    /// Opens the file before the work begins, so that a wrong path costs nothing. What it holds
    /// stays until there is something to write.
    pub fn open(&self) -> anyhow::Result<Sink> {
        let Some(path) = &self.json else {
            return Ok(Sink::Nowhere);
        };
        if path == Path::new("-") {
            return Ok(Sink::Output);
        }
        let opened = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path);
        let file = opened.with_context(|| format!("--json {}", path.display()))?;
        Ok(Sink::File(path.clone(), file))
    }

    /// Writes what took no time to find; true if nothing else belongs on standard output.
    #[cfg(feature = "up")]
    pub fn put(&self, value: &impl serde::Serialize) -> anyhow::Result<bool> {
        let sink = self.open()?;
        let alone = !sink.wants_tables();
        sink.put(&serde_json::to_value(value)?)?;
        Ok(alone)
    }
}

impl Sink {
    /// Whether there is still room for tables on standard output.
    pub fn wants_tables(&self) -> bool {
        !matches!(self, Self::Output)
    }

    /// Writes the document where it was asked for.
    pub fn put(self, value: &Value) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(value)? + "\n";
        match self {
            Self::Nowhere => Ok(()),
            Self::Output => screen::print(&text),
            Self::File(path, mut file) => overwrite(&mut file, &text)
                .with_context(|| format!("{}: not written", path.display())),
        }
    }
}

fn overwrite(file: &mut File, text: &str) -> std::io::Result<()> {
    // A pipe has no length.
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    file.write_all(text.as_bytes())
}

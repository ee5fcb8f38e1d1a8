//! One row of a report.

use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Map, Value};

/// A measurement that was taken.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    name: String,
    median_ms: f64,
    min_ms: f64,
    max_ms: f64,
    /// Most memory resident while it was taken; none where the system does not say.
    peak_rss_mib: Option<u64>,
    input: Map<String, Value>,
    outcome: Map<String, Value>,
}

/// Takes times and memory of a row.
#[derive(Debug)]
pub struct Taker {
    times: Vec<Duration>,
}

impl Taker {
    /// Begins anew; memory counts from here.
    pub fn new() -> Self {
        // Resets the peak to what is resident now (proc(5), `clear_refs`).
        let _ = fs::write("/proc/self/clear_refs", "5");
        Self { times: Vec::new() }
    }

    /// Takes the time of one run.
    pub fn time<T>(&mut self, run: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = run();
        self.times.push(began.elapsed());
        result
    }

    /// Adds a time that was taken elsewhere.
    pub fn note(&mut self, took: Duration) {
        self.times.push(took);
    }

    /// The row. Input and outcome are objects.
    pub fn row(mut self, name: impl Into<String>, input: Value, outcome: Value) -> Row {
        self.times.sort_unstable();
        let object = |value| match value {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        Row {
            name: name.into(),
            median_ms: ms(quantile(&self.times, 500)),
            min_ms: ms(quantile(&self.times, 0)),
            max_ms: ms(quantile(&self.times, 1_000)),
            peak_rss_mib: peak_rss_mib(),
            input: object(input),
            outcome: object(outcome),
        }
    }
}

impl Row {
    /// The row with one more number in its outcome.
    pub fn with(mut self, key: &str, value: f64) -> Self {
        self.outcome.insert(key.to_owned(), value.into());
        self
    }
}

/// Of sorted times the one that `thousandths` of them do not exceed; 0 of none.
pub fn quantile(sorted: &[Duration], thousandths: usize) -> Duration {
    let at = (sorted.len() * thousandths)
        .div_ceil(1_000)
        .saturating_sub(1);
    sorted.get(at).copied().unwrap_or_default()
}

/// To hundredths, as is printed.
pub fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// From `/proc/self/status` (Linux).
fn peak_rss_mib() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib.div_ceil(1_024))
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            median_ms,
            min_ms,
            max_ms,
            ..
        } = self;
        write!(f, "{name}: {median_ms:.1} ms ({min_ms:.1} to {max_ms:.1})")?;
        if let Some(mib) = self.peak_rss_mib {
            write!(f, ", {mib} MiB")?;
        }
        for (key, value) in &self.outcome {
            write!(f, "\n  {key}: {value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        for (thousandths, expected) in [(0, 1), (500, 100), (990, 198), (1_000, 200)] {
            assert_eq!(
                quantile(&times, thousandths),
                Duration::from_millis(expected)
            );
        }
        assert_eq!(quantile(&[], 500), Duration::ZERO);
    }
}

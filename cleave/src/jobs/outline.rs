//! Many jobs in few lines: those that differ in their number alone are folded into one.

use cleave_server::api::{Phase, Row};
use std::collections::BTreeMap;

/// Parts of a folded name at most.
const MOST_SPANS: usize = 4;

/// A line: one job, or several that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The name, or `stem[1-3,7]`.
    pub name: String,
    /// The first of them.
    pub row: &'a Row,
    /// How many.
    pub jobs: u64,
}

/// Folds jobs, each line where its first job stands. Jobs that have a place are folded only if
/// `all`, as that hides it.
pub fn fold(rows: &[Row], all: bool) -> Vec<Line<'_>> {
    let mut groups: Vec<(&Row, Vec<u64>)> = Vec::new();
    let mut known = BTreeMap::new();
    for row in rows {
        let placed = !(row.phase == Phase::Waiting || row.phase.is_over());
        let Some((stem, number)) = numbered(&row.name).filter(|_| all || !placed) else {
            groups.push((row, Vec::new()));
            continue;
        };
        let key = (stem, row.phase, &row.user, &row.ask, &row.reason, row.exit);
        let at = *known.entry(key).or_insert(groups.len());
        match groups.get_mut(at) {
            Some((_, numbers)) => numbers.push(number),
            None => groups.push((row, vec![number])),
        }
    }
    let mut lines = Vec::new();
    for (row, mut numbers) in groups {
        numbers.sort_unstable();
        let name = match (numbers.len(), numbered(&row.name)) {
            (2.., Some((stem, _))) => format!("{stem}[{}]", spans(&numbers)),
            _ => row.name.clone(),
        };
        let jobs = numbers.len().max(1) as u64;
        lines.push(Line { name, row, jobs });
    }
    lines
}

/// A name that ends in a number, as both.
fn numbered(name: &str) -> Option<(&str, u64)> {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &name[stem.len()..];
    let number: u64 = digits.parse().ok()?;
    // A number with zeros before it would come back without them.
    (!stem.is_empty() && number.to_string() == digits).then_some((stem, number))
}

/// Numbers in order as `1-3,7`.
fn spans(numbers: &[u64]) -> String {
    let mut spans: Vec<(u64, u64)> = Vec::new();
    for &number in numbers {
        match spans.last_mut() {
            Some((_, last)) if *last + 1 == number || *last == number => *last = number,
            _ => spans.push((number, number)),
        }
    }
    let text = |(from, to): &(u64, u64)| match from == to {
        true => from.to_string(),
        false => format!("{from}-{to}"),
    };
    let mut parts: Vec<String> = spans.iter().take(MOST_SPANS).map(text).collect();
    if spans.len() > MOST_SPANS {
        parts.push("…".into());
    }
    parts.join(",")
}

/// The names of a submission in short: `a, b`, or `sweep-0 … sweep-99 (100 jobs)`.
pub fn names(names: &[String]) -> String {
    match names {
        [] => "nothing".into(),
        [first, .., last] if names.len() > 3 => {
            format!("{first} … {last} ({} jobs)", names.len())
        }
        few => few.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_spans() {
        for (numbers, text) in [
            (&[1_u64, 2, 3, 7][..], "1-3,7"),
            (&[0], "0"),
            (&[1, 3, 5, 7, 9, 11], "1,3,5,7,…"),
        ] {
            assert_eq!(spans(numbers), text);
        }
        for (name, parts) in [
            ("sweep-12", Some(("sweep-", 12))),
            ("sweep-012", None),
            ("sweep", None),
            ("12", None),
        ] {
            assert_eq!(numbered(name), parts);
        }
        let few = |n: usize| (0..n).map(|i| format!("s-{i}")).collect::<Vec<_>>();
        assert_eq!(names(&few(2)), "s-0, s-1");
        assert_eq!(names(&few(100)), "s-0 … s-99 (100 jobs)");
    }
}

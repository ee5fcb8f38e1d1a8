//! Names with ranges: `n[0-499]`, `r[0-3]n[00-31]`, `web[1,3,7-9]`.
//!
//! Several ranges multiply, the last one running fastest. A range whose first number begins with
//! a zero pads to that width. A template (a label's value) may hold ranges too, which start over
//! when they end, and `$1`, `$2` for what the first or second range of the name stands at.

/// Most things that one file may stand for.
pub const MAX_THINGS: u64 = 2_000_000;

/// A name that stands for one or many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    parts: Vec<Part>,
    count: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Range(Vec<Span>),
    /// The value of the name's range at this position, from 0.
    Value(usize),
}

/// Consecutive numbers, printed with at least `width` digits.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Span {
    from: u64,
    to: u64,
    width: usize,
}

impl Span {
    fn read(text: &str) -> Option<Self> {
        let number = |t: &str| -> Option<u64> {
            let plain = !t.is_empty() && t.len() <= 18 && t.bytes().all(|c| c.is_ascii_digit());
            if plain { t.parse().ok() } else { None }
        };
        let (from, to) = text.split_once('-').unwrap_or((text, text));
        let width = if from.len() > 1 && from.starts_with('0') {
            from.len()
        } else {
            0
        };
        Some(Self {
            from: number(from)?,
            to: number(to)?,
            width,
        })
        .filter(|s| s.from <= s.to)
    }

    fn count(&self) -> u64 {
        self.to - self.from + 1
    }
}

impl Names {
    /// Reads a name with ranges.
    ///
    /// # Errors
    /// A bracket that is not a range, or more than [`MAX_THINGS`] names.
    pub fn read(text: &str) -> Result<Self, String> {
        Self::parse(text, false)
    }

    /// Reads a template, in which `$1` stands for the value of the name's first range.
    pub fn template(text: &str) -> Result<Self, String> {
        Self::parse(text, true)
    }

    fn parse(text: &str, values: bool) -> Result<Self, String> {
        let (mut parts, mut count, mut rest) = (Vec::new(), 1u64, text);
        while let Some(at) = rest.find(|c| c == '[' || (values && c == '$')) {
            if at > 0 {
                parts.push(Part::Text(rest[..at].into()));
            }
            let tail = &rest[at + 1..];
            if rest.as_bytes()[at] == b'$' {
                let digit = tail.bytes().next().filter(|c| (b'1'..=b'9').contains(c));
                let digit = digit.ok_or_else(|| {
                    format!("`$` in `{text}` must be followed by the number of a range, as in $1")
                })?;
                parts.push(Part::Value(usize::from(digit - b'1')));
                rest = &tail[1..];
                continue;
            }
            let fail = || {
                let shown: String = rest[at..].chars().take(30).collect();
                format!("`{shown}` is not a range: write [0-9], [00-31] or [1,3,7-9]")
            };
            let end = tail.find(']').ok_or_else(fail)?;
            let spans: Option<Vec<_>> = tail[..end].split(',').map(Span::read).collect();
            let spans = spans.ok_or_else(fail)?;
            let many = spans
                .iter()
                .fold(0u64, |sum, s| sum.saturating_add(s.count()));
            count = count.saturating_mul(many);
            if count > MAX_THINGS {
                return Err(format!(
                    "more than {MAX_THINGS} names in one: make the range smaller"
                ));
            }
            parts.push(Part::Range(spans));
            rest = &tail[end + 1..];
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.into()));
        }
        Ok(Self { parts, count })
    }

    /// How many names these are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many ranges there are.
    pub fn ranges(&self) -> usize {
        self.parts
            .iter()
            .filter(|p| matches!(p, Part::Range(_)))
            .count()
    }

    /// The largest `$n` of a template.
    pub fn most_value(&self) -> usize {
        let value = |p: &Part| if let Part::Value(at) = p { at + 1 } else { 0 };
        self.parts.iter().map(value).max().unwrap_or(0)
    }

    /// What each range stands at for name `i`.
    pub fn values(&self, mut i: u64) -> Vec<String> {
        let ranges = self.parts.iter().rev().filter_map(|p| match p {
            Part::Range(spans) => Some(spans),
            _ => None,
        });
        let mut values: Vec<String> = ranges
            .map(|spans| {
                let many: u64 = spans.iter().map(Span::count).sum();
                let mut at = i % many;
                i /= many;
                let mut spans = spans.iter();
                loop {
                    let span = spans.next().expect("at lies in one of the spans");
                    if at < span.count() {
                        return format!("{:0width$}", span.from + at, width = span.width);
                    }
                    at -= span.count();
                }
            })
            .collect();
        values.reverse();
        values
    }

    /// Name `i` modulo the count, with `outer` for the template's `$n`.
    pub fn nth(&self, i: u64, outer: &[String]) -> String {
        let mut values = self.values(i % self.count).into_iter();
        let parts = self.parts.iter().map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Range(_) => values.next().expect("a value for each range"),
            Part::Value(at) => outer.get(*at).cloned().unwrap_or_default(),
        });
        parts.collect()
    }

    /// All names in order.
    pub fn all(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.count).map(|i| self.nth(i, &[]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_expand_in_order() {
        for (text, want) in [
            ("n0", "n0"),
            ("n[0-2]", "n0 n1 n2"),
            ("n[08-11]", "n08 n09 n10 n11"),
            ("n[000-002]x", "n000x n001x n002x"),
            ("r[0-1]n[7,9-10]", "r0n7 r0n9 r0n10 r1n7 r1n9 r1n10"),
        ] {
            let all: Vec<_> = Names::read(text).unwrap().all().collect();
            assert_eq!(all.join(" "), want, "{text}");
        }
        for text in [
            "n[",
            "n[]",
            "n[2-1]",
            "n[a-b]",
            "n[0-1",
            "n[-1]",
            "n[0-2000000]",
        ] {
            Names::read(text).unwrap_err();
        }
        Names::read("a[0-999]b[0-999]c[0-1]").unwrap();
        Names::read("a[0-999]b[0-999]c[0-2]").unwrap_err();
        Names::read("a[0-999999999999999999]b[0-999999999999999999]").unwrap_err();
    }

    #[test]
    fn templates_start_over_and_follow_the_name() {
        let name = Names::read("r[0-1]n[0-2]").unwrap();
        let rack = Names::template("rack-$1").unwrap();
        let turn = Names::template("z[0-1]").unwrap();
        let rows: Vec<_> = (0..name.count())
            .map(|i| format!("{} {}", rack.nth(i, &name.values(i)), turn.nth(i, &[])))
            .collect();
        let want = "rack-0 z0,rack-0 z1,rack-0 z0,rack-1 z1,rack-1 z0,rack-1 z1";
        assert_eq!(rows.join(","), want);
        Names::template("$x").unwrap_err();
    }
}

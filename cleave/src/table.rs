//! Plain tables, spark-lines and bars.

use crate::screen::{self, bold};

/// A column of words is not made narrower than this.
const NARROWEST: usize = 16;

/// A table whose columns are as wide as their content; numbers to the right. Where that is too
/// wide for the screen, the widest column of words is folded; where that is not enough, every row
/// becomes a list of its cells.
#[derive(Default)]
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// With these column heads.
    pub fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Self {
        Self {
            head: head.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The table as text, with a line end after each row.
    pub fn render(&self) -> String {
        self.within(screen::columns())
    }

    fn within(&self, screen: usize) -> String {
        let all = || std::iter::once(&self.head).chain(&self.rows);
        let columns = all().map(Vec::len).max().unwrap_or(0);
        let cell = |row: &[String], at: usize| row.get(at).cloned().unwrap_or_default();
        let widths: Vec<usize> = (0..columns)
            .map(|at| all().map(|row| width(&cell(row, at))).max().unwrap_or(0))
            .collect();
        let numeric: Vec<bool> = (0..columns)
            .map(|at| {
                let mut cells = self.rows.iter().map(|row| cell(row, at));
                cells.all(|text| is_number(&text)) && !self.rows.is_empty()
            })
            .collect();
        let wide = widths.iter().sum::<usize>() + GAP * columns.saturating_sub(1);
        if wide > screen {
            let words = (0..columns).filter(|at| !numeric[*at]);
            let room = |at: &usize| (widths[*at] + screen).saturating_sub(wide);
            return match words.max_by_key(|at| widths[*at]) {
                Some(at) if room(&at) >= NARROWEST => self.folded(at, room(&at)).within(screen),
                _ => self.listed(screen),
            };
        }
        let mut out = String::new();
        for (n, row) in all().enumerate() {
            let mut line = String::new();
            for at in 0..columns {
                let text = cell(row, at);
                let fill = " ".repeat(widths[at] - width(&text));
                line += &" ".repeat(if at > 0 { GAP } else { 0 });
                line += &if numeric[at] {
                    fill + &text
                } else {
                    text + &fill
                };
            }
            let line = line.trim_end();
            out += &if n == 0 { bold(line) } else { line.to_string() };
            out.push('\n');
        }
        out
    }

    /// The same with one column folded into lines of at most so many characters.
    fn folded(&self, column: usize, most: usize) -> Self {
        let mut folded = Self::new(self.head.iter().map(String::as_str));
        folded.head[column] = cut(&self.head[column], most);
        for row in &self.rows {
            let cell = row.get(column).map_or("", String::as_str);
            let lines = screen::fill(cell, most, 0);
            for (n, line) in lines
                .lines()
                .chain(cell.is_empty().then_some(""))
                .enumerate()
            {
                let rest = row
                    .iter()
                    .map(|cell| if n == 0 { cell.as_str() } else { "" });
                let mut cells: Vec<String> = rest.map(String::from).collect();
                cells[column] = cut(line, most);
                folded.rows.push(cells);
            }
        }
        folded
    }

    /// Every row as lines of a column's head and its cell.
    fn listed(&self, screen: usize) -> String {
        let head = self.head.iter().map(|head| width(head)).max().unwrap_or(0);
        let mut out = String::new();
        for (n, row) in self.rows.iter().enumerate() {
            out += if n > 0 { "\n" } else { "" };
            for (name, cell) in self.head.iter().zip(row) {
                let fill = " ".repeat(head - width(name) + GAP);
                let line = screen::fill(&format!("{name}{fill}{cell}"), screen, head + GAP);
                out += &format!("{}\n", line.trim_end());
            }
        }
        out
    }
}

/// Blanks between columns.
const GAP: usize = 2;

/// As much of a text as so many characters show.
pub fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.into();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

fn is_number(text: &str) -> bool {
    let text = text
        .trim_end_matches([' ', '%'])
        .trim_start_matches(['+', '-', '±']);
    text.is_empty()
        || text
            .chars()
            .all(|c| c.is_ascii_digit() || ".,–".contains(c))
}

fn width(text: &str) -> usize {
    let mut count = 0;
    let mut escape = false;
    for c in text.chars() {
        match c {
            '\u{1b}' => escape = true,
            'm' if escape => escape = false,
            _ if escape => {}
            _ => count += 1,
        }
    }
    count
}

/// Values as one character each, from the least to the greatest of them.
pub fn spark(values: &[f64]) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    spark_between(values, least, most)
}

/// Values as one character each, so that several lines can be compared.
pub fn spark_between(values: &[f64], least: f64, most: f64) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let level = |value: f64| {
        let share = if most > least {
            (value - least) / (most - least)
        } else {
            1.0
        };
        LEVELS[((share.clamp(0.0, 1.0) * 7.0).round() as usize).min(7)]
    };
    values.iter().map(|&value| level(value)).collect()
}

/// So many of something that takes an `s` where it is not one: `1 node`, `1,024 nodes`.
pub fn counted(number: u64, what: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{} {what}{s}", grouped(number))
}

/// A whole number with thin groups of three, such as `12,500`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_aligns_numbers_right_and_words_left() {
        let mut table = Table::new(["board", "GPUs"]);
        table.row(["T4", "8"]);
        table.row(["H100-80GB", "1,024"]);
        assert_eq!(
            table.render(),
            "board       GPUs\nT4             8\nH100-80GB  1,024\n"
        );
    }

    #[test]
    fn a_table_fits_the_screen() {
        let mut table = Table::new(["workload", "GPUs", "why"]);
        table.row([
            "train",
            "8",
            "not enough GPUs left on any node that it may use",
        ]);
        table.row(["note", "1", ""]);
        let folded = "workload  GPUs  why\n\
                      train        8  not enough GPUs left on\n\
                      \u{20}               any node that it may use\n\
                      note         1\n";
        assert_eq!(table.within(40), folded);
        let listed = "workload  train\n\
                      GPUs      8\n\
                      why       not enough\n          GPUs left\n          on any\n\
                      \u{20}         node that\n          it may use\n\n\
                      workload  note\nGPUs      1\nwhy\n";
        assert_eq!(table.within(20), listed);
    }

    #[test]
    fn numbers_and_sparks() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1234567), "1,234,567");
        assert_eq!(spark(&[0.0, 3.5, 7.0]), "▁▅█");
        assert_eq!(spark(&[]), "");
    }
}

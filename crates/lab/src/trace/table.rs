//! CSV with a header, columns found by name in any order, every error with its place.

use std::collections::HashMap;
use std::fmt::Display;
use std::str::FromStr;

use super::{Text, TraceError};

const MAX_NAME_BYTES: usize = 253;
const SHOWN_CHARS: usize = 60;

/// A parsed header and the records below it.
pub(super) struct Table<'t> {
    file: &'t str,
    columns: Vec<String>,
    reader: csv::Reader<&'t [u8]>,
}

/// One column of a [`Table`].
#[derive(Clone, Debug)]
pub(super) struct Column {
    index: usize,
    name: String,
}

/// One record, with what its errors need.
pub(super) struct Row<'t> {
    file: &'t str,
    pub line: u64,
    fields: csv::StringRecord,
}

impl<'t> Table<'t> {
    pub fn open(text: &'t Text) -> Result<Self, TraceError> {
        let mut reader = csv::ReaderBuilder::new()
            .flexible(true)
            .from_reader(text.text.as_bytes());
        // The text is valid UTF-8 in memory, so the reader has nothing left to fail on.
        let header = reader.headers().cloned().unwrap_or_default();
        let columns: Vec<String> = header.iter().map(|name| name.trim().to_owned()).collect();
        if columns.iter().all(String::is_empty) {
            return Err(TraceError::Empty {
                file: text.file.clone(),
            });
        }
        let mut seen = columns.clone();
        seen.sort_unstable();
        if let Some(pair) = seen.windows(2).find(|w| w[0] == w[1] && !w[0].is_empty()) {
            return Err(TraceError::RepeatedColumn {
                file: text.file.clone(),
                column: shown(&pair[0]),
            });
        }
        Ok(Self {
            file: &text.file,
            columns,
            reader,
        })
    }

    /// The names in the header, in order.
    pub fn names(&self) -> &[String] {
        &self.columns
    }

    pub fn optional(&self, name: &str) -> Option<Column> {
        let index = self.columns.iter().position(|c| c == name)?;
        Some(Column {
            index,
            name: name.to_owned(),
        })
    }

    pub fn column(&self, name: &str) -> Result<Column, TraceError> {
        self.optional(name).ok_or_else(|| self.missing(name))
    }

    pub fn missing(&self, name: &str) -> TraceError {
        TraceError::MissingColumn {
            file: self.file.to_owned(),
            column: name.to_owned(),
            found: shown(&self.columns.join(", ")),
        }
    }

    /// Reads every row with `read`; at least one is there, blank lines are not rows.
    pub fn read<T>(
        mut self,
        mut read: impl FnMut(&Row<'t>) -> Result<T, TraceError>,
    ) -> Result<Vec<T>, TraceError> {
        let mut all = Vec::new();
        let mut row = Row {
            file: self.file,
            line: 0,
            fields: csv::StringRecord::new(),
        };
        while self.reader.read_record(&mut row.fields).unwrap_or(false) {
            row.line = row.fields.position().map_or(0, csv::Position::line);
            if row.fields.len() != self.columns.len() {
                return Err(TraceError::Fields {
                    file: self.file.to_owned(),
                    line: row.line,
                    found: row.fields.len(),
                    expected: self.columns.len(),
                });
            }
            all.push(read(&row)?);
        }
        if all.is_empty() {
            return Err(TraceError::Empty {
                file: self.file.to_owned(),
            });
        }
        Ok(all)
    }
}

impl Row<'_> {
    /// The field, without surrounding blanks.
    pub fn text(&self, column: &Column) -> &str {
        self.fields.get(column.index).unwrap_or_default().trim()
    }

    /// The field, or none where it is empty or there is no such column.
    pub fn optional(&self, column: Option<&Column>) -> Option<&str> {
        column.map(|c| self.text(c)).filter(|t| !t.is_empty())
    }

    /// An integer from 0 to `max`.
    pub fn whole<T>(&self, column: &Column, max: T) -> Result<T, TraceError>
    where
        T: FromStr + PartialOrd + Display + Copy,
    {
        let field = self.text(column);
        match field.parse::<T>() {
            Ok(value) if value <= max => Ok(value),
            _ => Err(self.wrong(column, format!("expected a whole number from 0 to {max}"))),
        }
    }

    /// A name that can be shown and compared: not empty, at most 253 bytes, no control characters.
    pub fn name(&self, column: &Column) -> Result<&str, TraceError> {
        let name = self.text(column);
        if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
            let limit = format!("expected a name of 1 to {MAX_NAME_BYTES} printable bytes");
            return Err(self.wrong(column, limit));
        }
        Ok(name)
    }

    /// This row cannot be, because of the field in `column`.
    pub fn wrong(&self, column: &Column, reason: impl Into<String>) -> TraceError {
        TraceError::Field {
            file: self.file.to_owned(),
            line: self.line,
            column: column.name.clone(),
            value: shown(self.text(column)),
            reason: reason.into(),
        }
    }
}

/// Names seen so far and where.
#[derive(Default)]
pub(super) struct Names(HashMap<String, u64>);

impl Names {
    /// Remembers the row's name, which must be new.
    pub fn claim(&mut self, row: &Row<'_>, name: &str) -> Result<String, TraceError> {
        match self.0.insert(name.to_owned(), row.line) {
            None => Ok(name.to_owned()),
            Some(first_line) => Err(TraceError::RepeatedName {
                file: row.file.to_owned(),
                line: row.line,
                name: shown(name),
                first_line,
            }),
        }
    }
}

/// At most 60 characters of something, for an error.
fn shown(value: &str) -> String {
    let mut chars = value.chars();
    let head: String = chars.by_ref().take(SHOWN_CHARS).collect();
    if chars.next().is_some() {
        head + "…"
    } else {
        head
    }
}

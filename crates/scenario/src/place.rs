//! Where things stand in a file, and what is wrong there.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer};
use serde_saphyr::{Location, Spanned};
use std::{borrow::Cow, fmt};

/// A place in a file, both numbers from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Line.
    pub line: u64,
    /// Column, in characters.
    pub column: u64,
}

/// The place of a short form before its holder's place is put in.
pub(crate) const NOWHERE: Place = Place { line: 0, column: 0 };

impl Place {
    /// This place, or `outer` where it is nowhere.
    pub(crate) fn or(self, outer: Self) -> Self {
        if self == NOWHERE { outer } else { self }
    }
}

impl From<Location> for Place {
    fn from(at: Location) -> Self {
        Self {
            line: at.line().max(1),
            column: at.column().max(1),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Something wrong or doubtful at a place, with the way out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// What, in one line.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// Longest message, in characters; what is quoted in longer ones is cut.
const LONGEST: usize = 500;

impl Problem {
    /// A problem with its message put on one line of bearable length.
    pub(crate) fn new(place: Place, message: impl Into<String>) -> Self {
        let mut message: String = message.into();
        if message.contains(char::is_control) {
            message = message.replace(char::is_control, " ");
        }
        let chars: Vec<char> = message.chars().collect();
        if chars.len() > LONGEST {
            let (head, tail) = (&chars[..LONGEST / 2], &chars[chars.len() - LONGEST / 2..]);
            message = head
                .iter()
                .chain(&[' ', '.', '.', '.', ' '])
                .chain(tail)
                .collect();
        }
        Self { place, message }
    }

    /// The problem as `file:line:column: message`.
    pub fn in_file(&self, file: impl fmt::Display) -> String {
        format!("{file}:{self}")
    }
}

/// Everything that keeps a file from being a scenario, in order of place; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            write!(f, "{}{problem}", if i > 0 { "\n" } else { "" })?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

impl Problems {
    /// One line for each, as `file:line:column: message`.
    pub fn in_file(&self, file: impl fmt::Display) -> String {
        let lines: Vec<_> = self.0.iter().map(|p| p.in_file(&file)).collect();
        lines.join("\n")
    }
}

/// A value with its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<T> {
    pub value: T,
    pub place: Place,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for At<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Spanned {
            value, referenced, ..
        } = Spanned::deserialize(deserializer)?;
        Ok(Self {
            value,
            place: referenced.into(),
        })
    }
}

/// A key that may be left out. A key without a value is an error, not a key left out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<T>(Option<At<T>>);

impl<T> Default for Key<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Key<T> {
    /// The value, if the key is there.
    pub fn get(&self) -> Option<&T> {
        self.0.as_ref().map(|at| &at.value)
    }

    /// The value with its place, if the key is there.
    pub fn at(&self) -> Option<&At<T>> {
        self.0.as_ref()
    }
}

impl<T: Copy> Key<T> {
    /// The value, or what it is without.
    pub fn or(&self, default: T) -> T {
        self.get().copied().unwrap_or(default)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Key<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        At::deserialize(deserializer).map(|at| Self(Some(at)))
    }
}

macro_rules! schema_of_inner {
    ($wrapper:ident) => {
        impl<T: JsonSchema> JsonSchema for $wrapper<T> {
            fn inline_schema() -> bool {
                T::inline_schema()
            }
            fn schema_name() -> Cow<'static, str> {
                T::schema_name()
            }
            fn schema_id() -> Cow<'static, str> {
                T::schema_id()
            }
            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                T::json_schema(generator)
            }
        }
    };
}
schema_of_inner!(At);
schema_of_inner!(Key);

//! From text to the file's types, with every error in our words.

use crate::ast::{File, LATER};
use crate::place::{Place, Problem};
use serde_saphyr::{DuplicateKeyPolicy, Error, NonFiniteFloatPolicy, Options};
use std::cmp::Reverse;

/// Reads a file's text.
///
/// # Errors
/// The first thing that can't be read, with its place.
pub(crate) fn read(text: &str) -> Result<File, Problem> {
    serde_saphyr::from_str_with_options(text, options()).map_err(|error| problem(&error))
}

/// Limits let a hundred thousand workloads through and stop what grows by aliases or nesting.
fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 25_000_000,
            max_nodes: 10_000_000,
            max_depth: 32,
            max_anchors: 1_000,
            max_aliases: 10_000,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 200_000,
            max_replay_stack_depth: 8,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        strict_booleans: true,
        reject_unsupported_tags: true,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        with_snippet: false,
    }
}

fn problem(error: &Error) -> Problem {
    let place = error
        .location()
        .map_or(Place { line: 1, column: 1 }, Place::from);
    Problem::new(place, message(error))
}

fn message(error: &Error) -> String {
    match error.without_snippet() {
        Error::Message { msg, .. } => msg.clone(),
        Error::SerdeUnknownField {
            field, expected, ..
        } => unknown_key(field, expected),
        Error::SerdeMissingField { field, .. } => format!("key `{field}` is missing"),
        Error::SerdeUnknownVariant {
            variant, expected, ..
        } => {
            format!(
                "`{variant}` is not one of {}{}",
                expected.join(", "),
                meant(variant, expected)
            )
        }
        Error::SerdeInvalidType {
            unexpected,
            expected,
            ..
        }
        | Error::SerdeInvalidValue {
            unexpected,
            expected,
            ..
        } => match unexpected.as_str() {
            "unit value" => format!("a value is missing: expected {expected}"),
            found => format!("expected {expected}, found {found}"),
        },
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("key `{key}` stands here twice: keep one")
        }
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => {
            "nested too deep or too large: split the file or use ranges in names".into()
        }
        Error::AliasError { error, .. } => message(error),
        Error::NullIntoString { .. } => "a value is missing here".into(),
        Error::MultipleDocuments { .. } => "a second document: keep one in a file".into(),
        Error::Eof { .. } => "the file is empty or ends too early: begin with `cleave: 1`".into(),
        Error::Unexpected { expected, .. } => match *expected {
            "mapping start" => "expected a mapping, as in `key: value`".into(),
            "sequence start" => "expected a list, as in [a, b]".into(),
            "string scalar" => "expected a text".into(),
            other => format!("expected {other}"),
        },
        Error::InvalidScalar { ty, .. } => match ty.strip_prefix('u').map(str::parse::<u32>) {
            Some(Ok(bits @ 1..=64)) => {
                format!(
                    "expected a whole number from 0 to {}",
                    u64::MAX >> (64 - bits)
                )
            }
            _ => format!("this is no {ty}"),
        },
        Error::UnknownAnchor { .. } => "`*name` without a `&name` before it".into(),
        Error::UnsupportedTag { tag, .. } => {
            format!("tag `{tag}` means nothing here: leave it out")
        }
        other => {
            let text = other.to_string();
            let text = text.split(" at line ").next().unwrap_or_default();
            match YAML.iter().find(|(theirs, _)| text.contains(theirs)) {
                Some((_, ours)) => (*ours).into(),
                None => format!("this is not YAML: {}", text.trim_end_matches(',')),
            }
        }
    }
}

/// What the parser says of common slips, by a part of it, and what we say.
const YAML: &[(&str, &str)] = &[
    ("tab", "a tab: indent with blanks"),
    ("unclosed bracket '['", "this `[` is never closed"),
    ("unclosed bracket '{'", "this `{` is never closed"),
    ("unclosed quote", "a quote is never closed"),
    ("quoted scalar, found unexpected", "a quote is never closed"),
    ("unknown anchor", "`*name` without a `&name` before it"),
    (
        "mapping values are not allowed",
        "a `:` where no key can stand: put the text in quotes, or look at the indentation",
    ),
    (
        "simple key",
        "expected `key: value`: is a `:` missing, or the indentation another than above?",
    ),
    (
        "did not find expected key",
        "expected `key: value`: is the indentation another than above?",
    ),
    (
        "did not find expected '-' indicator",
        "expected `- item`: is the indentation another than above?",
    ),
    ("expected ',' or ']'", "expected `,` or `]`"),
    ("expected ',' or '}'", "expected `,` or `}`"),
    (
        "unknown escape character",
        "no such escape: write `\\\\`, or put the text in single quotes",
    ),
    (
        "unexpected character",
        "put a text that begins so in quotes",
    ),
    ("invalid boolean", "expected true or false"),
    (
        "illegal placement of ':'",
        "a `:` where no key can stand: is a bracket or a quote above left open?",
    ),
];

fn unknown_key(key: &str, expected: &[&str]) -> String {
    let key: String = key.chars().take(60).collect();
    let later = LATER
        .iter()
        .any(|(beside, keys)| expected.contains(beside) && keys.contains(&key.as_str()));
    if later {
        return format!("`{key}` is not supported yet: leave it out");
    }
    let keys = expected.join(", ");
    format!(
        "unknown key `{key}`{}; keys here are {keys}",
        meant(&key, expected)
    )
}

/// `: did you mean `x`?` where something near `text` is known.
pub(crate) fn meant<S: AsRef<str>>(text: &str, known: &[S]) -> String {
    match near(text, known.iter().map(AsRef::as_ref)) {
        Some(name) => format!(" (did you mean `{name}`?)"),
        None => String::new(),
    }
}

/// The nearest of `known` to `text`, if it is near enough to be what was meant. Of several as near
/// it is the one that begins most like the text.
pub fn near<'a>(text: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let text = text.to_ascii_lowercase();
    if text.len() > 100 {
        return None;
    }
    let far = |name: &str| strsim::damerau_levenshtein(&text, &name.to_ascii_lowercase());
    let alike = |name: &str| {
        let pairs = text.chars().zip(name.chars());
        pairs.take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count()
    };
    known
        .map(|name| (far(name), Reverse(alike(name)), name))
        .filter(|(far, _, name)| *far <= name.len().max(text.len()) / 3)
        .min()
        .map(|(.., name)| name)
}

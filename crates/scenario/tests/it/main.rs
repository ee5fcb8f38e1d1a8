//! The language from outside: shipped files, problems, differences, and texts that are no files.

mod any_text;
mod differences;
mod files;
mod problems;
mod schema;

//! The `cleave` command.
fn main() {}

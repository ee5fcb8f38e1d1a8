//! The agent by itself, for this crate's tests.

fn main() -> std::process::ExitCode {
    cleave_node::main()
}

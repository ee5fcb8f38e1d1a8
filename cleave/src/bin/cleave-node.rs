//! `cleave-node`: the agent of one node.

fn main() -> std::process::ExitCode {
    cleave_node::main()
}

//! Every kind of problem, with its place and its way out.

use cleave_model::Name;
use cleave_scenario::{Problems, parse, parse_jobs};
use std::fmt::Write;

/// Each case of the table, with what is said of it.
fn said(table: &str, read: impl Fn(&str) -> Result<(), Problems>) -> String {
    let mut said = String::new();
    for case in table.split("=== ").skip(1) {
        let (title, text) = case.split_once('\n').expect("a title, then the text");
        let _ = writeln!(said, "=== {title}");
        match read(text) {
            Ok(()) => said.push_str("(reads)\n"),
            Err(problems) => {
                let _ = writeln!(said, "{}", problems.in_file("f.yaml"));
            }
        }
    }
    said
}

#[test]
fn problems_have_places_and_ways_out() {
    let said = said(include_str!("problems.txt"), |text| parse(text).map(drop));
    assert!(!said.contains("(reads)"), "{said}");
    insta::assert_snapshot!(said);
}

#[test]
fn problems_of_job_files_too() {
    let queues = ["default", "vision"].map(|name| Name::new(name).expect("a name"));
    let read = |text: &str| parse_jobs(text, &queues, 1_000).map(drop);
    let said = said(include_str!("job-problems.txt"), read);
    assert!(!said.contains("(reads)"), "{said}");
    insta::assert_snapshot!(said);
}

#[test]
fn doubtful_things_are_warnings() {
    let text = "cleave: 1\ntopology: [rack]\nnodes: [{name: n0}]\n\
                workloads: [{name: a, apart: zone}]\n";
    let scenario = parse(text).expect("it reads");
    let warnings: Vec<_> = scenario.warnings.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(warnings.join("\n"));
}

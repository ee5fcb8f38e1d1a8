//! What people see, on a screen of usual width and on a narrow one.

use super::{gpus, ps, samples, submit, why};
use cleave_server::api::{Jobs, Phase, Place, Problem};
use std::path::Path;

const WIDTHS: [usize; 2] = [80, 40];

/// All widths of a screen; no line is wider than the screen.
fn at_widths(render: impl Fn(usize) -> String) -> String {
    let mut out = String::new();
    for width in WIDTHS {
        let text = render(width);
        for line in text.lines() {
            let wide = line.chars().count();
            assert!(wide <= width, "{wide} of {width}: {line}");
        }
        out += &format!("--- {width}\n{text}");
    }
    out
}

#[test]
fn jobs_are_listed() {
    let jobs = samples::jobs();
    insta::assert_snapshot!(at_widths(|width| ps::render(
        &jobs,
        width,
        usize::MAX,
        false
    )));
}

#[test]
fn a_long_list_ends_with_the_screen() {
    let jobs = samples::jobs();
    insta::assert_snapshot!(ps::render(&jobs, 80, 4, true));
    let none = Jobs {
        jobs: Vec::new(),
        counts: Default::default(),
        now: 0,
    };
    assert!(ps::render(&none, 80, 9, false).contains("cleave submit"));
}

#[test]
fn a_job_is_explained() {
    let mut detail = samples::waiting();
    insta::assert_snapshot!("waiting", at_widths(|width| why::render(&detail, width)));
    detail.row = samples::row("sweep-17", Phase::Failed);
    detail.why = vec!["It failed: exit code 3.".into()];
    detail.command = None;
    detail.directory = None;
    insta::assert_snapshot!("failed", why::render(&detail, 80));
}

#[test]
fn gpus_are_bars() {
    let fleet = samples::fleet();
    insta::assert_snapshot!(at_widths(|width| gpus::render(&fleet, width)));
}

#[test]
fn problems_name_their_places_in_files_alone() {
    let place = Place {
        line: 3,
        column: 7,
        message: "unknown key `gpus` (did you mean `gpu`?)".into(),
    };
    let problem = Problem {
        error: "the job file is bad".into(),
        places: vec![place],
    };
    let file = submit::complaint(&problem, Some(Path::new("a.yaml")));
    assert_eq!(file, "a.yaml:3:7: unknown key `gpus` (did you mean `gpu`?)");
    let flags = submit::complaint(&problem, None);
    assert_eq!(flags, "cleave: unknown key `gpus` (did you mean `gpu`?)");
}

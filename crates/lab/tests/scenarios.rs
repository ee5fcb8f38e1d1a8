//! The scenarios that ship hold.

use cleave_lab::play;
use std::path::{Path, PathBuf};

fn yaml_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("scenarios are there") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            yaml_files(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "yaml") {
            files.push(path);
        }
    }
}

#[test]
fn every_scenario_that_ships_holds() {
    let mut files = Vec::new();
    yaml_files(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios"),
        &mut files,
    );
    files.sort();
    assert!(files.len() >= 29, "only {} scenarios found", files.len());
    let mut wrong = Vec::new();
    for file in &files {
        let text = std::fs::read_to_string(file).expect("readable");
        let scenario = match cleave_scenario::parse(&text) {
            Ok(scenario) => scenario,
            Err(problems) => {
                wrong.push(problems.in_file(file.display().to_string()));
                continue;
            }
        };
        assert!(
            !scenario.expects.is_empty(),
            "{} expects nothing",
            file.display()
        );
        match play::play(&scenario) {
            Ok(played) => {
                let lines = played.differences.iter();
                wrong.extend(lines.map(|line| format!("{}:{line}", file.display())));
            }
            Err(error) => wrong.push(format!("{}: {error}", file.display())),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

//! The scenario files that ship: they read, they follow the schema, and order does not matter.

use crate::schema::follows;
use cleave_scenario::{Scenario, parse, schema};
use serde_json::{Value, json};
use std::{fs, path::PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All shipped files with their texts, by path.
pub fn files() -> Vec<(String, String)> {
    let mut files = Vec::new();
    let folders = fs::read_dir(root().join("scenarios")).expect("the folder of scenarios");
    for folder in folders
        .map(|f| f.expect("an entry").path())
        .filter(|p| p.is_dir())
    {
        for file in fs::read_dir(folder)
            .expect("a folder")
            .map(|f| f.expect("an entry").path())
        {
            if file.extension().is_none_or(|ending| ending != "yaml") {
                continue;
            }
            let text = fs::read_to_string(&file).expect("a text");
            files.push((file.display().to_string(), text));
        }
    }
    files.sort();
    files
}

fn read(name: &str, text: &str) -> Scenario {
    parse(text).unwrap_or_else(|problems| panic!("{}", problems.in_file(name)))
}

#[test]
fn every_shipped_file_reads_and_says_what_it_shows() {
    let files = files();
    assert!(files.len() > 20, "only {} files", files.len());
    for (name, text) in files {
        assert!(
            text.starts_with("# "),
            "{name} does not begin with what it shows"
        );
        let scenario = read(&name, &text);
        let warnings: Vec<_> = scenario.warnings.iter().map(|w| w.in_file(&name)).collect();
        assert!(warnings.is_empty(), "{}", warnings.join("\n"));
        assert!(
            scenario.expects.iter().any(|e| !e.checks.is_empty()),
            "{name} expects nothing"
        );
    }
}

#[test]
fn the_checked_in_schema_is_the_generated_one() {
    let path = root().join("schema/scenario-v1.json");
    let (have, want) = (fs::read_to_string(&path).unwrap_or_default(), schema());
    if have != want && std::env::var_os("CLEAVE_BLESS").is_some() {
        fs::write(&path, want).expect("the schema's folder");
    } else {
        assert!(
            have == want,
            "{} is stale: run with CLEAVE_BLESS=1",
            path.display()
        );
    }
}

fn value(text: &str) -> Value {
    serde_saphyr::from_str(text).expect("a shipped file is YAML")
}

#[test]
fn shipped_files_follow_the_schema_and_no_key_can_be_misspelt() {
    let schema: Value = serde_json::from_str(&schema()).expect("JSON");
    let mut refused = 0;
    for (name, text) in files() {
        let whole = value(&text);
        assert!(
            follows(&schema, &schema, &whole),
            "{name} does not follow the schema"
        );
        for path in mappings(&whole, String::new()) {
            let mut wrong = whole.clone();
            let map = wrong.pointer_mut(&path).and_then(Value::as_object_mut);
            map.expect("a mapping").insert("zzz".into(), json!("x"));
            refused += 1;
            assert!(!follows(&schema, &schema, &wrong), "{name} {path}");
            let problems = parse(&wrong.to_string()).expect_err(&name).to_string();
            assert!(
                problems.contains("unknown key `zzz`"),
                "{name} {path}: {problems}"
            );
        }
    }
    assert!(refused > 200, "only {refused} mappings were tried");
}

/// The paths of all mappings in a document.
fn mappings(value: &Value, path: String) -> Vec<String> {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(k, v)| (k.replace('/', "~1"), v)).collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(i, v)| (i.to_string(), v))
            .collect(),
        _ => Vec::new(),
    };
    // Mappings whose keys are names take any.
    let free = [
        "labels", "select", "workers", "pending", "on", "slices", "fits",
    ];
    let named = path
        .rsplit('/')
        .next()
        .is_some_and(|last| free.contains(&last));
    let own = (value.is_object() && !named).then(|| path.clone());
    let below = inner
        .into_iter()
        .flat_map(|(key, v)| mappings(v, format!("{path}/{key}")));
    own.into_iter().chain(below).collect()
}

#[test]
fn order_does_not_matter_among_equals() {
    let values = |s: &Scenario| {
        format!(
            "{:#?}",
            (
                &s.boards,
                &s.nodes,
                &s.queues,
                &s.workloads,
                &s.held,
                &s.prior,
                &s.events
            )
        )
    };
    for (name, text) in files() {
        let mut turned = value(&text);
        for (_, list) in turned.as_object_mut().expect("a mapping").iter_mut() {
            if let Some(list) = list.as_array_mut() {
                list.reverse();
            }
        }
        // The levels of topology do have an order.
        turned.as_object_mut().map(|map| map.remove("topology"));
        let expects = turned.as_object_mut().and_then(|map| map.remove("expect"));
        assert!(expects.is_some());
        let (one, other) = (read(&name, &text), read(&name, &turned.to_string()));
        assert_eq!(values(&one), values(&other), "{name}");
    }
}

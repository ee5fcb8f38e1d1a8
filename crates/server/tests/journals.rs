//! Journals of every release are read by this one, and come to the state that they came to then.

use cleave_server::replay;
use sha2::{Digest, Sha256};
use std::path::Path;

#[test]
fn journals_of_every_release_come_to_the_same_state() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/journals");
    let list = std::fs::read_to_string(home.join("digests.txt")).expect("it is checked in");
    let mut seen = 0;
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let (digest, file) = line.split_once("  ").expect("a digest and a file");
        let replayed = replay(&home.join(file)).unwrap_or_else(|error| panic!("{error}"));
        let found: String = Sha256::digest(&replayed.canonical)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(found, digest, "{file}:\n{}", replayed.canonical);
        seen += 1;
    }
    let files = std::fs::read_dir(&home).expect("it is checked in");
    let journals = files.filter(|file| {
        let name = file.as_ref().expect("readable").file_name();
        name.to_string_lossy().ends_with(".sqlite")
    });
    assert_eq!(seen, journals.count(), "each journal has a digest");
}

//! The fact table against the data directory, names, and what rows are refused.
use super::board;
use cleave_model::board::{Board, BoardError, Catalogue, Engines, ModeChange, Profile, ProfileIx};
use cleave_model::units::GPU;
use std::path::PathBuf;

/// The file's text, or none (with the reason printed) where the data directory lacks it.
#[expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test reads the data directory"
)]
fn data(file: &str) -> Option<String> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let dir = std::env::var_os("CLEAVE_DATA").map_or_else(|| beside.into(), PathBuf::from);
    let path = dir.join(file);
    let text = std::fs::read_to_string(&path);
    text.map_err(|error| println!("skipped: {}: {error}", path.display()))
        .ok()
}

#[test]
fn table_equals_data() {
    let Some(text) = data("mig-geometry.tsv") else {
        return;
    };
    let row = |board: &Board, p: &Profile| {
        let starts: Vec<String> = p.starts.iter().map(u8::to_string).collect();
        let suffix = p.parsed().suffix;
        let media = match suffix {
            "" => "-".to_string(),
            "-me" => suffix.to_string(),
            _ => format!("+{suffix}"),
        };
        [
            board.name.clone(),
            p.name.clone(),
            p.compute.to_string(),
            p.size.to_string(),
            p.memory_mib.to_string(),
            starts.join(","),
            p.max.to_string(),
            media,
            p.gi_profile.to_string(),
            p.sm.map_or(String::new(), |sm| sm.to_string()),
        ]
        .join("\t")
    };
    let boards = Catalogue::builtin();
    let mut ours = Vec::new();
    for id in boards.ids() {
        let board = boards.board(id);
        ours.extend(board.profiles.iter().map(|p| row(board, p)));
        if let Some(largest) = board.profiles.iter().max_by_key(|p| p.size) {
            assert_eq!(board.memory_mib, largest.memory_mib, "{}", board.name);
            assert_eq!(
                (board.units, board.compute),
                (largest.size, largest.compute)
            );
        }
    }
    let basis = |line: &str| {
        line.rsplit_once('\t')
            .expect("a basis column")
            .0
            .to_string()
    };
    let theirs: Vec<String> = text.lines().skip(1).map(basis).collect();
    assert_eq!(ours, theirs);
    assert_eq!(theirs.len(), 79);
}

#[test]
fn board_names() {
    for (asked, name) in [
        ("a100-40gb", "A100-40GB"),
        ("A100-80", "A100-80GB"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB"),
        ("H100", "H100-80GB-SXM"),
        ("h100_80gb", "H100-80GB-SXM"),
        ("NVIDIA H100 80GB HBM3", "H100-80GB-SXM"),
        ("H100-PCIe", "H100-80GB-PCIE"),
        ("GH200", "H100-96GB-GH200"),
        ("H200", "H200-141GB"),
        ("B200", "B200-180GB"),
        ("GB200", "GB200-186GB"),
        ("RTX-PRO-6000", "RTX-PRO-6000-Blackwell-96GB"),
        ("V100M16", "V100-16GB"),
        ("Tesla-V100-SXM2-32GB", "V100-32GB"),
        ("Tesla-T4", "T4"),
        ("AMD Instinct MI300X", "MI300X"),
        ("g2", "G2"),
    ] {
        assert_eq!(board(asked).name, name, "{asked}");
    }
    let boards = Catalogue::builtin();
    let unknown = boards.find("H1000").unwrap_err().to_string();
    let known = "no board is called H1000; declare it, or name one of A30, A100-40GB,";
    assert!(unknown.starts_with(known), "{unknown}");
    let family = boards.find("A100").unwrap_err().to_string();
    assert_eq!(
        family,
        "A100 means several boards; name one of A100-40GB, A100-80GB"
    );

    let names = |ask| -> Vec<String> {
        boards
            .answering(ask)
            .map(|id| boards.board(id).name.clone())
            .collect()
    };
    assert_eq!(names("a100"), ["A100-40GB", "A100-80GB"]);
    assert_eq!(names("V100"), ["V100-16GB", "V100-32GB"]);
    assert_eq!(names("H100").len(), 4);
    assert_eq!(names("H100-80GB-PCIE"), ["H100-80GB-PCIE"]);
    assert_eq!(names("B200"), ["B200-180GB"]);
}

#[test]
fn profile_names() {
    for (on, asked, name) in [
        ("A100-80GB", "3g.39gb", "3g.40gb"),
        ("A100-80GB", "3g.40gb", "3g.40gb"),
        ("A100-80GB", "7g.79gb", "7g.80gb"),
        ("A100-80GB", "mig-1g.10gb.me", "1g.10gb+me"),
        ("H100", "1g.10gb", "1g.10gb"),
        ("H100", "1g.20gb", "1g.20gb"),
        ("H100", "1g.11gb", "1g.10gb"),
        ("H100-NVL", "3g.48gb", "3g.47gb"),
        ("GB200", "1g.24gb", "1g.23gb"),
        ("GB200", "7g.189gb", "7g.186gb"),
        ("RTX-PRO-6000", "1g.24gb-me", "1g.24gb-me"),
        ("RTX-PRO-6000", "2g.48gb.me.all", "2g.48gb+me.all"),
        ("RTX-PRO-6000", "4g.96gb+gfx", "4g.96gb+gfx"),
    ] {
        let board = board(on);
        let ix = board
            .profile(asked)
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(board.at(ix).name, name, "{asked} on {on}");
    }
    for (on, asked) in [
        ("A100-80GB", "1g.5gb"),
        ("A100-80GB", "3g.20gb"),
        ("A30", "3g.24gb"),
        ("H100", "2g.20gb+me"),
        ("H100", "1g.15gb"),
        ("H100", "1c.3g.40gb"),
        ("H100", "1g.10gb+"),
        ("H100", "1g.10gbme"),
        ("H100", "1g.gb"),
        ("H100", "g.10gb"),
        ("H100", "1g.99999999999gb"),
        ("H100", ""),
    ] {
        let error = board(on).profile(asked).unwrap_err();
        assert!(
            error.to_string().contains(&error.known.join(", ")),
            "{error}"
        );
    }
    let no = board("A30").profile("3g.24gb").unwrap_err().to_string();
    let has = "1g.6gb, 1g.6gb+me, 2g.12gb, 2g.12gb+me, 4g.24gb";
    assert_eq!(
        no,
        format!("board A30 has no profile like 3g.24gb; it has {has}")
    );
    let no = board("L4").profile("1g.6gb").unwrap_err().to_string();
    assert_eq!(
        no,
        "board L4 has no profile 1g.6gb: it cannot be cut into instances"
    );
}

#[test]
fn weights_are_half_compute_half_memory() {
    let h100 = board("H100").only(|p| p.parsed().suffix.is_empty());
    let weights: Vec<u32> = h100.indices().map(|ix| h100.weight(ix)).collect();
    assert_eq!(weights, [112_500, 165_000, 225_000, 390_000, 450_000, GPU]);
    let rtx = board("RTX-PRO-6000");
    assert_eq!(rtx.weight(ProfileIx(0)) * 4, GPU);
    assert!(rtx.at(ProfileIx(2)).graphics() && !rtx.at(ProfileIx(0)).graphics());
}

#[test]
fn boards_survive_serde_and_are_checked_on_the_way_in() {
    let boards = Catalogue::builtin();
    for id in boards.ids() {
        let board = Board::clone(boards.board(id));
        let json = serde_json::to_string(&board).unwrap();
        assert_eq!(serde_json::from_str::<Board>(&json).unwrap(), board);
    }
    let json = serde_json::to_string(&board("A30")).unwrap();
    let wrong = json.replace("\"units\":4", "\"units\":0");
    let error = serde_json::from_str::<Board>(&wrong)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("board A30: needs 1 to 16 units"),
        "{error}"
    );
    let unknown = json.replace("\"units\"", "\"unit\":1,\"units\"");
    assert!(serde_json::from_str::<Board>(&unknown).is_err());
    let plain = r#"{"name":"X1","family":"X","memory_mib":1000,"units":1,"compute":1}"#;
    assert!(
        serde_json::from_str::<Board>(plain)
            .unwrap()
            .profiles
            .is_empty()
    );
}

#[test]
fn broken_rows_are_refused() {
    use BoardError as E;
    type Edit = fn(&mut Board);
    let b = || "A30".to_string();
    let p = || "2g.12gb".to_string();
    let rows: [(Edit, BoardError); 26] = [
        (|b| b.family = " ".into(), E::Nameless(b())),
        (|b| b.aliases.push(String::new()), E::Nameless(b())),
        (|b| b.units = 17, E::Size(b())),
        (|b| b.units = 0, E::Size(b())),
        (|b| b.compute = 0, E::Size(b())),
        (|b| b.memory_mib = 0, E::Size(b())),
        (|b| b.mode_change = ModeChange::Never, E::Mode(b())),
        (|b| b.profiles.clear(), E::Mode(b())),
        (
            |b| b.profiles = vec![b.profiles[0].clone(); 251],
            E::TooManyProfiles(b()),
        ),
        (
            |b| b.profiles[2].name = "2g.12".into(),
            E::ProfileName(b(), "2g.12".into()),
        ),
        (|b| b.profiles[2].compute = 1, E::ProfileName(b(), p())),
        (|b| b.profiles[2].gi_profile = 14, E::Duplicate(b(), p())),
        (
            |b| b.profiles[3].name = "2g.12gb".into(),
            E::Duplicate(b(), p()),
        ),
        (
            |b| b.profiles[3].name = "mig-2g.12gb".into(),
            E::Duplicate(b(), "mig-2g.12gb".into()),
        ),
        (|b| b.profiles[2].size = 0, E::ProfileSize(b(), p())),
        (|b| b.profiles[2].size = 5, E::ProfileSize(b(), p())),
        (
            |b| b.profiles[2].memory_mib = 24_001,
            E::ProfileSize(b(), p()),
        ),
        (
            |b| b.profiles[2].engines.decoders = 5,
            E::ProfileSize(b(), p()),
        ),
        (|b| b.compute = 1, E::ProfileSize(b(), p())),
        (|b| b.profiles[2].starts = vec![], E::Starts(b(), p())),
        (|b| b.profiles[2].starts = vec![2, 0], E::Starts(b(), p())),
        (|b| b.profiles[2].starts = vec![0, 0], E::Starts(b(), p())),
        (|b| b.profiles[2].starts = vec![0, 3], E::Starts(b(), p())),
        (|b| b.profiles[2].starts = vec![0, 255], E::Starts(b(), p())),
        (|b| b.profiles[2].max = 0, E::Max(b(), p())),
        (
            |b| (b.profiles[2].size, b.engines.decoders) = (1, 9),
            E::Compute(b(), 6, 4),
        ),
    ];
    for (edit, error) in rows {
        let mut rows = board("A30");
        edit(&mut rows);
        assert_eq!(Board::new(rows), Err(error));
    }

    // Wide slices given the size of narrow ones, as some published mocks have them.
    let mut mock = board("H100");
    (mock.profiles[4].size, mock.profiles[6].size) = (3, 7);
    assert!(
        Board::new(mock.clone()).is_ok(),
        "wrong, but not impossible on its face"
    );
    (mock.profiles[2].size, mock.profiles[3].size) = (1, 1);
    mock.engines.decoders = 99;
    mock.engines.jpegs = 99;
    assert!(matches!(Board::new(mock), Err(E::Compute(_, 10, 7))));

    // Sixteen units of three free kinds: 4^16 layouts.
    let mut many = board("A30").only(|p| p.size == 1);
    many.engines = Engines {
        decoders: 99,
        jpegs: 99,
        flows: 99,
        ..Engines::default()
    };
    (many.units, many.compute) = (16, 16);
    for profile in &mut many.profiles {
        (profile.starts, profile.max) = ((0..16).collect(), 16);
    }
    assert_eq!(Board::new(many), Err(E::TooManyLayouts(b())));
}

#[test]
fn catalogue_takes_new_and_corrected_boards() {
    let mut boards = Catalogue::builtin();
    let count = boards.ids().len();
    let before = boards.find("GB200").unwrap();
    let shared = boards.layouts(boards.find("H100").unwrap()).clone();
    assert!(
        std::sync::Arc::ptr_eq(&shared, boards.layouts(before)),
        "one geometry, one table"
    );

    let mut seen = board("GB200");
    seen.profiles[0].name = "1g.24gb".into();
    assert_eq!(boards.insert(seen).unwrap(), before);
    assert_eq!(boards.board(before).profiles[0].name, "1g.24gb");
    assert!(std::sync::Arc::ptr_eq(&shared, boards.layouts(before)));

    let narrow = board("GB200").only(|p| p.size > 1);
    assert_eq!(boards.insert(narrow).unwrap(), before);
    assert!(
        boards.layouts(before).len() < shared.len(),
        "corrected rows, new layouts"
    );

    let mut own = board("A30");
    own.name = "Lab-30".into();
    let error = boards.insert(own.clone()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "board Lab-30: the name A30-24GB already means board A30"
    );
    own.aliases.clear();
    assert_eq!(usize::from(boards.insert(own).unwrap().0), count);
}

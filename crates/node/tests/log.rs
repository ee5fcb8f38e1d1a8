//! The kept output: rotated, torn, dropped, read while it is written.

use cleave_node::log::{Keep, Piece, Reader, Stream, Writer, tail};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

struct Dir(PathBuf);

impl Dir {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::SeqCst);
        let path = std::env::temp_dir().join(format!("cleave-log-{}-{count}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// All that is there: gaps as their size, bytes as they are.
fn read(reader: &mut Reader) -> (u64, String) {
    let (mut gap, mut text) = (0, String::new());
    while let Some(piece) = reader.next_piece().unwrap() {
        match piece {
            Piece::Gap(bytes) => gap += bytes,
            Piece::Bytes(_, bytes) => text.push_str(std::str::from_utf8(&bytes).unwrap()),
        }
    }
    (gap, text)
}

fn all(dir: &Path) -> (u64, String) {
    read(&mut Reader::new(dir))
}

const SMALL: Keep = Keep {
    file: 1_000,
    files: 3,
};

#[test]
fn old_output_goes_and_is_counted() {
    let dir = Dir::new();
    let mut writer = Writer::new(&dir.0, SMALL);
    let mut follower = Reader::new(&dir.0);
    let (mut whole, mut followed) = (String::new(), String::new());
    for number in 0..300 {
        let line = format!("line {number}\n");
        let stream = if number % 3 == 0 {
            Stream::Err
        } else {
            Stream::Out
        };
        writer.append(stream, line.as_bytes());
        whole.push_str(&line);
        if number % 7 == 0 {
            let (gap, text) = read(&mut follower);
            assert_eq!(gap, 0, "it kept up");
            followed.push_str(&text);
        }
        let (gap, text) = all(&dir.0);
        assert_eq!(text, whole[gap as usize..], "after line {number}");
    }
    followed.push_str(&read(&mut follower).1);
    assert_eq!(followed, whole);
    let (gap, _) = all(&dir.0);
    assert!(gap > 0);
    let kept: u64 = fs::read_dir(&dir.0)
        .unwrap()
        .map(|of| of.unwrap().metadata().unwrap().len())
        .sum();
    assert!(kept <= SMALL.file * SMALL.files, "{kept} bytes");
}

#[test]
fn a_slow_reader_is_told_what_it_missed() {
    let dir = Dir::new();
    let mut writer = Writer::new(&dir.0, SMALL);
    let mut whole = String::new();
    let mut write = |count: usize| {
        for _ in 0..count {
            let line = format!("{:20}\n", whole.len());
            writer.append(Stream::Out, line.as_bytes());
            whole.push_str(&line);
        }
        whole.clone()
    };
    write(3);
    let mut reader = Reader::new(&dir.0);
    let (_, first) = read(&mut reader);
    let whole = write(500);
    let (gap, rest) = read(&mut reader);
    assert!(gap > 0);
    // It still has the file that it was in, though that is gone.
    let missed = whole.len() - rest.len() - first.len();
    assert_eq!(gap as usize, missed);
    assert!(whole.ends_with(&rest[rest.len() - 1_000..]));
}

#[test]
fn the_last_lines() {
    let cases = [
        (vec![], 3, ""),
        (vec!["a\nb\nc\n"], 2, "b\nc\n"),
        (vec!["a\nb\nc\n"], 3, "a\nb\nc\n"),
        (vec!["a\nb\nc\n"], 9, "a\nb\nc\n"),
        (vec!["a\nb\nc\n"], 0, ""),
        (vec!["a\nb\nc"], 1, "c"),
        (vec!["a\nb\nc"], 2, "b\nc"),
        (vec!["a\nb\nc"], 0, ""),
        (vec!["a", "\nb", "\n", "c\nd"], 2, "c\nd"),
        (vec!["a", "\nb", "\n", "c\nd"], 3, "b\nc\nd"),
        (vec!["\n\n\n"], 2, "\n\n"),
    ];
    for (pieces, lines, wanted) in cases {
        let dir = Dir::new();
        let mut writer = Writer::new(&dir.0, Keep::default());
        pieces
            .iter()
            .for_each(|piece| writer.append(Stream::Out, piece.as_bytes()));
        let (mut reader, first) = tail(&dir.0, lines).unwrap();
        let mut text = match first {
            Some(Piece::Bytes(_, bytes)) => String::from_utf8(bytes).unwrap(),
            _ => String::new(),
        };
        text.push_str(&read(&mut reader).1);
        assert_eq!(text, wanted, "{pieces:?}, {lines}");
        writer.append(Stream::Out, b"more");
        assert_eq!(read(&mut reader).1, "more", "goes on");
    }
}

#[test]
fn a_torn_file_ends_at_its_last_whole_record() {
    let dir = Dir::new();
    let mut writer = Writer::new(&dir.0, Keep::default());
    writer.append(Stream::Out, b"whole");
    let path = dir.0.join("log.0");
    let before = fs::metadata(&path).unwrap().len();
    writer.append(Stream::Err, b"torn");
    let bytes = fs::read(&path).unwrap();
    for length in before as usize..bytes.len() {
        fs::write(&path, &bytes[..length]).unwrap();
        assert_eq!(all(&dir.0), (0, "whole".into()), "{length}");
    }
    fs::write(&path, &bytes).unwrap();
    assert_eq!(all(&dir.0), (0, "wholetorn".into()));
    let mut bad = bytes;
    bad[before as usize] = 9;
    fs::write(&path, &bad).unwrap();
    let mut reader = Reader::new(&dir.0);
    assert!(reader.next_piece().unwrap().is_some());
    assert!(reader.next_piece().is_err(), "damage is no end");
}

/// What the disk does not take is counted, and later output is kept again.
#[test]
fn a_full_disk_drops_output() {
    let dir = Dir::new();
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=256k", "cleave"])
        .arg(&dir.0)
        .status();
    if !mount.is_ok_and(|status| status.success()) {
        println!("skipped: a small file system can't be mounted here");
        return;
    }
    let filler = dir.0.join("filler");
    fs::write(&filler, vec![0; 100 << 10]).unwrap();
    let mut writer = Writer::new(&dir.0, Keep::default());
    let mut follower = Reader::new(&dir.0);
    let (mut seen, mut missed, mut written) = (0, 0, 0);
    for number in 0..400 {
        if number == 300 {
            fs::remove_file(&filler).unwrap();
        }
        let line = format!("{number:999}\n");
        writer.append(Stream::Out, line.as_bytes());
        written += 1_000;
        let (gap, text) = read(&mut follower);
        (seen, missed) = (seen + text.len() as u64, missed + gap);
        assert!(seen + missed <= written);
    }
    writer.append(Stream::Out, &[]);
    let (gap, text) = all(&dir.0);
    let unmounted = Command::new("umount").arg("-l").arg(&dir.0).status();
    assert!(unmounted.unwrap().success());
    assert!(gap > 0);
    let end = text.lines().last().unwrap().trim().parse::<u64>().unwrap();
    assert!(end >= 300, "kept again");
    let first_dropped = text
        .lines()
        .enumerate()
        .find(|(at, line)| line.trim() != at.to_string());
    assert!(first_dropped.is_some());
    assert_eq!(
        (seen, missed),
        (text.len() as u64, gap),
        "a follower sees the same"
    );
}

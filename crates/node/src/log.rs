//! The output of an attempt: records in files that are rotated, by one writer, for many readers.
//!
//! ```text
//! u8: kind     0: the position of what follows in all output, 1: standard output, 2: error
//! u64: when    milliseconds since 1970, little endian as all numbers
//! u32: length
//! payload      of a position: u64
//! ```
//!
//! Every file begins with a position, and so does whatever comes after bytes that could not be
//! written. A reader that is elsewhere than a position says knows how much it missed.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// Bytes of one record at most.
pub const RECORD: usize = 64 << 10;
const HEAD: usize = 13;

/// Which stream bytes belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stream {
    /// Standard output, or the terminal.
    Out = 1,
    /// Standard error.
    Err = 2,
}

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// Bytes of one file, about.
    pub file: u64,
    /// Files.
    pub files: u64,
}

impl Default for Keep {
    fn default() -> Self {
        Self {
            file: 10 << 20,
            files: 5,
        }
    }
}

/// Writes the output of one attempt.
#[derive(Debug)]
pub struct Writer {
    dir: PathBuf,
    keep: Keep,
    file: Option<File>,
    number: u64,
    /// Bytes in the file.
    length: u64,
    /// Bytes of output so far, and as far as a reader of the files can tell.
    position: u64,
    written: u64,
}

impl Writer {
    /// Begins the output of an attempt in its home.
    pub fn new(dir: &Path, keep: Keep) -> Self {
        Self {
            dir: dir.into(),
            keep,
            file: None,
            number: 0,
            length: 0,
            position: 0,
            written: 0,
        }
    }

    /// Writes at most [`RECORD`] bytes. What the disk does not take is left out, and a reader will
    /// see how much.
    pub fn append(&mut self, stream: Stream, bytes: &[u8]) {
        let before = self.position;
        self.position += bytes.len() as u64;
        if self.try_append(stream, bytes, before).is_ok() {
            self.written = self.position;
        } else if let Some(file) = &self.file {
            // Half a record must not stay: a reader would take what follows for the rest of it.
            if file.set_len(self.length).is_err() {
                self.file = None;
                self.number += 1;
            }
        }
    }

    fn try_append(&mut self, stream: Stream, bytes: &[u8], before: u64) -> io::Result<()> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now_ms = now.unwrap_or(Duration::ZERO).as_millis() as u64;
        let size = (HEAD + bytes.len()) as u64;
        if self.file.is_some() && self.length + size > self.keep.file {
            self.file = None;
            self.number += 1;
        }
        let mut text = Vec::with_capacity(bytes.len() + 3 * HEAD);
        let file = match &mut self.file {
            Some(file) => {
                if self.written != before {
                    record(&mut text, 0, now_ms, &before.to_le_bytes());
                }
                file
            }
            none => {
                record(&mut text, 0, now_ms, &before.to_le_bytes());
                let mut options = OpenOptions::new();
                options.append(true).create(true).mode(0o600);
                let file = options.open(path(&self.dir, self.number))?;
                self.length = 0;
                if let Some(old) = self.number.checked_sub(self.keep.files) {
                    // Already gone where the agent made room.
                    let _ = fs::remove_file(path(&self.dir, old));
                }
                none.insert(file)
            }
        };
        record(&mut text, stream as u8, now_ms, bytes);
        file.write_all(&text)?;
        self.length += text.len() as u64;
        Ok(())
    }
}

fn record(to: &mut Vec<u8>, kind: u8, now_ms: u64, payload: &[u8]) {
    to.push(kind);
    to.extend(now_ms.to_le_bytes());
    to.extend((payload.len() as u32).to_le_bytes());
    to.extend(payload);
}

fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("log.{number}"))
}

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes of a stream.
    Bytes(Stream, Vec<u8>),
    /// So many bytes that are not kept.
    Gap(u64),
}

/// Reads the output of one attempt from its beginning, while or after it is written.
#[derive(Debug)]
pub struct Reader {
    dir: PathBuf,
    file: Option<(u64, File)>,
    /// Where in the file the first byte of `ahead` is.
    offset: u64,
    ahead: Vec<u8>,
    /// How much of `ahead` is used up.
    used: usize,
    position: u64,
}

impl Reader {
    /// Reads what is in this home.
    pub fn new(dir: &Path) -> Self {
        Self {
            dir: dir.into(),
            file: None,
            offset: 0,
            ahead: Vec::new(),
            used: 0,
            position: 0,
        }
    }

    /// The next piece; `None` if there is no more now. A torn record is none.
    ///
    /// # Errors
    /// The files can't be read.
    pub fn next_piece(&mut self) -> io::Result<Option<Piece>> {
        loop {
            let Some((kind, payload)) = self.record()? else {
                // The writer is done with a file before there is a next one, so what this file
                // still has is looked for once more, after the next one was seen.
                let Some(next) = self.next_file()? else {
                    return Ok(None);
                };
                if let Some(found) = self.record()? {
                    return Ok(self.piece(found.0, found.1));
                }
                match File::open(path(&self.dir, next)) {
                    Ok(file) => self.file = Some((next, file)),
                    // Dropped this very moment.
                    Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                    Err(e) => return Err(e),
                }
                (self.offset, self.used) = (0, 0);
                self.ahead.clear();
                continue;
            };
            if let Some(piece) = self.piece(kind, payload) {
                return Ok(Some(piece));
            }
        }
    }

    fn piece(&mut self, kind: u8, payload: Vec<u8>) -> Option<Piece> {
        let stream = match kind {
            1 => Stream::Out,
            2 => Stream::Err,
            _ => {
                let now = u64::from_le_bytes(payload.try_into().ok()?);
                let missed = now.saturating_sub(self.position);
                self.position = now.max(self.position);
                return (missed > 0).then_some(Piece::Gap(missed));
            }
        };
        self.position += payload.len() as u64;
        Some(Piece::Bytes(stream, payload))
    }

    /// The next whole record of the present file.
    fn record(&mut self) -> io::Result<Option<(u8, Vec<u8>)>> {
        let Some((_, file)) = &self.file else {
            return Ok(None);
        };
        loop {
            let rest = &self.ahead[self.used..];
            if let Some(head) = rest.first_chunk::<HEAD>() {
                let length = u32::from_le_bytes([head[9], head[10], head[11], head[12]]) as usize;
                if length > RECORD || head[0] > 2 {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "the kept output is damaged",
                    ));
                }
                if let Some(payload) = rest.get(HEAD..HEAD + length) {
                    self.used += HEAD + length;
                    return Ok(Some((head[0], payload.to_vec())));
                }
            }
            self.offset += self.used as u64;
            self.ahead.drain(..self.used);
            self.used = 0;
            let have = self.ahead.len();
            self.ahead.resize(have + RECORD + HEAD, 0);
            let more = file.read_at(&mut self.ahead[have..], self.offset + have as u64);
            self.ahead.truncate(have + *more.as_ref().unwrap_or(&0));
            if more? == 0 {
                // A half record may be taken back by its writer.
                self.ahead.clear();
                return Ok(None);
            }
        }
    }

    fn next_file(&self) -> io::Result<Option<u64>> {
        let present = self.file.as_ref().map(|(number, _)| *number);
        let number = |entry: io::Result<fs::DirEntry>| -> Option<u64> {
            let name = entry.ok()?.file_name();
            name.to_str()?.strip_prefix("log.")?.parse().ok()
        };
        let numbers = fs::read_dir(&self.dir)?.filter_map(number);
        Ok(numbers.filter(|n| present.is_none_or(|at| *n > at)).min())
    }
}

/// A reader that leaves out all but the last `lines` lines of what there is. A last line without
/// its end counts. With the reader comes the first piece.
///
/// # Errors
/// The files can't be read.
pub fn tail(dir: &Path, lines: u64) -> io::Result<(Reader, Option<Piece>)> {
    let mut reader = Reader::new(dir);
    let (mut ends, mut open) = (0_u64, false);
    while let Some(piece) = reader.next_piece()? {
        if let Piece::Bytes(_, bytes) = piece {
            ends += count(&bytes);
            open = bytes.last() != Some(&b'\n');
        }
    }
    let mut skip = (ends + u64::from(open)).saturating_sub(lines);
    if lines == 0 {
        return Ok((reader, None));
    }
    let mut reader = Reader::new(dir);
    while skip > 0 {
        let Some(piece) = reader.next_piece()? else {
            break;
        };
        let Piece::Bytes(stream, bytes) = piece else {
            continue;
        };
        let here = count(&bytes);
        if here < skip {
            skip -= here;
            continue;
        }
        let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let at = ends.map(|(at, _)| at + 1).nth(skip as usize - 1);
        let rest = bytes[at.unwrap_or(0)..].to_vec();
        return Ok((reader, Some(Piece::Bytes(stream, rest))));
    }
    Ok((reader, None))
}

fn count(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

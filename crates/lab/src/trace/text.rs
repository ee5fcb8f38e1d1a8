//! A file as text: read, decompressed by its magic bytes, bounded and checked.

use std::io::Read;
use std::path::Path;

use super::TraceError;

/// Most text one file may hold after decompression: 512 MiB, a million jobs several times over.
pub const MAX_TEXT_BYTES: usize = 512 << 20;

/// Longest line: 64 KiB. A trace's row has a few hundred bytes; longer ones are not a trace.
pub const MAX_LINE_BYTES: usize = 64 << 10;

const GZIP: &[u8] = &[0x1F, 0x8B];
const ZSTD: &[u8] = &[0x28, 0xB5, 0x2F, 0xFD];
const UTF8_MARK: &str = "\u{FEFF}";

/// The text of one file and the name to call it by in errors.
#[derive(Clone, Debug)]
pub struct Text {
    pub(super) file: String,
    pub(super) text: String,
}

impl Text {
    /// Reads a plain, gzip or zstd file; which one is told by its first bytes, never its name.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        let file = path.as_ref().display().to_string();
        let io = |source| TraceError::Read {
            file: file.clone(),
            source,
        };
        let opened = std::fs::File::open(&path).map_err(io)?;
        let mut bytes = Vec::new();
        opened
            .take(MAX_TEXT_BYTES as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(io)?;
        Self::decode(&file, &bytes)
    }

    /// The same from memory; `file` is what errors call it.
    pub fn decode(file: &str, bytes: &[u8]) -> Result<Self, TraceError> {
        Self::decode_within(file, bytes, MAX_TEXT_BYTES)
    }

    fn decode_within(file: &str, bytes: &[u8], limit: usize) -> Result<Self, TraceError> {
        let damaged = |format| {
            move |reason: String| TraceError::Compressed {
                file: file.to_owned(),
                format,
                reason,
            }
        };
        let plain = if bytes.starts_with(GZIP) {
            gunzip(bytes, limit).map_err(damaged("gzip"))?
        } else if bytes.starts_with(ZSTD) {
            unzstd(bytes, limit).map_err(damaged("zstd"))?
        } else {
            bytes.to_vec()
        };
        if plain.len() > limit {
            return Err(TraceError::TooLarge {
                file: file.to_owned(),
                limit_mib: limit >> 20,
            });
        }
        if let Some((index, _)) = plain
            .split(|&b| b == b'\n')
            .enumerate()
            .find(|(_, line)| line.len() > MAX_LINE_BYTES)
        {
            return Err(TraceError::LineTooLong {
                file: file.to_owned(),
                line: index as u64 + 1,
                limit_bytes: MAX_LINE_BYTES,
            });
        }
        let mut text = String::from_utf8(plain).map_err(|wrong| {
            let valid = &wrong.as_bytes()[..wrong.utf8_error().valid_up_to()];
            TraceError::NotUtf8 {
                file: file.to_owned(),
                line: valid.iter().filter(|&&b| b == b'\n').count() as u64 + 1,
            }
        })?;
        if text.starts_with(UTF8_MARK) {
            text.drain(..UTF8_MARK.len());
        }
        Ok(Self {
            file: file.to_owned(),
            text,
        })
    }
}

/// At most `limit + 1` bytes, so that the caller can tell "too large" from "just fits".
fn gunzip(bytes: &[u8], limit: usize) -> Result<Vec<u8>, String> {
    let mut plain = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes)
        .take(limit as u64 + 1)
        .read_to_end(&mut plain)
        .map_err(|e| e.to_string())?;
    Ok(plain)
}

/// As [`gunzip`]. The decoder handles one frame; a stream may hold several and skippable ones.
fn unzstd(bytes: &[u8], limit: usize) -> Result<Vec<u8>, String> {
    use ruzstd::decoding::StreamingDecoder;
    use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};

    let mut rest = bytes;
    let mut plain = Vec::new();
    while !rest.is_empty() && plain.len() <= limit {
        let room = (limit + 1 - plain.len()) as u64;
        match StreamingDecoder::new(&mut rest) {
            Ok(frame) => {
                let room = &mut frame.take(room);
                room.read_to_end(&mut plain).map_err(|e| e.to_string())?;
            }
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => {
                rest = rest
                    .get(length as usize..)
                    .ok_or("it ends inside a skippable frame")?;
            }
            Err(other) => return Err(other.to_string()),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(text).expect("memory does not fail");
        out.finish().expect("memory does not fail")
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest)
    }

    #[test]
    fn compression_is_told_by_its_bytes() {
        let text = b"a,b\n1,2\n".as_slice();
        let twice = [text, text].concat();
        for (what, bytes, expected) in [
            ("plain", text.to_vec(), text),
            ("gzip", gzip(text), text),
            (
                "two gzip members",
                [gzip(text), gzip(text)].concat(),
                &twice,
            ),
            ("zstd", zstd(text), text),
            ("two zstd frames", [zstd(text), zstd(text)].concat(), &twice),
            (
                "zstd around a skippable frame",
                [
                    &zstd(text)[..],
                    b"\x50\x2A\x4D\x18\x03\0\0\0xyz",
                    &zstd(text),
                ]
                .concat(),
                &twice,
            ),
            ("a byte order mark", [b"\xEF\xBB\xBF", text].concat(), text),
        ] {
            let read = Text::decode("list.csv", &bytes).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(read.text.as_bytes(), expected, "{what}");
        }
    }

    #[test]
    fn what_is_not_a_trace() {
        let bomb = vec![b'\n'; 2 << 20];
        let long = [b"a\n".to_vec(), vec![b'x'; MAX_LINE_BYTES + 1]].concat();
        let mut cut = gzip(b"a,b\n1,2\n");
        cut.truncate(cut.len() - 9);
        let mut torn = zstd(&b"some text\n".repeat(99));
        torn.truncate(torn.len() / 2);
        for (bytes, message) in [
            (gzip(&bomb), "f: more than 1 MiB of text: split"),
            (zstd(&bomb), "f: more than 1 MiB of text: split"),
            (bomb, "f: more than 1 MiB of text: split"),
            (long, "f:2: longer than 65536 bytes"),
            (b"a\nb\n\xFF".to_vec(), "f:3: not UTF-8"),
            (cut, "f: not a whole gzip stream"),
            (torn, "f: not a whole zstd stream"),
            (b"\x28\xB5\x2F\xFD".to_vec(), "f: not a whole zstd stream"),
        ] {
            let said = match Text::decode_within("f", &bytes, 1 << 20) {
                Ok(read) => panic!("{message}: read {} bytes", read.text.len()),
                Err(e) => e.to_string(),
            };
            assert!(said.starts_with(message), "{said}");
        }
    }

    proptest! {
        #[test]
        fn damage_never_panics(
            text in proptest::collection::vec(any::<u8>(), 0..600),
            damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            keep in any::<prop::sample::Index>(),
        ) {
            let noise = |mut bytes: Vec<u8>| {
                for (at, to) in &damage {
                    let at = at.index(bytes.len());
                    bytes[at] = *to;
                }
                bytes.truncate(keep.index(bytes.len()) + 1);
                bytes
            };
            for bytes in [gzip(&text), zstd(&text), zstd(&text.repeat(40))] {
                let _ = Text::decode_within("f", &noise(bytes), 1 << 16);
            }
            for magic in [GZIP, ZSTD] {
                let _ = Text::decode_within("f", &[magic, &text].concat(), 1 << 16);
            }
        }
    }
}

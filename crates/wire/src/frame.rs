//! Frames: a length, a kind, and so many bytes.
//!
//! ```text
//! u32 little endian: bytes that follow, the kind among them
//! u8: kind
//! payload
//! ```

use serde::{Serialize, de::DeserializeOwned};
use std::{
    fmt,
    io::{self, Read, Write},
};

/// Bytes after the length at most; a longer frame ends the connection.
pub const LONGEST: usize = 16 << 20;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// One JSON message of the type that this side of the connection sends.
    Message = 0,
    /// Bytes of a worker's standard output, or of its terminal.
    Out = 1,
    /// Bytes of a worker's standard error.
    Err = 2,
    /// Bytes for a worker's standard input.
    In = 3,
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it carries.
    pub kind: Kind,
    /// The bytes.
    pub payload: Vec<u8>,
}

/// Why bytes are no frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadFrame {
    /// No kind has this number.
    Kind(u8),
    /// Longer than [`LONGEST`], or without a kind.
    Length(u32),
    /// Not the message that is expected here.
    Message(String),
}

impl fmt::Display for BadFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(kind) => write!(
                f,
                "frame of unknown kind {kind}: is the peer of another release?"
            ),
            Self::Length(length) => {
                write!(f, "frame of {length} bytes: 1 to {LONGEST} are allowed")
            }
            Self::Message(why) => write!(f, "message that can't be understood: {why}"),
        }
    }
}

impl std::error::Error for BadFrame {}

impl From<BadFrame> for io::Error {
    fn from(bad: BadFrame) -> Self {
        Self::new(io::ErrorKind::InvalidData, bad)
    }
}

impl Kind {
    fn read(number: u8) -> Result<Self, BadFrame> {
        let all = [Self::Message, Self::Out, Self::Err, Self::In];
        let found = all.into_iter().find(|kind| *kind as u8 == number);
        found.ok_or(BadFrame::Kind(number))
    }
}

impl Frame {
    /// A message.
    pub fn message(message: &impl Serialize) -> Self {
        let payload = serde_json::to_vec(message).expect("messages are plain data with text keys");
        Self {
            kind: Kind::Message,
            payload,
        }
    }

    /// The message that a frame carries.
    ///
    /// # Errors
    /// It carries something else, or another type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, BadFrame> {
        if self.kind != Kind::Message {
            return Err(BadFrame::Message("bytes came in its place".into()));
        }
        serde_json::from_slice(&self.payload).map_err(|e| BadFrame::Message(e.to_string()))
    }

    /// The frame as it goes over the wire.
    ///
    /// # Panics
    /// The payload is too long: a bug of the sender.
    pub fn bytes(&self) -> Vec<u8> {
        let length = self.payload.len() + 1;
        assert!(length <= LONGEST, "a frame of {length} bytes");
        let mut bytes = Vec::with_capacity(length + 4);
        bytes.extend((length as u32).to_le_bytes());
        bytes.push(self.kind as u8);
        bytes.extend(&self.payload);
        bytes
    }

    /// The first whole frame of `bytes` and how many of them it took; `None` while it is not
    /// there in full.
    ///
    /// # Errors
    /// What is there is no frame and never will be.
    pub fn split(bytes: &[u8]) -> Result<Option<(Self, usize)>, BadFrame> {
        let Some((head, rest)) = bytes.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*head);
        if length == 0 || length as usize > LONGEST {
            return Err(BadFrame::Length(length));
        }
        let kind = rest.first().copied().map(Kind::read).transpose()?;
        let (Some(kind), Some(payload)) = (kind, rest.get(1..length as usize)) else {
            return Ok(None);
        };
        let payload = payload.to_vec();
        Ok(Some((Self { kind, payload }, length as usize + 4)))
    }
}

/// Writes one frame.
///
/// # Errors
/// The peer is gone.
pub fn write(to: &mut impl Write, frame: &Frame) -> io::Result<()> {
    to.write_all(&frame.bytes())?;
    to.flush()
}

/// Reads one frame; `None` at the end of the stream between two frames.
///
/// # Errors
/// The peer is gone in the middle of one, or sends something else.
pub fn read(from: &mut impl Read) -> io::Result<Option<Frame>> {
    let mut head = [0; 4];
    let mut have = 0;
    while have < head.len() {
        match from.read(&mut head[have..]) {
            Ok(0) if have == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(more) => have += more,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    let length = u32::from_le_bytes(head);
    if length == 0 || length as usize > LONGEST {
        return Err(BadFrame::Length(length).into());
    }
    let mut kind = [0];
    from.read_exact(&mut kind)?;
    let kind = Kind::read(kind[0])?;
    // Memory grows with what really comes, not with what was announced.
    let mut payload = Vec::new();
    let left = u64::from(length) - 1;
    if from.by_ref().take(left).read_to_end(&mut payload)? as u64 != left {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(Frame { kind, payload }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    proptest! {
        /// What is written is read, by either reader, however it is cut; what is left waits.
        #[test]
        fn frames_come_back(
            payloads in vec((0_u8..4, vec(any::<u8>(), 0..50)), 0..8),
            cut in 0_usize..300,
        ) {
            let frames: Vec<Frame> = payloads
                .into_iter()
                .map(|(kind, payload)| Frame { kind: Kind::read(kind).unwrap(), payload })
                .collect();
            let bytes: Vec<u8> = frames.iter().flat_map(Frame::bytes).collect();
            let mut from = &bytes[..];
            let mut at = 0;
            for frame in &frames {
                let back = read(&mut from).unwrap();
                prop_assert_eq!(back.as_ref(), Some(frame));
                let (split, taken) = Frame::split(&bytes[at..]).unwrap().unwrap();
                prop_assert_eq!(&split, frame);
                at += taken;
            }
            prop_assert_eq!(read(&mut from).unwrap(), None);
            let short = &bytes[..cut.min(bytes.len())];
            let mut whole = 0;
            while let Some((_, taken)) = Frame::split(&short[whole..]).unwrap() {
                whole += taken;
            }
            prop_assert!(bytes[..whole].len() <= short.len());
        }

        /// Anything at all ends in a frame, a wait or an error.
        #[test]
        fn noise_is_refused(bytes in vec(any::<u8>(), 0..64)) {
            let _ = Frame::split(&bytes);
            let mut from = &bytes[..];
            while let Ok(Some(_)) = read(&mut from) {}
        }
    }

    #[test]
    fn what_is_no_frame_is_said_to_be_none() {
        let cases: [(&[u8], BadFrame); 3] = [
            (&[0, 0, 0, 0], BadFrame::Length(0)),
            (&[255, 255, 255, 255, 0], BadFrame::Length(u32::MAX)),
            (&[1, 0, 0, 0, 9], BadFrame::Kind(9)),
        ];
        for (bytes, why) in cases {
            assert_eq!(Frame::split(bytes), Err(why.clone()));
            let error = read(&mut &bytes[..]).unwrap_err();
            assert_eq!(error.to_string(), why.to_string());
        }
        let cut = read(&mut &[5_u8, 0, 0, 0, 1, 2][..]).unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
    }
}

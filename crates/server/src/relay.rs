//! Streams between people and agents, passed on as they are.

use axum::body::{Body, Bytes};
use cleave_device::table::AttemptId;
use cleave_model::WorkerId;
use cleave_wire::{
    agent::{Logs, Open},
    frame::{BadFrame, Frame, Kind},
};
use http_body_util::channel::Channel;
use std::{convert::Infallible, io, path::PathBuf};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional},
    net::UnixStream,
};

/// An attempt and where its agent is.
#[derive(Clone, Debug)]
pub struct Target {
    pub agent: PathBuf,
    pub worker: WorkerId,
    pub attempt: u32,
}

impl Target {
    /// The attempt's name.
    pub fn id(&self) -> AttemptId {
        AttemptId {
            worker: self.worker.clone(),
            attempt: self.attempt,
        }
    }

    async fn open(&self, first: &Open) -> Result<UnixStream, String> {
        let talk = async {
            let mut stream = UnixStream::connect(&self.agent).await?;
            stream.write_all(&Frame::message(first).bytes()).await?;
            Ok(stream)
        };
        talk.await.map_err(|why: io::Error| {
            format!("its agent does not answer ({why}): it is started again, try in a moment")
        })
    }
}

/// The output of an attempt.
///
/// # Errors
/// Its agent can't be reached.
pub async fn logs(target: &Target, logs: Logs) -> Result<UnixStream, String> {
    target.open(&Open::Logs(logs)).await
}

/// A terminal for an attempt.
///
/// # Errors
/// Its agent can't be reached.
pub async fn attach(target: &Target) -> Result<UnixStream, String> {
    target.open(&Open::Attach(target.id())).await
}

/// Passes bytes on in both directions until either side is gone.
pub async fn both_ways(mut person: impl AsyncRead + AsyncWrite + Unpin, mut agent: UnixStream) {
    let _ = copy_bidirectional(&mut person, &mut agent).await;
}

/// The frames as they come.
pub fn raw(stream: UnixStream) -> Body {
    pump(stream, |bytes| {
        let all = std::mem::take(bytes);
        Ok(all)
    })
}

/// The bytes of the output, without what is said about them.
pub fn text(stream: UnixStream) -> Body {
    pump(stream, |bytes| {
        let mut text = Vec::new();
        let mut taken = 0;
        while let Some((frame, length)) = Frame::split(&bytes[taken..])? {
            taken += length;
            if matches!(frame.kind, Kind::Out | Kind::Err) {
                text.extend(frame.payload);
            }
        }
        bytes.drain(..taken);
        Ok(text)
    })
}

/// Reads until the agent has said everything or the reader is gone; what `ready` takes off the
/// front of the bytes so far goes on.
fn pump(
    mut stream: UnixStream,
    ready: impl Fn(&mut Vec<u8>) -> Result<Vec<u8>, BadFrame> + Send + 'static,
) -> Body {
    let (mut to, body) = Channel::<Bytes, Infallible>::new(4);
    tokio::spawn(async move {
        let mut bytes = Vec::new();
        while let Ok(1..) = stream.read_buf(&mut bytes).await {
            let Ok(piece) = ready(&mut bytes) else { break };
            if !piece.is_empty() && to.send_data(piece.into()).await.is_err() {
                break;
            }
        }
    });
    Body::new(body)
}

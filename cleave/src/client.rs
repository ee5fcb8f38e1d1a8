//! The client of a server's API: requests over its Unix socket, one connection each.

use cleave_server::api::{self, Detail, Problem, Row};
use cleave_wire::{
    frame::Frame,
    stream::{Down, Up},
};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    client::conn::http1,
    header,
    upgrade::Upgraded,
};
use hyper_util::rt::TokioIo;
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt, io, path::PathBuf, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf},
    net::UnixStream,
};

/// Bytes of an answer at most.
const LARGEST: usize = 256 << 20;
/// Bytes of a request's path at most, less than where HTTP libraries end.
const LONGEST_PATH: usize = 60_000;
/// Between two looks at a job that has too many places to be waited for.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a server that went away is looked for again.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Why there is no answer.
#[derive(Debug)]
pub enum Failure {
    /// Nobody listens there.
    Absent(PathBuf, io::Error),
    /// The connection broke before the answer was whole.
    Cut(PathBuf),
    /// What came is no answer of this API.
    Strange(String),
    /// The server refused, with its status and its reason.
    Refused(StatusCode, Problem),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent(path, error) if error.kind() == io::ErrorKind::PermissionDenied => write!(
                f,
                "{}: permission denied; another user's `cleave up` answers there. \
                 Start your own, or name another socket with --socket",
                path.display()
            ),
            Self::Absent(path, _) => write!(
                f,
                "no `cleave up` answers at {}\n\
                 start one in another terminal: cleave up --sim 4xA100-80GB",
                path.display()
            ),
            Self::Cut(path) => write!(
                f,
                "{}: the server went away before it answered; try again",
                path.display()
            ),
            Self::Strange(why) => write!(
                f,
                "the answer can't be understood ({why}): is the server of another release?"
            ),
            Self::Refused(_, problem) => f.write_str(&problem.error),
        }
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// Whether the server may be there again in a moment.
    pub fn passes(&self) -> bool {
        match self {
            Self::Absent(_, error) => error.kind() != io::ErrorKind::PermissionDenied,
            Self::Cut(_) => true,
            Self::Refused(status, _) => *status == StatusCode::SERVICE_UNAVAILABLE,
            Self::Strange(_) => false,
        }
    }

    /// Whether there is no such thing.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Refused(StatusCode::NOT_FOUND, _))
    }
}

/// A server, by its socket.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
}

impl Client {
    /// The server at this socket.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self {
            socket: socket.into(),
        }
    }

    /// What is at a path.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let request = request(Method::GET, path, &[], Bytes::new())?;
        self.parsed(self.send(request).await?).await
    }

    /// Posts a message and takes the answer to it.
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        message: &impl Serialize,
    ) -> Result<T, Failure> {
        let body = serde_json::to_vec(message).map_err(|e| Failure::Strange(e.to_string()))?;
        let json = [(header::CONTENT_TYPE, "application/json")];
        let request = request(Method::POST, path, &json, body.into())?;
        self.parsed(self.send(request).await?).await
    }

    /// A job in full.
    pub async fn job(&self, name: &str) -> Result<Detail, Failure> {
        self.get(&format!("/v1/jobs/{}", escape(name))).await
    }

    /// A job, as soon as it is not what was seen of it, or after a while.
    pub async fn wait(&self, name: &str, seen: Option<&Row>) -> Result<Row, Failure> {
        let path = format!("/v1/jobs/{}/wait", escape(name));
        let Some(row) = seen else {
            return self.get(&path).await;
        };
        let json = serde_json::to_string(row).map_err(|e| Failure::Strange(e.to_string()))?;
        let whole = format!("{path}?seen={}", escape(&json));
        if whole.len() > LONGEST_PATH {
            tokio::time::sleep(PAUSE).await;
            return self.get(&path).await;
        }
        self.get(&whole).await
    }

    /// A stream of frames.
    pub async fn frames(&self, path: &str) -> Result<Frames, Failure> {
        let accept = [(header::ACCEPT, api::FRAMES)];
        let response = self
            .send(request(Method::GET, path, &accept, Bytes::new())?)
            .await?;
        let body = self.sound(response).await?.into_body();
        Ok(Frames {
            from: Source::Body(body),
            buffer: Vec::new(),
        })
    }

    /// Both ends of a stream of frames.
    pub async fn attach(&self, path: &str) -> Result<(Frames, Feed), Failure> {
        let headers = [
            (header::CONNECTION, "upgrade"),
            (header::UPGRADE, api::UPGRADE),
        ];
        let response = self
            .send(request(Method::GET, path, &headers, Bytes::new())?)
            .await?;
        let response = self.sound(response).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(Failure::Strange(format!(
                "{} in place of an upgrade",
                response.status()
            )));
        }
        let upgraded = hyper::upgrade::on(response).await;
        let upgraded = upgraded.map_err(|_| Failure::Cut(self.socket.clone()))?;
        let (read, write) = tokio::io::split(TokioIo::new(upgraded));
        let frames = Frames {
            from: Source::Upgraded(read),
            buffer: Vec::new(),
        };
        Ok((frames, Feed(write)))
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Failure> {
        let stream = UnixStream::connect(&self.socket).await;
        let stream = stream.map_err(|error| Failure::Absent(self.socket.clone(), error))?;
        let cut = |_| Failure::Cut(self.socket.clone());
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(cut)?;
        tokio::spawn(connection.with_upgrades());
        sender.send_request(request).await.map_err(cut)
    }

    /// The response, if it is no refusal.
    async fn sound(&self, response: Response<Incoming>) -> Result<Response<Incoming>, Failure> {
        let status = response.status();
        if !status.is_client_error() && !status.is_server_error() {
            return Ok(response);
        }
        let body = self.body(response).await?;
        let problem = serde_json::from_slice(&body).unwrap_or_else(|_| Problem {
            error: match String::from_utf8_lossy(&body).trim() {
                "" => format!("the server answers {status}"),
                text => format!("the server answers {status}: {text:.200}"),
            },
            places: Vec::new(),
        });
        Err(Failure::Refused(status, problem))
    }

    async fn parsed<T: DeserializeOwned>(
        &self,
        response: Response<Incoming>,
    ) -> Result<T, Failure> {
        let body = self.body(self.sound(response).await?).await?;
        serde_json::from_slice(&body).map_err(|error| Failure::Strange(error.to_string()))
    }

    async fn body(&self, response: Response<Incoming>) -> Result<Bytes, Failure> {
        let whole = Limited::new(response.into_body(), LARGEST).collect().await;
        let whole = whole.map_err(|_| Failure::Cut(self.socket.clone()))?;
        Ok(whole.to_bytes())
    }
}

fn request(
    method: Method,
    path: &str,
    headers: &[(header::HeaderName, &str)],
    body: Bytes,
) -> Result<Request<Full<Bytes>>, Failure> {
    let mut request = Request::builder().method(method).uri(path);
    request = request.header(header::HOST, "cleave");
    for (name, value) in headers {
        request = request.header(name, *value);
    }
    let request = request.body(Full::new(body));
    request.map_err(|error| Failure::Strange(error.to_string()))
}

/// Text as a part of a URL.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte.into());
        } else {
            out += &format!("%{byte:02X}");
        }
    }
    out
}

enum Source {
    Body(Incoming),
    Upgraded(ReadHalf<TokioIo<Upgraded>>),
}

/// Frames that come from a worker.
pub struct Frames {
    from: Source,
    buffer: Vec<u8>,
}

/// One thing that comes from a worker.
#[derive(Debug)]
pub enum Piece {
    /// Bytes of its standard output or its terminal.
    Out(Vec<u8>),
    /// Bytes of its standard error.
    Err(Vec<u8>),
    /// A message.
    Down(Down),
}

impl Frames {
    /// The next piece; `None` when the stream is over, or cut.
    pub async fn next(&mut self) -> Result<Option<Piece>, Failure> {
        use cleave_wire::frame::Kind;
        let strange = |error: cleave_wire::frame::BadFrame| Failure::Strange(error.to_string());
        loop {
            let Some(frame) = self.whole().map_err(strange)? else {
                if self.more().await {
                    continue;
                }
                return Ok(None);
            };
            return Ok(Some(match frame.kind {
                Kind::Out => Piece::Out(frame.payload),
                Kind::Err => Piece::Err(frame.payload),
                Kind::Message => Piece::Down(frame.parse().map_err(strange)?),
                Kind::In => continue,
            }));
        }
    }

    fn whole(&mut self) -> Result<Option<Frame>, cleave_wire::frame::BadFrame> {
        Ok(Frame::split(&self.buffer)?.map(|(frame, taken)| {
            self.buffer.drain(..taken);
            frame
        }))
    }

    /// Waits for more bytes; false if there are none to come.
    async fn more(&mut self) -> bool {
        match &mut self.from {
            Source::Body(body) => {
                while let Some(Ok(part)) = body.frame().await {
                    if let Ok(data) = part.into_data() {
                        self.buffer.extend_from_slice(&data);
                        return true;
                    }
                }
                false
            }
            Source::Upgraded(read) => {
                matches!(read.read_buf(&mut self.buffer).await, Ok(n) if n > 0)
            }
        }
    }
}

/// The way to a worker's standard input or terminal.
pub struct Feed(WriteHalf<TokioIo<Upgraded>>);

impl Feed {
    /// Sends bytes.
    pub async fn bytes(&mut self, payload: Vec<u8>) -> io::Result<()> {
        let kind = cleave_wire::frame::Kind::In;
        self.frame(&Frame { kind, payload }).await
    }

    /// Sends a message.
    pub async fn message(&mut self, up: &Up) -> io::Result<()> {
        self.frame(&Frame::message(up)).await
    }

    async fn frame(&mut self, frame: &Frame) -> io::Result<()> {
        self.0.write_all(&frame.bytes()).await?;
        self.0.flush().await
    }
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn names_become_parts_of_urls() {
        for (text, url) in [
            ("sweep-3.0_x", "sweep-3.0_x"),
            ("team/a#1+b", "team%2Fa%231%2Bb"),
            ("ä?&=", "%C3%A4%3F%26%3D"),
        ] {
            assert_eq!(escape(text), url);
        }
    }
}

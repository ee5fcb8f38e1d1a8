//! The API over HTTP on a Unix socket. Every connection is of a user that the kernel names.

use crate::{
    api::{self, Cancellation, Cancelled, Problem, Row, Submission, Submitted},
    caller::Caller,
    core::Entry,
    relay, submit,
    view::{Heard, View},
};
use axum::{
    Extension, Json, Router,
    extract::{
        DefaultBodyLimit, FromRequest, Path, Query, Request, State, rejection::JsonRejection,
    },
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use cleave_model::Name;
use cleave_wire::agent::Logs;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, mpsc::Sender},
    time::Duration,
};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{Semaphore, oneshot, watch},
    time::timeout,
};

/// Bytes of a request's body at most.
const MOST_BODY: usize = 8 << 20;
/// A request that has not arrived in full by then is given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// Connections of one user at most.
const MOST_CONNECTIONS: usize = 128;
/// How long somebody may wait for a change before they must ask again.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Rows at most, if nobody says otherwise.
const ROWS: usize = 1_000_000;

/// What requests are answered with.
#[derive(Clone)]
pub struct Doors {
    pub core: Sender<Entry>,
    pub view: Sender<Heard>,
    pub seen: watch::Receiver<u64>,
}

/// A refusal: a status and a sentence.
struct Refused(StatusCode, Problem);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.0, Json(self.1)).into_response()
    }
}

fn refused(status: StatusCode, error: impl Into<String>) -> Refused {
    let error = error.into();
    let places = Vec::new();
    Refused(status, Problem { error, places })
}

fn gone() -> Refused {
    refused(
        StatusCode::SERVICE_UNAVAILABLE,
        "the server is stopping: try again",
    )
}

fn no_job(name: &str) -> Refused {
    let shown: String = name.chars().take(60).collect();
    let error = format!(
        "there is no job `{}`: `cleave ps -a` lists them all",
        shown.escape_debug()
    );
    refused(StatusCode::NOT_FOUND, error)
}

/// JSON in, with our words when it is none.
struct Parsed<T>(T);

impl<T, S> FromRequest<S> for Parsed<T>
where
    Json<T>: FromRequest<S, Rejection = JsonRejection>,
    S: Send + Sync,
{
    type Rejection = Refused;
    async fn from_request(request: Request, state: &S) -> Result<Self, Refused> {
        let length = request.headers().get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
        if length.is_some_and(|length: u64| length > MOST_BODY as u64) {
            let error = format!("more than {} MiB at once: submit in parts", MOST_BODY >> 20);
            return Err(refused(StatusCode::PAYLOAD_TOO_LARGE, error));
        }
        match timeout(PATIENCE, Json::from_request(request, state)).await {
            Ok(Ok(Json(value))) => Ok(Self(value)),
            Ok(Err(why)) => Err(refused(why.status(), why.body_text())),
            Err(_) => Err(refused(
                StatusCode::REQUEST_TIMEOUT,
                "the request came too slowly",
            )),
        }
    }
}

impl Doors {
    /// Asks the follower.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut View) -> T + Send + 'static,
    ) -> Result<T, Refused> {
        let (answer, reply) = oneshot::channel();
        let question = Box::new(move |view: &mut View| {
            // Who has gone away need not be answered.
            if !answer.is_closed() {
                drop(answer.send(question(view)));
            }
        });
        self.view
            .send(Heard::Question(question))
            .map_err(|_| gone())?;
        reply.await.map_err(|_| gone())
    }

    /// Asks the follower something that its store may fail to answer.
    async fn look<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut View) -> Result<T, rusqlite::Error> + Send + 'static,
    ) -> Result<T, Refused> {
        let answer = self.ask(question).await?;
        answer.map_err(|why| refused(StatusCode::INTERNAL_SERVER_ERROR, format!("store: {why}")))
    }
}

/// Serves until the process ends.
pub async fn serve(listener: UnixListener, doors: Doors) {
    let routes = Router::new()
        .route("/v1/status", get(status))
        .route("/v1/jobs", get(jobs).post(submit_jobs))
        .route("/v1/jobs/{name}", get(detail))
        .route("/v1/jobs/{name}/wait", get(wait))
        .route("/v1/jobs/{name}/logs", get(logs))
        .route("/v1/jobs/{name}/attach", get(attach))
        .route("/v1/cancel", post(cancel))
        .route("/v1/gpus", get(gpus))
        .fallback(|| async { refused(StatusCode::NOT_FOUND, "there is nothing at this path") })
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .with_state(doors);
    let seats = Arc::new(Mutex::new(BTreeMap::<u32, Arc<Semaphore>>::new()));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(connection(stream, routes.clone(), seats.clone()));
            }
            // Out of descriptors, most likely: others will close theirs.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn connection(
    stream: UnixStream,
    routes: Router,
    seats: Arc<Mutex<BTreeMap<u32, Arc<Semaphore>>>>,
) {
    let Ok(peer) = stream.peer_cred() else { return };
    let (uid, gid) = (peer.uid(), peer.gid());
    let seat = {
        let Ok(mut seats) = seats.lock() else { return };
        let free = seats
            .entry(uid)
            .or_insert_with(|| Arc::new(Semaphore::new(MOST_CONNECTIONS)));
        free.clone().try_acquire_owned()
    };
    // Too many of one user: they must close some.
    let Ok(_seat) = seat else { return };
    let Ok(caller) = tokio::task::spawn_blocking(move || Caller::of(uid, gid)).await else {
        return;
    };
    let routes = routes.layer(Extension(caller));
    let service = hyper_util::service::TowerToHyperService::new(routes);
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(hyper_util::rt::TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(hyper_util::rt::TokioIo::new(stream), service)
        .with_upgrades()
        .await;
}

async fn status(
    State(doors): State<Doors>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<api::Status>, Refused> {
    doors.ask(move |view| view.status(&caller)).await.map(Json)
}

async fn gpus(State(doors): State<Doors>) -> Result<Json<api::Fleet>, Refused> {
    doors.ask(|view| view.fleet()).await.map(Json)
}

#[derive(Deserialize)]
struct Which {
    #[serde(default)]
    all: bool,
    limit: Option<usize>,
}

async fn jobs(
    State(doors): State<Doors>,
    Query(which): Query<Which>,
) -> Result<Json<api::Jobs>, Refused> {
    let limit = which.limit.unwrap_or(ROWS);
    let over = match which.all {
        true => limit.min(10_000) as u32,
        false => 0,
    };
    doors
        .look(move |view| view.jobs(over, limit))
        .await
        .map(Json)
}

async fn detail(
    State(doors): State<Doors>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Result<Json<api::Detail>, Refused> {
    let asked = name.clone();
    let found = doors.look(move |view| view.detail(&asked, &caller)).await?;
    found.map(Json).ok_or_else(|| no_job(&name))
}

#[derive(Deserialize)]
struct Seen {
    /// A row as it was last seen, JSON.
    seen: Option<String>,
}

async fn wait(
    State(doors): State<Doors>,
    Path(name): Path<String>,
    Query(Seen { seen }): Query<Seen>,
) -> Result<Json<Row>, Refused> {
    let seen: Option<Row> = seen.and_then(|text| serde_json::from_str(&text).ok());
    let mut changes = doors.seen.clone();
    let until = tokio::time::Instant::now() + LONGEST_WAIT;
    loop {
        changes.mark_unchanged();
        let asked = name.clone();
        let row = doors.look(move |view| view.one(&asked)).await?;
        let row = row.ok_or_else(|| no_job(&name))?;
        if seen.as_ref() != Some(&row) {
            return Ok(Json(row));
        }
        match tokio::time::timeout_at(until, changes.changed()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(gone()),
            Err(_) => return Ok(Json(row)),
        }
    }
}

async fn submit_jobs(
    State(doors): State<Doors>,
    Extension(caller): Extension<Caller>,
    Parsed(submission): Parsed<Submission>,
) -> Result<Json<Submitted>, Refused> {
    let queues = doors.ask(|view| view.queues()).await?;
    let number = submission.number;
    let read = tokio::task::spawn_blocking(move || submit::read(&submission, &caller, &queues));
    let wanted = read.await.map_err(|_| gone())?;
    let wanted = wanted.map_err(|problem| Refused(StatusCode::BAD_REQUEST, problem))?;
    let (answer, reply) = oneshot::channel();
    let entry = Entry::Submit(wanted, number, answer);
    doors.core.send(entry).map_err(|_| gone())?;
    let names = reply.await.map_err(|_| gone())?;
    let names = names.map_err(|why| refused(StatusCode::CONFLICT, why))?;
    Ok(Json(Submitted {
        jobs: names.iter().map(Name::to_string).collect(),
    }))
}

async fn cancel(
    State(doors): State<Doors>,
    Extension(caller): Extension<Caller>,
    Parsed(wanted): Parsed<Cancellation>,
) -> Result<Json<Cancelled>, Refused> {
    let mut refusals = BTreeMap::new();
    let mut names = Vec::new();
    for text in wanted.jobs {
        match Name::new(&text) {
            Ok(name) => names.push(name),
            Err(why) => drop(refusals.insert(text, why.to_string())),
        }
    }
    let (answer, reply) = oneshot::channel();
    let entry = Entry::Cancel(caller, names.clone(), answer);
    doors.core.send(entry).map_err(|_| gone())?;
    let refused = reply.await.map_err(|_| gone())?.unwrap_or_default();
    let jobs = names.iter().filter(|name| !refused.contains_key(*name));
    let jobs = jobs.map(Name::to_string).collect();
    refusals.extend(
        refused
            .into_iter()
            .map(|(name, why)| (name.to_string(), why)),
    );
    Ok(Json(Cancelled {
        jobs,
        refused: refusals,
    }))
}

#[derive(Deserialize)]
struct Output {
    #[serde(default)]
    worker: u32,
    attempt: Option<u32>,
    tail: Option<u64>,
    #[serde(default)]
    follow: bool,
}

/// The attempt that somebody may look into: its id and its agent.
async fn attempt_of(
    doors: &Doors,
    caller: Caller,
    name: &str,
    worker: u32,
    attempt: Option<u32>,
) -> Result<relay::Target, Refused> {
    let asked = name.to_owned();
    let found = doors.look(move |view| {
        let Some((ticket, _, attempts)) = view.whose(&asked)? else {
            return Ok(None);
        };
        let mut fitting = attempts.into_iter().filter(|of| {
            of.worker == worker && attempt.is_none_or(|attempt| attempt == of.attempt)
        });
        let last = fitting.next_back();
        let agent = last.as_ref().and_then(|last| view.agent_of(&last.node));
        Ok(Some((ticket, last, agent)))
    });
    let (ticket, last, agent) = found.await?.ok_or_else(|| no_job(name))?;
    if !caller.may_touch(ticket.uid) {
        let error = format!(
            "`{name}` belongs to {}: its output is for them and for administrators",
            ticket.user
        );
        return Err(refused(StatusCode::FORBIDDEN, error));
    }
    let Some(last) = last else {
        let error = format!(
            "worker {worker} of `{name}` has no such attempt yet: `cleave why {name}` says more"
        );
        return Err(refused(StatusCode::CONFLICT, error));
    };
    let Some(agent) = agent else {
        let error = format!(
            "the agent of node {} is not known: start it again",
            last.node
        );
        return Err(refused(StatusCode::SERVICE_UNAVAILABLE, error));
    };
    let worker = Name::new(name).map(|workload| cleave_model::WorkerId {
        workload,
        index: worker,
    });
    let worker = worker.map_err(|_| no_job(name))?;
    Ok(relay::Target {
        agent,
        worker,
        attempt: last.attempt,
    })
}

async fn logs(
    State(doors): State<Doors>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Query(output): Query<Output>,
    headers: axum::http::HeaderMap,
) -> Result<Response, Refused> {
    let target = attempt_of(&doors, caller, &name, output.worker, output.attempt).await?;
    let wanted = Logs {
        id: target.id(),
        tail: output.tail,
        follow: output.follow,
    };
    let frames = headers
        .get(header::ACCEPT)
        .is_some_and(|accept| accept == api::FRAMES);
    let stream = relay::logs(&target, wanted).await;
    let stream = stream.map_err(|why| refused(StatusCode::SERVICE_UNAVAILABLE, why))?;
    let (kind, body) = match frames {
        true => (api::FRAMES, relay::raw(stream)),
        false => ("text/plain; charset=utf-8", relay::text(stream)),
    };
    Ok(([(header::CONTENT_TYPE, kind)], body).into_response())
}

async fn attach(
    State(doors): State<Doors>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Query(output): Query<Output>,
    mut request: Request,
) -> Result<Response, Refused> {
    let target = attempt_of(&doors, caller, &name, output.worker, output.attempt).await?;
    let wants = request.headers().get(header::UPGRADE);
    if wants.is_none_or(|wants| wants != api::UPGRADE) {
        let error = format!("attach needs `Upgrade: {}`", api::UPGRADE);
        return Err(refused(StatusCode::UPGRADE_REQUIRED, error));
    }
    let stream = relay::attach(&target).await;
    let stream = stream.map_err(|why| refused(StatusCode::SERVICE_UNAVAILABLE, why))?;
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        if let Ok(upgraded) = upgrade.await {
            relay::both_ways(hyper_util::rt::TokioIo::new(upgraded), stream).await;
        }
    });
    let headers = [
        (header::CONNECTION, "upgrade"),
        (header::UPGRADE, api::UPGRADE),
    ];
    Ok((StatusCode::SWITCHING_PROTOCOLS, headers).into_response())
}

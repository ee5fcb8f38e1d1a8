//! What people see of a state: jobs, reasons, GPUs.

use crate::{
    api::{Fleet, Gpu, Node, Part, Phase, Row},
    core::now,
    history::{self, Past},
    view::{Agent, Card, View, workload},
};
use cleave_engine::{
    inventory::{NodeBooks, NodeIx, Use, weight},
    state::{State, Work, Worker},
};
use cleave_model::{
    GPU, Name,
    ask::{self, Ask},
    board::Board,
    lease::{self, Lease, Slice},
    node::Health,
    verdict::{Dimension, Reason, Verdict},
    workload::{Class, Workload},
};
use std::collections::BTreeMap;

/// How far a job is that is not over.
pub fn phase(work: &Work) -> Phase {
    let held = || work.workers.iter().filter_map(Worker::lease);
    let any = |phase: lease::Phase| held().any(|lease| lease.phase == phase);
    let runs = any(lease::Phase::Running);
    let starts = any(lease::Phase::Promised) || any(lease::Phase::Preparing);
    if work.cancelled && held().next().is_some() {
        Phase::Ending
    } else if runs && !work.is_ailing() {
        Phase::Running
    } else if runs || starts {
        Phase::Starting
    } else if held().next().is_some() {
        Phase::Ending
    } else {
        Phase::Waiting
    }
}

/// A job that is not over.
pub fn row(state: &State, work: &Work, card: Option<&Card>) -> Row {
    let phase = phase(work);
    let held = || work.workers.iter().filter_map(Worker::lease);
    let running = held().filter(|lease| lease.phase == lease::Phase::Running);
    let reason = match state.verdict(work.name().as_str()) {
        None => "not looked at yet".into(),
        Some(Verdict::Placed) => String::new(),
        Some(verdict) => verdict.to_string(),
    };
    Row {
        id: card.map_or(0, |card| card.ticket.id),
        phase,
        running: running.count() as u32,
        places: held().map(|lease| place(state, lease)).collect(),
        reason: if phase == Phase::Running && work.missing() == 0 {
            String::new()
        } else {
            reason
        },
        started: card.and_then(|card| card.started),
        user: card.map_or_else(|| "?".into(), |card| card.ticket.user.clone()),
        ..of_spec(&work.spec)
    }
}

/// What a workload says of itself.
fn of_spec(spec: &Workload) -> Row {
    let class = match spec.class {
        Class::Serving => "serving",
        Class::Interactive => "interactive",
        Class::Training => "training",
        Class::Batch => "batch",
    };
    let asks: Vec<String> = spec.groups.iter().map(|group| wish(&group.ask)).collect();
    Row {
        id: 0,
        name: spec.name.to_string(),
        user: String::new(),
        queue: spec.queue.to_string(),
        class: class.into(),
        priority: spec.priority,
        phase: Phase::Waiting,
        workers: spec.workers(),
        running: 0,
        ask: asks.join(" + "),
        places: Vec::new(),
        reason: String::new(),
        submitted: spec.submitted,
        started: None,
        ended: None,
        exit: None,
    }
}

/// A job that is over, or was when it was last written down.
pub fn past(past: &Past) -> Row {
    let (submitted, started, ended) = past.times;
    let spec = workload(&past.workload);
    let phase = match (past.cancelled, past.exit) {
        (true, _) => Phase::Cancelled,
        (false, Some(0)) => Phase::Done,
        (false, _) => Phase::Failed,
    };
    let blank = || Row {
        name: past.name.clone(),
        ..of_spec(&Workload {
            name: Name::new("x").expect("a letter is a name"),
            queue: Name::new("x").expect("a letter is a name"),
            class: Class::Batch,
            priority: 0,
            groups: Vec::new(),
            submitted: 0,
            duration: None,
            retries: 0,
        })
    };
    let row = spec.as_ref().map_or_else(blank, of_spec);
    Row {
        id: past.ticket.id,
        user: past.ticket.user.clone(),
        phase,
        reason: match (phase, past.exit) {
            (Phase::Failed, Some(code)) => history::failed(code),
            (Phase::Failed, None) => "lost".into(),
            _ => String::new(),
        },
        submitted: submitted.unsigned_abs(),
        started: started.map(i64::unsigned_abs),
        ended: ended.map(i64::unsigned_abs),
        exit: past.exit,
        ..row
    }
}

/// What a worker wants, as people write it.
pub fn wish(ask: &Ask) -> String {
    let Some(gpus) = &ask.gpus else {
        return match ask.cpu_milli {
            0 => "no GPU".into(),
            milli => format!("{} CPU", thousandths(milli)),
        };
    };
    let part = match &gpus.part {
        ask::Part::Whole => match gpus.count {
            1 => "1 GPU".into(),
            n => format!("{n} GPUs"),
        },
        ask::Part::Profile(name) => name.to_string(),
        ask::Part::Share {
            compute,
            memory_mib,
        } => {
            let memory = memory_mib.map(mib);
            let compute = compute.map(|units| format!("{} % GPU", percent(units)));
            let both: Vec<String> = [memory, compute].into_iter().flatten().collect();
            both.join(" ")
        }
    };
    let count = match (&gpus.part, gpus.count) {
        (ask::Part::Whole, _) | (_, 1) => String::new(),
        (_, n) => format!("{n} x "),
    };
    let model = match gpus.models.first().and_then(|tier| tier.first()) {
        Some(model) => format!(" {model}"),
        None => String::new(),
    };
    format!("{count}{part}{model}")
}

fn percent(units: u32) -> String {
    thousandths(u64::from(units) * 100_000 / u64::from(GPU))
}

/// Thousandths as a decimal without zeros at its end.
fn thousandths(milli: u64) -> String {
    let text = format!("{}.{:03}", milli / 1_000, milli % 1_000);
    text.trim_end_matches('0').trim_end_matches('.').into()
}

/// Mebibytes as people write them.
pub fn mib(mib: u32) -> String {
    match mib % 1_024 {
        0 => format!("{} GiB", mib / 1_024),
        _ if mib > 10_240 => format!("{} GiB", thousandths(u64::from(mib) * 10 / 1_024 * 100)),
        _ => format!("{mib} MiB"),
    }
}

/// Where a worker is: node, then GPUs.
fn place(state: &State, lease: &Lease) -> String {
    let books = state
        .node_ix(lease.hold.node.as_str())
        .and_then(|ix| state.node(ix));
    let whole = |slice: &&Slice| slice.instance.is_none() && slice.share.is_none();
    let slices = &lease.hold.slices;
    let mut text = lease.hold.node.to_string();
    if slices.len() > 1 && slices.iter().all(|slice| whole(&slice)) {
        let gpus: Vec<String> = slices.iter().map(|slice| slice.gpu.to_string()).collect();
        text += &format!(" gpu{}", gpus.join(","));
        return text;
    }
    for slice in slices {
        let board = books.and_then(|books| board_of(state, books, slice.gpu));
        text += &format!(" gpu{}", slice.gpu);
        if !whole(&slice) {
            text += &format!(" {}", part(slice, board));
        }
    }
    text
}

fn board_of<'a>(state: &'a State, books: &NodeBooks, gpu: u8) -> Option<&'a Board> {
    let gpu = books.gpus.get(usize::from(gpu))?;
    Some(state.boards().board(gpu.board))
}

/// A part of a GPU, as people write it.
fn part(slice: &Slice, board: Option<&Board>) -> String {
    let mut words = Vec::new();
    if let Some(instance) = slice.instance {
        let name = board.map_or("slice", |board| &board.at(instance.profile).name);
        words.push(format!("{name}@{}", instance.start));
    }
    if let Some(share) = slice.share {
        words.push(format!(
            "{} % {}",
            percent(share.compute),
            mib(share.memory_mib)
        ));
    }
    match words.is_empty() {
        true => "whole".into(),
        false => words.join(" "),
    }
}

/// Why a job is as it is, in sentences.
pub fn why(view: &View, work: &Work, row: &Row) -> Vec<String> {
    let state = &view.state;
    let mut said = Vec::new();
    match row.phase {
        Phase::Running if row.reason.is_empty() => {
            said.push(format!("It runs: {}.", row.places.join("; ")));
            return said;
        }
        Phase::Running => said.push(format!(
            "It runs with {} of {} workers; the others: {}.",
            row.running, row.workers, row.reason
        )),
        Phase::Starting => said.push(format!(
            "It has its place and starts: {}.",
            row.places.join("; ")
        )),
        Phase::Ending => {
            said.push("It was told to leave, or has ended, and is being cleaned up.".into())
        }
        _ => said.push(format!("It waits: {}.", row.reason)),
    }
    let verdict = state.verdict(work.name().as_str());
    let reason = match &verdict {
        Some(Verdict::Not(reason) | Verdict::BudgetEnded(reason)) => reason,
        _ => return said,
    };
    said.push(format!(
        "It asks for {} for each of {} {}.",
        row.ask,
        row.workers,
        workers(row.workers)
    ));
    said.extend(way_out(view, work, reason));
    let before = state
        .waiting()
        .take_while(|other| other.name() != work.name())
        .count();
    if before > 0 {
        said.push(format!(
            "{before} {} served before it.",
            if before == 1 { "job is" } else { "jobs are" }
        ));
    }
    said
}

fn workers(n: u32) -> &'static str {
    if n == 1 { "worker" } else { "workers" }
}

/// What there is, and what could be done.
fn way_out(view: &View, work: &Work, reason: &Reason) -> Vec<String> {
    let state = &view.state;
    match reason {
        Reason::NoNodes => vec![
            match view.agents.iter().find_map(|agent| agent.trouble.clone()) {
                Some(why) => format!("The agent {why}."),
                None => "No agent has come yet: see that `cleave-node` runs.".into(),
            },
        ],
        Reason::NoBoard | Reason::NoProfile | Reason::NoIsolation => {
            let mut boards = BTreeMap::<&str, u32>::new();
            for (_, books) in state.nodes() {
                for gpu in &books.gpus {
                    *boards
                        .entry(&state.boards().board(gpu.board).name)
                        .or_default() += 1;
                }
            }
            let there: Vec<String> = boards
                .iter()
                .map(|(board, n)| format!("{n} x {board}"))
                .collect();
            vec![
                format!("There are {}.", there.join(", ")),
                format!(
                    "It can never run here: `cleave boards {}` shows what can be asked for.",
                    boards.keys().next().unwrap_or(&"")
                ),
            ]
        }
        Reason::TooLarge(what) => vec![format!(
            "It can never run here, even with everything idle: ask for less {what}."
        )],
        Reason::Full(what) | Reason::Scattered(what) => {
            let mut said = Vec::new();
            if matches!(
                what,
                Dimension::Gpu | Dimension::Slice | Dimension::GpuMemory
            ) {
                let (mut free, mut all) = (0, 0);
                for (_, books) in state.nodes() {
                    all += books.gpus.len();
                    free += books
                        .gpus
                        .iter()
                        .filter(|gpu| gpu.used == Use::Free && !gpu.sick)
                        .count();
                }
                said.push(format!("Of {all} GPUs {free} are free."));
            }
            let holders = holders(view, work, *what);
            if !holders.is_empty() {
                said.push(format!(
                    "It can go on when others end: {}.",
                    holders.join(", ")
                ));
            }
            said
        }
        Reason::Gang(_) => vec!["All of its workers start together, or none.".into()],
        Reason::NodesClosed => vec!["Open a node again, or wait for one.".into()],
        Reason::BackOff => vec!["The next attempt begins by itself.".into()],
        Reason::NoLabel(_) | Reason::Taint(_) | Reason::Affinity(_) => Vec::new(),
    }
}

/// Who holds most of what is short: up to five.
fn holders(view: &View, work: &Work, what: Dimension) -> Vec<String> {
    let state = &view.state;
    let mut held = BTreeMap::<&Name, u64>::new();
    for lease in state
        .leases()
        .filter(|lease| lease.worker.workload != *work.name())
    {
        let amount = match what {
            Dimension::Gpu | Dimension::Slice | Dimension::GpuMemory => {
                let books = state
                    .node_ix(lease.hold.node.as_str())
                    .and_then(|ix| state.node(ix));
                let board =
                    |slice: &Slice| books.and_then(|books| board_of(state, books, slice.gpu));
                let slices = lease.hold.slices.iter();
                slices
                    .filter_map(|slice| Some(u64::from(weight(slice, board(slice)?))))
                    .sum()
            }
            Dimension::Cpu => lease.hold.cpu_milli,
            Dimension::Memory => lease.hold.memory_bytes,
            Dimension::Pods => 1,
        };
        *held.entry(&lease.worker.workload).or_default() += amount;
    }
    let mut held: Vec<_> = held.into_iter().filter(|(_, amount)| *amount > 0).collect();
    held.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let user = |name: &Name| view.cards.get(name).map_or("?", |card| &card.ticket.user);
    let mut said: Vec<String> = held
        .iter()
        .take(5)
        .map(|(name, _)| format!("`{name}` of {}", user(name)))
        .collect();
    if held.len() > 5 {
        said.push(format!("and {} more", held.len() - 5));
    }
    said
}

/// How a job that is over ended.
pub fn ended(row: &Row) -> Vec<String> {
    let how = match row.phase {
        Phase::Done => "It is over, its work done.".into(),
        Phase::Cancelled => "It was cancelled.".into(),
        _ => format!(
            "It failed: {}. `cleave logs {}` shows its output.",
            row.reason, row.name
        ),
    };
    vec![how]
}

/// All GPUs and what lies on them.
pub fn fleet(view: &View) -> Fleet {
    let state = &view.state;
    let nodes = state.nodes().map(|(ix, books)| {
        let of = |agent: &&Agent| {
            let welcome = agent.welcome.as_ref();
            welcome.is_some_and(|welcome| welcome.node.name == *books.name())
        };
        let agent = view.agents.iter().find(of);
        let welcome = agent.and_then(|agent| agent.welcome.as_ref());
        let health = match books.health {
            Health::Ready => "ready",
            Health::Cordoned => "cordoned",
            Health::Reclaiming(_) => "reclaiming",
            Health::Lost => "lost",
        };
        Node {
            name: books.name().to_string(),
            simulated: welcome.is_some_and(|welcome| welcome.simulated),
            connected: agent.is_some_and(|agent| agent.connected),
            health: health.into(),
            cpu_milli: books.node.cpu_milli,
            cpu_free_milli: books.cpu_milli,
            memory_bytes: books.node.memory_bytes,
            memory_free_bytes: books.memory_bytes,
            gpus: (0..books.gpus.len() as u8)
                .map(|gpu| device(view, ix, books, gpu))
                .collect(),
            notes: welcome.map_or_else(Vec::new, |welcome| welcome.notes.clone()),
        }
    });
    Fleet {
        nodes: nodes.collect(),
        now: now(),
    }
}

fn device(view: &View, ix: NodeIx, books: &NodeBooks, index: u8) -> Gpu {
    let state = &view.state;
    let gpu = &books.gpus[usize::from(index)];
    let board = state.boards().board(gpu.board);
    let units = board.units.max(1);
    let used = match &gpu.used {
        _ if gpu.sick => "down",
        Use::Free => "free",
        Use::Whole => "whole",
        Use::Shared(_) => "shared",
        Use::Cut { .. } => "cut",
    };
    let mut parts: Vec<Part> = state
        .slices_on(ix, index)
        .iter()
        .map(|(worker, slice)| {
            let (start, size, whole_mib) = match slice.instance {
                Some(instance) => {
                    let profile = board.at(instance.profile);
                    (instance.start, profile.size, profile.memory_mib)
                }
                None => (0, units, board.memory_mib),
            };
            let card = view.cards.get(&worker.workload);
            let lease = state.lease(worker);
            Part {
                worker: worker.to_string(),
                user: card.map_or_else(|| "?".into(), |card| card.ticket.user.clone()),
                slice: part(slice, Some(board)),
                start,
                size,
                memory_mib: slice.share.map_or(whole_mib, |share| share.memory_mib),
                phase: match lease.map(|lease| lease.phase) {
                    Some(lease::Phase::Running) => Phase::Running,
                    Some(lease::Phase::Draining) => Phase::Ending,
                    _ => Phase::Starting,
                },
            }
        })
        .collect();
    parts.sort_by(|a, b| (a.start, &a.worker).cmp(&(b.start, &b.worker)));
    let held: u32 = parts.iter().map(|part| part.memory_mib).sum();
    Gpu {
        index,
        board: board.name.clone(),
        memory_mib: board.memory_mib,
        units,
        state: used.into(),
        parts,
        free_mib: board.memory_mib.saturating_sub(held),
    }
}

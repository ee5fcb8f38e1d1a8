//! The order of facts within a batch: by kind, then by name, so that the same facts make the
//! same batch in whatever order they came in.

use cleave_model::{
    action::{ActionName, Subject},
    event::Event,
};

/// Sorts facts from outside, and drops the second of two that are equal.
pub fn canonical(events: &mut Vec<Event>) {
    events.sort_by(|a, b| key(a).cmp(&key(b)));
    events.dedup();
}

/// Rank of the kind, name, index, attempt. What happened comes before what somebody wants next.
fn key(event: &Event) -> (u8, &str, u32, u32) {
    match event {
        Event::Policy(_) => (0, "", 0, 0),
        Event::Board(board) => (1, board.name.as_ref(), 0, 0),
        Event::Queue(queue) => (2, queue.name.as_str(), 0, 0),
        Event::Started(w, attempt) => (3, w.workload.as_str(), w.index, *attempt),
        Event::Ended(w, attempt, _) => (4, w.workload.as_str(), w.index, *attempt),
        Event::Freed(w, attempt, _) => (5, w.workload.as_str(), w.index, *attempt),
        Event::Failed(w, attempt, _) => (6, w.workload.as_str(), w.index, *attempt),
        // A node that went and came back is a new one.
        Event::NodeGone(node) => (7, node.as_str(), 0, 0),
        Event::Node(node) => (8, node.name.as_str(), 0, 0),
        Event::GpuSick(node, gpu, _) => (9, node.as_str(), u32::from(*gpu), 0),
        Event::NodeHealth(node, _) => (10, node.as_str(), 0, 0),
        Event::Submit(work) => (11, work.name.as_str(), 0, 0),
        Event::Cancel(work) => (12, work.as_str(), 0, 0),
        Event::Prior(_) => (13, "", 0, 0),
        Event::Priced(_) => (14, "", 0, 0),
        Event::Overdue(action) => of_action(15, action),
        Event::Sent(action, _) => of_action(16, action),
        // Decisions are batches of their own, and a genesis has an order of its own.
        Event::Decided(_)
        | Event::Lease(_)
        | Event::Open(..)
        | Event::Verdict(_)
        | Event::Worker(..)
        | Event::Arrivals(_)
        | Event::Ailing(..)
        | Event::CutFailures(..)
        | Event::Cursor(_)
        | Event::MeteredTo(..) => (u8::MAX, "", 0, 0),
    }
}

fn of_action(rank: u8, action: &ActionName) -> (u8, &str, u32, u32) {
    match &action.subject {
        Subject::Worker(w) => (rank, w.workload.as_str(), w.index, action.attempt),
        Subject::Node(name) | Subject::Pool(name) => (rank, name.as_str(), 0, action.attempt),
        Subject::Gpu(name, gpu) => (rank, name.as_str(), u32::from(*gpu), action.attempt),
    }
}

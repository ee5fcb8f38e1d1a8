//! Hands without devices: what a node keeps and says, and nothing else.

use cleave_model::{
    Name, WorkerId,
    action::Failure,
    message::{Message, Order},
    observation::{Exit, MessageNo, NodeReport, WorkerReport, WorkerState},
};
use std::collections::BTreeMap;

/// An attempt by worker and number.
pub type AttemptId = (WorkerId, u32);

/// The hands of one node; all but `reports` is durable.
pub struct Hands {
    pub node: Name,
    pub table: BTreeMap<AttemptId, WorkerState>,
    heard: MessageNo,
    starts: u64,
    reports: u64,
}

impl Hands {
    pub fn new(node: &str) -> Self {
        let node = Name::new(node).unwrap();
        let heard = MessageNo::default();
        Self {
            node,
            table: BTreeMap::new(),
            heard,
            starts: 1,
            reports: 0,
        }
    }

    pub fn restart(&mut self) {
        self.starts += 1;
        self.reports = 0;
    }

    pub fn report(&mut self) -> NodeReport {
        self.reports += 1;
        let worker = |((worker, attempt), state): (&AttemptId, &WorkerState)| WorkerReport {
            worker: worker.clone(),
            attempt: *attempt,
            state: *state,
        };
        NodeReport {
            node: self.node.clone(),
            seq: (self.starts, self.reports),
            heard: self.heard,
            workers: self.table.iter().map(worker).collect(),
            sick: Vec::new(),
        }
    }

    pub fn hear(&mut self, message: Message) -> NodeReport {
        if message.no > self.heard {
            self.heard = message.no;
            match message.order {
                Order::Hello => {}
                Order::Place {
                    worker, attempt, ..
                } => {
                    self.table
                        .entry((worker, attempt))
                        .or_insert(WorkerState::Preparing);
                }
                Order::Evict {
                    worker, attempt, ..
                } => {
                    let state = self.table.entry((worker, attempt));
                    let state = state.or_insert(WorkerState::Freed(Exit::Evicted));
                    *state = match *state {
                        WorkerState::Preparing => WorkerState::Ended(Exit::Evicted),
                        WorkerState::Running => WorkerState::Stopping,
                        other => other,
                    };
                }
                Order::Forget { worker, attempt } => {
                    let id = (worker, attempt);
                    let over = |state: &WorkerState| {
                        matches!(state, WorkerState::Freed(_) | WorkerState::Failed(_))
                    };
                    if self.table.get(&id).is_some_and(over) {
                        self.table.remove(&id);
                    }
                }
            }
        }
        self.report()
    }

    /// One attempt goes one step further; `luck` 0 is the good way. Tells whose process began.
    pub fn progress(&mut self, which: usize, luck: usize) -> Option<AttemptId> {
        let len = self.table.len();
        let (id, state) = self.table.iter_mut().nth(which.checked_rem(len)?)?;
        let before = *state;
        *state = match (before, luck) {
            (WorkerState::Preparing, 1) => WorkerState::Failed(Failure::Start),
            (WorkerState::Preparing, 2) => WorkerState::Failed(Failure::Cut(0)),
            (WorkerState::Preparing, _) => WorkerState::Running,
            (WorkerState::Running, 1) => WorkerState::Ended(Exit::Error(1)),
            (WorkerState::Running, _) => WorkerState::Ended(Exit::Done),
            (WorkerState::Stopping, _) => WorkerState::Ended(Exit::Evicted),
            (WorkerState::Ended(exit), _) => WorkerState::Freed(exit),
            (over, _) => over,
        };
        (before == WorkerState::Preparing && *state == WorkerState::Running).then(|| id.clone())
    }
}

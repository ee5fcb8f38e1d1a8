//! What happens next: an agenda in the order of time, and of entry among equals.

use cleave_model::Millis;
use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
};

/// Things to come.
#[derive(Debug)]
pub struct Agenda<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    entered: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: (Millis, u64),
    what: T,
}

impl<T> Agenda<T> {
    pub fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            entered: 0,
        }
    }

    pub fn enter(&mut self, at: Millis, what: T) {
        self.entered += 1;
        self.heap.push(Reverse(Entry {
            at: (at, self.entered),
            what,
        }));
    }

    pub fn next_at(&self) -> Option<Millis> {
        self.heap.peek().map(|Reverse(entry)| entry.at.0)
    }

    /// The next thing that happens no later than `now`.
    pub fn take(&mut self, now: Millis) -> Option<T> {
        if self.next_at()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry.what)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.cmp(&other.at)
    }
}

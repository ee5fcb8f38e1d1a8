//! The plainest packing: the first node, in the order of names, that takes the worker.

use super::Packing;
use crate::{
    constraints::{Domains, admits},
    fit,
    inventory::{NodeBooks, NodeIx},
    state::{AskIx, State},
};
use cleave_model::{Name, lease::Hold};
use std::collections::BTreeMap;

/// First fit, exact and slow: the yardstick for what is legal.
#[derive(Clone, Debug, Default)]
pub struct FirstFit {
    copy: WorkingCopy,
}

impl Packing for FirstFit {
    fn follow(&mut self, state: &State) {
        self.copy.follow(state, |_, _| {});
    }

    fn place(
        &mut self,
        state: &State,
        ask: AskIx,
        domains: &Domains<'_>,
    ) -> Option<(NodeIx, Hold)> {
        let (ask, ways) = (state.ask(ask), state.ways(ask).ok()?);
        let (ix, hold) = self.copy.nodes().find_map(|(ix, books)| {
            let open = books.is_open() && admits(&books.node, &ask.limits).is_ok();
            let open = open && domains.admit(books).is_ok();
            let hold = open.then(|| fit::hold(books, ask, ways, state.boards()).ok())?;
            hold.map(|hold| (ix, hold))
        })?;
        self.copy.take(state, &hold);
        Some((ix, hold))
    }

    fn begin(&mut self) {
        self.copy.begin();
    }

    fn end(&mut self, keep: bool) {
        self.copy.end(keep);
    }
}

/// A working copy of the nodes' books that follows a state and takes trials back.
#[derive(Clone, Debug, Default)]
pub struct WorkingCopy {
    nodes: BTreeMap<Name, NodeIx>,
    books: BTreeMap<NodeIx, NodeBooks>,
    /// Books as they were before a trial touched them.
    undo: Vec<(NodeIx, NodeBooks)>,
    trials: Vec<usize>,
    position: u64,
    shape: Option<u64>,
}

impl WorkingCopy {
    /// Brings the copy in line with the state; `changed` hears of every node that may differ.
    pub fn follow(&mut self, state: &State, mut changed: impl FnMut(NodeIx, Option<&NodeBooks>)) {
        let changes = state.changes();
        let known = self.shape == Some(changes.shape());
        match changes.since(self.position).filter(|_| known) {
            Some(nodes) => {
                for ix in nodes {
                    let Some(books) = state.node(ix) else {
                        continue;
                    };
                    self.books.insert(ix, books.clone());
                    changed(ix, Some(books));
                }
            }
            None => {
                for &ix in self.books.keys().filter(|ix| state.node(**ix).is_none()) {
                    changed(ix, None);
                }
                self.nodes.clear();
                self.books.clear();
                for (ix, books) in state.nodes() {
                    self.nodes.insert(books.name().clone(), ix);
                    self.books.insert(ix, books.clone());
                    changed(ix, Some(books));
                }
            }
        }
        self.position = changes.end();
        self.shape = Some(changes.shape());
    }

    /// The nodes in the order of their names.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeIx, &NodeBooks)> {
        self.nodes.values().map(|ix| (*ix, &self.books[ix]))
    }

    /// The books of a node.
    pub fn get(&self, ix: NodeIx) -> Option<&NodeBooks> {
        self.books.get(&ix)
    }

    /// Takes a hold that fits.
    pub fn take(&mut self, state: &State, hold: &Hold) {
        let ix = self.nodes[&hold.node];
        let books = self.books.get_mut(&ix).expect("every node has books");
        if !self.trials.is_empty() {
            self.undo.push((ix, books.clone()));
        }
        books
            .take(hold, state.boards())
            .expect("the hold was found on these books");
    }

    /// Begins a trial.
    pub fn begin(&mut self) {
        self.trials.push(self.undo.len());
    }

    /// Ends the innermost trial; tells which nodes were taken back, latest first.
    pub fn end(&mut self, keep: bool) -> Vec<NodeIx> {
        let mark = self.trials.pop().expect("a trial was begun");
        let mut back = Vec::new();
        if !keep {
            for (ix, books) in self.undo.drain(mark..).rev() {
                self.books.insert(ix, books);
                back.push(ix);
            }
        } else if self.trials.is_empty() {
            self.undo.clear();
        }
        back
    }
}

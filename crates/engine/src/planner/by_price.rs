//! The engine's own packing: each worker goes where the value of what remains falls least.

use super::{Packing, pricing};
use crate::{
    constraints::{Domains, admits},
    fit,
    forms::{Form, Way},
    inventory::{NodeBooks, NodeIx, Use},
    pack::{Choice, KindIx, Mark, NodeView, Pack, Topology},
    price::Gpu,
    state::{AskIx, State},
};
use cleave_model::{GPU, Name, ask::Constraints, lease::Hold, node::LinkLevel, prices::Prices};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Packs by bid prices. Begins empty and follows a state.
#[derive(Debug, Default)]
pub struct ByPrice {
    copy: Option<Copy>,
}

impl Clone for ByPrice {
    /// A working copy is never copied: the clone follows anew.
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// The working copy: nodes by rank, that is by the order of their names.
#[derive(Debug)]
struct Copy {
    pack: Pack,
    /// Of each trial, where it began: in the pack and among `mixed_undo`.
    marks: Vec<(Mark, usize)>,
    by_rank: Vec<NodeIx>,
    ranks: BTreeMap<NodeIx, u32>,
    /// Nodes with GPUs of several boards: too rare to price, searched plainly.
    mixed: BTreeMap<u32, NodeBooks>,
    mixed_undo: Vec<(u32, NodeBooks)>,
    topologies: Vec<Vec<LinkLevel>>,
    signatures: Signatures,
    asks: BTreeMap<AskIx, Wanted>,
    prices: Option<Arc<Prices>>,
    /// The distinct asks and the arrivals that the nominal prices weigh, where there are no others
    /// yet.
    nominal_for: (usize, u64),
    position: u64,
    shape: u64,
}

/// An ask as the pack knows it.
#[derive(Clone, Debug)]
struct Wanted {
    ways: Vec<(Way, KindIx)>,
    /// Whether a node of each signature admits it; as far as asked so far.
    admitted: Vec<bool>,
    /// The nodes that admit it if they are few, and among how many that was so.
    few: (usize, Option<Vec<u32>>),
}

/// Up to so many nodes are looked at one by one.
const FEW: usize = 128;

/// What labels and taints say, as far as any ask refers to them, as small numbers.
#[derive(Clone, Debug, Default)]
struct Signatures {
    keys: BTreeSet<Name>,
    /// How many asks the keys are of.
    asks: usize,
    known: BTreeMap<Signature, u32>,
    /// The nodes of each.
    nodes: Vec<Vec<NodeIx>>,
    /// Of each node, as far as it was open so far.
    of: BTreeMap<NodeIx, u32>,
}

type Signature = (Vec<Option<Name>>, Vec<Name>);

impl Packing for ByPrice {
    fn follow(&mut self, state: &State) {
        let known = self.copy.as_mut().filter(|copy| {
            let keys = &copy.signatures.keys;
            copy.shape == state.changes().shape()
                && referred(state, copy.signatures.asks).all(|key| keys.contains(key))
        });
        let changed = known.and_then(|copy| {
            copy.signatures.asks = state.ask_count();
            let nodes = state.changes().since(copy.position)?;
            nodes.for_each(|ix| copy.update(state, ix));
            Some(())
        });
        if changed.is_none() {
            self.copy = Some(Copy::of(state));
        }
        let copy = self.copy.as_mut().expect("made above");
        copy.position = state.changes().end();
        copy.follow_prices(state);
    }

    fn place(
        &mut self,
        state: &State,
        ask: AskIx,
        domains: &Domains<'_>,
    ) -> Option<(NodeIx, Hold)> {
        self.copy
            .as_mut()
            .expect("followed before")
            .place(state, ask, domains)
    }

    fn begin(&mut self) {
        let copy = self.copy.as_mut().expect("followed before");
        copy.marks.push((copy.pack.mark(), copy.mixed_undo.len()));
    }

    fn end(&mut self, keep: bool) {
        let copy = self.copy.as_mut().expect("followed before");
        let (mark, undo) = copy.marks.pop().expect("a trial was begun");
        if keep {
            copy.pack.keep(mark);
            if copy.marks.is_empty() {
                copy.mixed_undo.clear();
            }
        } else {
            copy.pack.rollback(mark);
            for (rank, books) in copy.mixed_undo.drain(undo..).rev() {
                copy.mixed.insert(rank, books);
            }
        }
    }
}

/// The label keys that any ask refers to, but for the first `known` asks.
fn referred(state: &State, known: usize) -> impl Iterator<Item = &Name> {
    let limits = state.asks_behind(known).map(|ask| &ask.limits);
    limits.flat_map(|limits: &Constraints| limits.select.keys())
}

impl Copy {
    fn of(state: &State) -> Self {
        let by_rank: Vec<NodeIx> = state.nodes().map(|(ix, _)| ix).collect();
        let ranks = (0..).zip(&by_rank).map(|(rank, &ix)| (ix, rank)).collect();
        let max_gpus = state
            .nodes()
            .map(|(_, books)| books.gpus.len())
            .max()
            .unwrap_or(0);
        let mut links: Vec<Vec<LinkLevel>> = state
            .nodes()
            .map(|(_, books)| &books.node.links)
            .filter(|levels| !levels.is_empty())
            .cloned()
            .collect();
        links.sort_by_cached_key(|levels| format!("{levels:?}"));
        links.dedup();
        links.insert(0, Vec::new());
        let trees = links.iter().map(|levels| Topology {
            levels: levels.iter().map(masks).collect(),
        });
        let mut copy = Self {
            pack: Pack::new(pricing::boards(state), trees.collect(), max_gpus),
            marks: Vec::new(),
            by_rank,
            ranks,
            mixed: BTreeMap::new(),
            mixed_undo: Vec::new(),
            topologies: links,
            signatures: Signatures {
                keys: referred(state, 0).cloned().collect(),
                asks: state.ask_count(),
                ..Signatures::default()
            },
            asks: BTreeMap::new(),
            prices: None,
            nominal_for: (0, 0),
            position: 0,
            shape: state.changes().shape(),
        };
        for (ix, _) in state.nodes() {
            copy.update(state, ix);
        }
        copy
    }

    /// Takes new prices; before there are any, every ask bids its weight.
    fn follow_prices(&mut self, state: &State) {
        match (state.prices(), &self.prices) {
            (Some(new), Some(old)) if Arc::ptr_eq(new, old) => {}
            (Some(new), _) => {
                self.pack.set_prices(new);
                self.prices = Some(new.clone());
            }
            (None, _) if self.nominal_for != (state.ask_count(), state.arrivals()) => {
                self.pack
                    .set_prices(&pricing::Question::nominal(state).answer());
                self.nominal_for = (state.ask_count(), state.arrivals());
            }
            (None, _) => {}
        }
    }

    fn update(&mut self, state: &State, ix: NodeIx) {
        let Some(&rank) = self.ranks.get(&ix) else {
            return;
        };
        let Some(books) = state.node(ix).filter(|books| books.is_open()) else {
            self.pack.set_node(rank, None);
            self.mixed.remove(&rank);
            return;
        };
        let mut boards = books.gpus.iter().map(|gpu| gpu.board);
        let board = boards.next();
        if boards.any(|other| Some(other) != board) {
            self.mixed.insert(rank, books.clone());
            return;
        }
        let topology = self
            .topologies
            .iter()
            .position(|links| *links == books.node.links);
        let view = NodeView {
            hard: self.signatures.of(ix, books),
            board: board.map(|board| board.0),
            cpu_milli: u32::try_from(books.cpu_milli).unwrap_or(u32::MAX),
            memory_bytes: books.memory_bytes,
            pods: books.pods,
            topology: topology.unwrap_or(0) as u16,
            gpus: books
                .gpus
                .iter()
                .map(|gpu| {
                    let memory_mib = state.boards().board(gpu.board).memory_mib;
                    let open = !gpu.sick;
                    open.then(|| view(&gpu.used, memory_mib)).flatten()
                })
                .collect(),
        };
        self.pack.set_node(rank, Some(view));
    }

    fn place(
        &mut self,
        state: &State,
        ask: AskIx,
        domains: &Domains<'_>,
    ) -> Option<(NodeIx, Hold)> {
        if !self.asks.contains_key(&ask) {
            let wanted = self.wanted(state, ask);
            self.asks.insert(ask, wanted);
        }
        let Self {
            pack,
            asks,
            by_rank,
            ranks,
            signatures,
            mixed,
            mixed_undo,
            ..
        } = self;
        let wanted = asks.get_mut(&ask).expect("put in above");
        let ask = state.ask(ask);
        let new = signatures.nodes.iter().skip(wanted.admitted.len());
        let new = new.map(|nodes| {
            let example = state.node(nodes[0]);
            example.is_some_and(|books| admits(&books.node, &ask.limits).is_ok())
        });
        wanted.admitted.extend(new.collect::<Vec<_>>());
        if wanted.few.0 != signatures.of.len() {
            let nodes = signatures.nodes.iter().zip(&wanted.admitted);
            let open = nodes.filter(|(_, admitted)| **admitted);
            let open = open.flat_map(|(nodes, _)| nodes).map(|ix| ranks[ix]);
            let open: Vec<u32> = open.take(FEW + 1).collect();
            wanted.few = (
                signatures.of.len(),
                Some(open).filter(|open| open.len() <= FEW),
            );
        }
        let admitted = &wanted.admitted;
        let free = domains.is_free();
        let accept = |rank: u32, hard: u32| {
            admitted[hard as usize]
                && (free
                    || state
                        .node(by_rank[rank as usize])
                        .is_some_and(|books| domains.admit(books).is_ok()))
        };
        for (way, kind) in &wanted.ways {
            let choice = match &wanted.few.1 {
                Some(few) => pack.best_among(few.iter().copied(), *kind, ask.memory_bytes, &accept),
                None => pack.best(*kind, ask.memory_bytes, &accept),
            };
            if let Some(choice) = choice {
                pack.place(*kind, ask.memory_bytes, &choice);
                let ix = by_rank[choice.node as usize];
                return Some((ix, hold(state.node(ix)?, ask, way, &choice)));
            }
        }
        let ways: Vec<Way> = wanted.ways.iter().map(|(way, _)| way.clone()).collect();
        for (&rank, books) in mixed {
            if admits(&books.node, &ask.limits).is_err() || domains.admit(books).is_err() {
                continue;
            }
            if let Ok(hold) = fit::hold(books, ask, &ways, state.boards()) {
                mixed_undo.push((rank, books.clone()));
                books
                    .take(&hold, state.boards())
                    .expect("found on these books");
                return Some((by_rank[rank as usize], hold));
            }
        }
        None
    }

    fn wanted(&mut self, state: &State, ask: AskIx) -> Wanted {
        let (ask, ways) = (state.ask(ask), state.ways(ask));
        let ways = match &ask.gpus {
            None => vec![Way { on: Vec::new() }],
            Some(_) => ways.unwrap_or_default().to_vec(),
        };
        let kinds = ways.into_iter().map(|way| {
            let kind = self.pack.kind(&pricing::kind(state, ask, &way));
            (way, kind)
        });
        Wanted {
            ways: kinds.collect(),
            admitted: Vec::new(),
            few: (0, None),
        }
    }
}

impl Signatures {
    fn of(&mut self, ix: NodeIx, books: &NodeBooks) -> u32 {
        let Self {
            keys,
            known,
            nodes,
            of,
            ..
        } = self;
        *of.entry(ix).or_insert_with(|| {
            let node = &books.node;
            let labels = keys.iter().map(|key| node.labels.get(key).cloned());
            let mut taints = node.taints.clone();
            taints.sort();
            let hard = known.entry((labels.collect(), taints)).or_insert_with(|| {
                nodes.push(Vec::new());
                nodes.len() as u32 - 1
            });
            nodes[*hard as usize].push(ix);
            *hard
        })
    }
}

/// What is left of a GPU; `None` where nothing more can come.
pub(super) fn view(used: &Use, memory_mib: u32) -> Option<Gpu> {
    match used {
        Use::Free => Some(Gpu::Free),
        Use::Whole => None,
        Use::Shared(shares) => Some(Gpu::Shared {
            units: GPU - shares.compute,
            memory_mib: memory_mib - shares.memory_mib,
            by: shares.by,
        }),
        Use::Cut { layout, .. } => Some(Gpu::Cut(layout.0)),
    }
}

fn masks(level: &LinkLevel) -> Vec<u32> {
    let mask = |group: &Vec<u8>| group.iter().fold(0, |mask, gpu| mask | 1 << gpu.min(&31));
    level.groups.iter().map(mask).collect()
}

fn hold(books: &NodeBooks, ask: &cleave_model::ask::Ask, way: &Way, choice: &Choice) -> Hold {
    let form = |gpu: u8| -> Form {
        let board = books.gpus[usize::from(gpu)].board;
        let at = way.on.binary_search_by_key(&board, |(id, _)| *id);
        way.on[at.expect("chosen on an allowed board")].1
    };
    let slices = choice
        .parts
        .iter()
        .map(|part| form(part.gpu).slice(part.gpu, part.start));
    Hold {
        node: books.name().clone(),
        cpu_milli: ask.cpu_milli,
        memory_bytes: ask.memory_bytes,
        slices: slices.collect(),
    }
}

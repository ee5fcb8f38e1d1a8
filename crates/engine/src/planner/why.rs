//! Why one worker can't be placed: the one reason that says most.

use crate::{
    constraints::{Domains, untolerated},
    fit::{self, As, Need},
    forms::{Form, Way, forms},
    inventory::{Gpu, NodeBooks, NodeIx, Use},
    state::State,
};
use cleave_model::{
    GPU, Name,
    ask::{Ask, Gpus, Part},
    board::{Board, BoardId, Catalogue},
    verdict::{Dimension, Reason},
};
use std::collections::BTreeMap;

/// What the nodes say at a glance: enough to pass most of them over without a look at their books.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    fitness: Option<u64>,
    /// How far the rows have followed the changes.
    position: u64,
    rows: Vec<Row>,
    /// The row of a node by its position.
    places: Vec<u32>,
    /// Rows that are ahead of the state: they tell of what the last plan placed.
    ahead: Vec<NodeIx>,
    /// The distinct sets of taints.
    taints: Vec<Vec<Name>>,
}

#[derive(Clone, Debug)]
struct Row {
    ix: NodeIx,
    /// Of all its GPUs; none where there are several boards, or no GPUs.
    board: Option<BoardId>,
    gpus: u32,
    cpu_milli: u64,
    memory_bytes: u64,
    pods: u32,
    taints: u32,
    /// Open, with nothing sick.
    in_order: bool,
    left: Left,
}

/// What a node has left.
#[derive(Clone, Copy, Debug)]
struct Left {
    cpu_milli: u64,
    memory_bytes: u64,
    pods: u32,
    /// GPUs with nothing on them.
    free: u32,
    /// GPUs that nobody has whole, the free ones included.
    open: u32,
    /// What those have left, in GPU units.
    units: u32,
}

impl Left {
    fn of(books: &NodeBooks, boards: &Catalogue) -> Self {
        let mut left = Self {
            cpu_milli: books.cpu_milli,
            memory_bytes: books.memory_bytes,
            pods: books.pods,
            free: 0,
            open: 0,
            units: 0,
        };
        for gpu in books.gpus.iter().filter(|gpu| !gpu.sick) {
            left.free += u32::from(gpu.used == Use::Free);
            left.open += u32::from(gpu.used != Use::Whole);
            left.units += units_left(gpu, boards);
        }
        left
    }

    /// As [`fit::beside_gpus`] of books as they stand.
    fn beside_gpus(&self, ask: &Ask) -> Result<(), Dimension> {
        fit::enough(ask, self.cpu_milli, self.memory_bytes, self.pods)
    }
}

/// What a GPU has left for parts of it, in GPU units.
fn units_left(gpu: &Gpu, boards: &Catalogue) -> u32 {
    match &gpu.used {
        Use::Free => GPU,
        Use::Whole => 0,
        Use::Shared(shares) => GPU - shares.compute.min(GPU),
        Use::Cut { layout, .. } => GPU - boards.layouts(gpu.board).used(*layout),
    }
}

impl Nodes {
    /// Brings the rows in line with the state and with what a plan made of some nodes since.
    pub fn follow(&mut self, state: &State, touched: &[Option<Box<NodeBooks>>]) {
        let changes = state.changes();
        let ahead = std::mem::take(&mut self.ahead);
        let changed = changes.since(self.position);
        match changed.filter(|_| self.fitness == Some(changes.fitness())) {
            Some(changed) => {
                for ix in changed.chain(ahead) {
                    self.set_left(ix, state.node(ix).expect("as fit as before"), state);
                }
            }
            None => self.list(state),
        }
        self.position = changes.end();
        for (ix, books) in (0..).map(NodeIx).zip(touched) {
            if let Some(books) = books {
                self.set_left(ix, books, state);
                self.ahead.push(ix);
            }
        }
    }

    fn set_left(&mut self, ix: NodeIx, books: &NodeBooks, state: &State) {
        let row = self.places[ix.0 as usize];
        self.rows[row as usize].left = Left::of(books, state.boards());
    }

    /// Makes all rows anew.
    fn list(&mut self, state: &State) {
        let mut known: BTreeMap<Vec<Name>, u32> = BTreeMap::new();
        self.taints.clear();
        self.rows.clear();
        self.places.clear();
        for (ix, books) in state.nodes() {
            let at = ix.0 as usize;
            self.places.resize(self.places.len().max(at + 1), u32::MAX);
            self.places[at] = self.rows.len() as u32;
            let mut boards = books.gpus.iter().map(|gpu| gpu.board);
            let board = boards.next();
            let node = &books.node;
            let taints = known.entry(node.taints.clone()).or_insert_with(|| {
                self.taints.push(node.taints.clone());
                self.taints.len() as u32 - 1
            });
            self.rows.push(Row {
                ix,
                board: board.filter(|board| boards.all(|other| other == *board)),
                gpus: books.gpus.len() as u32,
                cpu_milli: node.cpu_milli,
                memory_bytes: node.memory_bytes,
                pods: node.pods,
                taints: *taints,
                in_order: books.is_open() && !books.gpus.iter().any(|gpu| gpu.sick),
                left: Left::of(books, state.boards()),
            });
        }
        self.fitness = Some(state.changes().fitness());
    }
}

/// One kind of worker before the nodes as a plan leaves them.
pub struct Case<'a, 'd, F> {
    nodes: &'a Nodes,
    /// The books of a node.
    books: F,
    need: Need<'a>,
    domains: &'d Domains<'a>,
    /// By set of taints: the one that is not tolerated.
    taints: Vec<Option<&'a Name>>,
    /// By board, as far as met: how many empty GPUs do, or why none does.
    met: Vec<Option<Result<u32, Reason>>>,
}

impl<'a, 'd, F: Fn(NodeIx) -> &'a NodeBooks> Case<'a, 'd, F> {
    /// Opens the case of an ask.
    pub fn new(nodes: &'a Nodes, books: F, need: Need<'a>, domains: &'d Domains<'a>) -> Self {
        let taints = nodes.taints.iter();
        let (ask, boards) = (need.ask, need.boards);
        Self {
            nodes,
            books,
            need,
            domains,
            taints: taints.map(|set| untolerated(set, &ask.limits)).collect(),
            met: vec![None; boards.ids().count()],
        }
    }

    /// The dominant reason: the filter that the last of the nodes fails, in the order in which
    /// [`Reason`] lists them. `None` if some node takes the worker; `refused` if it is known
    /// that none does.
    pub fn reason(&mut self, refused: bool) -> Option<Reason> {
        let (open, furthest) = self.open();
        if open.is_empty() {
            return Some(furthest);
        }
        // Dimension by dimension, keeping the nodes that have enough of all before.
        let ask = self.need.ask;
        let gpus = ask.gpus.as_ref().map(fit::short);
        let mut worst = Dimension::Gpu;
        for row in &open {
            let fits = match (row.left.beside_gpus(ask), gpus) {
                (Err(short), _) if short <= worst => continue,
                // Then it is the GPUs.
                (Ok(()), Some(gpus)) if refused => Err(gpus),
                (_, Some(gpus)) if row.left.open == 0 => Err(gpus),
                _ => self.need.fits((self.books)(row.ix), As::Now),
            };
            match fits {
                Ok(()) => return None,
                Err(dimension) => worst = worst.max(dimension),
            }
        }
        let in_total = self.enough_in_total(&open, worst);
        Some(if in_total {
            Reason::Scattered(worst)
        } else {
            Reason::Full(worst)
        })
    }

    /// Whether so many workers fit at once on the nodes that take such work: as things are, or
    /// if the nodes were empty.
    pub fn fit_together(&mut self, workers: u32, seen: As) -> bool {
        let mut fitting = 0;
        let Need {
            ask, ways, boards, ..
        } = self.need;
        for row in self.open().0 {
            let books = (self.books)(row.ix);
            let mut left = match seen {
                As::Now => books.clone(),
                _ => books.emptied(),
            };
            while fitting < workers
                && let Ok(hold) = fit::hold(&left, ask, ways, boards)
            {
                fitting += 1;
                left.take(&hold, boards).expect("found on these books");
            }
        }
        fitting >= workers
    }

    /// The nodes that may take such work at all, and could if they were empty; and how far the
    /// others get.
    fn open(&mut self) -> (Vec<&'a Row>, Reason) {
        let mut furthest = Reason::NoNodes;
        let mut open = Vec::new();
        for row in &self.nodes.rows {
            match self.passes(row) {
                Ok(()) => open.push(row),
                Err(reason) => furthest = furthest.max(reason),
            }
        }
        (open, furthest)
    }

    fn passes(&mut self, row: &Row) -> Result<(), Reason> {
        let ask = self.need.ask;
        let mut books = None;
        let mut books = || *books.get_or_insert_with(|| (self.books)(row.ix));
        let mut wanted = 0;
        if let Some(gpus) = &ask.gpus {
            let mut met = |board: BoardId| {
                let met = &mut self.met[usize::from(board.0)];
                let met = met.get_or_insert_with(|| match self.need.allows(board) {
                    true => Ok(self.need.gpus(board).unwrap_or(u32::MAX)),
                    false => Err(no_form(self.need.boards.board(board), gpus)),
                });
                met.clone()
            };
            match row.board {
                Some(board) => wanted = met(board)?,
                // What its best board says.
                None => {
                    let refusals = books().gpus.iter().map(|gpu| met(gpu.board).err());
                    let refusals: Option<Vec<Reason>> = refusals.collect();
                    if let Some(refusals) = refusals {
                        return Err(refusals.into_iter().max().unwrap_or(Reason::NoBoard));
                    }
                }
            }
        }
        for (key, value) in &ask.limits.select {
            if books().node.labels.get(key) != Some(value) {
                return Err(Reason::NoLabel(key.clone()));
            }
        }
        if let Some(taint) = self.taints[row.taints as usize] {
            return Err(Reason::Taint(taint.clone()));
        }
        let too_large = match ask.gpus.as_ref().filter(|_| row.gpus < wanted) {
            Some(gpus) => Some(fit::short(gpus)),
            None if row.board.is_none() => self.need.fits(books(), As::New).err(),
            None if row.cpu_milli < ask.cpu_milli => Some(Dimension::Cpu),
            None if row.memory_bytes < ask.memory_bytes => Some(Dimension::Memory),
            None if row.pods == 0 => Some(Dimension::Pods),
            None => None,
        };
        if let Some(dimension) = too_large {
            return Err(Reason::TooLarge(dimension));
        }
        if !row.in_order {
            let books = books();
            if !books.is_open() || self.need.fits(books, As::Empty).is_err() {
                return Err(Reason::NodesClosed);
            }
        }
        if !self.domains.is_free() {
            self.domains.admit(books())?;
        }
        Ok(())
    }

    /// Whether all open nodes together have what one worker lacks on each.
    fn enough_in_total(&self, open: &[&Row], dimension: Dimension) -> bool {
        let Need {
            ask, ways, boards, ..
        } = self.need;
        let enough = |need: u64, of: &dyn Fn(&Row) -> u64| {
            let sums = open.iter().scan(0u64, |sum, row| {
                *sum = sum.saturating_add(of(row));
                Some(*sum)
            });
            need == 0 || sums.into_iter().any(|sum| sum >= need)
        };
        match dimension {
            Dimension::Cpu => enough(ask.cpu_milli, &|row| row.left.cpu_milli),
            Dimension::Memory => enough(ask.memory_bytes, &|row| row.left.memory_bytes),
            Dimension::Pods => enough(1, &|row| row.left.pods.into()),
            Dimension::Gpu | Dimension::Slice | Dimension::GpuMemory => {
                let Some(gpus) = &ask.gpus else { return true };
                let whole = matches!(gpus.part, Part::Whole);
                let left = |row: &Row| match row.board {
                    // It passed, so its board will do.
                    Some(_) if whole => u64::from(row.left.free) * u64::from(GPU),
                    Some(_) => u64::from(row.left.units),
                    None => {
                        let gpus = (self.books)(row.ix).gpus.iter();
                        let usable = gpus.filter(|gpu| !gpu.sick && self.need.allows(gpu.board));
                        let usable = usable.filter(|gpu| !whole || gpu.used == Use::Free);
                        usable.map(|gpu| u64::from(units_left(gpu, boards))).sum()
                    }
                };
                let countable = || {
                    enough(gpus.count.into(), &|row| {
                        places_by_count((self.books)(row.ix), ways, boards)
                    })
                };
                enough(needed(gpus, ways, boards), &left)
                    && (dimension != Dimension::Slice || countable())
            }
        }
    }
}

/// Why a board does not serve an ask.
fn no_form(board: &Board, gpus: &Gpus) -> Reason {
    let mut models = gpus.models.iter().flatten();
    let welcome = gpus.models.is_empty() || models.any(|model| board.answers_to(model.as_str()));
    let refusal = welcome.then(|| forms(gpus, board).err()).flatten();
    refusal.unwrap_or(Reason::NoBoard)
}

/// How many more slices of the profile a node's GPUs could hold by the profile's greatest count
/// alone, wherever the others lie.
fn places_by_count(books: &NodeBooks, ways: &[Way], boards: &Catalogue) -> u64 {
    let places = books.gpus.iter().filter(|gpu| !gpu.sick).map(|gpu| {
        let mut options = ways
            .iter()
            .flat_map(|way| &way.on)
            .filter(|(id, _)| *id == gpu.board);
        let Some((id, Form::Instance(profile))) = options.next() else {
            return 0;
        };
        let taken = match &gpu.used {
            Use::Free => 0,
            Use::Cut { layout, .. } => {
                let there = boards.layouts(*id).instances(*layout).iter();
                there
                    .filter(|instance| instance.profile == *profile)
                    .count()
            }
            _ => return 0,
        };
        usize::from(boards.board(*id).at(*profile).max).saturating_sub(taken)
    });
    places.sum::<usize>() as u64
}

/// GPU units that one worker takes at least.
fn needed(gpus: &Gpus, ways: &[Way], boards: &Catalogue) -> u64 {
    let parts = ways.iter().flat_map(|way| &way.on).map(|&(board, form)| {
        let slice = form.slice(0, 0);
        u64::from(match form {
            Form::Share(share) => share.compute,
            _ => crate::inventory::weight(&slice, boards.board(board)),
        })
    });
    parts.min().unwrap_or(u64::from(GPU)) * u64::from(gpus.count)
}

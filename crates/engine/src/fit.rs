//! Exact search within one node: the slices that one worker's ask takes there.
//!
//! This is the plain answer to "does it fit, and how". Planners that choose by price have faster
//! ways; they must agree with it.

use crate::{
    forms::{Form, Way},
    inventory::{NodeBooks, Use},
};
use cleave_model::{
    ask::{Ask, Gpus, Part},
    board::{BoardId, Catalogue, LayoutId, ProfileIx},
    lease::{Hold, Slice},
    verdict::Dimension,
};

/// The hold that an ask takes on a node as its books stand: first way first, lowest GPUs first,
/// each instance at the start that keeps most, several GPUs from the tightest group of links.
///
/// # Errors
/// The first dimension that is short, in the order GPUs, CPU, memory, pod slots.
pub fn hold(
    books: &NodeBooks,
    ask: &Ask,
    ways: &[Way],
    boards: &Catalogue,
) -> Result<Hold, Dimension> {
    let slices = match &ask.gpus {
        None => Vec::new(),
        Some(gpus) => ways
            .iter()
            .find_map(|way| slices(books, gpus, way, boards))
            .ok_or(short(gpus))?,
    };
    beside_gpus(books, As::Now, ask)?;
    Ok(Hold {
        node: books.name().clone(),
        cpu_milli: ask.cpu_milli,
        memory_bytes: ask.memory_bytes,
        slices,
    })
}

/// As what a node's books are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum As {
    /// As they stand.
    Now,
    /// With nothing on the node; what is sick stays so.
    Empty,
    /// With nothing on it and nothing wrong with it.
    New,
}

/// An ask prepared to be held against many nodes.
#[derive(Debug)]
pub struct Need<'a> {
    /// The ask.
    pub ask: &'a Ask,
    /// The ways to serve it.
    pub ways: &'a [Way],
    /// The boards.
    pub boards: &'a Catalogue,
    /// By board, for each way: the form, and how many of it an empty GPU takes.
    forms: Vec<Vec<Option<(Form, u8)>>>,
}

impl<'a> Need<'a> {
    /// Prepares an ask with the ways to serve it.
    pub fn of(ask: &'a Ask, ways: &'a [Way], boards: &'a Catalogue) -> Self {
        let form = |way: &Way, board: BoardId| {
            let at = way.on.binary_search_by_key(&board, |(id, _)| *id).ok()?;
            let form = way.on[at].1;
            Some((form, room(&Use::Free, form, board, boards)))
        };
        let on = |board| ways.iter().map(|way| form(way, board)).collect();
        let forms = boards.ids().map(on).collect();
        Self {
            ask,
            ways,
            boards,
            forms,
        }
    }

    /// Whether GPUs of this board serve it in some way.
    pub fn allows(&self, board: BoardId) -> bool {
        self.forms[usize::from(board.0)].iter().any(Option::is_some)
    }

    /// How many GPUs of this board it needs where nothing is on them; `None` if they never do.
    pub fn gpus(&self, board: BoardId) -> Option<u32> {
        let gpus = self.ask.gpus.as_ref()?;
        let forms = self.forms[usize::from(board.0)].iter().flatten();
        let room = forms.map(|(_, room)| u32::from((*room).min(most(gpus))));
        room.filter(|room| *room > 0)
            .map(|room| gpus.count.div_ceil(room))
            .min()
    }

    /// Whether [`hold`] finds one, without making it.
    ///
    /// # Errors
    /// As [`hold`].
    pub fn fits(&self, books: &NodeBooks, seen: As) -> Result<(), Dimension> {
        let ask = self.ask;
        if let Some(gpus) = &ask.gpus {
            let most = most(gpus);
            let enough = |way: usize| {
                let mut found = 0;
                for gpu in &books.gpus {
                    let form = self.forms[usize::from(gpu.board.0)][way];
                    let Some((form, empty)) = form.filter(|_| seen == As::New || !gpu.sick) else {
                        continue;
                    };
                    let room = match (seen, &gpu.used) {
                        (As::New | As::Empty, _) | (_, Use::Free) => empty,
                        (As::Now, used) => room(used, form, gpu.board, self.boards),
                    };
                    found += u32::from(room.min(most));
                    if found >= gpus.count {
                        return true;
                    }
                }
                false
            };
            if !(0..self.ways.len()).any(enough) {
                return Err(short(gpus));
            }
        }
        beside_gpus(books, seen, ask)
    }
}

/// Whether a node has what an ask needs beside GPUs.
///
/// # Errors
/// As [`hold`].
pub fn beside_gpus(books: &NodeBooks, seen: As, ask: &Ask) -> Result<(), Dimension> {
    let (cpu_milli, memory_bytes, pods) = match seen {
        As::Now => (books.cpu_milli, books.memory_bytes, books.pods),
        _ => (
            books.node.cpu_milli,
            books.node.memory_bytes,
            books.node.pods,
        ),
    };
    enough(ask, cpu_milli, memory_bytes, pods)
}

/// Whether so much is what an ask needs beside GPUs.
///
/// # Errors
/// As [`hold`].
pub fn enough(ask: &Ask, cpu_milli: u64, memory_bytes: u64, pods: u32) -> Result<(), Dimension> {
    if cpu_milli < ask.cpu_milli {
        Err(Dimension::Cpu)
    } else if memory_bytes < ask.memory_bytes {
        Err(Dimension::Memory)
    } else if pods == 0 {
        Err(Dimension::Pods)
    } else {
        Ok(())
    }
}

/// How many parts of one worker may lie on one GPU.
fn most(gpus: &Gpus) -> u8 {
    match gpus.part {
        Part::Profile(_) => u8::MAX,
        _ => 1,
    }
}

/// The dimension that is short when the GPUs of a node do not serve an ask.
pub fn short(gpus: &Gpus) -> Dimension {
    match gpus.part {
        Part::Profile(_) => Dimension::Slice,
        _ => Dimension::Gpu,
    }
}

/// `gpus.count` parts from the node's GPUs, each in the form that its board has for this way.
fn slices(books: &NodeBooks, gpus: &Gpus, way: &Way, boards: &Catalogue) -> Option<Vec<Slice>> {
    let wanted = gpus.count as usize;
    let form_on = |board: BoardId| way.on.iter().find(|(id, _)| *id == board);
    let able: Vec<(u8, Form, u8)> = (0..)
        .zip(&books.gpus)
        .filter(|(_, gpu)| !gpu.sick)
        .filter_map(|(ix, gpu)| {
            let &(board, form) = form_on(gpu.board)?;
            let room = room(&gpu.used, form, board, boards);
            (room > 0).then_some((ix, form, room))
        })
        .collect();
    let form_of = |gpu: u8| {
        able.iter()
            .find(|(ix, ..)| *ix == gpu)
            .map(|(_, form, _)| *form)
    };
    if !matches!(gpus.part, Part::Profile(_)) {
        // Whole GPUs and sizes: one part of each GPU.
        let indices: Vec<u8> = able.iter().map(|(ix, ..)| *ix).collect();
        let chosen = tightest(&indices, wanted, books)?;
        let part = |gpu: u8| {
            let form = form_of(gpu)?;
            let start = match form {
                Form::Instance(profile) => best_start(books, gpu, profile, boards)?,
                _ => 0,
            };
            Some(form.slice(gpu, start))
        };
        return chosen.into_iter().map(part).collect();
    }
    let mut slices = Vec::with_capacity(wanted);
    for (ix, form, room) in able {
        let Form::Instance(profile) = form else {
            continue;
        };
        let layouts = boards.layouts(books.gpus[usize::from(ix)].board);
        let layout = layout(&books.gpus[usize::from(ix)].used);
        let count = usize::from(room).min(wanted - slices.len());
        // Jointly, so that the first does not stand in the way of the last.
        let target = layouts.joint(layout, &[(profile, count as u8)])?;
        let new = layouts.missing(layout, target);
        slices.extend(new.map(|instance| form.slice(ix, instance.start)));
        if slices.len() == wanted {
            return Some(slices);
        }
    }
    None
}

fn layout(used: &Use) -> LayoutId {
    match used {
        Use::Cut { layout, .. } => *layout,
        _ => LayoutId::EMPTY,
    }
}

fn best_start(books: &NodeBooks, gpu: u8, profile: ProfileIx, boards: &Catalogue) -> Option<u8> {
    let gpu = &books.gpus[usize::from(gpu)];
    let layouts = boards.layouts(gpu.board);
    layouts
        .best_start(layout(&gpu.used), profile)
        .map(|(start, _)| start)
}

/// How many more of a form one GPU takes.
fn room(used: &Use, form: Form, board: BoardId, boards: &Catalogue) -> u8 {
    match (form, used) {
        (Form::Whole, Use::Free) => 1,
        (Form::Whole, _) => 0,
        (Form::Instance(profile), Use::Free) => {
            boards.layouts(board).room(LayoutId::EMPTY, profile)
        }
        (Form::Instance(profile), Use::Cut { layout, .. }) => {
            boards.layouts(board).room(*layout, profile)
        }
        (Form::Instance(_), _) => 0,
        (Form::Share(_), _) => {
            let slice = form.slice(0, 0);
            let fits = used.with(&slice, boards.board(board), boards.layouts(board));
            u8::from(fits.is_ok())
        }
    }
}

/// `wanted` of the able GPUs, from the tightest group of links that has so many; of equal groups
/// the one with the fewest able GPUs, then the first.
fn tightest(able: &[u8], wanted: usize, books: &NodeBooks) -> Option<Vec<u8>> {
    if able.len() < wanted {
        return None;
    }
    for level in &books.node.links {
        let groups = level.groups.iter().map(|group| {
            able.iter()
                .copied()
                .filter(|ix| group.contains(ix))
                .collect::<Vec<u8>>()
        });
        let fitting = groups
            .filter(|group| group.len() >= wanted)
            .min_by_key(Vec::len);
        if let Some(mut group) = fitting {
            group.truncate(wanted);
            return Some(group);
        }
    }
    Some(able[..wanted].to_vec())
}

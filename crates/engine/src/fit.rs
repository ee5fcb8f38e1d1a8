//! Exact search within one node: the slices that one worker's ask takes there.
//!
//! This is the plain answer to "does it fit, and how". Planners that choose by price have faster
//! ways; they must agree with it.

use crate::{
    forms::{Form, Way},
    inventory::{NodeBooks, Use},
};
use cleave_model::{
    ask::Gpus,
    board::{BoardId, Catalogue, LayoutId},
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
    ask: &cleave_model::ask::Ask,
    ways: &[Way],
    boards: &Catalogue,
) -> Result<Hold, Dimension> {
    let slices = match &ask.gpus {
        None => Vec::new(),
        Some(gpus) => ways
            .iter()
            .flat_map(|way| &way.on)
            .find_map(|&(board, form)| slices(books, gpus, board, form, boards))
            .ok_or(short(gpus))?,
    };
    if books.cpu_milli < ask.cpu_milli {
        Err(Dimension::Cpu)
    } else if books.memory_bytes < ask.memory_bytes {
        Err(Dimension::Memory)
    } else if books.pods == 0 {
        Err(Dimension::Pods)
    } else {
        Ok(Hold {
            node: books.name().clone(),
            cpu_milli: ask.cpu_milli,
            memory_bytes: ask.memory_bytes,
            slices,
        })
    }
}

/// The dimension that is short when the GPUs of a node do not serve an ask.
fn short(gpus: &Gpus) -> Dimension {
    match gpus.part {
        cleave_model::ask::Part::Profile(_) => Dimension::Slice,
        _ => Dimension::Gpu,
    }
}

/// `gpus.count` parts of this form from the node's GPUs of that board.
fn slices(
    books: &NodeBooks,
    gpus: &Gpus,
    board: BoardId,
    form: Form,
    boards: &Catalogue,
) -> Option<Vec<Slice>> {
    let wanted = gpus.count as usize;
    let able: Vec<(u8, u8)> = (0..)
        .zip(&books.gpus)
        .filter(|(_, gpu)| gpu.board == board && !gpu.sick)
        .map(|(ix, gpu)| (ix, room(&gpu.used, form, board, boards)))
        .filter(|&(_, room)| room > 0)
        .collect();
    let Form::Instance(profile) = form else {
        let able: Vec<u8> = able.into_iter().map(|(ix, _)| ix).collect();
        let chosen = tightest(&able, wanted, books)?;
        return Some(chosen.into_iter().map(|gpu| form.slice(gpu, 0)).collect());
    };
    let layouts = boards.layouts(board);
    let mut slices = Vec::with_capacity(wanted);
    for (ix, _) in able {
        let mut layout = match &books.gpus[usize::from(ix)].used {
            Use::Cut { layout, .. } => *layout,
            _ => LayoutId::EMPTY,
        };
        let room = layouts.room(layout, profile);
        let count = usize::from(room).min(wanted - slices.len());
        // Jointly, so that the first does not stand in the way of the last.
        let target = layouts.joint(layout, &[(profile, count as u8)])?;
        for instance in layouts.missing(layout, target) {
            slices.push(form.slice(ix, instance.start));
            layout = layouts.add(layout, instance.profile, instance.start)?;
        }
        if slices.len() == wanted {
            return Some(slices);
        }
    }
    None
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

//! Why one worker can't be placed: the one reason that says most.

use crate::{
    constraints::{Domains, admits},
    fit::{self, As},
    forms::{Form, Way, forms, ways},
    inventory::{NodeBooks, Use},
    state::State,
};
use cleave_model::{
    GPU,
    ask::{Ask, Gpus, Part},
    board::{Board, Catalogue},
    verdict::{Dimension, Reason},
};

/// The dominant reason, from all nodes: the filter that the last of them fails, in the order in
/// which [`Reason`] lists them. `None` if some node takes the worker.
pub fn reason<'a>(
    state: &State,
    nodes: impl Iterator<Item = &'a NodeBooks>,
    ask: &Ask,
    domains: &Domains<'_>,
) -> Option<Reason> {
    let boards = state.boards();
    let ways = match ask.gpus.as_ref().map(|gpus| ways(gpus, boards)).transpose() {
        Ok(ways) => ways.unwrap_or_default(),
        Err(reason) => return Some(reason),
    };
    let mut furthest = Reason::NoNodes;
    let mut open: Vec<&NodeBooks> = Vec::new();
    for books in nodes {
        match passes(books, ask, &ways, boards, domains) {
            Ok(()) => open.push(books),
            Err(reason) => furthest = furthest.max(reason),
        }
    }
    if open.is_empty() {
        return Some(furthest);
    }
    // Dimension by dimension, keeping the nodes that have enough of all before.
    let mut worst = Dimension::Gpu;
    for books in &open {
        match fit::fits(books, As::Now, ask, &ways, boards) {
            Ok(()) => return None,
            Err(dimension) => worst = worst.max(dimension),
        }
    }
    Some(if enough_in_total(&open, ask, &ways, worst, boards) {
        Reason::Scattered(worst)
    } else {
        Reason::Full(worst)
    })
}

/// Whether a node may take such work at all, and could if it were empty.
fn passes(
    books: &NodeBooks,
    ask: &Ask,
    ways: &[Way],
    boards: &Catalogue,
    domains: &Domains<'_>,
) -> Result<(), Reason> {
    let allowed = |gpu: &crate::inventory::Gpu| {
        ways.iter()
            .any(|way| way.on.iter().any(|&(board, _)| board == gpu.board))
    };
    if let Some(gpus) = &ask.gpus
        && !books.gpus.iter().any(allowed)
    {
        return Err(no_form(books, gpus, boards));
    }
    admits(&books.node, &ask.limits)?;
    fit::fits(books, As::New, ask, ways, boards).map_err(Reason::TooLarge)?;
    let sick = books.gpus.iter().any(|gpu| gpu.sick);
    if !books.is_open() || sick && fit::fits(books, As::Empty, ask, ways, boards).is_err() {
        return Err(Reason::NodesClosed);
    }
    domains.admit(books)
}

/// Why no GPU of a node serves an ask in any way: what its best board says.
fn no_form(books: &NodeBooks, gpus: &Gpus, boards: &Catalogue) -> Reason {
    let welcome = |board: &Board| {
        let mut models = gpus.models.iter().flatten();
        gpus.models.is_empty() || models.any(|model| board.answers_to(model.as_str()))
    };
    let found = books.gpus.iter().map(|gpu| boards.board(gpu.board));
    let refusals = found
        .filter(|board| welcome(board))
        .filter_map(|b| forms(gpus, b).err());
    refusals.max().unwrap_or(Reason::NoBoard)
}

/// Whether as many workers of a group as must run at once fit on the nodes that would take them
/// if they were empty.
pub fn gang_fits_empty<'a>(
    state: &State,
    nodes: impl Iterator<Item = &'a NodeBooks>,
    ask: &Ask,
    min: u32,
    domains: &Domains<'_>,
) -> bool {
    let boards = state.boards();
    let ways = ask.gpus.as_ref().map(|gpus| ways(gpus, boards)).transpose();
    let Ok(ways) = ways.map(Option::unwrap_or_default) else {
        return false;
    };
    let mut fitting = 0;
    for books in nodes {
        if passes(books, ask, &ways, boards, domains).is_err() {
            continue;
        }
        let mut empty = books.emptied();
        while let Ok(hold) = fit::hold(&empty, ask, &ways, boards) {
            fitting += 1;
            if fitting >= min {
                return true;
            }
            empty.take(&hold, boards).expect("found on these books");
        }
    }
    false
}

/// Whether all open nodes together have what one worker lacks on each.
fn enough_in_total(
    open: &[&NodeBooks],
    ask: &Ask,
    ways: &[Way],
    dimension: Dimension,
    boards: &Catalogue,
) -> bool {
    let sum = |of: &dyn Fn(&NodeBooks) -> u64| -> u64 { open.iter().map(|b| of(b)).sum() };
    match dimension {
        Dimension::Cpu => sum(&|b| b.cpu_milli) >= ask.cpu_milli,
        Dimension::Memory => sum(&|b| b.memory_bytes) >= ask.memory_bytes,
        Dimension::Pods => sum(&|b| u64::from(b.pods)) >= 1,
        Dimension::Gpu | Dimension::Slice | Dimension::GpuMemory => {
            let Some(gpus) = &ask.gpus else { return true };
            let whole = matches!(gpus.part, Part::Whole);
            let left = |b: &NodeBooks| -> u64 {
                let usable = b.gpus.iter().filter(|gpu| !gpu.sick);
                let usable = usable.filter(|g| {
                    ways.iter()
                        .any(|w| w.on.iter().any(|(id, _)| *id == g.board))
                });
                usable
                    .map(|gpu| match &gpu.used {
                        Use::Free => u64::from(GPU),
                        Use::Shared(shares) if !whole => u64::from(GPU - shares.compute.min(GPU)),
                        Use::Cut { layout, .. } if !whole => {
                            u64::from(GPU - boards.layouts(gpu.board).used(*layout))
                        }
                        _ => 0,
                    })
                    .sum()
            };
            let countable = || sum(&|b| places_by_count(b, ways, boards)) >= u64::from(gpus.count);
            sum(&left) >= needed(gpus, ways, boards)
                && (dimension != Dimension::Slice || countable())
        }
    }
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

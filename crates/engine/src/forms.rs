//! From intent to slices: which parts of a board serve an ask.

use cleave_model::{
    GPU,
    ask::{Ask, Gpus, Isolation, Part},
    board::{Board, BoardId, Catalogue, Instance, ProfileIx},
    lease::{Share, Sharing, Slice},
    verdict::{Dimension, Reason},
};

/// A part of a GPU in the terms of its board.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// The whole GPU.
    Whole,
    /// An instance of this profile.
    Instance(ProfileIx),
    /// A share of the uncut GPU.
    Share(Share),
}

impl Form {
    /// The slice that it makes of the GPU with this device index; an instance begins at `start`.
    pub fn slice(self, gpu: u8, start: u8) -> Slice {
        let (instance, share) = match self {
            Self::Whole => (None, None),
            Self::Instance(profile) => (Some(Instance { start, profile }), None),
            Self::Share(share) => (None, Some(share)),
        };
        Slice {
            gpu,
            instance,
            share,
        }
    }
}

/// The forms in which a board can serve an ask, smallest first; all GPUs of one worker take the
/// same form.
///
/// * A profile is what it is. A share promised nothing takes turns; promised a memory cap it goes
///   under MPS.
/// * A share with hard isolation takes the lightest profiles that are large enough, and the whole
///   GPU where the board has no such profile or only one as large as itself.
///
/// # Errors
/// Why the board can't serve it.
pub fn forms(gpus: &Gpus, board: &Board) -> Result<Vec<Form>, Reason> {
    match &gpus.part {
        Part::Whole => Ok(vec![Form::Whole]),
        Part::Profile(name) => {
            let ix = board
                .profile(name.as_str())
                .map_err(|_| Reason::NoProfile)?;
            if gpus.graphics && !board.at(ix).graphics() {
                return Err(Reason::NoProfile);
            }
            Ok(vec![Form::Instance(ix)])
        }
        Part::Share {
            compute,
            memory_mib,
        } => {
            let by = match gpus.isolation {
                Isolation::None => Sharing::TimeSlice,
                Isolation::Limited => Sharing::Mps,
                Isolation::Hard => {
                    let named = (compute.unwrap_or(0), memory_mib.unwrap_or(0));
                    return hard(named, gpus.graphics, board);
                }
            };
            let (compute, memory) = coordinates(*compute, *memory_mib, board);
            fits_board(compute, memory, board)?;
            let memory_mib = memory;
            Ok(vec![Form::Share(Share {
                compute,
                memory_mib,
                by,
            })])
        }
    }
}

/// Both coordinates of a share on a board. The one that is not named is the same fraction of the
/// board, rounded down, so that shares whose named coordinates fit together fit in the other too.
fn coordinates(compute: Option<u32>, memory_mib: Option<u32>, board: &Board) -> (u32, u32) {
    let scale = |value: u32, to: u32, of: u32| {
        let scaled = u64::from(value) * u64::from(to) / u64::from(of.max(1));
        u32::try_from(scaled).unwrap_or(u32::MAX)
    };
    match (compute, memory_mib) {
        (Some(compute), Some(memory)) => (compute, memory),
        (Some(compute), None) => (compute, scale(compute, board.memory_mib, GPU)),
        (None, Some(memory)) => (scale(memory, GPU, board.memory_mib), memory),
        (None, None) => (0, 0),
    }
}

fn fits_board(compute: u32, memory_mib: u32, board: &Board) -> Result<(), Reason> {
    if compute > GPU {
        Err(Reason::TooLarge(Dimension::Gpu))
    } else if memory_mib > board.memory_mib {
        Err(Reason::TooLarge(Dimension::GpuMemory))
    } else {
        Ok(())
    }
}

/// Only what the ask names must be there: a slice's other coordinate is as its profile has it.
fn hard(
    (compute, memory_mib): (u32, u32),
    graphics: bool,
    board: &Board,
) -> Result<Vec<Form>, Reason> {
    fits_board(compute, memory_mib, board)?;
    let slice = GPU / u32::from(board.compute.max(1));
    let mut fitting: Vec<(u32, ProfileIx)> = board
        .indices()
        .filter(|&ix| {
            let profile = board.at(ix);
            profile.size < board.units
                && profile.memory_mib >= memory_mib
                && u32::from(profile.compute) * slice >= compute
                && profile.parsed().suffix == if graphics { "gfx" } else { "" }
        })
        .map(|ix| (board.weight(ix), ix))
        .collect();
    fitting.sort_unstable();
    if fitting.is_empty() {
        return Ok(vec![Form::Whole]);
    }
    Ok(fitting
        .into_iter()
        .map(|(_, ix)| Form::Instance(ix))
        .collect())
}

/// One way to serve an ask: boards that are equally welcome, with the form on each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// Boards in ascending order with the form to take there.
    pub on: Vec<(BoardId, Form)>,
}

/// The ways to serve an ask, best first; none where it wants no GPU. Models go tier by tier, and
/// in each the smallest form before larger ones and whole GPUs in place of parts last.
///
/// # Errors
/// No board in the catalogue can: the reason that says most.
pub fn ways(ask: &Ask, boards: &Catalogue) -> Result<Vec<Way>, Reason> {
    let Some(gpus) = &ask.gpus else {
        return Ok(Vec::new());
    };
    let anything = [Vec::new()];
    let tiers = if gpus.models.is_empty() {
        &anything[..]
    } else {
        &gpus.models[..]
    };
    let mut ways: Vec<Way> = Vec::new();
    let mut seen: Vec<BoardId> = Vec::new();
    let mut refusal = Reason::NoBoard;
    for models in tiers {
        let welcome = |board: &Board| {
            models.is_empty() || models.iter().any(|model| board.answers_to(model.as_str()))
        };
        let tier: Vec<BoardId> = boards
            .ids()
            .filter(|id| !seen.contains(id) && welcome(boards.board(*id)))
            .collect();
        seen.extend(&tier);
        let mut forms_on: Vec<(BoardId, Vec<Form>)> = Vec::new();
        for id in tier {
            match forms(gpus, boards.board(id)) {
                Ok(forms) => forms_on.push((id, forms)),
                Err(reason) => refusal = refusal.max(reason),
            }
        }
        // A whole GPU in place of a part comes last: what it wastes would serve others.
        let part = !matches!(gpus.part, Part::Whole);
        let (whole, cut): (Vec<_>, Vec<_>) = forms_on
            .into_iter()
            .partition(|(_, forms)| part && forms[..] == [Form::Whole]);
        let depth = cut.iter().map(|(_, forms)| forms.len()).max().unwrap_or(0);
        for rank in 0..depth {
            let on = cut
                .iter()
                .filter_map(|(id, forms)| Some((*id, *forms.get(rank)?)));
            ways.push(Way { on: on.collect() });
        }
        if !whole.is_empty() {
            let on = whole.into_iter().map(|(id, _)| (id, Form::Whole));
            ways.push(Way { on: on.collect() });
        }
    }
    if ways.is_empty() {
        Err(refusal)
    } else {
        Ok(ways)
    }
}

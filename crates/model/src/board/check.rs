//! What rows must satisfy to be a board.
use super::legal::{self, MAX_LAYOUTS, MAX_UNITS};
use super::{Board, ModeChange, Profile, ProfileName};
use std::collections::BTreeSet;
use std::fmt;

/// A rule that a board's rows break. The text names the board and, where there is one, the profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoardError {
    /// The board, its family, an alias or a profile has an empty name.
    Nameless(String),
    /// Units must be 1 to 16, compute slices and memory at least 1.
    Size(String),
    /// The board has profiles but no mode change, or the other way round.
    Mode(String),
    /// More than 250 profiles.
    TooManyProfiles(String),
    /// A profile's name is not `<g>g.<gb>gb<suffix>` with the profile's compute slices.
    ProfileName(String, String),
    /// Two profiles have the same name or the same GPU instance profile id.
    Duplicate(String, String),
    /// A profile's size, compute slices, memory or engines are zero or more than the board's.
    ProfileSize(String, String),
    /// A profile has no start, repeats one, or has one past the end of the line.
    Starts(String, String),
    /// A profile's maximum is zero.
    Max(String, String),
    /// Starts and sizes admit a layout with more compute slices than the board has.
    Compute(String, u32, u8),
    /// More than [`MAX_LAYOUTS`] layouts.
    TooManyLayouts(String),
    /// A name or alias already means another board of the catalogue.
    NameTaken(String, String, String),
}

impl fmt::Display for BoardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nameless(board) => {
                write!(
                    f,
                    "board {board:?}: board, family and aliases need non-empty names"
                )
            }
            Self::Size(board) => write!(
                f,
                "board {board}: needs 1 to {MAX_UNITS} units, at least 1 compute slice and memory"
            ),
            Self::Mode(board) => write!(
                f,
                "board {board}: mode_change must be reset or live with profiles, never without"
            ),
            Self::TooManyProfiles(board) => write!(f, "board {board}: more than 250 profiles"),
            Self::ProfileName(board, profile) => write!(
                f,
                "board {board}, profile {profile:?}: write it like 1g.10gb or 1g.10gb+me, with \
                 the profile's compute slices before the g"
            ),
            Self::Duplicate(board, profile) => write!(
                f,
                "board {board}, profile {profile}: another profile has this name or gi_profile"
            ),
            Self::ProfileSize(board, profile) => write!(
                f,
                "board {board}, profile {profile}: size, compute and memory_mib must be at least \
                 1 and, like engines, at most the board's"
            ),
            Self::Starts(board, profile) => write!(
                f,
                "board {board}, profile {profile}: starts must ascend and leave room for size"
            ),
            Self::Max(board, profile) => {
                write!(
                    f,
                    "board {board}, profile {profile}: max must be at least 1"
                )
            }
            Self::Compute(board, most, compute) => write!(
                f,
                "board {board}: starts and sizes admit {most} compute slices at once, but the \
                 board has {compute}; check the starts"
            ),
            Self::TooManyLayouts(board) => write!(
                f,
                "board {board}: more than {MAX_LAYOUTS} legal layouts; leave out some profiles"
            ),
            Self::NameTaken(board, name, other) => {
                write!(
                    f,
                    "board {board}: the name {name} already means board {other}"
                )
            }
        }
    }
}

impl std::error::Error for BoardError {}

pub(super) fn check(board: &Board) -> Result<(), BoardError> {
    let name = || board.name.clone();
    let fail = |broken: bool, error: fn(String) -> BoardError| match broken {
        true => Err(error(name())),
        false => Ok(()),
    };
    let mut names = [&board.name, &board.family]
        .into_iter()
        .chain(&board.aliases);
    fail(
        names.any(|name| name.trim().is_empty()),
        BoardError::Nameless,
    )?;
    let sized = (1..=MAX_UNITS).contains(&board.units) && board.compute > 0 && board.memory_mib > 0;
    fail(!sized, BoardError::Size)?;
    let cut = board.mode_change != ModeChange::Never;
    fail(cut == board.profiles.is_empty(), BoardError::Mode)?;
    fail(board.profiles.len() > 250, BoardError::TooManyProfiles)?;

    let mut seen = (BTreeSet::new(), BTreeSet::new());
    for profile in &board.profiles {
        check_profile(board, profile).map_err(|error| error(name(), profile.name.clone()))?;
        let new_name = seen.0.insert(ProfileName::parse(&profile.name).map(key));
        if !new_name || !seen.1.insert(profile.gi_profile) {
            return Err(BoardError::Duplicate(name(), profile.name.clone()));
        }
    }

    let legal = legal::enumerate(board);
    fail(legal.truncated, BoardError::TooManyLayouts)?;
    if legal.compute > u32::from(board.compute) {
        return Err(BoardError::Compute(name(), legal.compute, board.compute));
    }
    Ok(())
}

/// Names are equal if a lookup could not tell them apart.
fn key(name: ProfileName<'_>) -> (u8, u32, &str) {
    (name.compute, name.gigabytes, name.suffix)
}

fn check_profile(board: &Board, profile: &Profile) -> Result<(), fn(String, String) -> BoardError> {
    let named = ProfileName::parse(&profile.name).is_some_and(|n| n.compute == profile.compute);
    if !named {
        return Err(BoardError::ProfileName);
    }
    let sized = (1..=board.units).contains(&profile.size)
        && (1..=board.compute).contains(&profile.compute)
        && (1..=board.memory_mib).contains(&profile.memory_mib)
        && profile.engines.within(board.engines);
    if !sized {
        return Err(BoardError::ProfileSize);
    }
    let ascending = profile.starts.windows(2).all(|pair| pair[0] < pair[1]);
    let last = profile.starts.last();
    if !ascending || last.is_none_or(|&start| start > board.units - profile.size) {
        return Err(BoardError::Starts);
    }
    if profile.max == 0 {
        return Err(BoardError::Max);
    }
    Ok(())
}

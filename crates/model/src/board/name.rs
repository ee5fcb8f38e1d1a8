//! Names of boards and profiles, and what they mean.
use super::{Board, ProfileIx};
use std::fmt;

/// How far the memory in a profile's name may be from the shape's, percent of the shape's.
const TOLERANCE_PERCENT: u32 = 12;

/// True if two board names are the same but for letter case, `_` or blank for `-`, and leading
/// vendor words: `NVIDIA H100 80GB HBM3` is `h100-80gb-hbm3`.
pub fn same_name(a: &str, b: &str) -> bool {
    let plain = |c| match c {
        b' ' | b'_' => b'-',
        c => c.to_ascii_lowercase(),
    };
    bare(a).bytes().map(plain).eq(bare(b).bytes().map(plain))
}

/// The name without its leading vendor words.
fn bare(name: &str) -> &str {
    let Some((first, rest)) = name.split_once([' ', '_', '-']) else {
        return name;
    };
    let vendor = ["nvidia", "tesla", "amd", "instinct"];
    match vendor.iter().any(|word| first.eq_ignore_ascii_case(word)) {
        true => bare(rest),
        false => name,
    }
}

/// The parts of a profile name such as `1g.10gb+me`, `mig-1g.10gb.me` or `1g.24gb-me`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileName<'a> {
    /// Compute slices.
    pub compute: u8,
    /// Memory as the name has it, GB of the label.
    pub gigabytes: u32,
    /// What follows: empty, `me`, `me.all`, `gfx`, or `-me` for "no media engines".
    pub suffix: &'a str,
}

impl<'a> ProfileName<'a> {
    /// Splits a name; `None` if it is not of the form `<g>g.<gb>gb<suffix>`. A suffix may be
    /// written with `+` as drivers do or with `.` as Kubernetes resource names do.
    pub fn parse(name: &'a str) -> Option<Self> {
        let name = name.strip_prefix("mig-").unwrap_or(name);
        let (compute, rest) = name.split_once("g.")?;
        let (gigabytes, rest) = rest.split_once("gb")?;
        let digits = |text: &str| text.bytes().all(|c| c.is_ascii_digit());
        if !digits(compute) || !digits(gigabytes) {
            return None;
        }
        let suffix = match rest.as_bytes().first() {
            None | Some(b'-') => rest,
            Some(b'+' | b'.') => &rest[1..],
            Some(_) => return None,
        };
        if rest.len() == 1 {
            return None;
        }
        Some(Self {
            compute: compute.parse().ok()?,
            gigabytes: gigabytes.parse().ok()?,
            suffix,
        })
    }
}

/// A profile name that means no shape of a board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoProfile {
    /// The name asked for.
    pub asked: String,
    /// The board's name.
    pub board: String,
    /// Names of the board's profiles; empty where it cannot be cut.
    pub known: Vec<String>,
}

impl fmt::Display for NoProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            asked,
            board,
            known,
        } = self;
        if known.is_empty() {
            return write!(
                f,
                "board {board} has no profile {asked}: it cannot be cut into instances"
            );
        }
        write!(
            f,
            "board {board} has no profile like {asked}; it has {}",
            known.join(", ")
        )
    }
}

impl std::error::Error for NoProfile {}

pub(super) fn nearest(board: &Board, asked: &str) -> Result<ProfileIx, NoProfile> {
    let known = || board.profiles.iter().map(|p| p.name.clone()).collect();
    let no = || NoProfile {
        asked: asked.into(),
        board: board.name.clone(),
        known: known(),
    };
    let want = ProfileName::parse(asked).ok_or_else(no)?;
    board
        .indices()
        .filter_map(|ix| {
            let have = board.at(ix).parsed();
            let off = have.gigabytes.abs_diff(want.gigabytes);
            let close =
                u64::from(off) * 100 <= u64::from(have.gigabytes) * u64::from(TOLERANCE_PERCENT);
            let same = (have.compute, have.suffix) == (want.compute, want.suffix);
            (same && close).then_some((off, ix))
        })
        .min()
        .map(|(_, ix)| ix)
        .ok_or_else(no)
}

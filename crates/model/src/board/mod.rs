//! Boards (GPU models), their profiles and every legal layout of slices.
//!
//! A board is a line of memory units; a profile is a shape with a size and legal starts on that
//! line. One rule says which sets of instances may stand side by side: they do not overlap, no
//! profile exceeds its count, and no kind of media engine is promised twice. The rule leaves few
//! sets, so [`Layouts`] numbers them all once and a GPU's state is one small integer.
mod catalogue;
mod check;
mod layouts;
mod legal;
mod name;
mod table;

pub use catalogue::{BoardId, Catalogue, UnknownBoard};
pub use check::BoardError;
pub use layouts::{Instance, LayoutId, Layouts};
pub use legal::MAX_LAYOUTS;
pub use name::{NoProfile, ProfileName, same_name};

use crate::units::GPU;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A GPU model with its geometry.
///
/// A value made by [`Board::new`], by deserialising or by the [`Catalogue`] has passed every check
/// of [`BoardError`]; do not edit one in place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct Board {
    /// Canonical name, unique in a catalogue: `A100-80GB`, `H100-80GB-SXM`.
    pub name: String,
    /// The model without its memory or form factor (`H100`), shared by its variants.
    pub family: String,
    /// Other names of exactly this board; letter case, blanks, a vendor prefix do not matter.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Usable memory of the whole GPU, MiB.
    pub memory_mib: u32,
    /// Memory units on the line, 1 for a board that cannot be cut.
    pub units: u8,
    /// Compute slices in the whole board, 1 for a board that cannot be cut.
    pub compute: u8,
    /// Media engines on the whole board.
    #[serde(default)]
    pub engines: Engines,
    /// What switching MIG mode on or off costs.
    #[serde(default)]
    pub mode_change: ModeChange,
    /// Shapes that the board can be cut into; empty for a board without MIG.
    #[serde(default)]
    pub profiles: Vec<Profile>,
}

/// One shape that a board can be cut into.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Name as the driver spells it: `1g.10gb`, `1g.10gb+me`.
    pub name: String,
    /// Compute slices (the g of the name).
    pub compute: u8,
    /// Memory units.
    pub size: u8,
    /// Usable memory, MiB; below what the name promises.
    pub memory_mib: u32,
    /// Units an instance may start at, ascending.
    pub starts: Vec<u8>,
    /// Most instances of this profile on one GPU.
    pub max: u8,
    /// Media engines that one instance takes.
    #[serde(default)]
    pub engines: Engines,
    /// The driver's GPU instance profile id (`nvidia-smi mig -lgip`), not the index to query it by.
    pub gi_profile: u16,
    /// Streaming multiprocessors, where known.
    #[serde(default)]
    pub sm: Option<u16>,
}

/// Media engines, as totals of a board or as taken by one instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Engines {
    /// Video decoders (NVDEC).
    pub decoders: u8,
    /// Video encoders (NVENC).
    pub encoders: u8,
    /// JPEG decoders (NVJPG).
    pub jpegs: u8,
    /// Optical flow accelerators (OFA).
    pub flows: u8,
}

/// What it takes to switch MIG mode on or off. The whole GPU must be idle in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModeChange {
    /// The board has no MIG mode.
    #[default]
    Never,
    /// A GPU reset (a reboot where the reset is not exposed to the machine): Ampere.
    Reset,
    /// No reset: Hopper and later.
    Live,
}

/// Position of a profile in [`Board::profiles`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProfileIx(pub u8);

impl Engines {
    /// Sum by kind.
    pub fn plus(self, other: Self) -> Self {
        Self {
            decoders: self.decoders.saturating_add(other.decoders),
            encoders: self.encoders.saturating_add(other.encoders),
            jpegs: self.jpegs.saturating_add(other.jpegs),
            flows: self.flows.saturating_add(other.flows),
        }
    }

    /// True if no kind exceeds what `total` has of it.
    pub fn within(self, total: Self) -> bool {
        self.decoders <= total.decoders
            && self.encoders <= total.encoders
            && self.jpegs <= total.jpegs
            && self.flows <= total.flows
    }
}

impl Profile {
    /// The parts of the profile's name.
    pub fn parsed(&self) -> ProfileName<'_> {
        ProfileName::parse(&self.name).expect("a checked board has parsable profile names")
    }

    /// True if instances run graphics APIs (`+gfx`).
    pub fn graphics(&self) -> bool {
        self.parsed().suffix == "gfx"
    }
}

impl Board {
    /// Checks the rows and passes them on.
    ///
    /// # Errors
    /// The first rule of [`BoardError`] that the rows break.
    pub fn new(rows: Self) -> Result<Self, BoardError> {
        check::check(&rows)?;
        Ok(rows)
    }

    /// True if an ask that names `name` may run on this board: by its name, an alias or its family.
    pub fn answers_to(&self, name: &str) -> bool {
        self.is_called(name) || same_name(&self.family, name)
    }

    /// True if `name` means exactly this board: its name or an alias.
    pub fn is_called(&self, name: &str) -> bool {
        same_name(&self.name, name) || self.aliases.iter().any(|alias| same_name(alias, name))
    }

    /// The shape that a profile name means here.
    ///
    /// Names are labels of shapes and shift with drivers: `3g.39gb` and `3g.40gb` are one shape on
    /// an A100-80GB. The shape has the same compute slices and suffix and the nearest memory.
    ///
    /// # Errors
    /// No shape's memory is within 12 % of the name's, or the name is malformed.
    pub fn profile(&self, name: &str) -> Result<ProfileIx, NoProfile> {
        name::nearest(self, name)
    }

    /// The profile at `ix`.
    pub fn at(&self, ix: ProfileIx) -> &Profile {
        &self.profiles[usize::from(ix.0)]
    }

    /// All profile positions in order.
    pub fn indices(&self) -> impl ExactSizeIterator<Item = ProfileIx> + use<> {
        (0..self.profiles.len() as u8).map(ProfileIx)
    }

    /// Weight of one instance in GPU units: half its compute share plus half its memory share.
    ///
    /// Memory never overlaps and compute never exceeds the board, so a legal layout sums to at most
    /// [`GPU`]. Each half is rounded down on boards whose slices do not divide it.
    pub fn weight(&self, ix: ProfileIx) -> u32 {
        let profile = self.at(ix);
        let half = |part: u8, whole: u8| GPU / 2 * u32::from(part) / u32::from(whole);
        half(profile.compute, self.compute) + half(profile.size, self.units)
    }

    /// The same board with only the profiles that `keep` accepts, at new positions.
    pub fn only(&self, keep: impl Fn(&Profile) -> bool) -> Self {
        let mut board = self.clone();
        board.profiles.retain(keep);
        if board.profiles.is_empty() {
            board.mode_change = ModeChange::Never;
        }
        board
    }

    /// True if both boards have the same layouts: equal in all but names, memory and ids.
    pub fn same_geometry(&self, other: &Self) -> bool {
        let shape = |p: &Profile| (p.compute, p.size, p.max, p.engines, p.starts.clone());
        (self.units, self.compute, self.engines) == (other.units, other.compute, other.engines)
            && self
                .profiles
                .iter()
                .map(shape)
                .eq(other.profiles.iter().map(shape))
    }
}

impl Serialize for Board {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Board {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(Self::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

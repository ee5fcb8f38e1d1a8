//! The built-in facts of GPU boards.
//!
//! Sources: shapes, starts, counts, ids, memory and engines as `nvidia-smi mig -lgip` and `-lgipp`
//! print them on A30, A100, H100, H100 NVL, GH200, H200, B200, GB200 and RTX PRO 6000 hardware, in
//! public reports; NVIDIA's MIG user guide, "Supported MIG Profiles". Not seen printed, but
//! following from the pattern: starts on H200, B200, GB200; memory and engines of 3g, 4g, 7g on
//! B200 and GB200. Memory and names shift a little with drivers, so a real device's answer wins.
use super::{Board, Engines, ModeChange, Profile};

/// The shapes that boards of one line length share.
struct Geometry {
    units: u8,
    compute: u8,
    /// Sizes in ascending order; a board's memory is listed by them.
    sizes: &'static [u8],
    shapes: &'static [Shape],
}

struct Shape {
    compute: u8,
    size: u8,
    suffix: &'static str,
    starts: &'static [u8],
    max: u8,
    gi_profile: u16,
}

/// What is particular to one board that can be cut.
struct Card {
    name: &'static str,
    family: &'static str,
    aliases: &'static [&'static str],
    mode_change: ModeChange,
    geometry: &'static Geometry,
    /// By size: GB in the profile's name, usable MiB. The last is the whole GPU.
    memory: &'static [(u32, u32)],
    /// By shape; the last entry of a geometry's media is the board's total.
    media: &'static [Engines],
    /// By shape, 0 where not known.
    sm: &'static [u16],
}

const fn shape(
    (compute, size, suffix): (u8, u8, &'static str),
    starts: &'static [u8],
    max: u8,
    gi_profile: u16,
) -> Shape {
    Shape {
        compute,
        size,
        suffix,
        starts,
        max,
        gi_profile,
    }
}

/// Decoders, encoders, JPEG decoders, optical flow accelerators.
const fn media(decoders: u8, encoders: u8, jpegs: u8, flows: u8) -> Engines {
    Engines {
        decoders,
        encoders,
        jpegs,
        flows,
    }
}

/// Units 0 to 6 carry a compute slice each, unit 7 memory only: hence 4g only at 0, no 2g at 6.
static EIGHT: Geometry = Geometry {
    units: 8,
    compute: 7,
    sizes: &[1, 2, 4, 8],
    shapes: &[
        shape((1, 1, ""), &[0, 1, 2, 3, 4, 5, 6], 7, 19),
        shape((1, 1, "+me"), &[0, 1, 2, 3, 4, 5, 6], 1, 20),
        shape((1, 2, ""), &[0, 2, 4, 6], 4, 15),
        shape((2, 2, ""), &[0, 2, 4], 3, 14),
        shape((3, 4, ""), &[0, 4], 2, 9),
        shape((4, 4, ""), &[0], 1, 5),
        shape((7, 8, ""), &[0], 1, 0),
    ],
};

static FOUR: Geometry = Geometry {
    units: 4,
    compute: 4,
    sizes: &[1, 2, 4],
    shapes: &[
        shape((1, 1, ""), &[0, 1, 2, 3], 4, 14),
        shape((1, 1, "+me"), &[0, 1, 2, 3], 1, 21),
        shape((2, 2, ""), &[0, 2], 2, 5),
        shape((2, 2, "+me"), &[0, 2], 1, 6),
        shape((4, 4, ""), &[0], 1, 0),
    ],
};

static TWELVE: Geometry = Geometry {
    units: 12,
    compute: 4,
    sizes: &[3, 6, 12],
    shapes: &[
        shape((1, 3, ""), &[0, 3, 6, 9], 4, 14),
        shape((1, 3, "+me"), &[0, 3, 6, 9], 1, 21),
        shape((1, 3, "+gfx"), &[0, 3, 6, 9], 4, 47),
        shape((1, 3, "+me.all"), &[0, 3, 6, 9], 1, 65),
        shape((1, 3, "-me"), &[0, 3, 6, 9], 4, 67),
        shape((2, 6, ""), &[0, 6], 2, 5),
        shape((2, 6, "+gfx"), &[0, 6], 2, 35),
        shape((2, 6, "+me.all"), &[0, 6], 1, 64),
        shape((2, 6, "-me"), &[0, 6], 2, 66),
        shape((4, 12, ""), &[0], 1, 0),
        shape((4, 12, "+gfx"), &[0], 1, 32),
    ],
};

/// By shape of [`EIGHT`]: A100.
const AMPERE: &[Engines] = &[
    media(0, 0, 0, 0),
    media(1, 0, 1, 1),
    media(1, 0, 0, 0),
    media(1, 0, 0, 0),
    media(2, 0, 0, 0),
    media(2, 0, 0, 0),
    media(5, 0, 1, 1),
];

/// By shape of [`EIGHT`]: Hopper and data-centre Blackwell.
const HOPPER: &[Engines] = &[
    media(1, 0, 1, 0),
    media(1, 0, 1, 1),
    media(1, 0, 1, 0),
    media(2, 0, 2, 0),
    media(3, 0, 3, 0),
    media(4, 0, 4, 0),
    media(7, 0, 7, 1),
];

/// By shape of [`FOUR`].
const A30: &[Engines] = &[
    media(1, 0, 0, 0),
    media(1, 0, 1, 1),
    media(2, 0, 0, 0),
    media(2, 0, 1, 1),
    media(4, 0, 1, 1),
];

/// By shape of [`TWELVE`].
const RTX: &[Engines] = &[
    media(1, 1, 1, 0),
    media(1, 1, 1, 1),
    media(1, 1, 1, 0),
    media(4, 4, 4, 1),
    media(0, 0, 0, 0),
    media(2, 2, 2, 0),
    media(2, 2, 2, 0),
    media(4, 4, 4, 1),
    media(0, 0, 0, 0),
    media(4, 4, 4, 1),
    media(4, 4, 4, 1),
];

const SM_A100: &[u16] = &[14, 14, 14, 28, 42, 56, 98];
const SM_H100: &[u16] = &[16, 16, 26, 32, 60, 64, 132];

static CARDS: &[Card] = &[
    Card {
        name: "A30",
        family: "A30",
        aliases: &["A30-24GB"],
        mode_change: ModeChange::Reset,
        geometry: &FOUR,
        memory: &[(6, 5952), (12, 11968), (24, 24000)],
        media: A30,
        sm: &[14, 14, 28, 28, 56],
    },
    Card {
        name: "A100-40GB",
        family: "A100",
        aliases: &["A100-40", "A100-SXM4-40GB", "A100-PCIE-40GB"],
        mode_change: ModeChange::Reset,
        geometry: &EIGHT,
        memory: &[(5, 4864), (10, 9856), (20, 19968), (40, 40192)],
        media: AMPERE,
        sm: SM_A100,
    },
    Card {
        name: "A100-80GB",
        family: "A100",
        aliases: &["A100-80", "A100-SXM4-80GB", "A100-80GB-PCIe"],
        mode_change: ModeChange::Reset,
        geometry: &EIGHT,
        memory: &[(10, 9728), (20, 19968), (40, 40192), (80, 80896)],
        media: AMPERE,
        sm: SM_A100,
    },
    Card {
        name: "H100-80GB-SXM",
        family: "H100",
        aliases: &[
            "H100",
            "H100-80",
            "H100-80GB",
            "H100-SXM",
            "H100-SXM5-80GB",
            "H100-80GB-HBM3",
        ],
        mode_change: ModeChange::Live,
        geometry: &EIGHT,
        memory: &[(10, 9984), (20, 20096), (40, 40448), (80, 81152)],
        media: HOPPER,
        sm: SM_H100,
    },
    Card {
        name: "H100-80GB-PCIE",
        family: "H100",
        aliases: &["H100-PCIe"],
        mode_change: ModeChange::Live,
        geometry: &EIGHT,
        memory: &[(10, 9984), (20, 20096), (40, 40448), (80, 81152)],
        media: HOPPER,
        sm: &[0, 0, 0, 0, 0, 0, 114],
    },
    Card {
        name: "H100-94GB-NVL",
        family: "H100",
        aliases: &["H100-94", "H100-94GB", "H100-NVL"],
        mode_change: ModeChange::Live,
        geometry: &EIGHT,
        memory: &[(12, 11008), (24, 22144), (47, 47488), (94, 95360)],
        media: HOPPER,
        sm: SM_H100,
    },
    Card {
        name: "H100-96GB-GH200",
        family: "H100",
        aliases: &["GH200", "GH200-96GB", "GH200-480GB", "H100-96GB"],
        mode_change: ModeChange::Live,
        geometry: &EIGHT,
        memory: &[(12, 11264), (24, 23552), (48, 47616), (96, 95232)],
        media: HOPPER,
        sm: SM_H100,
    },
    Card {
        name: "H200-141GB",
        family: "H200",
        aliases: &["H200", "H200-141", "H200-SXM"],
        mode_change: ModeChange::Live,
        geometry: &EIGHT,
        memory: &[(18, 16384), (35, 33024), (71, 71168), (141, 143104)],
        media: HOPPER,
        sm: SM_H100,
    },
    Card {
        name: "B200-180GB",
        family: "B200",
        aliases: &["B200", "B200-180"],
        mode_change: ModeChange::Live,
        geometry: &EIGHT,
        memory: &[(23, 20992), (45, 45312), (90, 91136), (180, 182784)],
        media: HOPPER,
        sm: &[18, 18, 30, 36, 0, 0, 148],
    },
    Card {
        name: "GB200-186GB",
        family: "GB200",
        aliases: &["GB200", "GB200-186"],
        mode_change: ModeChange::Live,
        geometry: &EIGHT,
        memory: &[(23, 22528), (47, 46592), (93, 94208), (186, 189440)],
        media: HOPPER,
        sm: &[18, 18, 32, 38, 0, 0, 152],
    },
    Card {
        name: "RTX-PRO-6000-Blackwell-96GB",
        family: "RTX-PRO-6000",
        aliases: &[
            "RTX-PRO-6000",
            "RTX-PRO-6000-Blackwell",
            "RTX-PRO-6000-Blackwell-Server-Edition",
            "RTX-PRO-6000-Blackwell-Workstation-Edition",
            "RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition",
        ],
        mode_change: ModeChange::Live,
        geometry: &TWELVE,
        memory: &[(24, 24192), (48, 48512), (96, 97408)],
        media: RTX,
        sm: &[46, 46, 46, 46, 46, 94, 94, 94, 94, 188, 188],
    },
];

/// Boards that cannot be cut: name, family, usable MiB, aliases.
///
/// Memory as the driver reports it. Of T4, A10, V100, P100, G2 and G3 it is what the authors of the
/// openb trace use. G2 and G3 are that trace's anonymised models, and their 20,000 and 30,000 MiB
/// are stand-ins, not facts about any product. MI300X is split by modes (SPX to CPX), a mechanism
/// apart from profiles.
const WHOLE: &[(&str, &str, u32, &[&str])] = &[
    ("T4", "T4", 15109, &["T4-16GB"]),
    ("L4", "L4", 23034, &["L4-24GB"]),
    ("L40S", "L40S", 46068, &["L40S-48GB"]),
    ("A10", "A10", 22731, &["A10-24GB"]),
    (
        "V100-16GB",
        "V100",
        16160,
        &["V100M16", "V100-SXM2-16GB", "V100-PCIE-16GB"],
    ),
    (
        "V100-32GB",
        "V100",
        32510,
        &["V100M32", "V100-SXM2-32GB", "V100-PCIE-32GB"],
    ),
    (
        "P100",
        "P100",
        16280,
        &["P100-16GB", "P100-PCIE-16GB", "P100-SXM2-16GB"],
    ),
    ("G2", "G2", 20000, &[]),
    ("G3", "G3", 30000, &[]),
    ("MI300X", "MI300X", 196_608, &["MI300X-192GB", "MI300X-OAM"]),
];

/// Every board of the table.
pub(super) fn boards() -> impl Iterator<Item = Board> {
    CARDS.iter().map(cut).chain(WHOLE.iter().map(whole))
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.into()).collect()
}

fn whole(&(name, family, memory_mib, aliases): &(&str, &str, u32, &[&str])) -> Board {
    Board {
        name: name.into(),
        family: family.into(),
        aliases: owned(aliases),
        memory_mib,
        units: 1,
        compute: 1,
        engines: Engines::default(),
        mode_change: ModeChange::Never,
        profiles: Vec::new(),
    }
}

fn cut(card: &Card) -> Board {
    let &Card {
        geometry,
        memory,
        media,
        sm,
        ..
    } = card;
    let profile = |(ix, shape): (usize, &Shape)| {
        let by_size = geometry.sizes.partition_point(|&size| size < shape.size);
        let (gigabytes, memory_mib) = memory[by_size];
        Profile {
            name: format!("{}g.{gigabytes}gb{}", shape.compute, shape.suffix),
            compute: shape.compute,
            size: shape.size,
            memory_mib,
            starts: shape.starts.to_vec(),
            max: shape.max,
            engines: media[ix],
            gi_profile: shape.gi_profile,
            sm: Some(sm[ix]).filter(|&count| count > 0),
        }
    };
    Board {
        name: card.name.into(),
        family: card.family.into(),
        aliases: owned(card.aliases),
        memory_mib: memory[memory.len() - 1].1,
        units: geometry.units,
        compute: geometry.compute,
        engines: media[media.len() - 1],
        mode_change: card.mode_change,
        profiles: geometry.shapes.iter().enumerate().map(profile).collect(),
    }
}

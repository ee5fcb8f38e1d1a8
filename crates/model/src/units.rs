//! Quantities as integers: GPU units, milli-cores, MiB and bytes, milliseconds.

/// Units in one whole GPU: sevenths, eighths, twelfths and thousandths are exact in it.
pub const GPU: u32 = 840_000;

/// Virtual or wall time in milliseconds since an epoch that the shell chooses.
pub type Millis = u64;

//! Quantities with their units, read exactly: integers only, no floats.
//!
//! Every quantity prints as text that reads back to the same value.

use cleave_model::units::GPU;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use std::{borrow::Cow, fmt, marker::PhantomData, str::FromStr};

/// A time span in milliseconds: `2h30m`, `1500ms`, `1.5s`, `0`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(pub u64);

/// Memory in bytes: `512GiB`, `16GB`, `1048576`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Memory(pub u64);

/// Processor time in milli-cores: `64`, `1.5`, `500m`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cpu(pub u64);

/// GPUs or a part of one, in GPU units (`cleave_model::GPU` is a whole one): `6`, `0.25`, `1/7`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GpuAmount(pub u64);

/// Money per hour in millionths of the currency: `3.50/h/gpu`, `98.32/h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Price {
    /// Millionths of the currency per hour.
    pub micros: u64,
    /// For each GPU, or for the whole node.
    pub per_gpu: bool,
}

/// A decimal number as written: `digits` / 10^`scale`.
struct Decimal {
    digits: u128,
    scale: u32,
}

impl Decimal {
    /// Reads `12`, `0.25`, `.5`; no sign, no exponent, at most 18 digits.
    fn read(text: &str) -> Option<Self> {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let digits = format!("{whole}{part}");
        let plain = digits.bytes().all(|c| c.is_ascii_digit());
        if !plain || digits.is_empty() || digits.len() > 18 || text.ends_with('.') {
            return None;
        }
        Some(Self {
            digits: digits.parse().ok()?,
            scale: part.len() as u32,
        })
    }

    /// This many times `unit`, if that is a whole number.
    fn times(&self, unit: u64) -> Option<u64> {
        let (all, ten) = (self.digits * u128::from(unit), 10u128.pow(self.scale));
        if all % ten == 0 {
            u64::try_from(all / ten).ok()
        } else {
            None
        }
    }

    /// This many times `unit`, rounded up.
    fn times_up(&self, unit: u64) -> Option<u64> {
        let (all, ten) = (self.digits * u128::from(unit), 10u128.pow(self.scale));
        u64::try_from(all.div_ceil(ten)).ok()
    }
}

/// Splits `12.5GiB` into `12.5` and `GiB`.
fn split(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    text.split_at(end)
}

const TIMES: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

const SIZES: [(&str, u64); 11] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1_000),
    ("kB", 1_000),
    ("B", 1),
    ("", 1),
];

fn bad(text: &str, what: &str) -> String {
    let shown: String = text.chars().take(40).collect();
    format!("`{}` is not {what}", shown.escape_debug())
}

impl Duration {
    /// Ten years: nothing that a file says takes longer.
    pub const MAX: Self = Self(10 * 365 * 24 * 3_600_000);
}

impl FromStr for Duration {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let fail = || bad(text, Self::WHAT);
        if text == "0" {
            return Ok(Self(0));
        }
        let (mut rest, mut sum, mut last) = (text, 0u64, u64::MAX);
        while !rest.is_empty() {
            let (number, tail) = split(rest);
            let end = tail
                .find(|c: char| c.is_ascii_digit())
                .unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(end);
            let unit = TIMES
                .iter()
                .find(|(name, _)| *name == unit)
                .ok_or_else(fail)?
                .1;
            let part = Decimal::read(number)
                .and_then(|n| n.times(unit))
                .ok_or_else(fail)?;
            if unit >= last {
                return Err(fail());
            }
            sum = sum.checked_add(part).ok_or_else(fail)?;
            (rest, last) = (tail, unit);
        }
        if last == u64::MAX {
            Err(fail())
        } else if sum > Self::MAX.0 {
            Err(format!("`{text}` is too long: {} at most", Self::MAX))
        } else {
            Ok(Self(sum))
        }
    }
}

impl FromStr for Memory {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let fail = || bad(text, Self::WHAT);
        let (number, unit) = split(text);
        let unit = SIZES
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(fail)?
            .1;
        Decimal::read(number)
            .and_then(|n| n.times_up(unit))
            .map(Self)
            .ok_or_else(fail)
    }
}

impl Memory {
    /// In MiB, rounded up.
    pub fn mib(self) -> u64 {
        self.0.div_ceil(1 << 20)
    }

    /// Whether `text` ends like a memory size with a unit.
    pub(crate) fn looks_like(text: &str) -> bool {
        let (number, unit) = split(text);
        !number.is_empty() && unit.ends_with(['B', 'b', 'i', 'G', 'M', 'T'])
    }
}

impl FromStr for Cpu {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let fail = || bad(text, Self::WHAT);
        let (number, unit) = match text.strip_suffix('m') {
            Some(number) => (number, 1),
            None => (text, 1000),
        };
        Decimal::read(number)
            .and_then(|n| n.times(unit))
            .map(Self)
            .ok_or_else(fail)
    }
}

impl FromStr for GpuAmount {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let fail = || bad(text, Self::WHAT);
        let unit = u64::from(GPU);
        let units = match text.split_once('/') {
            None => Decimal::read(text).ok_or_else(fail)?.times(unit),
            Some((part, whole)) => {
                let part: u64 = part.parse().map_err(|_| fail())?;
                let whole: u64 = whole.parse().map_err(|_| fail())?;
                let all = part.checked_mul(unit).ok_or_else(fail)?;
                all.checked_rem(whole)
                    .filter(|rest| *rest == 0)
                    .map(|_| all / whole)
            }
        };
        units.map(Self).ok_or_else(|| {
            format!(
                "`{text}` of a GPU can't be counted exactly: use at most four decimals, or a \
                 fraction in sevenths, eighths, twelfths or thousandths such as 1/7"
            )
        })
    }
}

impl FromStr for Price {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let fail = || bad(text, Self::WHAT);
        let (number, per_gpu) = match (text.strip_suffix("/h/gpu"), text.strip_suffix("/h")) {
            (Some(number), _) => (number, true),
            (_, Some(number)) => (number, false),
            _ => return Err(fail()),
        };
        let micros = Decimal::read(number)
            .and_then(|n| n.times(1_000_000))
            .ok_or_else(fail)?;
        Ok(Self { micros, per_gpu })
    }
}

/// Writes `n` / 10^`scale` without trailing zeros.
fn write_decimal(f: &mut fmt::Formatter<'_>, n: u64, scale: u32) -> fmt::Result {
    let ten = 10u64.pow(scale);
    let (whole, part) = (n / ten, n % ten);
    if part == 0 {
        return write!(f, "{whole}");
    }
    let part = format!("{part:0width$}", width = scale as usize);
    write!(f, "{whole}.{}", part.trim_end_matches('0'))
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return write!(f, "0s");
        }
        let mut rest = self.0;
        for (name, unit) in TIMES {
            if rest >= unit {
                write!(f, "{}{name}", rest / unit)?;
                rest %= unit;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |(name, unit): &&(&str, u64)| {
            name.contains('i') && self.0 >= *unit && self.0.is_multiple_of(*unit)
        };
        match SIZES.iter().find(fits) {
            Some((name, unit)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}B", self.0),
        }
    }
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.0, 3)
    }
}

impl fmt::Display for GpuAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // 84 units are a ten-thousandth of a GPU.
        if self.0.is_multiple_of(84) {
            return write_decimal(f, self.0 / 84, 4);
        }
        let unit = u64::from(GPU);
        let whole = (1..).find(|d| unit % d == 0 && self.0.is_multiple_of(unit / d));
        let whole = whole.expect("units divide a GPU");
        write!(f, "{}/{whole}", self.0 / (unit / whole))
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.micros, 6)?;
        write!(f, "{}", if self.per_gpu { "/h/gpu" } else { "/h" })
    }
}

/// Reads a scalar as its text, whatever it looks like, and hands it to [`FromStr`].
pub(crate) fn from_text<'de, T, D>(deserializer: D, what: &'static str) -> Result<T, D::Error>
where
    T: FromStr<Err = String>,
    D: Deserializer<'de>,
{
    struct Text<T>(&'static str, PhantomData<T>);
    impl<T: FromStr<Err = String>> de::Visitor<'_> for Text<T> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }
    }
    deserializer.deserialize_str(Text(what, PhantomData))
}

macro_rules! quantity {
    ($type:ident, $what:literal, $schema:expr) => {
        impl $type {
            const WHAT: &'static str = $what;
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                from_text(deserializer, Self::WHAT)
            }
        }
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let mut schema = $schema;
                schema.insert("description".into(), $what.into());
                schema
            }
        }
    };
}

quantity!(
    Duration,
    "a time span such as 2h30m, 90s or 1500ms (units d, h, m, s, ms, largest first)",
    json_schema!({
        "type": ["string", "integer"],
        "pattern": r"^(0|([0-9.]+(d|h|m|s|ms))+)$",
        "minimum": 0,
        "maximum": 0,
    })
);
quantity!(
    Memory,
    "a memory size such as 512GiB, 16GB or a number of bytes",
    json_schema!({
        "type": ["string", "number"],
        "pattern": r"^[0-9.]+((T|G|M|K)iB|(T|G|M|K|k)B|B)?$",
        "minimum": 0,
    })
);
quantity!(
    Cpu,
    "an amount of CPU such as 64 (cores), 1.5 or 500m",
    json_schema!({"type": ["string", "number"], "pattern": r"^[0-9.]+m?$", "minimum": 0})
);
quantity!(
    GpuAmount,
    "an amount of GPU such as 6, 0.25 or 1/7",
    json_schema!({
        "type": ["string", "number"],
        "pattern": r"^([0-9.]+|[0-9]+/[0-9]+)$",
        "minimum": 0,
    })
);
quantity!(
    Price,
    "a price such as 3.50/h/gpu, or 98.32/h for the whole node",
    json_schema!({"type": "string", "pattern": r"^[0-9.]+/h(/gpu)?$"})
);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn same<T: FromStr<Err = String> + fmt::Display + fmt::Debug + PartialEq>(value: T) {
        let text = value.to_string();
        assert_eq!(text.parse::<T>(), Ok(value), "{text}");
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(n: u64, small in 0..1u64 << 40, per_gpu: bool) {
            same(Duration(n % (Duration::MAX.0 + 1)));
            same(Memory(n % 1_000_000_000_000_000_000));
            same(Memory(small << 20));
            same(Cpu(n % 1_000_000_000_000_000_000));
            same(GpuAmount(small));
            same(GpuAmount(small % 840_001));
            same(Price { micros: n % 1_000_000_000_000_000_000, per_gpu });
        }
    }

    #[test]
    fn quantities_are_exact() {
        let read = |text: &str| text.parse::<GpuAmount>().map(|a| a.0).ok();
        for (text, want) in [
            ("1", Some(840_000)),
            ("0.25", Some(210_000)),
            (".5", Some(420_000)),
            ("1/7", Some(120_000)),
            ("0.001", Some(840)),
            ("0.0001", Some(84)),
            ("3/12", Some(210_000)),
            ("0.00001", None),
            ("1/11", None),
            ("1/0", None),
            ("1.", None),
            ("", None),
            ("-1", None),
            ("1e3", None),
            ("99999999999999999999", None),
            ("184467440737095516/1", None),
        ] {
            assert_eq!(read(text), want, "{text}");
        }
        let ms = |text: &str| text.parse::<Duration>().map(|d| d.0).ok();
        assert_eq!(ms("2h30m"), Some(9_000_000));
        assert_eq!(ms("1.5s"), Some(1_500));
        assert_eq!(ms("1.5ms"), None);
        assert_eq!(ms("1s1s"), None);
        assert_eq!(ms("5"), None);
        let bytes = |text: &str| text.parse::<Memory>().map(|m| m.0).ok();
        assert_eq!(bytes("1.5GiB"), Some(3 << 29));
        assert_eq!(bytes("16GB"), Some(16_000_000_000));
        assert_eq!(bytes("1G"), None);
        assert_eq!("500m".parse(), Ok(Cpu(500)));
        assert_eq!("0.0005".parse::<Cpu>().ok(), None);
    }
}

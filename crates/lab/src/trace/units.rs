//! Quantities written as text, read exactly: decimals with a unit, dates, clock times.

/// How to round what a unit does not divide.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Round {
    Nearest,
    /// For asks, which never shrink.
    Up,
}

/// Days from 1970-01-01 to the last day a date may name (year 9999).
const LAST_YEAR: u64 = 9_999;
const DAY_MS: u64 = 86_400_000;

/// `text` (digits, at most one point, no sign or exponent) × `times` ÷ `per`, or none.
pub(super) fn decimal(text: &str, times: u64, per: u64, round: Round) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = whole.len() + fraction.len();
    if digits == 0 || digits > 18 {
        return None;
    }
    let mut value = 0u128;
    for digit in whole.bytes().chain(fraction.bytes()) {
        value = value * 10 + u128::from((digit as char).to_digit(10)?);
    }
    // At most 10^18 × 2^64, and 2^64 × 10^18: both fit 128 bits.
    let dividend = value * u128::from(times);
    let divisor = u128::from(per) * 10u128.pow(fraction.len() as u32);
    let extra = match round {
        Round::Nearest => divisor / 2,
        Round::Up => divisor - 1,
    };
    u64::try_from((dividend + extra) / divisor).ok()
}

/// `YYYY-MM-DD`, with `HH:MM:SS` after a blank or a `T` if there is one, as milliseconds since
/// 1970-01-01. Read as UTC: a final `Z` or ` UTC` changes nothing, other zones are not dates here.
pub(super) fn date_ms(text: &str) -> Option<u64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let text = text.strip_suffix(" UTC").unwrap_or(text);
    let (day, time) = match text.find(['T', ' ']) {
        Some(at) => (&text[..at], clock_ms(&text[at + 1..])?),
        None => (text, 0),
    };
    let mut parts = day.split('-').map(|p| decimal(p, 1, 1, Round::Nearest));
    let (year, month, date) = (parts.next()??, parts.next()??, parts.next()??);
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let months = [
        31,
        28 + u64::from(leap),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let length = *months.get((month as usize).checked_sub(1)?)?;
    let in_range = (1970..=LAST_YEAR).contains(&year) && (1..=length).contains(&date);
    if parts.next().is_some() || !in_range || time >= DAY_MS {
        return None;
    }
    let before = year - 1;
    let leaps = |years: u64| years / 4 - years / 100 + years / 400;
    let years = (year - 1970) * 365 + leaps(before) - leaps(1969);
    let days = years + months[..month as usize - 1].iter().sum::<u64>() + date - 1;
    Some(days * DAY_MS + time)
}

/// `[DAYS-]HH:MM:SS[.fraction]` or `MM:SS[.fraction]` (Slurm's elapsed times) as milliseconds.
pub(super) fn clock_ms(text: &str) -> Option<u64> {
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (decimal(days, 1, 1, Round::Nearest)?, clock),
        None => (0, text),
    };
    let parts: Vec<&str> = clock.split(':').collect();
    let [hours, minutes, seconds] = match parts[..] {
        [h, m, s] => [h, m, s],
        [m, s] => ["0", m, s],
        _ => return None,
    };
    let whole = |part| decimal(part, 1, 1, Round::Nearest);
    let (hours, minutes) = (whole(hours)?, whole(minutes)?);
    let seconds = decimal(seconds, 1_000, 1, Round::Nearest)?;
    if minutes >= 60 || seconds >= 60_000 {
        return None;
    }
    let hours = days.checked_mul(24)?.checked_add(hours)?;
    hours
        .checked_mul(3_600_000)?
        .checked_add(minutes * 60_000 + seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decimals() {
        for (text, times, per, nearest, up) in [
            ("0", 1, 1, Some(0), Some(0)),
            ("12.5", 1_000, 1, Some(12_500), Some(12_500)),
            ("3.0", 1, 1, Some(3), Some(3)),
            (".25", 1_000, 1, Some(250), Some(250)),
            ("0.142857", 1_000, 1, Some(143), Some(143)),
            ("0.1421", 1_000, 1, Some(142), Some(143)),
            ("1025", 1, 1_024, Some(1), Some(2)),
            ("999999999999999999", u64::MAX, 1, None, None),
            ("", 1, 1, None, None),
            (".", 1, 1, None, None),
            ("-1", 1, 1, None, None),
            ("1e3", 1, 1, None, None),
            ("1.2.3", 1, 1, None, None),
            ("١", 1, 1, None, None),
            ("1234567890123456789", 1, 1, None, None),
        ] {
            assert_eq!(decimal(text, times, per, Round::Nearest), nearest, "{text}");
            assert_eq!(decimal(text, times, per, Round::Up), up, "{text} up");
        }
    }

    #[test]
    fn dates_and_clocks() {
        for (text, seconds) in [
            ("1970-01-01", Some(0)),
            ("2020-02-29 12:00:00", Some(1_582_977_600)),
            ("2017-10-03T01:02:03Z", Some(1_506_992_523)),
            ("2000-03-01 00:00:00 UTC", Some(951_868_800)),
            ("2019-02-29", None),
            ("2020-13-01", None),
            ("2020-01-01 24:00:00", None),
            ("1969-12-31", None),
            ("2020-01-01-01", None),
            ("2020-01-01T", None),
        ] {
            assert_eq!(date_ms(text), seconds.map(|s: u64| s * 1_000), "{text}");
        }
        for (text, ms) in [
            ("00:00:01", Some(1_000)),
            ("02:03.5", Some(123_500)),
            ("1-02:03:04", Some(93_784_000)),
            ("123:00:00", Some(442_800_000)),
            ("00:60:00", None),
            ("5", None),
            ("999999999999999999:00:00", None),
        ] {
            assert_eq!(clock_ms(text), ms, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,30}|[0-9:. TZ-]{0,30}") {
            let _ = (date_ms(&text), clock_ms(&text));
            let _ = decimal(&text, u64::MAX, u64::MAX, Round::Up);
        }

        #[test]
        fn dates_count_days(days in 0u64..2_932_896) {
            // Walk the calendar by its own rule: civil date from days, Hinnant's algorithm.
            let shifted = days + 719_468;
            let (era, of_era) = (shifted / 146_097, shifted % 146_097);
            let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
            let of_year = of_era - (365 * year + year / 4 - year / 100);
            let m = (5 * of_year + 2) / 153;
            let d = of_year - (153 * m + 2) / 5 + 1;
            let month = if m < 10 { m + 3 } else { m - 9 };
            let year = year + era * 400 + u64::from(month <= 2);
            prop_assert_eq!(date_ms(&format!("{year:04}-{month:02}-{d:02}")), Some(days * DAY_MS));
        }
    }
}

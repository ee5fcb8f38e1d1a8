//! Words and widths: ages, sizes, cut and wrapped text.

use std::io::IsTerminal;

/// Width of text where nobody says how wide the screen is.
pub const WIDTH: usize = 80;
/// Narrower than this, tables become two lines for each row.
pub const NARROW: usize = 60;

/// Columns and lines of the terminal that standard output is, if it is one.
pub fn screen_size() -> Option<(usize, usize)> {
    let out = std::io::stdout();
    if !out.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(&out).ok()?;
    let (columns, rows) = (usize::from(size.ws_col), usize::from(size.ws_row));
    (columns > 0 && rows > 0).then_some((columns, rows))
}

/// How wide text may be.
pub fn width() -> usize {
    screen_size().map_or(WIDTH, |(columns, _)| columns.clamp(20, 160))
}

/// A span of time, roughly: `45s`, `12m`, `3h20m`, `5d`.
pub fn span(ms: u64) -> String {
    let seconds = ms / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{minutes}m"),
        7_200..172_800 if minutes.is_multiple_of(60) => format!("{hours}h"),
        7_200..172_800 => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d"),
    }
}

/// Memory as people write it: `9.5 GiB`, `512 MiB`.
pub fn mib(mib: u64) -> String {
    match mib {
        0..1024 => format!("{mib} MiB"),
        _ if mib.is_multiple_of(1024) => format!("{} GiB", mib / 1024),
        _ => format!("{:.1} GiB", mib as f64 / 1024.0),
    }
}

/// Milli-cores as people count cores.
pub fn cores(milli: u64) -> String {
    if milli.is_multiple_of(1000) {
        (milli / 1000).to_string()
    } else {
        format!("{:.1}", milli as f64 / 1000.0)
    }
}

/// Text without what would move a terminal's cursor or colour it.
pub fn tame(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(plain).collect()
}

/// At most `most` characters, the last of them `…` where something is left out.
pub fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.into();
    }
    text.chars()
        .take(most.saturating_sub(1))
        .chain(['…'])
        .collect()
}

/// Text in lines of at most `width` characters, longer words aside, each after the first indented
/// by `indent`.
pub fn wrap(text: &str, width: usize, indent: usize) -> String {
    let mut out = String::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if used > indent && used + 1 + length > width {
            out.push('\n');
            out += &" ".repeat(indent);
            used = indent;
        } else if !out.is_empty() {
            out.push(' ');
            used += 1;
        }
        out += word;
        used += length;
    }
    out
}

/// `1 job`, `3 jobs`.
pub fn count(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", crate::table::grouped(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_sizes() {
        for (ms, text) in [
            (0, "0s"),
            (119_999, "119s"),
            (120_000, "2m"),
            (7_200_000, "2h"),
            (12_000_000, "3h20m"),
            (172_800_000, "2d"),
        ] {
            assert_eq!(span(ms), text);
        }
        for (size, text) in [(512, "512 MiB"), (9728, "9.5 GiB"), (81_920, "80 GiB")] {
            assert_eq!(mib(size), text);
        }
        assert_eq!((cores(4000), cores(500)), ("4".into(), "0.5".into()));
    }

    #[test]
    fn text_is_cut_and_wrapped() {
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("äbc", 3), "äbc");
        assert_eq!(wrap("one two three four", 9, 2), "one two\n  three\n  four");
        assert_eq!(wrap("long-word x", 4, 0), "long-word\nx");
        assert_eq!(tame("a\u{1b}[2Jb"), "a [2Jb");
    }
}

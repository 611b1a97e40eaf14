//! Sizes and durations as people write them; the same strict rules as in access specifications.

/// Bytes per unit; binary units only, so that `4k` cannot mean two things.
const SIZE_UNITS: [(&str, u64); 5] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// Nanoseconds per unit.
const TIME_UNITS: [(&str, u64); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// What a size looks like, for messages.
pub const SIZE_EXPECTED: &str = "a size with a unit (B, KiB, MiB, GiB, TiB), e.g. 64MiB";

/// What a duration looks like, for messages.
pub const TIME_EXPECTED: &str = "a duration with a unit (ns, us, ms, s, min, h), e.g. 30ms";

/// `"4KiB"` to bytes; a bare `0` needs no unit. None if the text is no size below 2^63.
pub fn parse_size(text: &str) -> Option<u64> {
    parse_scaled(text, &SIZE_UNITS)
}

/// `"1.5ms"` to nanoseconds; a bare `0` needs no unit. None if the text is no duration below 2^63 ns.
pub fn parse_duration_ns(text: &str) -> Option<u64> {
    parse_scaled(text, &TIME_UNITS)
}

/// `4096` as `4KiB`: the largest unit that divides it.
pub fn format_size(bytes: u64) -> String {
    format_scaled(bytes, &SIZE_UNITS)
}

/// `30_000_000` as `30ms`: the largest unit that divides it.
pub fn format_duration_ns(ns: u64) -> String {
    format_scaled(ns, &TIME_UNITS)
}

fn format_scaled(value: u64, units: &[(&str, u64)]) -> String {
    let fits = |(_, scale): &&(&str, u64)| value >= *scale && value.is_multiple_of(*scale);
    let (name, scale) = units.iter().rev().find(fits).unwrap_or(&units[0]);
    format!("{}{name}", value / scale)
}

fn parse_scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(split);
    let scale = u128::from(units.iter().find(|(name, _)| *name == unit)?.1);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.len() > 19 || fraction.len() > 19 {
        return None;
    }
    let (whole, parts): (u128, u128) = (whole.parse().ok()?, fraction.parse().ok()?);
    let ten_to = 10u128.pow(fraction.len() as u32);
    // Exact or not at all: 0.3ns is no whole number of nanoseconds.
    if !(parts * scale).is_multiple_of(ten_to) {
        return None;
    }
    i64::try_from(whole * scale + parts * scale / ten_to)
        .ok()
        .map(|value| value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantities() {
        assert_eq!(parse_size("4KiB"), Some(4096));
        assert_eq!(parse_size("1.5GiB"), Some(1_610_612_736));
        assert_eq!(parse_size("0"), Some(0));
        assert_eq!(parse_duration_ns("30ms"), Some(30_000_000));
        assert_eq!(parse_duration_ns("2.5us"), Some(2_500));
        for text in [
            "", "4", "4k", "4KB", "KiB", "-4KiB", "4 KiB", "1.2.3KiB", ".5KiB", "4.KiB", "0.3B",
        ] {
            assert_eq!(parse_size(text), None, "{text:?}");
        }
        assert_eq!(parse_size("9999999999TiB"), None);
        assert_eq!(parse_duration_ns("10m"), None);
        assert_eq!(format_size(3 << 20), "3MiB");
        assert_eq!(format_duration_ns(90_000_000_000), "90s");
    }

    proptest! {
        #[test]
        fn round_trip(value in 0u64..(1 << 62)) {
            prop_assert_eq!(parse_size(&format_size(value)), Some(value));
            prop_assert_eq!(parse_duration_ns(&format_duration_ns(value)), Some(value));
        }

        #[test]
        fn no_text_panics(text in ".{0,24}") {
            let _ = (parse_size(&text), parse_duration_ns(&text));
        }
    }
}

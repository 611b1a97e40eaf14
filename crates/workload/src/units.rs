//! Quantities with units, as people write them. Strict: no unit means an error, not a guess.

/// Bytes per unit; binary units only, so that `4k` cannot mean two things.
pub const SIZE_UNITS: [(&str, u64); 5] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// Nanoseconds per unit.
pub const TIME_UNITS: [(&str, u64); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// `"4KiB"`, `"1.5 GiB"` to bytes. Errors say what is wrong with the text.
pub fn parse_size(text: &str) -> Result<u64, String> {
    parse_scaled(text, &SIZE_UNITS)
}

/// `"10s"`, `"1.5 ms"` to nanoseconds.
pub fn parse_duration_ns(text: &str) -> Result<u64, String> {
    parse_scaled(text, &TIME_UNITS)
}

/// `"60%"` or `"0.5%"` to parts per million (0..=1,000,000).
pub fn parse_percent_ppm(text: &str) -> Result<u32, String> {
    let ppm = parse_scaled(text, &[("%", 10_000)])?;
    if ppm > 1_000_000 {
        return Err("more than 100%".into());
    }
    Ok(ppm as u32)
}

/// `"5000/s"` to operations per second.
pub fn parse_rate_per_s(text: &str) -> Result<u64, String> {
    parse_scaled(text, &[("/s", 1)])
}

/// `4096` as `4 KiB`: the largest unit that divides it.
pub fn format_size(bytes: u64) -> String {
    let unit = SIZE_UNITS
        .iter()
        .rev()
        .find(|(_, scale)| bytes >= *scale && bytes.is_multiple_of(*scale));
    let (name, scale) = unit.unwrap_or(&SIZE_UNITS[0]);
    format!("{} {name}", bytes / scale)
}

/// A decimal number and a unit of `units`; the product must be a whole number that fits 63 bits.
fn parse_scaled(text: &str, units: &[(&str, u64)]) -> Result<u64, String> {
    let names = || units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_')
        .unwrap_or(text.len());
    let (number, unit) = (&text[..split], text[split..].trim_start_matches(' '));
    if unit.is_empty() {
        return Err(format!("no unit (one of {})", names()));
    }
    let Some((_, scale)) = units.iter().find(|(name, _)| *name == unit) else {
        return Err(format!("unknown unit {unit:?} (one of {})", names()));
    };
    let value = parse_decimal(number, *scale)?;
    i64::try_from(value)
        .map(|v| v as u64)
        .map_err(|_| "too large".into())
}

/// `number` times `scale`, exactly.
fn parse_decimal(number: &str, scale: u64) -> Result<u128, String> {
    let bad = || format!("{number:?} is no decimal number");
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |s: &str| !s.is_empty() && s.len() <= 19 && s.bytes().all(|b| b.is_ascii_digit());
    let has_point = number.contains('.');
    if !digits(whole) || (has_point && !digits(fraction)) {
        return Err(bad());
    }
    let whole: u128 = whole.parse().map_err(|_| bad())?;
    if !has_point {
        return Ok(whole * u128::from(scale));
    }
    let parts: u128 = fraction.parse().map_err(|_| bad())?;
    let ten_to = 10u128.pow(fraction.len() as u32);
    let scaled = parts * u128::from(scale);
    if !scaled.is_multiple_of(ten_to) {
        return Err(format!(
            "{number} of this unit is no whole number of the smallest unit"
        ));
    }
    Ok(whole * u128::from(scale) + scaled / ten_to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn good_quantities() {
        assert_eq!(parse_size("4KiB"), Ok(4096));
        assert_eq!(parse_size("1.5 GiB"), Ok(1_610_612_736));
        assert_eq!(parse_size("0B"), Ok(0));
        assert_eq!(parse_duration_ns("10s"), Ok(10_000_000_000));
        assert_eq!(parse_duration_ns("2.5us"), Ok(2500));
        assert_eq!(parse_percent_ppm("60%"), Ok(600_000));
        assert_eq!(parse_percent_ppm("0.1%"), Ok(1000));
        assert_eq!(parse_rate_per_s("5000/s"), Ok(5000));
    }

    #[test]
    fn bad_quantities_are_refused() {
        let sizes = [
            "", "4", "4k", "4KB", "KiB", "-4KiB", "4 KiB x", "1.2.3KiB", ".5KiB", "4.KiB", "0.3B",
        ];
        for text in sizes {
            assert!(parse_size(text).is_err(), "{text:?} was taken");
        }
        assert!(parse_size("9999999999 TiB").unwrap_err().contains("too large"));
        assert!(parse_size("99999999999999999999 B").is_err());
        assert!(parse_size("1_000 B").is_err());
        assert!(parse_duration_ns("10").unwrap_err().contains("no unit"));
        assert!(parse_duration_ns("10m")
            .unwrap_err()
            .contains("unknown unit \"m\""));
        assert!(parse_percent_ppm("101%").is_err());
        assert!(parse_percent_ppm("0.6").is_err());
        assert!(parse_rate_per_s("0.5/s").is_err());
    }

    proptest! {
        #[test]
        fn sizes_round_trip(bytes in 0u64..(1 << 50)) {
            prop_assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
        }

        #[test]
        fn whole_units_are_exact(n in 0u64..1_000_000, unit in 0usize..TIME_UNITS.len()) {
            let (name, scale) = TIME_UNITS[unit];
            prop_assert_eq!(parse_duration_ns(&format!("{n}{name}")), Ok(n * scale));
        }

        #[test]
        fn no_text_panics(text in ".{0,24}") {
            let _ = (parse_size(&text), parse_duration_ns(&text), parse_percent_ppm(&text));
        }
    }
}

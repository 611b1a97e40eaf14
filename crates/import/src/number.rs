//! Numbers and moments as text.
use crate::formats::calendar::days_of_month;

/// Powers of ten that are exact as f64.
const EXACT: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];

/// A field of a text file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Field<T> {
    /// Empty, or a word that means so.
    Missing,
    /// A value.
    Value(T),
    /// Something else.
    Wrong,
}

/// Reads the plain decimal number at the begin of `text`, and how many bytes it takes; correctly rounded. `None`: there is none, or it
/// is better looked at as a whole ([`number`]).
pub fn leading_number(text: &[u8]) -> Option<(f64, usize)> {
    // Few digits are exact as an integer, and one division rounds correctly (Clinger's fast path).
    let negative = text.first() == Some(&b'-');
    let begin = usize::from(negative);
    let (whole, digits) = leading_digits(&text[begin..], 0);
    let mut used = begin + digits;
    let (mut mantissa, mut after_point) = (whole, 0);
    if text.get(used) == Some(&b'.') {
        (mantissa, after_point) = leading_digits(&text[used + 1..], whole);
        used += 1 + after_point;
    }
    if !(1..=15).contains(&(digits + after_point)) {
        return None;
    }
    let value = mantissa as f64 / EXACT[after_point];
    Some((if negative { -value } else { value }, used))
}

/// The digits at the begin of `text` after those of `before`, and how many they are. More than 15 make no sense.
#[inline]
pub fn leading_digits(text: &[u8], before: u64) -> (u64, usize) {
    let (mut value, mut count, mut rest) = (before, 0, text);
    // Eight at a time: how long a number is costs no guess of the CPU then.
    while let Some(eight) = rest.first_chunk() {
        let (part, digits) = up_to_eight(*eight);
        value = value.wrapping_mul(TENS[digits]).wrapping_add(part);
        count += digits;
        if digits < 8 {
            return (value, count);
        }
        rest = &rest[8..];
    }
    for byte in rest {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        count += 1;
    }
    (value, count)
}

/// Powers of ten, for up to nine digits.
pub const TENS: [u64; 10] = [
    1,
    10,
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
];

/// The digits at the begin of eight bytes as a number, and how many they are.
#[inline]
fn up_to_eight(text: [u8; 8]) -> (u64, usize) {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let word = u64::from_le_bytes(text) ^ (ONES * 0x30);
    // The highest bit of a byte is set if it is no digit; those after the first such do not matter, so neither does the carry into them.
    let other = (word.wrapping_add(ONES * 0x76) | word) & (ONES * 0x80);
    let digits = other.trailing_zeros() as usize / 8;
    if digits == 0 {
        return (0, 0);
    }
    // Zeros in front, then two, four and eight digits at a time.
    let word = word << (64 - 8 * digits);
    let pairs = (word.wrapping_mul(10)).wrapping_add(word >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100)).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    let all = (fours.wrapping_mul(10_000)).wrapping_add(fours >> 32) & 0xffff_ffff;
    (all, digits)
}

/// Reads a decimal number; correctly rounded. `NaN` and infinities are missing: they are no measurements.
pub fn number(text: &[u8]) -> Field<f64> {
    match leading_number(text) {
        Some((value, used)) if used == text.len() => Field::Value(value),
        _ => slow_number(text),
    }
}

fn slow_number(text: &[u8]) -> Field<f64> {
    let Ok(text) = std::str::from_utf8(text) else {
        return Field::Wrong;
    };
    let text = text.trim();
    if is_missing(text) {
        return Field::Missing;
    }
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Field::Value(value),
        Ok(_) => Field::Missing,
        Err(_) => Field::Wrong,
    }
}

fn is_missing(text: &str) -> bool {
    let words = ["", "-", "na", "n/a", "nan", "null", "none", "\\n"];
    words.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Reads the whole number of units since 1970 at the begin of `text`, in nanoseconds, and how many bytes it takes. `None`: there is none, or
/// it is better looked at as a whole ([`moment`]).
pub fn leading_moment(text: &[u8], unit_ns: i64) -> Option<(i64, usize)> {
    let (whole, digits) = leading_digits(text, 0);
    if !(1..=18).contains(&digits) {
        return None;
    }
    Some(((whole as i64).checked_mul(unit_ns)?, digits))
}

/// Reads a moment given as a number of units since 1970, in nanoseconds; integers exactly.
pub fn moment(text: &[u8], unit_ns: i64) -> Field<i64> {
    let mut whole = 0_i64;
    if !text.is_empty() && text.len() <= 19 && text.iter().all(u8::is_ascii_digit) {
        for byte in text {
            whole = whole * 10 + i64::from(byte - b'0');
        }
        return whole.checked_mul(unit_ns).map_or(Field::Wrong, Field::Value);
    }
    match number(text) {
        Field::Value(value) => scaled_moment(value, unit_ns).map_or(Field::Wrong, Field::Value),
        Field::Missing => Field::Missing,
        Field::Wrong => Field::Wrong,
    }
}

/// A moment in nanoseconds; None if it does not fit.
pub fn scaled_moment(value: f64, unit_ns: i64) -> Option<i64> {
    // The whole part first: as nanoseconds it has more digits than f64 holds.
    let whole = value.trunc();
    if !value.is_finite() || whole.abs() > 9.2e18 {
        return None;
    }
    let rest = ((value - whole) * unit_ns as f64).round() as i64;
    (whole as i64).checked_mul(unit_ns)?.checked_add(rest)
}

/// Reads `2026-01-31T23:59:59.25Z` (`T` or a space; `Z`, `+hh:mm` or nothing), nanoseconds since 1970.
pub fn iso_moment(text: &[u8]) -> Field<i64> {
    let Ok(text) = std::str::from_utf8(text) else {
        return Field::Wrong;
    };
    let text = text.trim();
    if is_missing(text) {
        return Field::Missing;
    }
    parse_iso(text).map_or(Field::Wrong, Field::Value)
}

fn parse_iso(text: &str) -> Option<i64> {
    if !text.is_ascii() {
        return None;
    }
    let (year, month, day) = (
        number_at(text, 0, 4)?,
        number_at(text, 5, 7)?,
        number_at(text, 8, 10)?,
    );
    let marks = |at: usize| text.as_bytes().get(at).copied();
    if marks(4) != Some(b'-') || marks(7) != Some(b'-') {
        return None;
    }
    if !(1..=days_of_month(year, month)).contains(&day) {
        return None;
    }
    let days = days_since_1970(year, month, day);
    if text.len() == 10 {
        return (days * 86_400).checked_mul(1_000_000_000);
    }
    if !matches!(marks(10), Some(b'T' | b' ')) || marks(13) != Some(b':') || marks(16) != Some(b':') {
        return None;
    }
    let (hour, minute, second) = (
        number_at(text, 11, 13)?,
        number_at(text, 14, 16)?,
        number_at(text, 17, 19)?,
    );
    // Leap seconds are.
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut rest = &text[19..];
    let mut nanoseconds = 0;
    if let Some(fraction) = rest.strip_prefix('.') {
        let length = fraction.bytes().take_while(u8::is_ascii_digit).count();
        let nine: String = fraction[..length]
            .chars()
            .chain("000000000".chars())
            .take(9)
            .collect();
        nanoseconds = nine.parse::<i64>().ok()?;
        rest = &fraction[length..];
    }
    let zone_minutes = match rest.as_bytes() {
        [] | [b'Z'] => 0,
        [sign @ (b'+' | b'-'), ..] if rest.len() == 6 => {
            let (hours, minutes) = (number_at(rest, 1, 3)?, number_at(rest, 4, 6)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let minutes = hours * 60 + minutes;
            if *sign == b'-' {
                -minutes
            } else {
                minutes
            }
        }
        _ => return None,
    };
    let seconds = days * 86_400 + hour * 3_600 + (minute - zone_minutes) * 60 + second;
    seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

fn number_at(text: &str, from: usize, to: usize) -> Option<i64> {
    let part = text.get(from..to)?;
    part.bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| part.parse().ok())?
}

/// Days of the Gregorian calendar (the usual era arithmetic, years from March).
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year - era * 400;
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_as_the_standard_library_does() {
        let mut state = 12_345_u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let text = format!("{}.{}", (state >> 40) % 1_000_000, (state >> 20) % 100_000_000);
            assert_eq!(
                number(text.as_bytes()),
                Field::Value(text.parse::<f64>().unwrap()),
                "{text}"
            );
        }
        for text in ["-3.25", "1e-7", "123456789012345678", ".5", "7.", "+4", " 2 "] {
            let expected = text.trim().parse::<f64>().unwrap();
            assert_eq!(number(text.as_bytes()), Field::Value(expected), "{text}");
        }
        for text in ["", "NaN", "NA", "null", "-", "inf", " "] {
            assert_eq!(number(text.as_bytes()), Field::Missing, "{text}");
        }
        for text in ["x", "1.2.3", "12us", "1,5", "\u{ff}"] {
            assert_eq!(number(text.as_bytes()), Field::Wrong, "{text}");
        }
    }

    #[test]
    fn digits_are_counted_and_read_wherever_they_end() {
        let mut state = 12_345_u64;
        for round in 0..20_000_usize {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let digits = round % 20;
            let number = if digits == 0 {
                String::new()
            } else {
                format!("{:0digits$}", (state >> 2) % 10_u64.pow(digits.min(18) as u32))
            };
            let after = [
                &b""[..],
                b",",
                b"\xff\xff",
                b" 12345678901",
                b"/123456789",
                b":",
                b"\0\0",
                b"x",
            ][(state >> 40) as usize % 8];
            let text = [number.as_bytes(), after].concat();
            let expected = if digits == 0 {
                0
            } else {
                number.parse::<u64>().unwrap()
            };
            assert_eq!(leading_digits(&text, 0), (expected, number.len()), "{text:?}");
            assert_eq!(
                leading_digits(number.as_bytes(), 0),
                (expected, number.len()),
                "{number}"
            );
        }
        assert_eq!(leading_digits(b"25xxxxxxxxx", 1), (125, 2));
    }

    #[test]
    fn moments_are_exact() {
        assert_eq!(
            moment(b"1658149215", 1_000_000_000),
            Field::Value(1_658_149_215_000_000_000)
        );
        assert_eq!(
            moment(b"1658149215.25", 1_000_000_000),
            Field::Value(1_658_149_215_250_000_000)
        );
        assert_eq!(
            moment(b"1658149215000123456", 1),
            Field::Value(1_658_149_215_000_123_456)
        );
        assert_eq!(moment(b"9999999999999", 1_000_000_000), Field::Wrong);
        assert_eq!(iso_moment(b"1970-01-01"), Field::Value(0));
        assert_eq!(
            iso_moment(b"2022-07-18T13:00:15Z"),
            Field::Value(1_658_149_215_000_000_000)
        );
        assert_eq!(
            iso_moment(b"2022-07-18 15:00:15.5+02:00"),
            Field::Value(1_658_149_215_500_000_000)
        );
        assert_eq!(
            iso_moment(b"2000-02-29T00:00:00"),
            Field::Value(951_782_400_000_000_000)
        );
        for bad in [
            "2022-13-01",
            "18.07.2022",
            "2022-07-18T13",
            "2022-07-18T13:00:15+2",
            "2022-07-18T25:00:15Z",
            "2022-07-18T13:60:15",
            "2022-07-18T13:00:15+25:00",
            "2022-02-29",
        ] {
            assert_eq!(iso_moment(bad.as_bytes()), Field::Wrong, "{bad}");
        }
    }
}

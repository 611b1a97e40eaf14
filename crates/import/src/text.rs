//! Fields of text: numbers with their units, words by columns. Errors name the column.
use crate::error::Bad;
use crate::number::{leading_digits, TENS};

/// Largest moment or length of time that is taken for one, nanoseconds either way: 146 years. Sums of two fit into an i64.
pub const TIME_NS_MAX: i64 = i64::MAX / 2;

/// Splits off the next word; "" at the end.
pub fn word<'a>(rest: &mut &'a str) -> &'a str {
    let bytes = rest.as_bytes();
    let begin = bytes.iter().position(|byte| !byte.is_ascii_whitespace());
    let begin = begin.unwrap_or(bytes.len());
    let ends = |byte: &u8| byte.is_ascii_whitespace() || !byte.is_ascii();
    let end = bytes[begin..].iter().position(ends);
    let end = end.map_or(bytes.len(), |length| begin + length);
    // Letters beyond ASCII, and the rarest of blanks, are looked at as such.
    if bytes.get(end).is_none_or(u8::is_ascii_whitespace) && !bytes[begin..end].contains(&0x0b) {
        let word = &rest[begin..end];
        *rest = &rest[end..];
        return word;
    }
    let text = rest.trim_start();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    *rest = &text[end..];
    &text[..end]
}

/// Splits off the last word; "" if there is none.
pub fn last_word<'a>(rest: &mut &'a str) -> &'a str {
    let text = rest.trim_end();
    let begin = text
        .rfind(char::is_whitespace)
        .map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
    *rest = &text[..begin];
    &text[begin..]
}

/// A name that bcc's tools print under Python 3 as bytes, `b'yum'`; a column may have cut off its end.
pub fn name_of_bytes(text: &str) -> &str {
    let inside = text.strip_prefix("b'");
    inside.map_or(text, |name| name.strip_suffix('\'').unwrap_or(name))
}

/// How many of something: `1 request`, `12 requests`.
pub fn counted(count: u64, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

/// A whole number.
pub fn integer<T: std::str::FromStr>(text: &str, column: &'static str) -> Result<T, Bad> {
    text.parse()
        .map_err(|_| Bad::new(format!("column {column}"), "a whole number", text))
}

/// A decimal number times `unit`, rounded toward zero, computed in integers; `1.5` or `1,5`. None: it is none, or too large.
pub fn scaled(text: &str, unit: i64) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once(['.', ',']).unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() || whole.len() > 19 {
        return None;
    }
    let mut value = 0_i64;
    for byte in whole.bytes() {
        value = value.checked_mul(10)?.checked_add(digit(byte)?)?;
    }
    value = value.checked_mul(unit)?.checked_add(part(fraction, unit)?)?;
    (value <= TIME_NS_MAX).then_some(if negative { -value } else { value })
}

/// The digits after the point, in units.
fn part(fraction: &str, unit: i64) -> Option<i64> {
    if fraction.len() <= 9 && unit <= 1_000_000_000 {
        // The product fits into an i64: divisions of longer numbers are slow.
        let (mut rest, mut scale) = (0, 1);
        for byte in fraction.bytes() {
            rest = rest * 10 + digit(byte)?;
            scale *= 10;
        }
        return Some(rest * unit / scale);
    }
    let (mut rest, mut scale) = (0_i128, 1_i128);
    for byte in fraction.bytes() {
        let digit = digit(byte)?;
        if scale < 1_000_000_000_000_000_000 {
            rest = rest * 10 + i128::from(digit);
            scale *= 10;
        }
    }
    Some((rest * i128::from(unit) / scale) as i64)
}

/// The plain decimal number at the begin of `text` times `unit`, as [`scaled`] has it, and its bytes. None: it is better looked at as a whole.
#[inline]
pub fn leading_scaled(text: &[u8], unit: i64) -> Option<(i64, usize)> {
    let (whole, mut used) = leading_digits(text, 0);
    if !(1..=18).contains(&used) {
        return None;
    }
    let mut value = (whole as i64).checked_mul(unit)?;
    if text.get(used) == Some(&b'.') {
        let (rest, digits) = leading_digits(&text[used + 1..], 0);
        if digits > 9 || unit > 1_000_000_000 {
            return None;
        }
        // Units of ten are mostly finer than the digits: then nothing is divided.
        let places = match unit {
            1_000_000_000 => 9,
            1_000_000 => 6,
            1_000 => 3,
            _ => 0,
        };
        let part = match places >= digits {
            true => rest as i64 * TENS[places - digits] as i64,
            false => rest as i64 * unit / TENS[digits] as i64,
        };
        value = value.checked_add(part)?;
        used += 1 + digits;
    }
    (value <= TIME_NS_MAX).then_some((value, used))
}

fn digit(byte: u8) -> Option<i64> {
    byte.is_ascii_digit().then(|| i64::from(byte - b'0'))
}

/// A length of time or a moment: a decimal number of units of `unit_ns` nanoseconds.
pub fn time(text: &str, unit_ns: i64, column: &'static str) -> Result<i64, Bad> {
    scaled(text, unit_ns).ok_or_else(|| Bad::new(format!("column {column}"), "a decimal number", text))
}

/// A length of time, which is not negative.
pub fn length(text: &str, unit_ns: i64, column: &'static str) -> Result<i64, Bad> {
    match scaled(text, unit_ns) {
        Some(ns) if ns >= 0 => Ok(ns),
        _ => Err(Bad::new(
            format!("column {column}"),
            "a decimal number, not negative",
            text,
        )),
    }
}

/// Any number; a decimal comma is one, too.
pub fn number(text: &str, column: &'static str) -> Result<f64, Bad> {
    let parsed = match text.parse::<f64>() {
        Err(_) => text.replacen(',', ".", 1).parse::<f64>(),
        parsed => parsed,
    };
    match parsed {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err(Bad::new(format!("column {column}"), "a number", text)),
    }
}

/// Bytes of this many sectors of 512; None if there is no such place on any device.
pub fn sectors(count: u64) -> Option<i64> {
    i64::try_from(count).ok()?.checked_mul(512)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decimal_numbers_are_exact() {
        assert_eq!(scaled("0.000771", 1_000_000_000), Some(771_000));
        assert_eq!(scaled("11,269319", 1_000_000_000), Some(11_269_319_000));
        assert_eq!(scaled("-1.5", 1000), Some(-1500));
        assert_eq!(
            scaled("1795517681.123456789", 1_000_000_000),
            Some(1_795_517_681_123_456_789)
        );
        assert_eq!(
            scaled("0.1234567891234567891234", 1_000_000_000),
            Some(123_456_789)
        );
        for wrong in ["", ".", "-", "1.2.3", "x", "99999999999999999999", "9999999999"] {
            assert_eq!(scaled(wrong, 1_000_000_000_000), None, "{wrong}");
        }
        assert!(time("1s", 1, "lat").unwrap_err().part.contains("lat"));
        assert!(length("-1", 1, "lat").is_err());
    }

    #[test]
    fn names_that_python_prints_as_bytes() {
        let names = ["b'yum'", "b'a long name", "yum", "b", "it's"].map(name_of_bytes);
        assert_eq!(names, ["yum", "a long name", "yum", "b", "it's"]);
    }

    #[test]
    fn words_from_both_ends() {
        let mut rest = "  0.1  kworker/u16:4 x  vda  ";
        assert_eq!((word(&mut rest), last_word(&mut rest)), ("0.1", "vda"));
        assert_eq!(rest.trim(), "kworker/u16:4 x");
        assert_eq!((word(&mut ""), last_word(&mut "")), ("", ""));
    }

    proptest! {
        #[test]
        fn any_nanoseconds_come_back(ns in 0_i64..4_000_000_000_000_000_000) {
            let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
            prop_assert_eq!(scaled(&text, 1_000_000_000), Some(ns));
        }

        #[test]
        fn words_are_those_of_the_standard_library(text in "[ab1\\x0b\\t \u{a0}\u{e9}]{0,12}") {
            let mut rest = text.as_str();
            let words: Vec<&str> = std::iter::from_fn(|| Some(word(&mut rest)).filter(|word| !word.is_empty())).collect();
            prop_assert_eq!(words, text.split_whitespace().collect::<Vec<_>>());
        }

        #[test]
        fn numbers_at_the_begin_are_as_those_that_stand_alone(text in "[0-9]{0,20}(\\.[0-9]{0,20})?", unit in prop::sample::select(vec![1_i64, 512, 1000, 1_000_000_000])) {
            if let Some((value, used)) = leading_scaled(format!("{text},7").as_bytes(), unit) {
                prop_assert_eq!((Some(value), used), (scaled(&text, unit), text.len()));
            }
        }

        #[test]
        fn any_text_is_a_number_or_none(text in ".*") {
            let _ = (scaled(&text, 1_000_000_000), word(&mut text.as_str()), last_word(&mut text.as_str()));
        }
    }
}

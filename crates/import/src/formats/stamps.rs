//! Lines that say when the snapshot or the report below them was taken. Tools print them (`iostat -t`), and so do scripts around tools that
//! print none: `date`, `date +%s.%N`, `date -Is`, `TS 1283888686.31 2010-09-07 12:44:46` (pt-stalk), `zzz ***Tue Oct 20 08:00:05 UTC 2026` (OSWatcher),
//! `zzz <10/20/2026 08:00:05> Count:720` (ExaWatcher).
use super::calendar::{date_ns, day_ns, time_of_day_ns};
use crate::number::{iso_moment, Field};
use crate::text::scaled;

const SECOND: i64 = 1_000_000_000;

/// The date and time that a line's words are, nanoseconds since 1970; without a zone taken for UTC.
pub fn moment(words: &[&str]) -> Option<i64> {
    match words {
        [date, time] => Some(date_ns(date)? + time_of_day_ns(time, "")?),
        [date, time, half @ ("AM" | "PM")] => Some(date_ns(date)? + time_of_day_ns(time, half)?),
        [date, half @ ("AM" | "PM"), time] => Some(date_ns(date)? + time_of_day_ns(time, half)?),
        [iso] => {
            let (date, rest) = iso.split_once('T')?;
            let end = rest.find(|c: char| !(c.is_ascii_digit() || matches!(c, ':' | '.' | ',')));
            let (time, zone) = rest.split_at(end.unwrap_or(rest.len()));
            let ns = date_ns(date)? + time_of_day_ns(time, "")?;
            let zone = zone.replace(':', "");
            let (sign, digits) = zone.split_at_checked(1).unwrap_or(("", ""));
            let minutes = digits
                .parse::<u16>()
                .map_or(0, |n| i64::from(n / 100 * 60 + n % 100));
            Some(ns - if sign == "-" { -minutes } else { minutes } * 60 * SECOND)
        }
        _ => None,
    }
}

/// The moment that a line is, whoever wrote it; None if it says anything else, too.
pub fn stamp_ns(line: &str) -> Option<i64> {
    let line =
        line.trim_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '#' | '=' | '-' | '[' | ']'));
    // Lines of tables are long.
    if line.len() > 80 || !line.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let words: Vec<&str> = line
        .split(|c: char| c.is_whitespace() || matches!(c, '*' | '<' | '>'))
        // How many samples ExaWatcher puts into a file.
        .filter(|word| !word.is_empty() && !word.starts_with("Count:"))
        .collect();
    let is_label = |word: &&str| {
        let name = word.trim_end_matches(':');
        ["t", "ts", "zzz", "time", "date", "timestamp"].contains(&name.to_ascii_lowercase().as_str())
    };
    let words = match words.split_first() {
        Some((first, rest)) if is_label(first) => rest,
        _ => &words,
    };
    let (first, rest) = words.split_first()?;
    if let Some(ns) = since_1970(first) {
        // The same once more, for who reads it.
        return (rest.is_empty() || named_moment(rest).is_some()).then_some(ns);
    }
    named_moment(words)
}

/// Seconds since 1970, or thousandths, millionths, billionths of them.
fn since_1970(word: &str) -> Option<i64> {
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    let unit_ns = match digits {
        10 => SECOND,
        13 => 1_000_000,
        16 => 1_000,
        19 => 1,
        _ => return None,
    };
    scaled(word, unit_ns)
}

fn named_moment(words: &[&str]) -> Option<i64> {
    let iso = |text: String| match iso_moment(text.replace(',', ".").as_bytes()) {
        Field::Value(ns) if text.len() > 10 => Some(ns),
        _ => None,
    };
    moment(words)
        .or_else(|| iso(words.join(" ")))
        .or_else(|| match words {
            [date, time, zone] if is_zone(zone) => moment(&[date, time]),
            _ => None,
        })
        .or_else(|| date_output(words))
}

/// What `date` prints: `Tue Oct 20 08:00:05 UTC 2026`, `Tue 20 Oct 2026 08:00:05 AM UTC`, `Tue Oct 20 08:00:05 2026`, `Di 20. Okt 08:00:05 CEST 2026`.
fn date_output(words: &[&str]) -> Option<i64> {
    let (mut month, mut day, mut year, mut time, mut half) = (None, None, None, None, "");
    for word in words {
        let word = word.trim_end_matches(',');
        let number = word.parse::<i64>().ok();
        match (word, number) {
            (_, Some(number @ 1..=31)) if day.is_none() => day = Some(number),
            _ if day.is_none() && is_german_day(word) => day = word.trim_end_matches('.').parse().ok(),
            (_, Some(number @ 1970..=2200)) if year.is_none() => year = Some(number),
            ("AM" | "PM", _) => half = word,
            _ if word.contains(':') && time.is_none() => time = Some(word),
            _ if month.is_none() && month_of(word).is_some() => month = month_of(word),
            _ if place_of(word, &DAYS).is_some() || is_german_weekday(word) => {}
            _ if is_zone(word) => {}
            _ if word.len() <= 6 && word.starts_with(['+', '-']) && time.is_some() => {}
            _ => return None,
        }
    }
    Some(day_ns(year?, month?, day?)? + time_of_day_ns(time?, half)?)
}

/// `13.`
fn is_german_day(word: &str) -> bool {
    word.strip_suffix('.')
        .is_some_and(|digits| matches!(digits.parse(), Ok(1..=31)) && digits.len() <= 2)
}

fn is_german_weekday(word: &str) -> bool {
    let word = word.trim_end_matches('.');
    ["Mo", "Di", "Mi", "Do", "Fr", "Sa", "So"].contains(&word)
        || [
            "Montag",
            "Dienstag",
            "Mittwoch",
            "Donnerstag",
            "Freitag",
            "Samstag",
            "Sonntag",
        ]
        .contains(&word)
}

/// A month's number, from 1; the names that German has otherwise, too.
fn month_of(word: &str) -> Option<i64> {
    let german = match word.trim_end_matches('.') {
        "M\u{e4}r" | "M\u{e4}rz" | "Mrz" => Some(3),
        "Mai" => Some(5),
        "Okt" | "Oktober" => Some(10),
        "Dez" | "Dezember" => Some(12),
        _ => None,
    };
    german.or_else(|| place_of(word, &MONTHS))
}

/// A zone's name; which zone a name means depends on the place.
fn is_zone(word: &str) -> bool {
    (1..=5).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_uppercase())
}

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// Which of a list's names (from 1) a word is, in full or by its first three letters.
fn place_of(word: &str, names: &[&str]) -> Option<i64> {
    let word = word.to_ascii_lowercase();
    let is_word = word.len() >= 3 && word.bytes().all(|byte| byte.is_ascii_lowercase());
    let at = names.iter().position(|name| is_word && word.starts_with(name))?;
    Some(at as i64 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_hours_and_minutes() {
        let at = |zone: &str| moment(&[format!("2026-11-24T10:00:00{zone}").as_str()]);
        let utc = at("Z").expect("a moment");
        assert_eq!(at("+0130"), Some(utc - 90 * 60 * SECOND));
        assert_eq!(at("-01:00"), Some(utc + 60 * 60 * SECOND));
        assert_eq!(at("+9223372036854775807"), Some(utc));
        assert_eq!(at(".25+01:00"), Some(utc + SECOND / 4 - 60 * 60 * SECOND));
    }

    #[test]
    fn scripts_say_the_moment_in_many_ways() {
        let expected = 1_603_180_805 * SECOND;
        for line in [
            "TS 1603180805",
            "TS 1603180805.000000000 2020-10-20 08:00:05",
            "TS 1603180805.000 2020-10-20T08:00:05",
            "1603180805",
            "1603180805000",
            "zzz ***Tue Oct 20 08:00:05 UTC 2020",
            "zzz *** Tue Oct 20 08:00:05 2020 ***",
            "Tue Oct 20 08:00:05 UTC 2020",
            "Tue 20 Oct 2020 08:00:05 AM UTC",
            "Tue Oct 20 08:00:05 AM UTC 2020",
            "2020-10-20 08:00:05",
            "2020-10-20T10:00:05+02:00",
            "2020-10-20 08:00:05 UTC",
            "2020-10-20 08:00:05,000",
            "=== 2020-10-20 08:00:05 ===",
            "date: 10/20/2020 08:00:05",
            "zzz <10/20/2020 08:00:05> Count:720",
            "#T 1603180805",
            "Di 20. Okt 08:00:05 CEST 2020",
            "Dienstag, 20. Oktober 2020, 08:00:05 UTC",
        ] {
            assert_eq!(stamp_ns(line), Some(expected), "{line}");
        }
        let parts = stamp_ns("TS 1344561790.012145298 2012-08-09 21:23:10");
        assert_eq!(parts, Some(1_344_561_790_012_145_298));
        for other in [
            "",
            "sda 1603180805",
            "1603180805 8 0",
            "8 0 sda 1 2 3",
            "Tue Oct 20 2020",
            "08:00:05 up 3 days, 2 users",
            "2020-10-20",
            "Sun Microsystems 08:00:05 1 May 2020",
            "# Starting Time:        10/20/2020 08:00:05",
            "Di 32. Okt 08:00:05 CEST 2020",
        ] {
            assert_eq!(stamp_ns(other), None, "{other}");
        }
    }
}

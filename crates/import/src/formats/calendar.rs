//! Dates and times of day of logs.

/// Nanoseconds since 1970 of a day (years 1970 to 2200), UTC.
pub fn day_ns(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1970..=2200).contains(&year) || !(1..=days_of_month(year, month)).contains(&day) {
        return None;
    }
    // Days since 1970 in the proleptic Gregorian calendar, years that begin in March.
    let (y, m) = if month <= 2 {
        (year - 1, month + 9)
    } else {
        (year, month - 3)
    };
    let days = y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 1 - 719_468;
    Some(days * 86_400 * 1_000_000_000)
}

/// How many days a month has; none if there is no such month.
pub fn days_of_month(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    }
}

/// A date: `11/24/26` (month first, as sysstat prints it in the C locale, unless it is none), `2026/11/24`, `2026-11-24`, `24.11.2026`.
pub fn date_ns(text: &str) -> Option<i64> {
    let numbers = |by: char| -> Option<[i64; 3]> {
        let all: Vec<i64> = text
            .split(by)
            .map(|part| part.parse().ok())
            .collect::<Option<_>>()?;
        all.try_into().ok()
    };
    let full = |year: i64| if year < 100 { year + 2000 } else { year };
    if let Some([first, second, third]) = numbers('/') {
        return match (first, second) {
            (100.., month) => day_ns(first, month, third),
            (13.., month) => day_ns(full(third), month, first),
            (month, day) => day_ns(full(third), month, day),
        };
    }
    if let Some([year, month, day]) = numbers('-') {
        return day_ns(year, month, day);
    }
    let [day, month, year] = numbers('.')?;
    day_ns(full(year), month, day)
}

/// A time of day, `10:54:32`, `10:54:32.303850`, with `AM` or `PM` after it in twelve hours; nanoseconds since midnight.
pub fn time_of_day_ns(text: &str, half: &str) -> Option<i64> {
    let mut parts = text.split(':');
    let hour: i64 = parts.next()?.parse().ok()?;
    let minute: i64 = parts.next()?.parse().ok()?;
    let second_ns = crate::text::scaled(parts.next()?, 1_000_000_000)?;
    let hour = match (half, hour) {
        ("AM" | "PM", ..0 | 13..) => return None,
        ("AM", _) => hour % 12,
        ("PM", _) => hour % 12 + 12,
        _ => hour,
    };
    let ok = parts.next().is_none() && (0..24).contains(&hour) && (0..60).contains(&minute);
    let ok = ok && (0..=60_000_000_000).contains(&second_ns);
    ok.then(|| (hour * 60 + minute) * 60_000_000_000 + second_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_times() {
        assert_eq!(day_ns(1970, 1, 1), Some(0));
        assert_eq!(date_ns("11/24/26"), Some(1_795_478_400_000_000_000));
        assert_eq!(date_ns("2026-11-24"), date_ns("24.11.2026"));
        assert_eq!(time_of_day_ns("10:54:32", ""), Some(39_272_000_000_000));
        assert_eq!(time_of_day_ns("12:00:01", "AM"), Some(1_000_000_000));
        assert_eq!((time_of_day_ns("25:00:00", ""), date_ns("x")), (None, None));
        assert_eq!(
            (time_of_day_ns("13:00:00", "AM"), time_of_day_ns("-1:00:00", "PM")),
            (None, None)
        );
        assert_eq!(
            (date_ns("02/30/26"), date_ns("2026-02-29"), date_ns("2100-02-29")),
            (None, None, None)
        );
        assert!(
            date_ns("2024-02-29").is_some()
                && date_ns("2000-02-29").is_some()
                && date_ns("31.12.2026").is_some()
        );
    }
}

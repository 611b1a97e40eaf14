//! What lines of iostat and of sar are: headers, moments, rows, and what stands between them, in the words of all versions.
use super::calendar::time_of_day_ns;
use crate::format::Head;
use std::borrow::Cow;

/// Whether a header is of Solaris or FreeBSD, by the columns of bytes.
pub fn is_of_unix(words: &[&str]) -> bool {
    let is_column = |word: &&str| matches!(*word, "kr/s" | "Kr/s" | "Mr/s");
    words.iter().any(is_column)
}

/// Place of the device's name in a header of iostat: it stands first, or last (`-h`; Solaris `-n`).
pub fn iostat_header(words: &[&str]) -> Option<usize> {
    let is_name = |word: &&str| match word.trim_end_matches(':') {
        "Device" => true,
        "device" | "disk" => is_of_unix(words),
        _ => false,
    };
    let at = match words {
        [first, ..] if is_name(first) => 0,
        [.., last] if is_name(last) => words.len() - 1,
        _ => return None,
    };
    // The last columns may stand in the next line.
    let is_column = |word: &&str| matches!(*word, "%util" | "tps" | "r/s") || word.ends_with("await");
    words.iter().any(is_column).then_some(at)
}

/// Place of `DEV` in a header of `sar -d`: it follows the time, or stands last (`-h`, `--pretty`).
pub fn sar_header(words: &[&str]) -> Option<usize> {
    let at = words.iter().position(|word| *word == "DEV")?;
    ((at <= 2 || at + 1 == words.len()) && words.contains(&"tps")).then_some(at)
}

/// Names of disks as the kernel gives them, and as sar has them (`dev8-0`).
fn is_disk(word: &str) -> bool {
    let names = [
        "sd", "hd", "vd", "xvd", "nvme", "dm-", "md", "mmcblk", "loop", "sr", "dasd", "dev",
    ];
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let is_named = names
        .iter()
        .any(|name| word.len() > name.len() && word.starts_with(name));
    is_named && word.len() <= 16 && word.chars().all(is_of_name)
}

/// The device of a row that may be iostat's or sar's: all other words, but for a time, are numbers with two digits behind the point.
fn device_of_row(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().skip_while(|word| {
        matches!(*word, "AM" | "PM") || time_of_day_ns(word, "").is_some() && word.contains(':')
    });
    let device = words.next().filter(|word| is_disk(word))?;
    let is_rate = |word: &str| {
        let digits =
            |part: &str, least: usize| part.len() >= least && part.bytes().all(|b| b.is_ascii_digit());
        word.split_once(['.', ','])
            .is_some_and(|(whole, part)| digits(whole, 1) && digits(part, 2) && part.len() == 2)
    };
    let mut rates = 0;
    let are_rates = words.all(|word| {
        rates += 1;
        is_rate(word)
    });
    (are_rates && rates >= 5).then_some(device)
}

/// A device of rows that somebody took out of a log (`grep sda`) without the header that names their columns.
pub fn without_header(head: &Head) -> Option<&str> {
    let lines: Vec<&str> = head.filled_lines().take(20).collect();
    let rows = lines.iter().filter(|line| device_of_row(line).is_some()).count();
    let device = lines.iter().find_map(|line| device_of_row(line))?;
    // Of two lines, if they are wrapped.
    (2 * rows >= lines.len() && !has_header(head)).then_some(device)
}

pub fn has_header(head: &Head) -> bool {
    head.lines().any(|line| {
        let line = western(line);
        let words: Vec<&str> = line.split_whitespace().collect();
        iostat_header(&words).is_some() || sar_header(&words).is_some()
    })
}

/// Blanks that a line begins with.
pub fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// A line with dates and times as the C locale has them, where they are written in Chinese or Japanese.
pub fn western(line: &str) -> Cow<'_, str> {
    if line.is_ascii() {
        return Cow::Borrowed(line);
    }
    let names = [
        // What old versions put in front of the time.
        ("\u{6642}\u{9593}", "Time"),
        ("\u{65f6}\u{95f4}", "Time"),
        ("\u{ff1a}", ":"),
        ("\u{4e0a}\u{5348}", " AM "),
        ("\u{5348}\u{524d}", " AM "),
        ("\u{4e0b}\u{5348}", " PM "),
        ("\u{5348}\u{5f8c}", " PM "),
    ];
    let text = names
        .iter()
        .fold(line.to_owned(), |text, (name, plain)| text.replace(name, plain));
    let plain = text.chars().filter_map(|letter| match letter {
        // Year, month; day; hour, minute; second.
        '\u{5e74}' | '\u{6708}' => Some('-'),
        '\u{65f6}' | '\u{6642}' | '\u{5206}' => Some(':'),
        '\u{65e5}' | '\u{79d2}' => None,
        other => Some(other),
    });
    Cow::Owned(plain.collect())
}

/// Whether nothing but a date and a time stands in a line, of whatever numbers.
pub fn is_meant_as_moment(words: &[&str]) -> bool {
    let is_of = |word: &str, marks: &[char]| {
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        word.split(marks).count() == 3 && word.split(marks).all(digits)
    };
    let is_date = |word: &str| ['/', '-', '.'].iter().any(|mark| is_of(word, &[*mark]));
    let is_time = |word: &str| is_of(word.split(['.', ',', '+', '-', 'Z']).next().unwrap_or(""), &[':']);
    match words {
        ["Time:", time] | ["Time:", time, "AM" | "PM"] | ["Time:", "AM" | "PM", time] => is_time(time),
        [date, time] | [date, time, "AM" | "PM"] | [date, "AM" | "PM", time] => {
            is_date(date) && is_time(time)
        }
        [iso] => iso
            .split_once('T')
            .is_some_and(|(date, time)| is_date(date) && is_time(time)),
        _ => false,
    }
}

/// Whether words are the header of what `iostat -n` prints of mounts.
pub fn is_of_nfs(words: &[&str]) -> bool {
    matches!(
        words.first(),
        Some(&("Device:" | "Filesystem:" | "Device" | "Filesystem"))
    ) && words
        .iter()
        .any(|word| matches!(*word, "rBlk_nor/s" | "rkB_nor/s" | "rMB_nor/s"))
}

/// What stands above each table of Solaris and FreeBSD.
pub fn is_title_of_unix(words: &[&str]) -> bool {
    matches!(words, ["extended", "device" | "disk", "statistics", ..])
}

/// The line before a soft line break of a mail (quoted-printable, RFC 2045: lines of up to 76 letters, `=` at the end).
pub fn softly_broken(line: &str) -> Option<&str> {
    let begin = line.strip_suffix('=')?;
    let is_rule = begin.ends_with('=') || begin.trim_start().starts_with('=');
    (!is_rule && begin.contains(char::is_whitespace)).then_some(begin)
}

/// `COM` and what somebody wrote into the file.
pub fn is_comment(words: &[&str]) -> bool {
    words.get(1) == Some(&"COM") || words.get(2) == Some(&"COM") && matches!(words[1], "AM" | "PM")
}

/// A script's name for the table that follows, `print_net_dev_stats`, by itself.
pub fn is_title_of_script(words: &[&str]) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    matches!(words, [word] if word.contains('_') && word.bytes().all(is_of_name))
}

/// A line of sar that names the columns of another table: nothing after its time is a number.
pub fn is_header(words: &[&str]) -> bool {
    let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    words.len() > 1 && time_of_day_ns(words[0], "").is_some() && !words[1..].iter().any(is_number)
}

/// `Average:`, in any language.
pub fn is_mean(words: &[&str]) -> bool {
    let ends = |word: &str| word.ends_with([':', '\u{ff1a}']);
    time_of_day_ns(words[0], "").is_none()
        && (ends(words[0])
            || words
                .get(1)
                .is_some_and(|second| matches!(*second, ":" | "\u{ff1a}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_every_version() {
        let at = |line: &str| iostat_header(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(
            at("Device:  rrqm/s wrqm/s r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await svctm %util"),
            Some(0)
        );
        assert_eq!(
            at("     r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz Device"),
            Some(5 + 1)
        );
        assert_eq!(
            at("Device             tps    kB_read/s    kB_wrtn/s    kB_read    kB_wrtn"),
            Some(0)
        );
        assert_eq!(at("Device driver loaded"), None);
    }

    #[test]
    fn rows_have_a_disk_and_rates() {
        assert_eq!(device_of_row("8 0 sda 1 2 3 4 5 6 7 8"), None);
        assert_eq!(device_of_row("sda 1 2 3 4 5 6"), None);
        let row = "12:10:01 PM  dev8-0  0.59  0.29  10.25  17.95  0.00";
        assert_eq!(device_of_row(row), Some("dev8-0"));
    }
}

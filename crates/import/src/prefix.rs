//! What a logger put in front of every line: a moment (`ts`, `docker logs -t`, `kubectl logs --timestamps`), and behind it the host and the program
//! (journald, syslog), the stream (containerd) or a level (Python's logging); or what a page, a script or `cat -n` did: marks of a quotation or a comment, numbers of
//! lines, the host that `pdsh` had it from, the container (`docker compose`, `kubectl logs --prefix`), or of what a diff adds. Ansible shows each line as a string of
//! JSON, Docker's files and `journalctl -o json` as a member of an object. It is passed over where a format shows only without it.
use crate::format::{Format, Head};
use crate::FORMATS;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// What stands behind the moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Prefix {
    /// `2026-11-27T10:00:00.123456789Z stdout F `
    Container,
    /// `Nov 27 10:00:00 host program[4711]: `, `<14>1 2026-11-27T10:00:00Z host program 4711 - - `
    Syslog,
    /// `2026-11-27 10:00:00,123 - INFO - `, `10:00:00 DEBUG| [stdout] `
    Level,
    /// `Nov 27 10:00:00 `
    Moment,
    /// `> `, `| `
    Quotation,
    /// `# `
    Comment,
    /// `+`, of a file that a diff adds.
    Added,
    /// `    12\t`, `12:`
    Number,
    /// `host: `
    Host,
    /// `db-1  | `
    Service,
    /// `[pod/name/container] `
    Pod,
    /// `    "a line",`
    Text,
    /// `{"log":"a line\n","stream":"stdout"}`
    Member,
    /// A line between two backticks.
    Code,
}

const ALL: [Prefix; 14] = [
    Prefix::Container,
    Prefix::Syslog,
    Prefix::Level,
    Prefix::Moment,
    Prefix::Quotation,
    Prefix::Comment,
    Prefix::Added,
    Prefix::Number,
    Prefix::Host,
    Prefix::Service,
    Prefix::Pod,
    Prefix::Text,
    Prefix::Member,
    Prefix::Code,
];

thread_local! {
    /// The files of the import that this thread does, whose lines have one.
    static KNOWN: RefCell<HashMap<PathBuf, Prefix>> = RefCell::new(HashMap::new());
}

/// As long as this is there, prefixes that were found are passed over.
pub struct Prefixes(());

impl Prefixes {
    /// None is known yet.
    pub fn none() -> Prefixes {
        KNOWN.with_borrow_mut(HashMap::clear);
        Prefixes(())
    }

    /// The begin of a file without its prefix, if one format (or the one that was named) begins as what is behind the prefix, and none as the file
    /// does. Formats with moments of their own in front of lines, and comments, are left alone: only a date or a mark in front of nearly every
    /// line is certainly no part of them. No format begins most of its lines as a quotation does. From now on the file is read without it.
    pub fn pass_over(&self, path: &Path, head: Head, named: Option<&Format>) -> Head {
        let is_of = |head: &Head| match named {
            Some(format) => (format.recognise)(head),
            None => FORMATS.iter().any(|format| (format.recognise)(head)),
        };
        if head.bytes.is_empty() {
            return head;
        }
        let is_known = is_of(&head);
        for prefix in ALL {
            if let Some(behind) = behind(prefix, &head, is_known).filter(is_of) {
                KNOWN.with_borrow_mut(|known| known.insert(path.to_owned(), prefix));
                return behind;
            }
        }
        head
    }
}

impl Drop for Prefixes {
    fn drop(&mut self) {
        KNOWN.with_borrow_mut(HashMap::clear);
    }
}

/// The prefix that lines of a file have.
pub fn of(path: &Path) -> Option<Prefix> {
    KNOWN.with_borrow(|known| known.get(path).copied())
}

/// A text without the prefix of its lines.
pub fn without(prefix: Prefix, text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let behind = match prefix.decoded(line) {
            Some(decoded) => decoded,
            None => Cow::Borrowed(prefix.split(line).map_or(line, |(_, rest)| rest)),
        };
        plain.push_str(&behind);
        // What ends the prefix may stand in front of the line's end.
        if line.ends_with('\n') && !behind.ends_with('\n') {
            plain.push('\n');
        }
    }
    plain
}

/// The head without a prefix that most of its lines have; if it is of a known format with it, nearly all, unless it is a quotation's.
fn behind(prefix: Prefix, head: &Head, is_known: bool) -> Option<Head> {
    let lines: Vec<&str> = head.lines().filter(|line| !line.trim().is_empty()).collect();
    let is_mark = matches!(
        prefix,
        Prefix::Quotation
            | Prefix::Comment
            | Prefix::Added
            | Prefix::Level
            | Prefix::Service
            | Prefix::Text
            | Prefix::Member
            | Prefix::Code
    );
    let is_certain = |line: &str| is_mark || prefix == Prefix::Pod && prefix.host(line).is_some();
    let has = |line: &&&str| {
        prefix
            .split(line)
            .is_some_and(|(moment, _)| !is_known || is_certain(line) || moment.is_some_and(is_dated))
    };
    let with = lines.iter().filter(has).count();
    let is_enough = match is_known && prefix != Prefix::Quotation {
        true => with > 0 && 10 * with >= 9 * lines.len(),
        false => 2 * with > lines.len(),
    };
    is_enough.then(|| Head {
        name: head.name.clone(),
        bytes: without(prefix, std::str::from_utf8(&head.bytes).unwrap_or("")).into_bytes(),
    })
}

/// Whether a moment has a date.
fn is_dated(moment: &str) -> bool {
    moment.contains('-') || moment.starts_with(|letter: char| letter.is_ascii_uppercase())
}

impl Prefix {
    /// Whether it holds a moment.
    pub fn has_moment(&self) -> bool {
        matches!(
            self,
            Prefix::Container | Prefix::Syslog | Prefix::Level | Prefix::Moment
        )
    }

    /// The host or the container in front of a line. Streams, and levels of a log (`INFO: `, `[info] `), stand there as well.
    pub fn host<'a>(&self, line: &'a str) -> Option<&'a str> {
        let (host, _) = match self {
            Prefix::Host => of_host(line),
            Prefix::Service => of_service(line),
            Prefix::Pod => bracketed(line).filter(|(name, _)| name.contains('/')),
            _ => None,
        }?;
        let is_host = !matches!(host, "stdout" | "stderr") && host.contains(char::is_lowercase);
        is_host.then_some(host)
    }

    /// What `grep` takes to find the lines of one host.
    pub fn pattern(&self, host: &str) -> String {
        match self {
            Prefix::Service => format!("^{host} *|"),
            Prefix::Pod => format!("^.{host}. "),
            _ => format!("^{host}: "),
        }
    }

    /// The line that a string of JSON is.
    pub fn decoded<'a>(&self, line: &'a str) -> Option<Cow<'a, str>> {
        if *self == Prefix::Member {
            return member(line).map(Cow::Owned);
        }
        let inside = (*self == Prefix::Text).then(|| of_text(line))??;
        match inside.contains('\\') {
            true => serde_json::from_str(&format!("\"{inside}\""))
                .ok()
                .map(Cow::Owned),
            false => Some(Cow::Borrowed(inside)),
        }
    }

    /// The moment in front of a line, if it is one, and what stands behind the prefix. None: the line has none.
    pub fn split<'a>(&self, line: &'a str) -> Option<(Option<&'a str>, &'a str)> {
        let marked = match self {
            Prefix::Quotation => Some(quoted(line)?),
            Prefix::Comment => Some(commented(line)?),
            Prefix::Added => Some(line.strip_prefix('+')?),
            Prefix::Number => Some(numbered(line)?),
            Prefix::Host => Some(of_host(line)?.1),
            Prefix::Service => Some(of_service(line)?.1),
            Prefix::Pod => Some(bracketed(line)?.1),
            Prefix::Text => Some(of_text(line)?),
            // What is inside is told by `decoded`.
            Prefix::Member => {
                member(line)?;
                Some(line)
            }
            Prefix::Code => Some(line.trim().strip_prefix('`')?.strip_suffix('`')?),
            Prefix::Container | Prefix::Syslog | Prefix::Level | Prefix::Moment => None,
        };
        if let Some(rest) = marked {
            return Some((None, rest));
        }
        // Syslog's priority.
        let (line, is_of_syslog_1) = match self {
            Prefix::Syslog => without_priority(line),
            _ => (line, false),
        };
        let (moment, rest) = moment(line)?;
        let rest = match self {
            Prefix::Syslog if is_of_syslog_1 => behind_names(rest)?,
            Prefix::Moment => rest,
            Prefix::Level => behind_level(rest)?,
            Prefix::Syslog => {
                let (host, rest) = rest.split_once(' ')?;
                let (program, rest) = rest.split_once(':')?;
                let is_name = |name: &str| !name.is_empty() && !name.contains(char::is_whitespace);
                if !is_name(host) || !is_name(program) {
                    return None;
                }
                without_blank(rest)?
            }
            Prefix::Container => {
                let rest = rest
                    .strip_prefix("stdout ")
                    .or_else(|| rest.strip_prefix("stderr "))?;
                without_blank(rest.strip_prefix(['F', 'P'])?)?
            }
            _ => return None,
        };
        Some((Some(moment), rest))
    }
}

/// Names of the member that holds a line: of Docker's files, of `journalctl -o json`, of others that collect logs.
const MEMBERS: [&str; 6] = ["log", "MESSAGE", "message", "msg", "line", "text"];

/// The line that stands in an object of JSON, which is all that a line has.
fn member(line: &str) -> Option<String> {
    let text = line.trim();
    if !text.starts_with('{') || !text.ends_with('}') {
        return None;
    }
    let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).ok()?;
    let inside = MEMBERS.iter().find_map(|name| object.get(*name)?.as_str())?;
    let inside = inside.strip_suffix('\n').unwrap_or(inside);
    let inside = inside.strip_suffix('\r').unwrap_or(inside);
    (!inside.contains('\n')).then(|| inside.to_owned())
}

/// A line without the priority that syslog sends in front of it, and whether the version of its protocol is there, too: `<14>1 `
/// (https://www.rfc-editor.org/rfc/rfc5424#section-6).
fn without_priority(line: &str) -> (&str, bool) {
    let behind = line.strip_prefix('<').and_then(|rest| {
        let (priority, rest) = rest.split_once('>')?;
        let is_number = (1..=3).contains(&priority.len()) && digits(priority.as_bytes()) == priority.len();
        is_number.then_some(rest)
    });
    match behind.map(|rest| (rest, rest.strip_prefix("1 "))) {
        None => (line, false),
        Some((_, Some(rest))) => (rest, true),
        Some((rest, None)) => (rest, false),
    }
}

/// What stands behind the names of host, program, process and message, and behind what is structured: `host program 4711 - - `.
fn behind_names(line: &str) -> Option<&str> {
    let mut rest = line;
    for _ in 0..4 {
        let (name, behind) = rest.split_once(' ')?;
        if name.is_empty() {
            return None;
        }
        rest = behind;
    }
    let rest = match rest.strip_prefix('-') {
        Some(rest) => rest,
        // `[name key="value"][...]`
        None => {
            let inside = rest.strip_prefix('[')?;
            let end = inside.find("] ").or_else(|| inside.find("]\n"))?;
            &inside[end + 1..]
        }
    };
    let text = without_blank(rest)?;
    Some(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// What stands behind the marks of a quotation, which may be one of a quotation.
fn quoted(line: &str) -> Option<&str> {
    if let Some(rest) = line.strip_prefix('|') {
        return without_blank(rest);
    }
    let mut rest = line.strip_prefix('>')?;
    while let Some(inner) = rest.strip_prefix(' ').unwrap_or(rest).strip_prefix('>') {
        rest = inner;
    }
    Some(rest.strip_prefix(' ').unwrap_or(rest))
}

/// What stands behind the marks of a comment, of which several may stand side by side.
fn commented(line: &str) -> Option<&str> {
    let rest = line.strip_prefix('#')?.trim_start_matches('#');
    Some(rest.strip_prefix(' ').unwrap_or(rest))
}

/// What `cat -n`, `nl` and `grep -n` number.
fn numbered(line: &str) -> Option<&str> {
    let text = line.trim_start_matches(' ');
    let number = digits(text.as_bytes());
    if !(1..=9).contains(&number) {
        return None;
    }
    text[number..].strip_prefix(['\t', ':'])
}

/// The host that `pdsh` has a line from, and what it is: `db1: `.
fn of_host(line: &str) -> Option<(&str, &str)> {
    let (host, rest) = line.split_once(':')?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let is_host = host.starts_with(|letter: char| letter.is_ascii_alphabetic()) && host.bytes().all(is_name);
    is_host.then(|| Some((host, without_blank(rest)?)))?
}

/// The container that `docker compose` has a line from, and what it is: `db-1       | `.
fn of_service(line: &str) -> Option<(&str, &str)> {
    let (before, rest) = line.split_once('|')?;
    let name = before.trim_end_matches(' ');
    let is_service = name.len() < before.len()
        && name.starts_with(|letter: char| letter.is_ascii_alphanumeric())
        && name.bytes().all(is_of_name);
    is_service.then(|| Some((name, without_blank(rest)?)))?
}

/// `[pod/name/container] `, as `kubectl logs --prefix` has it, and other names in brackets.
fn bracketed(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.strip_prefix('[')?.split_once(']')?;
    let is_name = name.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && name.bytes().all(|byte| is_of_name(byte) || byte == b'/');
    is_name.then(|| Some((name, without_blank(rest)?)))?
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}

/// What stands between the quotation marks of a string of JSON, which is all that a line has, but for a comma.
fn of_text(line: &str) -> Option<&str> {
    let text = line.trim();
    let text = text.strip_suffix(',').unwrap_or(text);
    let inside = text.strip_prefix('"')?.strip_suffix('"')?;
    let is_text = match inside.contains(['\\', '"']) {
        true => serde_json::from_str::<String>(text).is_ok(),
        false => true,
    };
    is_text.then_some(inside)
}

const LEVELS: [&str; 9] = [
    "TRACE", "DEBUG", "INFO", "NOTICE", "WARN", "WARNING", "ERROR", "CRITICAL", "FATAL",
];

/// What stands behind a level of a log, `- INFO - `, `DEBUG| [stdout] `, `[INFO] `, with a logger's name before it or without. Behind a mark one blank is part of the
/// prefix, else all are.
fn behind_level(line: &str) -> Option<&str> {
    let blanks = [' ', '\t'];
    let text = line.trim_start_matches(blanks);
    let text = text.strip_prefix("- ").unwrap_or(text);
    let rest = level(text).or_else(|| {
        let (name, rest) = text.split_once(" - ")?;
        (!name.contains(char::is_whitespace)).then(|| level(rest))?
    })?;
    let text = rest.trim_start_matches(blanks);
    let rest = match text.strip_prefix(['-', ':', '|']) {
        Some(rest) => without_blank(rest)?,
        None if text.len() < rest.len() || matches!(text, "" | "\n" | "\r\n") => text,
        None => return None,
    };
    let behind_stream = |stream: &str| rest.strip_prefix(stream).and_then(without_blank);
    Some(
        behind_stream("[stdout]")
            .or_else(|| behind_stream("[stderr]"))
            .unwrap_or(rest),
    )
}

/// What stands behind the level that a text begins with.
fn level(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('[').unwrap_or(text);
    let length = inside.bytes().take_while(u8::is_ascii_uppercase).count();
    let (word, rest) = inside.split_at(length);
    let rest = match inside.len() < text.len() {
        true => rest.trim_start_matches(' ').strip_prefix(']')?,
        false => rest,
    };
    LEVELS.contains(&word).then_some(rest)
}

/// What is behind the one blank that ends a prefix; an empty line may lack it.
fn without_blank(rest: &str) -> Option<&str> {
    match rest.strip_prefix([' ', '\t']) {
        Some(rest) => Some(rest),
        None => matches!(rest, "" | "\n" | "\r\n").then_some(rest),
    }
}

/// The moment that a line begins with, and what is behind it.
fn moment(line: &str) -> Option<(&str, &str)> {
    let inside = line.strip_prefix('[').unwrap_or(line);
    let is_bracketed = inside.len() < line.len();
    let bytes = inside.as_bytes();
    let used = dated(bytes)
        .or_else(|| of_weekday(bytes))
        .or_else(|| of_month(bytes))
        .or_else(|| time(bytes))
        .or_else(|| seconds(bytes))?;
    let (moment, rest) = inside.split_at(used);
    let rest = match is_bracketed {
        true => rest.strip_prefix(']')?,
        false => rest,
    };
    Some((moment, without_blank(rest.strip_prefix(':').unwrap_or(rest))?))
}

fn digits(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// `10:00:00`, `10:00:00.123456`
fn time(bytes: &[u8]) -> Option<usize> {
    let is_pair = |at: usize| digits(bytes.get(at..).unwrap_or(&[])) >= 2;
    let is_time = is_pair(0) && is_pair(3) && is_pair(6) && bytes[2] == b':' && bytes[5] == b':';
    if !is_time {
        return None;
    }
    let part = match bytes.get(8) {
        Some(b'.' | b',') => digits(&bytes[9..]) + 1,
        _ => 0,
    };
    Some(8 + if part > 1 { part } else { 0 })
}

/// `2026-11-27T10:00:00.5+01:00`, `2026-11-27 10:00:00`
fn dated(bytes: &[u8]) -> Option<usize> {
    let is_date = digits(bytes) == 4
        && bytes.get(4) == Some(&b'-')
        && bytes.get(7) == Some(&b'-')
        && matches!(bytes.get(10), Some(b'T' | b' '))
        && digits(&bytes[5..]) == 2
        && digits(&bytes[8..]) == 2;
    if !is_date {
        return None;
    }
    let end = 11 + time(&bytes[11..])?;
    let zone = match bytes.get(end) {
        Some(b'Z') => 1,
        Some(b'+' | b'-') => match digits(&bytes[end + 1..]) {
            4 => 5,
            2 if bytes.get(end + 3) == Some(&b':') && digits(&bytes[end + 4..]) == 2 => 6,
            _ => 0,
        },
        _ => 0,
    };
    Some(end + zone)
}

/// `Tue Mar 15 09:34:00 2016`
fn of_weekday(bytes: &[u8]) -> Option<usize> {
    let is_day = bytes.len() > 4 && bytes[..3].iter().all(u8::is_ascii_alphabetic) && bytes[3] == b' ';
    let end = 4 + is_day.then(|| of_month(&bytes[4..]))??;
    let is_year = bytes.get(end) == Some(&b' ') && digits(&bytes[end + 1..]) == 4;
    Some(if is_year { end + 5 } else { end })
}

/// `Nov 27 10:00:00`
fn of_month(bytes: &[u8]) -> Option<usize> {
    let is_name =
        bytes.len() > 3 && bytes[0].is_ascii_uppercase() && bytes[1..3].iter().all(u8::is_ascii_lowercase);
    if !is_name || bytes[3] != b' ' {
        return None;
    }
    let blanks = if bytes.get(4) == Some(&b' ') { 2 } else { 1 };
    let day = digits(&bytes[3 + blanks..]);
    let at = 3 + blanks + day;
    if !(1..=2).contains(&day) || bytes.get(at) != Some(&b' ') {
        return None;
    }
    Some(at + 1 + time(&bytes[at + 1..])?)
}

/// `1795517681.123456`: seconds since 1970.
fn seconds(bytes: &[u8]) -> Option<usize> {
    if digits(bytes) != 10 {
        return None;
    }
    Some(match bytes.get(10) {
        Some(b'.') => 11 + digits(&bytes[11..]),
        _ => 10,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn who_stands_in_front_of_a_line() {
        assert_eq!(Prefix::Host.host("db1: a"), Some("db1"));
        assert_eq!(Prefix::Service.host("db-1     | a"), Some("db-1"));
        assert_eq!(Prefix::Pod.host("[pod/db-0/fio] a"), Some("pod/db-0/fio"));
        for (prefix, line) in [
            (Prefix::Pod, "[info] a"),
            (Prefix::Host, "stderr: a"),
            (Prefix::Host, "INFO: a"),
            (Prefix::Host, "a b: c"),
            (Prefix::Quotation, "db1: a"),
        ] {
            assert_eq!(prefix.host(line), None, "{line}");
        }
    }

    #[test]
    fn what_loggers_put_in_front_of_a_line() {
        let rest = |prefix: Prefix, line: &'static str| prefix.split(line).map(|(_, rest)| rest);
        for line in [
            "Nov 27 10:00:00 a  b",
            "Nov  7 10:00:00 a  b",
            "Nov 27 10:00:00.123456 a  b",
            "[2026-11-27 10:00:00] a  b",
            "[Fri Nov 27 10:00:00 2026] a  b",
            "Fri Nov  7 10:00:00 a  b",
            "2026-11-27T10:00:00.123456789Z a  b",
            "2026-11-27T10:00:00+0100 a  b",
            "2026-11-27T10:00:00,5+01:00: a  b",
            "10:00:00 a  b",
            "1795517681 a  b",
            "1795517681.123 a  b",
        ] {
            assert_eq!(rest(Prefix::Moment, line), Some("a  b"), "{line}");
        }
        for line in [
            "a 1",
            "Nov 27 a",
            "2026-11-27 a",
            "123 a",
            "10:00 a",
            "[10:00:00 a",
            "10:00:00a",
            // What was looked at ends there, between two letters of a sign, or inside the zone.
            "2026-11-06 12:00:21+22:0",
            "2026-11-06 12:00:21+22:",
            "2026-11-06 12:00:21+22:é",
            "2026-11-06 12:00:21+2",
        ] {
            assert_eq!(rest(Prefix::Moment, line), None, "{line}");
        }
        let of_journal = "Nov 27 10:00:00 db1 biosnoop[4711]:  0.1  a";
        assert_eq!(rest(Prefix::Syslog, of_journal), Some(" 0.1  a"));
        assert_eq!(
            rest(Prefix::Syslog, "Nov 27 10:00:00 db1 iostat[1]:\n"),
            Some("\n")
        );
        assert_eq!(rest(Prefix::Syslog, "Nov 27 10:00:00 sda 1 2: 3"), None);
        let of_pod = "2026-11-27T10:00:00.1Z stdout F  a";
        assert_eq!(rest(Prefix::Container, of_pod), Some(" a"));
        assert_eq!(Prefix::Moment.split("10:00:00 a").unwrap().0, Some("10:00:00"));
        for (prefix, line, behind) in [
            (Prefix::Quotation, "> a  b", Some("a  b")),
            (Prefix::Quotation, ">", Some("")),
            (Prefix::Quotation, "> >   8,32 a", Some("  8,32 a")),
            (Prefix::Quotation, ">>> a", Some("a")),
            (Prefix::Quotation, "a > b", None),
            (Prefix::Quotation, "|  a | b", Some(" a | b")),
            (Prefix::Code, "`  a`\n", Some("  a")),
            (Prefix::Code, "``", Some("")),
            (Prefix::Code, "`", None),
            (Prefix::Comment, "# a  b", Some("a  b")),
            (Prefix::Comment, "#  a", Some(" a")),
            (Prefix::Comment, "## a #", Some("a #")),
            (Prefix::Comment, " # a", None),
            (Prefix::Number, "    12\ta  b", Some("a  b")),
            (Prefix::Number, "12:a  b", Some("a  b")),
            (Prefix::Number, "12 a", None),
            (Prefix::Number, "1234567890:a", None),
            (Prefix::Host, "db-1.example: a  b", Some("a  b")),
            (Prefix::Service, "db-1       |  a  b", Some(" a  b")),
            (Prefix::Service, "db-1 |", Some("")),
            (Prefix::Service, "DEBUG| a", None),
            (Prefix::Service, "a b | c", None),
            (Prefix::Service, "| a | b |", None),
            (Prefix::Pod, "[pod/db-0/fio]  a", Some(" a")),
            (Prefix::Pod, "[READ], Operations, 5", None),
            (Prefix::Pod, "[pid 7] read(3", None),
            (Prefix::Pod, "[001] a", None),
            (Prefix::Text, "    \"  7,0 a\",", Some("  7,0 a")),
            (Prefix::Text, "\"\"\n", Some("")),
            (Prefix::Text, "\"a\": 1,", None),
            (
                Prefix::Syslog,
                "<14>1 2026-11-27T10:00:00.1Z db1 fio 4711 - -  8,0 a",
                Some(" 8,0 a"),
            ),
            (
                Prefix::Syslog,
                "<14>1 2026-11-27T10:00:00Z db1 fio - ID7 [x@1 a=\"b\"][y] a",
                Some("a"),
            ),
            (Prefix::Syslog, "<14>Nov 27 10:00:00 db1 fio[1]:  a", Some(" a")),
            (Prefix::Syslog, "<x>Nov 27 10:00:00 db1 fio[1]: a", None),
            (Prefix::Syslog, "<14>1 2026-11-27T10:00:00Z db1 fio a", None),
            (Prefix::Text, "\"a\": \"b\",", None),
            (Prefix::Text, "\"", None),
            (Prefix::Level, "2026-11-27 10:00:00,123 - INFO -  a", Some(" a")),
            (
                Prefix::Level,
                "2026-11-27 10:00:00,123 - bench.run - WARNING - a",
                Some("a"),
            ),
            (Prefix::Level, "2026-11-27 10:00:00,123 - INFO -\n", Some("\n")),
            (Prefix::Level, "2026-11-27 10:00:00 [INFO]  a", Some("a")),
            (Prefix::Level, "10:00:00 DEBUG| [stdout]   7,0 a", Some("  7,0 a")),
            (Prefix::Level, "10:00:00 INFO     a", Some("a")),
            (Prefix::Level, "10:00:00 INFORM a", None),
            (Prefix::Level, "10:00:00 a b", None),
            (Prefix::Host, "db1:a", None),
            (Prefix::Host, "sda 1: a", None),
        ] {
            assert_eq!(rest(prefix, line), behind, "{line}");
        }
    }

    #[test]
    fn a_mark_in_front_of_nearly_every_line_is_no_part_of_a_format() {
        let behind = |prefix: Prefix, text: &str| {
            let head = Head {
                name: "log".into(),
                bytes: text.as_bytes().to_vec(),
            };
            behind(prefix, &head, true).map(|head| String::from_utf8(head.bytes).unwrap())
        };
        let quoted = ">> >   raft-35708 [000] ..... 9203.2: x\n";
        assert_eq!(
            behind(
                Prefix::Quotation,
                &("On Tuesday they wrote:\n".to_owned() + &quoted.repeat(2))
            )
            .unwrap(),
            "On Tuesday they wrote:\n".to_owned() + &"  raft-35708 [000] ..... 9203.2: x\n".repeat(2)
        );
        // The functions of strace -k stand below each call.
        assert_eq!(behind(Prefix::Quotation, "1.5 read(1) = 0\n > a\n > b\n"), None);
        assert_eq!(
            behind(Prefix::Comment, "# LevelDB:    version 1.20\n# ----\n## a\n").unwrap(),
            "LevelDB:    version 1.20\n----\na\n"
        );
        assert_eq!(behind(Prefix::Added, "+a : 1\n+b\n+\n").unwrap(), "a : 1\nb\n\n");
        assert_eq!(behind(Prefix::Added, "+a\nb\n"), None);
        assert_eq!(
            behind(Prefix::Service, "db-1  | a\ndb-1  | b\n").unwrap(),
            "a\nb\n"
        );
        assert_eq!(behind(Prefix::Pod, "[pod/a/b] a\n[pod/a/b]\n").unwrap(), "a\n\n");
        // A level, or a program's own brackets.
        assert_eq!(behind(Prefix::Pod, "[info] a\n[info] b\n"), None);
        assert_eq!(behind(Prefix::Code, "`a`\n``\n`b`\n").unwrap(), "a\n\nb\n");
        let of_ansible = "    \"read(3, \\\"a\\\") = 0\",\n    \"\",\n    \"b\"\n";
        assert_eq!(
            behind(Prefix::Text, of_ansible).unwrap(),
            "read(3, \"a\") = 0\n\nb\n"
        );
        let of_docker =
            "{\"log\":\"a \\\"b\\\"\\r\\n\",\"stream\":\"stdout\"}\n{\"log\":\"\\n\"}\n{\"log\":\"c\"}\n";
        assert_eq!(behind(Prefix::Member, of_docker).unwrap(), "a \"b\"\n\nc\n");
        // Lines that hold several, or none, stay.
        assert_eq!(behind(Prefix::Member, "{\"log\":\"a\\nb\"}\n{\"a\":1}\n"), None);
        // ftrace's head.
        assert_eq!(behind(Prefix::Comment, "# tracer: nop\n#\n# a\n x 1\n"), None);
    }

    proptest! {
        #[test]
        fn any_line_has_a_prefix_or_none(line in "\\PC{0,40}", stamp in "[0-9: TZ.,+-]{0,24}") {
            for prefix in ALL {
                for line in [line.clone(), format!("{stamp}{line}")] {
                    let _ = (prefix.host(&line), prefix.decoded(&line));
                    if let Some((moment, rest)) = prefix.split(&line) {
                        prop_assert!(line.contains(rest) && moment.is_none_or(|moment| line.contains(moment)));
                    }
                }
            }
        }
    }
}

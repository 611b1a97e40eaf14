//! Which column of fio's logs is what. The number of columns alone does not tell (six: with offsets, or with two values).
//!
//! Source: fio's iolog.c, flush_samples: `time, value[, value1], direction, block size[, offset], priority[, issue time]`; before fio 3.18 there
//! is no priority. `--map 'time,value,...'` says it where the first lines fit several.
use crate::clock::Clock;
use crate::error::Bad;
use crate::format::{Head, Source};
use crate::number::leading_digits;
use crate::ImportError;
use case::schema::Op;
use std::path::Path;

/// Lines that are looked at to tell the columns.
const LINES: usize = 2_000;

/// What a column is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Milliseconds since the job began, or since 1970.
    Time,
    /// Nanoseconds, KiB/s or operations per second.
    Value,
    /// With `log_window_value=both`: the maximum of the window.
    ValueMax,
    /// 0 read, 1 write, 2 trim.
    Direction,
    /// Bytes.
    BlockSize,
    /// Bytes.
    Offset,
    /// 0 or 1, or 0x and four digits.
    Priority,
    /// Nanoseconds since the job began.
    IssueTime,
}

use Column::{BlockSize, Direction, IssueTime, Offset, Priority, Time, Value, ValueMax};

const NAMES: [(&str, Column); 8] = [
    ("time", Time),
    ("value", Value),
    ("value1", ValueMax),
    ("ddir", Direction),
    ("bs", BlockSize),
    ("offset", Offset),
    ("prio", Priority),
    ("issue", IssueTime),
];

/// Milliseconds since 1970 are larger than this (1980), since a job's begin smaller (10 years).
const UNIX_MS_MIN: i64 = 315_000_000_000;

/// What the moments of a log count from, by its first: the begin of the job, or 1970 (`log_unix_epoch`, `log_alternate_epoch`).
pub fn clock_of(time_ms: i64, step_ns: i64) -> Clock {
    match time_ms {
        UNIX_MS_MIN.. => Clock::unix(1_000_000),
        _ => Clock::own("the begin of fio's job", step_ns),
    }
}

/// Columns in their order.
pub type Layout = Vec<Column>;

/// Every layout that some version of fio writes.
fn layouts() -> Vec<Layout> {
    let mut all = Vec::new();
    for bits in 0_u8..16 {
        let has = |bit: u8| bits & 1 << bit != 0;
        // Issue time came after priority: no version writes it without.
        if has(3) && !has(2) {
            continue;
        }
        let mut layout = vec![Time, Value];
        layout.extend(has(0).then_some(ValueMax));
        layout.extend([Direction, BlockSize]);
        layout.extend(has(1).then_some(Offset));
        layout.extend(has(2).then_some(Priority));
        layout.extend(has(3).then_some(IssueTime));
        all.push(layout);
    }
    all
}

/// Whether a field can be of this column.
fn fits(column: Column, field: &str) -> bool {
    match column {
        Direction => matches!(field, "0" | "1" | "2"),
        Priority => is_priority(field),
        Value => field.strip_prefix('-').unwrap_or(field).parse::<u64>().is_ok(),
        Offset => field.parse::<u64>().is_ok_and(|offset| offset % 512 == 0),
        // Single requests are of whole sectors; what was averaged has 0.
        BlockSize => field
            .parse::<u64>()
            .is_ok_and(|size| size % 512 == 0 && size < 1 << 40),
        Time | ValueMax | IssueTime => field.parse::<u64>().is_ok(),
    }
}

fn is_priority(field: &str) -> bool {
    match field.strip_prefix("0x") {
        Some(digits) => digits.len() == 4 && u16::from_str_radix(digits, 16).is_ok(),
        None => matches!(field, "0" | "1"),
    }
}

/// A line without the marks of a page that shows it in bold.
fn plain(line: &str) -> &str {
    line.trim().trim_matches('*')
}

fn fields(line: &str) -> Vec<&str> {
    plain(line).split(',').map(str::trim).collect()
}

fn has_layout(line: &str, layout: &[Column]) -> bool {
    let fields = fields(line);
    layout.len() == fields.len()
        && layout
            .iter()
            .zip(&fields)
            .all(|(column, field)| fits(*column, field))
}

/// Whether lines look like those of a log of fio.
pub fn look_like(head: &Head) -> bool {
    let layouts = layouts();
    let lines: Vec<&str> = head.filled_lines().take(20).collect();
    let like = |line: &&&str| layouts.iter().any(|layout| has_layout(line, layout));
    // A damaged line among them does not make it another format.
    !lines.is_empty() && 2 * lines.iter().filter(like).count() > lines.len()
}

/// Whether a name is that of a log of one of these kinds: `NAME_lat.1.log`, `NAME_lat.log`.
pub fn is_log_of(name: &str, kinds: &[&str]) -> bool {
    kind_and_key(name, kinds).is_some()
}

/// Kind of a log, and its name without it.
pub fn kind_and_key<'a>(name: &str, kinds: &[&'a str]) -> Option<(&'a str, String)> {
    let stem = name.strip_suffix(".log")?;
    let (stem, job) = match stem.rsplit_once('.') {
        Some((rest, job)) if job.bytes().all(|b| b.is_ascii_digit()) => (rest, job),
        _ => (stem, ""),
    };
    kinds.iter().find_map(|kind| {
        Some((
            *kind,
            format!("{}.{job}", stem.strip_suffix(&format!("_{kind}"))?),
        ))
    })
}

/// The job that a log is of: `NAME.N` of `NAME_lat.N.log`, as fio numbers its jobs; the name without its end where it is not one of fio's.
pub fn job_of(name: &str, kinds: &[&str]) -> String {
    kind_and_key(name, kinds).map_or_else(
        || name.trim_end_matches(".log").to_owned(),
        |(_, key)| key.trim_end_matches('.').to_owned(),
    )
}

/// The columns of logs of old versions.
pub const FOUR: [Column; 4] = [Time, Value, Direction, BlockSize];

/// The first lines of a log; damaged ones are left out.
pub fn head_entries(path: &Path, layout: &[Column]) -> Result<Vec<Entry>, ImportError> {
    let head = Head::read(path)?;
    let lines = head.filled_lines().take(LINES);
    Ok(lines.filter_map(|line| Entry::parse(line, layout).ok()).collect())
}

/// The columns of a log: from `--map`, else the only layout that its first lines fit.
pub fn layout(source: &Source) -> Result<Layout, ImportError> {
    if let Some(map) = &source.map {
        return declared(map);
    }
    let head = Head::read(source.path())?;
    let all: Vec<&str> = head.filled_lines().take(LINES).collect();
    let Some(first) = all.first().copied() else {
        return Ok(FOUR.to_vec());
    };
    let count = fields(first).len();
    // Lines may be damaged: what is wrong with them is said when they are read. The layouts that most lines fit are left.
    let mut fitting: Vec<(usize, Layout)> = layouts()
        .into_iter()
        .filter(|layout| layout.len() == count)
        .map(|layout| {
            (
                all.iter().filter(|line| has_layout(line, &layout)).count(),
                layout,
            )
        })
        .collect();
    let most = fitting.iter().map(|(fits, _)| *fits).max().unwrap_or(0);
    fitting.retain(|(fits, _)| *fits == most);
    let fitting: Vec<Layout> = fitting.into_iter().map(|(_, layout)| layout).collect();
    let all: Vec<&str> = all
        .into_iter()
        .filter(|line| fitting.iter().any(|layout| has_layout(line, layout)))
        .collect();
    if let [one] = fitting.as_slice() {
        return Ok(one.clone());
    }
    if let Some(likely) = likely(&fitting, &all) {
        return Ok(likely);
    }
    let names: Vec<String> = fitting.iter().map(|layout| shown(layout)).collect();
    let expected = match names.as_slice() {
        [] => {
            "4 to 8 columns: time, value[, value1], direction, block size[, offset][, priority[, issue time]]"
                .into()
        }
        _ => format!("columns that fit one of: {}", names.join("; ")),
    };
    let hint = "say which columns it has, e.g. --map 'time,value,ddir,bs,offset,prio'";
    let found = Bad::new("", "", first).found;
    Err(ImportError::content(
        source.path(),
        "line 1",
        expected,
        found,
        hint,
    ))
}

/// Of several layouts that fit the one that leaves nothing to chance: where five columns end with 0 or 1 in every line, these are priorities and not
/// offsets; where they are not all 0 or 1, no layout with a priority fits. Else none.
fn likely(fitting: &[Layout], lines: &[&str]) -> Option<Layout> {
    let is_whole = |layout: &&Layout| layout.last() == Some(&Priority);
    let rest: Vec<&Layout> = fitting.iter().filter(is_whole).collect();
    let ends_small = lines
        .iter()
        .all(|line| fields(line).last().is_some_and(|field| is_priority(field)));
    match rest.as_slice() {
        [one] if ends_small => Some((*one).clone()),
        _ => None,
    }
}

fn declared(map: &str) -> Result<Layout, ImportError> {
    let mut layout = Vec::new();
    for name in map.split(',').map(str::trim) {
        let known = NAMES.iter().find(|(known, _)| *known == name);
        let Some((_, column)) = known else {
            let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            return Err(ImportError::Use(format!(
                "--map '{map}': expected names out of {}, found '{name}'",
                names.join(", ")
            )));
        };
        layout.push(*column);
    }
    for needed in FOUR {
        if !layout.contains(&needed) {
            return Err(ImportError::Use(format!(
                "--map '{map}': expected the columns time, value, ddir and bs among them, found no {}",
                shown(&[needed])
            )));
        }
    }
    Ok(layout)
}

fn shown(layout: &[Column]) -> String {
    let name = |column: &Column| {
        NAMES
            .iter()
            .find(|(_, known)| known == column)
            .map_or("", |(name, _)| name)
    };
    layout.iter().map(name).collect::<Vec<_>>().join(",")
}

/// A line of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Entry {
    /// Milliseconds.
    pub time_ms: i64,
    /// See [`Column::Value`].
    pub value: i64,
    /// See [`Column::ValueMax`].
    pub value_max: Option<i64>,
    /// 0, 1 or 2.
    pub direction: u8,
    /// 0 where values are those of a window.
    pub size_bytes: i64,
    /// See [`Column::Offset`].
    pub offset_bytes: Option<i64>,
    /// See [`Column::IssueTime`]; 0 = not known.
    pub issue_ns: i64,
}

impl Entry {
    /// Reads a line.
    pub fn parse(line: &str, layout: &[Column]) -> Result<Entry, Bad> {
        let mut entry = Entry::default();
        let mut rest = plain(line).as_bytes();
        for (number, column) in layout.iter().enumerate() {
            let is_last = number + 1 == layout.len();
            let field = next_field(&mut rest, is_last)
                .ok_or_else(|| Bad::new("", format!("{} columns ({})", layout.len(), shown(layout)), line))?;
            let wrong = |expected: &'static str| {
                let (_, name) = (
                    column,
                    NAMES
                        .iter()
                        .find(|(_, known)| known == column)
                        .map_or("", |n| n.0),
                );
                Bad::new(
                    format!("column {name}"),
                    expected,
                    &String::from_utf8_lossy(field),
                )
            };
            match column {
                Priority => {
                    if !std::str::from_utf8(field).is_ok_and(is_priority) {
                        return Err(wrong("0, 1, or 0x and four digits"));
                    }
                }
                Direction => {
                    entry.direction = match field {
                        b"0" => 0,
                        b"1" => 1,
                        b"2" => 2,
                        _ => return Err(wrong("0 (read), 1 (write) or 2 (trim)")),
                    }
                }
                _ => {
                    let value = decimal(field).ok_or_else(|| wrong("a whole number"))?;
                    match column {
                        Time => entry.time_ms = value,
                        Value => entry.value = value,
                        ValueMax => entry.value_max = Some(value),
                        BlockSize => entry.size_bytes = value,
                        Offset => entry.offset_bytes = Some(value),
                        _ => entry.issue_ns = value,
                    }
                }
            }
        }
        Ok(entry)
    }

    /// Whether its moment counts from the begin of its job.
    pub fn is_since_begin(&self) -> bool {
        self.time_ms < UNIX_MS_MIN
    }

    /// Kind of the operation.
    pub fn op(&self) -> Op {
        match self.direction {
            0 => Op::Read,
            1 => Op::Write,
            _ => Op::Discard,
        }
    }
}

/// Columns in the order in which fio prints them, and which of those are there that are not always.
#[derive(Clone, Copy)]
pub struct Printed {
    has_value_max: bool,
    has_offset: bool,
    has_priority: bool,
    has_issue: bool,
}

impl Printed {
    /// None: the columns are in another order.
    pub fn new(layout: &[Column]) -> Option<Printed> {
        let has = |column| layout.contains(&column);
        let printed = Printed {
            has_value_max: has(ValueMax),
            has_offset: has(Offset),
            has_priority: has(Priority),
            has_issue: has(IssueTime),
        };
        layouts().iter().any(|known| known == layout).then_some(printed)
    }

    /// Reads what begins exactly as fio prints a line: a comma and a blank between whole numbers; and how many bytes it is. None: it is
    /// better looked at field by field.
    #[inline]
    pub fn parse(self, line: &[u8]) -> Option<(Entry, usize)> {
        let mut entry = Entry::default();
        let mut at = 0;
        entry.time_ms = whole(line, &mut at)?;
        entry.value = next_whole(line, &mut at)?;
        if self.has_value_max {
            entry.value_max = Some(next_whole(line, &mut at)?);
        }
        let direction = next_byte(line, &mut at)?.wrapping_sub(b'0');
        if direction > 2 {
            return None;
        }
        entry.direction = direction;
        entry.size_bytes = next_whole(line, &mut at)?;
        if self.has_offset {
            entry.offset_bytes = Some(next_whole(line, &mut at)?);
        }
        if self.has_priority {
            let first = next_byte(line, &mut at)?;
            if let Some([b'x', digits @ ..]) = line.get(at..).and_then(|rest| rest.first_chunk::<5>()) {
                if first != b'0' || !digits.iter().all(u8::is_ascii_hexdigit) {
                    return None;
                }
                at += 5;
            } else if first != b'0' && first != b'1' {
                return None;
            }
        }
        if self.has_issue {
            entry.issue_ns = next_whole(line, &mut at)?;
        }
        Some((entry, at))
    }
}

/// The whole number that begins there.
#[inline(always)]
fn whole(line: &[u8], at: &mut usize) -> Option<i64> {
    let (value, digits) = leading_digits(line.get(*at..)?, 0);
    *at += digits;
    (1..=18).contains(&digits).then_some(value as i64)
}

/// The same after a comma and a blank.
#[inline(always)]
fn next_whole(line: &[u8], at: &mut usize) -> Option<i64> {
    if line.get(*at..*at + 2)? != b", " {
        return None;
    }
    *at += 2;
    whole(line, at)
}

/// The byte after a comma and a blank.
#[inline]
fn next_byte(line: &[u8], at: &mut usize) -> Option<u8> {
    match line.get(*at..*at + 3)? {
        [b',', b' ', byte] => {
            *at += 3;
            Some(*byte)
        }
        _ => None,
    }
}

/// Cuts off the next field, without the blanks around it. None: there is none, or there are more after the last.
fn next_field<'a>(rest: &mut &'a [u8], is_last: bool) -> Option<&'a [u8]> {
    let text = *rest;
    let field = match text.iter().position(|&byte| byte == b',') {
        Some(_) if is_last => return None,
        Some(at) => {
            *rest = &text[at + 1..];
            &text[..at]
        }
        None if !is_last => return None,
        None => text,
    };
    Some(field.trim_ascii())
}

/// A whole number below 2^62; none is negative in what is read.
fn decimal(field: &[u8]) -> Option<i64> {
    if field.is_empty() || field.len() > 18 {
        return None;
    }
    let mut value = 0_i64;
    for byte in field {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + i64::from(digit);
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout_of(text: &str) -> Result<String, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x_lat.1.log");
        std::fs::write(&path, text).unwrap();
        let source = Source {
            files: vec![path],
            map: None,
            device: None,
        };
        layout(&source)
            .map(|layout| shown(&layout))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn columns_are_told_from_their_content() {
        for (text, expected) in [
            ("309725, 3612298256, 1, 0\n1, 2, 0, 4096\n", "time,value,ddir,bs"),
            (
                "3250, 2407, 1, 4096, 0\n3250, 2407, 0, 4096, 0\n",
                "time,value,ddir,bs,prio",
            ),
            // A place of 0 or a priority: neither changes what the line says of latency.
            ("0, 36128, 1, 4096, 0\n", "time,value,ddir,bs,prio"),
            (
                "1, 7, 1, 4096, 0\n2, 9, 0, 4096, 1073741824\n",
                "time,value,ddir,bs,offset",
            ),
            (
                "12, 87552, 0, 4096, 1073741824, 0\n",
                "time,value,ddir,bs,offset,prio",
            ),
            (
                "100, 87552, 99999, 1, 0, 0\n200, 8, 9, 0, 0, 0\n",
                "time,value,value1,ddir,bs,prio",
            ),
            (
                "12, 87552, 0, 4096, 4096, 0x4004, 5012345678\n",
                "time,value,ddir,bs,offset,prio,issue",
            ),
        ] {
            assert_eq!(layout_of(text).unwrap(), expected, "{text}");
        }
        let several = layout_of("0, 1, 1, 0, 0, 0\n").unwrap_err();
        assert!(
            several.contains("--map") && several.contains("value1"),
            "{several}"
        );
    }

    #[test]
    fn marks_of_bold_text_are_no_digits() {
        let layout = [Time, Value, Direction, BlockSize];
        let bare = Entry::parse("314225, 1116835033, 1, 0", &layout).unwrap();
        for line in ["**314225, 1116835033, 1, 0", "314225, 1116835033, 1, 0**"] {
            assert_eq!(Entry::parse(line, &layout).unwrap(), bare);
            assert!(has_layout(line, &layout));
        }
    }

    #[test]
    fn names_of_logs() {
        let kinds = ["lat", "clat", "slat"];
        assert_eq!(
            kind_and_key("a_clat.3.log", &kinds).unwrap(),
            ("clat", "a.3".into())
        );
        assert_eq!(
            kind_and_key("a.b_lat.log", &kinds).unwrap(),
            ("lat", "a.b.".into())
        );
        assert!(kind_and_key("a_bw.1.log", &kinds).is_none());
        assert!(kind_and_key("a_lat.1.txt", &kinds).is_none());
        let jobs = ["a_clat.3.log", "a_lat.log", "x.log", "-"].map(|name| job_of(name, &kinds));
        assert_eq!(jobs, ["a.3", "a", "x", "-"]);
    }
}

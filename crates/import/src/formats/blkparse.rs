//! Text of blkparse, and of the kernel's `blk` tracer (classic, and as ftrace prints it).
//!
//! blkparse: `%D %2c %8s %5T.%9t %5p %2a %3d` and the rest by action; the tracer's classic lines have no sequence number, ftrace's begin with
//! task, CPU and flags. Source: blkparse_fmt.c; kernel/trace/blktrace.c.
use super::block_requests::{kind_of, Event, Requests, What, NOT_TRACED};
use crate::clock::Clock;
use crate::error::Bad;
use crate::format::{alone, Format, Head, Source};
use crate::number::leading_digits;
use crate::records::each_line;
use crate::sink::Sink;
use crate::text::{integer, time, word};
use crate::ImportError;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "blkparse",
    about: "text of blkparse, and of the kernel's blk tracer: block requests",
    not_carried: NOT_TRACED,
    recognise,
    together: alone,
    read,
};

const SECOND: i64 = 1_000_000_000;

#[derive(Clone, Copy, PartialEq)]
enum Style {
    Blkparse,
    Classic,
    Ftrace,
}

fn is_device(text: &str) -> bool {
    numbers(text).is_some()
}

fn numbers(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(',')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The style of a line that is an event.
fn style(line: &str) -> Option<Style> {
    let words: Vec<&str> = line.split_whitespace().take(8).collect();
    let is_moment = |text: &&str| text.contains('.') && text.parse::<f64>().is_ok();
    if words.first().is_some_and(|first| is_device(first)) {
        if words.get(3).is_some_and(is_moment) {
            return Some(Style::Blkparse);
        }
        return words.get(2).is_some_and(is_moment).then_some(Style::Classic);
    }
    let (before, after) = line.split_once(": ")?;
    let moment = before.split_whitespace().next_back()?;
    let is_event = is_moment(&moment) && after.split_whitespace().next().is_some_and(is_device);
    (is_event && before.contains('[')).then_some(Style::Ftrace)
}

fn recognise(head: &Head) -> bool {
    head.filled_lines()
        .filter(|line| !line.starts_with('#'))
        .take(5)
        .any(|line| style(line).is_some())
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let mut requests = Requests::new(source.device.clone());
    let (mut told, mut in_summary) = (None, false);
    each_line(source, sink, |line, sink| {
        let text = line.text.trim();
        if text.is_empty() || text.starts_with('#') {
            return Ok(());
        }
        // Once it is clear what the text is, most lines need no closer look.
        if let Some((head, rest)) = told.and_then(|_| printed(text)) {
            in_summary = false;
            if let Some(event) = event(head, rest)? {
                requests.event(event, sink)?;
            }
            return Ok(());
        }
        let Some(style) = style(text) else {
            // Counts per CPU and in total follow the events.
            in_summary |= text.starts_with("CPU") || text.starts_with("Total");
            // Whoever sends its output into a file gets its messages there, too.
            let is_message = text.starts_with("Input file ") && text.ends_with(" added");
            if in_summary || is_message {
                return Ok(());
            }
            return Err(Bad::new(
                "",
                "an event: device, CPU, number, seconds, pid, action, kind",
                text,
            )
            .into());
        };
        in_summary = false;
        if told.is_none() {
            sink.clock(match style {
                Style::Blkparse => Clock::own("the begin of the trace", 1),
                Style::Classic => Clock::boot(1),
                Style::Ftrace => Clock::boot(1000),
            });
            told = Some(style);
        }
        let (head, rest) = head(text, style)?;
        if let Some(event) = event(head, rest)? {
            requests.event(event, sink)?;
        }
        Ok(())
    })?;
    requests.end(sink)
}

/// What a line begins with.
struct Begin<'a> {
    device: (u32, u32),
    cpu: Option<i32>,
    time_ns: i64,
    pid: Option<i32>,
    /// Empty: not said there.
    comm: &'a str,
}

/// The begin of a line that blkparse printed, and the rest of it: numbers, blanks between them. None: it is better looked at as a whole.
fn printed(text: &str) -> Option<(Begin<'_>, &str)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut whole = |before: u8| {
        let begin = at;
        while bytes.get(at) == Some(&before) && (before == b' ' || at == begin) {
            at += 1;
        }
        if at == begin && begin > 0 {
            return None;
        }
        let (value, digits) = leading_digits(&bytes[at..], 0);
        at += digits;
        (1..=9).contains(&digits).then_some((value as u32, digits))
    };
    let (major, minor) = (whole(b' ')?.0, whole(b',')?.0);
    let cpu = whole(b' ')?.0;
    // The number of the event.
    let _ = whole(b' ')?;
    let (seconds, (nanoseconds, digits)) = (whole(b' ')?.0, whole(b'.')?);
    let pid = whole(b' ')?.0;
    if digits != 9 || bytes.get(at) != Some(&b' ') {
        return None;
    }
    let begin = Begin {
        device: (major, minor),
        cpu: Some(cpu as i32),
        time_ns: i64::from(seconds) * SECOND + i64::from(nanoseconds),
        pid: Some(pid as i32).filter(|pid| *pid > 0),
        comm: "",
    };
    Some((begin, &text[at..]))
}

fn head(text: &str, style: Style) -> Result<(Begin<'_>, &str), Bad> {
    let mut rest = text;
    let (device, cpu, moment, pid, comm);
    if style == Style::Ftrace {
        let (before, after) = text
            .split_once(": ")
            .ok_or_else(|| Bad::new("", "an event", text))?;
        let (task, of_cpu) = before
            .split_once('[')
            .ok_or_else(|| Bad::new("column CPU", "[NNN]", before))?;
        let (name, number) = task
            .trim()
            .rsplit_once('-')
            .ok_or_else(|| Bad::new("column task", "NAME-PID", task))?;
        pid = number.split_whitespace().next().unwrap_or("");
        moment = before.split_whitespace().next_back().unwrap_or("");
        (cpu, comm) = (of_cpu.split(']').next().unwrap_or(""), name);
        rest = after;
        device = word(&mut rest);
    } else {
        (device, cpu) = (word(&mut rest), word(&mut rest));
        if style == Style::Blkparse {
            word(&mut rest);
        }
        (moment, pid, comm) = (word(&mut rest), word(&mut rest), "");
    }
    let begin = Begin {
        device: numbers(device).ok_or_else(|| Bad::new("column device", "MAJOR,MINOR", device))?,
        cpu: cpu.parse().ok(),
        time_ns: time(moment, SECOND, "time")?,
        pid: pid.parse().ok().filter(|pid| *pid > 0),
        comm,
    };
    Ok((begin, rest))
}

/// The event of a line, from what follows its begin.
fn event(begin: Begin, mut rest: &str) -> Result<Option<Event>, Bad> {
    let (action, rwbs) = (word(&mut rest), word(&mut rest));
    if !matches!(action, "Q" | "D" | "C" | "X") {
        return Ok(None);
    }
    let mut after = rest;
    let first = word(&mut after);
    let (sector, count, mut split) = if first.bytes().all(|b| b.is_ascii_digit()) && !first.is_empty() {
        let sector = integer(first, "sector")?;
        match word(&mut after) {
            "+" => (sector, integer(word(&mut after), "sectors")?, None),
            "/" => (sector, 0, Some(integer(word(&mut after), "sector of the rest")?)),
            // What completes without data: `0 [0]`.
            other if other.starts_with('[') => (sector, 0, None),
            other => return Err(Bad::new("column sector", "'+' or '/' after it", other)),
        }
    } else {
        // Flushes have no place; commands of users print their payload, or bytes.
        (0, 0, None)
    };
    let end = rest.trim();
    let inside = end.rfind('[').map(|at| end[at + 1..].trim_end_matches(']'));
    let (mut error, mut comm) = (0, begin.comm.to_owned());
    match (action, inside) {
        ("C", Some(number)) => error = number.trim().parse::<i32>().unwrap_or(0).abs(),
        (_, Some(name)) if comm.is_empty() && name != "(null)" => comm = name.to_owned(),
        _ => {}
    }
    let what = match action {
        "Q" => What::Queue,
        "D" => What::Issue,
        "C" => What::Complete,
        _ => What::Split(
            split
                .take()
                .ok_or_else(|| Bad::new("column sector", "SECTOR / SECTOR", rest))?,
        ),
    };
    let (op, flags) = kind_of(rwbs, count);
    Ok(Some(Event {
        time_ns: begin.time_ns,
        what,
        device: begin.device,
        op,
        flags,
        sector,
        count,
        cpu: begin.cpu,
        pid: begin.pid,
        comm,
        error,
    }))
}

//! Text of blkparse, and of the kernel's `blk` tracer (classic, and as ftrace prints it).
//!
//! blkparse: `%D %2c %8s %5T.%9t %5p %2a %3d` and the rest by action; the tracer's classic lines have no sequence number, ftrace's begin with
//! task, CPU and flags. Source: blkparse_fmt.c; kernel/trace/blktrace.c.
use super::block_requests::{kind_of, Event, Requests, What, NOT_TRACED};
use crate::clock::Clock;
use crate::error::{Bad, RecordError};
use crate::format::{alone, Format, Head, Source};
use crate::lines::find;
use crate::number::leading_digits;
use crate::records::{read_lines, Line, ReadLines};
use crate::sink::Sink;
use crate::text::{counted, integer, time, word};
use crate::ImportError;
use case::schema::{NameId, Op};
use foldhash::fast::FixedState;
use std::hash::BuildHasher;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "blkparse",
    about: "text of blkparse, and of the kernel's blk tracer: block requests",
    not_carried: NOT_TRACED,
    recognise,
    together: alone,
    read,
};

/// How much is shown of the text above the events.
const ABOVE_SHOWN_CHARS: usize = 40;
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

/// Whether a line that is no event looks like a damaged one: it begins with a device, or has a CPU in brackets and a device behind a colon.
fn is_meant_as_event(line: &str) -> bool {
    let begins_with_device = |text: &str| {
        let first = text.split_whitespace().next().unwrap_or("");
        let (major, minor) = first.split_once(',').unwrap_or(("", ""));
        major.starts_with(|digit: char| digit.is_ascii_digit())
            && minor.starts_with(|digit: char| digit.is_ascii_digit())
    };
    begins_with_device(line)
        || line.contains('[')
            && line
                .split_once(": ")
                .is_some_and(|(_, after)| begins_with_device(after))
}

fn recognise(head: &Head) -> bool {
    head.filled_lines()
        .filter(|line| !line.starts_with('#'))
        .take(5)
        .any(|line| style(line).is_some())
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let mut reader = Reader {
        requests: Requests::new(source.device.clone()),
        style: None,
        in_summary: false,
        above: 0,
        first_above: String::new(),
    };
    read_lines(source, sink, &mut reader)?;
    if reader.above > 0 {
        sink.unseen(
            format!("what {} above the events says", counted(reader.above, "line")),
            format!("it is text, no event: '{}'", reader.first_above),
        );
    }
    reader.requests.end(sink)
}

struct Reader {
    requests: Requests,
    /// What the text is, once its clock is told.
    style: Option<Style>,
    in_summary: bool,
    /// Lines of text above the first event, and how the first begins.
    above: u64,
    first_above: String,
}

impl ReadLines for Reader {
    fn line(&mut self, line: Line<'_>, sink: &mut Sink) -> Result<(), RecordError> {
        let text = line.text.trim();
        if text.is_empty() || text.starts_with('#') {
            return Ok(());
        }
        let Some(style) = style(text) else {
            // Counts per program (`-s`), per CPU and in total follow the events.
            self.in_summary |= text.starts_with("CPU") || text.starts_with("Total") || is_program(text);
            // Whoever sends its output into a file gets its messages there, too.
            let is_message = text.starts_with("Input file ") && text.ends_with(" added");
            if self.in_summary || is_message {
                return Ok(());
            }
            if self.style.is_none() && !is_meant_as_event(text) {
                if self.above == 0 {
                    self.first_above = text.chars().take(ABOVE_SHOWN_CHARS).collect();
                }
                self.above += 1;
                return Ok(());
            }
            let expected = "an event: device, CPU, number, seconds, pid, action, kind";
            return Err(Bad::new("", expected, text).into());
        };
        self.in_summary = false;
        if self.style.is_none() {
            sink.clock(match style {
                Style::Blkparse => Clock::own("the begin of the trace", 1),
                Style::Classic => Clock::boot(1),
                Style::Ftrace => Clock::boot(1000),
            });
            self.style = Some(style);
        }
        let (head, rest) = head(text, style)?;
        if let Some(event) = event(head, rest, sink)? {
            self.requests.event(event, sink)?;
        }
        Ok(())
    }

    fn plain_lines(&mut self, text: &[u8], sink: &mut Sink) -> Result<(u64, usize), ImportError> {
        let Some(style) = self.style else {
            return Ok((0, 0));
        };
        let (mut lines, mut used) = (0, 0);
        // The end of a line is looked for first: the CPU reads several lines at once then.
        while let Some(length) = find(&text[used..], b'\n') {
            let Some(event) = printed(&text[used..], length, style, sink) else {
                break;
            };
            lines += 1;
            used += length + 1;
            self.in_summary = false;
            if let Some(event) = event {
                self.requests.event(event, sink)?;
            }
        }
        Ok((lines, used))
    }
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

/// The event of the line of this length that `text` begins with, if it is exactly as blkparse or the kernel prints one: numbers, blanks between them,
/// and who did it in brackets; `Some(None)`: it is an event that makes no request. None: the line is better looked at word by word.
#[inline]
fn printed(text: &[u8], length: usize, style: Style, sink: &mut Sink) -> Option<Option<Event>> {
    let (begin, mut at) = match style {
        Style::Ftrace => printed_task(text, length)?,
        _ => printed_begin(text, style)?,
    };
    let action = blank_and_word(text, &mut at)?;
    let [action @ (b'Q' | b'D' | b'C' | b'R')] = action else {
        // What is split tells where.
        return (action != b"X").then_some(None);
    };
    let rwbs = blank_and_word(text, &mut at)?;
    let sector = long_after(text, &mut at)?;
    if text.get(at..at + 2)? != b" +" {
        return None;
    }
    at += 2;
    let count = long_after(text, &mut at)?;
    let [b' ', b'[', inside @ .., b']'] = text.get(at..length)? else {
        return None;
    };
    if inside.iter().any(|byte| matches!(byte, b'[' | b']')) {
        return None;
    }
    let inside = std::str::from_utf8(inside).ok()?;
    let (what, error, comm) = match action {
        b'Q' => (
            What::Queue,
            0,
            sink.name_if(begin.comm).or_else(|| name(inside, sink)),
        ),
        b'D' => (What::Issue, 0, None),
        b'R' => (What::Requeue, 0, None),
        _ => (What::Complete, error(inside), None),
    };
    let (op, flags) = kind_of(rwbs, count);
    Some(Some(Event {
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

/// `8,0 3 1 0.000000000 697`: what a line of blkparse begins with, and its length; the kernel's classic lines have no number of the event.
#[inline(always)]
fn printed_begin(text: &[u8], style: Style) -> Option<(Begin<'static>, usize)> {
    let mut at = 0;
    let device = (whole(text, &mut at)?, after(text, &mut at, b',')?);
    let cpu = next_whole(text, &mut at)?;
    if style == Style::Blkparse {
        next_whole(text, &mut at)?;
    }
    let seconds = next_whole(text, &mut at)?;
    let point = at;
    let nanoseconds = after(text, &mut at, b'.')?;
    if at != point + 10 {
        return None;
    }
    let pid = next_whole(text, &mut at)?;
    Some((begin(device, cpu, (seconds, nanoseconds), pid, ""), at))
}

/// `fio-697 [003] d..1. 12.345678: 8,0`: the same of a line of ftrace.
#[inline(always)]
fn printed_task(text: &[u8], length: usize) -> Option<(Begin<'_>, usize)> {
    let bracket = find(&text[..length], b'[')?;
    let task = text[..bracket].trim_ascii();
    let dash = task.iter().rposition(|&byte| byte == b'-')?;
    let (comm, number) = (&task[..dash], &task[dash + 1..]);
    let (pid, length_of_pid) = leading_digits(number, 0);
    // A name with a colon and a blank in it would end there.
    if length_of_pid != number.len()
        || !(1..=9).contains(&length_of_pid)
        || comm.windows(2).any(|two| two == b": ")
    {
        return None;
    }
    let comm = std::str::from_utf8(comm).ok()?;
    let mut at = bracket + 1;
    let cpu = digits(text, &mut at)?;
    pass_byte(text, &mut at, b']')?;
    pass_byte(text, &mut at, b' ')?;
    pass_blanks(text, &mut at);
    // Flags of the CPU, where they are printed, begin with no digit.
    if !text.get(at)?.is_ascii_digit() {
        let flags = find(&text[at..length], b' ')?;
        // An event would begin there.
        if text[at + flags - 1] == b':' {
            return None;
        }
        at += flags;
        pass_blanks(text, &mut at);
    }
    let seconds = digits(text, &mut at)?;
    let point = at;
    let microseconds = after(text, &mut at, b'.')?;
    if at != point + 7 {
        return None;
    }
    pass_byte(text, &mut at, b':')?;
    pass_byte(text, &mut at, b' ')?;
    let device = (whole(text, &mut at)?, after(text, &mut at, b',')?);
    let begin = begin(device, cpu, (seconds, microseconds * 1000), pid as u32, comm);
    Some((begin, at))
}

#[inline(always)]
fn begin(
    device: (u32, u32),
    cpu: u32,
    (seconds, nanoseconds): (u32, u32),
    pid: u32,
    comm: &str,
) -> Begin<'_> {
    Begin {
        device,
        cpu: Some(cpu as i32),
        time_ns: i64::from(seconds) * SECOND + i64::from(nanoseconds),
        pid: Some(pid as i32).filter(|pid| *pid > 0),
        comm,
    }
}

/// A number of at most nine digits after any blanks.
#[inline(always)]
fn whole(text: &[u8], at: &mut usize) -> Option<u32> {
    pass_blanks(text, at);
    digits(text, at)
}

/// The same after at least one blank.
#[inline(always)]
fn next_whole(text: &[u8], at: &mut usize) -> Option<u32> {
    pass_byte(text, at, b' ')?;
    whole(text, at)
}

/// The same after one of this byte.
#[inline(always)]
fn after(text: &[u8], at: &mut usize, before: u8) -> Option<u32> {
    pass_byte(text, at, before)?;
    digits(text, at)
}

#[inline(always)]
fn pass_byte(text: &[u8], at: &mut usize, wanted: u8) -> Option<()> {
    let is_there = text.get(*at) == Some(&wanted);
    *at += 1;
    is_there.then_some(())
}

/// Blanks, eight at a time.
#[inline(always)]
fn pass_blanks(text: &[u8], at: &mut usize) {
    while let Some(eight) = text[*at..].first_chunk() {
        let others = u64::from_le_bytes(*eight) ^ u64::from_le_bytes([b' '; 8]);
        *at += others.trailing_zeros() as usize / 8;
        if others != 0 {
            return;
        }
    }
    while text.get(*at) == Some(&b' ') {
        *at += 1;
    }
}

#[inline(always)]
fn digits(text: &[u8], at: &mut usize) -> Option<u32> {
    let (value, digits) = leading_digits(&text[*at..], 0);
    *at += digits;
    (1..=9).contains(&digits).then_some(value as u32)
}

/// A number after a blank.
#[inline(always)]
fn long_after(text: &[u8], at: &mut usize) -> Option<u64> {
    pass_byte(text, at, b' ')?;
    let (value, digits) = leading_digits(text.get(*at..)?, 0);
    *at += digits;
    (1..=18).contains(&digits).then_some(value)
}

/// A word of letters after blanks.
#[inline(always)]
fn blank_and_word<'a>(text: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    pass_byte(text, at, b' ')?;
    pass_blanks(text, at);
    let begin = *at;
    while text.get(*at).is_some_and(u8::is_ascii_alphabetic) {
        *at += 1;
    }
    (*at > begin && text.get(*at) == Some(&b' ')).then(|| &text[begin..*at])
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
fn event(begin: Begin, mut rest: &str, sink: &mut Sink) -> Result<Option<Event>, Bad> {
    let (action, rwbs) = (word(&mut rest), word(&mut rest));
    if !matches!(action, "Q" | "D" | "R" | "C" | "X") {
        return Ok(None);
    }
    let mut after = rest;
    let first = word(&mut after);
    // A command of a program or of the kernel that is passed through: `D   N 36 (12 00 ..) [smartctl]`, `C   N (12 00 ..) [0]`. With `-t` the time since
    // an earlier event stands there, with blanks: `D   W (     238) [x]`.
    let is_command_in = |text: &str| {
        text.strip_prefix('(')
            .is_some_and(|inside| !inside.starts_with(' '))
    };
    let is_command = is_command_in(rest.trim_start()) || is_command_in(after.trim_start());
    let (sector, count, mut split) =
        if !is_command && first.bytes().all(|b| b.is_ascii_digit()) && !first.is_empty() {
            let sector = integer(first, "sector")?;
            match word(&mut after) {
                "+" => (sector, integer(word(&mut after), "sectors")?, None),
                "/" => (sector, 0, Some(integer(word(&mut after), "sector of the rest")?)),
                // What completes without data: `0 [0]`. Before it, the number is that of a command's bytes.
                other if other.starts_with('[') => (if action == "C" { sector } else { 0 }, 0, None),
                other => return Err(Bad::new("column sector", "'+' or '/' after it", other)),
            }
        } else {
            // Neither flushes nor commands have a place; which command it is tells whose completion one is.
            (if is_command { command_key(rest) } else { 0 }, 0, None)
        };
    let end = rest.trim();
    let inside = end.rfind('[').map(|at| end[at + 1..].trim_end_matches(']'));
    let (mut code, mut comm) = (0, None);
    match (action, inside) {
        // Of commands old kernels say the status that SCSI gives, which is no errno.
        ("C", Some(inside)) if !is_command || !matches!(inside.trim().parse(), Ok(1..=255)) => {
            code = error(inside)
        }
        // Who issued or completed a request is not asked for.
        ("Q", Some(inside)) => comm = sink.name_if(begin.comm).or_else(|| name(inside, sink)),
        ("Q", None) => comm = sink.name_if(begin.comm),
        _ => {}
    }
    let what = match action {
        "Q" => What::Queue,
        "D" => What::Issue,
        "R" => What::Requeue,
        "C" => What::Complete,
        _ => What::Split(
            split
                .take()
                .ok_or_else(|| Bad::new("column sector", "SECTOR / SECTOR", rest))?,
        ),
    };
    let (op, flags) = match is_command {
        true => (Op::Other, 0),
        false => kind_of(rwbs.as_bytes(), count),
    };
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
        error: code,
    }))
}

/// Who did it, as it stands in brackets.
fn name(inside: &str, sink: &mut Sink) -> Option<NameId> {
    sink.name_if(inside).filter(|_| inside != "(null)")
}

/// The error of a completion, as it stands in brackets.
fn error(inside: &str) -> i32 {
    match inside.trim().parse::<i32>() {
        // blkparse prints the sixteen bits of -121 without their sign.
        Ok(code @ 32_768..=65_535) => 65_536 - code,
        Ok(code) => code.saturating_abs(),
        Err(_) => 0,
    }
}

/// A number for the bytes of a command, `(12 00 ..)`.
fn command_key(text: &str) -> u64 {
    let inside = text.split_once('(').map_or("", |(_, rest)| rest);
    FixedState::default().hash_one(inside.split(')').next())
}

/// `fio (28829)`: a program, of which counts follow.
fn is_program(text: &str) -> bool {
    let pid = text.strip_suffix(')').and_then(|text| text.rsplit_once(" ("));
    pid.is_some_and(|(_, pid)| !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::import;
    use case::sealed::Names;
    use proptest::prelude::*;

    #[test]
    fn text_above_the_events_is_passed_over_and_damaged_events_are_not() {
        let event = "259,0    3        1     0.000000299  1867  C   W 763360912 + 8 [0]";
        assert!(style(event).is_some() && is_meant_as_event(&event.replace("0.000000299", "0.00x")));
        let of_kernel = "  fio-697 [003] d..1. 12.34x: 8,0  C   W 8 + 8 [0]";
        assert!(style(of_kernel).is_none() && is_meant_as_event(of_kernel));
        for line in ["FILE: nvme0n1.blktrace.txt", "one, two [x]", "Here it is: [3] a"] {
            assert!(!is_meant_as_event(line), "{line}");
        }
        let issue = event.replace("  C ", "  D ");
        let log = format!("FILE: nvme0n1.blktrace.txt\n\n{issue}\n{event}\n");
        let summary = import(&FORMAT, &log).unwrap();
        let said = summary.not_observed.iter().map(|unseen| unseen.what.as_str());
        assert_eq!(summary.records, 1);
        assert!(said
            .collect::<Vec<_>>()
            .contains(&"what 1 line above the events says"));
        let damaged = log.replacen("0.000000299", "0.00x", 1);
        assert!(import(&FORMAT, &damaged).is_err());
    }

    #[test]
    fn a_completion_that_failed_without_its_issue_is_told() {
        let log = "251,0 3 1 0.1 9 D W 0 + 8 [x]\n251,0 3 2 0.2 9 C W 0 + 8 [0]\n251,0 3 3 0.3 9 C W 80 + 8 [65531]\n";
        assert_eq!(error("65531"), 5);
        let missing = import(&FORMAT, log).unwrap().missing;
        assert_eq!(
            missing[0].what,
            "1 request without an issue in the log, slow or not, of which 1 failed"
        );
    }

    #[test]
    fn times_since_an_earlier_event_are_no_commands() {
        let mut silent = |_: u64| {};
        let mut names = Names::default();
        let mut sink = Sink::survey(&mut names, &mut silent, false);
        let mut kind = |line: &str| {
            let (begin, rest) = head(line, Style::Blkparse).unwrap();
            event(begin, rest, &mut sink).unwrap().unwrap().op
        };
        let begin = "251,0   11  1339677   276.375800236  8962  D ";
        assert_eq!(kind(&format!("{begin}  W (     238) [ext4lazyinit]")), Op::Write);
        assert_eq!(
            kind(&format!("{begin}  N 36 (12 00 00 00 24 00) [smartctl]")),
            Op::Other
        );
        assert_eq!(
            kind(&format!("{begin}  R 36 (12 00 00 00 24 00) [smartctl]")),
            Op::Other
        );
    }

    #[test]
    fn counts_per_program_are_passed_over() {
        let request =
            "  7,0  0  1  0.000000000  5  D  R 8 + 8 [fio]\n  7,0  0  2  0.000050000  0  C  R 8 + 8 [0]\n";
        let counts = " Reads Queued:  15,  60KiB\t Writes Queued:  18,  72KiB\n";
        let log = format!("{request}unknown (14)\n{counts}fio (28829)\n{counts}\nCPU0 (7,0):\n{counts}");
        assert_eq!(crate::testing::import(&FORMAT, &log).unwrap().rows, 1);
        assert!(!is_program("fio ()") && !is_program("7,0 0 1 0.0 5 D R (12 00 ..)"));
    }

    #[test]
    fn commands_that_are_passed_through_are_neither_reads_nor_writes() {
        let (mut names, mut silent) = (Names::default(), |_: u64| {});
        let mut sink = Sink::survey(&mut names, &mut silent, false);
        let mut read = |line: &str| {
            let (begin, rest) = head(line, Style::Blkparse).unwrap();
            let event = event(begin, rest, &mut sink).unwrap().unwrap();
            (event.what, event.op, event.sector, event.count, event.error)
        };
        let (test, asks) = (command_key("(00 ..)"), command_key("(12 00 00 00 24 00 ..)"));
        assert_ne!(test, asks);
        for (line, key) in [
            (
                "8,16   1   10     0.000193637 68010  D   N 0 (00 ..) [kworker/1:0]",
                test,
            ),
            (
                "8,16   1   10     0.000193637 68010  D   R 36 (12 00 00 00 24 00 ..) [smartctl]",
                asks,
            ),
            ("8,16   1   10     0.000193637 68010  D   N 36 [smartctl]", 0),
        ] {
            assert_eq!(read(line), (What::Issue, Op::Other, key, 0, 0), "{line}");
        }
        for (code, error) in [("0", 0), ("2", 0), ("-5", 5), ("65531", 5)] {
            assert_eq!(
                read(&format!(
                    "8,16   0   1     0.000206557 89787  C   N (00 ..) [{code}]"
                )),
                (What::Complete, Op::Other, test, 0, error)
            );
        }
        assert_eq!(["0", "-5", "65415", "fio"].map(error), [0, 5, 121, 0]);
        assert_eq!(
            read("8,16   3   4     0.100499251    24  C  WS 0 [0]"),
            (What::Complete, Op::Write, 0, 0, 0)
        );
    }

    fn agrees(line: &str, after: &str, expected: Style) -> Result<(), TestCaseError> {
        let (mut names, mut silent) = (Names::default(), |_: u64| {});
        let mut sink = Sink::survey(&mut names, &mut silent, false);
        let text = format!("{line}\n{after}");
        if let Some(read) = printed(text.as_bytes(), line.len(), expected, &mut sink) {
            let text = line.trim();
            prop_assert_eq!(style(text).map(|style| style == expected), Some(true), "{}", line);
            let (begin, rest) = head(text, expected).unwrap();
            prop_assert_eq!(read, event(begin, rest, &mut sink).unwrap(), "{}", line);
        }
        Ok(())
    }

    fn spoil(line: String, spoilt: Option<(prop::sample::Index, char)>) -> String {
        let Some((at, letter)) = spoilt else {
            return line;
        };
        let at = at.index(line.chars().count());
        line.chars()
            .enumerate()
            .map(|(place, old)| if place == at { letter } else { old })
            .collect()
    }

    #[test]
    fn lines_as_they_are_printed_need_no_closer_look() {
        let (mut names, mut silent) = (Names::default(), |_: u64| {});
        let mut sink = Sink::survey(&mut names, &mut silent, false);
        for (style, line) in [
            (
                Style::Blkparse,
                "  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]",
            ),
            (
                Style::Classic,
                "  8,0    3     0.000000000   697  Q   W 223490 + 8 [kjournald]",
            ),
            (
                Style::Ftrace,
                "     kworker/0:1-697     [003] d..1.    12.345678:   8,0    Q   W 223490 + 8 [kworker/0:1]",
            ),
            (
                Style::Ftrace,
                "    my-fio job-697     [003]    12.345678:   8,0    C   W 223490 + 8 [0]",
            ),
        ] {
            assert!(
                printed(line.as_bytes(), line.len(), style, &mut sink).is_some(),
                "{line}"
            );
            agrees(line, "", style).unwrap();
        }
    }

    proptest! {
        /// A line that needs no closer look says the same as when it is looked at word by word.
        #[test]
        fn both_ways_of_reading_agree(
            (device, cpu, number) in ((0_u32..300, 0_u32..70_000), 0_u32..200, 0_u64..2_000_000_000),
            (seconds, nanoseconds, pid) in (0_u64..2_000_000_000, 0_u32..1_000_000_000, 0_u32..4_200_000),
            action in prop::sample::select(vec!["Q", "G", "I", "D", "R", "C", "UT", "P", "m"]),
            kind in prop::sample::select(vec!["R", "W", "WS", "RA", "RM", "FWFSM", "FWS", "D", "N"]),
            (sector, count) in (any::<u64>(), 0_u64..5000),
            inside in prop::sample::select(vec!["fio", "0", "-5", "(null)", "kworker/u8:0", "a b", "x]", "[y", "\u{e9}", ""]),
            task in prop::sample::select(vec!["fio", "kworker/u8:0", "a b", "a-7", "x: y", "[y", "\u{e9}", "", "<idle>"]),
            cpu_flags in prop::sample::select(vec!["..... ", "d..1. ", "1.... ", "", "(-----) "]),
            spoilt in prop::option::of((any::<prop::sample::Index>(), prop::sample::select(vec![' ', 'x', '[', '7', ',', ':', '-']))),
            after in prop::sample::select(vec!["", "  8,0    3        1     0.0"]),
        ) {
            let (major, minor) = device;
            let request = format!("{action:>2} {kind:>3} {sector} + {count} [{inside}]");
            let microseconds = nanoseconds / 1000;
            for (style, line) in [
                (Style::Blkparse, format!("{major:>3},{minor:<3} {cpu:2} {number:8} {seconds:5}.{nanoseconds:09} {pid:5} {request}")),
                (Style::Classic, format!("{major:>3},{minor:<3} {cpu:2} {seconds:5}.{nanoseconds:09} {pid:5} {request}")),
                (Style::Ftrace, format!("{task:>16}-{pid:<7} [{cpu:03}] {cpu_flags}{seconds:5}.{microseconds:06}: {major:>3},{minor:<3} {request}")),
            ] {
                agrees(&spoil(line, spoilt), after, style)?;
            }
        }
    }
}

//! Kernel tracepoints as text: `perf script`, `trace-cmd report`, and ftrace's own `trace` file.
//!
//! Read are block_bio_queue, block_split, block_rq_insert, _issue, _requeue and _complete (operations), irq_handler_entry and _exit (handler runs),
//! nvme_setup_cmd and nvme_complete_rq (commands), sched_switch and sched_wakeup (waits of threads that submit). Where no bio was traced, a
//! request's queue begins when it was inserted. Source: include/trace/events/block.h, irq.h.
use super::block_requests::{kind_of, Event, Requests, What};
use super::nvme_commands::Commands;
use super::thread_waits::Waits;
use crate::clock::Clock;
use crate::error::Bad;
use crate::format::{alone, Format, Head, Source};
use crate::records::each_line;
use crate::sink::Sink;
use crate::text::{counted, integer, time, word};
use crate::ImportError;
use case::schema::{IrqKind, IrqRow};
use std::collections::HashMap;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "trace-events",
    about: "text of perf script, trace-cmd report and ftrace: block requests, NVMe commands, interrupt handlers, waits of threads",
    not_carried: &[
        (
            "other tracepoints than block, irq, nvme and sched",
            "what file systems and others say is passed over",
        ),
        (
            "waits of threads that submit no request in the log",
            "they delay no operation of it",
        ),
        (
            "where the interrupt began",
            "completions are device and interrupt together",
        ),
    ],
    recognise,
    together: alone,
    read,
};

/// A tracepoint in a line.
struct Point<'a> {
    comm: &'a str,
    pid: Option<i32>,
    cpu: Option<i32>,
    moment: &'a str,
    name: &'a str,
    rest: &'a str,
}

fn split(line: &str) -> Option<Point<'_>> {
    let open = line.find(" [")?;
    let (task, after) = (line[..open].trim(), &line[open + 2..]);
    let (cpu, after) = after.split_once(']')?;
    let (before, after) = after.split_once(": ")?;
    let moment = before.split_whitespace().next_back()?;
    let is_moment = moment.split_once('.').is_some_and(|(s, f)| {
        !s.is_empty() && !f.is_empty() && s.bytes().chain(f.bytes()).all(|b| b.is_ascii_digit())
    });
    let (name, rest) = after.trim_start().split_once(':').filter(|_| is_moment)?;
    // perf says `block:block_rq_issue:`.
    let (name, rest) = match rest.split_once(':') {
        Some((event, rest)) if !event.is_empty() && !event.contains(' ') => (event, rest),
        _ => (name, rest),
    };
    // With record-tgid (Android's traces) the process stands behind the thread: `fio-4711  (   4700)`.
    let task = match task.strip_suffix(')').and_then(|rest| rest.rsplit_once('(')) {
        Some((task, process)) if process.trim().bytes().all(|b| b.is_ascii_digit() || b == b'-') => {
            task.trim_end()
        }
        _ => task,
    };
    let (comm, pid) = match task.rsplit_once([' ', '-']) {
        // perf prints `pid/tid` where asked to.
        Some((comm, number)) => (comm.trim(), number.split('/').next_back()?.parse().ok()),
        None => (task, None),
    };
    Some(Point {
        comm,
        pid,
        cpu: cpu.trim().parse().ok(),
        moment,
        name,
        rest,
    })
}

/// Events that are read.
const KNOWN: [&str; 13] = [
    "block_bio_queue",
    "block_split",
    "block_rq_insert",
    "block_rq_issue",
    "block_rq_requeue",
    "block_rq_complete",
    "nvme_setup_cmd",
    "nvme_complete_rq",
    "sched_switch",
    "sched_wakeup",
    "sched_wakeup_new",
    "irq_handler_entry",
    "irq_handler_exit",
];

fn is_known(name: &str) -> bool {
    KNOWN.contains(&name)
}

/// Whether a line names an event as an event's line does; stacks name functions.
fn is_meant_as_event(line: &str) -> bool {
    KNOWN.iter().any(|name| {
        let after = line.find(name).map(|at| &line[at + name.len()..]);
        after.is_some_and(|after| after.starts_with(": "))
    })
}

fn recognise(head: &Head) -> bool {
    let mut points = head.lines().take(1000).filter_map(split);
    binary(head).is_some() || points.any(|point| is_known(point.name))
}

/// Whose own file it is, before anybody printed it, and what prints it.
fn binary(head: &Head) -> Option<(&'static str, &'static str)> {
    let known: [(&[u8], _); 2] = [
        (b"PERFILE2", ("perf's data", "perf script --ns -i FILE")),
        (
            b"\x17\x08Dtracing",
            ("trace-cmd's data", "trace-cmd report -i FILE"),
        ),
    ];
    let (_, names) = known.iter().find(|(mark, _)| head.bytes.starts_with(mark))?;
    Some(*names)
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    if let Some((found, printer)) = binary(&Head::read(source.path())?) {
        let hint = format!("print it: {printer} | whodisk import -");
        return Err(ImportError::content(source.path(), "begin", "text", found, hint));
    }
    let mut requests = Requests::new(source.device.clone());
    let (mut commands, mut waits) = (Commands::new(source)?, Waits::default());
    let mut running: HashMap<i32, (i64, i32, String)> = HashMap::new();
    let (mut is_told, mut has_block, mut has_bios, mut others) = (false, false, false, 0_u64);
    let (mut lost_events, mut losses) = (0_u64, 0_u64);
    each_line(source, sink, |line, sink| {
        let text = line.text;
        if let Some(count) = lost(text) {
            requests.has_losses();
            lost_events = lost_events.saturating_add(count);
            losses += 1;
            return Ok(());
        }
        if text.trim().is_empty() || text.trim_start().starts_with('#') || !text.contains(" [") {
            return Ok(());
        }
        // Stacks and headers stand between the events.
        let Some(point) = split(text) else {
            if is_meant_as_event(text) {
                return Err(Bad::new("", "TASK-PID [CPU] SECONDS: EVENT: ...", text).into());
            }
            return Ok(());
        };
        if !is_known(point.name) {
            others += 1;
            return Ok(());
        }
        let time_ns = time(point.moment, 1_000_000_000, "time")?;
        if !is_told {
            let digits = point
                .moment
                .split_once('.')
                .map_or(0, |(_, fraction)| fraction.len().min(9));
            let step_ns = 10_i64.pow(9 - digits as u32);
            sink.clock(Clock::boot(step_ns));
            sink.resolution(step_ns);
            is_told = true;
        }
        match point.name {
            "irq_handler_entry" | "irq_handler_exit" => return handler(&point, time_ns, &mut running, sink),
            "nvme_complete_rq" => return commands.complete(time_ns, point.cpu, point.rest, sink),
            "sched_switch" => return waits.switch(time_ns, point.cpu, point.rest, sink),
            "sched_wakeup" | "sched_wakeup_new" => return waits.wakeup(time_ns, point.rest, sink),
            "nvme_setup_cmd" => {
                waits.submits(point.pid);
                return Ok(commands.setup(time_ns, point.cpu, point.pid, point.rest, sink)?);
            }
            "block_bio_queue" | "block_rq_insert" => waits.submits(point.pid),
            _ => {}
        }
        has_block = true;
        has_bios |= point.name == "block_bio_queue";
        if let Some(event) = request(&point, time_ns, sink)? {
            requests.event(event, sink)?;
        }
        Ok(())
    })?;
    if has_block && !has_bios {
        sink.unseen(
            "time before a request was inserted",
            "block_bio_queue was not traced",
        );
    }
    if others > 0 {
        sink.unseen(
            match others {
                1 => "what 1 other tracepoint says".to_owned(),
                _ => format!("what {others} other tracepoints say"),
            },
            "only those of block, irq, nvme and sched are read",
        );
    }
    if losses > 0 {
        let count = match lost_events {
            0 => "events".to_owned(),
            count => counted(count, "event"),
        };
        sink.missing(
            format!("{count} that the tracer lost"),
            "its buffer was full: requests with their begin or end among them are missing, and a pair may be of two requests",
        );
    }
    commands.end(sink)?;
    requests.end(sink)
}

/// How many events were lost where the buffer was full, 0 if it does not say: `CPU:2 [LOST 12 EVENTS]`, as ftrace and trace-cmd have it,
/// or `CPU:2 [12 EVENTS DROPPED]`, `CPU:2 [EVENTS DROPPED]`.
fn lost(line: &str) -> Option<u64> {
    let rest = line.trim().strip_prefix("CPU:")?;
    let (_, inside) = rest.strip_suffix(']')?.split_once('[')?;
    let count = inside
        .strip_prefix("LOST ")
        .and_then(|rest| rest.strip_suffix(" EVENTS"))
        .or_else(|| inside.strip_suffix("EVENTS DROPPED"))?;
    match count.trim() {
        "" => Some(0),
        count => count.parse().ok(),
    }
}

fn request(point: &Point<'_>, time_ns: i64, sink: &mut Sink) -> Result<Option<Event>, Bad> {
    let mut rest = point.rest;
    let device = word(&mut rest);
    let numbers = device
        .split_once(',')
        .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    let numbers = numbers.ok_or_else(|| Bad::new("column device", "MAJOR,MINOR", device))?;
    let rwbs = word(&mut rest);
    // `4096 ()`, `()`, or nothing stand before the place.
    let place = rest.rfind(')').map_or(rest, |at| {
        if rest[..at].contains('(') {
            &rest[at + 1..]
        } else {
            rest
        }
    });
    let mut place = place;
    let sector: u64 = integer(word(&mut place), "sector")?;
    let sign = word(&mut place);
    let number: u64 = integer(word(&mut place), "sectors")?;
    let what = match (point.name, sign) {
        ("block_bio_queue", "+") => What::Queue,
        ("block_rq_insert", "+") => What::Insert,
        ("block_rq_issue", "+") => What::Issue,
        ("block_rq_requeue", "+") => What::Requeue,
        ("block_rq_complete", "+") => What::Complete,
        ("block_split", "/") => What::Split(number),
        _ => return Err(Bad::new("column sectors", "SECTOR + SECTORS", rest)),
    };
    let count = if sign == "+" { number } else { 0 };
    let inside = place
        .rfind('[')
        .map(|at| place[at + 1..].trim_end().trim_end_matches(']'));
    let error = match what {
        What::Complete => inside
            .and_then(|text| text.parse::<i32>().ok())
            .unwrap_or(0)
            .saturating_abs(),
        _ => 0,
    };
    let (op, flags) = kind_of(rwbs.as_bytes(), count);
    let sector = if count == 0 && sector == u64::MAX {
        0
    } else {
        sector
    };
    Ok(Some(Event {
        time_ns,
        what,
        device: numbers,
        op,
        flags,
        sector,
        count,
        cpu: point.cpu,
        pid: point.pid.filter(|pid| *pid > 0),
        comm: sink.name_if(point.comm),
        error,
    }))
}

/// `irq=36 name=virtio1-req.0` begins, `irq=36 ret=handled` ends a run.
fn handler(
    point: &Point<'_>,
    time_ns: i64,
    running: &mut HashMap<i32, (i64, i32, String)>,
    sink: &mut Sink,
) -> Result<(), crate::error::RecordError> {
    let field = |name: &str| {
        point
            .rest
            .split_whitespace()
            .find_map(|word| word.strip_prefix(name))
    };
    let vector: i32 = integer(field("irq=").unwrap_or(""), "irq")?;
    let Some(cpu) = point.cpu else {
        return Err(Bad::new("column CPU", "[NNN]", point.rest).into());
    };
    if point.name == "irq_handler_entry" {
        running.insert(cpu, (time_ns, vector, field("name=").unwrap_or("").to_owned()));
        return Ok(());
    }
    let Some((start_ns, of, name)) = running.remove(&cpu) else {
        return Ok(());
    };
    if of != vector {
        return Ok(());
    }
    let handler = sink.name(&name);
    sink.irq(IrqRow {
        host: None,
        cpu,
        vector: Some(vector),
        handler,
        kind: IrqKind::Hard,
        device: None,
        start_ns,
        duration_ns: (time_ns - start_ns).max(0),
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_of_every_tool() {
        for (line, comm, pid) in [
            (
                "  fio-4711  [001] d..1. 16.000100: block_rq_issue: 8,0 R 4096 () 8 + 8 [fio]",
                "fio",
                Some(4711),
            ),
            (
                "  a-b (c)-77  ( 70) [001] .... 16.000100: block_rq_issue: 8,0 R 4096 () 8 + 8 [x]",
                "a-b (c)",
                Some(77),
            ),
            (
                "  <idle>-0  (-----) [001] .... 16.000100: block_rq_issue: 8,0 R 4096 () 8 + 8 [x]",
                "<idle>",
                Some(0),
            ),
            (
                "  opt cgu.03 22552 [001]   16.000100:    block:block_rq_issue: 8,0 R 0 () 8 + 8 [x]",
                "opt cgu.03",
                Some(22552),
            ),
        ] {
            let point = split(line).unwrap();
            assert_eq!(
                (point.comm, point.pid, point.cpu, point.name),
                (comm, pid, Some(1), "block_rq_issue"),
                "{line}"
            );
        }
    }

    #[test]
    fn a_damaged_event_is_bad_and_a_stack_is_not() {
        let event = "  fio-47 [001] d..1. 16.000100: block_rq_issue: 8,0 R 4096 () 8 + 8 [x]";
        assert!(split(event).is_some() && split(&event.replace("16.0", "16.x")).is_none());
        assert!(is_meant_as_event(&event.replace("16.0", "16.x")));
        for line in [
            "        ffffffff814 trace_event_raw_event_block_rq_issue+0x7 ([kernel.kallsyms])",
            " => block_rq_issue [kernel]",
            "avg-cpu: [x]",
        ] {
            assert!(!is_meant_as_event(line), "{line}");
        }
    }

    #[test]
    fn events_that_were_lost_are_told() {
        let lines = [
            "CPU:2 [LOST 12 EVENTS]",
            "  CPU:0 [7 EVENTS DROPPED]",
            "CPU:0 [EVENTS DROPPED]",
            "CPU:2 [LOST x EVENTS]",
            "CPU:2 [000] 1.5: block_rq_issue: x",
        ];
        assert_eq!(lines.map(lost), [Some(12), Some(7), Some(0), None, None]);
    }
}

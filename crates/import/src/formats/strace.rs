//! strace with `-T` and moments (`-ttt`, `-tt`, `-r`): system calls that read, write and sync files.
//!
//! Calls on descriptors that are sockets or pipes, or the terminal's, are not storage and left out. Files are named by `-y`, or by the call
//! that opened them.
use super::calendar::time_of_day_ns;
use crate::clock::Clock;
use crate::error::Bad;
use crate::format::{alone, Format, Head, Source};
use crate::records::each_line;
use crate::sink::{one_stage_op, Sink};
use crate::text::{counted, length, scaled};
use crate::ImportError;
use case::schema::{Layer, NameId, Op, Stage};
use std::collections::{BTreeMap, HashMap};

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "strace",
    about: "strace -T with -ttt, -tt or -r: system calls that read, write and sync files",
    not_carried: &[
        (
            "what strace itself costs",
            "it stops the program twice per call, which is inside the times between calls",
        ),
        ("requests below the calls", "strace sees system calls only"),
    ],
    recognise,
    together: alone,
    read,
};

const SECOND: i64 = 1_000_000_000;
/// What threads are called whose program the log does not name (`-Y` does, and the call that began it).
const UNNAMED: &str = "program";
/// Bytes of a thread's name, as the kernel keeps it.
const COMM_BYTES: usize = 15;
/// Descriptors that are kept of processes and their children.
const OPEN_MAX: usize = 1 << 16;

/// Calls that begin requests of files, or wait for them: how long they take is not how long these took.
const ELSEWHERE: [&str; 4] = ["io_submit", "io_getevents", "io_pgetevents", "io_uring_enter"];

struct Call<'a> {
    pid: Option<i32>,
    /// With `-Y`.
    comm: Option<&'a str>,
    moment: &'a str,
    rest: &'a str,
}

/// Splits `N` or `N<comm>` off.
fn thread(text: &str) -> Option<(i32, Option<&str>, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let pid = text[..digits].parse().ok()?;
    match text[digits..].strip_prefix('<') {
        Some(named) => named.split_once('>').map(|(comm, rest)| (pid, Some(comm), rest)),
        None => Some((pid, None, &text[digits..])),
    }
}

/// Splits `[pid N] ` or `N<comm> ` off, if a line begins so.
fn of_thread(line: &str) -> Option<(Option<i32>, Option<&str>, &str)> {
    let rest = line.trim_start();
    if let Some(after) = rest.strip_prefix("[pid") {
        let (number, named, after) = thread(after.trim_start())?;
        return Some((Some(number), named, after.strip_prefix(']')?.trim_start()));
    }
    Some(match thread(rest) {
        Some((number, named @ Some(_), after)) => (Some(number), named, after.trim_start()),
        _ => (None, None, rest),
    })
}

/// A call of a log without moments (`strace -T` alone).
fn split_untimed(line: &str) -> Option<Call<'_>> {
    let (mut pid, comm, mut rest) = of_thread(line)?;
    if let (None, Some((number, after))) = (pid, rest.split_once(char::is_whitespace)) {
        if let Ok(number) = number.parse() {
            (pid, rest) = (Some(number), after.trim_start());
        }
    }
    let call = Call {
        pid,
        comm,
        moment: "",
        rest,
    };
    let of_other = ["+++", "---", "<... "].iter().any(|mark| rest.starts_with(mark));
    let is_begun = rest.trim_end().ends_with("<unfinished ...>");
    (of_other || is_begun || is_whole(&call)).then_some(call)
}

/// Splits `[pid N] `, `N ` and the moment off; then what `-n` and `-i` print, the number of the call and where it was made.
fn split(line: &str) -> Option<Call<'_>> {
    let (mut pid, comm, rest) = of_thread(line)?;
    let (mut first, mut after) = rest.split_once(char::is_whitespace)?;
    if pid.is_none() && first.bytes().all(|b| b.is_ascii_digit()) {
        pid = first.parse().ok();
        (first, after) = after.trim_start().split_once(char::is_whitespace)?;
    }
    let is_moment =
        first.contains('.') && scaled(first, SECOND).is_some() || time_of_day_ns(first, "").is_some();
    // With -r besides -tt or -ttt, the time since the call before.
    if let Some((_, rest)) = after
        .trim_start()
        .strip_prefix("(+")
        .and_then(|rest| rest.split_once(')'))
    {
        after = rest;
    }
    let mut rest = after.trim_start();
    while let Some((within, call)) = rest.strip_prefix('[').and_then(|inside| inside.split_once(']')) {
        if !within
            .trim()
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || byte == b'?')
        {
            break;
        }
        rest = call.trim_start();
    }
    is_moment.then_some(Call {
        pid,
        comm,
        moment: first,
        rest,
    })
}

/// Whether a line is a call without a moment: `fsync(7) = 0`, with its thread or without.
fn is_without_moment(line: &str) -> bool {
    let line = match line.strip_prefix("[pid").and_then(|rest| rest.split_once(']')) {
        Some((_, rest)) => rest,
        None => line.trim_start_matches(|c: char| c.is_ascii_digit()),
    };
    let Some((name, rest)) = line.trim_start().split_once('(') else {
        return false;
    };
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let has_result = rest.split_once(')').is_some_and(|(_, rest)| rest.contains("= "));
    !name.is_empty() && name.bytes().all(is_name) && (has_result || rest.ends_with("<unfinished ...>"))
}

/// Whether a log has calls, and not one of them a moment.
fn lacks_moments(head: &Head) -> bool {
    let lines: Vec<&str> = head.filled_lines().take(30).collect();
    let calls = lines.iter().filter(|line| is_without_moment(line)).count();
    2 * calls > lines.len() && !lines.iter().any(|line| split(line).is_some())
}

/// Whether the name of a call, its arguments and a result are behind the moment.
fn is_whole(call: &Call<'_>) -> bool {
    let name = call.rest.split('(').next().unwrap_or("");
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    !name.is_empty() && name.bytes().all(is_name) && call.rest.contains(") ") && call.rest.contains("= ")
}

/// Whether calls without a moment say how long they took.
fn is_untimed(head: &Head) -> bool {
    let mut lines = head.filled_lines().take(30).filter_map(split_untimed);
    lines.any(|call| is_whole(&call) && length_of(call.rest).is_some())
        && !head.filled_lines().take(30).any(|line| split(line).is_some())
}

/// What `-T` prints behind a call.
fn length_of(text: &str) -> Option<&str> {
    let took = text.trim_end().rsplit_once('<')?.1.strip_suffix('>')?;
    (took.contains('.') && scaled(took, SECOND).is_some()).then_some(took)
}

/// Whether a log has calls with moments, and not one of them says how long it took.
fn lacks_lengths(head: &Head) -> bool {
    let lines: Vec<&str> = head.filled_lines().take(30).collect();
    let calls: Vec<Call<'_>> = lines
        .iter()
        .filter_map(|line| split(line))
        .filter(is_whole)
        .collect();
    2 * calls.len() > lines.len() && !calls.iter().any(|call| call.rest.trim_end().ends_with('>'))
}

fn recognise(head: &Head) -> bool {
    if lacks_moments(head) || lacks_lengths(head) || is_untimed(head) {
        return true;
    }
    let mut calls = head.filled_lines().take(30).filter_map(split);
    calls.any(|call| (is_whole(&call) || is_part(&call)) && call.rest.trim_end().ends_with('>'))
}

/// Whether a call of another thread came between its begin and its end: it is the one or the other.
fn is_part(call: &Call<'_>) -> bool {
    let is_end =
        call.rest.starts_with("<... ") && call.rest.contains(" resumed>") && length_of(call.rest).is_some();
    let name = call.rest.split('(').next().unwrap_or("");
    is_end || kind(name).is_some() && call.rest.trim_end().ends_with("<unfinished ...>")
}

const EXPECTED: &str = "[pid,] moment, call(...) = result <seconds>";

/// A call of which the end comes in a later line: what the program itself writes to the terminal (or to the file that strace's words go to) stands between.
#[derive(Default)]
struct Begun(Option<String>);

impl Begun {
    fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// Whether a line has a call without an end.
    fn begins(&mut self, line: &str, call: &Call<'_>) -> bool {
        let of_other = ["+++", "---", "<... "]
            .iter()
            .any(|mark| call.rest.starts_with(mark));
        let has_end = call.rest.contains(" = ") || call.rest.ends_with("<unfinished ...>");
        self.0 = (!of_other && !has_end && call.rest.contains('(')).then(|| line.to_owned());
        self.is_some()
    }

    /// The whole call, if this is the end of it.
    fn rest(&mut self, line: &str) -> Option<String> {
        let is_end = line.starts_with(')') && line.contains(" = ");
        let begin = self.0.take_if(|_| is_end)?;
        Some(begin + line)
    }
}

/// What strace says of itself, old versions without their name; with `-k` the functions that made the call.
fn is_message(line: &str) -> bool {
    if line.starts_with(" > ") {
        return true;
    }
    let is_of_process = ["attached", "detached", "suspended", "resumed"]
        .iter()
        .any(|state| line.contains(state));
    line.starts_with("strace: ") || line.starts_with("Process ") && is_of_process
}

/// The name that a thread gets from the path of its program.
fn comm_of(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next().filter(|name| !name.is_empty())?;
    let end = (0..=COMM_BYTES.min(name.len()))
        .rev()
        .find(|at| name.is_char_boundary(*at))?;
    Some(&name[..end])
}

/// The process that `-ff` names its file by.
fn pid_of_name(name: &str) -> Option<i32> {
    name.rsplit_once('.')?.1.parse().ok().filter(|pid| *pid > 0)
}

#[derive(Default)]
struct Reader {
    is_told: bool,
    relative: bool,
    /// Calls have no moments: they are put one after the other.
    is_untimed: bool,
    /// Of a log without threads: the process that strace names the file by (`-ff -o NAME` writes `NAME.PID`), or nought.
    alone: Option<i32>,
    last_ns: i64,
    day_ns: i64,
    /// Begun by a thread and interrupted in the log by others.
    unfinished: HashMap<i32, (i64, String)>,
    /// Names of threads.
    comms: HashMap<i32, NameId>,
    /// Path, or nothing for what is no file.
    open: HashMap<(i32, i64), Option<String>>,
    /// Descriptors 0 to 2 that were synced or read at a place, which only files can be: a filter may have left out what opened them.
    stdio_files: [bool; 3],
    skipped: u64,
    /// Of those, on descriptors 0 to 2 of which the log does not show what they are.
    of_stdio: u64,
    without_length: u64,
    /// How many there were of each call of [`ELSEWHERE`].
    elsewhere: BTreeMap<String, u64>,
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let mut reader = Reader::default();
    let head = Head::read(source.path())?;
    reader.is_untimed = is_untimed(&head);
    let of_line = if reader.is_untimed { split_untimed } else { split };
    let calls = || head.filled_lines().filter_map(of_line);
    if !calls().any(|call| call.pid.is_some()) {
        reader.alone = Some(pid_of_name(&source.name()).unwrap_or(0));
    }
    let lacking = if reader.is_untimed {
        None
    } else if lacks_moments(&head) {
        Some("a moment before each call, and behind it how long it took")
    } else {
        lacks_lengths(&head).then_some("behind each call how long it took")
    };
    if let Some(expected) = lacking {
        return Err(ImportError::content(
            source.path(),
            "begin",
            expected,
            head.filled_lines().next().unwrap_or(""),
            "take it with strace -T -ttt",
        ));
    }
    let mut moments = calls().map(|call| call.moment.to_owned());
    // With -r moments count from the call before, and begin at nought.
    reader.relative = moments
        .next()
        .is_some_and(|first| scaled(&first, SECOND).is_some_and(|ns| ns < 1_000_000 * SECOND));
    for call in calls() {
        reader.learn(call.rest);
    }
    // With -C a table of all calls stands at the end.
    let (mut in_table, mut begun) = (false, Begun::default());
    each_line(source, sink, |line, sink| {
        let text = line.text.trim_end();
        in_table |= text.trim_start().starts_with("% time ");
        let Some(call) = of_line(text) else {
            if let Some(whole) = begun.rest(text) {
                let call = of_line(&whole).ok_or_else(|| Bad::new("", EXPECTED, text))?;
                reader.call(&call, sink)?;
            } else if !begun.is_some() && !text.is_empty() && !in_table && !is_message(text) {
                return Err(Bad::new("", EXPECTED, text).into());
            }
            return Ok(());
        };
        // Its rows begin with a number, too: per cent.
        in_table &= !call.rest.contains('(');
        if in_table {
            return Ok(());
        }
        if begun.begins(text, &call) {
            return Ok(());
        }
        reader.call(&call, sink)?;
        Ok(())
    })?;
    reader.unfinished(sink)?;
    for (name, count) in &reader.elsewhere {
        sink.unseen(
            format!("how long requests of {} took", counted(*count, &format!("{name} call"))),
            "such calls begin requests or wait for some, and none lasts as long as a request: take them at the device (blktrace, or biosnoop)",
        );
    }
    if reader.is_untimed {
        sink.unseen(
            "when calls were made, and what was between them",
            "strace tells moments with -ttt: calls are put one after the other",
        );
    }
    let others = reader.skipped - reader.of_stdio;
    if others > 0 {
        let what = format!("{others} calls on sockets, pipes, terminals and /dev/null");
        sink.unseen(what, "they are not storage");
    }
    if reader.of_stdio > 0 {
        sink.unseen(
            format!("{} on descriptors 0 to 2", counted(reader.of_stdio, "call")),
            "they are taken for a terminal's: the log does not show what they were opened as (strace -y does)",
        );
    }
    if reader.without_length > 0 {
        let what = format!("how long {} calls took", reader.without_length);
        sink.unseen(
            what,
            "strace tells it with -T only, and not of calls that never returned",
        );
    }
    Ok(())
}

impl Reader {
    fn moment(&mut self, text: &str, sink: &mut Sink) -> Result<i64, Bad> {
        if self.is_untimed {
            self.tell(Clock::own("the first call", 1000), sink);
            return Ok(self.last_ns);
        }
        let wrong = || Bad::new("column time", "seconds, or HH:MM:SS", text);
        let is_clock = text.contains(':');
        let mut ns = if is_clock {
            time_of_day_ns(text, "")
        } else {
            scaled(text, SECOND)
        }
        .ok_or_else(wrong)?;
        self.tell(
            match (self.relative, is_clock) {
                (true, false) => Clock::own("the first call", 1000),
                (_, true) => Clock::own("midnight, local time", 1000),
                _ => Clock::unix(1000),
            },
            sink,
        );
        if is_clock {
            ns += self.day_ns;
            if ns < self.last_ns - 43_200 * SECOND {
                self.day_ns += 86_400 * SECOND;
                ns += 86_400 * SECOND;
            }
        } else if self.relative {
            ns = ns.saturating_add(self.last_ns);
        }
        self.last_ns = ns;
        Ok(ns)
    }

    /// Before the first call: its clock and its layer.
    fn tell(&mut self, clock: Clock, sink: &mut Sink) {
        if std::mem::replace(&mut self.is_told, true) {
            return;
        }
        sink.clock(clock);
        sink.layer(
            Layer::Syscall,
            &[(Stage::Fs, "fs+queue+device+interrupt+runqueue")],
        );
        sink.resolution(1000);
    }

    fn call(&mut self, call: &Call<'_>, sink: &mut Sink) -> Result<(), crate::error::RecordError> {
        let moment_ns = self.moment(call.moment, sink)?;
        let pid = call.pid.or(self.alone).unwrap_or(0);
        if let Some(comm) = call.comm {
            self.comms.insert(pid, sink.name(comm));
        }
        if call.rest.starts_with("+++") || call.rest.starts_with("---") {
            if call.rest.starts_with("+++") {
                self.unfinished.remove(&pid);
            }
            return Ok(());
        }
        if let Some(begin) = call.rest.trim_end().strip_suffix("<unfinished ...>") {
            self.unfinished.insert(pid, (moment_ns, begin.to_owned()));
            return Ok(());
        }
        if let Some(after) = call.rest.strip_prefix("<... ") {
            let Some((start_ns, begin)) = self.unfinished.remove(&pid) else {
                return Ok(());
            };
            let end = after.split_once("resumed>").map_or("", |(_, end)| end);
            return self.whole(start_ns, pid, &format!("{begin}{end}"), sink);
        }
        self.whole(moment_ns, pid, call.rest, sink)
    }

    fn whole(
        &mut self,
        start_ns: i64,
        pid: i32,
        text: &str,
        sink: &mut Sink,
    ) -> Result<(), crate::error::RecordError> {
        let Some((name, rest)) = text.split_once('(') else {
            return Ok(());
        };
        let Some((arguments, result)) = rest.rsplit_once(" = ") else {
            return Ok(());
        };
        let arguments = arguments.trim_end().trim_end_matches(')');
        let value = result.split_whitespace().next().unwrap_or("");
        let number: Option<i64> = value.split('<').next().and_then(|digits| digits.parse().ok());
        if matches!(name, "open" | "openat" | "creat" | "openat2") {
            let path = arguments.split('"').nth(1).unwrap_or("").to_owned();
            if let Some(fd) = number.filter(|fd| *fd >= 0) {
                self.open.insert((pid, fd), Some(path));
            }
            return Ok(());
        }
        if name == "execve" && number == Some(0) {
            if let Some(comm) = arguments.split('"').nth(1).and_then(comm_of) {
                self.comms.insert(pid, sink.name(comm));
            }
            return Ok(());
        }
        if matches!(name, "clone" | "clone3" | "fork" | "vfork") {
            if let (Some(child), Some(comm)) = (number, self.comms.get(&pid).copied()) {
                if let Ok(child) = i32::try_from(child) {
                    self.comms.entry(child).or_insert(comm);
                }
            }
            // Threads share theirs.
            if !arguments.contains("CLONE_FILES") {
                self.inherit(pid, number);
            }
            return Ok(());
        }
        if matches!(name, "dup" | "dup2" | "dup3" | "fcntl") {
            self.duplicate(name, pid, arguments, number);
            return Ok(());
        }
        if NO_FILES.contains(&name) {
            if let Some(fd) = number.filter(|fd| *fd >= 0) {
                self.open.insert((pid, fd), None);
            }
            return Ok(());
        }
        if NO_FILE_PAIRS.contains(&name) {
            let pair = arguments
                .rsplit_once('[')
                .and_then(|(_, rest)| rest.split_once(']'));
            let pair = pair.map_or("", |(pair, _)| pair).split(',');
            for fd in pair.filter_map(|fd| fd.split('<').next()?.trim().parse().ok()) {
                self.open.insert((pid, fd), None);
            }
            return Ok(());
        }
        if name == "close" {
            self.close(pid, arguments);
            return Ok(());
        }
        let Some(op) = kind(name) else {
            if ELSEWHERE.contains(&name) {
                *self.elsewhere.entry(name.to_owned()).or_default() += 1;
            }
            return Ok(());
        };
        self.learn(text);
        let Some(file) = self.file(name, pid, arguments) else {
            self.skipped += 1;
            self.of_stdio += u64::from(self.is_unknown_stdio(pid, arguments));
            return Ok(());
        };
        let Some(took) = length_of(result) else {
            self.without_length += 1;
            return Ok(());
        };
        let took_ns = length(took, SECOND, "time spent")?;
        let mut row = one_stage_op(start_ns, took_ns, op, Stage::Fs);
        if self.is_untimed {
            self.last_ns = self.last_ns.saturating_add(took_ns);
        }
        (row.pid, row.tid) = self.thread_of(pid);
        row.comm = Some(
            self.comms
                .get(&pid)
                .copied()
                .unwrap_or_else(|| sink.name(UNNAMED)),
        );
        row.file = sink.name_if(&file);
        match number {
            Some(bytes) if bytes >= 0 && op != Op::Sync => row.size_bytes = Some(bytes),
            // A signal interrupted the call, and the kernel begins it anew: `? ERESTARTSYS`.
            None if value == "?" => row.error = errno("EINTR"),
            Some(-1) => row.error = errno(result.split_whitespace().nth(1).unwrap_or("")),
            _ => {}
        }
        if matches!(
            name,
            "pread64" | "pwrite64" | "pread" | "pwrite" | "preadv" | "pwritev"
        ) {
            row.offset_bytes = arguments
                .rsplit(',')
                .next()
                .and_then(|last| last.trim().parse().ok());
        }
        sink.op(Layer::Syscall, row)?;
        Ok(())
    }

    /// The log has ended: calls that did not return were under way.
    fn unfinished(&mut self, sink: &mut Sink) -> Result<(), ImportError> {
        let mut begun: Vec<(i32, (i64, String))> = std::mem::take(&mut self.unfinished).into_iter().collect();
        begun.sort();
        for (pid, (start_ns, text)) in begun {
            let Some((name, arguments)) = text.split_once('(') else {
                continue;
            };
            let Some(op) = kind(name) else { continue };
            // What waits on a descriptor that was opened before the log began waits for a peer, more often than for a disk.
            let file = self.file(name, pid, arguments);
            let Some(file) = file.filter(|file| !file.is_empty() || op == Op::Sync) else {
                self.skipped += 1;
                continue;
            };
            let so_far_ns = self.last_ns.saturating_sub(start_ns).max(0);
            let mut row = one_stage_op(start_ns, so_far_ns, op, Stage::Fs);
            (row.pid, row.tid) = self.thread_of(pid);
            row.comm = Some(
                self.comms
                    .get(&pid)
                    .copied()
                    .unwrap_or_else(|| sink.name(UNNAMED)),
            );
            row.file = sink.name_if(&file);
            row.open = true;
            sink.op(Layer::Syscall, row)?;
        }
        Ok(())
    }

    /// Process and thread of a row. A log that names none is of one thread, number nought.
    fn thread_of(&self, pid: i32) -> (Option<i32>, Option<i32>) {
        let known = Some(pid).filter(|pid| *pid > 0);
        (known, known.or(self.alone))
    }

    /// A child has the descriptors of its parent.
    fn inherit(&mut self, parent: i32, child: Option<i64>) {
        let Some(child) = child
            .and_then(|child| i32::try_from(child).ok())
            .filter(|child| *child > 0)
        else {
            return;
        };
        if self.open.len() > OPEN_MAX {
            return;
        }
        let its: Vec<(i64, Option<String>)> = self
            .open
            .iter()
            .filter(|((pid, _), _)| *pid == parent)
            .map(|((_, fd), known)| (*fd, known.clone()))
            .collect();
        for (fd, known) in its {
            self.open.entry((child, fd)).or_insert(known);
        }
    }

    /// What a thread closes is closed for those that share it.
    fn close(&mut self, pid: i32, arguments: &str) {
        let digits = arguments.split('<').next().unwrap_or("");
        let Ok(fd) = digits.trim().parse::<i64>() else {
            return;
        };
        if self.open.remove(&(pid, fd)).is_none() && self.of_any(fd).is_some() {
            self.open.retain(|(_, known), _| *known != fd);
        }
    }

    /// A second descriptor of the same file.
    fn duplicate(&mut self, name: &str, pid: i32, arguments: &str, new: Option<i64>) {
        if name == "fcntl" && !arguments.contains("F_DUPFD") {
            return;
        }
        let old = arguments
            .split([',', '<'])
            .next()
            .and_then(|fd| fd.trim().parse::<i64>().ok());
        let (Some(old), Some(new)) = (old, new.filter(|fd| *fd >= 0)) else {
            return;
        };
        match self.open.get(&(pid, old)).cloned() {
            Some(known) => self.open.insert((pid, new), known),
            None => self.open.remove(&(pid, new)),
        };
    }

    /// The file of a call; empty if it is not known; None if it is no file.
    fn file(&self, name: &str, pid: i32, arguments: &str) -> Option<String> {
        if matches!(name, "sync") {
            return Some(String::new());
        }
        let first = arguments.split(',').next().unwrap_or("").trim();
        let (digits, path) = first
            .split_once('<')
            .map_or((first, None), |(fd, path)| (fd, Some(path.trim_end_matches('>'))));
        let fd: i64 = digits.parse().ok()?;
        if let Some(path) = path {
            let is_other = [
                "socket:",
                "pipe:",
                "anon_inode:",
                "TCP",
                "UDP",
                "UNIX",
                "NETLINK",
                "/dev/pts",
                "/dev/tty",
                "/dev/null",
                "/proc/",
            ];
            return (!is_other.iter().any(|begin| path.starts_with(begin))).then(|| path.to_owned());
        }
        match self.open.get(&(pid, fd)).or_else(|| self.of_any(fd)) {
            Some(Some(path)) if path.starts_with("/proc/") || path == "/dev/null" => None,
            Some(known) => known.clone(),
            None if self.is_unknown_stdio(pid, arguments) => None,
            None => Some(String::new()),
        }
    }

    /// Whether a call is on a descriptor of 0 to 2 of which nothing is known.
    fn is_unknown_stdio(&self, pid: i32, arguments: &str) -> bool {
        let first = arguments.split([',', ')']).next().unwrap_or("").trim();
        let Ok(fd) = first.parse::<i64>() else {
            return false;
        };
        let is_known = self.open.contains_key(&(pid, fd)) || self.of_any(fd).is_some();
        (0..=2).contains(&fd) && !is_known && !self.stdio_files[fd as usize]
    }

    /// Learns from a call that did what only files allow.
    fn learn(&mut self, call: &str) {
        let Some((name, rest)) = call.split_once('(') else {
            return;
        };
        if !ON_FILES.contains(&name) || rest.contains(" = -1 ") {
            return;
        }
        let fd = rest
            .split([',', ')'])
            .next()
            .and_then(|fd| fd.trim().parse::<usize>().ok());
        if let Some(is_file) = fd.and_then(|fd| self.stdio_files.get_mut(fd)) {
            *is_file = true;
        }
    }

    /// Threads share descriptors: what one opened another may use. Only if one thread alone has it.
    fn of_any(&self, fd: i64) -> Option<&Option<String>> {
        let mut of_fd = self.open.iter().filter(|((_, known), _)| *known == fd);
        match (of_fd.next(), of_fd.next()) {
            (Some((_, path)), None) => Some(path),
            _ => None,
        }
    }
}

/// Calls that return a descriptor of what is no file.
const NO_FILES: [&str; 13] = [
    "socket",
    "accept",
    "accept4",
    "eventfd",
    "eventfd2",
    "epoll_create",
    "epoll_create1",
    "inotify_init",
    "inotify_init1",
    "timerfd_create",
    "signalfd",
    "signalfd4",
    "memfd_create",
];
/// Calls that only files allow.
const ON_FILES: [&str; 8] = [
    "fsync",
    "fdatasync",
    "sync_file_range",
    "pread64",
    "pwrite64",
    "pread",
    "pwrite",
    "ftruncate",
];

/// Calls that give two: `pipe2([3, 4], O_CLOEXEC)`, `socketpair(AF_UNIX, SOCK_STREAM, 0, [5, 6])`.
const NO_FILE_PAIRS: [&str; 3] = ["pipe", "pipe2", "socketpair"];

fn kind(name: &str) -> Option<Op> {
    Some(match name {
        "read" | "pread64" | "pread" | "readv" | "preadv" | "preadv2" => Op::Read,
        "write" | "pwrite64" | "pwrite" | "writev" | "pwritev" | "pwritev2" => Op::Write,
        "fsync" | "fdatasync" | "sync_file_range" | "sync" | "syncfs" | "msync" => Op::Sync,
        "copy_file_range" => Op::Copy,
        _ => return None,
    })
}

fn errno(name: &str) -> i32 {
    let known = [
        ("EPERM", 1),
        ("ENOENT", 2),
        ("EINTR", 4),
        ("EIO", 5),
        ("EBADF", 9),
        ("EAGAIN", 11),
        ("ENOMEM", 12),
    ];
    let more = [
        ("EFAULT", 14),
        ("EINVAL", 22),
        ("EFBIG", 27),
        ("ENOSPC", 28),
        ("EROFS", 30),
        ("EDQUOT", 122),
    ];
    // Another error is an error, too: 5 is that of I/O.
    known
        .iter()
        .chain(&more)
        .find(|(one, _)| *one == name)
        .map_or(5, |(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_requests_that_end_elsewhere_are_told() {
        let log = "[pid 466669] 09:19:19.404716 io_submit(0x7fadf6018000, 1, [{aio_data=0, aio_fildes=14}]) = 1 <0.000180>\n";
        let why = crate::testing::import(&FORMAT, log).unwrap().why_none().unwrap();
        assert!(
            why.starts_with("how long requests of 1 io_submit call took"),
            "{why}"
        );
        let without_length = "```\n[pid    30] 20:35:13.546644 stat(\"/state/a\", 0x7ffe056a6db0) = -1 ENOENT (No such file)\n```\n";
        let error = crate::testing::import(&FORMAT, without_length)
            .unwrap_err()
            .to_string();
        assert!(error.contains("behind each call how long it took"), "{error}");
    }

    #[test]
    fn an_indented_table_of_calls_is_no_call() {
        let log = "\t1466326568.893744 write(3, \"x\"..., 4096) = 4096 <0.000020>\n\
            \t% time     seconds  usecs/call     calls    errors syscall\n\
            \t------ ----------- ----------- --------- --------- ----------------\n\
            \t 72.55    0.192610           2     84992           write\n";
        assert_eq!(crate::testing::import(&FORMAT, log).unwrap().rows, 1);
    }

    #[test]
    fn the_standard_output_is_a_file_where_it_is_synced() {
        let writes =
            "1.5 write(1, \"a\"..., 4096) = 4096 <0.000010>\n1.6 write(2, \"b\", 1) = 1 <0.000010>\n";
        let summary =
            crate::testing::import(&FORMAT, &format!("{writes}1.7 fsync(1) = 0 <0.010000>\n")).unwrap();
        assert_eq!(summary.rows, 2);
        let told =
            |summary: &crate::Summary, what: &str| summary.not_observed.iter().any(|one| one.what == what);
        assert!(told(&summary, "1 call on descriptors 0 to 2"));
        // It failed: no file.
        let failed = format!(
            "{writes}1.7 fsync(1) = -1 EINVAL (Invalid argument) <0.000001>\n1.8 fsync(5) = 0 <0.010000>\n"
        );
        let summary = crate::testing::import(&FORMAT, &failed).unwrap();
        assert_eq!(summary.rows, 1);
        assert!(told(&summary, "3 calls on descriptors 0 to 2"));
    }

    #[test]
    fn what_the_program_writes_may_stand_inside_a_call() {
        let begin = r#"05:07:35.695 write(2, "20+0 records out\n", 1720+0 records out"#;
        let mut begun = Begun::default();
        assert!(begun.begins(begin, &split(begin).unwrap()) && begun.rest("more of it").is_none());
        let whole = begun.rest(")       = 17 <0.000010>").unwrap();
        assert!(whole.starts_with("05:07:35.695 write(2,") && whole.ends_with(")       = 17 <0.000010>"));
        assert!(!begun.is_some());
        for line in [
            "1.5 read(3,  <unfinished ...>",
            "1.5 read(3, x, 1) = 1 <0.1>",
            "1.5 +++ exited with 0 +++",
        ] {
            assert!(!begun.begins(line, &split(line).unwrap()), "{line}");
        }
    }

    #[test]
    fn what_options_print_before_a_call_is_passed_over() {
        for line in [
            r#"10518<dd> 5.25 write(3, "x"..., 4096) = 4096 <0.003483>"#,
            r#"[pid 10518<dd>] 5.25 write(3, "x"..., 4096) = 4096 <0.003483>"#,
            r#"10518<dd> 5.25 [   1] [00007f602ddb7350] write(3, "x"..., 4096) = 4096 <0.003483>"#,
            r#"10518<dd> 5.25 (+     0.000032) [????????????????] write(3, "x"..., 4096) = 4096 <0.003483>"#,
        ] {
            let call = split(line).unwrap();
            assert_eq!(
                (call.pid, call.comm, call.moment),
                (Some(10518), Some("dd"), "5.25"),
                "{line}"
            );
            assert!(call.rest.starts_with("write(3,"), "{line}");
            let stack = " > /usr/lib/x86_64-linux-gnu/libc.so.6(__write+0x10) [0xf8350]";
            assert_eq!(
                operations(&format!("{line}\n{stack}\n")),
                [(Op::Write, 5_250_000_000, 3_483_000)]
            );
        }
        let comm = split("7<a b> 5.25 [ls] read(3").unwrap();
        assert_eq!((comm.comm, comm.rest), (Some("a b"), "[ls] read(3"));
    }

    #[test]
    fn calls_without_moments_are_put_one_after_the_other() {
        let log = "fsync(3) = 0 <0.010000>\n[pid 7] write(4, \"x\"..., 4096 <unfinished ...>\nfsync(3) = 0 <0.020000>\n[pid 7] <... write resumed>) = 4096 <0.030000>\n";
        assert_eq!(
            operations(log),
            [
                (Op::Sync, 0, 10_000_000),
                (Op::Sync, 10_000_000, 20_000_000),
                (Op::Write, 10_000_000, 30_000_000)
            ]
        );
        let summary = crate::testing::import(&FORMAT, log).unwrap();
        assert!(summary
            .not_observed
            .iter()
            .any(|one| one.what.contains("when calls were made")));
        let head = |text: &str| Head {
            name: "log".into(),
            bytes: text.as_bytes().to_vec(),
        };
        assert!(
            recognise(&head(log))
                && recognise(&head(
                    "[pid 7] 1.5 fsync(3 <unfinished ...>\n[pid 8] 1.6 <... fsync resumed>) = 0 <0.1>\n"
                ))
        );
        assert!(!recognise(&head("<... and so on resumed>\n1.5 is <0.1>\n")));
    }

    #[test]
    fn a_log_without_threads_is_of_one() {
        let of = |name: &str, log: &str| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(name);
            std::fs::write(&path, log).unwrap();
            let source = Source {
                files: vec![path],
                map: None,
                device: None,
            };
            let (mut names, mut silent) = (case::sealed::Names::default(), |_: u64| {});
            let mut sink = Sink::survey(&mut names, &mut silent, false);
            let mut reader = Reader::default();
            let head = Head::read(source.path()).unwrap();
            if !head
                .filled_lines()
                .filter_map(split)
                .any(|call| call.pid.is_some())
            {
                reader.alone = Some(pid_of_name(&source.name()).unwrap_or(0));
            }
            let call = split(log.lines().next().unwrap()).unwrap();
            reader.call(&call, &mut sink).unwrap();
            reader.thread_of(call.pid.or(reader.alone).unwrap())
        };
        assert_eq!(of("log", "1.5 fsync(3) = 0 <0.1>\n"), (None, Some(0)));
        assert_eq!(
            of("log.4711", "1.5 fsync(3) = 0 <0.1>\n"),
            (Some(4711), Some(4711))
        );
        assert_eq!(
            of("log.4711", "[pid 7] 1.5 fsync(3) = 0 <0.1>\n"),
            (Some(7), Some(7))
        );
    }

    #[test]
    fn threads_are_called_as_their_program() {
        assert_eq!(
            comm_of("/usr/lib/postgresql/bin/postgres_with_more"),
            Some("postgres_with_m")
        );
        assert_eq!(
            (
                comm_of("a"),
                comm_of("/"),
                comm_of("\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}")
            ),
            (
                Some("a"),
                None,
                Some("\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}")
            )
        );
    }

    #[test]
    fn a_child_has_its_parents_pipes() {
        let log = "[pid 7] 1795517681.1 pipe2([3, 4], O_CLOEXEC) = 0 <0.000001>\n\
            [pid 9] 1795517681.2 openat(AT_FDCWD, \"/a\", O_RDONLY) = 3 <0.000001>\n\
            [pid 7] 1795517681.3 clone(child_stack=NULL, flags=SIGCHLD) = 8 <0.000001>\n\
            [pid 8] 1795517681.4 read(3, \"x\", 41) = 41 <0.200000>\n\
            [pid 9] 1795517681.5 read(3, \"x\", 41) = 41 <0.000100>\n";
        assert_eq!(operations(log), [(Op::Read, 1_795_517_681_500_000_000, 100_000)]);
    }

    #[test]
    fn a_log_that_does_not_say_how_long_calls_took_is_told_how_to_take_it() {
        let log = "10554 1795767738.103525 fsync(3) = 0\n".repeat(4);
        let error = crate::testing::import(&FORMAT, &log).unwrap_err().to_string();
        assert!(
            error.contains("how long it took") && error.contains("strace -T -ttt"),
            "{error}"
        );
    }

    #[test]
    fn messages_of_strace_are_no_calls() {
        for line in [
            "strace: Process 12 attached",
            "Process 12 attached",
            "Process 12 resumed (parent 7 ready)",
        ] {
            assert!(is_message(line), "{line}");
        }
        assert!(!is_message("Process of elimination") && !is_message("read(3"));
    }

    /// Kind, start, latency and error of what a log's calls are.
    fn operations(log: &str) -> Vec<(Op, i64, i64)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, log).unwrap();
        assert!(recognise(&Head::read(&path).unwrap()), "{log}");
        let source = Source {
            files: vec![path],
            map: None,
            device: None,
        };
        let (mut names, mut silent) = (case::sealed::Names::default(), |_: u64| {});
        let mut sink = Sink::survey(&mut names, &mut silent, false);
        read(&source, &mut sink).unwrap();
        let seen = sink.surveyed();
        let mut calls: Vec<_> = seen
            .ops
            .iter()
            .map(|op| (op.op, op.start_ns, op.latency_ns))
            .collect();
        calls.sort_by_key(|call| call.1);
        calls
    }

    #[test]
    fn calls_without_moments_are_known_and_what_to_do_is_told() {
        for line in [
            "fsync(7)                                = 0",
            "[pid  6594] pread64(32, \"\"..., 13, 4339) = 13 <0.000017>",
            "20974 pread(7792,  <unfinished ...>",
            "execve(\"/bin/x\", [\"x\"], 0x7ffc /* 58 vars */) = 0",
        ] {
            assert!(is_without_moment(line), "{line}");
        }
        for line in [
            "int main(void) {",
            "fsync(7",
            "Print(7) = 1",
            "(7) = 0",
            "20974 12 3",
        ] {
            assert!(!is_without_moment(line), "{line}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, "brk(NULL) = 0x55fe\nfsync(7) = 0\n").unwrap();
        assert!(recognise(&Head::read(&path).unwrap()));
        let source = Source {
            files: vec![path],
            map: None,
            device: None,
        };
        let (mut names, mut silent) = (case::sealed::Names::default(), |_: u64| {});
        let error = read(&source, &mut Sink::survey(&mut names, &mut silent, false)).unwrap_err();
        assert!(error.to_string().contains("strace -T -ttt"), "{error}");
    }

    #[test]
    fn the_table_at_the_end_is_passed_over() {
        let run = "31335 1.5 fsync(3) = 0 <0.000010>\n31335 1.6 +++ exited with 0 +++\n\
            % time     seconds  usecs/call     calls    errors syscall\n------ ----------- ----------- --------- --------- ----------------\n \
            61.40    0.080900         963        84        41 wait4\n------ ----------- ----------- --------- --------- ----------------\n\
            100.00    0.131763          11     11464      1440 total\n";
        assert_eq!(operations(&run.repeat(2)).len(), 2);
    }

    #[test]
    fn a_number_means_what_was_opened_last() {
        let log = |second: &str| {
            format!(
                "1.0 openat(AT_FDCWD, \"/data/a\", O_RDONLY) = 3 <0.000010>\n1.1 read(3, \"\", 4096) = 10 <0.000011>\n\
                1.2 close(3) = 0 <0.000010>\n1.3 {second} <0.000010>\n1.4 read(3, \"\", 4096) = 10 <0.000012>\n"
            )
        };
        for no_file in [
            "accept(5, NULL, NULL) = 3",
            "timerfd_create(CLOCK_MONOTONIC, 0) = 3",
            "pipe2([3, 4], O_CLOEXEC) = 0",
            "socketpair(AF_UNIX, SOCK_STREAM, 0, [3, 4]) = 0",
        ] {
            assert_eq!(operations(&log(no_file)).len(), 1, "{no_file}");
        }
        assert_eq!(
            operations(&log("openat(AT_FDCWD, \"/data/b\", O_RDONLY) = 3")).len(),
            2
        );
    }

    #[test]
    fn moments_may_have_the_time_since_the_call_before() {
        let log = "20:37:49.050065 (+     0.000012) pwrite64(7, \"abc\"..., 4096, 8192) = 4096 <0.030807>\n\
            20:37:54.080941 (+     5.030876) fsync(7) = 0 <0.136024>\n";
        let begin_ns = time_of_day_ns("20:37:49.050065", "").unwrap();
        assert_eq!(
            operations(log),
            [
                (Op::Write, begin_ns, 30_807_000),
                (Op::Sync, begin_ns + 5_030_876_000, 136_024_000)
            ]
        );
        // What did not return was under way when the log ended, unless its thread was gone.
        let stuck = "[pid 7] 1700000100.0 fsync(3 <unfinished ...>\n[pid 8] 1700000100.5 fsync(4) = 0 <0.000024>\n\
            [pid 9] 1700000100.6 fsync(3 <unfinished ...>\n[pid 8] 1700000102.5 fsync(4) = 0 <0.000024>\n[pid 9] 1700000103.0 +++ exited with 0 +++\n";
        assert_eq!(
            operations(stuck)[0],
            (Op::Sync, 1_700_000_100 * SECOND, 3 * SECOND)
        );
        assert_eq!(operations(stuck).len(), 3);
        let relative = "     0.000000 fsync(7) = 0 <0.000024>\n     0.000500 fsync(7) = 0 <0.000025>\n";
        assert_eq!(operations(relative)[1].1, 500_000);
    }
}

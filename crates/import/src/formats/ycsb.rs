//! YCSB's output without raw measurements: its status lines, its summary, and time series (`measurementtype=timeseries`), as samples.
//!
//! Built from YCSB's OneMeasurementHistogram.java, OneMeasurementTimeSeries.java, Client.java. Labels of fractional percentiles lack "th". What
//! YCSB-cpp (measurements.cc) and go-ycsb (histogram.go) print while they run counts from the begin of the run: differences become samples.
use super::calendar::{date_ns, time_of_day_ns};
use crate::clock::Clock;
use crate::error::{Bad, RecordError};
use crate::format::{alone, Format, Head, Source};
use crate::records::each_line;
use crate::sink::Sink;
use crate::text::{counted, integer, number, time};
use crate::ImportError;
use case::schema::{NameId, SubjectKind};
use std::collections::BTreeMap;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "ycsb",
    about: "output of YCSB: status lines, time series and summary, as samples",
    not_carried: &[
        (
            "single operations",
            "rates and distributions only; measurementtype=raw logs operations",
        ),
        (
            "the time zone",
            "YCSB prints local time; the case takes it for UTC",
        ),
    ],
    recognise,
    together: alone,
    read,
};

fn recognise(head: &Head) -> bool {
    let is_raw = head.has_line(|line| line.contains("latency raw data: op, timestamp(ms), latency(us)"));
    !is_raw
        && head.has_line(|line| {
            let line = line.trim();
            line.starts_with("[OVERALL], RunTime(ms),")
                || line.starts_with("[OVERALL],RunTime(ms),")
                || line.contains(" operations; ") && line.contains("current ops/sec")
                || status(line).is_some()
                    && (line.contains("est completion in") || line.contains(" operations;"))
                || !of_go_line(line).is_empty()
                || is_of_summary(line)
        })
}

/// A line of the summary by itself, as its end has them: `[READ], 99thPercentileLatency(us), 426`, `[OVERALL], Throughput(ops/sec), 13053.1`.
fn is_of_summary(line: &str) -> bool {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let [kind, label, _] = fields[..] else {
        return false;
    };
    let is_label = matches!(
        label,
        "Throughput(ops/sec)" | "AverageLatency(us)" | "MinLatency(us)" | "MaxLatency(us)"
    ) || label.ends_with("PercentileLatency(us)");
    kind.starts_with('[') && kind.ends_with(']') && is_label
}

/// Whether a line is the command of a run: `$ bin/ycsb run scylla -target 5000`, `Command line: -t -db ...` (which YCSB itself prints).
fn is_command(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_program = |word: &str| matches!(word.rsplit('/').next(), Some("ycsb" | "ycsb.sh" | "go-ycsb"));
    let runs = |pair: &[&str]| is_program(pair[0]) && matches!(pair[1], "run" | "load");
    line.starts_with("Command line: ") || words.windows(2).any(runs)
}

/// A status line.
#[derive(Clone, Debug, PartialEq)]
struct Status<'a> {
    /// Since 1970, local time.
    moment_ns: i64,
    /// Since the begin of the run.
    run_s: u64,
    /// What stands behind that.
    rest: &'a str,
}

/// `2016-11-14 12:59:18:287 10 sec: 1234 operations; 123.4 current ops/sec; ...`; YCSB-cpp prints no milliseconds.
/// A program that runs YCSB may put its name in front: `[info] Task ycsb[0], stdout: 2020-10-23 ...`.
fn status(line: &str) -> Option<Status<'_>> {
    let line = line.split_once("stdout: ").map_or(line, |(_, line)| line);
    let (date, rest) = line.trim_start().split_once(' ')?;
    let (time, rest) = rest.split_once(' ')?;
    let (seconds, rest) = rest.split_once(" sec: ")?;
    let (clock, ms) = match time.matches(':').count() {
        2 => (time, "0"),
        _ => time.rsplit_once(':')?,
    };
    let run_s = seconds.trim().parse().ok()?;
    let moment_ns =
        date_ns(date)? + time_of_day_ns(clock, "")? + i64::from(ms.parse::<u16>().ok()?) * 1_000_000;
    Some(Status {
        moment_ns,
        run_s,
        rest,
    })
}

/// The kinds of operations and the fields of a line of go-ycsb: `READ   - Takes(s): 10.0, Count: 50214, OPS: 5024.1, Avg(us): 1520, ...`.
/// Programs around it put numbers in front of it, or everything on one line.
fn of_go_line(line: &str) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = line.split("- Takes(s): ").collect();
    let mut found = Vec::new();
    for (at, pair) in parts.windows(2).enumerate() {
        let kind = pair[0].split_whitespace().next_back().unwrap_or("");
        let is_last = at + 2 == parts.len();
        let fields = match pair[1].trim_end().rsplit_once(' ') {
            // The next kind.
            Some((fields, _)) if !is_last => fields.trim_end(),
            _ => pair[1].trim_end(),
        };
        // go-tpc prints alike, `[Current] PAYMENT - Takes(s): 10.0, Count: 130, TPM: 780.6, ...`, and counts anew each time.
        let is_kind = !kind.is_empty() && !pair[0].contains('[');
        if is_kind && fields.contains(", Count: ") {
            found.push((kind, fields));
        }
    }
    found
}

/// Metric of `Avg`, `99.9`, `99thPercentileLatency(us)`, and what one is in it.
fn metric(label: &str) -> Option<(String, f64)> {
    let label = label.trim();
    // Before 0.2 there were milliseconds.
    let (label, factor) = match label.strip_suffix("(ms)") {
        Some(label) => (label, 1e6),
        None => (label.strip_suffix("(us)").unwrap_or(label), 1e3),
    };
    let latency = |part: &str| Some((format!("latency_{part}_ns"), factor));
    match label {
        "Count" | "Operations" => return Some(("operations".into(), 1.0)),
        "Avg" | "AverageLatency" => return Some(("latency_ns".into(), factor)),
        "Max" | "MaxLatency" => return latency("max"),
        "Min" | "MinLatency" => return latency("min"),
        "Throughput(ops/sec)" => return Some(("operations_per_s".into(), 1.0)),
        _ => {}
    }
    let share = label.trim_end_matches("PercentileLatency");
    let share = share
        .trim_end_matches("th")
        .trim_end_matches("st")
        .trim_end_matches("nd")
        .trim_end_matches("rd");
    let value: f64 = share.parse().ok()?;
    let is_percentile = !label.contains('(');
    (is_percentile && (0.0..=100.0).contains(&value)).then(|| (format!("latency_p{share}_ns"), factor))
}

/// What a run says of a kind in the end; of no operations there are no latencies.
fn tell_run(
    subject: NameId,
    values: &[(String, f64)],
    at_ns: i64,
    sink: &mut Sink,
) -> Result<(), ImportError> {
    let of = |wanted: &str| {
        values
            .iter()
            .find(|(name, _)| name == wanted)
            .map(|(_, value)| *value)
    };
    let is_none = of("operations") == Some(0.0);
    let most_ns = of("latency_max_ns").unwrap_or(f64::MAX);
    let values: Vec<(NameId, f64)> = values
        .iter()
        .filter(|(name, _)| !is_none || name == "operations")
        .map(|(name, value)| {
            // Percentiles are the ends of bins of 1 ms, which may lie beyond the slowest of all.
            let value = match name.starts_with(PERCENTILE) {
                true => value.min(most_ns),
                false => *value,
            };
            (sink.name(&format!("run_{name}")), value)
        })
        .collect();
    sink.sample(at_ns, None, SubjectKind::Process, subject, &values)
}

/// How metrics of percentiles begin.
const PERCENTILE: &str = "latency_p";

/// Whether a value of the summary is the number of a millisecond, counted from 0: what it bounds ends with that millisecond.
fn is_of_bin(metric: &str, label: &str, value: &str) -> bool {
    let is_bound = metric.starts_with(PERCENTILE) || metric == "latency_max_ns";
    is_bound && label.ends_with("(ms)") && value.bytes().all(|byte| byte.is_ascii_digit())
}

/// What was counted of a kind since the begin of the run.
#[derive(Clone, Copy, Default)]
struct Total {
    at_ns: i64,
    operations: f64,
    sum_ns: f64,
}

/// Whether a value is a count, printed with a point or without: `4489.000000`.
fn is_count(value: &str) -> bool {
    let (_, part) = value.split_once('.').unwrap_or((value, ""));
    part.bytes().all(|digit| digit == b'0')
}

/// A value; None: what Java prints for none (`NaN`, the largest of all as the smallest, a rate of no time at all).
fn value_of(text: &str, part: &'static str) -> Result<Option<f64>, Bad> {
    match text {
        "NaN" | "Infinity" | "-Infinity" | "\u{221e}" | "\u{fffd}" | "9223372036854775807" => Ok(None),
        _ => number(text, part).map(Some),
    }
}

/// What a status line says of one kind of operation; of none there are no latencies, whatever stands there.
fn interval(fields: &str) -> Vec<(String, f64)> {
    // A comma without a blank behind it is a decimal one.
    let values = fields.split(", ").filter_map(|field| {
        let (label, value) = field.split_once('=')?;
        let (name, factor) = metric(label)?;
        // An interval without operations of a kind has no latencies.
        Some((name, number(value.trim(), "of a status line").ok()? * factor))
    });
    let mut values: Vec<(String, f64)> = values.collect();
    if values
        .iter()
        .any(|(name, value)| name == "operations" && *value == 0.0)
    {
        values.retain(|(name, _)| name == "operations");
    }
    values
}

/// Metric of how many operations of a kind failed.
const FAILURES: &str = "failures";

/// What lines that count from the begin of the run say at one time: one of each kind.
#[derive(Default)]
struct Tick {
    kinds: Vec<String>,
    /// Some kind's count grew.
    has_grown: bool,
    /// Kinds whose count stands, with the moment.
    still: Vec<(String, i64)>,
}

#[derive(Default)]
struct Reader {
    /// Runs that ended before the one at hand.
    runs_before: usize,
    last_ns: i64,
    begin_ns: i64,
    /// The status line before.
    said: Option<(i64, u64, String)>,
    /// Since when there was no operation, where the run's first lines say so; and whether a sample does.
    none_since: Option<(i64, bool)>,
    totals: BTreeMap<String, Total>,
    tick: Tick,
    /// The run ended: what follows tells it as a whole.
    is_over: bool,
    /// A line of the run's summary was read.
    has_summary: bool,
    /// What the summary said of the run as a whole: each is said once.
    overall: Vec<String>,
    summary: BTreeMap<String, Vec<(String, f64)>>,
    /// By kind, what operations returned that did not do what was asked, and how many of them did so.
    returned: BTreeMap<String, BTreeMap<String, u64>>,
    /// How many of a kind returned anything.
    answers: BTreeMap<String, f64>,
    /// How many failed of a kind, as status lines say it of their intervals.
    failed: BTreeMap<String, f64>,
    /// The shortest and the longest mean of those that failed, where nothing says how many they were.
    uncounted: BTreeMap<String, (f64, f64)>,
    /// The last status line is one that stood there before.
    is_repeated: bool,
    /// What a terminal wrapped inside of a group: the line so far.
    held: String,
    /// Groups without an end, and lines of groups below no status line.
    cut: u64,
    orphans: u64,
    /// Lines of YCSB's that were read; and of those behind some text how many there are, and the first.
    read: u64,
    behind_text: u64,
    first_behind: String,
}

/// A longer line is none that a terminal wrapped.
const HELD_BYTES_MAX: usize = 4096;

/// Whether a line says something of kinds of operations, `[READ: Count=5, ...]`: a status line does, and what a terminal wrapped.
fn has_groups(line: &str) -> bool {
    let (_, inside) = line.split_once('[').unwrap_or_default();
    inside.contains("Count=") || inside.contains("AverageLatency(us)=")
}

/// Whether a group of a line has no end.
fn is_unclosed(line: &str) -> bool {
    line.rfind('[') > line.rfind(']')
}

/// Whether a line may be what is left of the one above it.
fn may_go_on(line: &str) -> bool {
    line.contains([']', '=']) && !is_line_of_summary(line) && status(line).is_none()
}

fn is_line_of_summary(line: &str) -> bool {
    line.strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
        .is_some_and(|(_, rest)| rest.starts_with(','))
}

/// Whether a line that is not read would be one of YCSB's without what stands in front of it.
fn is_behind_text(line: &str) -> bool {
    let of_summary = || {
        line.rfind('[')
            .is_some_and(|at| at > 0 && is_of_summary(&line[at..]))
    };
    line.contains(" sec: ") && line.contains("current ops/sec") || of_summary()
}

/// A line and what a terminal wrapped of it. A blank at its end may be gone: it stood in front of a label, and within none.
fn joined(line: &str, rest: &str) -> String {
    let label = rest.split('=').next().unwrap_or("");
    let ends = line.ends_with(|letter: char| ",:".contains(letter) || letter.is_ascii_uppercase());
    let blank = if ends && metric(label).is_some() { " " } else { "" };
    format!("{line}{blank}{rest}")
}

impl Reader {
    /// A kind of operations of the run at hand; what cleaning up after a run took is no load of any.
    fn subject(&self, kind: &str, sink: &mut Sink) -> NameId {
        let name = self.called(kind, sink);
        sink.name(&name)
    }

    /// The same in words.
    fn called(&self, kind: &str, sink: &Sink) -> String {
        match (kind, self.runs_before) {
            ("CLEANUP", _) => kind.to_owned(),
            (_, 0) => sink.of_log(kind),
            (_, before) => format!("{}, run {}", sink.of_log(kind), before + 1),
        }
    }

    /// Another run begins: what is said of it must not be pooled with what was said of the one before.
    fn next_run(&mut self, sink: &mut Sink) -> Result<(), ImportError> {
        let mut before = std::mem::take(self);
        self.runs_before = before.runs_before + 1;
        // These are of the file.
        (self.read, self.behind_text) = (before.read, std::mem::take(&mut before.behind_text));
        self.first_behind = std::mem::take(&mut before.first_behind);
        before.end(sink)
    }

    /// What is said of a run as a whole follows: if such lines were read before, they were of the run before it. Summaries have no moments: it is
    /// put where that one ended.
    fn begins_summary(&mut self, sink: &mut Sink) -> Result<(), ImportError> {
        if self.has_summary {
            let last_ns = self.last_ns;
            self.next_run(sink)?;
            (self.begin_ns, self.last_ns) = (last_ns, last_ns);
        }
        Ok(())
    }

    fn status(&mut self, status: &Status, sink: &mut Sink) -> Result<(), RecordError> {
        let (moment_ns, rest) = (status.moment_ns, status.rest);
        let run_ns = i64::try_from(status.run_s).map_or(0, |s| s.saturating_mul(1_000_000_000));
        let begin_ns = moment_ns.saturating_sub(run_ns);
        let is_another = match &self.said {
            // Runs of several clients in one file have begun before the other's last line.
            Some((last_ns, last_s, _)) => status.run_s < *last_s && begin_ns >= *last_ns,
            None => self.has_summary,
        };
        if is_another {
            self.next_run(sink)?;
        }
        if self.said.is_none() {
            self.begin_ns = moment_ns;
        }
        self.last_ns = moment_ns;
        // The standard output has what the error output has, and somebody may have kept both in one file.
        let said = (moment_ns, status.run_s, rest.to_owned());
        self.is_repeated = self.said.as_ref() == Some(&said);
        if self.is_repeated {
            return Ok(());
        }
        self.said = Some(said);
        let rate = rest
            .split(';')
            .find_map(|part| part.trim().strip_suffix(" current ops/sec"));
        let rate = rate
            .map(|rate| value_of(rate.trim(), "current ops/sec"))
            .transpose()?;
        // A clock that was set back makes a rate below nothing.
        if let Some(rate) = rate.flatten().filter(|rate| *rate >= 0.0) {
            self.rate(moment_ns, rate, sink)?;
        } else if rate.is_none() && rest.starts_with("0 operations") {
            // As long as there was none YCSB prints no rate.
            let (since_ns, is_told) = self.none_since.unwrap_or((begin_ns, false));
            let is_interval = moment_ns > since_ns;
            if is_interval && !is_told {
                self.rate(since_ns, 0.0, sink)?;
            }
            if is_interval {
                self.rate(moment_ns, 0.0, sink)?;
            }
            self.none_since = Some((since_ns, is_told || is_interval));
        }
        self.groups(moment_ns, rest, sink)
    }

    /// What a status line says of each kind.
    fn groups(&mut self, moment_ns: i64, rest: &str, sink: &mut Sink) -> Result<(), RecordError> {
        for part in rest.split('[').skip(1) {
            let Some((inside, _)) = part.split_once(']') else {
                // Its last number may have been longer.
                self.cut += 1;
                continue;
            };
            // Before 0.2: `[READ AverageLatency(us)=426.5]`.
            let Some((kind, fields)) = inside.split_once(": ").or_else(|| inside.split_once(' ')) else {
                continue;
            };
            if !fields.contains(',') && fields.contains(" Max=") {
                self.total(moment_ns, kind, fields.split_whitespace(), '=', sink)?;
                continue;
            }
            let values = interval(fields);
            match (kind.strip_suffix("-FAILED"), values.first()) {
                (Some(kind), Some((name, count))) if name == "operations" => {
                    *self.failed.entry(kind.to_owned()).or_default() += count;
                }
                (Some(kind), Some((_, mean_ns))) => {
                    let known = self
                        .uncounted
                        .entry(kind.to_owned())
                        .or_insert((*mean_ns, *mean_ns));
                    *known = (known.0.min(*mean_ns), known.1.max(*mean_ns));
                    sink.record_without_row();
                    continue;
                }
                _ => {}
            }
            let values: Vec<(NameId, f64)> = values
                .into_iter()
                .map(|(name, value)| (sink.name(&name), value))
                .collect();
            if !values.is_empty() {
                let subject = self.subject(kind, sink);
                sink.sample(moment_ns, None, SubjectKind::Process, subject, &values)?;
            }
        }
        Ok(())
    }

    fn line(&mut self, text: &str, sink: &mut Sink) -> Result<(), RecordError> {
        let held = std::mem::take(&mut self.held);
        if held.is_empty() {
            return self.whole_line(text, sink);
        }
        if may_go_on(text) && held.len() < HELD_BYTES_MAX {
            return self.whole_line(&joined(&held, text), sink);
        }
        let done = self.read_line(&held, sink);
        self.whole_line(text, sink).and(done)
    }

    /// Reads a line, or keeps it until the next one, if a group has no end yet.
    fn whole_line(&mut self, text: &str, sink: &mut Sink) -> Result<(), RecordError> {
        if is_unclosed(text) && (status(text).is_some() || has_groups(text)) {
            text.clone_into(&mut self.held);
            return Ok(());
        }
        self.read_line(text, sink)
    }

    fn read_line(&mut self, text: &str, sink: &mut Sink) -> Result<(), RecordError> {
        if let Some(status) = status(text) {
            self.read += 1;
            return self.status(&status, sink);
        }
        // go-ycsb's last lines count as those before; on one line with them, this stands first.
        if text.contains("Run finished, takes ") {
            self.end_tick(sink)?;
            self.is_over = true;
        }
        if is_command(text) {
            self.begins_summary(sink)?;
        }
        let of_go = of_go_line(text);
        if !of_go.is_empty() {
            let mut each = of_go.into_iter();
            return each.try_for_each(|(kind, fields)| self.of_go(kind, fields, sink));
        }
        if is_line_of_summary(text) {
            self.read += 1;
            return self.summary(text, sink);
        }
        if is_behind_text(text) {
            if self.behind_text == 0 {
                self.first_behind = text.chars().take(60).collect();
            }
            self.behind_text += 1;
            return Ok(());
        }
        if has_groups(text) {
            let of_status = self.said.as_ref().map(|(moment_ns, ..)| *moment_ns);
            return match of_status {
                Some(moment_ns) if !self.is_repeated => self.groups(moment_ns, text, sink),
                Some(_) => Ok(()),
                None => {
                    self.orphans += 1;
                    Ok(())
                }
            };
        }
        Ok(())
    }

    /// What was there and could not be read.
    fn tell_unread(&self, sink: &mut Sink) {
        if self.cut > 0 {
            let groups = counted(self.cut, "group");
            sink.missing(
                format!("what {groups} of status lines say of kinds of operations"),
                "they have no end (']'): the lines are cut off",
            );
        }
        if self.orphans > 0 {
            let lines = counted(self.orphans, "line");
            sink.missing(
                format!(
                    "what {lines} {} of kinds of operations",
                    if self.orphans == 1 { "says" } else { "say" }
                ),
                "no status line with its moment stands above them",
            );
        }
        if self.behind_text > 0 {
            sink.missing(
                format!(
                    "what {} of YCSB behind other text {}",
                    counted(self.behind_text, "line"),
                    if self.behind_text == 1 { "says" } else { "say" }
                ),
                format!(
                    "what stands in front of them is not known (the first is '{}')",
                    self.first_behind
                ),
            );
        }
        for (kind, (least_ns, most_ns)) in &self.uncounted {
            sink.missing(
                format!("how many {kind} operations failed"),
                format!(
                    "YCSB before 0.7 prints of them, as {kind}-FAILED, the mean time of an interval only ({:.2} to {:.2} ms)",
                    least_ns / 1e6,
                    most_ns / 1e6
                ),
            );
        }
    }

    /// Of all kinds.
    fn rate(&self, moment_ns: i64, rate: f64, sink: &mut Sink) -> Result<(), ImportError> {
        let values = [(sink.name("operations_per_s"), rate)];
        let subject = self.subject("ycsb", sink);
        sink.sample(moment_ns, None, SubjectKind::Process, subject, &values)
    }

    /// All kinds were told of: those whose count stands had no operation. The rate is that of a pause only if no kind had any: kinds of which there are few
    /// stand often.
    fn end_tick(&mut self, sink: &mut Sink) -> Result<(), ImportError> {
        let tick = std::mem::take(&mut self.tick);
        if self.is_over {
            return Ok(());
        }
        for (kind, moment_ns) in tick.still {
            let mut values = vec![(sink.name("operations"), 0.0)];
            if !tick.has_grown {
                values.push((sink.name("operations_per_s"), 0.0));
            }
            let subject = self.subject(&kind, sink);
            sink.sum(moment_ns, None, SubjectKind::Process, subject, &values)?;
        }
        Ok(())
    }

    /// Fields that count from the begin of the run: what came since those before is a sample, all of it the summary so far.
    fn total<'a>(
        &mut self,
        moment_ns: i64,
        kind: &str,
        fields: impl Iterator<Item = &'a str>,
        between: char,
        sink: &mut Sink,
    ) -> Result<(), RecordError> {
        let mut now = Total {
            at_ns: moment_ns,
            ..Total::default()
        };
        let (mut mean_ns, mut summary) = (None, Vec::new());
        for field in fields {
            let Some((label, value)) = field.split_once(between) else {
                continue;
            };
            let Some((name, factor)) = metric(label) else {
                continue;
            };
            let Some(value) = value_of(value.trim(), "of a status line")? else {
                continue;
            };
            let value = value * factor;
            match name.as_str() {
                "operations" => now.operations = value,
                "latency_ns" => mean_ns = Some(value),
                _ => {}
            }
            summary.push((name, value));
        }
        now.sum_ns = mean_ns.unwrap_or(0.0) * now.operations;
        // Another run counts from its own begin.
        let is_another = |old: &Total| now.operations < old.operations || moment_ns < old.at_ns;
        if self.totals.get(kind).is_some_and(is_another) {
            self.next_run(sink)?;
        }
        self.last_ns = self.last_ns.max(moment_ns);
        if self.tick.kinds.iter().any(|known| known == kind) {
            self.end_tick(sink)?;
        }
        self.tick.kinds.push(kind.to_owned());
        self.summary.insert(kind.to_owned(), summary);
        let begin = Total {
            at_ns: self.begin_ns,
            ..Total::default()
        };
        let old = self.totals.insert(kind.to_owned(), now);
        let is_first = old.is_none();
        let old = old.unwrap_or(begin);
        let operations = now.operations - old.operations;
        let seconds = moment_ns.saturating_sub(old.at_ns) as f64 / 1e9;
        self.tick.has_grown |= operations > 0.0;
        if operations > 0.0 && seconds > 0.0 {
            let mut values = vec![
                (sink.name("operations"), operations),
                (sink.name("operations_per_s"), operations / seconds),
            ];
            if mean_ns.is_some() {
                // A mean is rounded, and so is the difference of two sums.
                let mean_ns = ((now.sum_ns - old.sum_ns) / operations).max(0.0);
                values.push((sink.name("latency_ns"), mean_ns));
            }
            let subject = self.subject(kind, sink);
            sink.sample(moment_ns, None, SubjectKind::Process, subject, &values)?;
        } else {
            if operations == 0.0 && seconds > 0.0 && !is_first {
                self.tick.still.push((kind.to_owned(), moment_ns));
            }
            sink.record_without_row();
        }
        Ok(())
    }

    /// A line of go-ycsb: its first field is how long the run took so far.
    fn of_go(&mut self, kind: &str, fields: &str, sink: &mut Sink) -> Result<(), RecordError> {
        let (takes, fields) = fields.split_once(',').unwrap_or((fields, ""));
        let moment_ns = time(takes, 1_000_000_000, "Takes(s)")?;
        self.total(moment_ns, kind, fields.split(", "), ':', sink)
    }

    /// `[READ], 99thPercentileLatency(us), 426`, or a bucket of a time series, `[READ], 1000, 312.5`.
    fn summary(&mut self, text: &str, sink: &mut Sink) -> Result<(), RecordError> {
        let fields: Vec<&str> = text.split(',').map(str::trim).collect();
        let [kind, label, value] = fields[..] else {
            return Ok(());
        };
        let kind = kind.trim_matches(['[', ']']);
        if kind == "OVERALL" {
            // Which of its lines stands first differs.
            if self.overall.iter().any(|said| said == label) {
                self.begins_summary(sink)?;
            }
            self.overall.push(label.to_owned());
        }
        self.has_summary = true;
        let is_bucket = !value.contains('.') || is_count(value) && self.has_percentiles(kind);
        if let (Ok(ms), false) = (label.parse::<u32>(), is_bucket) {
            // Buckets of a histogram (milliseconds and a count) look alike, but for the point in the mean. YCSB-C prints one in its counts, too.
            let value = number(value, "of a time series")?;
            let subject = self.subject(kind, sink);
            let values = [(sink.name("latency_ns"), value * 1e3)];
            let time_ns = self.begin_ns + i64::from(ms) * 1_000_000;
            self.last_ns = self.last_ns.max(time_ns);
            sink.sample(time_ns, None, SubjectKind::Process, subject, &values)?;
        } else if label.bytes().all(|byte| byte.is_ascii_digit()) || label == "Count" {
            // A bucket of a histogram; how often Java collected its garbage.
        } else if let Some(code) = label.strip_prefix("Return=") {
            let many: u64 = integer(value, "of the summary")?;
            *self.answers.entry(kind.to_owned()).or_default() += many as f64;
            // As `Return=OK`, or `0` of old versions; YCSB-C prints its codes as text, and of success there is none.
            if !code.ends_with("OK") && !matches!(code, "0" | "") {
                let all = self.returned.entry(kind.to_owned()).or_default();
                let sum = all.entry(code.to_owned()).or_default();
                *sum = sum.saturating_add(many);
            }
        } else if let Some((name, factor)) = metric(label) {
            if let Some(read) = value_of(value, "of the summary")? {
                let mut read = read * factor;
                if is_of_bin(&name, label, value) {
                    read += factor;
                    sink.unseen(
                        "latencies to better than a millisecond",
                        "YCSB counted whole ones: what it says of percentiles, or of the slowest, means the end of that millisecond",
                    );
                }
                self.summary
                    .entry(kind.to_owned())
                    .or_default()
                    .push((name, read));
            }
        }
        Ok(())
    }

    fn has_percentiles(&self, kind: &str) -> bool {
        let mut values = self.summary.get(kind).into_iter().flatten();
        values.any(|(name, _)| name.starts_with(PERCENTILE))
    }

    /// Whether the summary is of a run without an operation, done or failed.
    fn did_nothing(&self) -> bool {
        let says = |values: &[(String, f64)], wanted: &str, is: fn(f64) -> bool| {
            values.iter().any(|(name, value)| name == wanted && is(*value))
        };
        let overall = self.summary.get("OVERALL");
        overall.is_some_and(|values| says(values, "operations_per_s", |rate| rate == 0.0))
            && self.returned.is_empty()
            && !self
                .summary
                .values()
                .any(|values| says(values, "operations", |count| count > 0.0))
    }

    /// Operations that failed are none that were done. Old versions count both as one: there are as many operations as answers, failures with them.
    fn take_failures_out(&mut self) {
        for (kind, returned) in &self.returned {
            let failed = returned.values().map(|many| *many as f64).sum::<f64>();
            let values = self.summary.get_mut(kind).into_iter().flatten();
            for (_, count) in values.filter(|(name, _)| name == "operations") {
                if self.answers.get(kind) == Some(count) {
                    *count -= failed;
                }
            }
        }
    }

    /// The summaries, and what failed.
    fn end(mut self, sink: &mut Sink) -> Result<(), ImportError> {
        self.end_tick(sink)?;
        self.tell_unread(sink);
        self.take_failures_out();
        let because =
            |kind: &str| format!("YCSB counts them as {kind}-FAILED, and their latencies with them");
        let mut failures: BTreeMap<String, (f64, String)> = BTreeMap::new();
        for (kind, count) in &self.failed {
            failures.insert(kind.clone(), (*count, because(kind)));
        }
        for (kind, values) in &self.summary {
            tell_run(self.subject(kind, sink), values, self.last_ns, sink)?;
            let of = |wanted: &str| {
                values
                    .iter()
                    .find(|(name, _)| name == wanted)
                    .map(|(_, value)| *value)
            };
            if let (Some(kind), Some(count)) = (kind.strip_suffix("-FAILED"), of("operations")) {
                failures.insert(kind.to_owned(), (count, because(kind)));
            }
        }
        if self.did_nothing() {
            sink.missing(
                format!("how long operations of {} take", self.called("ycsb", sink)),
                "its summary counts none: the run ended before its first one",
            );
        }
        for (kind, returned) in &self.returned {
            let codes: Vec<String> = returned
                .iter()
                .map(|(code, many)| format!("{many} returned {code}"))
                .collect();
            let count = returned
                .values()
                .fold(0_u64, |sum, many| sum.saturating_add(*many)) as f64;
            let count = failures.get(kind).map_or(count, |(failed, _)| failed.max(count));
            failures.insert(kind.to_owned(), (count, codes.join(", ")));
        }
        for (kind, (count, because)) in failures {
            if count < 1.0 {
                continue;
            }
            let operations = counted(count as u64, &format!("{kind} operation"));
            let of_run = match self.runs_before {
                0 => String::new(),
                before => format!(" of run {}", before + 1),
            };
            sink.missing(format!("why {operations}{of_run} failed"), because);
            let (subject, values) = (self.subject(&kind, sink), [(sink.name(FAILURES), count)]);
            sink.sum(self.last_ns, None, SubjectKind::Process, subject, &values)?;
        }
        Ok(())
    }
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let has_moments = Head::read(source.path())?.has_line(|line| status(line).is_some());
    sink.clock(if has_moments {
        Clock::unix(1_000_000)
    } else {
        Clock::own("the begin of YCSB's run", 1_000_000)
    });
    let mut reader = Reader::default();
    each_line(source, sink, |line, sink| reader.line(line.text.trim(), sink))?;
    let held = std::mem::take(&mut reader.held);
    match reader.read_line(&held, sink) {
        Err(RecordError::Fatal(error)) => return Err(error),
        // The file ends inside of it.
        Err(RecordError::Bad(_)) => reader.cut += 1,
        Ok(()) => {}
    }
    if reader.behind_text > reader.read {
        return Err(ImportError::content(
            source.path(),
            counted(reader.behind_text, "line"),
            "YCSB's lines from their begin on",
            format!("text in front of them: '{}'", reader.first_behind),
            "cut it off: sed 's/^TEXT//' FILE | whodisk import -",
        ));
    }
    reader.end(sink)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_of_other_places_have_a_decimal_comma() {
        let of = |fields: &str| interval(fields)[1].clone();
        assert_eq!(
            of("Count=106, Avg=1061,08, 90=1568"),
            ("latency_ns".into(), 1_061_080.0)
        );
        assert_eq!(
            of("Count=106, Avg=1061.08, 90=1568"),
            ("latency_ns".into(), 1_061_080.0)
        );
        assert_eq!(
            interval("Count=0, Max=0, Min=9223372036854775807, Avg=NaN, 90=0"),
            [("operations".into(), 0.0)]
        );
    }

    #[test]
    fn lines_behind_text_are_read_whole_or_not_at_all() {
        let lines = [
            "2024-01-28 19:34:32:123 0 sec: 0 operations; est completion in 0 second",
            "2024-01-28 19:34:42:123 10 sec: 500 operations; 50.0 current ops/sec; [READ: Count=500, Max=26, Min=4, Avg=5.41, 90=9]",
            "[READ], Operations, 500",
            "[READ], AverageLatency(us), 5.41",
        ];
        let log = |prefix: &str| lines.map(|line| format!("{prefix}{line}\n")).concat();
        let read = |prefix: &str| crate::testing::import(&FORMAT, &log(prefix)).map(|summary| summary.rows);
        let plain = read("").unwrap();
        for prefix in [
            "[pod/ycsb-0/ycsb] ",
            "ycsb-1  | ",
            "2024-01-28 19:34:43,001 - INFO - ",
        ] {
            assert_eq!(read(prefix).unwrap(), plain, "{prefix}");
        }
        let error = read("<bench> says ").unwrap_err().to_string();
        assert!(
            error.contains("text in front of them: '<bench> says 2024-01-28"),
            "{error}"
        );
        // One among others.
        let summary = crate::testing::import(
            &FORMAT,
            &format!("{}it says [READ], MinLatency(us), 4\n", log("")),
        )
        .unwrap();
        assert_eq!(
            summary.missing[0].what,
            "what 1 line of YCSB behind other text says"
        );
    }

    #[test]
    fn moments_of_status_lines() {
        let line = |ms: &str| format!("2016-11-14 12:59:18:{ms} 10 sec: 1234 operations");
        assert!(status(&line("287")).is_some_and(|status| status.moment_ns % 1_000_000_000 == 287_000_000));
        assert_eq!(status(&line("9223372036854775807")), None);
        assert!(status(&format!("[info] Task ycsb[0], stdout: {}", line("287"))).is_some());
    }

    /// Samples of a log, and its last moment.
    fn samples(log: &str) -> (u64, u64, i64) {
        let summary = crate::testing::import(&FORMAT, log).unwrap();
        (summary.records, summary.rows, summary.end_ns / 1_000_000_000)
    }

    #[test]
    fn what_counts_from_the_begin_of_the_run_is_subtracted() {
        let status =
            |s: u32, fields: &str| format!("2024-01-28 19:34:{s} {} sec: 9 operations; {fields}\n", s - 32);
        let of_cpp = status(32, "")
            + &status(
                42,
                "[READ: Count=528 Max=26.86 Min=0.46 Avg=5.41 90=9.92 99.9=26.82]",
            )
            + &status(
                52,
                "[READ: Count=5592 Max=55.42 Min=0.04 Avg=6.03 90=12.68 99.9=27.74]",
            );
        // Two intervals of three values each, and the summary of six.
        assert_eq!(samples(&of_cpp), (3, 12, 10));
        let of_go = "READ   - Takes(s): 10.0, Count: 50, OPS: 5.0, Avg(us): 1520, Min(us): 102, Max(us): 20111, 99.9th(us): 9000\n\
            READ   - Takes(s): 20.0, Count: 150, OPS: 7.5, Avg(us): 1020, Min(us): 102, Max(us): 20111, 99.9th(us): 9000\n\
            Run finished, takes 20.0s\n\
            READ   - Takes(s): 20.0, Count: 150, OPS: 7.5, Avg(us): 1020, Min(us): 102, Max(us): 20111, 99.9th(us): 9000\n";
        assert_eq!(samples(of_go).1, 6 + 5);
        // Rates alone are no latency of 0; go-tpc is not go-ycsb.
        assert_eq!(samples("READ - Takes(s): 10.0, Count: 50, OPS: 5.0\n").1, 2 + 1);
        assert!(of_go_line("[Current] PAYMENT - Takes(s): 10.0, Count: 130, TPM: 780.6").is_empty());
        let (mut names, mut silent) = (case::sealed::Names::default(), |_: u64| {});
        let mut sink = Sink::survey(&mut names, &mut silent, false);
        let mut reader = Reader::default();
        for (at, fields) in [(1, "Count=100 Max=9 Avg=5"), (2, "Count=300 Max=9 Avg=7")] {
            // A survey ends with its first sample.
            let _ = reader.total(at, "READ", fields.split(' '), '=', &mut sink);
        }
        let total = reader.totals["READ"];
        assert_eq!((total.operations, total.sum_ns), (300.0, 2_100_000.0));
    }

    #[test]
    fn old_versions_print_milliseconds_and_no_blank() {
        assert_eq!(metric("AverageLatency(ms)"), Some(("latency_ns".into(), 1e6)));
        assert_eq!(
            metric("99thPercentileLatency(ms)"),
            Some(("latency_p99_ns".into(), 1e6))
        );
        assert_eq!(metric("99.9th(us)"), Some(("latency_p99.9_ns".into(), 1e3)));
        assert_eq!(
            (metric("RunTime(ms)"), metric("OPS"), metric("Time(%)")),
            (None, None, None)
        );
        assert!(is_of_summary("[READ], MaxLatency(us), 287743") && !is_of_summary("[1], x, 5"));
        let old = "[OVERALL],RunTime(ms), 10110\n[OVERALL],Throughput(ops/sec), 98.9\n\
            [UPDATE], AverageLatency(ms), 0.05\n[UPDATE], 0, 464\n[UPDATE], >1000, 0\n";
        assert_eq!(samples(old), (2, 2, 0));
    }

    #[test]
    fn a_status_line_that_stands_twice_is_one() {
        let line = "2016-03-02 14:58:23:453 100 sec: 97 operations; 912.3 current ops/sec; est completion in 1 minutes [READ AverageLatency(us)=10945.5]\n";
        assert_eq!(samples(&line.repeat(2)).0, 2);
    }

    #[test]
    fn lines_that_a_terminal_wrapped_are_joined() {
        let status = "2022-06-18 00:18:30:298 40 sec: 223720 operations; 7554,49 current ops/sec; est completion in 50 seconds";
        let read = "[READ: Count=71770, Max=15679, Min=476, Avg=988,13, 99.99=15079]";
        let update = "[UPDATE: Count=3778, Max=737791, Min=584, Avg=7713,35, 99.99=737791]";
        let plain = format!("{status} {read} {update}");
        let of = |log: &str, metric: &str| crate::testing::samples(&FORMAT, log, metric);
        let all = |log: &str| {
            let metrics = [
                "operations_per_s",
                "operations",
                "latency_max_ns",
                "latency_ns",
                "latency_p99.99_ns",
            ];
            metrics.map(|metric| of(log, metric))
        };
        let expected = all(&format!("{plain}\n"));
        assert_eq!(expected.iter().map(Vec::len).sum::<usize>(), 1 + 2 * 4);
        // At any place of the groups, also inside a word or a number.
        for at in status.len() + 1..plain.len() {
            let (line, rest) = plain.split_at(at);
            assert_eq!(all(&format!("{line}\n{rest}\n")), expected, "{line}");
            // Who copied it lost the blanks at the ends.
            assert_eq!(
                all(&format!("{}\n{}\n", line.trim(), rest.trim())),
                expected,
                "{line}"
            );
        }
        assert!(missing(&format!("{status} {read}\n{update}\n")).is_empty());
        // Twice, as both streams of one run.
        let twice = format!("{status} {read}\n{update}\n").repeat(2);
        assert_eq!(of(&twice, "operations").len(), 2);
    }

    #[test]
    fn groups_that_cannot_be_read_are_counted() {
        let status = "2022-06-18 00:18:30:298 40 sec: 9 operations; 7,5 current ops/sec;";
        let cut = format!("{status} [READ: Count=7, Max=15] [UPDATE: Count=3, Max=73\n");
        let found = crate::testing::samples(&FORMAT, &cut, "latency_max_ns");
        assert_eq!(found, [("READ".to_owned(), 0, 15_000.0)]);
        assert_eq!(
            missing(&cut)[0].0,
            "what 1 group of status lines say of kinds of operations"
        );
        // What stands below it is read.
        let next = format!("{cut}this is no group\n{}\n", status.replace("18:30", "18:40"));
        assert_eq!(
            crate::testing::samples(&FORMAT, &next, "operations_per_s").len(),
            2
        );
        let orphan = format!("[READ: Count=7, Max=15]\n{status}\n");
        assert_eq!(missing(&orphan)[0].0, "what 1 line says of kinds of operations");
    }

    #[test]
    fn failures_that_nobody_counted_are_no_kind() {
        let log = "2016-03-02 14:58:23:453 100 sec: 97621 operations; 912.3 current ops/sec; est completion in 1 minutes \
            [READ AverageLatency(us)=10945.5] [READ-FAILED AverageLatency(us)=4593.01]\n";
        let found = crate::testing::samples(&FORMAT, log, "latency_ns");
        assert_eq!(found, [("READ".to_owned(), 0, 10_945_500.0)]);
        let (what, because) = &missing(log)[0];
        assert_eq!(what, "how many READ operations failed");
        assert!(because.contains("4.59 to 4.59 ms"), "{because}");
    }

    /// What a case says before all else that was not seen.
    fn missing(log: &str) -> Vec<(String, String)> {
        let summary = crate::testing::import(&FORMAT, log).unwrap();
        let all = summary.missing.into_iter();
        all.map(|one| (one.what, one.because)).collect()
    }

    #[test]
    fn operations_that_failed_are_counted_and_no_latency_is_made_up() {
        let log = "2025-05-31 13:19:49:516 0 sec: 1 operations; 2.06 current ops/sec; [READ: Count=0, Max=0, Min=9223372036854775807, Avg=NaN, 99=0] \
            [READ-FAILED: Count=2, Max=58, Min=50, Avg=54, 99=58]\n\
            [OVERALL], Throughput(ops/sec), NaN\n[READ], Operations, 0\n[READ], AverageLatency(us), NaN\n\
            [READ], MinLatency(us), 9223372036854775807\n[READ], MaxLatency(us), 0\n[READ], Return=NOT_FOUND, 2\n\
            [READ-FAILED], Operations, 2\n[READ-FAILED], MaxLatency(us), 58\n";
        // The rate, READ's count, five of READ-FAILED; in the summary 1 and 2; the failures.
        assert_eq!(samples(log), (5, 11, 0));
        let told = |what: &str, because: &str| (what.to_owned(), because.to_owned());
        assert_eq!(
            missing(log),
            [told("why 2 READ operations failed", "2 returned NOT_FOUND")]
        );
        let infinite = "2021-03-17 19:03:42:427 0 sec: 14 operations; \u{221e} current ops/sec; est completion in 0 second [INSERT: Count=26, Max=2701]\n";
        assert_eq!(samples(infinite), (1, 2, 0));
        let killed = "2021-03-17 19:03:42:427 0 sec: 14 operations; 2.0 current ops/sec; [READ-FAILED: Count=3, Max=2701]\n";
        assert!(missing(killed)[0].0.starts_with("why 3 READ operations"));
        assert!(missing("[INSERT], Return=OK, 7\n[INSERT], MaxLatency(us), 58\n").is_empty());
        // More than can be counted.
        let damaged = "[READ], Return=ERROR, 18446744073709551615\n[READ], MaxLatency(us), 58\n".repeat(2);
        assert_eq!(
            missing(&damaged)[0].0,
            format!("why {} READ operations failed", u64::MAX)
        );
    }

    #[test]
    fn failures_are_beside_operations_or_among_them() {
        let done = |returns: &str| {
            let log = format!("[READ], Operations, 100\n[READ], AverageLatency(us), 4\n{returns}");
            crate::testing::samples(&FORMAT, &log, "run_operations")[0].2
        };
        // YCSB-C's code of success is an empty text.
        let of_c = "[READ], Operations, 100\n[READ], AverageLatency(us), 4\n[READ], Return=, 100\n";
        assert!(missing(of_c).is_empty());
        assert_eq!(done("[READ], Return=, 100\n"), 100.0);
        let bucket = "[READ], 1, 4489.000000\n";
        let percentile = "[READ], 99thPercentileLatency(us), 13\n";
        let of = |log: &str| crate::testing::samples(&FORMAT, log, "latency_ns").len();
        assert_eq!(of(&format!("{of_c}{bucket}")), 1);
        assert_eq!(of(&format!("{of_c}{percentile}{bucket}")), 0);
        assert_eq!(done("[READ], Return=OK, 100\n[READ], Return=ERROR, 5\n"), 100.0);
        // Up to 0.1.4.
        assert_eq!(done("[READ], Return=0, 95\n[READ], Return=1, 5\n"), 95.0);
        assert_eq!(done("[READ], Return=ERROR, 100\n"), 0.0);
    }

    #[test]
    fn lines_of_go_ycsb_as_others_print_them() {
        let fields =
            "Takes(s): 72.8, Count: 499, OPS: 6.7, Avg(us): 90716, Max(us): 7438914, 99th(us): 728000";
        let numbered = format!(
            "1 - READ - {fields}\n2 - READ - {}\n",
            fields.replace("499", "498")
        );
        // Two runs: of each an interval and a summary.
        assert_eq!(samples(&numbered), (4, 14, 72));
        let one_line = format!("Run finished, takes 3.1s READ - {fields} UPDATE - {fields}\n");
        assert_eq!(
            of_go_line(one_line.trim()),
            [
                ("READ", &fields["Takes(s): ".len()..]),
                ("UPDATE", &fields["Takes(s): ".len()..])
            ]
        );
        assert_eq!(samples(&one_line), (4, 14, 72));
    }

    #[test]
    fn an_indented_status_line_has_its_moment() {
        let line = "2022-03-17 19:03:52:402 10 sec: 25 operations; 2.5 current ops/sec; [INSERT: Count=25, Max=19999]\n";
        let plain = crate::testing::import(&FORMAT, line).unwrap();
        let indented = crate::testing::import(&FORMAT, &format!("    {line}")).unwrap();
        assert_eq!(plain.start_unix_ns, Some(1_647_543_832_402_000_000));
        assert_eq!(
            (plain.start_unix_ns, plain.rows),
            (indented.start_unix_ns, indented.rows)
        );
    }

    /// Subjects of samples of a log's rates, in their order, each with its seconds and its rate.
    fn rates(log: &str) -> Vec<(String, i64, f64)> {
        crate::testing::samples(&FORMAT, log, "operations_per_s")
    }

    fn rate(subject: &str, seconds: i64, value: f64) -> (String, i64, f64) {
        (subject.to_owned(), seconds, value)
    }

    #[test]
    fn a_count_that_stands_is_a_pause() {
        let line = |kind: &str, takes: u32, count: u32| {
            format!("{kind} - Takes(s): {takes}.0, Count: {count}, OPS: 1.0, Avg(us): 5, Max(us): 9\n")
        };
        let log = line("READ", 10, 50) + &line("READ", 20, 50) + &line("READ", 30, 90);
        let of_read = [
            rate("READ", 10, 5.0),
            rate("READ", 30, 4.0),
            rate("READ", 20, 0.0),
        ];
        let mut found = rates(&log);
        found.sort_by_key(|(_, seconds, _)| *seconds);
        assert_eq!(
            found,
            [of_read[0].clone(), of_read[2].clone(), of_read[1].clone()]
        );
        // Another kind went on; and the end of a run is said once more.
        let log = line("READ", 10, 50) + &line("SCAN", 10, 1) + &line("READ", 20, 90) + &line("SCAN", 20, 1);
        assert!(rates(&log).iter().all(|(.., value)| *value > 0.0));
        let log = line("READ", 10, 50) + "Run finished, takes 11s\n" + &line("READ", 11, 50);
        assert_eq!(rates(&log), [rate("READ", 10, 5.0)]);
    }

    #[test]
    fn lines_before_the_first_operation_are_a_pause() {
        let line = |s: u32, rest: &str| format!("2017-10-06 09:42:{}:000 {s} sec: {rest}\n", 20 + s);
        let none = "0 operations; est completion in 5 days";
        let some = "178103 operations; 17813.86 current ops/sec; est";
        let log = line(0, none) + &line(10, none) + &line(20, some);
        let expected = [
            rate("ycsb", 0, 0.0),
            rate("ycsb", 10, 0.0),
            rate("ycsb", 20, 17_813.86),
        ];
        assert_eq!(rates(&log), expected);
        assert_eq!(rates(&(line(10, none) + &line(20, some))), expected);
        // Every run begins with none.
        assert_eq!(rates(&(line(0, none) + &line(20, some))).len(), 1);
    }

    #[test]
    fn runs_of_one_file_are_told_apart() {
        let line = |minute: u32, second: u32, s: u32| {
            format!("2017-10-06 09:{minute}:{second}:000 {s} sec: 5 operations; 5.0 current ops/sec; \n")
        };
        let log = line(42, 10, 10) + &line(42, 20, 20) + &line(43, 10, 10);
        let of = [("ycsb", 0), ("ycsb", 10), ("ycsb, run 2", 60)];
        assert_eq!(rates(&log), of.map(|(name, seconds)| rate(name, seconds, 5.0)));
        // Two clients that print into one file.
        let log = line(42, 10, 20) + &line(42, 15, 10) + &line(42, 20, 30) + &line(42, 25, 20);
        assert!(rates(&log).iter().all(|(name, ..)| name == "ycsb"));
        let go = |takes: u32, count: u32| {
            format!("READ - Takes(s): {takes}.0, Count: {count}, OPS: 1.0, Avg(us): 5, Max(us): 9\n")
        };
        let names: Vec<String> = rates(&(go(10, 50) + &go(20, 60) + &go(10, 70)))
            .into_iter()
            .map(|(name, ..)| name)
            .collect();
        assert_eq!(names, ["READ", "READ", "READ, run 2"]);
    }

    #[test]
    fn summaries_of_one_file_are_each_of_a_run() {
        let summary = |rate: u32| {
            format!("[OVERALL], RunTime(ms), 1000\n[OVERALL], Throughput(ops/sec), {rate}.5\n[READ], Operations, {rate}\n[READ], Return=ERROR, {rate}\n")
        };
        let of_second = [("OVERALL", 9.5), ("OVERALL, run 2", 8.5)];
        let all = |log: &str| -> Vec<(String, f64)> {
            let of_runs = crate::testing::samples(&FORMAT, log, "run_operations_per_s").into_iter();
            of_runs.map(|(subject, _, value)| (subject, value)).collect()
        };
        let pair = of_second.map(|(name, rate)| (name.to_owned(), rate));
        assert_eq!(all(&(summary(9) + "\n" + &summary(8))), pair);
        let turned =
            "[OVERALL], Throughput(ops/sec), 9.5\n[OVERALL], RunTime(ms), 1000\n[READ], Operations, 9\n";
        assert_eq!(all(turned), pair[..1]);
        assert_eq!(all(&(turned.to_owned() + &summary(8))), pair);
        // The page left out when the second began.
        let command = "$ bin/ycsb run scylla -target 5000\n";
        let cut = summary(8).replace("[OVERALL], RunTime(ms), 1000\n", "");
        assert_eq!(all(&(summary(9) + command + &cut)), pair);
        let failed: Vec<String> = missing(&(summary(9) + &summary(8)))
            .into_iter()
            .map(|(what, _)| what)
            .collect();
        assert_eq!(
            failed,
            [
                "why 9 READ operations failed",
                "why 8 READ operations of run 2 failed"
            ]
        );
        // A run that is dated keeps its moments, and so does what is said after them.
        let status = |minute: u32| {
            format!("2017-10-06 09:{minute}:10:000 10 sec: 5 operations; 5.0 current ops/sec; \n")
        };
        let log = status(42) + &summary(9) + &summary(8) + &status(43) + &summary(7);
        let of_third = (pair[0].0.replace("OVERALL", "OVERALL, run 3"), 7.5);
        assert_eq!(all(&log), [pair[0].clone(), pair[1].clone(), of_third]);
        assert_eq!(rates(&log), [rate("ycsb", 0, 5.0), rate("ycsb, run 3", 60, 5.0)]);
        assert_eq!(samples(&log).2, 60);
        for line in ["we run ycsb on it", "ycsb", "[READ], Operations, 5"] {
            assert!(!is_command(line), "{line}");
        }
    }

    #[test]
    fn a_run_without_an_operation_is_told() {
        let log = "[OVERALL], RunTime(ms), 66\n[OVERALL], Throughput(ops/sec), 0.0\n[TOTAL_GCs], Count, 3\n";
        assert_eq!(missing(log)[0].0, "how long operations of ycsb take");
        // Its rate, and no operations of Java's.
        assert_eq!(samples(log).1, 1);
        let failed = "[OVERALL], Throughput(ops/sec), 0.0\n[READ], Operations, 0\n[READ], Return=ERROR, 2\n";
        assert_eq!(missing(failed)[0].0, "why 2 READ operations failed");
    }

    #[test]
    fn the_end_of_a_bin_bounds_what_is_in_it() {
        assert!(is_of_bin("latency_max_ns", "MaxLatency(ms)", "1"));
        assert!(is_of_bin("latency_p99_ns", "99thPercentileLatency(ms)", "0"));
        for (metric, label, value) in [
            ("latency_ns", "AverageLatency(ms)", "1"),
            ("latency_max_ns", "MaxLatency(ms)", "1.5"),
            ("latency_max_ns", "MaxLatency(us)", "1"),
        ] {
            assert!(!is_of_bin(metric, label, value), "{label}");
        }
    }

    #[test]
    fn the_end_of_an_output_is_known() {
        assert_eq!(
            samples("[READ], MinLatency(us), 2360\n[READ], MaxLatency(us), 287743\n").1,
            2
        );
        assert_eq!(
            samples("[OVERALL], Throughput(ops/sec), 13053.1\n[READ], Operations, 5\n").1,
            2
        );
    }
}

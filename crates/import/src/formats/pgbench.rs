//! Transaction logs of pgbench (`-l`): `pgbench_log.PID[.THREAD]`.
//!
//! `client transaction time script epoch_s epoch_us [lag] [retries]`: times in microseconds; the moment is that of the end. With `-R` the time counts from
//! when the transaction was meant to begin, and the lag is the part of it before it did. With `--aggregate-interval` a line is an interval:
//! `begin_s transactions sum sum_of_squares min max [lag, failures, ...]`. What `-P` prints is read as samples, too, and so is what stands at the end of
//! a run. Source: pgbench.c, doLog, printProgressReport, printResults.
use crate::clock::Clock;
use crate::error::Bad;
use crate::format::{alone, Format, Head, Source};
use crate::records::each_line;
use crate::sink::Sink;
use crate::text::{counted, integer, scaled};
use crate::ImportError;
use case::schema::{Layer, Op, OpRow, Stage, SubjectKind};

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "pgbench",
    about:
        "transaction logs of pgbench (-l): every transaction; with --aggregate-interval, of -P, and at the end of a run, samples",
    not_carried: &[
        (
            "what a transaction did",
            "pgbench logs transactions, not the reads and writes in them",
        ),
        ("devices and files", "pgbench does not know them"),
    ],
    recognise,
    together: alone,
    read,
};

/// More is no number of retries, but a lag in microseconds.
const RETRIES_MAX: u64 = 100;

/// What `-P` prints: the moment in seconds (since the begin, or since 1970), and values with their names: `progress: 5.0 s, 2577.3 tps, lat 12.414 ms
/// stddev 5.072, lag 0.123 ms, 3 skipped`. Who shows it to others pads numbers with blanks, and writes remarks behind it.
fn progress(line: &str) -> Option<(i64, Vec<(&'static str, f64)>)> {
    let mut fields = line.strip_prefix("progress: ")?.split(", ");
    let moment_ns = scaled(fields.next()?.trim().strip_suffix(" s")?, 1_000_000_000)?;
    let mut values = Vec::new();
    for field in fields {
        let words: Vec<&str> = field.split_whitespace().collect();
        let value = |at: usize| words.get(at).and_then(|word| word.parse::<f64>().ok());
        match words[..] {
            [_, "tps", ..] => values.push(("operations_per_s", value(0)?)),
            ["lat", _, "ms", ref rest @ ..] => {
                // Without transactions there is no mean.
                values.extend(value(1).map(|mean| ("latency_ns", mean * 1e6)));
                if let ["stddev", _, ..] = rest {
                    values.extend(value(4).map(|deviation| ("latency_stddev_ns", deviation * 1e6)));
                }
            }
            ["lag", _, "ms", ..] => values.extend(value(1).map(|lag| ("lag_ns", lag * 1e6))),
            // How many were skipped, failed, retried.
            _ => {}
        }
    }
    values.retain(|(_, value)| value.is_finite());
    if values.contains(&("operations_per_s", 0.0)) && values.contains(&("latency_ns", 0.0)) {
        // Where no transaction ended, there is no latency either.
        values.truncate(1);
    }
    Some((moment_ns, values)).filter(|(_, values)| !values.is_empty())
}

/// A line of what pgbench prints at the end of a run: a metric and its value.
fn result(line: &str) -> Option<(&'static str, f64)> {
    let number = |text: &str| {
        let word = text.trim_start().split([' ', '/', '(']).next()?;
        word.parse::<f64>().ok().filter(|value| value.is_finite())
    };
    let after = |mark: &str| line.strip_prefix(mark);
    if let Some(rest) = after("number of transactions actually processed: ") {
        return Some(("run_operations", number(rest)?));
    }
    if let Some(rest) = after("number of failed transactions: ") {
        return Some(("failures", number(rest)?));
    }
    if let Some(rest) = after("number of transactions skipped: ") {
        return Some(("skipped", number(rest)?));
    }
    if let Some(rest) = after("number of transactions above the ") {
        let (_, count) = rest.split_once(" latency limit: ")?;
        return Some(("run_over_limit", number(count)?));
    }
    // With --max-tries and --failures-detailed.
    const TRIES: [(&str, &str); 4] = [
        ("number of serialization failures: ", "run_serialization_failures"),
        ("number of deadlock failures: ", "run_deadlock_failures"),
        ("number of transactions retried: ", "run_retried"),
        ("total number of retries: ", "run_retries"),
    ];
    if let Some((name, rest)) = TRIES.iter().find_map(|(mark, name)| Some((name, after(mark)?))) {
        return Some((name, number(rest)?));
    }
    if let Some(rest) = after("latency average = ").or_else(|| after("latency average: ")) {
        return Some(("run_latency_ns", number(rest)? * 1e6));
    }
    if let Some(rest) = after("latency stddev = ").or_else(|| after("latency stddev: ")) {
        return Some(("run_latency_stddev_ns", number(rest)? * 1e6));
    }
    if let Some(rest) = after("initial connection time = ") {
        return Some(("run_connection_time_ns", number(rest)? * 1e6));
    }
    // With -C, a connection per transaction.
    if let Some(rest) = after("average connection time = ") {
        return Some(("run_connection_time_mean_ns", number(rest)? * 1e6));
    }
    let rest = after("tps = ")?;
    // Before 14 a rate with the time that connections took stands before the one without.
    let name = match rest.contains("(including connections establishing)") {
        true => "run_operations_per_s_with_connecting",
        false => "run_operations_per_s",
    };
    Some((name, number(rest)?))
}

/// A line of what pgbench prints of one of several scripts, ` - 172 transactions (10.0% of total, tps = 3.824306)`: metrics and their values.
fn script_result(line: &str) -> Vec<(&'static str, f64)> {
    let Some(line) = line.strip_prefix("- ") else {
        return Vec::new();
    };
    let Some((count, rest)) = line.split_once(" transactions (") else {
        return result(line).into_iter().collect();
    };
    let rate = rest
        .split_once("tps = ")
        .and_then(|(_, rate)| rate.trim_end_matches(')').parse().ok());
    let count = count.parse().ok().map(|count: f64| ("run_operations", count));
    let rate = rate.map(|rate: f64| ("run_operations_per_s", rate));
    count.into_iter().chain(rate).collect()
}

type Values = Vec<(&'static str, f64)>;

/// A run of pgbench, as far as it is printed.
#[derive(Default)]
struct Run {
    /// What `-P` printed.
    progress: Vec<(i64, Values)>,
    /// What stands at its end.
    result: Values,
    /// The same of its scripts, with their names.
    scripts: Vec<(String, Values)>,
}

/// Runs of which a file has what pgbench prints. Their moments count from the begin of each, so none of their values are pooled.
#[derive(Default)]
struct Runs {
    runs: Vec<Run>,
}

impl Runs {
    fn line(&mut self, line: &str) {
        if let Some((moment_ns, values)) = progress(line) {
            if self.runs.last().is_none_or(|run| !run.goes_on_at(moment_ns)) {
                self.runs.push(Run::default());
            }
            let run = self.runs.last_mut().expect("one was begun");
            run.progress.push((moment_ns, values));
        } else if line.starts_with("transaction type: ") {
            if self.runs.last().is_none_or(|run| !run.result.is_empty()) {
                self.runs.push(Run::default());
            }
        } else if let Some(run) = self.runs.last_mut() {
            run.line(line);
        }
    }

    /// The result goes to the standard output, progress to the error output. Where somebody kept one behind the other, each result stands above the
    /// progress of its run: what looks like a result without progress first, and progress without a result last, are then of one run less.
    fn join_streams(&mut self) {
        let (Some(first), Some(last)) = (self.runs.first(), self.runs.last()) else {
            return;
        };
        let is_shifted = first.progress.is_empty()
            && last.result.is_empty()
            && self
                .runs
                .windows(2)
                .all(|pair| pair[1].may_end_with(&pair[0].result));
        if !is_shifted {
            return;
        }
        for at in 1..self.runs.len() {
            self.runs[at - 1].progress = std::mem::take(&mut self.runs[at].progress);
        }
        self.runs.pop();
    }

    /// Each run as samples, under names of their own. Where no progress is, their order is all that is known of when they were.
    fn tell(mut self, sink: &mut Sink) -> Result<(), ImportError> {
        self.runs
            .retain(|run| !run.progress.is_empty() || !run.result.is_empty());
        self.join_streams();
        let several = self.runs.len() > 1;
        let mut last_ns = 0;
        for (at, run) in self.runs.iter().enumerate() {
            let named = |name: &str, sink: &Sink| match several {
                true => format!("{}, run {}", sink.of_log(name), at + 1),
                false => sink.of_log(name),
            };
            let subject = named("pgbench", sink);
            for (moment_ns, values) in &run.progress {
                last_ns = last_ns.max(*moment_ns);
                tell_values(&subject, *moment_ns, values, sink)?;
            }
            let time_ns = run.progress.last().map_or(last_ns, |(moment_ns, _)| *moment_ns);
            if run.result.is_empty() {
                continue;
            }
            tell_skipped(of(&run.result, "skipped") as u64, sink);
            tell_connecting(&subject, &run.result, sink);
            tell_result(&subject, &run.result, time_ns, sink)?;
            for (script, values) in &run.scripts {
                tell_result(&named(script, sink), values, time_ns, sink)?;
            }
        }
        Ok(())
    }
}

/// Progress and the result of a run are apart by less than this part of the rate.
const APART_RATIO_MAX: f64 = 0.1;

impl Run {
    /// Whether a result may be that of this progress: the rates are alike.
    fn may_end_with(&self, result: &Values) -> bool {
        let rates = self
            .progress
            .iter()
            .map(|(_, values)| of(values, "operations_per_s"));
        let mean = rates.sum::<f64>() / self.progress.len() as f64;
        let rate = of(result, "run_operations_per_s");
        (mean - rate).abs() < APART_RATIO_MAX * rate
    }

    /// Whether progress of this moment may be the run's: it is before its end, and no earlier than what was printed last. Runs that print at the same
    /// time into one file are as far apart as they began, which is less than half of the time between two lines of one.
    fn goes_on_at(&self, moment_ns: i64) -> bool {
        let moments = || self.progress.iter().rev().map(|(moment_ns, _)| *moment_ns);
        let Some(last_ns) = moments().next() else {
            return self.result.is_empty();
        };
        let before_ns = moments().find(|before_ns| *before_ns < last_ns).unwrap_or(0);
        let is_back = moment_ns < last_ns && last_ns - moment_ns >= (last_ns - before_ns) / 2;
        self.result.is_empty() && !is_back
    }

    fn line(&mut self, line: &str) {
        if let Some((script, name)) = line
            .strip_prefix("SQL script ")
            .and_then(|rest| rest.split_once(": "))
        {
            self.scripts
                .push((format!("script {script} ({name})"), Vec::new()));
        } else if let Some((_, values)) = self.scripts.last_mut().filter(|_| line.starts_with("- ")) {
            values.extend(script_result(line));
        } else if let Some((name, value)) = result(line) {
            self.result.retain(|(known, _)| *known != name);
            self.result.push((name, value));
        }
    }
}

fn of(values: &[(&'static str, f64)], wanted: &str) -> f64 {
    let found = values.iter().find(|(name, _)| *name == wanted);
    found.map_or(0.0, |(_, value)| *value)
}

fn tell_values(
    subject: &str,
    time_ns: i64,
    values: &[(&'static str, f64)],
    sink: &mut Sink,
) -> Result<(), ImportError> {
    let values: Vec<_> = values
        .iter()
        .map(|(name, value)| (sink.name(name), *value))
        .collect();
    let subject = sink.name(subject);
    sink.sample(time_ns, None, SubjectKind::Process, subject, &values)
}

/// What is printed at the end, of a run or of a script of it.
fn tell_result(
    subject: &str,
    result: &[(&'static str, f64)],
    time_ns: i64,
    sink: &mut Sink,
) -> Result<(), ImportError> {
    // Without a transaction there is no mean.
    let has_any = of(result, "run_operations") > 0.0 || of(result, "run_operations_per_s") > 0.0;
    let values: Vec<_> = result
        .iter()
        .filter(|(name, value)| match *name {
            "skipped" => false,
            "failures" => *value > 0.0,
            name => has_any || !name.contains("latency"),
        })
        .copied()
        .collect();
    if of(result, "failures") > 0.0 {
        let failed = counted(of(result, "failures") as u64, "failed transaction");
        sink.missing(
            format!("how long {failed} of {subject} took"),
            "pgbench counts them and says no time",
        );
    }
    tell_values(subject, time_ns, &values, sink)
}

/// A rate that is this much smaller with the time that connecting took is another one to who reads two digits.
const CONNECTING_RATIO_MIN: f64 = 0.01;

/// The time that the rate leaves out: connecting is no transaction, but who waits for the first one waits for it.
fn tell_connecting(subject: &str, result: &[(&'static str, f64)], sink: &mut Sink) {
    let (operations, rate) = (of(result, "run_operations"), of(result, "run_operations_per_s"));
    let connecting_s = of(result, "run_connection_time_ns") / 1e9;
    let told = of(result, "run_operations_per_s_with_connecting");
    if connecting_s <= 0.0 && told <= 0.0 {
        return;
    }
    let with = match rate > 0.0 && told == 0.0 {
        true => operations / (operations / rate + connecting_s),
        false => told,
    };
    if with <= 0.0 || with > rate * (1.0 - CONNECTING_RATIO_MIN) {
        return;
    }
    let took = match connecting_s > 0.0 {
        true => format!("{connecting_s:.3} s"),
        false => "time".to_owned(),
    };
    sink.missing(
        format!("what {subject} did in the {took} that connecting took"),
        format!("its rate, {rate:.1} transactions per second, leaves it out: with it there were {with:.1} per second"),
    );
}

/// What `-P` prints, and what stands at the end of runs, among other lines.
fn read_printed(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let mut runs = Runs::default();
    each_line(source, sink, |line, _| {
        runs.line(line.text.trim());
        Ok(())
    })?;
    let first_ns = runs
        .runs
        .iter()
        .flat_map(|run| &run.progress)
        .next()
        .map(|(moment_ns, _)| *moment_ns);
    sink.unseen(
        "single transactions",
        match first_ns {
            Some(_) => "pgbench's -P prints rates and means only; -l logs transactions",
            None => "pgbench prints a mean and a rate at the end of a run; -l logs transactions, -P prints how a run goes on",
        },
    );
    sink.clock(match first_ns {
        Some(ns) if is_moment((ns / 1_000_000_000).unsigned_abs()) => Clock::unix(100_000_000),
        Some(_) => Clock::own("the begin of pgbench", 100_000_000),
        None => Clock::own("the end of pgbench", 1_000_000_000),
    });
    if first_ns.is_none() {
        sink.unseen(
            "when the runs were",
            "pgbench prints no moments at their end; they are put at 0",
        );
    }
    runs.tell(sink)
}

/// Whether it is what pgbench prints: its version first of all, its progress, or the end of a run.
fn is_printed(head: &Head) -> bool {
    head.filled_lines().next().is_some_and(is_banner)
        || is_summary(head)
        || head.has_line(|line| progress(line.trim_start()).is_some())
}

/// `pgbench (15.8 (Homebrew))`, `pgbench (18beta3, server 13.22)`
fn is_banner(line: &str) -> bool {
    let version = line
        .strip_prefix("pgbench (")
        .and_then(|rest| rest.strip_suffix(')'));
    version.is_some_and(|version| version.starts_with(|digit: char| digit.is_ascii_digit()))
}

/// Whether it is what pgbench prints at the end of a run.
fn is_summary(head: &Head) -> bool {
    let has = |begin: &str| head.lines().any(|line| line.trim_start().starts_with(begin));
    has("transaction type: ") && has("tps = ")
}

fn recognise(head: &Head) -> bool {
    is_log(head) || is_printed(head)
}

fn is_log(head: &Head) -> bool {
    let lines: Vec<&str> = head.filled_lines().take(20).collect();
    // A damaged line among them does not make it another format.
    let is_row = |line: &&&str| is_transaction(line) || interval(line).is_some();
    2 * lines.iter().filter(is_row).count() > lines.len()
}

/// Whether a second since 1970 is one of this century.
fn is_moment(seconds: u64) -> bool {
    (946_684_800..4_102_444_800).contains(&seconds)
}

/// Transactions of an interval, times in microseconds.
struct Interval {
    begin_s: u64,
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
    /// With `-L`, behind the four columns of the lag.
    skipped: u64,
    /// Since version 15, behind that.
    tries: Tries,
}

/// Transactions that were tried again and how often that was, and those that failed in the end, by why.
#[derive(Clone, Copy, Default, PartialEq)]
struct Tries {
    retried: u64,
    retries: u64,
    serialization_failures: u64,
    deadlock_failures: u64,
}

impl Tries {
    fn failures(&self) -> u64 {
        self.serialization_failures.saturating_add(self.deadlock_failures)
    }

    /// Of an interval in which no transaction was tried again there is nothing to tell.
    fn values(&self) -> Vec<(&'static str, f64)> {
        if *self == Tries::default() {
            return Vec::new();
        }
        vec![
            ("retried", self.retried as f64),
            ("retries", self.retries as f64),
            ("serialization_failures", self.serialization_failures as f64),
            ("deadlock_failures", self.deadlock_failures as f64),
            ("failures", self.failures() as f64),
        ]
    }
}

/// The interval of a line, whose numbers must agree with each other: the mean lies between the smallest and the largest.
fn interval(line: &str) -> Option<Interval> {
    let numbers: Vec<u64> = line
        .split_whitespace()
        .map(|word| word.parse().ok())
        .collect::<Option<_>>()?;
    let [begin_s, count, sum, _, min, max, ref rest @ ..] = numbers[..] else {
        return None;
    };
    let tries = match rest {
        [_, _, _, _, _, retried, retries, serialization_failures, deadlock_failures] => Tries {
            retried: *retried,
            retries: *retries,
            serialization_failures: *serialization_failures,
            deadlock_failures: *deadlock_failures,
        },
        _ => Tries::default(),
    };
    let agrees = count.checked_mul(min)? <= sum && sum <= count.checked_mul(max)?;
    (is_moment(begin_s) && agrees).then_some(Interval {
        begin_s,
        count,
        sum,
        min,
        max,
        skipped: rest.get(4).copied().unwrap_or(0),
        tries,
    })
}

/// Whole numbers, of which the fifth and sixth are a moment of this century: `--log-prefix` names files as it likes.
fn is_transaction(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    if !(6..=8).contains(&words.len()) {
        return false;
    }
    let number = |at: usize| words[at].parse::<u64>().ok();
    let has_time =
        number(2).is_some() || matches!(words[2], "skipped" | "failed" | "serialization" | "deadlock");
    let is_moment = number(4).is_some_and(is_moment);
    let rest = (6..words.len()).chain([0, 1, 3]).all(|at| number(at).is_some());
    has_time && is_moment && rest && number(5).is_some_and(|us| us < 1_000_000)
}

/// Of 7 columns the last is the lag of `-R`, or the number of retries (`--max-tries`): retries are few.
fn has_lag(head: &Head) -> bool {
    let mut most = 0;
    for line in head.filled_lines().take(2_000) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.len() {
            8.. => return true,
            7 => most = most.max(words[6].parse::<u64>().unwrap_or(0)),
            _ => {}
        }
    }
    most > RETRIES_MAX
}

/// What `--aggregate-interval` logs.
fn read_intervals(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    sink.clock(Clock::unix(1_000_000_000));
    sink.unseen(
        "single transactions",
        "with --aggregate-interval pgbench logs how many an interval had, their mean, the fastest and the slowest",
    );
    let (mut skipped, mut failed) = (0_u64, 0_u64);
    each_line(source, sink, |line, sink| {
        if line.text.trim().is_empty() {
            return Ok(());
        }
        let Some(interval) = interval(line.text) else {
            let expected = "begin, transactions, sum, sum of squares, min, max[, ...]";
            return Err(Bad::new("", expected, line.text).into());
        };
        skipped = skipped.saturating_add(interval.skipped);
        failed = failed.saturating_add(interval.tries.failures());
        let mut values = interval.tries.values();
        if interval.count > 0 {
            let count = interval.count as f64;
            values.extend([
                ("operations", count),
                ("latency_ns", interval.sum as f64 * 1e3 / count),
                ("latency_min_ns", interval.min as f64 * 1e3),
                ("latency_max_ns", interval.max as f64 * 1e3),
            ]);
        }
        if values.is_empty() {
            sink.record_without_row();
            return Ok(());
        }
        // Each thread (-j) has a log of its own, of the same run: their moments count from 1970.
        tell_values("pgbench", interval.begin_s as i64 * 1_000_000_000, &values, sink)?;
        Ok(())
    })?;
    tell_skipped(skipped, sink);
    tell_failed(failed, sink);
    Ok(())
}

fn tell_failed(failed: u64, sink: &mut Sink) {
    if failed > 0 {
        sink.missing(
            format!("how long {} took", counted(failed, "failed transaction")),
            "pgbench logs no time for them",
        );
    }
}

fn tell_skipped(skipped: u64, sink: &mut Sink) {
    if skipped > 0 {
        sink.missing(
            format!(
                "how long {} would have taken",
                counted(skipped, "skipped transaction")
            ),
            "pgbench did not begin them: when their turn came, they were late by more than its limit (-L)",
        );
    }
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let head = Head::read(source.path())?;
    if !is_log(&head) && is_printed(&head) {
        return read_printed(source, sink);
    }
    if head
        .filled_lines()
        .take(20)
        .any(|line| interval(line).is_some() && !is_transaction(line))
    {
        return read_intervals(source, sink);
    }
    let has_lag = has_lag(&head);
    let (mut is_told, mut skipped, mut failed) = (false, 0_u64, 0_u64);
    each_line(source, sink, |line, sink| {
        if line.text.trim().is_empty() {
            return Ok(());
        }
        let words: Vec<&str> = line.text.split_whitespace().collect();
        if !(6..=8).contains(&words.len()) {
            let expected = "client, transaction, time, script, seconds, microseconds[, lag][, retries]";
            return Err(Bad::new("", expected, line.text).into());
        }
        if !is_told {
            sink.clock(Clock::unix(1000));
            let lag = has_lag.then_some((Stage::App, "app"));
            sink.layer(
                Layer::App,
                &[(Stage::Fs, "fs+queue+device+interrupt+reap+runqueue")],
            );
            sink.layer(Layer::App, lag.as_slice());
            sink.resolution(1000);
            is_told = true;
        }
        // Skipped, failed: no time.
        if words[2].bytes().all(|b| b.is_ascii_alphabetic()) {
            *(if words[2] == "skipped" {
                &mut skipped
            } else {
                &mut failed
            }) += 1;
            return Ok(());
        }
        let micros = |at: usize, column| integer::<u32>(words[at], column).map(|us| i64::from(us) * 1000);
        let latency_ns = micros(2, "time")?;
        let end_ns =
            integer::<u32>(words[4], "seconds").map(i64::from)? * 1_000_000_000 + micros(5, "microseconds")?;
        let lag_ns = if has_lag && words.len() > 6 {
            micros(6, "lag")?.min(latency_ns)
        } else {
            0
        };
        let mut row = OpRow::plain(end_ns - latency_ns, latency_ns, Op::Other);
        row.stages[Stage::App as usize] = has_lag.then_some(lag_ns);
        row.stages[Stage::Fs as usize] = Some(latency_ns - lag_ns);
        row.comm = Some(sink.name("pgbench"));
        row.tid = Some(integer(words[0], "client")?);
        sink.op(Layer::App, row)?;
        Ok(())
    })?;
    if skipped > 0 {
        sink.skipped(Layer::App, skipped);
        tell_skipped(skipped, sink);
    }
    if failed > 0 {
        sink.failed(Layer::App, failed);
    }
    tell_failed(failed, sink);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_intervals_are_known_by_numbers_that_agree() {
        let first = interval("1649114136 5815 27552565 177846919143 1078 21716").unwrap();
        assert_eq!((first.count, first.sum, first.max), (5815, 27_552_565, 21_716));
        assert!(
            interval("1649114136 5815 27552565 177846919143 1078 21716 2756 7264 696 60 0 0 0").is_some()
        );
        assert!(interval("1649114136 0 0 0 0 0").is_some());
        // A transaction; the fastest was slower than the mean; another century; too short.
        for other in [
            "0 199 2241 0 1175850568 995598",
            "1649114136 10 100 5000 11 21",
            "164911 5815 27552565 177846919143 1078 21716",
            "1649114136 5815 27552565 177846919143 1078",
        ] {
            assert!(interval(other).is_none(), "{other}");
        }
        assert!(is_transaction("0 199 2241 0 1175850568 995598"));
    }

    #[test]
    fn transactions_that_never_began_are_counted_apart_from_those_that_failed() {
        let log = "0 1 3418 0 1795764723 11170 95\n0 6 skipped 0 1795764723 29601 0\n\
            0 7 skipped 0 1795764723 29602 0\n1 1 failed 0 1795764723 29603 0\n";
        let summary = crate::testing::import(&FORMAT, log).unwrap();
        let app = &summary.layers["app"];
        assert_eq!((app.rows, app.skipped, app.failed), (1, Some(2), Some(1)));
        let missing: Vec<&str> = summary.missing.iter().map(|one| one.what.as_str()).collect();
        assert_eq!(
            missing,
            [
                "how long 2 skipped transactions would have taken",
                "how long 1 failed transaction took"
            ]
        );
    }

    #[test]
    fn what_an_interval_skipped_is_counted() {
        let log =
            "1795768619 1345 29170491 638668592047 3931 29924 26555301 528334059253 47 20000 11395 0 0 0 0\n\
            1795768620 0 0 0 0 0 0 0 0 0 5 0 0 0 0\n";
        let summary = crate::testing::import(&FORMAT, log).unwrap();
        assert_eq!(
            summary.missing[0].what,
            "how long 11400 skipped transactions would have taken"
        );
    }

    #[test]
    fn what_was_tried_again_is_told() {
        let log = "$ pgbench --aggregate-interval=10 --rate=1000 --failures-detailed --max-tries=10 test\n\
            1650260552 5178 26171317 177284491527 1136 44462 2647617 7321113867 0 9866 64 7564 28340 4148 2\n\
            1650260562 0 0 0 0 0 0 0 0 0 0 0 0 5 0\n1650260572 9 1350 202500 150 150 0 0 0 0 0 0 0 0 0\n";
        let of = |metric: &str| -> Vec<f64> {
            let found = crate::testing::samples(&FORMAT, log, metric);
            found.into_iter().map(|(_, _, value)| value).collect()
        };
        assert_eq!(of("failures"), [4150.0, 5.0]);
        assert_eq!(of("retries"), [28_340.0, 0.0]);
        assert_eq!(of("operations"), [5178.0, 9.0]);
        for (line, told) in [
            (
                "number of transactions above the 50.0 ms latency limit: 1311/10000 (13.110 %)",
                ("run_over_limit", 1311.0),
            ),
            (
                "number of serialization failures: 3493 (34.930%)",
                ("run_serialization_failures", 3493.0),
            ),
            (
                "number of transactions retried: 4902 (49.020%)",
                ("run_retried", 4902.0),
            ),
            ("total number of retries: 19", ("run_retries", 19.0)),
        ] {
            assert_eq!(result(line), Some(told), "{line}");
        }
    }

    #[test]
    fn progress_is_samples() {
        let of = |line: &str| progress(line).unwrap_or_default();
        let (at, values) =
            of("progress: 5.0 s, 2577.3 tps, lat 12.414 ms stddev 5.072, lag 0.123 ms, 3 skipped");
        assert_eq!(at, 5_000_000_000);
        let expected = [
            ("operations_per_s", 2577.3),
            ("latency_ns", 12.414e6),
            ("latency_stddev_ns", 5.072e6),
            ("lag_ns", 0.123e6),
        ];
        assert_eq!(values, expected);
        let (_, values) = of("progress: 6.0 s, 0.0 tps, lat -nan ms stddev -nan, 0 failed");
        assert_eq!(values, [("operations_per_s", 0.0)]);
        let (at, values) = of(
            "progress: 1795764723.5 s, 14.0 tps, lat 3.548 ms stddev 0.855, 0 failed, 2 retried, 4 retries",
        );
        assert_eq!((at, values.len()), (1_795_764_723_500_000_000, 3));
        let (_, values) = of("progress: 31.0 s,  441.2 tps, lat 18.9 ms stddev 24.7   <- node killed");
        assert_eq!(values.len(), 3);
        assert_eq!(values[0], ("operations_per_s", 441.2));
        for other in ["progress: 5 s", "progress: x s, 1.0 tps", "tps = 5.0", ""] {
            assert_eq!(progress(other), None, "{other}");
        }
        let log = "starting vacuum...end.\nprogress: 1.0 s, 7.0 tps, lat 435.396 ms stddev 120.347\n\
            progress: 2.0 s, 14.0 tps, lat 1038.548 ms stddev 334.855\ntransaction type: TPC-B (sort of)\ntps = 12.580114\n";
        let summary = crate::testing::import(&FORMAT, log).unwrap();
        assert_eq!(
            (summary.records, summary.rows, summary.end_ns),
            (3, 7, 2_000_000_000)
        );
    }

    #[test]
    fn where_no_transaction_ended_there_is_no_latency() {
        let of = |line: &str| progress(line).unwrap_or_default().1;
        assert_eq!(
            of("progress: 3.0 s, 0.0 tps, lat 0.000 ms stddev 0.000"),
            [("operations_per_s", 0.0)]
        );
        for line in [
            "progress: 3.0 s, 0.0 tps, lat 0.000 ms stddev 0.000, lag 0.000 ms, 3 skipped",
            "progress: 32.0 s,    0.0 tps, lat 0.000 ms stddev 0.000, 0 failed  <- leader election",
        ] {
            assert_eq!(of(line).len(), 1, "{line}");
        }
        // Slow ones: the rate is rounded.
        assert_eq!(
            of("progress: 30.0 s, 0.0 tps, lat 30000.000 ms stddev 0.000").len(),
            3
        );
    }

    #[test]
    fn a_result_above_the_progress_of_its_run_is_of_it() {
        let run = |rate: u32| {
            format!("transaction type: x\nnumber of transactions actually processed: 9\ntps = {rate}.5 (including reconnection times)\n\
                progress: 5.0 s, {rate}.9 tps, lat 1.812 ms stddev 1.782\nprogress: 10.0 s, {rate}.1 tps, lat 1.812 ms stddev 1.782\n")
        };
        let subjects = |log: &str, metric: &str| -> Vec<String> {
            let all = crate::testing::samples(&FORMAT, log, metric).into_iter();
            all.map(|(subject, ..)| subject).collect()
        };
        let rates = |log: &str| {
            (
                subjects(log, "operations_per_s"),
                subjects(log, "run_operations_per_s"),
            )
        };
        let of_one = (vec!["pgbench".to_owned(); 2], vec!["pgbench".to_owned()]);
        assert_eq!(rates(&run(1000)), of_one);
        let two = ["pgbench, run 1", "pgbench, run 2"].map(str::to_owned);
        let of_two = (
            vec![two[0].clone(), two[0].clone(), two[1].clone(), two[1].clone()],
            two.to_vec(),
        );
        assert_eq!(rates(&(run(1000) + &run(2000))), of_two);
        // The second run was cut off: its rate is another.
        let cut = run(1000).replace("progress: 5.0 s, 1000", "progress: 5.0 s, 3000");
        assert_eq!(rates(&cut).0, vec![two[1].clone(); 2]);
    }

    #[test]
    fn what_stands_at_the_end_of_a_run_is_read() {
        let run = "transaction type: <builtin: TPC-B (sort of)>\nnumber of clients: 12\nduration: 60 s\n\
            number of transactions actually processed: 32484\nnumber of failed transactions: 2 (0.006%)\n\
            number of transactions above the 50.0 ms latency limit: 19/21 (90.48%)\n\
            latency average = 22.203 ms\nlatency stddev = 5.001 ms\n\
            tps = 540.479109 (including connections establishing)\ntps = 540.578481 (excluding connections establishing)\n";
        let mut runs = Runs::default();
        run.lines().for_each(|line| runs.line(line));
        assert_eq!(
            runs.runs[0].result,
            [
                ("run_operations", 32_484.0),
                ("failures", 2.0),
                ("run_over_limit", 19.0),
                ("run_latency_ns", 22.203e6),
                ("run_latency_stddev_ns", 5.001e6),
                ("run_operations_per_s_with_connecting", 540.479109),
                ("run_operations_per_s", 540.578481),
            ]
        );
        let summary = crate::testing::import(&FORMAT, &run.repeat(2)).unwrap();
        assert_eq!((summary.records, summary.rows), (2, 14));
        assert_eq!(
            summary.missing[0].what,
            "how long 2 failed transactions of pgbench, run 1 took"
        );
        let progress = format!("progress: 30.0 s, 4788.7 tps, lat 4.166 ms stddev 10.188, 0 failed\n{run}");
        let summary = crate::testing::import(&FORMAT, &progress).unwrap();
        assert_eq!((summary.rows, summary.end_ns), (10, 30_000_000_000));
        assert_eq!(
            result("number of transactions actually processed: 5000/5000"),
            Some(("run_operations", 5000.0))
        );
        assert_eq!(result("latency average: 2.5 ms"), Some(("run_latency_ns", 2.5e6)));
    }

    /// Moments of the progress of each run, in seconds.
    fn runs_of(log: &str) -> Vec<Vec<i64>> {
        let mut runs = Runs::default();
        log.lines().for_each(|line| runs.line(line.trim()));
        let moments = |run: &Run| run.progress.iter().map(|(ns, _)| ns / 1_000_000_000).collect();
        runs.runs.iter().map(moments).collect()
    }

    #[test]
    fn runs_of_one_file_are_told_apart() {
        let at = |seconds: &[&str]| -> String {
            let line = |s: &&str| format!("progress: {s} s, 9.0 tps, lat 1.000 ms stddev 0.100, 0 failed\n");
            seconds.iter().map(line).collect()
        };
        let end = "transaction type: x\nnumber of transactions actually processed: 2000\ntps = 1000.0 (without initial connection time)\n";
        // The moment goes back; or another run's end is before it.
        let back = at(&["1.0", "2.0", "1.0", "2.0", "3.0"]);
        assert_eq!(runs_of(&back), [vec![1, 2], vec![1, 2, 3]]);
        let ended = at(&["1.0"]) + end + &at(&["1.0", "2.0"]) + end;
        assert_eq!(runs_of(&ended), [vec![1], vec![1, 2]]);
        assert_eq!(runs_of(&(end.to_owned() + &at(&["10.0"]))), [vec![], vec![10]]);
        // Two that print at the same time are not told apart, line by line.
        assert_eq!(
            runs_of(&at(&["5.0", "5.1", "10.1", "10.0", "15.0", "15.1"])).len(),
            1
        );
        let summary = crate::testing::import(&FORMAT, &ended).unwrap();
        // Three intervals of three values each, and twice two of a run.
        assert_eq!((summary.records, summary.rows), (5, 13));
    }

    #[test]
    fn an_indented_output_is_one() {
        let log = "   pgbench (15.3)\n   starting vacuum...end.\n   progress: 9.0 s, 4.0 tps, lat 1246.290 ms stddev 3.253, 0 failed\n";
        assert_eq!(crate::testing::import(&FORMAT, log).unwrap().rows, 3);
    }

    #[test]
    fn what_pgbench_prints_is_known_by_its_version() {
        let log = "pgbench (15.8 (Homebrew))\npgbench: client 0 executing script \"insert.sql\"\npgbench: client 0 receiving\n\
            transaction type: multiple scripts\nnumber of transactions actually processed: 1714\nlatency average = 262.401 ms\n\
            initial connection time = 15415.723 ms\ntps = 38.109657 (without initial connection time)\n\
            SQL script 1: select.sql\n - weight: 1 (targets 9.1% of total)\n - 172 transactions (10.0% of total, tps = 3.824306)\n\
            \x20- number of failed transactions: 0 (0.000%)\n - latency average = 438.525 ms\n - latency stddev = 62.192 ms\n\
            SQL script 2: update.sql\n - 0 transactions (0.0% of total, tps = 0.000000)\n";
        let summary = crate::testing::import(&FORMAT, log).unwrap();
        // Of the run 4, of its scripts 4 and 2.
        assert_eq!((summary.records, summary.rows), (3, 10));
        let missing = &summary.missing[0];
        assert_eq!(
            missing.what,
            "what pgbench did in the 15.416 s that connecting took"
        );
        assert!(missing.because.contains("28.4 per second"), "{}", missing.because);
        // Fifteen milliseconds of a minute are not worth a word.
        let short = log.replace("15415.723", "15.415");
        assert!(crate::testing::import(&FORMAT, &short)
            .unwrap()
            .missing
            .is_empty());
        let old = "tps = 50.0 (including connections establishing)\ntps = 100.0 (excluding connections establishing)\n";
        let old = crate::testing::import(&FORMAT, &format!("transaction type: x\n{old}")).unwrap();
        assert!(
            old.missing[0].because.contains("50.0 per second"),
            "{:?}",
            old.missing
        );
        assert!(is_banner("pgbench (18beta3, server 13.22)") && !is_banner("pgbench (see below)"));
    }

    #[test]
    fn two_outputs_are_not_pooled() {
        let folder = tempfile::tempdir().unwrap();
        let case = folder.path().join("case");
        std::fs::create_dir(&case).unwrap();
        let log = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(
                &path,
                "transaction type: x\nnumber of failed transactions: 2 (1%)\ntps = 5.0 (x)\n",
            )
            .unwrap();
            path
        };
        let request = crate::Request {
            files: vec![log("pg13.log"), log("pg18.log")],
            ..Default::default()
        };
        let mut writer = case::sealed::SealWriter::create(&case).unwrap();
        let mut names = case::sealed::Names::default();
        let summary = crate::import(&request, &mut writer, &mut names, &mut |_| {}).unwrap();
        let said: Vec<&str> = summary.missing.iter().map(|one| one.what.as_str()).collect();
        assert_eq!(
            said,
            [
                "how long 2 failed transactions of pgbench (pg13.log) took",
                "how long 2 failed transactions of pgbench (pg18.log) took"
            ]
        );
    }

    #[test]
    fn intervals_become_samples() {
        let log = "1649114136 2 300 50000 100 200\n1649114146 0 0 0 0 0\n1649114156 1 90 8100 90 90\n";
        let summary = crate::testing::import(&FORMAT, log).unwrap();
        assert_eq!(
            (summary.records, summary.rows, summary.end_ns),
            (3, 8, 20_000_000_000)
        );
    }
}

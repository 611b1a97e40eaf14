//! Transaction logs of pgbench (`-l`): `pgbench_log.PID[.THREAD]`.
//!
//! `client transaction time script epoch_s epoch_us [lag] [retries]`: times in microseconds; the moment is that of the end. With `-R` the time counts from
//! when the transaction was meant to begin, and the lag is the part of it before it did. Source: pgbench.c, doLog.
use crate::clock::Clock;
use crate::error::Bad;
use crate::format::{alone, Format, Head, Source};
use crate::records::each_line;
use crate::sink::Sink;
use crate::text::integer;
use crate::ImportError;
use case::schema::{Layer, Op, OpRow, Stage};

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "pgbench",
    about: "transaction logs of pgbench (-l): every transaction",
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

fn recognise(head: &Head) -> bool {
    let lines: Vec<&str> = head.filled_lines().take(20).collect();
    // A damaged line among them does not make it another format.
    2 * lines.iter().filter(|line| is_transaction(line)).count() > lines.len()
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
    let is_moment = number(4).is_some_and(|s| (946_684_800..4_102_444_800).contains(&s));
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

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let has_lag = has_lag(&Head::read(source.path())?);
    let (mut is_told, mut left_out) = (false, 0_u64);
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
            left_out += 1;
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
    if left_out > 0 {
        sink.unseen(
            format!("{left_out} transactions that were skipped or failed"),
            "pgbench logs no time for them",
        );
    }
    Ok(())
}

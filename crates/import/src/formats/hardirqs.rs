//! Text of hardirqs and softirqs (bcc, libbpf-tools): per interval and handler the time in it, or how often it ran.
//!
//! `HARDIRQ TOTAL_usecs`, newer ones `HARDIRQ TOTAL_count TOTAL_usecs MAX_usecs`; with `-d` a histogram per handler.
use super::bcc_intervals::{each_trimmed_line, Intervals};
use super::bins::{bcc_bin, bcc_unit, values, Bins};
use super::calendar::time_of_day_ns;
use crate::error::{Bad, RecordError};
use crate::format::{alone, Format, Head, Source};
use crate::sink::Sink;
use crate::text::{last_word, number};
use crate::ImportError;
use case::schema::SubjectKind;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "hardirqs",
    about: "text of hardirqs and softirqs (bcc, libbpf-tools): time in interrupt handlers per interval, as samples",
    not_carried: &[
        (
            "single runs of handlers",
            "sums over an interval: a long run among short ones cannot be seen (without -d)",
        ),
        (
            "the CPU on which a handler ran",
            "the sums are over all CPUs; snapshots of /proc/interrupts tell where",
        ),
    ],
    recognise,
    together: alone,
    read,
};

fn is_label(line: &str) -> bool {
    line.starts_with("hardirq = ") || line.starts_with("softirq = ")
}

fn is_header(line: &str) -> bool {
    let mut words = line.split_whitespace();
    matches!(words.next(), Some("HARDIRQ" | "SOFTIRQ")) && words.next().is_some()
}

fn recognise(head: &Head) -> bool {
    head.has_line(|line| is_label(line) || is_header(line))
}

/// `TOTAL_usecs` and its kin: the metric, and what one is in it.
fn metric(column: &str) -> Option<(&'static str, f64)> {
    Some(match column {
        "TOTAL_usecs" => ("handler_time_ns", 1e3),
        "TOTAL_nsecs" => ("handler_time_ns", 1.0),
        "TOTAL_count" => ("handler_runs", 1.0),
        "MAX_usecs" => ("handler_time_max_ns", 1e3),
        "MAX_nsecs" => ("handler_time_max_ns", 1.0),
        _ => return None,
    })
}

#[derive(Default)]
struct Reader {
    columns: Vec<String>,
    label: String,
    unit_ns: u64,
    bins: Bins,
    intervals: Intervals,
}

impl Reader {
    fn line(&mut self, text: &str, sink: &mut Sink) -> Result<(), RecordError> {
        if is_header(text) {
            self.columns = text.split_whitespace().skip(1).map(str::to_owned).collect();
            self.intervals.next();
        } else if is_label(text) {
            self.flush(sink)?;
            self.label = text.split_once(" = ").map_or("", |(_, label)| label).to_owned();
            self.intervals.next_if_seen(&self.label);
        } else if let Some(unit_ns) = bcc_unit(text) {
            self.flush(sink)?;
            self.unit_ns = unit_ns;
        } else if let Some(time_ns) = time_of_day_ns(text, "") {
            self.flush(sink)?;
            self.intervals.at(time_ns);
        } else if self.unit_ns > 0 && text.contains("->") {
            let bin =
                bcc_bin(text, self.unit_ns).ok_or_else(|| Bad::new("", "LOW -> HIGH : COUNT |...|", text))?;
            self.bins.push(bin);
        } else if !self.columns.is_empty() && !text.is_empty() && !text.starts_with("Tracing ") {
            return self.row(text, sink);
        }
        Ok(())
    }

    fn row(&mut self, text: &str, sink: &mut Sink) -> Result<(), RecordError> {
        // Names of handlers may hold spaces: numbers are read from the right.
        let (mut rest, mut values) = (text, Vec::new());
        for column in self.columns.iter().rev() {
            let word = last_word(&mut rest);
            if let Some((name, factor)) = metric(column) {
                values.push((sink.name(name), number(word, "of a handler")? * factor));
            }
        }
        let handler = rest.trim();
        if handler.is_empty() {
            return Err(Bad::new("", "a handler's name and its numbers", text).into());
        }
        self.intervals.saw(handler.to_owned());
        let subject = sink.name(handler);
        sink.sample(
            self.intervals.time_ns,
            None,
            SubjectKind::Component,
            subject,
            &values,
        )?;
        Ok(())
    }

    fn flush(&mut self, sink: &mut Sink) -> Result<(), ImportError> {
        let bins = std::mem::take(&mut self.bins);
        if bins.is_empty() {
            return Ok(());
        }
        self.intervals.saw(self.label.clone());
        let (values, subject) = (values("handler", &bins, sink), sink.name(&self.label));
        sink.sample(
            self.intervals.time_ns,
            None,
            SubjectKind::Component,
            subject,
            &values,
        )
    }
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let mut reader = Reader::default();
    each_trimmed_line(
        source,
        sink,
        "the first interval",
        "moments are printed with -T only; they are put one second apart",
        |text, sink| reader.line(text, sink),
    )?;
    reader.flush(sink)
}

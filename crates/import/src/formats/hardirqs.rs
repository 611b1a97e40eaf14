//! Text of hardirqs and softirqs (bcc, libbpf-tools): per interval and handler the time in it, or how often it ran.
//!
//! `HARDIRQ TOTAL_usecs`, newer ones `HARDIRQ TOTAL_count TOTAL_usecs MAX_usecs`; with `-d` a histogram per handler.
use super::bcc_intervals::{each_trimmed_line, Intervals};
use super::bins::{bcc_bin, bcc_unit, wide_values, Bins};
use super::calendar::time_of_day_ns;
use crate::error::{Bad, RecordError};
use crate::format::{alone, Format, Head, Source};
use crate::sink::Sink;
use crate::text::{last_word, name_of_bytes, number};
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

/// The name of a handler, which may hold spaces, and its numbers: they stand at the end of a row, or before a note that somebody wrote behind them.
fn split_row(text: &str, count: usize) -> Option<(&str, Vec<&str>)> {
    let ends = |text: &'_ str| -> Option<usize> {
        let mut rest = text;
        let all_numbers = (0..count).all(|_| last_word(&mut rest).parse::<f64>().is_ok());
        (all_numbers && !rest.trim().is_empty()).then_some(rest.len())
    };
    let mut end = text.len();
    loop {
        if let Some(at) = ends(&text[..end]) {
            return Some((text[..at].trim(), text[at..end].split_whitespace().collect()));
        }
        end = text[..end].trim_end().rfind(char::is_whitespace)?;
    }
}

#[derive(Default)]
struct Reader {
    columns: Vec<String>,
    /// Rows of the table at hand.
    rows: u64,
    label: String,
    unit_ns: u64,
    bins: Bins,
    intervals: Intervals,
}

impl Reader {
    fn line(&mut self, text: &str, sink: &mut Sink) -> Result<(), RecordError> {
        if is_header(text) {
            self.columns = text.split_whitespace().skip(1).map(str::to_owned).collect();
            self.rows = 0;
            self.intervals.next();
        } else if is_label(text) {
            self.flush(sink)?;
            // Python prints `'eth0'`, too.
            let label = text.split_once(" = ").map_or("", |(_, label)| label);
            self.label = name_of_bytes(label).trim_matches('\'').to_owned();
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
        } else if text.is_empty() && self.rows > 0 {
            // A table ends with an empty line: what is between it and the next header is somebody's text.
            self.columns.clear();
        } else if !self.columns.is_empty() && !text.is_empty() && !text.starts_with("Tracing ") {
            return self.row(text, sink);
        }
        Ok(())
    }

    fn row(&mut self, text: &str, sink: &mut Sink) -> Result<(), RecordError> {
        let Some((handler, numbers)) = split_row(text, self.columns.len()) else {
            let columns = self.columns.join(", ");
            return Err(Bad::new("", format!("a handler's name, and numbers: {columns}"), text).into());
        };
        let mut values = Vec::new();
        for (column, word) in self.columns.iter().zip(numbers) {
            if let Some((name, factor)) = metric(column) {
                values.push((sink.name(name), number(word, "of a handler")? * factor));
            }
        }
        self.rows += 1;
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
        sink.unseen(
            "times of runs to better than a factor of two",
            "the bins of -d are powers of two; a sample is the middle of its bin",
        );
        let (values, subject) = (wide_values("handler", &bins, sink), sink.name(&self.label));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_wrote_into_a_table_ends_no_import() {
        assert_eq!(
            split_row("virtio1 req.0   12  34", 2),
            Some(("virtio1 req.0", vec!["12", "34"]))
        );
        assert_eq!(
            split_row("IPI-2   1421603   << less than before.", 1),
            Some(("IPI-2", vec!["1421603"]))
        );
        assert_eq!(
            (split_row("IPI-2", 1), split_row("12", 1), split_row("a b", 1)),
            (None, None, None)
        );
        let log = "A\nHARDIRQ                    TOTAL_usecs\nenv2   816\nIPI-2   1421603   << less.\n\nB\n\nHARDIRQ    TOTAL_usecs\nenv2   266\n";
        let summary = crate::testing::import(&FORMAT, log).unwrap();
        assert_eq!((summary.records, summary.end_ns), (3, 1_000_000_000));
        let error = crate::testing::import(&FORMAT, "HARDIRQ TOTAL_usecs\nenv2 816\nso much\n")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("line 3") && error.contains("TOTAL_usecs"),
            "{error}"
        );
    }

    #[test]
    fn distributions_name_their_handler_and_how_wide_bins_are() {
        let log = "hardirq = b'eth0'\n     usecs     : count     distribution\n 16 -> 31     : 7    |****|\n";
        let summary = crate::testing::import(&FORMAT, log).unwrap();
        assert_eq!(summary.rows, 5);
        assert!(summary
            .not_observed
            .iter()
            .any(|one| one.what.contains("factor of two")));
    }
}

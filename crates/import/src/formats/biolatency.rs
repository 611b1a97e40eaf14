//! Text of biolatency (bcc, libbpf-tools, bpftrace): a histogram of block latencies per interval, with `-D` per disk, with `-F` per set of flags.
//!
//! With `-T` a time of day stands above each interval; without, intervals are put one second apart.
use super::bcc_intervals::{each_trimmed_line, Intervals};
use super::bins::{bcc_bin, bcc_unit, bpftrace_bin, bpftrace_map, values, Bins};
use super::calendar::time_of_day_ns;
use crate::error::{Bad, RecordError};
use crate::format::{alone, Format, Head, Source};
use crate::sink::Sink;
use crate::ImportError;
use case::schema::SubjectKind;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "biolatency",
    about:
        "text of biolatency (bcc, libbpf-tools, bpftrace): the distribution of block latencies per interval, as samples",
    not_carried: &[
        (
            "single operations",
            "a histogram tells how many were how slow in an interval, not when and where",
        ),
        (
            "latencies to better than a factor of two",
            "the bins are powers of two; a sample is the middle of its bin",
        ),
        (
            "the date and the time zone",
            "biolatency prints a time of day only (with -T), or none",
        ),
    ],
    recognise,
    together: alone,
    read,
};

fn recognise(head: &Head) -> bool {
    let has_bins = head.has_line(|line| bcc_unit(line).is_some() || bpftrace_map(line).is_some());
    let of_irqs = head.has_line(|line| line.starts_with("hardirq = ") || line.starts_with("softirq = "));
    let of_disks = head.has_line(|line| {
        line.contains("Tracing block device I/O")
            || line.starts_with("disk = ")
            || line.starts_with("Bucket disk = ")
    });
    has_bins && of_disks && !of_irqs
}

#[derive(Default)]
struct Histogram {
    label: String,
    unit_ns: u64,
    bins: Bins,
}

#[derive(Default)]
struct Reader {
    at: Histogram,
    intervals: Intervals,
}

impl Reader {
    fn line(&mut self, text: &str, sink: &mut Sink) -> Result<(), RecordError> {
        if let Some(unit_ns) = bcc_unit(text) {
            self.flush(sink)?;
            self.at.unit_ns = unit_ns;
        } else if let Some((unit_ns, key)) = bpftrace_map(text) {
            self.flush(sink)?;
            (self.at.unit_ns, self.at.label) = (unit_ns, key.to_owned());
        } else if text.starts_with(['[', '(']) && self.at.unit_ns > 0 {
            let bin = bpftrace_bin(text, self.at.unit_ns)
                .ok_or_else(|| Bad::new("", "[LOW, HIGH) COUNT |...|", text))?;
            self.at.bins.push(bin);
        } else if text.contains("->") && self.at.unit_ns > 0 {
            let bin = bcc_bin(text, self.at.unit_ns)
                .ok_or_else(|| Bad::new("", "LOW -> HIGH : COUNT |...|", text))?;
            self.at.bins.push(bin);
        } else if let Some(time_ns) = time_of_day_ns(text, "") {
            self.flush(sink)?;
            self.intervals.at(time_ns);
        } else if let Some((what, label)) = text.split_once(" = ").filter(|_| !text.starts_with("avg")) {
            self.flush(sink)?;
            // Under Python 3 bcc prints `b'sda'`.
            let label = label.strip_prefix("b'").unwrap_or(label).trim_matches('\'');
            self.at.label = if what.ends_with("flags") {
                format!("flags {label}")
            } else {
                label.to_owned()
            };
        }
        Ok(())
    }

    /// The histogram at hand is whole.
    fn flush(&mut self, sink: &mut Sink) -> Result<(), ImportError> {
        if self.at.bins.is_empty() {
            return Ok(());
        }
        let histogram = std::mem::take(&mut self.at);
        self.intervals.next_if_seen(&histogram.label);
        let (kind, label) = match histogram.label.as_str() {
            "" => (SubjectKind::Component, "all disks"),
            label if label.starts_with("flags ") => (SubjectKind::Component, label),
            label => (SubjectKind::Device, label),
        };
        let (values, subject) = (values("", &histogram.bins, sink), sink.name(label));
        self.intervals.saw(histogram.label);
        sink.sample(self.intervals.time_ns, None, kind, subject, &values)
    }
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let mut reader = Reader::default();
    each_trimmed_line(
        source,
        sink,
        "biolatency's first interval",
        "biolatency prints moments with -T only; they are put one second apart",
        |text, sink| reader.line(text, sink),
    )?;
    reader.flush(sink)
}

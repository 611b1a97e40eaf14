//! Results of diskspd (`-Rxml`), whole or as XmlResultParser.cpp writes them: per time span the rates and the percentiles, and the series over intervals.
use super::xml::{parse, Element};
use crate::clock::Clock;
use crate::format::{alone, Format, Head, Source};
use crate::records::document;
use crate::sink::Sink;
use crate::ImportError;
use case::schema::{NameId, SubjectKind};

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "diskspd",
    about: "XML results of diskspd (-Rxml): rates, percentiles and the series over intervals, as samples",
    not_carried: &[
        (
            "single operations",
            "diskspd tells a distribution and means per interval, not when and where the slow ones were",
        ),
        (
            "when the run began",
            "its results hold no moment; time spans are put one after the other",
        ),
    ],
    recognise,
    together: alone,
    read,
};

fn recognise(head: &Head) -> bool {
    let text = String::from_utf8_lossy(&head.bytes);
    text.contains("<Results>") && (text.contains("<Tool>DISKSPD") || text.contains("<TimeSpan>"))
}

/// Percentiles that are kept, and their names in metrics.
const PERCENTILES: [(f64, &str); 5] = [
    (50.0, "p50"),
    (99.0, "p99"),
    (99.9, "p99.9"),
    (99.99, "p99.99"),
    (100.0, "max"),
];

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let path = source.path();
    let text = document(path, sink)?;
    let Some((root, is_whole)) = parse(&text).filter(|(root, _)| root.name == "Results") else {
        let hint = "check that the file is diskspd's output with -Rxml";
        return Err(ImportError::content(
            path,
            "byte 0",
            "an element <Results>",
            "none",
            hint,
        ));
    };
    if !is_whole {
        sink.unseen(
            format!("what follows the end of {}", path.display()),
            "the file is cut off: elements are open at its end",
        );
    }
    sink.clock(Clock::own("diskspd's first time span", 1_000_000));
    let mut begin_ns = 0_i64;
    for span in root.all("TimeSpan") {
        let seconds = span.number("TestTimeSeconds").unwrap_or(0.0).clamp(0.0, 1e9);
        series(span, begin_ns, sink)?;
        begin_ns = begin_ns.saturating_add((seconds * 1e9) as i64);
        summary(span, begin_ns, seconds, sink)?;
    }
    Ok(())
}

fn series(span: &Element, begin_ns: i64, sink: &mut Sink) -> Result<(), ImportError> {
    let buckets = span.first("Iops").into_iter().flat_map(|iops| iops.all("Bucket"));
    for bucket in buckets {
        let Some(ms) = bucket
            .attribute("SampleMillisecond")
            .filter(|ms| (0.0..1e12).contains(ms))
        else {
            continue;
        };
        let mut values: Vec<(NameId, f64)> = Vec::new();
        for (attribute, metric, factor) in [
            ("Read", "read_operations_per_s", 1.0),
            ("Write", "write_operations_per_s", 1.0),
            ("Total", "operations_per_s", 1.0),
            ("ReadAvgLatencyMilliseconds", "read_latency_ns", 1e6),
            ("WriteAvgLatencyMilliseconds", "write_latency_ns", 1e6),
            ("ReadMaxLatencyMilliseconds", "read_latency_max_ns", 1e6),
            ("WriteMaxLatencyMilliseconds", "write_latency_max_ns", 1e6),
        ] {
            // A mean of no operation is printed as 0.
            if let Some(value) = bucket
                .attribute(attribute)
                .filter(|value| *value > 0.0 || factor == 1.0)
            {
                values.push((sink.name(metric), value * factor));
            }
        }
        let subject = sink.name("diskspd");
        let time_ns = begin_ns.saturating_add((ms * 1e6) as i64);
        sink.sample(time_ns, None, SubjectKind::Process, subject, &values)?;
    }
    Ok(())
}

fn summary(span: &Element, end_ns: i64, seconds: f64, sink: &mut Sink) -> Result<(), ImportError> {
    let mut values: Vec<(NameId, f64)> = Vec::new();
    let (mut counts, mut bytes) = ([0.0; 2], [0.0; 2]);
    for target in span.all("Thread").flat_map(|thread| thread.all("Target")) {
        for (at, kind) in ["Read", "Write"].iter().enumerate() {
            counts[at] += target.number(&format!("{kind}Count")).unwrap_or(0.0);
            bytes[at] += target.number(&format!("{kind}Bytes")).unwrap_or(0.0);
        }
    }
    let latency = span.first("Latency");
    for (at, (kind, op)) in [("Read", "read"), ("Write", "write")].iter().enumerate() {
        values.push((sink.name(&format!("{op}_operations")), counts[at]));
        if seconds > 0.0 {
            values.push((sink.name(&format!("{op}_operations_per_s")), counts[at] / seconds));
            values.push((
                sink.name(&format!("{op}_throughput_bytes_per_s")),
                bytes[at] / seconds,
            ));
        }
        let Some(latency) = latency.filter(|_| counts[at] > 0.0) else {
            continue;
        };
        if let Some(ms) = latency.number(&format!("Average{kind}Milliseconds")) {
            values.push((sink.name(&format!("{op}_latency_ns")), ms * 1e6));
        }
        for bucket in latency.all("Bucket") {
            let share = bucket.number("Percentile").unwrap_or(-1.0);
            let name = PERCENTILES.iter().find(|(known, _)| (known - share).abs() < 1e-9);
            if let (Some((_, name)), Some(ms)) = (name, bucket.number(&format!("{kind}Milliseconds"))) {
                values.push((sink.name(&format!("{op}_latency_{name}_ns")), ms * 1e6));
            }
        }
    }
    let subject = sink.name("diskspd run");
    sink.sample(end_ns, None, SubjectKind::Process, subject, &values)
}

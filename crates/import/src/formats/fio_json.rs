//! fio's summary (`--output-format=json`, `json+`): per job and kind the distribution, as samples at the end of the run.
use crate::clock::Clock;
use crate::error::Bad;
use crate::format::{alone, Format, Head, Source};
use crate::records::json;
use crate::sink::Sink;
use crate::ImportError;
use case::schema::SubjectKind;
use serde_json::Value;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "fio-json",
    about: "fio's summary (--output-format=json or json+): the distribution per job, as samples",
    not_carried: &[
        (
            "single operations",
            "a summary tells how many were how slow, not when and where; write_lat_log logs operations",
        ),
        (
            "drift and bursts within the run",
            "a summary is one distribution over all of it",
        ),
    ],
    recognise,
    together: alone,
    read,
};

fn recognise(head: &Head) -> bool {
    head.is_json_with("fio version")
        || String::from_utf8_lossy(&head.bytes).contains("\"fio version\" :")
        || without_json(head).is_some()
}

/// What fio prints for people, or for scripts as numbers alone.
fn without_json(head: &Head) -> Option<&'static str> {
    let is_terse = |line: &str| {
        let mut fields = line.split(';');
        fields
            .next()
            .is_some_and(|version| matches!(version, "3" | "4" | "5"))
            && fields.next().is_some_and(|version| version.starts_with("fio-"))
    };
    let is_text = |line: &str| line.contains(": (g=") && line.contains(" rw=") && line.contains("ioengine=");
    let is_json = String::from_utf8_lossy(&head.bytes).contains("\"fio version\"");
    match () {
        () if is_json => None,
        () if head.has_line(is_terse) => Some("its terse output"),
        () => head.has_line(is_text).then_some("its text"),
    }
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let path = source.path();
    let documents = match (json(path, sink), without_json(&Head::read(path)?)) {
        (Ok(documents), _) => documents,
        (Err(_), Some(found)) => {
            let hint = "run fio with --output-format=json+, or with --write_lat_log=NAME --log_offset=1 for every operation";
            return Err(ImportError::content(path, "begin", "fio's JSON", found, hint));
        }
        (Err(error), None) => return Err(error),
    };
    let mut jobs = Vec::new();
    for (number, document) in documents.all.iter().enumerate() {
        // fio's server sends what `--client` prints as client_stats.
        let lists = ["jobs", "client_stats"].map(|list| document[list].as_array());
        if lists == [None, None] {
            documents.lacks(
                number,
                Bad::none("jobs", "the list that summaries of fio have"),
                sink,
            )?;
            continue;
        }
        let end_ns = end_ns(document);
        jobs.extend(lists.into_iter().flatten().flatten().map(|job| (end_ns, job)));
    }
    // Before 2.2 fio did not say when it was.
    let is_timed = documents.all.iter().any(|document| moment_ms(document).is_some());
    sink.clock(if is_timed {
        Clock::unix(1_000_000)
    } else {
        Clock::own("the end of fio's run", 1_000_000)
    });
    for (at, (end_ns, job)) in jobs.iter().enumerate() {
        let name = job_name(job);
        // With --status-interval the last summary of a job holds the others.
        let is_last = !jobs[at + 1..].iter().any(|(_, later)| job_name(later) == name);
        for (kind, op) in [
            ("read", "read"),
            ("write", "write"),
            ("trim", "discard"),
            ("sync", "sync"),
            // Of `unified_rw_reporting=mixed`; with `both` it is what the others are in sum.
            ("mixed", "mixed"),
        ] {
            if kind == "mixed" && !job["read"].is_null() {
                continue;
            }
            one(name, op, &job[kind], (*end_ns, is_last), sink)?;
        }
    }
    Ok(())
}

fn job_name(job: &Value) -> &str {
    job["jobname"].as_str().unwrap_or("fio")
}

fn moment_ms(document: &Value) -> Option<i64> {
    let seconds = document["timestamp"].as_i64();
    document["timestamp_ms"]
        .as_i64()
        .or_else(|| seconds?.checked_mul(1000))
}

fn end_ns(document: &Value) -> i64 {
    moment_ms(document)
        .and_then(|ms| ms.checked_mul(1_000_000))
        .unwrap_or(0)
        .clamp(0, i64::MAX / 4)
}

/// The most complete latency of a kind: `lat_ns` has no percentiles by default, `clat_ns` has.
fn one(
    job: &str,
    op: &str,
    of: &Value,
    (end_ns, is_last): (i64, bool),
    sink: &mut Sink,
) -> Result<(), ImportError> {
    let latencies = ["clat_ns", "lat_ns", "clat"].map(|name| (name, &of[name]));
    let has_percentiles = |latency: &&(&str, &Value)| latency.1["percentile"].is_object();
    let Some((name, latency)) = latencies
        .iter()
        .find(has_percentiles)
        .or_else(|| latencies.iter().find(|l| l.1.is_object()))
    else {
        return Ok(());
    };
    let total = of["total_ios"]
        .as_u64()
        .or_else(|| latency["N"].as_u64())
        .or_else(|| Some((of["iops"].as_f64()? * of["runtime"].as_f64()? / 1e3).round() as u64))
        .unwrap_or(0);
    if total == 0 {
        return Ok(());
    }
    // With gtod_reduce fio takes no times, and prints noughts.
    let is_timed = latency["max"].as_f64() != Some(0.0) || latency["percentile"].is_object();
    // fio 2 counted microseconds.
    let unit = if name.ends_with("_ns") { 1.0 } else { 1000.0 };
    let kind = match op {
        "mixed" => "operations".into(),
        op => format!("{op}s"),
    };
    let mut values = vec![(sink.name(&format!("{op}_operations")), total as f64)];
    for (key, metric, factor) in [
        ("iops", "operations_per_s", 1.0),
        ("bw", "throughput_bytes_per_s", 1024.0),
    ] {
        if let Some(value) = of[key].as_f64() {
            values.push((sink.name(&format!("{op}_{metric}")), value * factor));
        }
    }
    let mut told = Vec::new();
    for (key, short) in [
        ("50.000000", "p50"),
        ("99.000000", "p99"),
        ("99.900000", "p99.9"),
        ("99.990000", "p99.99"),
    ] {
        if let Some(value) = latency["percentile"][key].as_f64() {
            values.push((sink.name(&format!("{op}_latency_{short}_ns")), value * unit));
            told.push(format!("{short} {:.1} us", value * unit / 1e3));
        }
    }
    if let Some(value) = latency["max"].as_f64().filter(|_| is_timed) {
        values.push((sink.name(&format!("{op}_latency_max_ns")), value * unit));
        told.push(format!("slowest {:.1} us", value * unit / 1e3));
    }
    if !is_timed {
        sink.unseen(
            format!("latencies of {total} {kind} of {job}"),
            "fio took no times of them (gtod_reduce, disable_clat)",
        );
        let subject = sink.name(job);
        return sink.sample(end_ns, None, SubjectKind::Process, subject, &values);
    }
    let what = format!(
        "when the slow ones were of {total} {kind} of {job} ({}: {})",
        name.trim_end_matches("_ns"),
        told.join(", ")
    );
    if is_last {
        sink.unseen(what, "the summary holds a distribution, and no moments");
    }
    let subject = sink.name(job);
    sink.sample(end_ns, None, SubjectKind::Process, subject, &values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::import;

    #[test]
    fn what_fio_prints_otherwise_is_known() {
        let text = "j: (g=0): rw=randrw, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=psync, iodepth=1\nfio-3.33\n";
        for (log, what) in [
            (text, "its text"),
            ("5;fio-3.33;j;0;0;1152\n", "its terse output"),
        ] {
            let error = import(&FORMAT, log).unwrap_err().to_string();
            assert!(
                error.contains(what) && error.contains("--output-format=json+"),
                "{error}"
            );
        }
        let both = format!(r#"{text}{{"fio version" : "fio-3.33", "jobs" : []}}"#);
        assert!(import(&FORMAT, &both).is_ok());
    }

    #[test]
    fn kinds_that_fio_put_together_are_read_once() {
        let of = r#"{"total_ios": 800, "iops": 200.0, "bw": 800, "clat_ns": {"max": 3000, "percentile": {"50.000000": 2000}}}"#;
        let rows = |kinds: &[&str]| {
            let kinds: String = kinds.iter().map(|kind| format!(", \"{kind}\": {of}")).collect();
            let text = format!(
                r#"{{"fio version": "fio-3.33", "timestamp": 1795752880, "jobs": [{{"jobname": "j"{kinds}}}]}}"#
            );
            let summary = import(&FORMAT, &text).unwrap();
            (summary.rows, summary.not_observed[0].what.clone())
        };
        let said = "when the slow ones were of 800 operations of j (clat: p50 2.0 us, slowest 3.0 us)";
        assert_eq!(rows(&["mixed"]), (5, said.into()));
        assert_eq!(rows(&["read", "write", "mixed"]).0, 10);
    }

    #[test]
    fn latencies_that_were_not_taken_are_not_nought() {
        let nought = r#"{"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0}"#;
        let of = |latency: &str| {
            let read = format!(
                r#"{{"total_ios": 800, "iops": 200.0, "bw": 800, "clat_ns": {latency}, "lat_ns": {nought}}}"#
            );
            let text = format!(
                r#"{{"fio version": "fio-3.33", "timestamp": 1795752880, "jobs": [{{"jobname": "j", "read": {read}}}]}}"#
            );
            let summary = import(&FORMAT, &text).unwrap();
            (summary.rows, summary.not_observed[0].what.clone())
        };
        assert_eq!(of(nought), (3, "latencies of 800 reads of j".into()));
        let (rows, said) = of(r#"{"max": 3000, "percentile": {"50.000000": 2000}}"#);
        assert_eq!(rows, 5);
        assert!(
            said.starts_with("when the slow ones were of 800 reads of j (clat: p50 2.0 us, slowest 3.0 us)"),
            "{said}"
        );
    }
}

//! fio's summary (`--output-format=json`, `json+`): per job and kind the distribution, as samples at the end of the run.
use crate::clock::Clock;
use crate::error::Bad;
use crate::format::{alone, Format, Head, Source};
use crate::records::json;
use crate::sink::Sink;
use crate::text::counted;
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
    let mut read = Vec::new();
    for (number, document) in documents.all.iter().enumerate() {
        // Somebody may have put several into a list.
        for document in document
            .as_array()
            .map_or_else(|| vec![document], |list| list.iter().collect())
        {
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
            read.push((
                moment_ms(document),
                lists.into_iter().flatten().flatten().collect(),
            ));
        }
    }
    // Before 2.2 fio did not say when it was.
    let is_timed = read.iter().any(|(moment_ms, _)| moment_ms.is_some());
    sink.clock(if is_timed {
        Clock::unix(1_000_000)
    } else {
        Clock::own("the end of fio's run", 1_000_000)
    });
    let mut jobs = jobs(&read);
    for job in &mut jobs {
        // Clones are told by what stands last: `job.1`, `job.1, run 2`.
        let name = sink.of_log(job.name);
        let number = job.number.map_or_else(String::new, |number| format!(".{number}"));
        job.subject = format!("{name}{number}{}", of_run(job.run));
    }
    let mut told: Vec<(String, &str, Vec<Told>)> = Vec::new();
    for job in &jobs {
        for (kind, op) in [
            ("read", "read"),
            ("write", "write"),
            ("trim", "discard"),
            ("sync", "sync"),
            // Of `unified_rw_reporting=mixed`; with `both` it is what the others are in sum.
            ("mixed", "mixed"),
        ] {
            if kind == "mixed" && !job.last["read"].is_null() {
                continue;
            }
            let Some(one) = one(&job.subject, op, &job.last[kind], job.end_ns(), sink)? else {
                continue;
            };
            let group = job.group();
            match told.iter_mut().find(|(name, of, _)| *name == group && *of == op) {
                Some((.., all)) => all.push(one),
                None => told.push((group, op, vec![one])),
            }
        }
    }
    for (group, op, all) in &told {
        tell(group, op, all, sink);
    }
    let earlier: usize = jobs.iter().map(|job| job.summaries - 1).sum();
    if earlier > 0 {
        sink.unseen(
            format!(
                "what {} of jobs told",
                counted(earlier as u64, "earlier document")
            ),
            "each counts from the begin of its run (--status-interval): the last one holds them",
        );
    }
    Ok(())
}

/// A run of a job: its last summary.
struct Job<'a> {
    name: &'a str,
    /// Of several jobs of one name in a document (numjobs), which.
    number: Option<usize>,
    /// Of several runs in a file, which.
    run: Option<usize>,
    subject: String,
    moment_ms: Option<i64>,
    last: &'a Value,
    /// How many summaries of it there are.
    summaries: usize,
}

impl Job<'_> {
    fn end_ns(&self) -> i64 {
        self.moment_ms
            .and_then(|ms| ms.checked_mul(1_000_000))
            .unwrap_or(0)
            .clamp(0, i64::MAX / 4)
    }

    /// The name that it has in common with its clones.
    fn group(&self) -> String {
        self.name.to_owned() + &of_run(self.run)
    }
}

fn of_run(run: Option<usize>) -> String {
    run.map_or_else(String::new, |run| format!(", run {run}"))
}

/// The jobs of a file: clones in one document are jobs of their own, and what later documents say of a job is the same run, or another one.
fn jobs<'a>(documents: &[(Option<i64>, Vec<&'a Value>)]) -> Vec<Job<'a>> {
    let mut jobs: Vec<Job> = Vec::new();
    for (moment_ms, listed) in documents {
        for (at, &job) in listed.iter().enumerate() {
            let name = job_name(job);
            let clones = |jobs: &[&Value]| jobs.iter().filter(|other| job_name(other) == name).count();
            let number = (clones(listed) > 1).then(|| clones(&listed[..at]) + 1);
            let is_same = |known: &Job| known.name == name && known.number == number;
            let runs = jobs.iter().filter(|known| is_same(known)).count();
            let before = jobs.iter_mut().rfind(|known| is_same(known));
            match before {
                Some(known) if goes_on((known.moment_ms, known.last), (*moment_ms, job)) => {
                    (known.moment_ms, known.last) = (*moment_ms, job);
                    known.summaries += 1;
                }
                _ => {
                    if let (Some(first), 1) = (before, runs) {
                        first.run = Some(1);
                    }
                    jobs.push(Job {
                        name,
                        number,
                        run: (runs > 0).then_some(runs + 1),
                        subject: String::new(),
                        moment_ms: *moment_ms,
                        last: job,
                        summaries: 1,
                    });
                }
            }
        }
    }
    jobs
}

const KINDS: [&str; 5] = ["read", "write", "trim", "sync", "mixed"];

/// Whether a later summary is of the run that the earlier one is of: it counted no less, and began when that began, not when that ended.
fn goes_on(earlier: (Option<i64>, &Value), later: (Option<i64>, &Value)) -> bool {
    let counts = |job: &Value| KINDS.map(|kind| job[kind]["total_ios"].as_u64().unwrap_or(0));
    let ran_ms = |job: &Value| {
        let of_kinds = KINDS.iter().filter_map(|kind| job[*kind]["runtime"].as_i64());
        of_kinds.chain(job["job_runtime"].as_i64()).max().unwrap_or(0)
    };
    let (before, after) = (ran_ms(earlier.1), ran_ms(later.1));
    let grew = counts(earlier.1)
        .iter()
        .zip(counts(later.1))
        .all(|(old, new)| *old <= new);
    if !grew || after < before {
        return false;
    }
    match (earlier.0, later.0) {
        (Some(old), Some(new)) => {
            let begin_ms = new.saturating_sub(after);
            begin_ms.abs_diff(old.saturating_sub(before)) < begin_ms.abs_diff(old)
        }
        // Runs of one length differ by milliseconds.
        _ => earlier.1 == later.1 || after - before >= STATUS_INTERVAL_MS_MIN,
    }
}

/// `--status-interval` is no shorter.
const STATUS_INTERVAL_MS_MIN: i64 = 500;

fn job_name(job: &Value) -> &str {
    job["jobname"].as_str().unwrap_or("fio")
}

fn moment_ms(document: &Value) -> Option<i64> {
    let seconds = document["timestamp"].as_i64();
    document["timestamp_ms"]
        .as_i64()
        .or_else(|| seconds?.checked_mul(1000))
}

/// What a summary says of the latencies of one kind: the part of latency, how many operations, each value in microseconds by its name.
struct Told {
    subject: String,
    part: String,
    total: u64,
    values: Vec<(&'static str, f64)>,
}

/// That it has no moments; of several jobs of one name at once, from the fastest to the slowest.
fn tell(group: &str, op: &str, all: &[Told], sink: &mut Sink) {
    let kind = kind_name(op);
    let total = all.iter().fold(0, |sum: u64, one| sum.saturating_add(one.total));
    let names: Vec<&str> = all[0].values.iter().map(|(name, _)| *name).collect();
    let values = names.iter().map(|name| {
        let of_name = all
            .iter()
            .flat_map(|one| &one.values)
            .filter(|value| value.0 == *name);
        let (least, most) = of_name.fold((f64::MAX, 0.0_f64), |(least, most), value| {
            (least.min(value.1), most.max(value.1))
        });
        match all.len() {
            1 => format!("{name} {most:.1} us"),
            _ => format!("{name} {least:.1} to {most:.1} us"),
        }
    });
    let values: Vec<String> = values.collect();
    let of = match all {
        [one] => one.subject.clone(),
        _ => format!("{} jobs {group}", all.len()),
    };
    sink.unseen(
        format!(
            "when the slow ones were of {total} {kind} of {of} ({}: {})",
            all[0].part,
            values.join(", ")
        ),
        "the summary holds a distribution, and no moments",
    );
}

fn kind_name(op: &str) -> String {
    match op {
        "mixed" => "operations".into(),
        op => format!("{op}s"),
    }
}

/// The most complete latency of a kind: `lat_ns` has no percentiles by default, `clat_ns` has.
fn one(job: &str, op: &str, of: &Value, end_ns: i64, sink: &mut Sink) -> Result<Option<Told>, ImportError> {
    // Of fio 2 with unified_rw_reporting there is no clat.
    let latencies = ["clat_ns", "lat_ns", "clat", "lat"].map(|name| (name, &of[name]));
    let has_percentiles = |latency: &&(&str, &Value)| latency.1["percentile"].is_object();
    let Some((name, latency)) = latencies
        .iter()
        .find(has_percentiles)
        .or_else(|| latencies.iter().find(|l| l.1.is_object()))
    else {
        if let Some(total) = of["total_ios"].as_u64().filter(|total| *total > 0) {
            sink.missing(
                format!(
                    "how long {} of {job} took",
                    counted(total, kind_name(op).trim_end_matches('s'))
                ),
                "the summary has none of clat_ns, lat_ns, clat and lat for them",
            );
        }
        return Ok(None);
    };
    let total = of["total_ios"]
        .as_u64()
        .or_else(|| latency["N"].as_u64())
        .or_else(|| Some((of["iops"].as_f64()? * of["runtime"].as_f64()? / 1e3).round() as u64))
        .unwrap_or(0);
    if total == 0 {
        return Ok(None);
    }
    // With gtod_reduce fio takes no times, and prints noughts.
    let is_timed = latency["max"].as_f64() != Some(0.0) || latency["percentile"].is_object();
    // fio 2 counted microseconds.
    let unit = if name.ends_with("_ns") { 1.0 } else { 1000.0 };
    let kind = kind_name(op);
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
            told.push((short, value * unit / 1e3));
        }
    }
    // Without percentiles (clat_percentiles=0, or what clients told together) the mean is all that the summary says beside the slowest.
    if is_timed && told.is_empty() {
        for (key, metric, name) in [
            ("mean", "latency_ns", "mean"),
            ("stddev", "latency_stddev_ns", "deviation"),
        ] {
            if let Some(value) = latency[key].as_f64() {
                values.push((sink.name(&format!("{op}_{metric}")), value * unit));
                told.push((name, value * unit / 1e3));
            }
        }
    }
    if let Some(value) = latency["max"].as_f64().filter(|_| is_timed) {
        values.push((sink.name(&format!("{op}_latency_max_ns")), value * unit));
        told.push(("slowest", value * unit / 1e3));
    }
    if !is_timed {
        sink.unseen(
            format!("latencies of {total} {kind} of {job}"),
            "fio took no times of them (gtod_reduce, disable_clat)",
        );
        let subject = sink.name(job);
        sink.sample(end_ns, None, SubjectKind::Process, subject, &values)?;
        return Ok(None);
    }
    let subject = sink.name(job);
    sink.sample(end_ns, None, SubjectKind::Process, subject, &values)?;
    Ok(Some(Told {
        subject: job.to_owned(),
        part: name.trim_end_matches("_ns").to_owned(),
        total,
        values: told,
    }))
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

    fn job(name: &str, ios: u64, ran_ms: u64) -> String {
        format!(
            r#"{{"jobname": "{name}", "write": {{"total_ios": {ios}, "iops": 1.0, "bw": 4, "runtime": {ran_ms}, "clat_ns": {{"max": {ios}000, "percentile": {{"99.000000": 2000}}}}}}}}"#
        )
    }

    fn document(at_ms: u64, jobs: &[String]) -> String {
        let list = jobs.join(", ");
        format!(
            r#"{{"fio version": "fio-3.33", "timestamp_ms": {}, "jobs": [{list}]}}"#,
            1_795_752_880_000 + at_ms
        )
    }

    /// Samples, and what is not seen.
    fn told(text: &str) -> (u64, Vec<String>) {
        let summary = import(&FORMAT, text).unwrap();
        (
            summary.records,
            summary
                .not_observed
                .into_iter()
                .map(|unseen| unseen.what)
                .collect(),
        )
    }

    #[test]
    fn clones_of_a_job_are_jobs_of_their_own() {
        let text = document(
            0,
            &[job("j", 7, 60_000), job("j", 9, 60_000), job("k", 8, 60_000)],
        );
        let (records, unseen) = told(&text);
        assert_eq!(records, 3);
        assert_eq!(
            unseen,
            [
                "when the slow ones were of 16 writes of 2 jobs j (clat: p99 2.0 to 2.0 us, slowest 7.0 to 9.0 us)",
                "when the slow ones were of 8 writes of k (clat: p99 2.0 us, slowest 8.0 us)"
            ]
        );
    }

    #[test]
    fn the_last_summary_of_a_run_holds_the_others() {
        let clones = |at: u64, ios: u64| document(at, &[job("j", ios, at), job("j", ios + 1, at)]);
        let (records, unseen) = told(&(clones(1000, 5) + &clones(2000, 12) + &clones(2000, 12)));
        assert_eq!(records, 2);
        assert!(
            unseen[0].contains("25 writes of 2 jobs j")
                && unseen[1].starts_with("what 4 earlier documents of jobs told"),
            "{unseen:?}"
        );
    }

    #[test]
    fn runs_that_follow_each_other_are_several() {
        let run = |at: u64, ios: u64| document(at, &[job("j", ios, 10_000)]);
        let (records, unseen) = told(&(run(10_000, 500) + &run(20_050, 505) + &run(31_000, 400)));
        assert_eq!((records, unseen.len()), (3, 3));
        assert!(unseen[1].contains("505 writes of j, run 2 "), "{unseen:?}");
        // Before 2.2, without moments.
        let text = run(0, 500).replace("timestamp_ms", "x");
        assert_eq!(told(&(text.clone() + &text)).0, 1);
        assert_eq!(told(&(text + &run(0, 600).replace("timestamp_ms", "x"))).0, 2);
    }

    #[test]
    fn a_mean_and_the_slowest_are_read_where_no_percentiles_are() {
        let of = r#"{"total_ios": 273369, "iops": 2252.49, "bw": 16653, "slat": {"min": 0, "max": 0, "mean": 0.0}, "lat": {"min": 431, "max": 3781314, "mean": 1782.92, "stddev": 19405.44}}"#;
        for kind in ["mixed", "read"] {
            let text = format!(
                r#"{{"fio version": "fio-2.6", "client_stats": [{{"jobname": "All clients", "{kind}": {of}}}]}}"#
            );
            let summary = import(&FORMAT, &text).unwrap();
            // How many, their rates, the mean, its deviation and the slowest.
            assert_eq!(summary.rows, 6, "{kind}");
            let said = &summary.not_observed[0].what;
            assert!(
                said.contains("mean 1782.9 us") && said.contains("slowest 3781314.0 us"),
                "{said}"
            );
        }
        let none = r#"{"fio version": "fio-2.6", "jobs": [{"jobname": "j", "read": {"total_ios": 5}}]}"#;
        let summary = import(&FORMAT, none).unwrap();
        assert_eq!(summary.missing[0].what, "how long 5 reads of j took");
    }

    #[test]
    fn a_list_of_documents_is_read() {
        let text = format!(
            "[{}, {}]",
            document(0, &[job("a", 7, 60_000)]),
            document(1, &[job("b", 8, 60_000)])
        );
        assert_eq!(told(&text).0, 2);
    }
}

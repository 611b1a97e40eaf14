//! Latency logs of fio: `NAME_lat.1.log`, `NAME_clat.1.log`, `NAME_slat.1.log` (`write_lat_log`).
//!
//! The three logs of a job hold the same operations. One of them is read: the one with issue times (they are exact, and in `clat` only), else
//! `lat`, else `clat`, else `slat`. Rows that are averages of a window (`log_avg_msec`) become samples, not operations.
use super::fio_columns::{
    clock_of, head_entries, is_log_of, job_of, kind_and_key, layout, look_like, Column, Entry, Layout,
    Printed, FOUR,
};
use crate::error::RecordError;
use crate::format::{Format, Head, Source};
use crate::lines::find;
use crate::records::{read_lines, Line, ReadLines};
use crate::sink::{one_stage_op, Sink};
use crate::text::TIME_NS_MAX;
use crate::ImportError;
use case::schema::{Layer, Op, OpRow, Stage, SubjectKind};
use case::sealed::FewColumns;
use std::path::{Path, PathBuf};

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "fio-lat",
    about: "fio's latency logs (write_lat_log): every operation of a job; averaged ones as samples",
    not_carried: &[
        (
            "devices and files of fio's operations",
            "its logs do not name them; --device NAME does",
        ),
        (
            "what fio's log itself costs",
            "it grows in memory while the job runs, which delays operations at p99.9 and beyond",
        ),
        ("syncs of fio's jobs", "they are in no latency log"),
    ],
    recognise,
    together,
    read,
};

const KINDS: [&str; 3] = ["lat", "clat", "slat"];

fn recognise(head: &Head) -> bool {
    is_log_of(&head.name, &KINDS) && look_like(head)
}

/// The logs of one job, whatever their kind.
fn together(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_string_lossy();
    let (_, key) = kind_and_key(&name, &KINDS)?;
    Some(path.with_file_name(key))
}

fn kind(path: &Path) -> &'static str {
    let name = path
        .file_name()
        .map_or(String::new(), |n| n.to_string_lossy().into_owned());
    kind_and_key(&name, &KINDS).map_or("lat", |(kind, _)| kind)
}

/// The same with the unit of its values out of the map, and that unit, if the map says it.
fn with_unit(source: &Source) -> (Source, Option<i64>) {
    let (mut source, mut unit_ns) = (source.clone(), None);
    for (name, ns) in [("value:us", 1000), ("value:ns", 1)] {
        if let Some(map) = source.map.as_mut().filter(|map| map.contains(name)) {
            (*map, unit_ns) = (map.replace(name, "value"), Some(ns));
        }
    }
    (source, unit_ns)
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let (source, unit_ns) = with_unit(source);
    let (chosen, layout) = choose(&source)?;
    let unit = match unit_ns {
        Some(ns) => Unit::Is(ns),
        None if layout.len() > 4 || source.map.is_some() => Unit::Is(1),
        None => unit_of(&source, &chosen)?,
    };
    match unit {
        Unit::Unknown => sink.missing(
            format!("whether latencies of {} are 1,000 times as long", chosen.shown()),
            "they are taken for nanoseconds, and fio 2 logged microseconds in the same four columns; --map 'time,value:us,ddir,bs' says so",
        ),
        Unit::Is(1000) if unit_ns.is_none() => sink.unseen(
            format!("whether latencies of {} are nanoseconds", chosen.shown()),
            "they are taken for microseconds, as fio 2 logged them: no submission (slat) takes so few nanoseconds; --map 'time,value:ns,ddir,bs' says otherwise",
        ),
        Unit::Is(_) => {}
    }
    for other in source.files.iter().filter(|path| **path != chosen.files[0]) {
        sink.unseen(
            format!("what {} says", other.display()),
            format!("it holds the operations of {} again", chosen.shown()),
        );
    }
    read_one(&chosen, &layout, unit, sink)
}

/// What latencies of four columns are in.
#[derive(Clone, Copy)]
enum Unit {
    Is(i64),
    /// Nanoseconds, or microseconds.
    Unknown,
}

/// To read the clock twice and hand a request over takes no fewer nanoseconds in the median, with io_uring's polling thread either.
const SUBMISSION_NS_MIN: i64 = 100;

/// No latency is longer than what its job ran until it ended: what would be so in microseconds is in nanoseconds. Submissions that no machine
/// could make in so few nanoseconds are in microseconds.
fn unit_of(source: &Source, chosen: &Source) -> Result<Unit, ImportError> {
    for path in &source.files {
        let all = head_entries(path, &FOUR)?;
        let is_too_long = |entry: &Entry| {
            let end_us = entry.time_ms.saturating_add(1).saturating_mul(1000);
            entry.is_since_begin() && entry.value > end_us
        };
        if all.iter().any(is_too_long) {
            return Ok(Unit::Is(1));
        }
        let mut values: Vec<i64> = all.iter().map(|entry| entry.value).collect();
        values.sort_unstable();
        let median = values.get(values.len() / 2).copied().unwrap_or(0);
        if kind(path) == "slat" && *path != chosen.files[0] && (1..SUBMISSION_NS_MIN).contains(&median) {
            return Ok(Unit::Is(1000));
        }
    }
    Ok(Unit::Unknown)
}

/// The log that is read.
fn choose(source: &Source) -> Result<(Source, Layout), ImportError> {
    let mut best: Option<(u8, Source, Layout)> = None;
    for path in &source.files {
        let one = Source {
            files: vec![path.clone()],
            ..source.clone()
        };
        let layout = layout(&one)?;
        let rank = match kind(path) {
            "clat" if layout.contains(&Column::IssueTime) => 0,
            "lat" => 1,
            "clat" => 2,
            _ => 3,
        };
        if best.as_ref().is_none_or(|(least, ..)| rank < *least) {
            best = Some((rank, one, layout));
        }
    }
    let (_, one, layout) = best.expect("a source has a file");
    Ok((one, layout))
}

fn read_one(source: &Source, layout: &Layout, unit: Unit, sink: &mut Sink) -> Result<(), ImportError> {
    let kind = kind(source.path());
    let (stage_name, what) = match kind {
        "lat" => ("fs+queue+device+interrupt+reap", "from submission to completion"),
        "clat" => (
            "fs+queue+device+interrupt+reap",
            "from the end of submission to completion",
        ),
        _ => ("submission", "submission alone (slat)"),
    };
    if kind != "lat" {
        sink.unseen(
            format!("what of latency is not {what}"),
            format!("{} holds that part; NAME_lat.log holds the whole", source.shown()),
        );
    }
    let mut reader = Reader {
        layout,
        printed: Printed::new(layout),
        comm: job_of(&source.name(), &KINDS),
        device: source.device.clone(),
        stage_name,
        unit_ns: match unit {
            Unit::Is(ns) => ns,
            Unit::Unknown => 1,
        },
        ends_with_digit: layout.last() == Some(&Column::Priority)
            && !Head::read(source.path())?
                .filled_lines()
                .any(|line| line.contains("0x")),
        is_doubtful: matches!(unit, Unit::Unknown),
        with_issue: layout.contains(&Column::IssueTime) && kind != "lat",
        said: Said::Nothing,
        few: FewColumns::default(),
    };
    read_lines(source, sink, &mut reader)
}

#[derive(PartialEq)]
enum Said {
    Nothing,
    Clock,
    Layer,
}

struct Reader<'a> {
    layout: &'a [Column],
    printed: Option<Printed>,
    comm: String,
    device: Option<String>,
    stage_name: &'static str,
    /// Nanoseconds of a unit of the values.
    unit_ns: i64,
    /// Latencies may be this many times as long: [`UNIT_DOUBT`].
    is_doubtful: bool,
    with_issue: bool,
    /// Its last column is a priority of one digit: where that is there, a line without an end is whole.
    ends_with_digit: bool,
    said: Said,
    few: FewColumns,
}

impl ReadLines for Reader<'_> {
    fn line(&mut self, line: Line<'_>, sink: &mut Sink) -> Result<(), RecordError> {
        if line.text.is_empty() {
            return Ok(());
        }
        let bytes = line.text.as_bytes();
        let entry = match self.printed.and_then(|printed| printed.parse(bytes)) {
            Some((entry, read)) if read == bytes.len() => entry,
            _ => Entry::parse(line.text, self.layout)?,
        };
        Ok(self.write(&entry, sink)?)
    }

    fn may_lack_its_end(&self) -> bool {
        self.ends_with_digit
    }

    fn plain_lines(&mut self, text: &[u8], sink: &mut Sink) -> Result<(u64, usize), ImportError> {
        if self.said != Said::Layer {
            return Ok((0, 0));
        }
        let Some(printed) = self.printed else {
            return Ok((0, 0));
        };
        let row = self.row(0, 0, Op::Read, sink);
        let (mut lines, mut used) = (0, 0);
        // The end of a line is looked for first: the CPU reads several lines at once then.
        while let Some(length) = find(&text[used..], b'\n') {
            let Some((entry, read)) = printed.parse(&text[used..]) else {
                break;
            };
            // Averages are no operations.
            if read != length || entry.size_bytes == 0 {
                break;
            }
            lines += 1;
            used += length + 1;
            let (start_ns, latency_ns) = self.times(&entry);
            self.few.start_ns.push(start_ns);
            self.few.latency_ns.push(latency_ns);
            self.few.op.push(entry.op());
            self.few.size_bytes.push(entry.size_bytes);
            self.few.offset_bytes.extend(entry.offset_bytes);
            if self.few.is_full() {
                sink.ops(Layer::App, &row, &mut self.few)?;
            }
        }
        sink.ops(Layer::App, &row, &mut self.few)?;
        Ok((lines, used))
    }
}

impl Reader<'_> {
    /// An operation, its place and size excepted.
    fn row(&self, start_ns: i64, latency_ns: i64, op: Op, sink: &mut Sink) -> OpRow {
        let mut row = one_stage_op(start_ns, latency_ns, op, Stage::Fs);
        row.comm = Some(sink.name(&self.comm));
        row.device = self.device.as_deref().map(|device| sink.name(device));
        row
    }

    /// When an operation began, and how long it took.
    fn times(&self, entry: &Entry) -> (i64, i64) {
        let latency_ns = entry.value.saturating_mul(self.unit_ns).min(TIME_NS_MAX);
        let start_ns = if self.with_issue && entry.issue_ns > 0 {
            entry.issue_ns
        } else {
            end_ns(entry) - latency_ns
        };
        (start_ns, latency_ns)
    }

    fn write(&mut self, entry: &Entry, sink: &mut Sink) -> Result<(), ImportError> {
        if self.said == Said::Nothing {
            let step_ns = if self.with_issue { 1 } else { 1_000_000 };
            sink.clock(clock_of(entry.time_ms, step_ns));
            self.said = Said::Clock;
        }
        if entry.size_bytes == 0 {
            return self.sample(entry, end_ns(entry), sink);
        }
        if self.said == Said::Clock {
            sink.layer(Layer::App, &[(Stage::Fs, self.stage_name)]);
            sink.has_every_operation();
            self.said = Said::Layer;
        }
        let (start_ns, latency_ns) = self.times(entry);
        let mut row = self.row(start_ns, latency_ns, entry.op(), sink);
        row.size_bytes = Some(entry.size_bytes);
        row.offset_bytes = entry.offset_bytes;
        sink.op(Layer::App, row)
    }

    /// An average over a window.
    fn sample(&mut self, entry: &Entry, end_ns: i64, sink: &mut Sink) -> Result<(), ImportError> {
        let op = entry.op().name();
        let subject = sink.name(self.device.as_deref().unwrap_or(&self.comm));
        let kind = if self.device.is_some() {
            SubjectKind::Device
        } else {
            SubjectKind::Process
        };
        let mean = sink.name(&format!("{op}_latency_ns"));
        let unit_ns = self.unit_ns as f64;
        let mut values = vec![(mean, entry.value as f64 * unit_ns)];
        if let Some(most) = entry.value_max {
            values.push((sink.name(&format!("{op}_latency_max_ns")), most as f64 * unit_ns));
        }
        if std::mem::take(&mut self.is_doubtful) {
            values.push((sink.name(UNIT_DOUBT), 1000.0));
        }
        sink.unseen(
            "single operations of windows that fio averaged",
            "log_avg_msec was set: the log holds one value per window, and not of how many operations it is the mean, which may be one",
        );
        sink.sample(end_ns, None, kind, subject, &values)
    }
}

/// The metric that says of a subject how many times as long its latencies may be.
const UNIT_DOUBT: &str = "unit_doubt_ratio";

/// When it was logged.
fn end_ns(entry: &Entry) -> i64 {
    entry.time_ms.saturating_mul(1_000_000).min(i64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_says_what_values_are_in() {
        let of = |map: Option<&str>| {
            let source = Source {
                files: Vec::new(),
                map: map.map(str::to_owned),
                device: None,
            };
            let (source, unit_ns) = with_unit(&source);
            (source.map, unit_ns)
        };
        assert_eq!(
            of(Some("time,value:us,ddir,bs")),
            (Some("time,value,ddir,bs".into()), Some(1000))
        );
        assert_eq!(of(Some("time,value,ddir,bs")).1, None);
        assert_eq!(of(None), (None, None));
    }

    /// What the case says of the unit, and how many rows it has.
    fn unit_told(logs: &[(&str, &str)]) -> (Vec<String>, u64) {
        let folder = tempfile::tempdir().unwrap();
        let case = folder.path().join("case");
        std::fs::create_dir(&case).unwrap();
        let files = logs.iter().map(|(name, text)| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        });
        let request = crate::Request {
            files: files.collect(),
            ..Default::default()
        };
        let mut writer = case::sealed::SealWriter::create(&case).unwrap();
        let summary = crate::import(
            &request,
            &mut writer,
            &mut case::sealed::Names::default(),
            &mut |_| {},
        )
        .unwrap();
        let all = summary.missing.iter().chain(&summary.not_observed);
        let told = all.filter(|one| one.what.starts_with("whether latencies"));
        (told.map(|one| one.what.clone()).collect(), summary.rows)
    }

    #[test]
    fn a_last_line_that_is_whole_needs_no_end() {
        let rows =
            |text: &str| crate::testing::import_named(&FORMAT, "a_lat.1.log", text).map_or(0, |one| one.rows);
        assert_eq!(rows("0, 36128, 1, 4096, 0"), 1);
        let after = |line: &str, end: &str| rows(&(format!("{line}\n").repeat(2) + end));
        assert_eq!(after("0, 36128, 1, 4096, 0", "1, 36128, 1, 4096, 1"), 3);
        assert_eq!(after("0, 36128, 1, 4096, 0", "1, 36128, 1, 40"), 2);
        // Of four columns, and of a place, nothing shows that the last one is whole.
        assert_eq!(after("0, 36128, 1, 4096", "1, 36128, 1, 4096"), 2);
        assert_eq!(
            after("0, 36128, 1, 4096, 0, 0x0000", "1, 36128, 1, 4096, 0, 0x0"),
            2
        );
    }

    #[test]
    fn the_unit_of_four_columns_is_told_where_it_can_be() {
        let doubtful = "301, 90050, 0, 0\n301, 94335, 1, 0\n551, 205300, 0, 0\n";
        let (told, rows) = unit_told(&[("a_lat.log", doubtful)]);
        assert_eq!(told, ["whether latencies of a_lat.log are 1,000 times as long"]);
        // The doubt is a row.
        assert_eq!(rows, 4);
        let slat = "301, 75, 0, 0\n301, 76, 1, 0\n551, 79, 0, 0\n";
        let (told, rows) = unit_told(&[("a_lat.log", doubtful), ("a_slat.log", slat)]);
        assert_eq!(
            (told, rows),
            (vec!["whether latencies of a_lat.log are nanoseconds".into()], 3)
        );
        // 811 s at the second second.
        let long = "1008, 54112363, 0, 0\n2043, 811320318, 0, 0\n";
        assert_eq!(unit_told(&[("a_lat.1.log", long)]), (vec![], 2));
        let since_1970 = long
            .replace("1008,", "1795752876157,")
            .replace("2043,", "1795752877192,");
        assert_eq!(unit_told(&[("a_lat.1.log", &since_1970)]).0.len(), 1);
        assert!(
            unit_told(&[("a_lat.1.log", "301, 90050, 0, 0, 0\n551, 205300, 0, 0, 0\n")])
                .0
                .is_empty()
        );
    }
}

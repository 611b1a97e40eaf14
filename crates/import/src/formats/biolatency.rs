//! Text of biolatency (bcc, libbpf-tools, bpftrace): a histogram of block latencies per interval, with `-D` per disk, with `-F` per set of flags.
//!
//! With `-T` a time of day stands above each interval; without, intervals are put one second apart. With `-j` bcc prints each histogram as
//! a dictionary of Python, with its moment.
use super::bcc_intervals::{each_trimmed_line, moment_of_dictionary, Intervals};
use super::bins::{
    bcc_bin, bcc_dictionary_bin, bcc_row, bcc_unit, bcc_unit_ns, bpftrace_bin, bpftrace_map, wide_values,
    Bins,
};
use super::biosnoop::columns_of;
use super::calendar::time_of_day_ns;
use crate::error::{Bad, RecordError};
use crate::format::{alone, Format, Head, Source};
use crate::records::is_aside;
use crate::sink::Sink;
use crate::text::{counted, name_of_bytes};
use crate::{unread, ImportError};
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
            "biolatency prints a time of day (with -T), a local date as well (with -j), or none",
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
            || is_of_flags(line)
    });
    has_bins && (of_disks || is_bare(head)) && !of_irqs || head.has_line(|line| dictionary(line).is_some())
}

/// Tools that print such histograms of other times, and mostly do not say so but in the command.
const OTHER_TOOLS: [&str; 21] = [
    "funclatency",
    "funcslower",
    "runqlat",
    "runqlen",
    "cpudist",
    "ext4dist",
    "xfsdist",
    "btrfsdist",
    "nfsdist",
    "zfsdist",
    "fsdist",
    "argdist",
    "hardirqs",
    "softirqs",
    "dbstat",
    "tcprtt",
    "tcpconnlat",
    "llcstat",
    "readahead",
    "klockstat",
    "wakeuptime",
];

/// Whether a line is the command of such a tool: `# /usr/share/bcc/tools/funclatency -m vfs_read`, `$ sudo runqlat-bpfcc 1`.
fn is_of_other_tool(line: &str) -> bool {
    line.split_whitespace().any(|word| {
        let program = word.rsplit('/').next().unwrap_or(word);
        OTHER_TOOLS.iter().any(|tool| {
            let end = program.strip_prefix(tool);
            end.is_some_and(|end| matches!(end, "" | ".py" | ".bt" | "-bpfcc"))
        })
    })
}

/// Whether nothing but histograms of times is there, with what a shell and bpftrace print around them, and what somebody says of them: other tools name what they
/// trace, or their command does.
fn is_bare(head: &Head) -> bool {
    if head.has_line(is_of_other_tool) || unread::known(head).is_some() {
        return false;
    }
    let begins = |line: &str| bcc_unit(line).is_some() || bpftrace_map(line).is_some();
    let mut is_above = true;
    head.filled_lines().take(200).all(|line| {
        is_above &= !begins(line);
        if is_above {
            // A tool says what it traces.
            let is_of_tool = ["Tracing ", "Sampling ", "Summarize "]
                .iter()
                .any(|begin| line.starts_with(begin))
                || line.contains("Hit Ctrl-C")
                || line.contains(" = ");
            return !is_of_tool || names_blocks(line);
        }
        let of_bpftrace = bpftrace_map(line).is_some()
            || line.starts_with(['[', '(']) && bpftrace_bin(line, 1).is_some()
            || line.starts_with("Attaching ") && line.ends_with(" probes...")
            || line.starts_with('@') && !line.ends_with(':');
        let of_bcc = bcc_unit(line).is_some()
            || bcc_row(line).is_some()
            || line.starts_with("avg = ")
            || time_of_day_ns(line, "").is_some();
        let is_around = line.starts_with(['^', '[', '.', '#', '$']) || is_aside(line);
        of_bpftrace || of_bcc || names_blocks(line) || is_around
    })
}

/// What block requests with the same flags (`-F`) are called last: `flags = Sync-Write` (flags_print in bcc's biolatency.py, and print_cmd_flags in that
/// of libbpf-tools).
const KINDS: [&str; 8] = [
    "Read",
    "Write",
    "Flush",
    "Discard",
    "SecureErase",
    "WriteSame",
    "WriteZeroes",
    "ZoneReset",
];

fn is_of_flags(line: &str) -> bool {
    line.strip_prefix("flags = ")
        .and_then(|flags| flags.trim_end().rsplit('-').next())
        .is_some_and(|kind| KINDS.contains(&kind))
}

/// Whether a line says that block I/O is traced: the command, or what a script prints when it begins.
fn names_blocks(line: &str) -> bool {
    [
        "biolatency",
        "block device",
        "block I/O",
        " I/O latency",
        "disk = ",
    ]
    .iter()
    .any(|mark| line.contains(mark))
        || is_of_flags(line)
}

/// The disk of a command, `./biolatency -m -d sde`.
fn disk_of_command(line: &str) -> Option<&str> {
    let (_, options) = line.split_once("biolatency")?;
    let mut words = options.split_whitespace();
    words.find(|word| matches!(*word, "-d" | "--disk"))?;
    words.next()
}

#[derive(Debug, Default, PartialEq)]
struct Histogram {
    label: String,
    unit_ns: u64,
    bins: Bins,
}

/// Whose histogram it is. Under Python 3 bcc prints `b'sda'`; libbpf-tools print both, with a tab between them.
fn label_of(what: &str, label: &str) -> String {
    if let Some((disk, flags)) = label.split_once("flags = ") {
        return format!("{} {flags}", disk.trim_end());
    }
    let label = name_of_bytes(label).trim_matches('\'');
    if what.ends_with("flags") {
        format!("flags {label}")
    } else {
        label.to_owned()
    }
}

/// A line of `-j`: `{'ts': '2020-12-30 14:33:03', 'val_type': 'usecs', 'data': [{'interval-start': 0, 'interval-end': 1, 'count': 7}, ...],
/// 'flags': 'Sync-Write'}`.
fn dictionary(line: &str) -> Option<Histogram> {
    moment_of_dictionary(line)?;
    let (_, unit) = line.split_once("'val_type': '")?;
    let unit_ns = bcc_unit_ns(unit.split('\'').next()?)?;
    let (bins, rest) = line.split_once("'data': [")?.1.split_once(']')?;
    let bins = bins.split('}').filter(|bin| bin.contains('{'));
    let label = match rest.trim_end().strip_suffix('}')?.split_once("': ") {
        Some((what, label)) => label_of(what, label),
        None => String::new(),
    };
    Some(Histogram {
        label,
        unit_ns,
        bins: bins
            .map(|bin| bcc_dictionary_bin(bin, unit_ns))
            .collect::<Option<_>>()?,
    })
}

#[derive(Default)]
struct Reader {
    at: Histogram,
    intervals: Intervals,
    /// `--device`, or what the tool was told with `-d`: the disk of histograms that name none.
    device: Option<String>,
    /// Without one, whether the tool says that it traces all.
    is_of_all: bool,
    /// There was one.
    has_told: bool,
    /// Rows of biosnoop, which stand in the same file.
    rows_of_biosnoop: u64,
}

impl Reader {
    fn line(&mut self, text: &str, sink: &mut Sink) -> Result<(), RecordError> {
        if let Some(time_ns) = moment_of_dictionary(text) {
            self.flush(sink)?;
            let histogram = dictionary(text);
            self.at =
                histogram.ok_or_else(|| Bad::new("", "{'ts': ..., 'val_type': ..., 'data': [...]}", text))?;
            self.intervals.at(time_ns);
            self.flush(sink)?;
        } else if let Some(unit_ns) = bcc_unit(text) {
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
            match (bcc_bin(text, self.at.unit_ns), bcc_row(text)) {
                (Some(bin), _) => self.at.bins.push(bin),
                // Where a request's end is before its begin, the difference is a number that long.
                (None, Some(_)) => sink.unseen(
                    "latencies that biolatency prints as more than 500 years",
                    "its clock was wrong there",
                ),
                (None, None) => return Err(Bad::new("", "LOW -> HIGH : COUNT |...|", text).into()),
            }
        } else if let Some(time_ns) = time_of_day_ns(text, "") {
            self.flush(sink)?;
            self.intervals.at(time_ns);
        } else if let Some((what, label)) = text.split_once(" = ").filter(|_| !text.starts_with("avg")) {
            self.flush(sink)?;
            self.at.label = label_of(what, label);
        } else if columns_of(text).is_some() {
            self.rows_of_biosnoop += 1;
        }
        Ok(())
    }

    /// The histogram at hand is whole.
    fn flush(&mut self, sink: &mut Sink) -> Result<(), ImportError> {
        if self.at.bins.is_empty() {
            return Ok(());
        }
        let histogram = std::mem::take(&mut self.at);
        self.has_told = true;
        self.intervals.next_if_seen(&histogram.label);
        let (kind, label) = match (histogram.label.as_str(), self.device.as_deref()) {
            ("", Some(device)) => (SubjectKind::Device, device),
            ("", None) if self.is_of_all => (SubjectKind::Component, "all disks"),
            ("", None) => (SubjectKind::Component, "block requests"),
            (label, _) if label.starts_with("flags ") => (SubjectKind::Component, label),
            (label, _) => (SubjectKind::Device, label),
        };
        let (values, subject) = (wide_values("", &histogram.bins, sink), sink.name(label));
        self.intervals.saw(histogram.label);
        sink.sample(self.intervals.time_ns, None, kind, subject, &values)
    }
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let head = Head::read(source.path())?;
    let told = head.lines().find_map(disk_of_command).map(str::to_owned);
    let mut reader = Reader {
        device: source.device.clone().or(told),
        is_of_all: head
            .has_line(|line| line.contains("Tracing block device I/O") || line.contains("biolatency")),
        ..Reader::default()
    };
    each_trimmed_line(
        source,
        sink,
        "biolatency's first interval",
        "biolatency prints moments with -T only; they are put one second apart",
        |text, sink| reader.line(text, sink),
    )?;
    if reader.rows_of_biosnoop > 0 {
        let rows = counted(reader.rows_of_biosnoop, "row");
        sink.missing(
            format!(
                "what {rows} of biosnoop in {} {}",
                source.name(),
                if reader.rows_of_biosnoop == 1 {
                    "says"
                } else {
                    "say"
                }
            ),
            "the file is read as biolatency's: import these rows from a file of their own",
        );
    }
    reader.flush(sink)?;
    let is_named = head.has_line(|line| names_blocks(line) || dictionary(line).is_some());
    if reader.has_told && !is_named {
        sink.missing(
            format!(
                "whether {} tells latencies of block requests, as it is taken to",
                source.name()
            ),
            "nothing in it names the tool, and other tools print such histograms of other times",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: &str =
        "     usecs               : count     distribution\n        16 -> 31         : 5120     |****|\n";

    #[test]
    fn text_around_a_histogram_alone_is_passed_over() {
        let is_of = |text: &str| {
            recognise(&Head {
                name: "log".into(),
                bytes: text.as_bytes().to_vec(),
            })
        };
        let above = "So, on my laptop running the same command:\n\np50=395us p75=615us\n\nand\n";
        let below = "This is what the other one shows.\n";
        let log = format!("{above}{ALONE}{below}");
        assert_eq!(crate::testing::import(&FORMAT, &log).unwrap().records, 1);
        // What other tools print above theirs.
        for line in [
            "Tracing run queue latency... Hit Ctrl-C to end.",
            "Tracing CPU scheduler...",
            "cpu = 3",
            "$ sudo runqlat-bpfcc 1",
        ] {
            assert!(!is_of(&format!("{line}\n{ALONE}")), "{line}");
            assert!(!is_of(&format!("{above}{line}\n{ALONE}")), "{line}");
        }
        assert!(!is_of(&format!("{ALONE}comm = fio\n{ALONE}")));
    }

    #[test]
    fn rows_of_biosnoop_in_the_same_file_are_counted() {
        let row = "0.000329000    paranoid       17553  sdb     W  0         4096       0.20\n";
        let log = format!(
            "{}Tracing block device I/O... Hit Ctrl-C to end.\n{ALONE}",
            row.repeat(3)
        );
        let summary = crate::testing::import(&FORMAT, &log).unwrap();
        assert_eq!(summary.records, 1);
        assert_eq!(summary.missing[0].what, "what 3 rows of biosnoop in log say");
    }

    #[test]
    fn flags_of_requests_name_the_tool() {
        let log = |flags: &str| {
            format!("flags = {flags}\n     usecs               : count     distribution\n        16 -> 31         : 5120     |****|\n")
        };
        let summary = crate::testing::import(&FORMAT, &log("Sync-Write")).unwrap();
        assert!(summary.missing.is_empty() && summary.records == 1);
        let of_another = Head {
            name: "log".into(),
            bytes: log("GFP_KERNEL").into_bytes(),
        };
        assert!(!recognise(&of_another));
    }

    #[test]
    fn lines_of_dash_j() {
        let bins = "'data': [{'interval-start': 0, 'interval-end': 1, 'count': 0}, {'interval-start': 2, 'interval-end': 3, 'count': 7}]";
        let line =
            |after: &str| format!("{{'ts': '2020-12-30 14:33:03', 'val_type': 'msecs', {bins}{after}}}");
        let label = |after: &str| dictionary(&line(after)).map(|histogram| histogram.label);
        let whole = Histogram {
            label: String::new(),
            unit_ns: 1_000_000,
            bins: vec![(1_000_000, 0), (3_000_000, 7)],
        };
        assert_eq!(dictionary(&line("")), Some(whole));
        assert_eq!(
            label(", 'flags': 'Sync-Write'").as_deref(),
            Some("flags Sync-Write")
        );
        // With `-D`; what the key is called differs.
        assert_eq!(label(", 'Bucket ptr': b'nvme0n1'").as_deref(), Some("nvme0n1"));
        assert_eq!(moment_of_dictionary(&line("")), Some(52_383_000_000_000));
        let damaged = [
            line("").replace("'count': 7", "'count': x"),
            line(", ").replace(']', ""),
        ];
        assert_eq!(damaged.map(|line| dictionary(&line)), [None, None]);
    }

    #[test]
    fn what_a_wrong_clock_made_is_no_latency_and_hides_none() {
        let (mut names, mut silent) = (case::sealed::Names::default(), |_: u64| {});
        let mut sink = Sink::survey(&mut names, &mut silent, false);
        let mut reader = Reader::default();
        let mut line = |text: &str| reader.line(text, &mut sink).is_ok();
        assert!(line("msecs                         : count     distribution"));
        assert!(line(
            "2 -> 3                    : 5        |********************|"
        ));
        assert!(line(
            "18014398509481984 -> 36028797018963967     : 1        |****                |"
        ));
        assert!(!line(
            "18014398509481984 -> x     : 1        |****                |"
        ));
        assert_eq!(reader.at.bins, [(3_000_000, 5)]);
    }

    #[test]
    fn a_disk_and_flags_are_one_label() {
        let text = "disk = vda\tflags = Sync-Write";
        let (what, label) = text.split_once(" = ").unwrap();
        assert_eq!(label_of(what, label), "vda Sync-Write");
        assert_eq!(label_of("flags", "Read"), "flags Read");
        assert_eq!(label_of("disk", "b'sda'"), "sda");
    }

    #[test]
    fn a_command_names_its_disk() {
        let of = [
            "# ./biolatency -m -d sde -e",
            "$ biolatency -D 1",
            "iostat -d sda",
            "biolatency -d",
        ];
        assert_eq!(of.map(disk_of_command), [Some("sde"), None, None, None]);
    }

    #[test]
    fn the_disk_of_histograms_that_name_none_may_be_said() {
        let subject = |command: &str, device: Option<&str>| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("log");
            let bins = "     usecs               : count     distribution\n       512 -> 1023       : 5222     |***      |\n";
            std::fs::write(
                &path,
                format!("{command}\nTracing block device I/O... Hit Ctrl-C to end.\n{bins}"),
            )
            .unwrap();
            let source = Source {
                files: vec![path],
                map: None,
                device: device.map(str::to_owned),
            };
            let (mut names, mut silent) = (case::sealed::Names::default(), |_: u64| {});
            let mut sink = Sink::survey(&mut names, &mut silent, false);
            // A survey ends with its first sample.
            let _ = read(&source, &mut sink);
            ["sdb", "sde", "all disks"].map(|name| {
                let known = names.len();
                names.id(name);
                names.len() == known
            })
        };
        assert_eq!(subject("# ./biolatency", Some("sdb")), [true, false, false]);
        assert_eq!(subject("# ./biolatency -d sde", None), [false, true, false]);
        assert_eq!(subject("# ./biolatency", None), [false, false, true]);
    }

    #[test]
    fn a_histogram_alone_is_read_and_says_what_is_not_known() {
        let bins = "     usecs               : count     distribution\n       512 -> 1023       : 5222     |***      |\n";
        let of_bpftrace =
            "Attaching 3 probes...\n\n@pid: 33\n\n@usecs:\n[512, 1K)          70886 |@@@@@@@@|\n";
        for (log, is_in_doubt) in [
            (bins.to_owned(), true),
            (
                format!("# ./biolatency.py -e\n^C\n{bins}\navg = 663 usecs, total: 16575 usecs, count: 25\n"),
                false,
            ),
            (
                format!("Tracing block device I/O... Hit Ctrl-C to end.\n{bins}"),
                false,
            ),
            (of_bpftrace.to_owned(), true),
            (
                format!(
                    "./x.bt 33\nMonitoring pgbench for I/O latency...\n{}",
                    &of_bpftrace[22..]
                ),
                false,
            ),
        ] {
            let summary = crate::testing::import(&FORMAT, &log).unwrap();
            assert_eq!(
                (summary.rows, !summary.missing.is_empty()),
                (5, is_in_doubt),
                "{log}"
            );
        }
        for other in [
            "Tracing run queue latency... Hit Ctrl-C to end.",
            "operation = read",
            "pid = 7 bash",
            "    # funclatency '/srv/nginx:ngx_process_events_and_timers' -m",
            "$ sudo /usr/share/bcc/tools/runqlat 10 1",
            "root@db1:~# cpudist-bpfcc",
            "# bpftrace runqlat.bt",
        ] {
            let head = Head {
                name: "log".into(),
                bytes: format!("{other}\n{bins}").into_bytes(),
            };
            assert!(!recognise(&head), "{other}");
        }
    }
}

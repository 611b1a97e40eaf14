//! biosnoop of bcc, libbpf-tools and bpftrace. The header names the columns; names of programs may hold blanks, so lines are read from both ends.
//!
//! Source: the tools' print statements. bcc and libbpf-tools count from the issue of a request (`-Q`: and from its insertion before), bpftrace
//! from its begin, in whole milliseconds. TIME is that of completion; with `-t` libbpf-tools prints the time of day when it prints the row.
use super::block_requests::{device_name, kind_of};
use super::calendar::time_of_day_ns;
use crate::clock::Clock;
use crate::error::Bad;
use crate::format::{alone, Format, Head, Source};
use crate::records::each_line;
use crate::sink::Sink;
use crate::text::{counted, integer, last_word, length, name_of_bytes, scaled, sectors, time, word};
use crate::ImportError;
use case::schema::{Layer, Op, OpRow, Stage};

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "biosnoop",
    about: "text of biosnoop (bcc, libbpf-tools, bpftrace): block requests",
    not_carried: &[
        ("requests that biosnoop lost", "it says so on stderr only"),
        (
            "where the interrupt began",
            "biosnoop sees completions, which are device and interrupt together",
        ),
    ],
    recognise,
    together: alone,
    read,
};

fn is_header(line: &str) -> bool {
    // fileslower's has a file behind the latency.
    let is_begin = line.starts_with("TIME(") || line.starts_with("TIMESTAMP ");
    is_begin && line.trim_end().ends_with(" LAT(ms)") && line.contains(" PID ")
}

/// How many rows the tool says that it lost: it says so on stderr, which may go into the same file.
fn lost(line: &str) -> Option<u64> {
    let after = line
        .strip_prefix("lost ")
        .or_else(|| line.strip_prefix("Possibly lost "))
        .or_else(|| line.strip_prefix("Lost "))?;
    let (count, what) = after.split_once(' ')?;
    (what.starts_with("events") || what.starts_with("samples"))
        .then(|| count.parse().ok())
        .flatten()
}

fn recognise(head: &Head) -> bool {
    head.filled_lines().take(10).any(is_header) || is_headless(head)
}

/// Rows among the first lines that are enough where no header stands above them, and those first lines.
const ROWS_MIN: usize = 2;
const FIRST_LINES: usize = 20;

/// Whether `grep` behind biosnoop left its rows alone: all lines are, or some with prose around them. Beside histograms of biolatency they are not read.
fn is_headless(head: &Head) -> bool {
    let lines = || head.filled_lines().take(FIRST_LINES);
    let rows = lines().filter(|line| columns_of(line).is_some()).count();
    let is_enough = rows >= ROWS_MIN || rows > 0 && rows == lines().count();
    is_enough && !lines().any(is_header) && !(super::biolatency::FORMAT.recognise)(head)
}

/// The latency, ms, below which a command has biosnoop leave requests out: `-m 1`, `--min=1`, `-Qm1` of libbpf-tools. Nought: it leaves none out. None: it is no command.
fn least_of_command(line: &str) -> Option<i64> {
    let mut words = line.split_whitespace();
    words.find(|word| {
        let program = word.rsplit('/').next().unwrap_or(word);
        let end = program.strip_prefix("biosnoop");
        end.is_some_and(|end| matches!(end, "" | ".py" | ".bt" | "-bpfcc"))
    })?;
    let mut least_ns = 0;
    while let Some(word) = words.next() {
        if matches!(word, "|" | ">" | ";" | "&&" | "#") {
            break;
        }
        let value = match word.strip_prefix("--") {
            Some("min") => Some(""),
            Some(option) => option.strip_prefix("min="),
            // Options without a value may stand in front of it.
            None => word
                .strip_prefix('-')
                .and_then(|options| options.trim_start_matches(['Q', 't', 'P', 'v']).strip_prefix('m')),
        };
        let value = match value {
            Some("") => words.next(),
            other => other,
        };
        if let Some(ns) = value.and_then(|value| scaled(value, 1_000_000)) {
            least_ns = ns.max(0);
        }
    }
    Some(least_ns)
}

/// The columns of a row of bcc or libbpf-tools without options but `-Q`, by their shapes.
pub fn columns_of(row: &str) -> Option<Vec<String>> {
    let words: Vec<&str> = row.split_whitespace().collect();
    let is_decimal = |word: &str| word.contains('.') && word.parse::<f64>().is_ok();
    let is_kind = |word: &str| word.len() <= 8 && word.bytes().all(|letter| b"RWDFNSMAU".contains(&letter));
    let has_queue = words.len() > 8 && is_decimal(words[words.len() - 2]);
    let end = words.len().checked_sub(if has_queue { 2 } else { 1 })?;
    // TIME, a name of one word at least, PID, DISK, T, SECTOR, BYTES.
    let [time, .., pid, _, kind, sector, bytes] = words[..end] else {
        return None;
    };
    let is_row = end >= 7
        && is_decimal(time)
        && is_decimal(words.last()?)
        && is_kind(kind)
        && [pid, sector, bytes]
            .iter()
            .all(|word| word.parse::<u64>().is_ok());
    let names = [
        "TIME(s)", "COMM", "PID", "DISK", "T", "SECTOR", "BYTES", "QUE(ms)", "LAT(ms)",
    ];
    let names = names.iter().filter(|name| has_queue || **name != "QUE(ms)");
    is_row.then(|| names.map(|name| (*name).to_owned()).collect())
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let head = Head::read(source.path())?;
    let (is_headless, mut columns) = (is_headless(&head), None::<Vec<String>>);
    let (mut lost_rows, mut day) = (0_u64, Day::default());
    // What the command at hand leaves out, and the most that any with rows does.
    let (mut least_ns, mut most_ns) = (0, 0);
    each_line(source, sink, |line, sink| {
        let text = line.text.trim();
        if let Some(ns) = least_of_command(text) {
            least_ns = ns;
        }
        if columns.is_none() && is_headless {
            columns = columns_of(text);
            columns.iter().for_each(|columns| begin(columns, sink));
        }
        if is_header(text) {
            // `DISK ID` is one column over two, with `MAJOR MINOR` as their second line.
            let names = text.replace("DISK ID", "MAJOR MINOR");
            let names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
            begin(&names, sink);
            columns = Some(names);
            return Ok(());
        }
        let Some(columns) = &columns else { return Ok(()) };
        if text.is_empty() || text.starts_with("MAJOR") || text.starts_with("Attach") {
            return Ok(());
        }
        if let Some(count) = lost(text) {
            lost_rows = lost_rows.saturating_add(count);
            return Ok(());
        }
        let mut row = Row::parse(text, columns)?;
        if row.is_of_day {
            row.end_ns = day.later(row.end_ns);
        }
        row.write(source.device.as_deref(), sink)?;
        most_ns = most_ns.max(least_ns);
        Ok(())
    })?;
    if most_ns > 0 {
        sink.slower_than(Layer::Block, most_ns);
    }
    if lost_rows > 0 {
        let because = "the kernel's buffer was full: biosnoop says so between its rows";
        sink.missing(
            format!("{} that biosnoop lost", counted(lost_rows, "request")),
            because,
        );
    }
    Ok(())
}

/// Times of day of one log, which may pass midnight.
#[derive(Default)]
struct Day {
    begin_ns: i64,
    last_ns: i64,
}

impl Day {
    fn later(&mut self, of_day_ns: i64) -> i64 {
        let mut ns = self.begin_ns + of_day_ns;
        if ns < self.last_ns - 12 * HOUR_NS {
            self.begin_ns += 24 * HOUR_NS;
            ns += 24 * HOUR_NS;
        }
        self.last_ns = ns;
        ns
    }
}

const HOUR_NS: i64 = 3_600_000_000_000;

fn has(columns: &[String], name: &str) -> bool {
    columns.iter().any(|column| column == name)
}

fn begin(columns: &[String], sink: &mut Sink) {
    if !has(columns, "TIME(ms)") {
        sink.clock(if has(columns, "TIMESTAMP") {
            Clock::own("midnight", 1_000_000)
        } else {
            Clock::own("the first request of biosnoop", 1000)
        });
        let queue = has(columns, "QUE(ms)").then_some((Stage::Queue, "queue"));
        let mut stages = vec![(Stage::Device, "device+interrupt")];
        stages.extend(queue);
        sink.layer(Layer::Block, &stages);
        if queue.is_none() {
            sink.unseen(
                "time before a request was issued",
                "biosnoop tells it with -Q only",
            );
        }
    } else {
        sink.clock(Clock::own("the begin of bpftrace", 1_000_000));
        sink.layer(Layer::Block, &[(Stage::Queue, "queue+device+interrupt")]);
        sink.resolution(1_000_000);
        sink.unseen(
            "latencies below 1 ms",
            "bpftrace's biosnoop tells whole milliseconds",
        );
        sink.unseen(
            "kinds, places and sizes of requests",
            "bpftrace's biosnoop does not print them",
        );
    }
}

#[derive(Default)]
struct Row<'a> {
    end_ns: i64,
    is_ms: bool,
    is_of_day: bool,
    comm: &'a str,
    pid: Option<i32>,
    disk: String,
    kind: &'a str,
    sector: Option<u64>,
    bytes: Option<i64>,
    queue_ns: Option<i64>,
    latency_ns: i64,
    latency_text: &'a str,
}

impl<'a> Row<'a> {
    fn parse(text: &'a str, columns: &[String]) -> Result<Row<'a>, Bad> {
        let comm_at = columns.iter().position(|column| column == "COMM");
        let comm_at = comm_at.ok_or_else(|| Bad::new("", "a header with COMM", text))?;
        let (mut row, mut rest) = (Row::default(), text);
        let mut numbers = (None, None);
        for column in &columns[..comm_at] {
            let field = word(&mut rest);
            row.field(column, field, &mut numbers)?;
        }
        // bcc prints nothing between BYTES and what follows: `10485761000.00` is a MiB and a second, `1048576R` a MiB at a random place.
        let mut glued = None;
        let after = &columns[comm_at + 1..];
        for (at, column) in after.iter().enumerate().rev() {
            let before = rest;
            let mut field = glued.take().unwrap_or_else(|| last_word(&mut rest));
            if after[..at].last().is_some_and(|one| one == "BYTES") {
                if let Some((bytes, rest)) = unglued(field) {
                    (glued, field) = (Some(bytes), rest);
                }
            }
            // With a pattern column, rows without one leave it blank.
            if is_pattern(column) && !matches!(field, "R" | "S" | "?" | "SEQ" | "RAND") {
                (rest, field) = (before, "");
            }
            // Requests without a disk (of a SCSI layer, flushes) leave its column blank: what stands there is the PID.
            if column == "DISK" && !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_digit()) {
                (rest, field) = (before, "");
            }
            row.field(column, field, &mut numbers)?;
        }
        // bpftrace's latency begins with the request: what it waited in the queue is in it.
        row.queue_ns = row.queue_ns.filter(|_| !row.is_ms);
        row.comm = name_of_bytes(rest.trim());
        if let (Some(major), Some(minor)) = numbers {
            row.disk = device_name((major, minor));
        }
        Ok(row)
    }

    fn field(
        &mut self,
        column: &str,
        field: &'a str,
        numbers: &mut (Option<u32>, Option<u32>),
    ) -> Result<(), Bad> {
        match column {
            "TIME(s)" => self.end_ns = time(field, 1_000_000_000, "TIME(s)")?,
            "TIME(ms)" => {
                self.end_ns = time(field, 1_000_000, "TIME(ms)")?;
                self.is_ms = true;
            }
            "TIMESTAMP" => {
                let wrong = || Bad::new("column TIMESTAMP", "HH:MM:SS.mmm", field);
                self.end_ns = time_of_day_ns(field, "").ok_or_else(wrong)?;
                self.is_of_day = true;
            }
            "PID" => self.pid = Some(integer::<i32>(field, "PID")?).filter(|pid| *pid > 0),
            // bcc and libbpf-tools print so what is no disk that they know.
            "DISK" if matches!(field, "Unknown" | "<unknown>" | "?") => {}
            "DISK" => self.disk = name_of_bytes(field).to_owned(),
            "MAJOR" => numbers.0 = Some(integer(field, "MAJOR")?),
            "MINOR" => numbers.1 = Some(integer(field, "MINOR")?),
            "T" => self.kind = field,
            // Flushes have none, or -1.
            "SECTOR" => self.sector = field.parse::<u64>().ok().filter(|sector| *sector != u64::MAX),
            "BYTES" => self.bytes = Some(integer(field, "BYTES")?),
            // libbpf-tools prints -1 where it did not see the insertion.
            "QUE(ms)" if field.starts_with("-1.") => self.queue_ns = None,
            "QUE(ms)" => self.queue_ns = Some(length(field, 1_000_000, "QUE(ms)")?),
            "LAT(ms)" => {
                self.latency_ns = length(field, 1_000_000, "LAT(ms)")?;
                self.latency_text = field;
            }
            _ => {}
        }
        Ok(())
    }

    /// The kind of the request, and its flags.
    fn op(&self) -> (Op, u32) {
        let count = self.bytes.map_or(1, |bytes| bytes.unsigned_abs() / 512);
        match self.kind {
            "" => (Op::Other, 0),
            // bcc says R of everything that is no write. What has neither a place nor bytes is a flush, and what has bytes only a command.
            "R" if self.sector.unwrap_or(0) == 0 && self.bytes == Some(0) => (Op::Flush, 0),
            "R" if self.sector.is_none() => (Op::Other, 0),
            kind => kind_of(kind.as_bytes(), count),
        }
    }

    fn write(&self, device: Option<&str>, sink: &mut Sink) -> Result<(), ImportError> {
        if let Some((_, digits)) = self.latency_text.split_once('.') {
            sink.resolution(1_000_000 / 10_i64.pow(digits.len().min(6) as u32));
        }
        let (op, flags) = self.op();
        let whole = self.latency_ns + self.queue_ns.unwrap_or(0);
        let mut row = OpRow::plain(self.end_ns.saturating_sub(whole), whole, op);
        let stage = if self.is_ms { Stage::Queue } else { Stage::Device };
        row.stages[stage as usize] = Some(self.latency_ns);
        if self.queue_ns.is_some() {
            row.stages[Stage::Queue as usize] = self.queue_ns;
        }
        row.flags = flags;
        row.device = sink.name_if(device.unwrap_or(&self.disk));
        row.comm = sink.name_if(self.comm);
        row.pid = self.pid;
        row.size_bytes = self.bytes;
        row.offset_bytes = if op == Op::Flush {
            None
        } else {
            self.sector.and_then(sectors)
        };
        sink.op(Layer::Block, row)
    }
}

fn is_pattern(column: &str) -> bool {
    matches!(column, "P" | "PATTERN")
}

/// Bytes, and what stands behind them without a blank. BYTES is seven letters wide, a number behind it as well.
fn unglued(field: &str) -> Option<(&str, &str)> {
    let digits = field.bytes().take_while(u8::is_ascii_digit).count();
    let after = &field[digits..];
    if digits >= 7 && matches!(after, "R" | "S" | "?") {
        return Some((&field[..digits], after));
    }
    if !after.starts_with('.') || digits < 11 {
        return None;
    }
    let is_whole = |bytes: &&str| bytes.parse::<u64>().is_ok_and(|bytes| bytes % 512 == 0);
    let bytes = (7..=digits - 4).map(|end| &field[..end]).find(is_whole)?;
    Some((bytes, &field[bytes.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = "0.000000000    paranoid       17553  sdb     R  0         4096       1.23\n\
        0.000329000    paranoid       17553  sdb     W  0         4096       1.20\n";

    #[test]
    fn what_a_command_leaves_out_is_told() {
        for (line, least_ns) in [
            ("$ sudo ./biosnoop -d sde -m 1 -t", Some(1_000_000)),
            ("# /usr/share/bcc/tools/biosnoop-bpfcc --min=20", Some(20_000_000)),
            ("biosnoop -Qm5", Some(5_000_000)),
            ("biosnoop --min 2 -Q", Some(2_000_000)),
            ("biosnoop -Q | fgrep -m 1 sdb", Some(0)),
            ("biosnoop -m", Some(0)),
            ("biosnoop -m x", Some(0)),
            ("iosnoop -m 1", None),
        ] {
            assert_eq!(least_of_command(line), least_ns, "{line}");
        }
        let header = "TIME(s)     COMM           PID    DISK    T  SECTOR    BYTES   LAT(ms)\n";
        let least_ns = |command: &str| {
            let log = format!("{command}\n{header}{ROWS}");
            let summary = crate::testing::import(&FORMAT, &log).unwrap();
            summary.layers["block"].slower_than_ns
        };
        assert_eq!(least_ns("$ sudo ./biosnoop -m 1"), Some(1_000_000));
        assert_eq!(least_ns("$ sudo ./biosnoop"), None);
        // Of a run without rows nothing is left out.
        assert_eq!(least_ns("$ sudo ./biosnoop -m 1\n$ sudo ./biosnoop"), None);
    }

    #[test]
    fn rows_without_a_header_may_have_prose_around_them() {
        let said = "* `biosnoop` (0.20ms):\nThis is what it shows of it:\n";
        for log in [
            ROWS.to_owned(),
            format!("{said}{ROWS}"),
            format!("{said}$ sudo biosnoop | fgrep sdb\n{ROWS}This shows it.\n`\n"),
            format!("{said}```\n$ sudo biosnoop | fgrep sdb\n{ROWS}```\n{said}"),
        ] {
            let summary = crate::testing::import(&FORMAT, &log).unwrap();
            assert_eq!((summary.records, summary.left_out), (2, 0), "{log}");
        }
        let is_of = |text: String| {
            recognise(&Head {
                name: "log".into(),
                bytes: text.into_bytes(),
            })
        };
        let first = ROWS.lines().next().unwrap();
        assert!(is_of(format!("{first}\n")) && !is_of(format!("{said}{first}\n")));
    }

    fn row<'a>(text: &'a str, header: &str) -> Row<'a> {
        let columns: Vec<String> = header.split_whitespace().map(str::to_owned).collect();
        Row::parse(text, &columns).unwrap()
    }

    #[test]
    fn what_bcc_says_r_of_may_be_no_read() {
        let header = "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)";
        for (text, op) in [
            ("0.004578 ? 0 R 0 0 4.00", Op::Flush),
            ("0.004578 ? 0 R 18446744073709551615 0 4.00", Op::Flush),
            (
                "0.004578 kworker/4:2 7497 R 18446744073709551615 8 0.53",
                Op::Other,
            ),
            ("0.004578 a 7497 sda R 0 4096 0.53", Op::Read),
        ] {
            assert_eq!(row(text, header).op().0, op, "{text}");
        }
    }

    #[test]
    fn rows_are_known_without_their_header() {
        let rows = "0.000000    paranoid       17553  sdb     R  0         4096       0.23\n\
            4.338511    Disk Cache 1   17553  sdb     WS 8         4096       0.27\n";
        let summary = crate::testing::import(&FORMAT, rows).unwrap();
        assert_eq!(summary.rows, 2);
        assert!(summary.end_ns >= 4_338_511_000);
        let with_queue = "0.000000    kworker/u72:1  13379  nvme1n1 W 1142400    4096      0.01    0.55";
        assert_eq!(columns_of(with_queue).unwrap()[7], "QUE(ms)");
        for other in [
            "",
            "1 2 3 4 5 6 7 8",
            "0.1 a 1 sda X 0 4096 0.2",
            "0.1 1 sda R 0 4096 0.2",
        ] {
            assert!(columns_of(other).is_none(), "{other}");
        }
    }

    #[test]
    fn rows_that_somebody_cut_out_are_told() {
        let log = "# ./biosnoop\nTIME(s)     COMM           PID    DISK    T SECTOR     BYTES   LAT(ms)\n\
            0.000004    supervise      1950   xvda1   W 13092560   4096       0.74\n[...]\n\
            1.000004    supervise      1950   xvda1   W 13092568   4096       0.75\n[...]\n^C\n$ ";
        let summary = crate::testing::import(&FORMAT, log).unwrap();
        assert_eq!((summary.rows, summary.cut.len()), (2, 0));
        let missing = &summary.missing[0];
        assert!(missing.what.ends_with("in 2 places"), "{}", missing.what);
        assert_eq!(missing.because, "the first is line 4");
    }

    #[test]
    fn bytes_stand_close_to_what_follows() {
        let plain = "TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  LAT(ms)";
        let read = row(
            "4.000213    dd             811     sdb       W 2048       10485761000.25",
            plain,
        );
        assert_eq!((read.bytes, read.latency_ns), (Some(1_048_576), 1_000_250_000));
        let read = row(
            "4.000213    dd             811     sdb       W 2048       41943041000.25",
            plain,
        );
        assert_eq!((read.bytes, read.latency_ns), (Some(4_194_304), 1_000_250_000));
        let queued = "TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  P QUE(ms) LAT(ms)";
        for (bytes, pattern) in [
            ("1048576", "R"),
            ("4096   ", "S"),
            ("8192   ", "?"),
            ("512    ", " "),
        ] {
            let text = format!(
                "4.000213    dd x           811     sdb       W 2048       {bytes}{pattern}    0.02    7.50"
            );
            let read = row(&text, queued);
            assert_eq!(
                (read.bytes, read.comm),
                (bytes.trim().parse().ok(), "dd x"),
                "{text}"
            );
            assert_eq!(
                (read.queue_ns, read.latency_ns),
                (Some(20_000), 7_500_000),
                "{text}"
            );
        }
    }

    #[test]
    fn rows_of_libbpf_tools_tell_the_time_of_day_and_what_was_not_seen() {
        let header = "TIMESTAMP    COMM           PID     DISK    T    SECTOR     BYTES   QUE(ms) LAT(ms)";
        assert!(is_header(header));
        let read = row(
            "23:59:59.750 fio            77      Unknown WS   -1         0        -1.000   0.125",
            header,
        );
        assert_eq!((read.end_ns, read.queue_ns), (86_399_750_000_000, None));
        assert_eq!((read.sector, read.latency_ns), (None, 125_000));
        let mut day = Day::default();
        let moments = [read.end_ns, 1_000_000_000, 500_000_000].map(|ns| day.later(ns));
        assert_eq!(moments[1..], [86_401_000_000_000, 86_400_500_000_000]);
    }

    #[test]
    fn whole_milliseconds_hold_the_queue() {
        // A header of two tools.
        let header = "TIME(ms) COMM PID DISK T SECTOR BYTES QUE(ms) LAT(ms)";
        let read = row("7 dd 811 sdb W 2048 512 0.50 9", header);
        assert_eq!((read.queue_ns, read.latency_ns), (None, 9_000_000));
    }

    #[test]
    fn requests_without_a_disk_leave_its_column_blank() {
        let header = "TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  LAT(ms)";
        let read = row(
            "0.000000    kworker/3:1    9126           R 18446744073709551615 0         0.25",
            header,
        );
        assert_eq!(
            (read.comm, read.pid, read.disk.as_str()),
            ("kworker/3:1", Some(9126), "")
        );
        assert_eq!(
            (read.sector, read.bytes, read.latency_ns),
            (None, Some(0), 250_000)
        );
        assert_eq!(read.op().0, Op::Flush);
        let read = row(
            "0.359278    ?              0              R 0          8         2.75",
            header,
        );
        assert_eq!(
            (read.comm, read.pid, read.bytes, read.op().0),
            ("?", None, Some(8), Op::Read)
        );
    }

    #[test]
    fn lost_rows_are_counted() {
        let all = [
            "lost 12 events on CPU #3",
            "Possibly lost 7 samples",
            "Lost 3 events",
            "lost dog 1 2 3",
        ];
        assert_eq!(all.map(lost), [Some(12), Some(7), Some(3), None]);
    }

    #[test]
    fn names_may_be_printed_as_bytes() {
        let columns: Vec<String> = "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)"
            .split(' ')
            .map(str::to_owned)
            .collect();
        let row = Row::parse("0.004183 b'jbd2/sda1' 2617 b'sda' W 113638 8192 5.49", &columns).unwrap();
        assert_eq!((row.comm, row.disk.as_str()), ("jbd2/sda1", "sda"));
    }

    #[test]
    fn rows_without_a_pattern_leave_its_column_blank() {
        let header = "TIME(s) COMM PID DISK T SECTOR BYTES PATTERN LAT(ms)";
        let columns: Vec<String> = header.split(' ').map(str::to_owned).collect();
        for comm in ["kworker/u8:1", "a b", "\u{fffd}\u{fffd}"] {
            for pattern in ["", "RAND"] {
                let line = format!("0.004183 {comm} 2617 nvme1n1 W 113638 8192 {pattern:7} 5.49");
                let row = Row::parse(&line, &columns).unwrap();
                assert_eq!(
                    (row.comm, row.pid, row.disk.as_str()),
                    (comm, Some(2617), "nvme1n1")
                );
                assert_eq!(
                    (row.sector, row.bytes, row.latency_ns),
                    (Some(113_638), Some(8192), 5_490_000)
                );
            }
        }
    }
}

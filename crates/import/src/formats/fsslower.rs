//! Text and CSV (`-j`, `-c`) of fsslower, ext4slower, xfsslower, btrfsslower, nfsslower (bcc, libbpf-tools), and text of fileslower (bcc): operations of a file system above a threshold.
//!
//! Names of programs may hold spaces: `PID T BYTES OFF_KB LAT(ms)` in its middle marks a row. Runs of one file may have different thresholds: of all
//! of them what took longer than the largest is read, so that one threshold is true of every row. Source: the tools' print statements.
use super::calendar::time_of_day_ns;
use crate::clock::Clock;
use crate::error::Bad;
use crate::format::{alone, Format, Head, Source};
use crate::lines::Lines;
use crate::prefix;
use crate::records::each_line;
use crate::sink::{one_stage_op, Sink};
use crate::text::{counted, integer, length, name_of_bytes, scaled, time, word};
use crate::ImportError;
use case::schema::{Layer, Op, OpRow, Stage};

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "fsslower",
    about: "text and CSV of fsslower, ext4slower, xfsslower, btrfsslower, nfsslower, fileslower: slow operations of a file system",
    not_carried: &[
        (
            "operations faster than the tool's threshold",
            "they are not in the log: how slow is usual, and how many were fast, cannot be told",
        ),
        (
            "requests below the file system",
            "these tools see its reads, writes, opens and syncs only; paths are names without folders",
        ),
    ],
    recognise,
    together: alone,
    read,
};

fn is_csv_header(line: &str) -> bool {
    line.starts_with("ENDTIME_") && line.contains(",TASK,PID,TYPE,BYTES,")
}

fn is_header(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.starts_with(&["TIME", "COMM", "PID", "T", "BYTES", "OFF_KB"])
}

/// fileslower's: seconds since its first row, and no place.
fn is_fileslower_header(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    matches!(
        words[..],
        [
            "TIME(s)",
            "COMM",
            "PID" | "TID",
            "D",
            "BYTES",
            "LAT(ms)",
            "FILENAME"
        ]
    )
}

fn recognise(head: &Head) -> bool {
    head.has_line(|line| is_csv_header(line) || is_header(line) || is_fileslower_header(line))
}

fn kind(letter: &str) -> Option<Op> {
    Some(match letter {
        "R" => Op::Read,
        "W" => Op::Write,
        // C is the commit of NFS, which makes its writes durable.
        "S" | "F" | "C" => Op::Sync,
        "O" => Op::Open,
        // getattr
        "G" => Op::Other,
        _ => return None,
    })
}

/// What libbpf-tools prints where a sync has no end: the whole file.
const ALL_BYTES: &str = "LL_MAX";

/// Fields of a row of text, found by their shapes.
fn fields(text: &str, has_place: bool) -> Option<[&str; 8]> {
    let mut words = Vec::new();
    let mut rest = text;
    while words.len() < 64 {
        let word = word(&mut rest);
        if word.is_empty() {
            break;
        }
        words.push(word);
    }
    let is_number = |word: &str| word.trim_start_matches('-').parse::<u64>().is_ok();
    // Where the latency stands behind the PID.
    let latency = if has_place { 4 } else { 3 };
    let at = (2..words.len().saturating_sub(latency)).find(|&at| {
        is_number(words[at])
            && kind(words[at + 1]).is_some()
            && (is_number(words[at + 2]) || words[at + 2] == ALL_BYTES)
            && (!has_place || is_number(words[at + 3]))
            && words[at + latency].contains('.')
    })?;
    let place = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    let comm = text.get(place(words[1])..place(words[at]))?.trim();
    let file = words
        .get(at + latency + 1)
        .map_or("", |word| text[place(word)..].trim());
    Some([
        words[0],
        comm,
        words[at],
        words[at + 1],
        words[at + 2],
        if has_place { words[at + 3] } else { "" },
        words[at + latency],
        file,
    ])
}

/// The smallest threshold that the tools can have.
const THRESHOLD_NS_MIN: i64 = 1_000_000;

#[derive(Default)]
struct Reader {
    /// Nanoseconds of a unit of ENDTIME; None: text.
    csv_unit_ns: Option<i64>,
    /// Of fileslower.
    is_relative: bool,
    is_told: bool,
    day_ns: i64,
    last_ns: i64,
    places: u64,
    /// What the lines say that begin runs: the largest threshold; None: nothing, or none.
    threshold_ns: Option<i64>,
    /// Rows that other runs of the file would not have.
    below_threshold: u64,
    /// Rows of which the latency is printed as nought.
    no_time: u64,
    fastest_ns: i64,
}

/// What a line that begins a run says: nought if all operations are in it. None: it is no such line.
fn threshold_of(line: &str) -> Option<Result<i64, Bad>> {
    let text = line.trim();
    if !text.starts_with("Tracing ") {
        return None;
    }
    let Some((_, mut rest)) = text.split_once("slower than ") else {
        return Some(Ok(0));
    };
    let (number, unit) = (word(&mut rest), word(&mut rest));
    let threshold_ns = scaled(number, 1_000_000).filter(|_| unit.starts_with("ms"));
    Some(threshold_ns.ok_or_else(|| Bad::new("", "slower than N ms", text)))
}

/// The largest threshold of the runs in a file that have rows, if one has any.
fn largest_threshold(source: &Source) -> Result<Option<i64>, ImportError> {
    let (mut largest_ns, mut of_run) = (None, None);
    for path in &source.files {
        let mut lines = Lines::open(path)?;
        let prefix = prefix::of(path);
        while lines.next_line()? {
            let line = String::from_utf8_lossy(lines.line());
            let text = prefix
                .and_then(|prefix| prefix.split(&line))
                .map_or(&*line, |(_, rest)| rest);
            if let Some(threshold) = threshold_of(text) {
                of_run = threshold.ok();
            } else if of_run.is_some() && [true, false].iter().any(|has| fields(text, *has).is_some()) {
                largest_ns = largest_ns.max(of_run.take());
            }
        }
    }
    Ok(largest_ns.filter(|ns| *ns > 0))
}

impl Reader {
    fn row(&mut self, text: &str, sink: &mut Sink) -> Result<Option<OpRow>, Bad> {
        let Some(unit_ns) = self.csv_unit_ns else {
            return self.text_row(text, sink);
        };
        // A file's name may hold commas, and is last.
        let cells: Vec<&str> = text.splitn(8, ',').collect();
        let [end, comm, pid, letter, bytes, offset, latency, file] = cells[..] else {
            return Err(Bad::new(
                "",
                "ENDTIME,TASK,PID,TYPE,BYTES,OFFSET,LATENCY,FILE",
                text,
            ));
        };
        let end_ns = time(end, unit_ns, "ENDTIME")?;
        let latency_ns = length(latency, 1000, "LATENCY_us")?;
        let mut row = self.op(end_ns, latency_ns, [comm, pid, letter, bytes, file], sink)?;
        if matches!(row.op, Op::Read | Op::Write) {
            row.offset_bytes = Some(integer(offset, "OFFSET_b")?);
        }
        Ok(Some(row))
    }

    fn text_row(&mut self, text: &str, sink: &mut Sink) -> Result<Option<OpRow>, Bad> {
        let Some([end, comm, pid, letter, bytes, place, latency, file]) = fields(text, !self.is_relative)
        else {
            let expected = "TIME COMM PID T BYTES OFF_KB LAT(ms) FILENAME";
            return Err(Bad::new("", expected, text));
        };
        let latency_ns = length(latency, 1_000_000, "LAT(ms)")?;
        if self.is_relative {
            let end_ns = time(end, 1_000_000_000, "TIME(s)")?;
            return Ok(Some(self.op(
                end_ns,
                latency_ns,
                [comm, pid, letter, bytes, file],
                sink,
            )?));
        }
        let mut end_ns = time_of_day_ns(end, "").ok_or_else(|| Bad::new("column TIME", "HH:MM:SS", end))?;
        // Times of day that fall by more than half a day are the next day's.
        end_ns += self.day_ns;
        if end_ns < self.last_ns - 43_200_000_000_000 {
            self.day_ns += 86_400_000_000_000;
            end_ns += 86_400_000_000_000;
        }
        self.last_ns = end_ns;
        let row = self.op(end_ns, latency_ns, [comm, pid, letter, bytes, file], sink)?;
        self.places += u64::from(matches!(row.op, Op::Read | Op::Write) && !place.is_empty());
        Ok(Some(row))
    }

    fn op(
        &self,
        end_ns: i64,
        latency_ns: i64,
        [comm, pid, letter, bytes, file]: [&str; 5],
        sink: &mut Sink,
    ) -> Result<OpRow, Bad> {
        let op = kind(letter).ok_or_else(|| Bad::new("column T", "R, W, O, S, F or G", letter))?;
        let mut row = one_stage_op(end_ns - latency_ns, latency_ns, op, Stage::Fs);
        row.comm = sink.name_if(name_of_bytes(comm));
        row.file = sink.name_if(name_of_bytes(file));
        row.pid = Some(integer(pid, "PID")?);
        let bytes: i64 = match bytes {
            ALL_BYTES => -1,
            _ => integer(bytes, "BYTES")?,
        };
        if matches!(op, Op::Read | Op::Write) {
            row.size_bytes = (bytes >= 0).then_some(bytes);
        }
        Ok(row)
    }

    fn tell(&mut self, sink: &mut Sink) {
        if std::mem::replace(&mut self.is_told, true) {
            return;
        }
        sink.clock(match self.csv_unit_ns {
            Some(unit_ns) => Clock::boot(unit_ns),
            None if self.is_relative => Clock::own("the first row of fileslower", 1_000_000),
            None => Clock::own("midnight", 1_000_000_000),
        });
        sink.resolution(if self.csv_unit_ns.is_some() { 1000 } else { 10_000 });
        sink.layer(
            Layer::Syscall,
            &[(Stage::Fs, "fs+queue+device+interrupt+reap+runqueue")],
        );
    }
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let mut reader = Reader {
        threshold_ns: largest_threshold(source)?,
        fastest_ns: i64::MAX,
        ..Reader::default()
    };
    each_line(source, sink, |line, sink| {
        let text = line.text.trim();
        if is_fileslower_header(text) {
            reader.is_relative = true;
            return Ok(());
        }
        if let Some(threshold) = threshold_of(text) {
            threshold?;
            return Ok(());
        }
        if text.is_empty() || is_header(text) {
            return Ok(());
        }
        if is_csv_header(text) {
            reader.csv_unit_ns = Some(if text.starts_with("ENDTIME_ns") { 1 } else { 1000 });
            return Ok(());
        }
        if let Some(row) = reader.row(text, sink)? {
            reader.tell(sink);
            reader.fastest_ns = reader.fastest_ns.min(row.latency_ns);
            // Printed as rounded: what took a little longer may have just the threshold's latency.
            if reader
                .threshold_ns
                .is_some_and(|least_ns| row.latency_ns < least_ns)
            {
                reader.below_threshold += 1;
                sink.record_without_row();
                return Ok(());
            }
            reader.no_time += u64::from(row.latency_ns == 0);
            sink.op(Layer::Syscall, row)?;
        }
        Ok(())
    })?;
    // CSV does not say its threshold, which is of whole milliseconds: what took less shows that there was none.
    let threshold_ns = match (reader.threshold_ns, reader.fastest_ns) {
        (None, fastest_ns) if reader.csv_unit_ns.is_some() && fastest_ns >= THRESHOLD_NS_MIN => {
            Some(fastest_ns / THRESHOLD_NS_MIN * THRESHOLD_NS_MIN)
        }
        (said, _) => said.filter(|_| reader.is_told),
    };
    if let Some(threshold_ns) = threshold_ns {
        sink.slower_than(Layer::Syscall, threshold_ns);
    }
    if let (Some(threshold_ns), 1..) = (reader.threshold_ns, reader.below_threshold) {
        sink.missing(
            format!(
                "{} of runs with a lower threshold",
                counted(reader.below_threshold, "operation")
            ),
            format!(
                "another run in {} logged only what took over {} ms, and so all are read; import each run alone to have them",
                source.name(),
                threshold_ns as f64 / 1e6
            ),
        );
    }
    if reader.no_time > 0 {
        sink.missing(
            format!("how long {} took", counted(reader.no_time, "operation")),
            match reader.csv_unit_ns {
                Some(_) => "the log says 0 us, which is less than 1 us; they count as 0",
                None => "the log says 0.00 ms, which is less than 5 us; they count as 0",
            },
        );
    }
    if reader.places > 0 {
        sink.unseen(
            format!("offsets of {}", counted(reader.places, "operation")),
            "text tells whole KiB only; CSV (-j) tells bytes",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syncs_of_whole_files_are_rows() {
        let text = "10:54:32 postgres: check   811     F LL_MAX  0          12.50 16384 a";
        let expected = [
            "10:54:32",
            "postgres: check",
            "811",
            "F",
            "LL_MAX",
            "0",
            "12.50",
            "16384 a",
        ];
        assert_eq!(fields(text, true), Some(expected));
        assert_eq!(["S", "F", "C"].map(kind), [Some(Op::Sync); 3]);
    }

    #[test]
    fn rows_of_fileslower_have_no_place() {
        assert!(is_fileslower_header(
            "TIME(s)  COMM           TID    D BYTES   LAT(ms) FILENAME"
        ));
        let text = "8.850    my app 2       4762   R 8192      11.26 data 1";
        let expected = ["8.850", "my app 2", "4762", "R", "8192", "", "11.26", "data 1"];
        assert_eq!(fields(text, false), Some(expected));
    }

    #[test]
    fn one_threshold_is_true_of_all_rows() {
        let header = "TIME     COMM             PID     T BYTES   OFF_KB   LAT(ms) FILENAME\n";
        let run = |said: &str, rows: &[&str]| {
            let rows: String = rows
                .iter()
                .map(|latency| {
                    format!("14:21:38 dockerd          171259  O 0       0           {latency} os-release\n")
                })
                .collect();
            format!("$ sudo ./fsslower -t ext4\nTracing ext4 operations{said} Hit Ctrl-C to end.\n{header}{rows}^C\n")
        };
        let read = |log: &str| {
            let summary = crate::testing::import(&FORMAT, log).unwrap();
            let missing: Vec<String> = summary.missing.iter().map(|unseen| unseen.what.clone()).collect();
            (summary.rows, summary.layers["syscall"].slower_than_ns, missing)
        };
        let (of_1_ms, of_all) = (" slower than 1 ms...", "...");
        let lower = "2 operations of runs with a lower threshold".to_owned();
        // Whichever run comes first.
        for log in [
            run(of_1_ms, &["6.85"]) + &run(of_all, &["0.00", "0.90", "1.00"]),
            run(of_all, &["0.00", "0.90", "1.00"]) + &run(of_1_ms, &["6.85"]),
        ] {
            assert_eq!(read(&log), (2, Some(1_000_000), vec![lower.clone()]), "{log}");
        }
        // What logged nothing left nothing out.
        let log = run(of_1_ms, &[]) + &run(of_all, &["0.00", "0.90"]);
        assert_eq!(
            read(&log),
            (2, None, vec!["how long 1 operation took".to_owned()])
        );
    }

    #[test]
    fn tags_of_a_page_and_what_it_leaves_out_are_no_rows() {
        let log = "<pre class=\"file\">\nTracing XFS operations slower than 10 ms\n\
            TIME     COMM           PID    T BYTES   OFF_KB   LAT(ms) FILENAME\n\
            09:22:58 b'yum'         77726  S 0       0         567.45 b'packages.db-journal'\n\
            << OUTPUT ABRIDGED >>\n</pre>\n";
        let summary = crate::testing::import(&FORMAT, log).unwrap();
        assert_eq!(
            (summary.rows, summary.missing.len()),
            (1, 1),
            "{:?}",
            summary.missing
        );
        let (mut names, mut silent) = (case::sealed::Names::default(), |_: u64| {});
        let mut sink = Sink::survey(&mut names, &mut silent, false);
        let words = ["b'yum'", "77726", "S", "0", "b'packages.db-journal'"];
        let row = Reader::default().op(9, 5, words, &mut sink).unwrap();
        let expected = ["yum", "packages.db-journal"].map(|name| Some(sink.name(name)));
        assert_eq!([row.comm, row.file], expected);
    }
}

//! Snapshots of /proc/diskstats, a file each in the order given, or one after the other in one file: differences between one and the next become
//! samples.
//!
//! Source: Documentation/admin-guide/iostats.rst. A snapshot has no moment: rates need a line above it that tells it, or `--map every=TIME`.
use super::snapshots::{of_one_folder, Moments};
use super::stamps::stamp_ns;
use crate::error::{Bad, RecordError};
use crate::format::{Format, Head, Source};
use crate::records::each_line;
use crate::sink::Sink;
use crate::text::integer;
use crate::ImportError;
use case::schema::SubjectKind;
use std::collections::{HashMap, HashSet};

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "diskstats",
    about:
        "two or more snapshots of /proc/diskstats: mean latency and size between them, as samples per device",
    not_carried: &[
        (
            "single operations",
            "counters hold averages between two snapshots; outliers inside cannot be seen",
        ),
        (
            "latencies to better than 1 ms in sum",
            "the kernel counts whole milliseconds per device",
        ),
    ],
    recognise,
    together: of_one_folder,
    read,
};

/// The counters of a row: operations, merges, sectors and milliseconds of reads, then of writes. Partitions of kernels before 2.6.25 have
/// operations and sectors only.
#[derive(Clone, Copy)]
struct Counters {
    counts: [u64; 8],
    has_times: bool,
}

impl Counters {
    /// A row's device and counters; None if it has neither as many as a disk nor as few as an old partition.
    fn of<'a>(words: &[&'a str]) -> Option<Result<(&'a str, Counters), Bad>> {
        let places: &[usize] = match words.len() {
            7 => &[0, 2, 4, 6],
            14.. => &[0, 1, 2, 3, 4, 5, 6, 7],
            _ => return None,
        };
        let mut counts = [0_u64; 8];
        for (place, word) in places.iter().zip(&words[3..]) {
            match integer(word, "of a counter") {
                Ok(count) => counts[*place] = count,
                Err(bad) => return Some(Err(bad)),
            }
        }
        let has_times = places.len() == counts.len();
        Some(Ok((words[2], Counters { counts, has_times })))
    }

    /// What was counted since; None if the counters went back.
    fn since(&self, old: &Counters) -> Option<[u64; 8]> {
        let mut grown = self.counts;
        for (count, old) in grown.iter_mut().zip(old.counts) {
            *count = count.checked_sub(old)?;
        }
        Some(grown)
    }
}

fn is_row(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |at: usize| words[at].parse::<u64>().is_ok();
    matches!(words.len(), 7 | 14 | 18 | 20)
        && words[2].parse::<u64>().is_err()
        && (0..words.len()).all(|at| at == 2 || number(at))
}

fn recognise(head: &Head) -> bool {
    let lines: Vec<&str> = head
        .filled_lines()
        .filter(|line| stamp_ns(line).is_none())
        .take(20)
        .collect();
    let rows: Vec<&&str> = lines.iter().filter(|line| is_row(line)).collect();
    // A damaged line among them does not make it another format.
    2 * rows.len() > lines.len() && rows.iter().any(|line| line.split_whitespace().count() >= 14)
}

struct Reader {
    moments: Moments,
    /// Each device's last counters, and when they were taken.
    before: HashMap<String, (Counters, i64)>,
    /// Devices of the snapshot at hand; none before it began.
    of_snapshot: HashSet<String>,
    /// Whether any device was compared with what it was before, and did something since.
    compared: bool,
    grew: bool,
}

impl Reader {
    fn line(&mut self, text: &str, sink: &mut Sink) -> Result<(), RecordError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() {
            return Ok(());
        }
        if self.moments.stamp(text) {
            self.of_snapshot.clear();
            return Ok(());
        }
        let Some(row) = Counters::of(&words) else {
            return Err(Bad::new("", "major, minor, name and 11 counters or more", text).into());
        };
        let (device, now) = row?;
        // In one file, a snapshot ends where a device comes again.
        if self.of_snapshot.is_empty() || self.of_snapshot.contains(device) {
            self.of_snapshot.clear();
            self.moments.begin(sink);
        }
        self.of_snapshot.insert(device.to_owned());
        let now_ns = self.moments.now_ns();
        let old = self.before.insert(device.to_owned(), (now, now_ns));
        sink.record_without_row();
        let Some((old, old_ns)) = old else {
            return Ok(());
        };
        match now.since(&old) {
            Some(grown) => {
                let has_times = now.has_times && old.has_times;
                self.compared = true;
                self.grew |= grown.iter().any(|count| *count > 0);
                self.sample(device, &grown, has_times, old_ns, sink)?;
            }
            None => sink.unseen(
                format!("what {device} did before a snapshot"),
                "its counters went back: it was new, they were full, or the machine restarted",
            ),
        }
        Ok(())
    }

    fn sample(
        &self,
        device: &str,
        grown: &[u64; 8],
        has_times: bool,
        old_ns: i64,
        sink: &mut Sink,
    ) -> Result<(), ImportError> {
        if grown.iter().all(|count| *count == 0) {
            return Ok(());
        }
        let mut values = Vec::new();
        for (op, at) in [("read", 0), ("write", 4)] {
            values.push((sink.name(&format!("{op}_operations")), grown[at] as f64));
            if let Some(seconds) = self.moments.seconds_since(old_ns) {
                let rates = [
                    ("operations_per_s", 1.0, at),
                    ("throughput_bytes_per_s", 512.0, at + 2),
                ];
                for (name, factor, at) in rates {
                    let rate = grown[at] as f64 * factor / seconds;
                    values.push((sink.name(&format!("{op}_{name}")), rate));
                }
            }
            if grown[at] > 0 {
                let count = grown[at] as f64;
                if has_times {
                    values.push((
                        sink.name(&format!("{op}_latency_ns")),
                        grown[at + 3] as f64 * 1e6 / count,
                    ));
                }
                values.push((
                    sink.name(&format!("{op}_size_bytes")),
                    grown[at + 2] as f64 * 512.0 / count,
                ));
            }
        }
        let subject = sink.name(device);
        sink.sum(self.moments.now_ns(), None, SubjectKind::Device, subject, &values)
    }
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let mut reader = Reader {
        moments: Moments::of(source)?,
        before: HashMap::new(),
        of_snapshot: HashSet::new(),
        compared: false,
        grew: false,
    };
    for path in &source.files {
        let one = Source {
            files: vec![path.clone()],
            ..source.clone()
        };
        // A file begins a snapshot.
        reader.of_snapshot.clear();
        each_line(&one, sink, |line, sink| reader.line(line.text, sink))?;
    }
    reader.moments.tell(sink);
    if reader.compared && !reader.grew {
        sink.unseen(
            "what the devices did",
            "none of them did anything between the snapshots",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import(text: &str) -> crate::Summary {
        crate::testing::import(&FORMAT, text).unwrap()
    }

    const SDA: &str = "   8       0 sda 10 0 80 20 5 1 40 60 0 50 80\n   8       1 sda1 10 80 5 40\n";
    const SDA_LATER: &str = "   8       0 sda 12 0 112 30 5 1 40 60 0 50 80\n   8       1 sda1 12 112 5 40\n";

    #[test]
    fn devices_that_did_nothing_are_told() {
        let snapshot = "254 0 vda 5081309 94764 129804074 4121726 1865542 546127 15292 4000 0 5000 6000\n";
        let log = format!("1795769543\n{snapshot}1795769544\n{snapshot}");
        let summary = crate::testing::import(&FORMAT, &log).unwrap();
        let said: Vec<&str> = summary
            .not_observed
            .iter()
            .map(|unseen| unseen.because.as_str())
            .collect();
        assert_eq!(summary.rows, 0);
        assert!(
            said.contains(&"none of them did anything between the snapshots"),
            "{said:?}"
        );
    }

    #[test]
    fn snapshots_in_one_file_follow_each_other() {
        let stamped = import(&format!(
            "TS 1283888686.25 2010-09-07 19:44:46\n{SDA}TS 1283888688.25\n{SDA_LATER}"
        ));
        assert_eq!(stamped.start_unix_ns, Some(1_283_888_688_250_000_000));
        // Four rows. Of the disk: operations and rates of reads and writes, latency and size of reads; of the partition all but the latency.
        assert_eq!((stamped.records, stamped.rows), (4, 8 + 7));
        assert!(!stamped
            .not_observed
            .iter()
            .any(|unseen| unseen.what.contains("rates")));
        // Without moments they are a second apart, and there are no rates.
        let three = import(&format!(
            "{SDA}{SDA_LATER}{}",
            SDA_LATER.replace("sda 12", "sda 13")
        ));
        assert_eq!(
            (three.start_ns, three.end_ns, three.rows),
            (0, 2_000_000_000, 4 + 3 + 4)
        );
        assert!(three
            .not_observed
            .iter()
            .any(|unseen| unseen.what.contains("rates")));
    }

    #[test]
    fn a_partition_of_an_old_kernel_has_no_times() {
        let words = |line: &'static str| line.split_whitespace().collect::<Vec<_>>();
        let (device, old) = Counters::of(&words("8 1 sda1 35486 38030 7 56"))
            .unwrap()
            .unwrap();
        assert_eq!(
            (device, old.counts, old.has_times),
            ("sda1", [35486, 0, 38030, 0, 7, 0, 56, 0], false)
        );
        assert!(Counters::of(&words("8 1 sda1 35486 38030 7")).is_none());
        assert!(Counters::of(&words("8 1 sda1 35486 x 7 56")).unwrap().is_err());
        assert!(!is_row("8 1 2 35486 38030 7 56"));
    }
}

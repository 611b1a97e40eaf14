//! Snapshots of /proc/diskstats, a file each in the order given, or one after the other in one file: differences between one and the next become
//! samples.
//!
//! Source: Documentation/admin-guide/iostats.rst. A snapshot has no moment: rates need a line above it that tells it, or `--map every=TIME`.
use super::snapshots::{is_beside, is_command, of_one_folder, Moments};
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
        "two or more snapshots of /proc/diskstats: mean latency, size, queue depth and busy time between them, as samples per device",
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

/// What snapshots are of.
const PATH: &str = "/proc/diskstats";

/// Counters of a row in the kernel's order: of reads (from 0) and of writes (from 4) operations, merges, sectors and milliseconds; then what is in
/// flight now, busy milliseconds, and milliseconds of all requests together; of discards (from 11) as of reads; flushes and their milliseconds.
/// Partitions of kernels before 2.6.25 have operations and sectors only, kernels before 4.18 no discards, those before 5.5 no flushes.
const COUNTERS: usize = 17;
const IN_FLIGHT: usize = 8;
const BUSY_MS: usize = 9;
const WAITED_MS: usize = 10;
const FLUSHES: usize = 15;
/// Kinds of requests, where their counters begin, and how many counters a row must have for them.
const KINDS: [(&str, usize, usize); 3] = [("read", 0, 8), ("write", 4, 8), ("discard", 11, 15)];
/// The kernel prints milliseconds with 32 bits: they begin again at 0 after 49 days.
const OF_TIME: [usize; 6] = [3, 7, BUSY_MS, WAITED_MS, 14, 16];

#[derive(Clone, Copy)]
struct Counters {
    counts: [u64; COUNTERS],
    /// How many of them the row has; of an old partition (four, without times), 0.
    known: usize,
}

impl Counters {
    /// A row's device and counters; None if it has neither as many as a disk nor as few as an old partition.
    fn of<'a>(words: &[&'a str]) -> Option<Result<(&'a str, Counters), Bad>> {
        let mut counts = [0_u64; COUNTERS];
        let known = match words.len() {
            7 => 0,
            many @ 14.. => (many - 3).min(COUNTERS),
            _ => return None,
        };
        for (number, word) in words[3..].iter().take(COUNTERS).enumerate() {
            let place = if known == 0 { 2 * number } else { number };
            match integer(word, "of a counter") {
                Ok(count) => counts[place] = count,
                Err(bad) => return Some(Err(bad)),
            }
        }
        Some(Ok((words[2], Counters { counts, known })))
    }

    /// What was counted since, and what is in flight now; None if the counters went back.
    fn since(&self, old: &Counters) -> Option<Counters> {
        let mut grown = *self;
        for (at, (count, old)) in grown.counts.iter_mut().zip(old.counts).enumerate() {
            *count = match count.checked_sub(old) {
                _ if at == IN_FLIGHT => *count,
                None if OF_TIME.contains(&at) && old <= u64::from(u32::MAX) => *count + (1 << 32) - old,
                grown => grown?,
            };
        }
        grown.known = self.known.min(old.known);
        Some(grown)
    }

    /// Whether anything was counted.
    fn has_any(&self) -> bool {
        let counts = self.counts.iter().enumerate();
        counts
            .into_iter()
            .any(|(at, count)| at != IN_FLIGHT && *count > 0)
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
        .filter(|line| stamp_ns(line).is_none() && !is_beside(line) && !is_command(line, PATH))
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
        if is_beside(text) && !text.trim().starts_with("==>") && stamp_ns(text).is_none() {
            return Ok(());
        }
        if self.moments.stamp(text) || is_beside(text) || is_command(text, PATH) {
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
                self.compared = true;
                self.grew |= grown.has_any();
                // Loop and RAM devices that nobody uses are no devices at all.
                if now.has_any() {
                    self.sample(device, &grown, old_ns, sink)?;
                }
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
        grown: &Counters,
        old_ns: i64,
        sink: &mut Sink,
    ) -> Result<(), ImportError> {
        let seconds = self.moments.seconds_since(old_ns);
        // A device that did nothing has rates of 0, where there are rates.
        if seconds.is_none() && !grown.has_any() {
            return Ok(());
        }
        let count = |at: usize| grown.counts[at] as f64;
        let has_times = grown.known > 0;
        let mut values: Vec<(String, f64)> = Vec::new();
        for (op, at, needed) in KINDS {
            // Old partitions have reads and writes.
            if grown.known < needed && (has_times || op == "discard") {
                continue;
            }
            values.push((format!("{op}_operations"), count(at)));
            if let Some(seconds) = seconds {
                values.push((format!("{op}_operations_per_s"), count(at) / seconds));
                values.push((
                    format!("{op}_throughput_bytes_per_s"),
                    count(at + 2) * 512.0 / seconds,
                ));
            }
            if grown.counts[at] > 0 {
                if has_times {
                    values.push((format!("{op}_latency_ns"), count(at + 3) * 1e6 / count(at)));
                }
                values.push((format!("{op}_size_bytes"), count(at + 2) * 512.0 / count(at)));
            }
        }
        if grown.known == COUNTERS {
            values.push(("flush_operations".into(), count(FLUSHES)));
            if let Some(seconds) = seconds {
                values.push(("flush_operations_per_s".into(), count(FLUSHES) / seconds));
            }
            if grown.counts[FLUSHES] > 0 {
                let latency_ns = count(FLUSHES + 1) * 1e6 / count(FLUSHES);
                values.push(("flush_latency_ns".into(), latency_ns));
            }
        }
        if let Some(seconds) = seconds {
            // As iostat has them: of reads and writes.
            values.push(("operations_per_s".into(), (count(0) + count(4)) / seconds));
            let bytes = (count(2) + count(6)) * 512.0;
            values.push(("throughput_bytes_per_s".into(), bytes / seconds));
            if has_times {
                // Moments of scripts are a little off.
                values.push(("busy_ratio".into(), (count(BUSY_MS) / 1e3 / seconds).min(1.0)));
                values.push(("queue_depth".into(), count(WAITED_MS) / 1e3 / seconds));
            }
        }
        if has_times {
            values.push(("requests_in_flight".into(), count(IN_FLIGHT)));
        }
        let values: Vec<_> = values
            .into_iter()
            .map(|(name, value)| (sink.name(&name), value))
            .collect();
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
    fn commands_stand_between_snapshots() {
        for prompt in [
            "$",
            "\u{276f}",
            "\u{26a1}\u{fe0f}",
            "me on db in ~ at",
            "db1:/srv #",
        ] {
            let command = format!("{prompt} cat /proc/diskstats\n");
            let one = |text: &str| command.clone() + text.lines().next().unwrap() + "\n";
            let summary = import(&(one(SDA) + &one(SDA_LATER)));
            assert_eq!(summary.records, 2, "{prompt}");
        }
    }

    #[test]
    fn text_around_one_snapshot_is_not_why_nothing_is_told() {
        let page = format!("Here's the output from the node:\n```\n{SDA}```\n");
        let why = import(&page).why_none().unwrap();
        assert!(why.starts_with("anything between two snapshots"), "{why}");
    }

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
        // Rates of 0.
        assert_eq!(summary.rows, 2 * 3 + 4 + 1);
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
        // Four rows. Of the disk: operations and two rates of reads and writes, latency and size of reads, four rates of all, what is in flight; of
        // the partition, which has no times, only two rates of all and no latency.
        assert_eq!((stamped.records, stamped.rows), (4, 13 + 9));
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
            (0, 2_000_000_000, 5 + 3 + 5)
        );
        assert!(three
            .not_observed
            .iter()
            .any(|unseen| unseen.what.contains("rates")));
    }

    #[test]
    fn what_collectors_write_beside_snapshots_is_no_row() {
        let zzz = |second: &str| format!("zzz <08/13/2020 10:00:{second}> Count:720\n");
        let head = "############\n# Collection Module:    DiskinfoExaWatcher\n############\n";
        let exa = import(&format!("{head}{}{SDA}{}{SDA_LATER}", zzz("00"), zzz("10")));
        assert_eq!(exa.start_unix_ns, Some(1_597_312_810_000_000_000));
        assert_eq!((exa.records, exa.rows), (4, 22));
        let tail = import(&format!(
            "==> diskstats.0 <==\n{SDA}\n==> diskstats.1 <==\n{SDA_LATER}"
        ));
        assert_eq!((tail.records, tail.rows), (4, 5 + 3));
    }

    #[test]
    fn a_partition_of_an_old_kernel_has_no_times() {
        let words = |line: &'static str| line.split_whitespace().collect::<Vec<_>>();
        let (device, old) = Counters::of(&words("8 1 sda1 35486 38030 7 56"))
            .unwrap()
            .unwrap();
        assert_eq!(
            (device, &old.counts[..7], old.known),
            ("sda1", &[35486, 0, 38030, 0, 7, 0, 56][..], 0)
        );
        assert!(Counters::of(&words("8 1 sda1 35486 38030 7")).is_none());
        assert!(Counters::of(&words("8 1 sda1 35486 x 7 56")).unwrap().is_err());
        assert!(!is_row("8 1 2 35486 38030 7 56"));
    }

    #[test]
    fn milliseconds_begin_again_and_counts_do_not() {
        let of = |line: &'static str| {
            Counters::of(&line.split_whitespace().collect::<Vec<_>>())
                .unwrap()
                .unwrap()
                .1
        };
        let old = of("8 0 sda 10 0 80 4294967290 5 1 40 60 2 4294967000 80");
        let grown = of("8 0 sda 12 0 96 4 5 1 40 60 3 50 80").since(&old).unwrap();
        assert_eq!(
            (
                grown.counts[0],
                grown.counts[3],
                grown.counts[IN_FLIGHT],
                grown.counts[BUSY_MS]
            ),
            (2, 10, 3, 346)
        );
        assert!(grown.has_any() && grown.known == 11);
        // The machine restarted.
        assert!(of("8 0 sda 9 0 96 4 5 1 40 60 3 50 80").since(&old).is_none());
    }
}

//! Snapshots of /proc/interrupts, a file each or one after the other in one file: what came between one and the next becomes samples.
//!
//! The header names the CPUs that are online. Rows of interrupts with a handler are read; those without a number (NMI, LOC) have no handler. On s390x
//! devices interrupt without numbers: the row `I/O` counts all of them, and is read.
use super::snapshots::{is_beside, is_command, of_one_folder, Moments};
use super::stamps::stamp_ns;
use crate::error::Bad;
use crate::format::{Format, Head, Source};
use crate::records::each_line;
use crate::sink::Sink;
use crate::text::{counted, integer};
use crate::ImportError;
use case::schema::SubjectKind;
use std::collections::HashMap;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "interrupts",
    about:
        "two or more snapshots of /proc/interrupts: interrupts per handler and CPU between them, as samples",
    not_carried: &[(
        "single interrupts, and how long their handlers ran",
        "the kernel counts them only",
    )],
    recognise,
    together: of_one_folder,
    read,
};

/// What snapshots are of.
const PATH: &str = "/proc/interrupts";

/// Numbers of the CPUs in a header.
fn header(line: &str) -> Option<Vec<u32>> {
    let cpus: Option<Vec<u32>> = line
        .split_whitespace()
        .map(|word| word.strip_prefix("CPU")?.parse().ok())
        .collect();
    cpus.filter(|cpus| !cpus.is_empty())
}

fn recognise(head: &Head) -> bool {
    let mut lines = head
        .filled_lines()
        .skip_while(|line| stamp_ns(line).is_some() || is_beside(line) || is_command(line, PATH));
    let Some(cpus) = lines.next().and_then(header) else {
        return false;
    };
    // /proc/softirqs has no numbers before its counts.
    let mut rows =
        lines.skip_while(|line| !line.starts_with(|c: char| c.is_ascii_digit()) && !is_of_s390x(line));
    rows.next().is_some_and(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.len() > cpus.len()
            && words[0].ends_with(':')
            && words[1..=cpus.len()]
                .iter()
                .all(|word| word.parse::<u64>().is_ok())
    })
}

/// All interrupts of devices on s390x.
fn is_of_s390x(line: &str) -> bool {
    line.starts_with("I/O:")
}

struct Reader {
    moments: Moments,
    cpus: Vec<u32>,
    before: HashMap<String, Vec<(u32, u64)>>,
}

impl Reader {
    fn line(&mut self, text: &str, sink: &mut Sink) -> Result<(), crate::error::RecordError> {
        if text.is_empty() {
            return Ok(());
        }
        if let Some(cpus) = header(text) {
            self.cpus = cpus;
            self.moments.begin(sink);
            return Ok(());
        }
        // A prompt may hold a colon, as rows do.
        if self.moments.stamp(text) || is_beside(text) || is_command(text, PATH) {
            return Ok(());
        }
        let Some((number, rest)) = text.split_once(':') else {
            return Err(Bad::new("", "NUMBER: counts, a chip and a handler", text).into());
        };
        let of_all = is_of_s390x(text) && !rest.contains('[');
        if number.parse::<u32>().is_err() && !of_all {
            sink.record_without_row();
            return Ok(());
        }
        let words: Vec<&str> = rest.split_whitespace().collect();
        if words.len() < self.cpus.len() || self.cpus.is_empty() {
            let expected = format!(
                "{}, one per CPU of the header",
                counted(self.cpus.len() as u64, "count")
            );
            return Err(Bad::new("", expected, text).into());
        }
        let mut counts = Vec::new();
        for (cpu, word) in self.cpus.iter().zip(&words) {
            counts.push((*cpu, integer(word, "of a CPU")?));
        }
        // The last word is the handler, or several with commas between; what is before it is the chip.
        let handler = match of_all {
            true => number,
            false => words[self.cpus.len()..].last().copied().unwrap_or(""),
        };
        if handler.is_empty() {
            sink.record_without_row();
            return Ok(());
        }
        let old = self.before.insert(format!("{number} {handler}"), counts.clone());
        self.sample(handler, &counts, old, sink)
    }

    fn sample(
        &self,
        handler: &str,
        counts: &[(u32, u64)],
        old: Option<Vec<(u32, u64)>>,
        sink: &mut Sink,
    ) -> Result<(), crate::error::RecordError> {
        let Some(old) = old else {
            sink.record_without_row();
            return Ok(());
        };
        let (mut all, mut values) = (0_u64, Vec::new());
        for (cpu, count) in counts {
            let before = old.iter().find(|(one, _)| one == cpu).map_or(0, |(_, n)| *n);
            let Some(grown) = count.checked_sub(before) else {
                sink.unseen(
                    format!("interrupts of {handler} before a snapshot"),
                    "its counters went back: it was new, or the machine restarted",
                );
                sink.record_without_row();
                return Ok(());
            };
            all = all.saturating_add(grown);
            if grown > 0 {
                values.push((sink.name(&format!("interrupts_cpu{cpu}")), grown as f64));
            }
        }
        values.push((sink.name("interrupts"), all as f64));
        let subject = sink.name(handler);
        let time_ns = self.moments.now_ns();
        sink.sample(time_ns, None, SubjectKind::Component, subject, &values)?;
        Ok(())
    }
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let mut reader = Reader {
        moments: Moments::of(source)?,
        cpus: Vec::new(),
        before: HashMap::new(),
    };
    each_line(source, sink, |line, sink| reader.line(line.text.trim(), sink))?;
    reader.moments.tell(sink);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_above_a_snapshot_is_its_moment() {
        let snapshot = |count: u32| {
            format!("     CPU0  CPU1\n 33:  {count}  7  PCI-MSI-edge  nvme0q1\nNMI:  1  1  Non-maskable\n")
        };
        let log = format!(
            "TS 1283888686.5 2010-09-07 19:44:46\n{}TS 1283888687.5\n{}",
            snapshot(5),
            snapshot(9)
        );
        let summary = crate::testing::import(&FORMAT, &log).unwrap();
        assert_eq!(summary.start_unix_ns, Some(1_283_888_687_500_000_000));
        assert_eq!(summary.rows, 2);
    }

    #[test]
    fn a_mainframe_counts_all_devices_together() {
        let snapshot = |count: u32| format!("     CPU0  CPU1\nEXT:  7  9\nI/O:  {count}  5\n");
        let log = format!("{}{}", snapshot(10), snapshot(14));
        let summary = crate::testing::import(&FORMAT, &log).unwrap();
        assert_eq!((summary.records, summary.rows), (4, 2));
        let softirqs = Head {
            name: "softirqs".into(),
            bytes: b"     CPU0  CPU1\n HI:  1  2\nTIMER:  3  4\nBLOCK:  5  6\n".to_vec(),
        };
        assert!(!recognise(&softirqs));
    }

    #[test]
    fn what_collectors_write_above_snapshots_is_no_row() {
        let snapshot = |count: u32| format!("     CPU0\n 33:  {count}  PCI-MSI-edge  nvme0q1\n");
        let log = format!(
            "#####\n# Collection Module:    InterruptsExaWatcher\n#####\nzzz <08/13/2020 10:00:00> Count:720\n{}zzz <08/13/2020 10:00:10> Count:720\n{}",
            snapshot(5),
            snapshot(9)
        );
        let summary = crate::testing::import(&FORMAT, &log).unwrap();
        assert_eq!(
            (summary.start_unix_ns, summary.rows),
            (Some(1_597_312_810_000_000_000), 2)
        );
    }

    #[test]
    fn a_prompt_above_a_snapshot_is_no_row() {
        let snapshot = |prompt: &str, count: u32| {
            format!("{prompt} cat /proc/interrupts \n     CPU0\n 33:  {count}  PCI-MSI-edge  nvme0q1\n")
        };
        for prompt in ["[me@db1 ~]$", "root@db1:/var#", "$", "bash-5.2$"] {
            let log = snapshot(prompt, 5) + &snapshot(prompt, 9) + prompt;
            let summary = crate::testing::import(&FORMAT, &log).unwrap();
            assert_eq!((summary.records, summary.rows), (2, 2), "{prompt}");
        }
    }
}

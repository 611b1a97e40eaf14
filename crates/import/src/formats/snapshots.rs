//! Counters that only grow, of which somebody took snapshots: differences between one and the next are samples.
use super::stamps::stamp_ns;
use crate::clock::Clock;
use crate::format::Source;
use crate::records::of_shell;
use crate::sink::Sink;
use crate::text::scaled;
use crate::ImportError;
use std::path::{Path, PathBuf};

/// Whether a line is what a collector writes beside snapshots: a comment (ExaWatcher's head), or the name that `tail` and `head` put above a file.
pub fn is_beside(line: &str) -> bool {
    let line = line.trim();
    line.starts_with('#') || line.starts_with("==> ") && line.ends_with(" <==")
}

/// Whether a line is of the shell that took a snapshot of a file: whatever its prompt is, no row names the file.
pub fn is_command(line: &str, path: &str) -> bool {
    line.contains(path) || of_shell(line.as_bytes())
}

/// Snapshots in one folder belong together.
pub fn of_one_folder(path: &Path) -> Option<PathBuf> {
    Some(path.with_file_name(""))
}

/// When snapshots were taken: a line above each tells it, or `--map every=60s` the time between them.
pub struct Moments {
    every_ns: Option<i64>,
    /// What a line said of the snapshot that comes.
    stamp_ns: Option<i64>,
    /// Of the snapshot at hand.
    now_ns: i64,
    snapshots: u64,
    /// Those of which nothing told the moment.
    guessed: u64,
}

impl Moments {
    /// Reads `--map`. Error: it is there, and no length of time.
    pub fn of(source: &Source) -> Result<Moments, ImportError> {
        Ok(Moments {
            every_ns: source.map.as_deref().map(every).transpose()?,
            stamp_ns: None,
            now_ns: 0,
            snapshots: 0,
            guessed: 0,
        })
    }

    /// Takes a line that tells the moment of the snapshot below it; false if it is none.
    pub fn stamp(&mut self, line: &str) -> bool {
        let stamp = stamp_ns(line);
        self.stamp_ns = stamp.or(self.stamp_ns);
        stamp.is_some()
    }

    /// A snapshot begins. What `--map` says comes first.
    pub fn begin(&mut self, sink: &mut Sink) {
        let stamp_ns = self.stamp_ns.take().filter(|_| self.every_ns.is_none());
        if self.snapshots == 0 {
            sink.clock(match stamp_ns {
                Some(ns) if ns % SECOND_NS == 0 => Clock::unix(SECOND_NS),
                Some(_) => Clock::unix(1_000_000),
                None => Clock::own("the first snapshot", self.every_ns.unwrap_or(SECOND_NS)),
            });
        }
        self.guessed += u64::from(stamp_ns.is_none());
        let next_ns = match self.snapshots {
            0 => 0,
            _ => self.now_ns.saturating_add(self.every_ns.unwrap_or(SECOND_NS)),
        };
        self.now_ns = stamp_ns.unwrap_or(next_ns);
        self.snapshots += 1;
    }

    /// The moment of the snapshot at hand.
    pub fn now_ns(&self) -> i64 {
        self.now_ns
    }

    /// Seconds since an earlier snapshot, if they are known.
    pub fn seconds_since(&self, earlier_ns: i64) -> Option<f64> {
        let is_known = self.every_ns.is_some() || self.guessed == 0;
        let seconds = self.now_ns.saturating_sub(earlier_ns) as f64 / 1e9;
        (is_known && seconds > 0.0).then_some(seconds)
    }

    /// All snapshots were read: what is not known of them.
    pub fn tell(&self, sink: &mut Sink) {
        if self.snapshots < 2 {
            sink.unseen(
                "anything between two snapshots",
                "there is one only: counters since the start say nothing of a moment",
            );
        } else if self.every_ns.is_none() && self.guessed > 0 {
            sink.unseen(
                "rates, and when the snapshots were taken",
                "a snapshot has no moment; they are put one second apart; --map every=60s tells the time between them",
            );
        }
    }
}

const SECOND_NS: i64 = 1_000_000_000;

/// `every=60s`.
fn every(map: &str) -> Result<i64, ImportError> {
    let length = map.trim().strip_prefix("every=").and_then(|text| {
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let unit_ns = match &text[end..] {
            "ms" => 1_000_000,
            "s" | "" => SECOND_NS,
            "m" | "min" => 60 * SECOND_NS,
            "h" => 3600 * SECOND_NS,
            _ => return None,
        };
        scaled(&text[..end], unit_ns).filter(|ns| *ns > 0)
    });
    length.ok_or_else(|| {
        ImportError::Use(format!(
            "--map: expected every=TIME between two snapshots, e.g. every=60s, found '{map}'"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_above_snapshots_tell_the_time_between_them() {
        let (mut names, mut silent) = (case::sealed::Names::default(), |_: u64| {});
        let mut sink = Sink::survey(&mut names, &mut silent, false);
        let source = |map: Option<&str>| Source {
            files: Vec::new(),
            map: map.map(str::to_owned),
            device: None,
        };
        let mut moments = Moments::of(&source(None)).unwrap();
        assert!(moments.stamp("TS 1603180805.5") && !moments.stamp("8 0 sda"));
        moments.begin(&mut sink);
        let first_ns = moments.now_ns();
        assert_eq!(
            (first_ns, moments.seconds_since(first_ns)),
            (1_603_180_805_500_000_000, None)
        );
        assert!(moments.stamp("Tue Oct 20 08:00:07 UTC 2020"));
        moments.begin(&mut sink);
        assert_eq!(moments.seconds_since(first_ns), Some(1.5));
        // Of the next one nothing is known.
        moments.begin(&mut sink);
        assert_eq!(moments.seconds_since(first_ns), None);
        let mut moments = Moments::of(&source(Some("every=60s"))).unwrap();
        moments.begin(&mut sink);
        moments.stamp("TS 1603180805.5");
        moments.begin(&mut sink);
        assert_eq!(
            (moments.now_ns(), moments.seconds_since(0)),
            (60_000_000_000, Some(60.0))
        );
    }

    #[test]
    fn times_between_snapshots() {
        let all = ["every=60s", "every=1.5s", "every=2min", "every=10"];
        let ns = all.map(|map| every(map).unwrap());
        assert_eq!(
            ns,
            [60_000_000_000, 1_500_000_000, 120_000_000_000, 10_000_000_000]
        );
        for wrong in ["every=", "every=0s", "every=5d", "start=x"] {
            assert!(every(wrong).unwrap_err().to_string().contains("every=60s"));
        }
    }
}

//! Counters that only grow, of which somebody took snapshots: differences between one and the next are samples.
use crate::clock::Clock;
use crate::format::Source;
use crate::sink::Sink;
use crate::text::scaled;
use crate::ImportError;
use std::path::{Path, PathBuf};

/// Snapshots in one folder belong together.
pub fn of_one_folder(path: &Path) -> Option<PathBuf> {
    Some(path.with_file_name(""))
}

/// When snapshots were taken: `--map every=60s` tells the time between them.
#[derive(Clone, Copy)]
pub struct Moments {
    every_ns: Option<i64>,
}

impl Moments {
    /// Reads `--map` and says the clock. Error: it is there, and no length of time.
    pub fn of(source: &Source, sink: &mut Sink) -> Result<Moments, ImportError> {
        let every_ns = source.map.as_deref().map(every).transpose()?;
        sink.clock(Clock::own("the first snapshot", every_ns.unwrap_or(SECOND_NS)));
        Ok(Moments { every_ns })
    }

    /// The moment of a snapshot, the first of which is number 0.
    pub fn at(self, number: usize) -> i64 {
        i64::try_from(number)
            .unwrap_or(i64::MAX)
            .saturating_mul(self.every_ns.unwrap_or(SECOND_NS))
    }

    /// Seconds between two snapshots, if they are known.
    pub fn seconds(self) -> Option<f64> {
        self.every_ns.map(|ns| ns as f64 / 1e9)
    }

    /// All snapshots were read: what is not known of them.
    pub fn tell(self, count: usize, sink: &mut Sink) {
        if count < 2 {
            sink.unseen(
                "anything between two snapshots",
                "there is one only: counters since the start say nothing of a moment",
            );
        } else if self.every_ns.is_none() {
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

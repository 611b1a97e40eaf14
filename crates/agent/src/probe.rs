//! The block probe as a recording sees it.
use case::meta::{ProbeMeta, Unseen};
use record::{Config, RecordError, Recorder, Running};
use std::path::Path;

/// The probe at work.
pub struct Probe {
    running: Running,
    unseen: Vec<Unseen>,
}

/// The probe in the kernel, not recording yet.
pub struct Attached(Recorder);

impl Attached {
    /// Loads and attaches. `join_tgid` is the process of our own engine, whose operation ids are read.
    /// Error: why this host does not let us, in one line.
    pub fn attach(join_tgid: Option<i32>) -> Result<Attached, String> {
        let join_tgid = join_tgid.and_then(|pid| u32::try_from(pid).ok());
        Recorder::attach(Config {
            join_tgid,
            ..Config::default()
        })
        .map(Attached)
        .map_err(|error| shortened(&error.to_string()))
    }
}

/// The kernel's verifier may explain itself at the length of a book; the first and the last words say the most.
fn shortened(text: &str) -> String {
    const KEEP: usize = 300;
    let characters: Vec<char> = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if characters.len() <= 2 * KEEP {
        return characters.into_iter().collect();
    }
    let head: String = characters[..KEEP].iter().collect();
    let tail: String = characters[characters.len() - KEEP..].iter().collect();
    format!("{head} [...] {tail}")
}

/// What it leaves behind.
pub struct Stopped {
    /// Its account.
    pub meta: ProbeMeta,
    /// Facts that this host did not let it see.
    pub not_observed: Vec<Unseen>,
    /// Why its events are not all on disk.
    pub failure: Option<String>,
}

impl Probe {
    /// Creates the streams and begins to record.
    pub fn start(attached: Attached, raw: &Path) -> Result<Probe, RecordError> {
        let unseen = attached.0.unseen().to_vec();
        Ok(Probe {
            running: attached.0.start(raw)?,
            unseen,
        })
    }

    /// Requests received so far.
    pub fn received(&self) -> u64 {
        self.running.received()
    }

    /// Detaches and closes the streams.
    pub fn stop(self) -> Stopped {
        match self.running.stop() {
            Ok(summary) => Stopped {
                meta: summary.probe_meta(),
                failure: summary.write_error.as_ref().map(ToString::to_string),
                not_observed: summary.unseen,
            },
            Err(error) => Stopped {
                meta: ProbeMeta::default(),
                not_observed: self.unseen,
                failure: Some(error.to_string()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn long_messages_keep_both_ends() {
        assert_eq!(shortened("short\nlines"), "short lines");
        let text = shortened(&format!("begin {} end", "x".repeat(10_000)));
        assert!(
            text.len() < 700 && text.starts_with("begin") && text.ends_with("end"),
            "{text}"
        );
    }
}

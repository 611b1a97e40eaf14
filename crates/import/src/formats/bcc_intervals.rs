//! Moments of what a tool of bcc prints per interval: a time of day above each (with `-T`) or in each (with `-j`), else one second apart.
use super::calendar::time_of_day_ns;
use crate::clock::Clock;
use crate::error::RecordError;
use crate::format::{Head, Source};
use crate::records::each_line;
use crate::sink::Sink;
use crate::ImportError;
use std::collections::HashSet;

const DAY_NS: i64 = 86_400_000_000_000;

/// The interval at hand.
#[derive(Default)]
pub struct Intervals {
    /// Since midnight of the first day, or since the first interval.
    pub time_ns: i64,
    is_timed: bool,
    /// Labels that it had already.
    seen: HashSet<String>,
}

impl Intervals {
    /// A time of day begins the next interval. Past midnight it begins again.
    pub fn at(&mut self, time_ns: i64) {
        let days = self.time_ns / DAY_NS + i64::from(self.is_timed && time_ns < self.time_ns % DAY_NS);
        (self.time_ns, self.is_timed) = (days * DAY_NS + time_ns, true);
        self.seen.clear();
    }

    /// The next interval begins, if this one had anything; a time of day may still tell when.
    pub fn next(&mut self) {
        if !self.is_timed && !self.seen.is_empty() {
            self.time_ns += 1_000_000_000;
        }
        self.seen.clear();
    }

    /// A label that comes again begins the next interval.
    pub fn next_if_seen(&mut self, label: &str) {
        if self.seen.contains(label) {
            self.next();
        }
    }

    /// The interval at hand has this label.
    pub fn saw(&mut self, label: String) {
        self.seen.insert(label);
    }
}

/// The time of day in a line of `-j`: `{'ts': '2020-12-30 14:33:03', ...`.
pub fn moment_of_dictionary(line: &str) -> Option<i64> {
    let moment = line.trim().strip_prefix("{'ts': '")?.split('\'').next()?;
    time_of_day_ns(moment.split_once(' ')?.1, "")
}

/// Reads a file of intervals, line by line. `zero`: what its first moment is without `-T`; `untimed`: that it has no moments then.
pub fn each_trimmed_line(
    source: &Source,
    sink: &mut Sink,
    zero: &'static str,
    untimed: &'static str,
    mut each: impl FnMut(&str, &mut Sink) -> Result<(), RecordError>,
) -> Result<(), ImportError> {
    let has_moment =
        |line: &str| time_of_day_ns(line.trim(), "").is_some() || moment_of_dictionary(line).is_some();
    let is_timed = Head::read(source.path())?.has_line(has_moment);
    sink.clock(Clock::own(
        if is_timed { "midnight" } else { zero },
        1_000_000_000,
    ));
    if !is_timed {
        sink.unseen("when the intervals were", untimed);
    }
    each_line(source, sink, |line, sink| each(line.text.trim(), sink))
}

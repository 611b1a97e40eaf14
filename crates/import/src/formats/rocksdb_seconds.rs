//! Sums per second of what RocksDB traces, by kind: its traces have moments, and no latencies.
use crate::error::Bad;
use crate::sink::Sink;
use crate::text::integer;
use crate::ImportError;
use case::schema::{NameId, SubjectKind};
use std::collections::BTreeMap;

/// What `S` is as samples.
pub type Values<S> = fn(&S, &mut Sink) -> Vec<(NameId, f64)>;

/// The second at hand.
pub struct Seconds<S> {
    second: Option<i64>,
    sums: BTreeMap<&'static str, S>,
    values: Values<S>,
}

impl<S: Default> Seconds<S> {
    /// None yet.
    pub fn new(values: Values<S>) -> Seconds<S> {
        let sums = BTreeMap::new();
        Seconds {
            second: None,
            sums,
            values,
        }
    }

    /// Sums of a kind in this second; those of the second before become samples.
    pub fn at(&mut self, second: i64, kind: &'static str, sink: &mut Sink) -> Result<&mut S, ImportError> {
        if self.second.is_some_and(|before| before != second) {
            self.flush(sink)?;
        }
        self.second = Some(second);
        Ok(self.sums.entry(kind).or_default())
    }

    /// The second at hand is whole.
    pub fn flush(&mut self, sink: &mut Sink) -> Result<(), ImportError> {
        for (kind, sums) in std::mem::take(&mut self.sums) {
            let values = (self.values)(&sums, sink);
            let subject = sink.name(kind);
            let time_ns = self.second.unwrap_or(0) * 1_000_000_000;
            sink.sum(time_ns, None, SubjectKind::Process, subject, &values)?;
        }
        Ok(())
    }
}

/// The second of a moment in microseconds since 1970.
pub fn second_of(moment: &str) -> Result<i64, Bad> {
    let seconds = moment.get(..moment.len().saturating_sub(6)).unwrap_or("");
    integer::<u32>(seconds, "moment").map(i64::from)
}

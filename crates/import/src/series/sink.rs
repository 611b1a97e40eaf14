//! Records become rows of the table `series`.
use super::map::Mapping;
use crate::error::Bad;
use crate::{ImportError, Sink};
use case::schema::{NameId, SubjectKind};
use std::path::Path;

/// Where records go.
pub struct Records<'s, 'a> {
    sink: &'s mut Sink<'a>,
    kind: SubjectKind,
    metrics: Vec<(NameId, f64)>,
    /// Metrics and values of the record at hand.
    values: Vec<(NameId, f64)>,
    hosts: Cache,
    subjects: Cache,
    /// The subject of records that name none.
    unnamed: NameId,
    /// Records seen.
    pub records: u64,
    /// Missing values per metric.
    pub missing: Vec<u64>,
    /// Records without a moment.
    pub without_time: u64,
}

impl<'s, 'a> Records<'s, 'a> {
    /// An empty one. `unnamed` is the subject of records that name none.
    pub fn new(mapping: &Mapping, unnamed: &str, sink: &'s mut Sink<'a>) -> Records<'s, 'a> {
        let metrics: Vec<(NameId, f64)> = mapping
            .metrics
            .iter()
            .map(|m| (sink.name(&m.metric), m.factor))
            .collect();
        Records {
            unnamed: sink.name(unnamed),
            sink,
            kind: mapping.kind,
            missing: vec![0; metrics.len()],
            metrics,
            values: Vec::new(),
            hosts: Cache::new(),
            subjects: Cache::new(),
            records: 0,
            without_time: 0,
        }
    }

    /// The number of a host; `None` if it has no name.
    pub fn host(&mut self, name: &str) -> Option<NameId> {
        (!name.is_empty()).then(|| self.hosts.id(name, self.sink))
    }

    /// The number of a subject.
    pub fn subject(&mut self, name: &str) -> NameId {
        self.subjects.id(name, self.sink)
    }

    /// Bytes (or records) of this file that are done.
    pub fn progress(&mut self, done: u64) {
        self.sink.progress(done);
    }

    /// See [`Sink::unseen`].
    pub fn unseen(&mut self, what: String, because: String) {
        self.sink.unseen(what, because);
    }

    /// See [`Sink::in_doubt`].
    pub fn in_doubt(&mut self, path: &Path, at: &str, line: &[u8]) {
        self.sink.in_doubt(path, at, line);
    }

    /// What becomes of a line that is no record: the file ends inside it, it is left out, or this is an error.
    pub fn bad_line(&mut self, path: &Path, error: ImportError, is_cut: bool) -> Result<(), ImportError> {
        let ImportError::Content {
            at, expected, found, ..
        } = &error
        else {
            return Err(error);
        };
        let bad = Bad {
            part: "".into(),
            expected: expected.clone().into(),
            found: found.clone(),
        };
        if is_cut {
            self.sink.cut(path, at, &bad);
        } else if self.sink.keeps_going() {
            self.sink.left_out(path, at, &bad);
        } else {
            return Err(error);
        }
        Ok(())
    }

    /// One record; `values` in the order of the mapping's metrics, in the file's units.
    pub fn record(
        &mut self,
        unix_ns: Option<i64>,
        host: Option<NameId>,
        subject: Option<NameId>,
        values: &[Option<f64>],
    ) -> Result<(), ImportError> {
        self.records += 1;
        let Some(unix_ns) = unix_ns else {
            self.without_time += 1;
            self.sink.record_without_row();
            return Ok(());
        };
        let subject = subject.unwrap_or(self.unnamed);
        self.values.clear();
        for ((value, missing), (metric, factor)) in values.iter().zip(&mut self.missing).zip(&self.metrics) {
            match value {
                Some(value) => self.values.push((*metric, value * factor)),
                None => *missing += 1,
            }
        }
        self.sink.sample(unix_ns, host, self.kind, subject, &self.values)
    }
}

/// Remembers the names of the last records: files list the same few again and again.
struct Cache {
    slots: Vec<Option<(String, NameId)>>,
}

const SLOTS: usize = 1024;

impl Cache {
    fn new() -> Cache {
        Cache {
            slots: vec![None; SLOTS],
        }
    }

    fn id(&mut self, name: &str, sink: &mut Sink) -> NameId {
        let mut hash = name.len();
        for byte in name.as_bytes() {
            hash = hash.wrapping_mul(31).wrapping_add(usize::from(*byte));
        }
        let slot = &mut self.slots[hash % SLOTS];
        match slot {
            Some((known, id)) if known == name => *id,
            _ => {
                let id = sink.name(name);
                *slot = Some((name.to_owned(), id));
                id
            }
        }
    }
}

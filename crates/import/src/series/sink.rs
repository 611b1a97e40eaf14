//! Records become rows of the table `series`.
use super::map::Mapping;
use crate::ImportError;
use case::schema::{NameId, Sample, SubjectKind};
use case::sealed::{Names, SealWriter};

/// Where records go.
pub struct Sink<'a> {
    writer: &'a mut SealWriter,
    names: &'a mut Names,
    kind: SubjectKind,
    metrics: Vec<(NameId, f64)>,
    /// Metrics and values of the record at hand.
    values: Vec<(NameId, f64)>,
    hosts: Cache,
    subjects: Cache,
    /// Records seen.
    pub records: u64,
    /// Rows written.
    pub rows: u64,
    /// Missing values per metric.
    pub missing: Vec<u64>,
    /// Records without a moment.
    pub without_time: u64,
    /// Moment of the first record: 0 of the case.
    pub start_unix_ns: Option<i64>,
    /// Latest moment, since the start.
    pub end_ns: i64,
}

impl<'a> Sink<'a> {
    /// An empty one.
    pub fn new(mapping: &Mapping, writer: &'a mut SealWriter, names: &'a mut Names) -> Sink<'a> {
        let metrics: Vec<(NameId, f64)> = mapping
            .metrics
            .iter()
            .map(|m| (names.id(&m.metric), m.factor))
            .collect();
        Sink {
            writer,
            names,
            kind: mapping.kind,
            missing: vec![0; metrics.len()],
            metrics,
            values: Vec::new(),
            hosts: Cache::new(),
            subjects: Cache::new(),
            records: 0,
            rows: 0,
            without_time: 0,
            start_unix_ns: None,
            end_ns: 0,
        }
    }

    /// The number of a host; `None` if it has no name.
    pub fn host(&mut self, name: &str) -> Option<NameId> {
        (!name.is_empty()).then(|| self.hosts.id(name, self.names))
    }

    /// The number of a subject.
    pub fn subject(&mut self, name: &str) -> NameId {
        self.subjects.id(name, self.names)
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
            return Ok(());
        };
        let time_ns = unix_ns.saturating_sub(*self.start_unix_ns.get_or_insert(unix_ns));
        self.end_ns = self.end_ns.max(time_ns);
        let subject = subject.unwrap_or_else(|| self.subject(""));
        self.values.clear();
        for ((value, missing), (metric, factor)) in values.iter().zip(&mut self.missing).zip(&self.metrics) {
            match value {
                Some(value) => self.values.push((*metric, value * factor)),
                None => *missing += 1,
            }
        }
        let sample = Sample {
            time_ns,
            host,
            kind: self.kind,
            subject,
            values: &self.values,
        };
        self.writer.row(&sample, self.names)?;
        self.rows += self.values.len() as u64;
        Ok(())
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

    fn id(&mut self, name: &str, names: &mut Names) -> NameId {
        let mut hash = name.len();
        for byte in name.as_bytes() {
            hash = hash.wrapping_mul(31).wrapping_add(usize::from(*byte));
        }
        let slot = &mut self.slots[hash % SLOTS];
        match slot {
            Some((known, id)) if known == name => *id,
            _ => {
                let id = names.id(name);
                *slot = Some((name.to_owned(), id));
                id
            }
        }
    }
}

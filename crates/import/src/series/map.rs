//! The mapping: which column is what, in which unit.
use crate::ImportError;
use case::schema::SubjectKind;

/// Unit of a column of moments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TimeUnit {
    /// A number since 1970, times this many nanoseconds.
    Number(i64),
    /// `2026-01-31T23:59:59.5Z`; without a zone it is taken for UTC.
    Iso,
}

/// The column that holds the moment of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Time {
    /// Its name.
    pub column: String,
    /// Its unit.
    pub unit: TimeUnit,
}

/// A column that holds a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Its name in the file.
    pub column: String,
    /// Its name in the case, with the base unit: `latency_ns`.
    pub metric: String,
    /// Value in the file times this is the value in the case.
    pub factor: f64,
}

/// A whole mapping.
#[derive(Clone, Debug, PartialEq)]
pub struct Mapping {
    /// Column of the host.
    pub host: Option<String>,
    /// Column of the subject, and what it is; None: the file is of one device.
    pub subject: Option<String>,
    /// See `subject`.
    pub kind: SubjectKind,
    /// Column of the moment.
    pub time: Time,
    /// At least one.
    pub metrics: Vec<Metric>,
}

/// Unit, suffix of the metric's name, factor to the base unit.
const UNITS: &[(&str, &str, f64)] = &[
    ("ns", "_ns", 1.0),
    ("us", "_ns", 1e3),
    ("ms", "_ns", 1e6),
    ("s", "_ns", 1e9),
    ("B/s", "_bytes_per_s", 1.0),
    ("kB/s", "_bytes_per_s", 1e3),
    ("KB/s", "_bytes_per_s", 1e3),
    ("MB/s", "_bytes_per_s", 1e6),
    ("GB/s", "_bytes_per_s", 1e9),
    ("KiB/s", "_bytes_per_s", 1024.0),
    ("MiB/s", "_bytes_per_s", 1_048_576.0),
    ("GiB/s", "_bytes_per_s", 1_073_741_824.0),
    ("/s", "_per_s", 1.0),
    ("B", "_bytes", 1.0),
    ("KiB", "_bytes", 1024.0),
    ("MiB", "_bytes", 1_048_576.0),
    ("GiB", "_bytes", 1_073_741_824.0),
    ("%", "_ratio", 0.01),
    ("1", "_ratio", 1.0),
    ("C", "_celsius", 1.0),
    ("count", "_count", 1.0),
];

/// Unit of a column of moments, and its nanoseconds.
const TIME_UNITS: &[(&str, i64)] = &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

impl Mapping {
    /// Reads `host=COLUMN,device=COLUMN,t=COLUMN:UNIT,METRIC=COLUMN:UNIT,...`.
    ///
    /// Instead of `device`: `process`, `cpu`, `cgroup` or `component`; without any, the file is of one device. Errors name the part that is wrong.
    pub fn parse(text: &str) -> Result<Mapping, ImportError> {
        let (mut host, mut subject, mut time) = (None, None, None);
        let mut metrics: Vec<Metric> = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let Some((key, value)) = part.split_once('=') else {
                return Err(wrong(part, "KEY=COLUMN or KEY=COLUMN:UNIT", "no '='"));
            };
            let (column, unit) = match value.rsplit_once(':') {
                Some((column, unit)) => (column, Some(unit)),
                None => (value, None),
            };
            if key.is_empty() || column.is_empty() {
                return Err(wrong(part, "a key and a column", "an empty one"));
            }
            let kind = SubjectKind::ALL
                .into_iter()
                .find(|kind| kind.name() == key && *kind != SubjectKind::Host);
            let again = match (key, kind) {
                ("host", _) => host.replace(value.to_owned()).is_some(),
                ("t" | "time", _) => time
                    .replace(Time {
                        column: column.to_owned(),
                        unit: time_unit(part, unit)?,
                    })
                    .is_some(),
                (_, Some(kind)) => subject.replace((value.to_owned(), kind)).is_some(),
                (metric, None) => {
                    let metric = metric_of(part, metric, column, unit)?;
                    let again = metrics.iter().any(|m| m.metric == metric.metric);
                    metrics.push(metric);
                    again
                }
            };
            if again {
                return Err(wrong(part, "each key once", "it a second time"));
            }
        }
        let absent = |what: &str| wrong(text, what, "no such part");
        let (subject, kind) = match subject {
            Some((column, kind)) => (Some(column), kind),
            None => (None, SubjectKind::Device),
        };
        if metrics.is_empty() {
            return Err(absent("at least one metric, e.g. latency=COLUMN:us"));
        }
        Ok(Mapping {
            host,
            subject,
            kind,
            time: time.ok_or_else(|| absent("t=COLUMN:s"))?,
            metrics,
        })
    }
}

fn wrong(part: &str, expected: &str, found: &str) -> ImportError {
    ImportError::Use(format!("--map '{part}': expected {expected}, found {found}"))
}

fn time_unit(part: &str, unit: Option<&str>) -> Result<TimeUnit, ImportError> {
    let known = TIME_UNITS.iter().find(|(name, _)| Some(*name) == unit);
    match (known, unit) {
        (Some((_, ns)), _) => Ok(TimeUnit::Number(*ns)),
        (None, Some("iso")) => Ok(TimeUnit::Iso),
        (None, found) => Err(wrong(
            part,
            "a unit of time since 1970 (s, ms, us, ns) or iso",
            &found.map_or("none".into(), |unit| format!("'{unit}'")),
        )),
    }
}

fn metric_of(part: &str, key: &str, column: &str, unit: Option<&str>) -> Result<Metric, ImportError> {
    let Some((_, suffix, factor)) = UNITS.iter().find(|(name, ..)| Some(*name) == unit) else {
        let names: Vec<&str> = UNITS.iter().map(|(name, ..)| *name).collect();
        let expected = format!("a unit after the column ({})", names.join(", "));
        let found = unit.map_or("none".into(), |unit| format!("'{unit}'"));
        return Err(wrong(part, &expected, &found));
    };
    Ok(Metric {
        column: column.to_owned(),
        metric: format!("{key}{suffix}"),
        factor: *factor,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_kinds() {
        let map = Mapping::parse("host=h,device=disk_id,t=ts:s,latency=lat:us,throughput=tp:MB/s,busy=b:%")
            .unwrap();
        assert_eq!(map.kind, SubjectKind::Device);
        assert_eq!(map.time.unit, TimeUnit::Number(1_000_000_000));
        let found: Vec<(&str, f64)> = map
            .metrics
            .iter()
            .map(|m| (m.metric.as_str(), m.factor))
            .collect();
        let expected = [
            ("latency_ns", 1e3),
            ("throughput_bytes_per_s", 1e6),
            ("busy_ratio", 0.01),
        ];
        assert_eq!(found, expected);
        assert_eq!(map.subject.as_deref(), Some("disk_id"));
        let of_one = Mapping::parse("t=ts:s,latency=lat:us").unwrap();
        assert_eq!((of_one.subject, of_one.kind), (None, SubjectKind::Device));
        assert_eq!(
            Mapping::parse("cpu=c,t=t:iso,x=y:1").unwrap().kind,
            SubjectKind::Cpu
        );
    }

    #[test]
    fn wrong_parts_are_named() {
        for (text, word) in [
            ("", "at least one metric"),
            ("device=d,t=ts:s", "metric"),
            ("device=d,latency=l:us", "t=COLUMN"),
            ("device=d,t=ts,latency=l:us", "none"),
            ("device=d,t=ts:h,latency=l:us", "'h'"),
            ("device=d,t=ts:s,latency=l:parsec", "'parsec'"),
            ("device=d,t=ts:s,latency", "no '='"),
            ("device=d,device=e,t=ts:s,latency=l:us", "second time"),
        ] {
            let message = Mapping::parse(text).unwrap_err().to_string();
            assert!(message.contains(word), "{text}: {message}");
        }
    }
}

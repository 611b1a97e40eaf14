//! A copy of a case without the names that are nobody else's business.
//!
//! Paths, commands, hosts, serial numbers and mounts become tokens, the same name the same token; times, sizes, numbers of
//! processes and inodes, and the names that kernel and makers give stay. [`classes`] says of every string what it is. The
//! copy has no raw events, no findings and no report: they can be made anew, or hold names.
pub mod classes;
mod names;
mod tokens;

use crate::meta::{CaseMeta, State, SystemMeta};
use crate::sealed::rewrite;
use crate::tables::{self, Table};
use crate::{schema::Layer, CaseError};
use classes::Class;
use serde::Serialize;
use serde_json::Value;
use std::path::Path;
pub use tokens::Key;
use tokens::Tokens;

/// What a redaction did.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Distinct names and parts of paths that were replaced.
    pub names_replaced: usize,
    /// Rows copied, all tables.
    pub rows: u64,
}

/// Writes the redacted copy of the sealed case `case_dir` into the empty directory `out`, case.json last, and asks now and then whether it was
/// `interrupted`.
/// Errors: not sealed; a table is missing or damaged; `out` cannot be written; interrupted.
pub fn redact(
    case_dir: &Path,
    out: &Path,
    key: Key,
    interrupted: &dyn Fn() -> bool,
) -> Result<Summary, CaseError> {
    let mut meta = CaseMeta::read(case_dir)?;
    let system = SystemMeta::read(case_dir)?;
    if meta.state != State::Sealed {
        let path = case_dir.join(crate::meta::CASE_JSON);
        return Err(CaseError::format(
            &path,
            "key state",
            "sealed",
            format!("{:?}", meta.state),
            "seal it first",
        ));
    }
    let mut tokens = Tokens::new(key);
    // Names first, texts last: a text may hold any name.
    json_of(&meta, "case.json", classes::CASE_JSON, &mut tokens, false);
    json_of(&system, "system.json", classes::SYSTEM_JSON, &mut tokens, false);
    let mut present = tables_of(case_dir, &meta);
    present.sort_by_key(|(_, table)| has_text(table));
    let mut rows = 0;
    for (relative, table) in present {
        let mut replace = |column: &str, other: &dyn Fn(&str) -> Option<String>, text: &str| {
            let class = classes::of_column(table.name, column).unwrap_or(Class::Secret);
            tokens.replace(class.in_row(other), text)
        };
        let written = rewrite::rewrite(case_dir, out, &relative, &table, &mut replace, interrupted)?;
        rows += written.rows;
        meta.tables.insert(relative, written);
    }
    let threads = system.kernel_threads.clone();
    let system = json_of(&system, "system.json", classes::SYSTEM_JSON, &mut tokens, true);
    let mut copy = back::<SystemMeta>(system);
    copy.kernel_threads.extend(tokens.of_kernel_threads(&threads));
    copy.write(out)?;
    meta.redacted = true;
    let meta = json_of(&meta, "case.json", classes::CASE_JSON, &mut tokens, true);
    back::<CaseMeta>(meta).write(out)?;
    Ok(Summary {
        names_replaced: tokens.count(),
        rows,
    })
}

/// Tables of a case and their descriptions; those that it names, whether they are there or not.
fn tables_of(case_dir: &Path, meta: &CaseMeta) -> Vec<(String, Table)> {
    let ops = Layer::ALL
        .into_iter()
        .map(|layer| (tables::ops_path(layer), tables::OPS));
    let others = tables::ALWAYS
        .into_iter()
        .map(|table| (tables::path(&table), table));
    let present = |path: &str| meta.tables.contains_key(path) || case_dir.join(path).exists();
    ops.chain(others).filter(|(path, _)| present(path)).collect()
}

fn has_text(table: &Table) -> bool {
    let mut columns = table.columns.iter();
    columns.any(|column| classes::of_column(table.name, column.name) == Some(Class::Text))
}

fn json_of(
    value: &impl Serialize,
    file: &str,
    table: &[(&str, Class)],
    tokens: &mut Tokens,
    texts: bool,
) -> Value {
    let value = serde_json::to_value(value).expect("our own types have a JSON form");
    walk(value, file, table, &mut Vec::new(), tokens, texts)
}

fn back<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("replacing strings keeps the shape")
}

/// Replaces the strings of a value; texts only if `texts`.
fn walk(
    value: Value,
    file: &str,
    table: &[(&str, Class)],
    place: &mut Vec<String>,
    tokens: &mut Tokens,
    texts: bool,
) -> Value {
    let mut below = |key: String, value: Value, tokens: &mut Tokens| {
        place.push(key);
        let walked = walk(value, file, table, place, tokens, texts);
        place.pop();
        walked
    };
    match value {
        Value::Object(fields) => {
            let fields: Vec<(String, Value)> = fields.into_iter().collect();
            let walked: Vec<(String, Value)> = fields
                .into_iter()
                .map(|(key, value)| (key.clone(), below(key, value, tokens)))
                .collect();
            let class = classes::of_keys(file, place);
            let renamed = walked
                .into_iter()
                .map(|(key, value)| (tokens.replace(class, &key), value));
            Value::Object(renamed.collect())
        }
        Value::Array(items) => {
            let items = items.into_iter().enumerate();
            Value::Array(
                items
                    .map(|(at, item)| below(at.to_string(), item, tokens))
                    .collect(),
            )
        }
        Value::String(text) => {
            let class = classes::of_place(table, place).unwrap_or(Class::Secret);
            if class == Class::Text && !texts {
                return Value::String(text);
            }
            Value::String(tokens.replace(class, &text))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::{
        Clock, DeviceMeta, JournalMeta, LayerMeta, LeftOutMeta, Phase, ProbeMeta, SamplingLevel,
        SamplingMeta, TableMeta, Unseen,
    };
    use std::collections::BTreeMap;

    fn one<T>(key: &str, value: T) -> BTreeMap<String, T> {
        BTreeMap::from([(key.to_owned(), value)])
    }

    /// Every string of a value, with its place.
    fn strings(value: &Value, place: &mut Vec<String>, into: &mut Vec<Vec<String>>) {
        let children: Vec<(String, &Value)> = match value {
            Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), value)).collect(),
            Value::Array(items) => items
                .iter()
                .enumerate()
                .map(|(at, item)| (at.to_string(), item))
                .collect(),
            Value::String(_) => {
                into.push(place.clone());
                return;
            }
            _ => return,
        };
        for (key, child) in children {
            place.push(key);
            strings(child, place, into);
            place.pop();
        }
    }

    fn all_classified(value: &impl Serialize, table: &[(&str, Class)]) {
        let mut places = Vec::new();
        strings(
            &serde_json::to_value(value).unwrap(),
            &mut Vec::new(),
            &mut places,
        );
        for place in places {
            assert!(
                classes::of_place(table, &place).is_some(),
                "{} has no class",
                place.join(".")
            );
        }
    }

    fn unseen() -> Vec<Unseen> {
        vec![Unseen {
            what: "a".into(),
            because: "b".into(),
        }]
    }

    // Every field is written out, so that a new one does not compile here before it has a class.
    #[test]
    fn every_string_of_case_json_has_a_class() {
        let meta = CaseMeta {
            format: "a".into(),
            version: 1,
            observer: "a".into(),
            tool_version: "a".into(),
            argv: vec!["a".into()],
            command: vec!["a".into(), "b".into()],
            command_pid: Some(1),
            scope: Some(crate::meta::ScopeMeta {
                pids: vec![1],
                cgroups: vec!["a".into()],
                devices: vec!["a".into()],
                paths: vec!["a".into()],
            }),
            command_status: Some("a".into()),
            start_utc: "a".into(),
            clock: Clock {
                name: "a".into(),
                host: "a".into(),
                start_ns: 1,
                resolution_ns: 1,
            },
            sampling: Some(SamplingMeta {
                cpu_budget: 0.1,
                levels: vec![SamplingLevel::default()],
                left_out: one("sda", LeftOutMeta::default()),
                calls_left_out: 1,
            }),
            fired: vec![crate::meta::FiredMeta {
                trigger: "a".into(),
                measure: "a".into(),
                layer: "a".into(),
                op: "a".into(),
                device: "a".into(),
                comm: "a".into(),
                ..Default::default()
            }],
            duration_ns: Some(1),
            state: State::Sealed,
            simulated: false,
            redacted: true,
            layers: one(
                "app",
                LayerMeta {
                    rows: 1,
                    stages: one("fs_ns", "fs".into()),
                    join: "none".into(),
                    slower_than_ns: Some(10_000_000),
                    skipped: Some(1),
                    failed: Some(1),
                    without_end: Some(1),
                },
            ),
            probes: one(
                "block",
                ProbeMeta {
                    attached: vec!["a".into()],
                    received: 1,
                    lost: 1,
                    recursion_misses: 1,
                    own_excluded: 1,
                    own_excluded_bytes: 1,
                    out_of_scope: 1,
                    counts: one("a", 1),
                },
            ),
            phases: vec![Phase {
                name: "a".into(),
                start_ns: 1,
                end_ns: 1,
            }],
            workload: Some(serde_json::json!({"summary": {"targets": [{"name": "a"}]}, "x": "y"})),
            not_observed: unseen(),
            not_carried: unseen(),
            open_questions: vec!["a".into()],
            tables: one(
                "a",
                TableMeta {
                    rows: 1,
                    bytes: 1,
                    xxh64: "a".into(),
                },
            ),
        };
        all_classified(&meta, classes::CASE_JSON);
    }

    #[test]
    fn every_string_of_system_json_has_a_class() {
        let device = DeviceMeta {
            name: "sda".into(),
            dev: 1,
            size_bytes: 1,
            queue: one("scheduler", "none".into()),
            facts: one("serial", "S1".into()),
        };
        let system = SystemMeta {
            host: "a".into(),
            kernel: "a".into(),
            cpus: 1,
            numa_nodes: one("0", "0-7".into()),
            cpu_model: "a".into(),
            memory_bytes: 1,
            virtualization: "a".into(),
            devices: one("sda", device),
            mounts: one("/mnt/acme", ["a".into(), "b".into(), "c".into()]),
            pools: vec![vec!["sda".into(), "sdb".into()]],
            journals: vec![JournalMeta {
                file_system: "sda".into(),
                dev: 1,
                journal: "sdb".into(),
                journal_dev: 2,
                journal_disk: "sdb".into(),
            }],
            swaps: vec!["/dev/acme2".into()],
            irqs: one("24", ["a".into(), "b".into()]),
            servers: one("77", vec!["sda".into(), "/mnt/acme".into()]),
            kernel_threads: ["kworker/u#:#".into()].into(),
            processes: one("79", "acmed".into()),
            dirty_limits: one("dirty_bytes", 2 << 20),
            recorder: one("78", ["whodisk-rec".into()].into()),
            cgroups: BTreeMap::from([(9, "/sys/fs/cgroup/acme".into())]),
            changes: vec!["/mnt/acme was unmounted".into()],
        };
        all_classified(&system, classes::SYSTEM_JSON);
        let mut tokens = Tokens::new(Key([5, 6]));
        json_of(&system, "system.json", classes::SYSTEM_JSON, &mut tokens, false);
        let redacted = json_of(&system, "system.json", classes::SYSTEM_JSON, &mut tokens, true);
        let text = redacted.to_string();
        assert!(!text.contains("acme") && !text.contains("S1"), "{text}");
        let back: SystemMeta = back(redacted);
        let target = back.mounts.keys().next().unwrap();
        assert_eq!(back.changes[0], format!("{target} was unmounted"));
        assert_eq!(back.servers["77"], ["sda", target]);
    }
}

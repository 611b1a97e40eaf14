//! Scenario files: a workload, a stack and faults in TOML, checked key by key. Reference: `docs/reference/lab.md`.
use crate::components::{
    array, drive, fitted_drive, host, interrupts, load, network, pages, protocol, server, simple_drive,
    volume, writeback,
};
use crate::error::LabError;
use crate::faults::{self, Fault};
use crate::keys::{hint_for, key, Key, Kind, Schema, Section};
use crate::names;
use crate::observation;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;
use workload::{Spec, WorkloadError};

/// Keys beside the tables.
pub const ROOT_KEYS: [Key; 3] = [
    key("name", Kind::Text, "", "Name of the scenario."),
    key("about", Kind::Text, "", "What it shows, in a sentence."),
    key(
        "sample",
        Kind::Time(0, 3_600_000_000_000),
        "100ms",
        "Step of sampled series; 0 = none.",
    ),
];

static DEVICE_KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let kinds = simple_drive::KEYS.into_iter().chain(fitted_drive::KEYS);
    drive::KEYS.into_iter().chain(kinds).collect()
});

/// Every table of a scenario but `[workload]`, `[load.*]` and `[fault.*]`, top of the stack first.
pub static SCHEMAS: LazyLock<Vec<Schema>> = LazyLock::new(|| {
    let schema = |name, about, keys: &'static [Key]| Schema { name, about, keys };
    vec![
        schema("host", "The machine that runs the workload.", &host::KEYS),
        schema(
            "network",
            "Between clients and a file server; needs [protocol].",
            &network::KEYS,
        ),
        schema(
            "protocol",
            "File protocol of a server; without it the workload is local.",
            &protocol::KEYS,
        ),
        schema("server", "The file server or local file system.", &server::KEYS),
        schema(
            "array",
            "A copy-on-write array with a guest file system on it, instead of a plain server.",
            &array::KEYS,
        ),
        schema(
            "cache",
            "RAM cache; used by workloads with io = \"buffered\".",
            &pages::CACHE_KEYS,
        ),
        schema(
            "prefetch",
            "Reads ahead of sequential readers; needs [cache].",
            &pages::PREFETCH_KEYS,
        ),
        schema(
            "writeback",
            "Writes go into the cache and out later; needs [cache].",
            &writeback::KEYS,
        ),
        schema(
            "ssd_tier",
            "An SSD between RAM and the volume; needs [cache].",
            &pages::TIER_KEYS,
        ),
        schema(
            "volume",
            "Spreads data over the drives; without it there is one drive.",
            &volume::KEYS,
        ),
        schema(
            "interrupts",
            "Vectors and their handlers; without it completion costs nothing.",
            &interrupts::KEYS,
        ),
        schema("device", "The drives.", &DEVICE_KEYS),
        schema(
            "recorder",
            "What a recorder sees of the run; without it everything, exactly.",
            &observation::KEYS,
        ),
    ]
});

/// A checked scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// File, or name of an embedded one.
    pub file: String,
    /// `name`, `about`, `sample`.
    pub root: Section,
    /// The access specification; its seed is the seed of everything.
    pub workload: Spec,
    sections: BTreeMap<&'static str, Section>,
    present: Vec<&'static str>,
    /// Other load.
    pub loads: Vec<Section>,
    /// Faults, in the order of their names.
    pub faults: Vec<Fault>,
}

impl Scenario {
    /// Reads a file, with `--set` edits (`key=value`). Errors name file, key, range and what was found.
    pub fn read(path: &Path, edits: &[String]) -> Result<Scenario, LabError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| LabError::Read {
            file: file.clone(),
            source,
        })?;
        Scenario::parse(&file, &text, edits)
    }

    /// Reads a stack for a replay: a scenario's file, or the name of an embedded one, with `workload` in the place of its own.
    pub fn stack(name: &str, edits: &[String], workload: toml::Table) -> Result<Scenario, LabError> {
        let text = crate::embedded::text(name)?;
        let mut table = parse_toml(name, &text)?;
        table.insert("workload".into(), toml::Value::Table(workload));
        for edit in edits {
            apply_edit(&mut table, edit)?;
        }
        Scenario::from_table(name, table)
    }

    /// Checks `text`; `file` stands for it in errors.
    pub fn parse(file: &str, text: &str, edits: &[String]) -> Result<Scenario, LabError> {
        let mut table = parse_toml(file, text)?;
        for edit in edits {
            apply_edit(&mut table, edit)?;
        }
        Scenario::from_table(file, table)
    }

    fn from_table(file: &str, mut table: toml::Table) -> Result<Scenario, LabError> {
        let workload = take_table(file, &mut table, "workload")?.ok_or_else(|| {
            let expected = "a table [workload], as whodisk run reads it";
            LabError::key(file, "workload", expected, "nothing", "add it")
        })?;
        let workload = parse_workload(file, workload)?;
        let (mut sections, mut present) = (BTreeMap::new(), Vec::new());
        for schema in SCHEMAS.iter() {
            let own = take_table(file, &mut table, schema.name)?;
            if own.is_some() {
                present.push(schema.name);
            }
            let section = Section::parse(file, schema.name, schema.keys, &own.unwrap_or_default())?;
            sections.insert(schema.name, section);
        }
        let loads = named_tables(file, &mut table, "load")?
            .into_iter()
            .map(|(name, own)| Section::parse(file, &format!("load.{name}"), &load::KEYS, &own));
        let loads = loads.collect::<Result<Vec<_>, _>>()?;
        let faults = named_tables(file, &mut table, "fault")?;
        check_fault_names(file, &faults)?;
        let faults = faults
            .into_iter()
            .map(|(name, own)| Fault::parse(file, &name, own));
        let faults = faults.collect::<Result<Vec<_>, _>>()?;
        check_root_tables(file, &table)?;
        let root = Section::parse(file, "", &ROOT_KEYS, &table)?;
        let scenario = Scenario {
            file: file.into(),
            root,
            workload,
            sections,
            present,
            loads,
            faults: faults.into_iter().flatten().collect(),
        };
        scenario.check_needs()?;
        Ok(scenario)
    }

    /// The same without one of its other loads.
    pub fn without_load(&self, number: usize) -> Scenario {
        let mut rest = self.clone();
        rest.loads.remove(number);
        rest
    }

    /// A table with its defaults.
    pub fn section(&self, name: &str) -> &Section {
        self.sections
            .get(name)
            .unwrap_or_else(|| panic!("no table {name}"))
    }

    /// The same, to change it.
    pub fn section_mut(&mut self, name: &str) -> &mut Section {
        self.sections
            .get_mut(name)
            .unwrap_or_else(|| panic!("no table {name}"))
    }

    /// Whether the file has the table.
    pub fn has(&self, name: &str) -> bool {
        self.present.contains(&name)
    }

    /// Name: of the key, else of the file.
    pub fn name(&self) -> String {
        match self.root.text("name") {
            "" => Path::new(&self.file)
                .file_stem()
                .map_or_else(|| self.file.clone(), |stem| stem.to_string_lossy().into_owned()),
            name => name.into(),
        }
    }

    /// Names of the drives.
    pub fn drive_names(&self) -> Vec<String> {
        let device = self.section("device");
        (0..device.whole("count"))
            .map(|n| names::disk(device.text("name"), n))
            .collect()
    }

    fn check_needs(&self) -> Result<(), LabError> {
        let needs = [
            ("prefetch", "cache"),
            ("writeback", "cache"),
            ("ssd_tier", "cache"),
            ("network", "protocol"),
        ];
        for (table, needed) in needs {
            if self.has(table) && !self.has(needed) {
                return Err(LabError::key(
                    &self.file,
                    table,
                    format!("a table [{needed}] beside it"),
                    "none",
                    format!("add [{needed}] or remove [{table}]"),
                ));
            }
        }
        if self.section("device").whole("count") > 1 && !self.has("volume") {
            let hint = "add [volume], or set device.count to 1";
            return Err(LabError::key(
                &self.file,
                "device.count",
                "1 without [volume]",
                "more",
                hint,
            ));
        }
        if self.workload.duration_ns.is_none() && self.workload.operations.is_none() {
            return Err(LabError::key(
                &self.file,
                "workload.duration",
                "an end",
                "none",
                "add duration",
            ));
        }
        Ok(())
    }
}

fn parse_toml(file: &str, text: &str) -> Result<toml::Table, LabError> {
    text.parse().map_err(|error: toml::de::Error| {
        let line = error
            .span()
            .map_or(0, |span| text[..span.start].matches('\n').count() + 1);
        let found = error.message().replace('\n', " ");
        LabError::key(
            file,
            format!("(line {line})"),
            "valid TOML",
            found,
            "correct the syntax",
        )
    })
}

/// Applies `a.b.c=value` to the tables of a scenario. A value that is no TOML value is a text.
fn apply_edit(table: &mut toml::Table, edit: &str) -> Result<(), LabError> {
    let wrong = |expected: &str, found: &str| {
        LabError::key(
            "--set",
            edit,
            expected,
            found,
            "write --set table.key=value, as device.count=4",
        )
    };
    let (path, value) = edit.split_once('=').ok_or_else(|| wrong("key=value", "no ="))?;
    let parsed: Option<toml::Table> = format!("v = {value}").parse().ok();
    let value = parsed
        .and_then(|mut table| table.remove("v"))
        .unwrap_or_else(|| toml::Value::String(value.into()));
    let mut keys: Vec<&str> = path.trim().split('.').collect();
    let last = keys
        .pop()
        .filter(|key| !key.is_empty())
        .ok_or_else(|| wrong("a key", "nothing"))?;
    let mut at = table;
    for key in keys {
        let next = at
            .entry(key.to_owned())
            .or_insert_with(|| toml::Value::Table(toml::Table::new()));
        at = next.as_table_mut().ok_or_else(|| wrong("a table", key))?;
    }
    at.insert(last.into(), value);
    Ok(())
}

fn take_table(file: &str, table: &mut toml::Table, name: &str) -> Result<Option<toml::Table>, LabError> {
    match table.remove(name) {
        None => Ok(None),
        Some(toml::Value::Table(own)) => Ok(Some(own)),
        Some(other) => {
            let expected = format!("a table [{name}]");
            Err(LabError::key(
                file,
                name,
                expected,
                other.to_string(),
                "write it as a table",
            ))
        }
    }
}

/// `[load.a]`, `[load.b]`: tables with names.
fn named_tables(
    file: &str,
    table: &mut toml::Table,
    name: &str,
) -> Result<Vec<(String, toml::Table)>, LabError> {
    let mut found = Vec::new();
    for (own, value) in take_table(file, table, name)?.unwrap_or_default() {
        match value {
            toml::Value::Table(value) => found.push((own, value)),
            other => {
                let expected = format!("a table [{name}.{own}]");
                return Err(LabError::key(
                    file,
                    format!("{name}.{own}"),
                    expected,
                    other.to_string(),
                    "write it so",
                ));
            }
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// A fault without a kind, beside others: an edit that missed the name of one of them.
fn check_fault_names(file: &str, faults: &[(String, toml::Table)]) -> Result<(), LabError> {
    let whole = |(_, own): &&(String, toml::Table)| own.contains_key("kind");
    let names = faults.iter().filter(whole).map(|(name, _)| name.as_str());
    for (name, _) in faults.iter().filter(|fault| !whole(fault)) {
        if let Some(near) = case::nearest(name, names.clone()) {
            return Err(LabError::key(
                file,
                format!("fault.{name}"),
                "a fault of the scenario, or a kind",
                "another name and no kind",
                format!("did you mean fault.{near}?"),
            ));
        }
    }
    Ok(())
}

fn check_root_tables(file: &str, table: &toml::Table) -> Result<(), LabError> {
    let mut known: Vec<&str> = SCHEMAS.iter().map(|schema| schema.name).collect();
    known.extend(["workload", "load", "fault"]);
    known.extend(ROOT_KEYS.iter().map(|key| key.name));
    match table.keys().find(|key| !known.contains(&key.as_str())) {
        Some(unknown) => {
            let found = format!("{unknown:?}");
            Err(LabError::key(
                file,
                unknown,
                "a known table or key",
                found,
                hint_for(unknown, &known),
            ))
        }
        None => Ok(()),
    }
}

/// Checks `[workload]` with the reader of `whodisk run`; its places in the text would be those of a copy, so the error
/// names the key alone.
fn parse_workload(file: &str, table: toml::Table) -> Result<Spec, LabError> {
    let mut document = toml::Table::new();
    document.insert("workload".into(), toml::Value::Table(table));
    Spec::parse(&document.to_string(), file).map_err(|error| match error {
        WorkloadError::Spec {
            at,
            expected,
            found,
            hint,
            ..
        } => {
            let key = at.rsplit("key ").next().filter(|key| key.starts_with("workload"));
            LabError::key(file, key.unwrap_or("workload"), expected, found, hint)
        }
        other => other.into(),
    })
}

/// Every fault kind, for the reference.
pub fn fault_schemas() -> Vec<Schema> {
    faults::KINDS
        .iter()
        .map(|kind| Schema {
            name: kind.name,
            about: kind.about,
            keys: kind.keys,
        })
        .collect()
}

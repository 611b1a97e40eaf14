//! Keys of a scenario's tables: name, unit, range and default are described once, beside the component that reads
//! them; parsing, errors, `whodisk lab show` and the reference in `docs/reference/lab.md` all use that description.
use crate::error::LabError;
use std::collections::BTreeMap;
use toml::Value as Toml;
use workload::units;

/// What a key's value is, and its legal range (both ends included).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Bytes: `"4KiB"`.
    Size(u64, u64),
    /// Nanoseconds: `"80us"`.
    Time(u64, u64),
    /// A whole number.
    Count(u64, u64),
    /// A number.
    Number(f64, f64),
    /// A probability or share: `"0.1%"`.
    Percent,
    /// Bytes per second: `"3GiB/s"`; 0 is no limit where the meaning says so.
    Rate(u64, u64),
    /// true or false.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Any text.
    Text,
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Name.
    pub name: &'static str,
    /// Value.
    pub kind: Kind,
    /// As written in a scenario; empty = the key is required.
    pub default: &'static str,
    /// What it does, with its source where it has one.
    pub meaning: &'static str,
}

/// Describes a key.
pub const fn key(name: &'static str, kind: Kind, default: &'static str, meaning: &'static str) -> Key {
    Key {
        name,
        kind,
        default,
        meaning,
    }
}

/// A kind of table: `[device]`, or one kind of it.
#[derive(Clone, Copy, Debug)]
pub struct Schema {
    /// Table, as `device`; for faults the kind.
    pub name: &'static str,
    /// What it models.
    pub about: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
}

/// A checked value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Size, time, count, rate.
    Whole(u64),
    /// Number, percent (as a fraction).
    Real(f64),
    /// Flag.
    Flag(bool),
    /// Choice, text.
    Text(String),
}

/// A checked table. Getters panic on a key that the schema does not have: that is a bug of the component.
#[derive(Clone, Debug)]
pub struct Section {
    /// Name as in the file: `device`, `fault.slow`.
    pub name: String,
    schema: &'static [Key],
    values: BTreeMap<&'static str, Value>,
    /// As written, or the default.
    texts: BTreeMap<&'static str, String>,
    given: Vec<&'static str>,
}

impl Kind {
    /// What is expected, in words.
    pub fn expected(self) -> String {
        match self {
            Kind::Size(low, high) => format!(
                "a size as \"4KiB\", {} to {}",
                units::format_size(low),
                units::format_size(high)
            ),
            Kind::Time(low, high) => {
                format!(
                    "a time as \"80us\", {} to {}",
                    format_time(low),
                    format_time(high)
                )
            }
            Kind::Count(low, high) => format!("a whole number, {low} to {high}"),
            Kind::Number(low, high) => format!("a number, {low} to {high}"),
            Kind::Percent => "a share as \"0.1%\", 0% to 100%".into(),
            Kind::Rate(low, high) => format!(
                "bytes per second as \"3GiB/s\", {}/s to {}/s",
                units::format_size(low),
                units::format_size(high)
            ),
            Kind::Flag => "true or false".into(),
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
            Kind::Text => "a text".into(),
        }
    }

    fn parse(self, value: &Toml) -> Result<Value, String> {
        let text = || value.as_str().ok_or_else(|| describe(value));
        let ranged = |number: u64, low: u64, high: u64| {
            if (low..=high).contains(&number) {
                Ok(Value::Whole(number))
            } else {
                Err(format!("{}: out of range", describe(value)))
            }
        };
        let because = |why: String| format!("{}: {why}", describe(value));
        match self {
            Kind::Size(low, high) => ranged(units::parse_size(text()?).map_err(because)?, low, high),
            Kind::Time(low, high) => ranged(units::parse_duration_ns(text()?).map_err(because)?, low, high),
            Kind::Rate(low, high) => {
                let size = text()?
                    .strip_suffix("/s")
                    .ok_or_else(|| because("no /s at the end".into()))?;
                ranged(units::parse_size(size).map_err(because)?, low, high)
            }
            Kind::Count(low, high) => match value {
                Toml::Integer(number) if *number >= 0 => ranged(*number as u64, low, high),
                _ => Err(describe(value)),
            },
            Kind::Number(low, high) => {
                let number = match value {
                    Toml::Integer(number) => *number as f64,
                    Toml::Float(number) => *number,
                    _ => return Err(describe(value)),
                };
                match (low..=high).contains(&number) {
                    true => Ok(Value::Real(number)),
                    false => Err(format!("{number}: out of range")),
                }
            }
            Kind::Percent => {
                let ppm = units::parse_percent_ppm(text()?).map_err(because)?;
                Ok(Value::Real(f64::from(ppm) / 1e6))
            }
            Kind::Flag => value.as_bool().map(Value::Flag).ok_or_else(|| describe(value)),
            Kind::Choice(words) => match words.iter().find(|word| Some(**word) == value.as_str()) {
                Some(word) => Ok(Value::Text((*word).into())),
                None => Err(describe(value)),
            },
            Kind::Text => text().map(|text| Value::Text(text.into())),
        }
    }

    /// Reads a value as written on a command line or as a default: quotes are not needed.
    pub fn toml_of(self, text: &str) -> Toml {
        match self {
            Kind::Count(..) => text
                .parse()
                .map_or_else(|_| Toml::String(text.into()), Toml::Integer),
            Kind::Number(..) => text
                .parse()
                .map_or_else(|_| Toml::String(text.into()), Toml::Float),
            Kind::Flag => text
                .parse()
                .map_or_else(|_| Toml::String(text.into()), Toml::Boolean),
            _ => Toml::String(text.into()),
        }
    }
}

/// A time in its largest unit that divides it.
pub fn format_time(ns: u64) -> String {
    let unit = units::TIME_UNITS
        .iter()
        .rev()
        .find(|(_, scale)| ns >= *scale && ns.is_multiple_of(*scale));
    let (name, scale) = unit.unwrap_or(&units::TIME_UNITS[0]);
    format!("{}{name}", ns / scale)
}

fn describe(value: &Toml) -> String {
    match value {
        Toml::Table(_) => "a table".into(),
        Toml::Array(_) => "a list".into(),
        other => other.to_string(),
    }
}

/// The nearest of `known`, as a hint.
pub fn hint_for(name: &str, known: &[&str]) -> String {
    match case::nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean {near}? (all: {})", known.join(", ")),
        None => format!("choose one of {}", known.join(", ")),
    }
}

impl Section {
    /// Checks a table of `file` against its schema; absent keys get their defaults.
    pub fn parse(
        file: &str,
        name: &str,
        schema: &'static [Key],
        table: &toml::Table,
    ) -> Result<Section, LabError> {
        let known: Vec<&str> = schema.iter().map(|key| key.name).collect();
        if let Some(unknown) = table.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(LabError::key(
                file,
                format!("{name}.{unknown}"),
                "a known key",
                format!("{unknown:?}"),
                hint_for(unknown, &known),
            ));
        }
        let mut section = Section {
            name: name.into(),
            schema,
            values: BTreeMap::new(),
            texts: BTreeMap::new(),
            given: Vec::new(),
        };
        for key in schema {
            let written = table.get(key.name);
            let value = match written {
                Some(value) => value.clone(),
                None if key.default.is_empty() && key.kind != Kind::Text => {
                    return Err(LabError::key(
                        file,
                        format!("{name}.{}", key.name),
                        key.kind.expected(),
                        "nothing",
                        "add it",
                    ));
                }
                None => key.kind.toml_of(key.default),
            };
            section.put(file, key, &value)?;
            section.given.extend(written.map(|_| key.name));
        }
        Ok(section)
    }

    fn put(&mut self, file: &str, key: &'static Key, value: &Toml) -> Result<(), LabError> {
        let parsed = key.kind.parse(value).map_err(|found| {
            let place = format!("{}.{}", self.name, key.name);
            LabError::key(file, place, key.kind.expected(), found, "correct it")
        })?;
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        self.texts.insert(key.name, text);
        self.values.insert(key.name, parsed);
        Ok(())
    }

    /// Replaces a value (a fault does that), written as in a scenario.
    pub fn set(&mut self, file: &str, name: &str, value: &Toml) -> Result<(), LabError> {
        let Some(key) = self.schema.iter().find(|key| key.name == name) else {
            let known: Vec<&str> = self.schema.iter().map(|key| key.name).collect();
            let place = format!("{}.{name}", self.name);
            return Err(LabError::key(
                file,
                place,
                "a known key",
                format!("{name:?}"),
                hint_for(name, &known),
            ));
        };
        self.put(file, key, value)
    }

    /// Whether the scenario itself gave the key.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.contains(&name)
    }

    /// Every key with its value as written, and whether the scenario gave it.
    pub fn entries(&self) -> impl Iterator<Item = (&'static Key, &str, bool)> {
        self.schema
            .iter()
            .map(|key| (key, self.texts[key.name].as_str(), self.is_given(key.name)))
    }

    fn value(&self, name: &str) -> &Value {
        self.values
            .get(name)
            .unwrap_or_else(|| panic!("no key {name} in the schema of {}", self.name))
    }

    /// A size, time, count or rate, in base units.
    pub fn whole(&self, name: &str) -> u64 {
        match self.value(name) {
            Value::Whole(number) => *number,
            other => panic!("{}.{name} is {other:?}, not a whole number", self.name),
        }
    }

    /// A number, or a share as a fraction.
    pub fn real(&self, name: &str) -> f64 {
        match self.value(name) {
            Value::Real(number) => *number,
            other => panic!("{}.{name} is {other:?}, not a number", self.name),
        }
    }

    /// A flag.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.value(name), Value::Flag(true))
    }

    /// A choice or text.
    pub fn text(&self, name: &str) -> &str {
        match self.value(name) {
            Value::Text(text) => text,
            other => panic!("{}.{name} is {other:?}, not a text", self.name),
        }
    }
}

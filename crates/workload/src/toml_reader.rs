//! Typed access to a parsed TOML table. Its errors know their line, column and key.
use crate::units;
use crate::WorkloadError;
use std::ops::Range;
use toml::de::{DeTable, DeValue};
use toml::Spanned;

/// A refused value, before the file's name and text are known.
#[derive(Debug)]
pub(crate) struct Fault {
    span: Option<Range<usize>>,
    key: String,
    expected: String,
    found: String,
    hint: String,
}

impl Fault {
    pub(crate) fn new(span: Option<Range<usize>>, expected: &str, found: &str, hint: &str) -> Fault {
        let (expected, found, hint) = (expected.to_owned(), found.replace('\n', " "), hint.to_owned());
        Fault {
            span,
            key: String::new(),
            expected,
            found,
            hint,
        }
    }

    fn at_key(mut self, key: &str) -> Fault {
        self.key = key.into();
        self
    }

    /// Line and column count from 1, columns in characters.
    pub(crate) fn located(self, text: &str, file: &str, table: &str) -> WorkloadError {
        let before = &text[..text.floor_char_boundary(self.span.map_or(0, |span| span.start))];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |tail| tail.chars().count()) + 1;
        let key = match self.key.as_str() {
            "" => String::new(),
            key if key == table => format!(", key {key}"),
            key => format!(", key {table}.{key}"),
        };
        WorkloadError::Spec {
            file: file.into(),
            at: format!("line {line}, column {column}{key}"),
            expected: self.expected,
            found: self.found,
            hint: self.hint,
        }
    }
}

/// A table and where it stands.
pub(crate) struct Table<'t> {
    table: &'t DeTable<'t>,
    span: Range<usize>,
}

type Value<'t> = &'t Spanned<DeValue<'t>>;

impl<'t> Table<'t> {
    pub(crate) fn root(table: &'t DeTable<'t>, span: Range<usize>) -> Self {
        Table { table, span }
    }

    /// The sub-table `name`, which must exist; no keys but `siblings` may stand beside it.
    pub(crate) fn table(&self, name: &str, siblings: &[&str]) -> Result<Table<'t>, Fault> {
        let Some(value) = self.table.get(name) else {
            self.only(siblings)?;
            return Err(self.missing("", "a table [workload]", "begin the file with [workload]"));
        };
        self.only(siblings)?;
        match value.get_ref() {
            DeValue::Table(table) => Ok(Table {
                table,
                span: value.span(),
            }),
            _ => Err(wrong_type(name, "a table", value)),
        }
    }

    /// Refuses every key that is not one of `known`, naming the nearest.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), Fault> {
        let unknown = self
            .table
            .keys()
            .filter(|key| !known.contains(&key.get_ref().as_ref()));
        let Some(key) = unknown.min_by_key(|key| key.span().start) else {
            return Ok(());
        };
        let name = key.get_ref().as_ref();
        let hint = match case::nearest(name, known.iter().copied()) {
            Some(nearest) => format!("did you mean {nearest}?"),
            None => format!("the keys are {}", known.join(", ")),
        };
        Err(Fault::new(
            Some(key.span()),
            "a known key",
            &format!("{name:?}"),
            &hint,
        ))
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// A fault at the value of `key` (or at the table if it is absent).
    pub(crate) fn fault(&self, key: &str, expected: &str, found: &str, hint: &str) -> Fault {
        let span = self.table.get(key).map_or(self.span.clone(), Spanned::span);
        Fault::new(Some(span), expected, found, hint).at_key(key)
    }

    pub(crate) fn missing(&self, key: &str, expected: &str, hint: &str) -> Fault {
        Fault::new(Some(self.span.clone()), expected, "nothing", hint).at_key(key)
    }

    pub(crate) fn boolean(&self, key: &str) -> Result<Option<bool>, Fault> {
        self.typed(key, "true or false", |value| match value {
            DeValue::Boolean(flag) => Some(*flag),
            _ => None,
        })
    }

    /// A whole number without unit in `min..=max`.
    pub(crate) fn integer(&self, key: &str, min: u64, max: u64) -> Result<Option<u64>, Fault> {
        let expected = format!("a whole number, {min} to {max}");
        let Some(number) = self.typed(key, &expected, |value| match value {
            DeValue::Integer(number) => Some(i128::from_str_radix(number.as_str(), number.radix())),
            _ => None,
        })?
        else {
            return Ok(None);
        };
        let in_range = number
            .ok()
            .and_then(|n| u64::try_from(n).ok())
            .filter(|n| (min..=max).contains(n));
        match in_range {
            Some(number) => Ok(Some(number)),
            None => Err(self.fault(key, &expected, &self.describe(key), "choose one in this range")),
        }
    }

    /// A string with a unit that `parse` understands, in `min..=max` of the base unit.
    pub(crate) fn quantity(
        &self,
        key: &str,
        parse: fn(&str) -> Result<u64, String>,
        min: u64,
        max: u64,
    ) -> Result<Option<u64>, Fault> {
        let key_info = crate::spec::KEYS.iter().find(|info| info.name == key);
        let (what, range) = key_info.map_or(("a quantity", ""), |info| (info.value, info.range));
        let expected = format!("{what} in quotes with its unit, {range}");
        let Some(text) = self.typed(key, &expected, string)? else {
            return Ok(None);
        };
        let complain = |why: &str| self.fault(key, &expected, &format!("{text:?}: {why}"), "correct it");
        let value = parse(text).map_err(|why| complain(&why))?;
        if !(min..=max).contains(&value) {
            return Err(complain("out of range"));
        }
        Ok(Some(value))
    }

    pub(crate) fn percent(&self, key: &str) -> Result<Option<u32>, Fault> {
        let parse = |text: &str| units::parse_percent_ppm(text).map(u64::from);
        Ok(self.quantity(key, parse, 0, 1_000_000)?.map(|ppm| ppm as u32))
    }

    /// One of a few words.
    pub(crate) fn choice<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Result<Option<T>, Fault> {
        let names: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
        let expected = format!("one of {}", names.join(", "));
        let Some(text) = self.typed(key, &expected, string)? else {
            return Ok(None);
        };
        match words.iter().find(|(word, _)| *word == text) {
            Some((_, value)) => Ok(Some(*value)),
            None => Err(self.fault(key, &expected, &format!("{text:?}"), "choose one of them")),
        }
    }

    /// A string; `expected` says what it stands for.
    pub(crate) fn string(&self, key: &str, expected: &str) -> Result<Option<String>, Fault> {
        self.typed(key, expected, |value| string(value).map(str::to_owned))
    }

    pub(crate) fn strings(&self, key: &str) -> Result<Option<Vec<String>>, Fault> {
        const EXPECTED: &str = "a list of strings, as [\"a\", \"b\"]";
        let list = self.typed(key, EXPECTED, |value| match value {
            DeValue::Array(items) => items
                .iter()
                .map(|item| string(item.get_ref()).map(str::to_owned))
                .collect::<Option<Vec<_>>>(),
            _ => None,
        });
        list
    }

    /// A string, read as `string = 100%`, or a table of strings.
    pub(crate) fn string_or_pairs(&self, key: &str) -> Result<Option<Vec<(String, String)>>, Fault> {
        const EXPECTED: &str =
            "a size as \"4KiB\", or a table as { \"4KiB\" = \"70%\", \"64KiB\" = \"30%\" }";
        self.typed(key, EXPECTED, |value| match value {
            DeValue::String(text) => Some(vec![(text.to_string(), "100%".to_owned())]),
            DeValue::Table(table) => table
                .iter()
                .map(|(name, share)| Some((name.get_ref().to_string(), string(share.get_ref())?.to_owned())))
                .collect(),
            _ => None,
        })
    }

    fn typed<T>(
        &self,
        key: &str,
        expected: &str,
        take: impl FnOnce(&'t DeValue<'t>) -> Option<T>,
    ) -> Result<Option<T>, Fault> {
        let Some(value) = self.table.get(key) else {
            return Ok(None);
        };
        take(value.get_ref())
            .map(Some)
            .ok_or_else(|| wrong_type(key, expected, value))
    }

    fn describe(&self, key: &str) -> String {
        self.table
            .get(key)
            .map_or("nothing".into(), |value| describe(value.get_ref()))
    }
}

fn string<'t>(value: &'t DeValue<'t>) -> Option<&'t str> {
    match value {
        DeValue::String(text) => Some(text.as_ref()),
        _ => None,
    }
}

fn wrong_type(key: &str, expected: &str, value: Value) -> Fault {
    let hint = "write it in the expected form";
    Fault::new(Some(value.span()), expected, &describe(value.get_ref()), hint).at_key(key)
}

fn describe(value: &DeValue) -> String {
    match value {
        DeValue::Integer(number) => format!("the number {number}"),
        DeValue::Float(number) => format!("the number {number}"),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::String(text) => format!("{text:?}"),
        other => format!("{} of another form", other.type_str()),
    }
}

//! CSV: one header line, a delimiter out of `,` `;` tab `|`, fields quoted or not, lines ending in LF or CRLF.
use super::map::{Mapping, TimeUnit};
use super::sink::Records;
use crate::lines::{find, Lines};
use crate::number::{iso_moment, leading_moment, leading_number, moment, number, Field};
use crate::ImportError;
use case::schema::NameId;
use std::path::Path;

/// What a column is for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Role {
    Ignored,
    Host,
    Subject,
    Time,
    Metric(usize),
}

/// Streams the file into `sink`.
pub fn read(path: &Path, mapping: &Mapping, sink: &mut Records) -> Result<(), ImportError> {
    let mut lines = Lines::open(path)?;
    if !lines.next_line()? {
        return Err(ImportError::content(
            path,
            "line 1",
            "a header line",
            "an empty file",
            "check the path",
        ));
    }
    let mut reader = RecordReader::new(path, lines.line(), mapping)?;
    let mut told = 0;
    loop {
        let (records, used) = reader.plain_lines(lines.whole(), sink)?;
        lines.pass(records, used);
        let number = lines.number + 1;
        if !lines.next_line()? {
            break;
        }
        let line = lines.line();
        if !line.is_empty() {
            match reader.record(line, number, sink) {
                Ok(()) if lines.is_in_doubt => sink.in_doubt(path, &lines.place(), line),
                Ok(()) => {}
                Err(error) => sink.bad_line(path, error, lines.is_cut)?,
            }
        }
        if lines.bytes != told {
            told = lines.bytes;
            sink.progress(told);
        }
    }
    Ok(())
}

/// Whether `text` begins with `begin`. Names are short: two words, which may overlap, are faster than a call of memcmp.
#[inline]
fn begins_with(text: &[u8], begin: &[u8]) -> bool {
    let word = |bytes: &[u8], at: usize| bytes[at..].first_chunk().map(|eight| u64::from_le_bytes(*eight));
    match begin.len() {
        length @ 8..=16 if text.len() >= length => {
            word(text, 0) == word(begin, 0) && word(text, length - 8) == word(begin, length - 8)
        }
        _ => text.starts_with(begin),
    }
}

/// Turns lines into records.
struct RecordReader<'a> {
    path: &'a Path,
    mapping: &'a Mapping,
    delimiter: u8,
    /// How many the header has.
    columns: usize,
    /// A record was looked at.
    has_begun: bool,
    roles: Vec<Role>,
    /// Columns after this one need not be looked at.
    last: usize,
    values: Vec<Option<f64>>,
    unquoted: Vec<u8>,
    host: LastName,
    subject: LastName,
    /// This many columns at the begin of a line are names, and these bytes were there in the line before: often the next
    /// one begins alike.
    names: usize,
    begin: Vec<u8>,
}

/// The name in the line before: often the next one is the same.
#[derive(Default)]
struct LastName {
    field: Vec<u8>,
    /// `None`: there was no line yet, or it is empty.
    id: Option<NameId>,
}

impl LastName {
    fn of(field: &[u8], id: Option<NameId>) -> LastName {
        LastName {
            field: field.to_vec(),
            id,
        }
    }

    /// The length of the name, if `text` begins with it.
    fn begins(&self, text: &[u8]) -> Option<usize> {
        (self.id.is_some() && begins_with(text, &self.field)).then_some(self.field.len())
    }

    fn is(&self, field: &[u8]) -> bool {
        self.id.is_some() && self.field == field
    }
}

impl<'a> RecordReader<'a> {
    fn new(path: &'a Path, header: &[u8], mapping: &'a Mapping) -> Result<RecordReader<'a>, ImportError> {
        let header = header.strip_prefix(b"\xef\xbb\xbf").unwrap_or(header);
        let count = |delimiter: u8| header.iter().filter(|&&byte| byte == delimiter).count();
        // Of equally frequent ones the first: a table of one column has none of them.
        let delimiter = [b'|', b'\t', b';', b',']
            .into_iter()
            .max_by_key(|&d| count(d))
            .unwrap_or(b',');
        let columns: Vec<String> = header
            .split(|&byte| byte == delimiter)
            .map(|field| String::from_utf8_lossy(field).trim().trim_matches('"').to_owned())
            .collect();
        let place = |wanted: &str| {
            columns.iter().position(|name| name == wanted).ok_or_else(|| {
                let expected = format!("a column '{wanted}'");
                let found = columns.join(", ");
                ImportError::content(path, "line 1", expected, found, "correct --map, or the header")
            })
        };
        let mut roles = vec![Role::Ignored; columns.len()];
        if let Some(host) = &mapping.host {
            roles[place(host)?] = Role::Host;
        }
        if let Some(subject) = &mapping.subject {
            roles[place(subject)?] = Role::Subject;
        }
        roles[place(&mapping.time.column)?] = Role::Time;
        for (number, metric) in mapping.metrics.iter().enumerate() {
            let at = place(&metric.column)?;
            if roles[at] != Role::Ignored {
                let found = format!("column '{}' a second time", metric.column);
                return Err(ImportError::content(
                    path,
                    "--map",
                    "each column once",
                    found,
                    "correct --map",
                ));
            }
            roles[at] = Role::Metric(number);
        }
        Ok(RecordReader {
            path,
            mapping,
            delimiter,
            last: roles.iter().rposition(|role| *role != Role::Ignored).unwrap_or(0),
            names: roles
                .iter()
                .take_while(|role| matches!(role, Role::Host | Role::Subject))
                .count(),
            begin: Vec::new(),
            columns: roles.len(),
            has_begun: false,
            roles,
            values: vec![None; mapping.metrics.len()],
            unquoted: Vec::new(),
            host: LastName::default(),
            subject: LastName::default(),
        })
    }

    /// Reads records from the begin of `text`, which ends with a line, up to the first that has to be looked at more closely (another name, a value
    /// that is missing or no plain number); how many they were, and their bytes. Most lines are such: their end is found by reading them.
    fn plain_lines(&mut self, text: &[u8], sink: &mut Records) -> Result<(u64, usize), ImportError> {
        let (mut records, mut used) = (0, 0);
        // The first is looked at as a whole: its columns are those of the header, or of no record.
        if !self.has_begun {
            return Ok((0, 0));
        }
        while let Some((time, length)) = self.plain_line(&text[used..]) {
            sink.record(Some(time), self.host.id, self.subject.id, &self.values)?;
            records += 1;
            used += length;
        }
        Ok((records, used))
    }

    /// The moment of such a record, and its bytes with the end of its line. Leaves its values in `values`.
    #[inline]
    fn plain_line(&mut self, text: &[u8]) -> Option<(i64, usize)> {
        if self.begin.is_empty() && self.names > 0 || !begins_with(text, &self.begin) {
            return None;
        }
        let (mut at, mut time) = (self.begin.len(), None);
        for column in self.names..=self.last {
            let rest = &text[at..];
            at += match self.roles[column] {
                Role::Metric(metric) => {
                    let (value, used) = leading_number(rest)?;
                    self.values[metric] = Some(value);
                    used
                }
                Role::Time => {
                    let (value, used) = self.leading_moment(rest)?;
                    time = Some(value);
                    used
                }
                Role::Host => self.host.begins(rest)?,
                Role::Subject => self.subject.begins(rest)?,
                Role::Ignored => {
                    let (used, byte) = (0..).zip(rest).find(|(_, &byte)| self.is_special(byte))?;
                    if *byte == b'"' {
                        return None;
                    }
                    used
                }
            };
            if column < self.last {
                if *text.get(at)? != self.delimiter {
                    return None;
                }
                at += 1;
            }
        }
        let end = match *text.get(at)? {
            b'\n' => at + 1,
            b'\r' if text.get(at + 1) == Some(&b'\n') => at + 2,
            byte if byte == self.delimiter && self.last + 1 < self.columns => {
                at + find(&text[at..], b'\n')? + 1
            }
            _ => return None,
        };
        Some((time?, end))
    }

    fn is_special(&self, byte: u8) -> bool {
        byte == self.delimiter || byte == b'\n' || byte == b'"'
    }

    fn record(&mut self, line: &[u8], number_of_line: u64, sink: &mut Records) -> Result<(), ImportError> {
        if line.contains(&b'"') {
            // Rare: quotes are taken away, and delimiters inside them become another byte.
            let mut plain = std::mem::take(&mut self.unquoted);
            unquote(line, self.delimiter, &mut plain);
            let done = self.plain_record(&plain, number_of_line, sink);
            self.unquoted = plain;
            return done;
        }
        self.plain_record(line, number_of_line, sink)
    }

    fn plain_record(&mut self, line: &[u8], at_line: u64, sink: &mut Records) -> Result<(), ImportError> {
        self.has_begun = true;
        let mut behind = line.split(|byte| *byte == self.delimiter).skip(self.columns);
        if behind.any(|field| !field.trim_ascii().is_empty()) {
            let found = line.split(|byte| *byte == self.delimiter).count().to_string();
            let expected = format!("{} fields, as in the header", self.columns);
            let hint = "put a field that holds the mark between fields (a decimal comma) in quotes, or divide fields by semicolons";
            return Err(ImportError::content(
                self.path,
                format!("line {at_line}"),
                expected,
                found,
                hint,
            ));
        }
        let mut time = None;
        let (mut rest, mut column) = if !self.begin.is_empty() && begins_with(line, &self.begin) {
            (&line[self.begin.len()..], self.names)
        } else {
            (line, 0)
        };
        self.values.fill(None);
        loop {
            // Numbers are read and their end is found in one go, where they are plain.
            let role = self.roles[column];
            let read = match role {
                Role::Metric(metric) => leading_number(rest)
                    .filter(|(_, used)| self.ends_at(rest, *used))
                    .map(|(value, used)| {
                        self.values[metric] = Some(value);
                        used
                    }),
                Role::Time => self
                    .leading_moment(rest)
                    .filter(|(_, used)| self.ends_at(rest, *used))
                    .map(|(value, used)| {
                        time = Some(value);
                        used
                    }),
                _ => None,
            };
            let length = match read {
                Some(length) => length,
                None => {
                    let length = find(rest, self.delimiter).unwrap_or(rest.len());
                    let field = &rest[..length];
                    match role {
                        Role::Ignored => {}
                        Role::Host if self.host.is(field) => {}
                        Role::Host => {
                            let id = sink.host(self.text(field, at_line, column)?);
                            self.host = LastName::of(field, id);
                        }
                        Role::Subject if self.subject.is(field) => {}
                        Role::Subject => {
                            let id = sink.subject(self.text(field, at_line, column)?);
                            self.subject = LastName::of(field, Some(id));
                        }
                        Role::Time => time = self.moment(field, at_line, column)?,
                        Role::Metric(metric) => {
                            self.values[metric] = match self.number(field) {
                                Field::Value(value) => Some(value),
                                Field::Missing => None,
                                Field::Wrong => return Err(self.wrong(at_line, column, "a number", field)),
                            };
                        }
                    }
                    length
                }
            };
            if column == self.last {
                break;
            }
            if length == rest.len() {
                let at = format!("line {at_line}");
                let expected = format!("{} fields or more", self.last + 1);
                let hint = "repair the line, or give a file with one record per line";
                return Err(ImportError::content(
                    self.path,
                    at,
                    expected,
                    format!("{}", column + 1),
                    hint,
                ));
            }
            rest = &rest[length + 1..];
            column += 1;
            if column == self.names {
                self.begin.clear();
                self.begin.extend_from_slice(&line[..line.len() - rest.len()]);
            }
        }
        sink.record(time, self.host.id, self.subject.id, &self.values)
    }

    /// A number. Where semicolons stand between fields, its comma is that of decimals: where a list has them, numbers have the comma.
    fn number(&self, field: &[u8]) -> Field<f64> {
        match number(field) {
            Field::Wrong if self.delimiter == b';' && !field.contains(&b'.') => {
                let text = String::from_utf8_lossy(field).replacen(',', ".", 1);
                number(text.as_bytes())
            }
            read => read,
        }
    }

    /// Whether a field of `rest` ends after this many bytes.
    fn ends_at(&self, rest: &[u8], used: usize) -> bool {
        rest.get(used).is_none_or(|byte| *byte == self.delimiter)
    }

    fn leading_moment(&self, rest: &[u8]) -> Option<(i64, usize)> {
        match self.mapping.time.unit {
            TimeUnit::Number(unit_ns) => leading_moment(rest, unit_ns),
            TimeUnit::Iso => None,
        }
    }

    fn text<'b>(&self, field: &'b [u8], at_line: u64, column: usize) -> Result<&'b str, ImportError> {
        std::str::from_utf8(field)
            .map(str::trim)
            .map_err(|_| self.wrong(at_line, column, "UTF-8 text", field))
    }

    fn moment(&self, field: &[u8], at_line: u64, column: usize) -> Result<Option<i64>, ImportError> {
        let found = match self.mapping.time.unit {
            TimeUnit::Number(unit_ns) => moment(field, unit_ns),
            TimeUnit::Iso => iso_moment(field),
        };
        match found {
            Field::Value(value) => Ok(Some(value)),
            Field::Missing => Ok(None),
            Field::Wrong => Err(self.wrong(at_line, column, "a moment in the unit of --map", field)),
        }
    }

    fn wrong(&self, at_line: u64, column: usize, expected: &str, found: &[u8]) -> ImportError {
        let name = match self.roles[column] {
            Role::Host => self.mapping.host.as_deref().unwrap_or(""),
            Role::Subject => self.mapping.subject.as_deref().unwrap_or(""),
            Role::Time => &self.mapping.time.column,
            Role::Metric(number) => &self.mapping.metrics[number].column,
            Role::Ignored => "",
        };
        let shown: String = String::from_utf8_lossy(found).chars().take(40).collect();
        let at = format!("line {at_line}, column {name}");
        let hint = "repair the value, leave it empty if it is missing, or correct --map";
        ImportError::content(self.path, at, expected, format!("'{shown}'"), hint)
    }
}

/// Removes quotes; a delimiter inside quotes becomes a space, a doubled quote a single one.
fn unquote(line: &[u8], delimiter: u8, plain: &mut Vec<u8>) {
    plain.clear();
    let mut inside = false;
    let mut at = 0;
    while at < line.len() {
        match line[at] {
            b'"' if inside && line.get(at + 1) == Some(&b'"') => {
                plain.push(b'"');
                at += 1;
            }
            b'"' => inside = !inside,
            byte if inside && byte == delimiter => plain.push(b' '),
            byte => plain.push(byte),
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_wherever_they_are() {
        for length in 0..40 {
            let mut bytes = vec![b'x'; length];
            assert_eq!(find(&bytes, b'\n'), None);
            for at in 0..length {
                bytes[at] = b'\n';
                assert_eq!(find(&bytes, b'\n'), Some(at));
                bytes[at] = b'\x0b';
            }
        }
    }

    #[test]
    fn begins_of_any_length() {
        let text: Vec<u8> = (0..40).collect();
        for length in 0..=40 {
            assert!(begins_with(&text, &text[..length]));
            assert!(length == 0 || !begins_with(&text[..length - 1], &text[..length]));
            for at in 0..length {
                let mut other = text[..length].to_vec();
                other[at] += 1;
                assert!(!begins_with(&text, &other), "{length} {at}");
            }
        }
    }

    #[test]
    fn quotes() {
        let mut plain = Vec::new();
        unquote(br#""a,b",2,"say ""hi""""#, b',', &mut plain);
        assert_eq!(plain, br#"a b,2,say "hi""#);
    }
}

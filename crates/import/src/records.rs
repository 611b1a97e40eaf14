//! Reading a file record by record: where a bad one is, what is left out, and what was cut off.
use crate::error::{Bad, RecordError};
use crate::input::open;
use crate::lines::Lines;
use crate::{ImportError, Sink, Source};
use std::io::Read;
use std::path::Path;

/// Largest file that is read as one document (JSON, XML).
const DOCUMENT_BYTES_MAX: u64 = 512 << 20;

/// A line of text.
#[derive(Clone, Copy)]
pub struct Line<'a> {
    /// Without its end.
    pub text: &'a str,
}

/// Calls `each` with every line of a source's files, empty ones too.
///
/// A bad line ends the import, or is left out and counted with `--keep-going`. A last line that is bad and has no end was cut off:
/// what is before it is kept, and the case says so.
pub fn each_line(
    source: &Source,
    sink: &mut Sink,
    each: impl FnMut(Line<'_>, &mut Sink) -> Result<(), RecordError>,
) -> Result<(), ImportError> {
    read_lines(source, sink, &mut EachLine(each))
}

/// Who reads lines. Most formats look at one after the other ([`each_line`]).
pub trait ReadLines {
    /// Reads a line.
    fn line(&mut self, line: Line<'_>, sink: &mut Sink) -> Result<(), RecordError>;

    /// Reads from the begin of `text`, which ends with a line, as many lines as need no closer look, all at once: how many they were, and
    /// their bytes. [`ReadLines::line`] gets the next one.
    fn plain_lines(&mut self, _text: &[u8], _sink: &mut Sink) -> Result<(u64, usize), ImportError> {
        Ok((0, 0))
    }
}

struct EachLine<F>(F);

impl<F: FnMut(Line<'_>, &mut Sink) -> Result<(), RecordError>> ReadLines for EachLine<F> {
    fn line(&mut self, line: Line<'_>, sink: &mut Sink) -> Result<(), RecordError> {
        self.0(line, sink)
    }
}

/// [`each_line`] for who can read many lines at once.
pub fn read_lines(source: &Source, sink: &mut Sink, reader: &mut impl ReadLines) -> Result<(), ImportError> {
    for path in &source.files {
        read_lines_of(path, sink, reader)?;
    }
    Ok(())
}

fn read_lines_of(path: &Path, sink: &mut Sink, reader: &mut impl ReadLines) -> Result<(), ImportError> {
    let mut lines = Lines::open(path)?;
    let (mut told, mut before) = (0, sink.bytes_done());
    loop {
        let (plain, used) = reader.plain_lines(lines.whole(), sink)?;
        lines.pass(plain, used);
        let number = lines.number + 1;
        let done = match lines.next_line()? {
            None => break,
            Some(line) => match std::str::from_utf8(line) {
                Ok(text) => reader.line(Line { text }, sink),
                // Names of programs and files may be any bytes.
                Err(_) => reader.line(
                    Line {
                        text: &String::from_utf8_lossy(line),
                    },
                    sink,
                ),
            },
        };
        match done {
            Ok(()) => {}
            Err(RecordError::Fatal(error)) => return Err(error),
            Err(RecordError::Bad(bad)) if lines.is_cut => sink.cut(path, &format!("line {number}"), &bad),
            Err(RecordError::Bad(bad)) => bad_record(path, &format!("line {number}"), bad, sink)?,
        }
        if lines.bytes != told {
            before += lines.bytes - told;
            told = lines.bytes;
            sink.progress(before);
        }
    }
    Ok(())
}

/// What becomes of a bad record: an error, or left out and counted.
pub fn bad_record(path: &Path, at: &str, bad: Bad, sink: &mut Sink) -> Result<(), ImportError> {
    let at = match bad.part.as_ref() {
        "" => at.to_owned(),
        part => format!("{at}, {part}"),
    };
    if sink.keeps_going() {
        sink.left_out(path, &at, &bad);
        return Ok(());
    }
    let hint = "correct it, say what the file is with --as, or leave such records out with --keep-going";
    Err(ImportError::content(path, at, bad.expected, bad.found, hint))
}

/// The whole text of a file that is one document. Bytes that are no UTF-8 are replaced.
pub fn document(path: &Path, sink: &mut Sink) -> Result<String, ImportError> {
    let mut bytes = Vec::new();
    open(path)?
        .take(DOCUMENT_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| ImportError::io(path, "read", e))?;
    if bytes.len() as u64 > DOCUMENT_BYTES_MAX {
        let expected = format!("a document of at most {DOCUMENT_BYTES_MAX} bytes");
        let found = "more";
        return Err(ImportError::content(
            path,
            "length",
            expected,
            found,
            "split the file",
        ));
    }
    sink.progress(sink.bytes_done() + bytes.len() as u64);
    Ok(String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
}

/// Parses a JSON document; what a killed program left unfinished is closed, and the case says so. Anything before the first brace is
/// passed over: some tools print a line of text first.
pub fn json(path: &Path, sink: &mut Sink) -> Result<serde_json::Value, ImportError> {
    let text = document(path, sink)?;
    let begin = text.find(['{', '[']).unwrap_or(0);
    let text = &text[begin..];
    let error = match serde_json::Deserializer::from_str(text).into_iter().next() {
        Some(Ok(value)) => return Ok(value),
        Some(Err(error)) => error,
        None => {
            return Err(ImportError::content(
                path,
                "byte 0",
                "JSON",
                "an empty file",
                "check the file",
            ));
        }
    };
    let at = format!("line {} column {}", error.line(), error.column());
    let bad = Bad::new(
        "",
        "JSON",
        error.to_string().split(" at line ").next().unwrap_or(""),
    );
    if error.is_eof() {
        if let Some(value) = closed(text) {
            sink.cut(path, &at, &bad);
            return Ok(value);
        }
    }
    Err(ImportError::content(
        path,
        at,
        bad.expected,
        bad.found,
        "check that the file is whole",
    ))
}

/// JSON that ends too early, without what was begun last: cut after the last value that ended, and closed.
fn closed(text: &str) -> Option<serde_json::Value> {
    let (mut open, mut in_string, mut escaped) = (Vec::new(), false, false);
    // Where a value of an array or object ended last, and what was open there.
    let mut good: Option<(usize, Vec<char>)> = None;
    for (at, byte) in text.char_indices() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            '"' => in_string = true,
            '{' => open.push('}'),
            '[' => open.push(']'),
            '}' | ']' => {
                open.pop();
                good = Some((at + 1, open.clone()));
            }
            _ => {}
        }
    }
    let (end, open) = good?;
    let mut whole = text[..end].to_owned();
    whole.extend(open.iter().rev());
    serde_json::from_str(&whole).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_that_end_too_early_are_closed() {
        let whole = r#"{"a": [{"b": 1}, {"b": "x}]"}]}"#;
        for end in 16..whole.len() {
            let value = closed(&whole[..end]).unwrap();
            assert_eq!(value["a"][0]["b"], 1, "{end}");
        }
        assert!(closed("{\"a\": 1").is_none());
        assert!(closed("").is_none());
    }
}

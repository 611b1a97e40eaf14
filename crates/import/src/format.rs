//! What a foreign format is to the importer.
use crate::input::open_text;
use crate::prefix;
use crate::records::{begins_json, is_command, of_shell, without_colours};
use crate::{ImportError, Sink};
use std::io::Read;
use std::path::{Path, PathBuf};

/// A foreign format: one file of this crate, and a line in [`crate::FORMATS`].
pub struct Format {
    /// Name on the command line, and of its page and its fixtures.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// What it can never carry over, and why.
    pub not_carried: &'static [(&'static str, &'static str)],
    /// Whether a file that begins so is of this format. At most one format may say so of any file; where nothing tells (a table of
    /// any columns), none does, and `--as` decides.
    pub recognise: fn(&Head) -> bool,
    /// Files of which this function says the same are parts of one log and read together; None: each file is read alone.
    pub together: fn(&Path) -> Option<PathBuf>,
    /// Reads a log into the sink. Errors name file, record, what was expected and found.
    pub read: fn(&Source, &mut Sink) -> Result<(), ImportError>,
}

/// For formats with files that stand alone.
pub fn alone(_: &Path) -> Option<PathBuf> {
    None
}

/// For formats that nothing tells from others.
pub fn never(_: &Head) -> bool {
    false
}

/// Bytes of a file that are looked at to recognise it.
pub const HEAD_BYTES: usize = 1 << 16;

/// What packed a file that begins so, and what prints what is in it.
pub fn packer(begin: &[u8]) -> Option<(&'static str, &'static str)> {
    let known: [(&[u8], _); 5] = [
        (b"\x1f\x8b", ("gzip", "zcat")),
        (b"\xfd7zXZ\0", ("xz", "xzcat")),
        (b"\x28\xb5\x2f\xfd", ("zstd", "zstdcat")),
        (b"BZh", ("bzip2", "bzcat")),
        // With log_store_compressed.
        (b"x\x9c", ("zlib", "fio --inflate-log")),
    ];
    let (_, names) = known.iter().find(|(mark, _)| begin.starts_with(mark))?;
    Some(*names)
}

/// The begin of a file.
pub struct Head {
    /// Its name without folders.
    pub name: String,
    /// Up to [`HEAD_BYTES`].
    pub bytes: Vec<u8>,
}

impl Head {
    /// Reads it.
    pub fn read(path: &Path) -> Result<Head, ImportError> {
        let mut bytes = Vec::new();
        open_text(path)?
            .take(HEAD_BYTES as u64)
            .read_to_end(&mut bytes)
            .map_err(|e| ImportError::io(path, "read", e))?;
        if !bytes.contains(&0) && packer(&bytes).is_none() {
            bytes = whole_text(bytes);
            if let (Some(prefix), Ok(text)) = (prefix::of(path), std::str::from_utf8(&bytes)) {
                bytes = prefix::without(prefix, text).into_bytes();
            }
        }
        let name = path
            .file_name()
            .map_or(String::new(), |n| n.to_string_lossy().into_owned());
        Ok(Head { name, bytes })
    }

    /// Whole lines of text; none of what is no text.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        std::str::from_utf8(&self.bytes).unwrap_or("").lines()
    }

    /// Whether any of the first lines fulfils a condition.
    pub fn has_line(&self, is: impl Fn(&str) -> bool) -> bool {
        self.lines().take(200).any(is)
    }

    /// The first lines that a program printed: none that is empty, a shell's, the command or a page's fence.
    pub fn filled_lines(&self) -> impl Iterator<Item = &str> {
        let is_around = |line: &str| of_shell(line.as_bytes()) || is_command(line) || line.starts_with("```");
        self.lines()
            .map(str::trim)
            .filter(move |line| !line.is_empty() && !is_around(line))
    }

    /// Whether it is JSON that holds this key near its begin. Lines of the shell may stand before it.
    pub fn is_json_with(&self, key: &str) -> bool {
        let text = String::from_utf8_lossy(&self.bytes);
        let begins = |line: &str| begins_json(line.trim_start().trim_start_matches('\u{feff}'));
        text.lines().any(begins) && text.contains(&format!("\"{key}\""))
    }
}

/// The whole lines of a text, without colours, and in UTF-8: names of programs and files may be any bytes.
fn whole_text(mut bytes: Vec<u8>) -> Vec<u8> {
    if let (true, Some(at)) = (
        bytes.len() == HEAD_BYTES,
        bytes.iter().rposition(|&byte| byte == b'\n'),
    ) {
        bytes.truncate(at + 1);
    }
    let text =
        String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned());
    let plain = match text.contains("\u{1b}[") {
        true => without_colours(&text),
        false => text,
    };
    plain.into_bytes()
}

/// One log: a file, or several that belong together.
#[derive(Clone, Debug)]
pub struct Source {
    /// Files, in the order given.
    pub files: Vec<PathBuf>,
    /// `--map`, for formats that take one.
    pub map: Option<String>,
    /// `--device`: the device that the log is of, where the log does not say.
    pub device: Option<String>,
}

impl Source {
    /// The (first) file.
    pub fn path(&self) -> &Path {
        &self.files[0]
    }

    /// Its name without folders.
    pub fn name(&self) -> String {
        self.path()
            .file_name()
            .map_or(String::new(), |n| n.to_string_lossy().into_owned())
    }

    /// What all its files are, in a sentence: names without folders.
    pub fn shown(&self) -> String {
        match self.files.len() {
            0 | 1 => self.name(),
            more => format!("{} and {} more", self.name(), more - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ran_a_program_hides_nothing_of_what_it_printed() {
        let rows = "1650260552 5178 26171317 177284491527 1136 44462\n";
        for above in [
            "$ pgbench --aggregate-interval=10 --log test\n",
            "pgbench --aggregate-interval=10 --log test\n",
            "```\n[root@db1 ~]# cat pgbench_log.7\n",
        ] {
            let head = Head {
                name: "log".into(),
                bytes: format!("{above}{rows}").into_bytes(),
            };
            assert_eq!(head.filled_lines().collect::<Vec<_>>(), [rows.trim()], "{above}");
        }
    }

    #[test]
    fn a_letter_of_another_encoding_hides_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let lines = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            let head = Head::read(&path).unwrap();
            head.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(lines(b"a\nM\xfcller\nc"), ["a", "M\u{fffd}ller", "c"]);
        assert_eq!(lines(b"\x1b[1ma\x1b[0m\r\nb"), ["a", "b"]);
        assert!(lines(b"a\0\xff").is_empty());
        // What is looked at ends inside a line.
        let long = b"abcdefg\n".repeat(HEAD_BYTES / 8);
        assert_eq!(
            lines(&[&long[..HEAD_BYTES - 4], b"xx\nyy"].concat()).len(),
            HEAD_BYTES / 8
        );
        assert_eq!(
            lines(&[&long[1..], b"xx\nyy"].concat()).last().unwrap(),
            "abcdefg"
        );
    }
}

//! Opening what is imported. A file is opened as often as somebody looks at it: to recognise it, at its begin, and to read it. A pipe can be
//! read but once: what was read of it is kept until the last look has passed it.
use crate::ImportError;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Error, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What is kept of a pipe at most: as much as the largest document.
const KEPT_BYTES_MAX: usize = 512 << 20;

/// Name of the standard input.
const STDIN: &str = "-";

thread_local! {
    /// The pipes of the import that this thread does.
    static PIPES: RefCell<HashMap<PathBuf, Rc<RefCell<Pipe>>>> = RefCell::new(HashMap::new());
}

/// Pipes that are open; they are closed when this goes.
pub struct Pipes(());

impl Pipes {
    /// Opens those among the files that are pipes. Error: there is none of this name, or it is a directory.
    pub fn open(files: &[PathBuf]) -> Result<Pipes, ImportError> {
        let pipes = Pipes(());
        for path in files {
            if is_pipe(path)? {
                let from: Box<dyn Read> = match path.as_os_str() == STDIN {
                    true => Box::new(std::io::stdin()),
                    false => Box::new(File::open(path).map_err(|e| ImportError::io(path, "open", e))?),
                };
                let pipe = Pipe {
                    from,
                    kept: Vec::new(),
                    has_ended: false,
                    is_last: false,
                    is_passed: false,
                };
                PIPES.with_borrow_mut(|open| open.insert(path.clone(), Rc::new(RefCell::new(pipe))));
            }
        }
        Ok(pipes)
    }

    /// From now on what is read of a pipe is not kept.
    pub fn last_look(&self) {
        PIPES.with_borrow(|open| open.values().for_each(|pipe| pipe.borrow_mut().is_last = true));
    }
}

impl Drop for Pipes {
    fn drop(&mut self) {
        PIPES.with_borrow_mut(HashMap::clear);
    }
}

fn is_pipe(path: &Path) -> Result<bool, ImportError> {
    if path.as_os_str() == STDIN {
        return Ok(true);
    }
    let metadata = std::fs::metadata(path).map_err(|e| ImportError::io(path, "open", e))?;
    if metadata.is_dir() {
        let hint = "name the files in it";
        return Err(ImportError::content(
            path,
            "begin",
            "a file or a pipe",
            "a directory",
            hint,
        ));
    }
    Ok(!metadata.is_file())
}

struct Pipe {
    from: Box<dyn Read>,
    kept: Vec<u8>,
    /// Whoever wrote into it is done: what is kept is all.
    has_ended: bool,
    is_last: bool,
    /// What was kept is gone.
    is_passed: bool,
}

/// A file or a pipe, from its begin.
pub enum Input {
    /// A file.
    File(File),
    /// A pipe.
    Pipe(PipeReader),
}

/// Reads a pipe from its begin.
pub struct PipeReader {
    pipe: Rc<RefCell<Pipe>>,
    at: usize,
    is_passed: bool,
}

/// Opens a file, or a pipe that is among the [`Pipes`].
pub fn open(path: &Path) -> Result<Input, ImportError> {
    let Some(pipe) = PIPES.with_borrow(|open| open.get(path).cloned()) else {
        return Ok(Input::File(
            File::open(path).map_err(|e| ImportError::io(path, "open", e))?,
        ));
    };
    if pipe.borrow().is_passed {
        let hint = "name it once, or write it into a file first";
        return Err(ImportError::content(
            path,
            "begin",
            "a pipe that is read once",
            "it is read a second time",
            hint,
        ));
    }
    Ok(Input::Pipe(PipeReader {
        pipe,
        at: 0,
        is_passed: false,
    }))
}

/// Opens a file or a pipe as text in UTF-8: a mark at its begin says that it is UTF-16 (shells of Windows write it), and goes.
pub fn open_text(path: &Path) -> Result<Text, ImportError> {
    Ok(Text {
        from: open(path)?,
        bytes: 0,
        encoding: None,
        raw: Vec::new(),
        ready: Vec::new(),
        at: 0,
    })
}

/// What letters are written in.
#[derive(Clone, Copy, PartialEq)]
enum Encoding {
    /// As it is.
    Utf8,
    Utf16Le,
    Utf16Be,
}

/// Reads text, from its begin.
pub struct Text {
    from: Input,
    /// Bytes that were read of the file.
    pub bytes: u64,
    /// None: nothing was read yet.
    encoding: Option<Encoding>,
    /// Half of a letter.
    raw: Vec<u8>,
    /// What was read and not yet asked for.
    ready: Vec<u8>,
    at: usize,
}

/// Bytes of UTF-16 that are read at a time.
const UTF16_BYTES: usize = 1 << 16;

impl Text {
    fn begin(&mut self) -> std::io::Result<Encoding> {
        let mut first = Vec::new();
        while first.len() < 3 {
            let mut some = [0; 3];
            let read = self.from.read(&mut some[first.len()..])?;
            if read == 0 {
                break;
            }
            first.extend_from_slice(&some[first.len()..first.len() + read]);
        }
        let (encoding, mark) = match first[..] {
            [0xef, 0xbb, 0xbf] => (Encoding::Utf8, 3),
            [0xff, 0xfe, ..] => (Encoding::Utf16Le, 2),
            [0xfe, 0xff, ..] => (Encoding::Utf16Be, 2),
            _ => (Encoding::Utf8, 0),
        };
        self.bytes += first.len() as u64;
        let rest = first.split_off(mark);
        match encoding {
            Encoding::Utf8 => self.ready = rest,
            _ => self.raw = rest,
        }
        Ok(encoding)
    }

    /// How many bytes of the file some text was.
    pub fn bytes_of(&self, text: &[u8]) -> u64 {
        match self.encoding {
            None | Some(Encoding::Utf8) => text.len() as u64,
            Some(_) => 2 * String::from_utf8_lossy(text).encode_utf16().count() as u64,
        }
    }

    /// Reads more of UTF-16. False: there is no more.
    fn decode(&mut self, is_big: bool) -> std::io::Result<bool> {
        let mut raw = std::mem::take(&mut self.raw);
        let kept = raw.len();
        raw.resize(kept + UTF16_BYTES, 0);
        let read = self.from.read(&mut raw[kept..])?;
        raw.truncate(kept + read);
        self.bytes += read as u64;
        let mut whole = raw.len() / 2 * 2;
        let unit = |pair: &[u8]| {
            let pair = [pair[0], pair[1]];
            if is_big {
                u16::from_be_bytes(pair)
            } else {
                u16::from_le_bytes(pair)
            }
        };
        // The first half of a letter waits for the second.
        if read > 0 && whole > 0 && matches!(unit(&raw[whole - 2..]), 0xd800..0xdc00) {
            whole -= 2;
        }
        self.raw = raw.split_off(whole);
        let letters = char::decode_utf16(raw.chunks_exact(2).map(unit));
        let text: String = letters
            .map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect();
        (self.ready, self.at) = (text.into_bytes(), 0);
        Ok(read > 0)
    }
}

impl Read for Text {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let encoding = match self.encoding {
            Some(encoding) => encoding,
            None => {
                let told = self.begin()?;
                *self.encoding.insert(told)
            }
        };
        while self.at == self.ready.len() {
            let more = match encoding {
                Encoding::Utf8 => {
                    let read = self.from.read(to)?;
                    self.bytes += read as u64;
                    return Ok(read);
                }
                Encoding::Utf16Le => self.decode(false)?,
                Encoding::Utf16Be => self.decode(true)?,
            };
            if !more && self.ready.is_empty() {
                return Ok(0);
            }
        }
        let read = (&self.ready[self.at..]).read(to)?;
        self.at += read;
        Ok(read)
    }
}

/// Opens what can only be read from a file, because its end is read first.
pub fn open_file(path: &Path) -> Result<File, ImportError> {
    match open(path)? {
        Input::File(file) => Ok(file),
        Input::Pipe(_) => {
            let hint = "its end is read first: write it into a file";
            Err(ImportError::content(path, "begin", "a file", "a pipe", hint))
        }
    }
}

impl Read for Input {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Input::File(file) => file.read(to),
            Input::Pipe(reader) => reader.read(to),
        }
    }
}

impl Read for PipeReader {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let pipe = &mut *self.pipe.borrow_mut();
        if self.is_passed {
            return pipe.from.read(to);
        }
        if self.at < pipe.kept.len() {
            let read = (&pipe.kept[self.at..]).read(to)?;
            self.at += read;
            return Ok(read);
        }
        if pipe.has_ended {
            return Ok(0);
        }
        if pipe.is_last {
            (pipe.kept, pipe.is_passed, self.is_passed) = (Vec::new(), true, true);
            return pipe.from.read(to);
        }
        if pipe.kept.len() >= KEPT_BYTES_MAX {
            let text =
                format!("nothing was found in its first {KEPT_BYTES_MAX} bytes; write it into a file first");
            return Err(Error::other(text));
        }
        let read = pipe.from.read(to)?;
        pipe.has_ended = read == 0 && !to.is_empty();
        pipe.kept.extend_from_slice(&to[..read]);
        self.at += read;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pipe that somebody writes `content` into.
    fn pipe_with(content: &'static [u8]) -> (tempfile::TempDir, PathBuf, std::thread::JoinHandle<()>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let to = path.clone();
        let writer = std::thread::spawn(move || std::fs::write(to, content).unwrap());
        (folder, path, writer)
    }

    #[test]
    fn a_pipe_is_looked_at_as_often_as_a_file_until_the_last_look() {
        let (_folder, path, writer) = pipe_with(b"one two three");
        let pipes = Pipes::open(std::slice::from_ref(&path)).unwrap();
        let read = |bytes: u64| {
            let mut text = String::new();
            open(&path)
                .unwrap()
                .take(bytes)
                .read_to_string(&mut text)
                .unwrap();
            text
        };
        assert_eq!(
            (read(3).as_str(), read(7).as_str(), read(3).as_str()),
            ("one", "one two", "one")
        );
        pipes.last_look();
        assert_eq!((read(3).as_str(), read(100).as_str()), ("one", "one two three"));
        writer.join().unwrap();
        let error = open(&path).err().unwrap().to_string();
        assert!(
            error.contains("pipe") && error.contains("a second time"),
            "{error}"
        );
        drop(pipes);
        assert!(open(&path.with_file_name("none")).is_err());
    }

    #[test]
    fn a_pipe_that_has_ended_can_be_read_again_and_again() {
        let (_folder, path, writer) = pipe_with(b"short");
        let pipes = Pipes::open(std::slice::from_ref(&path)).unwrap();
        let read = || std::io::read_to_string(open(&path).unwrap()).unwrap();
        assert_eq!(read(), "short");
        pipes.last_look();
        assert_eq!((read().as_str(), read().as_str()), ("short", "short"));
        writer.join().unwrap();
    }

    #[test]
    fn marks_of_encodings_are_obeyed_and_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        let read = |bytes: &[u8], most: usize| {
            std::fs::write(&path, bytes).unwrap();
            let (mut text, mut all, mut some) = (open_text(&path).unwrap(), Vec::new(), vec![0; most]);
            loop {
                match text.read(&mut some).unwrap() {
                    0 => return String::from_utf8(all).unwrap(),
                    read => all.extend_from_slice(&some[..read]),
                }
            }
        };
        let long = "Gerät 1,5 \u{1f4be}\r\n".repeat(9_000);
        let units: Vec<u16> = std::iter::once(0xfeff).chain(long.encode_utf16()).collect();
        let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
        for most in [1, 7, 1 << 20] {
            assert!(read(&little, most) == long && read(&big, most) == long);
            assert_eq!(read(&[b"\xef\xbb\xbf", long.as_bytes()].concat(), most), long);
            assert_eq!(read(long.as_bytes(), most), long);
            assert_eq!((read(b"", most).as_str(), read(b"ab", most).as_str()), ("", "ab"));
            // Half a letter at the end.
            assert_eq!(read(b"\xff\xfea\0\x3d\xd8", most), "a\u{fffd}");
        }
    }

    #[test]
    fn what_is_no_file_and_no_pipe_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let error = Pipes::open(&[folder.path().to_owned()])
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("a directory"), "{error}");
        let (_folder, path, writer) = pipe_with(b"PAR1");
        let _pipes = Pipes::open(std::slice::from_ref(&path)).unwrap();
        let error = open_file(&path).err().unwrap().to_string();
        assert!(error.contains("write it into a file"), "{error}");
        // Whoever writes into it waits for a reader of it all.
        open(&path).unwrap().read_to_end(&mut Vec::new()).unwrap();
        writer.join().unwrap();
    }
}

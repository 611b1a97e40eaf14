//! Lines of a file, in a buffer of bounded size.
use crate::input::{open_text, Text};
use crate::ImportError;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

/// Bytes read at a time.
const BLOCK_BYTES: usize = 1 << 18;
/// A longer line is no line of a log or a table.
const LINE_BYTES_MAX: usize = 1 << 20;

/// Reads a file line by line.
pub struct Lines<'a> {
    path: &'a Path,
    file: Text,
    buffer: Vec<u8>,
    line: Range<usize>,
    begin: usize,
    end: usize,
    /// The end of the last line that is there as a whole.
    whole_end: usize,
    ended: bool,
    /// The line at hand has no end: the file ends inside it, or right behind it.
    pub is_cut: bool,
    /// Nor does anything else show that its last field is whole. A number that was cut is a number, too.
    pub is_in_doubt: bool,
    /// Lines so far.
    pub number: u64,
    /// Bytes read so far.
    pub bytes: u64,
}

impl<'a> Lines<'a> {
    /// Opens a file.
    pub fn open(path: &'a Path) -> Result<Lines<'a>, ImportError> {
        Ok(Lines {
            path,
            file: open_text(path)?,
            buffer: vec![0; BLOCK_BYTES + LINE_BYTES_MAX],
            line: 0..0,
            begin: 0,
            end: 0,
            whole_end: 0,
            ended: false,
            is_cut: false,
            is_in_doubt: false,
            number: 0,
            bytes: 0,
        })
    }

    /// All lines that are there as a whole.
    pub fn whole(&self) -> &[u8] {
        &self.buffer[self.begin..self.whole_end.max(self.begin)]
    }

    /// Goes on after this many lines and bytes.
    pub fn pass(&mut self, lines: u64, bytes: usize) {
        self.number += lines;
        self.begin += bytes;
    }

    /// The line at hand, without its end.
    pub fn line(&self) -> &[u8] {
        without_return(&self.buffer[self.line.clone()])
    }

    /// Goes on to the next line; false after the last.
    pub fn next_line(&mut self) -> Result<bool, ImportError> {
        let mut searched = 0;
        loop {
            let rest = &self.buffer[self.begin + searched..self.end];
            if let Some(at) = find(rest, b'\n') {
                self.line = self.begin..self.begin + searched + at;
                self.begin = self.line.end + 1;
                self.number += 1;
                return Ok(true);
            }
            searched = self.end - self.begin;
            if self.ended {
                if searched == 0 {
                    return Ok(false);
                }
                self.line = self.begin..self.end;
                self.begin = self.end;
                self.number += 1;
                self.is_cut = true;
                self.is_in_doubt = is_in_doubt(&self.buffer[self.line.clone()]);
                return Ok(true);
            }
            self.fill(searched)?;
        }
    }

    /// Where the line at hand is; of one without an end, the byte of the file at which it begins, too.
    pub fn place(&self) -> String {
        if !self.is_cut {
            return format!("line {}", self.number);
        }
        let byte = self.file.bytes - self.file.bytes_of(&self.buffer[self.line.clone()]);
        format!("line {} (byte {byte})", self.number)
    }

    fn fill(&mut self, kept: usize) -> Result<(), ImportError> {
        if kept >= LINE_BYTES_MAX {
            let at = format!("line {}", self.number + 1);
            let found = format!("a line longer than {LINE_BYTES_MAX} bytes");
            let expected = "a text file with lines, or a Parquet file";
            return Err(ImportError::content(
                self.path,
                at,
                expected,
                found,
                "check the file",
            ));
        }
        self.buffer.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, kept);
        let read = self
            .file
            .read(&mut self.buffer[kept..kept + BLOCK_BYTES])
            .map_err(|e| ImportError::io(self.path, "read", e))?;
        self.end += read;
        let held = &self.buffer[..self.end];
        self.whole_end = held
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |at| at + 1);
        self.bytes += read as u64;
        self.ended = read == 0;
        Ok(())
    }
}

/// Position of a byte; eight at a time.
#[inline]
pub fn find(bytes: &[u8], wanted: u8) -> Option<usize> {
    let mut chunks = bytes.chunks_exact(8);
    let mut at = 0;
    for chunk in &mut chunks {
        let word = u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
        if let Some(place) = first_of(word, wanted) {
            return Some(at + place);
        }
        at += 8;
    }
    chunks
        .remainder()
        .iter()
        .position(|&byte| byte == wanted)
        .map(|place| at + place)
}

/// The first of eight bytes, the lowest first, that is this one.
#[inline]
pub fn first_of(eight: u64, wanted: u8) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let word = eight ^ (ONES * u64::from(wanted));
    let hit = word.wrapping_sub(ONES) & !word & (ONES << 7);
    (hit != 0).then(|| hit.trailing_zeros() as usize / 8)
}

/// Whether the last field of a line without an end may have been longer: only a blank, a bracket or a quotation mark ends one.
fn is_in_doubt(line: &[u8]) -> bool {
    !matches!(
        line.last(),
        None | Some(b' ' | b'\t' | b'\r' | b')' | b']' | b'>' | b'}' | b'"')
    )
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

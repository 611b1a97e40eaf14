//! Names of files that rows refer to by number.
use crate::pipeline::{each_row, StreamEnd};
use crate::stream::Stream;
use case::rows::FileRow;
use case::CaseError;
use std::collections::HashMap;

/// Names that are kept; files beyond that keep their number.
const NAMES_MAX: usize = 1 << 20;

/// A file system's number and an inode; a block device has inode 0.
type Key = (u32, u64);

/// Names by file, each from a moment on.
#[derive(Debug, Default)]
pub struct Files {
    names: HashMap<Key, Vec<(u64, String)>>,
    len: usize,
    /// Names that were not kept because there were too many.
    pub dropped: u64,
}

/// A name of which some pieces have come.
struct Pieces {
    next_part: u16,
    path: Vec<u8>,
}

impl Files {
    /// Reads every name. Pieces of a name follow each other; a name without all its pieces is left out.
    pub fn read(stream: Option<&dyn Stream<FileRow>>) -> Result<(Files, StreamEnd), CaseError> {
        let mut files = Files::default();
        let mut end = StreamEnd::default();
        let mut begun: HashMap<Key, Pieces> = HashMap::new();
        if let Some(stream) = stream {
            end.truncation = each_row(stream, |row: &FileRow| {
                end.last_ns = end.last_ns.max(row.time_ns);
                files.piece(row, &mut begun);
            })?;
        }
        for names in files.names.values_mut() {
            names.sort();
        }
        Ok((files, end))
    }

    fn piece(&mut self, row: &FileRow, begun: &mut HashMap<Key, Pieces>) {
        let key = (row.device, row.inode);
        let mut pieces = match (row.part, begun.remove(&key)) {
            (0, _) => Pieces {
                next_part: 0,
                path: Vec::new(),
            },
            (part, Some(pieces)) if pieces.next_part == part => pieces,
            _ => return,
        };
        let length = row.path.iter().position(|byte| *byte == 0);
        pieces
            .path
            .extend_from_slice(&row.path[..length.unwrap_or(row.path.len())]);
        pieces.next_part += 1;
        if pieces.next_part < row.parts {
            begun.insert(key, pieces);
        } else if self.len >= NAMES_MAX {
            self.dropped += 1;
        } else if !pieces.path.is_empty() {
            self.len += 1;
            let path = String::from_utf8_lossy(&pieces.path).into_owned();
            self.names.entry(key).or_default().push((row.time_ns, path));
        }
    }

    /// The name that the file had at a moment, or its first one.
    pub fn name(&self, device: u32, inode: u64, at_ns: u64) -> Option<&str> {
        let names = self.names.get(&(device, inode))?;
        let later = names.partition_point(|(from_ns, _)| *from_ns <= at_ns);
        names.get(later.saturating_sub(1)).map(|(_, path)| path.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rows;

    fn piece(time_ns: u64, inode: u64, [part, parts]: [u16; 2], text: &str) -> FileRow {
        let mut row = FileRow {
            time_ns,
            inode,
            device: 1,
            part,
            parts,
            ..FileRow::default()
        };
        row.path[..text.len()].copy_from_slice(text.as_bytes());
        row
    }

    #[test]
    fn names_hold_until_another_comes() {
        let long = "/x".repeat(64);
        let rows = Rows(vec![
            piece(10, 5, [0, 1], "/data/a"),
            piece(20, 6, [0, 2], &long),
            piece(20, 6, [1, 2], "/end"),
            piece(30, 5, [0, 1], "/data/b"),
            piece(40, 7, [1, 2], "lost its beginning"),
        ]);
        let (files, end) = Files::read(Some(&rows)).unwrap();
        assert_eq!(files.name(1, 5, 3), Some("/data/a"), "named late");
        assert_eq!(files.name(1, 5, 29), Some("/data/a"));
        assert_eq!(files.name(1, 5, 30), Some("/data/b"));
        assert_eq!(files.name(1, 6, 50), Some(format!("{long}/end").as_str()));
        assert_eq!((files.name(1, 7, 50), files.name(2, 5, 50)), (None, None));
        assert_eq!(end.last_ns, 40);
    }
}

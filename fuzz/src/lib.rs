//! What the fuzz targets share.
use case::raw::{RawReader, RawRow, BATCH_ROWS_MAX};
use std::fs::File;
use std::io::{Seek, Write};
use std::path::PathBuf;

/// A file in memory that every input is written to.
pub struct Scratch {
    file: File,
    path: PathBuf,
}

impl Scratch {
    /// Opens a file that has no name and vanishes with the process.
    pub fn new() -> Scratch {
        let file = tempfile::tempfile_in("/dev/shm").expect("room in /dev/shm");
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file)).into();
        Scratch { file, path }
    }

    /// Replaces the content.
    pub fn set(&mut self, data: &[u8]) -> &std::path::Path {
        self.file.set_len(0).expect("truncate");
        self.file.rewind().expect("rewind");
        self.file.write_all(data).expect("room in /dev/shm");
        &self.path
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Scratch::new()
    }
}

/// Reads `data` as a stream of `R`. Whatever the bytes are: no panic, batches within bounds, a prefix
/// that lies within the file, and an end that stays the end.
pub fn read_stream<R: RawRow>(scratch: &mut Scratch, data: &[u8]) {
    let Ok(mut reader) = RawReader::<R>::open(scratch.set(data)) else { return };
    let mut batch = Vec::new();
    let mut good_bytes = reader.good_bytes();
    while reader.next_batch(&mut batch).expect("a file in memory can be read") {
        assert!((1..=BATCH_ROWS_MAX).contains(&batch.len()));
        assert!(reader.good_bytes() > good_bytes, "a batch has bytes");
        good_bytes = reader.good_bytes();
    }
    assert!(batch.is_empty());
    let truncation = reader.truncation();
    let total = truncation.map_or(reader.good_bytes(), |cut| cut.good_bytes + cut.lost_bytes);
    assert_eq!(total, data.len() as u64, "every byte is good or lost");
    assert!(!reader.next_batch(&mut batch).expect("the end stays the end"));
}

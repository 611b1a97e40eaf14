//! Raw rows from wherever they are: a file of a case, or a generator in a test.
use case::raw::{RawReader, RawRow, Truncation};
use case::CaseError;
use std::path::PathBuf;

/// Rows in batches, once from beginning to end.
pub trait Source<R> {
    /// Clears `into` and fills it with the next rows; false at the end.
    fn next_batch(&mut self, into: &mut Vec<R>) -> Result<bool, CaseError>;
    /// After the end: `Some` if the stream has no proper end.
    fn truncation(&self) -> Option<&Truncation>;
}

impl<R: RawRow> Source<R> for RawReader<R> {
    fn next_batch(&mut self, into: &mut Vec<R>) -> Result<bool, CaseError> {
        RawReader::next_batch(self, into)
    }

    fn truncation(&self) -> Option<&Truncation> {
        RawReader::truncation(self)
    }
}

/// Rows that can be read several times, the same each time.
pub trait Stream<R> {
    /// Begins to read.
    fn open(&self) -> Result<Box<dyn Source<R> + '_>, CaseError>;
}

/// A raw stream of a case.
#[derive(Debug)]
pub struct FileStream {
    /// File.
    pub path: PathBuf,
}

impl<R: RawRow> Stream<R> for FileStream {
    fn open(&self) -> Result<Box<dyn Source<R> + '_>, CaseError> {
        Ok(Box::new(RawReader::<R>::open(&self.path)?))
    }
}

/// Row by row, with one row of look-ahead.
pub struct Cursor<'a, R> {
    source: Box<dyn Source<R> + 'a>,
    batch: Vec<R>,
    position: usize,
}

impl<'a, R: Copy> Cursor<'a, R> {
    /// At the first row of `stream`.
    pub fn new(stream: &'a dyn Stream<R>) -> Result<Cursor<'a, R>, CaseError> {
        let mut cursor = Cursor {
            source: stream.open()?,
            batch: Vec::new(),
            position: 0,
        };
        cursor.fill()?;
        Ok(cursor)
    }

    /// The next row; `None` at the end.
    pub fn peek(&self) -> Option<&R> {
        self.batch.get(self.position)
    }

    /// Steps over the next row.
    pub fn advance(&mut self) -> Result<(), CaseError> {
        self.position += 1;
        self.fill()
    }

    /// Makes sure that a row is at hand, unless there is none left. A batch may be empty.
    fn fill(&mut self) -> Result<(), CaseError> {
        while self.position >= self.batch.len() {
            self.position = 0;
            if !self.source.next_batch(&mut self.batch)? {
                self.batch.clear();
                return Ok(());
            }
        }
        Ok(())
    }
}

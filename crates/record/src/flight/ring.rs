//! The last seconds of all streams, in bounded memory.
use crate::told::Told;
use case::raw::RawWriter;
use case::CaseError;
use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows of one stream that came together.
pub struct Chunk {
    /// When the last of them came; rows of an operation came when it ended.
    pub end_ns: u64,
    /// Memory that they take.
    pub bytes: usize,
    /// How many.
    pub rows: u64,
    data: Box<dyn Rows>,
}

impl Chunk {
    /// Of rows that have come by `end_ns`.
    pub fn new<R: Told>(end_ns: u64, mut rows: Vec<R>) -> Chunk {
        rows.shrink_to_fit();
        Chunk {
            end_ns,
            bytes: rows.capacity() * size_of::<R>() + OVERHEAD_BYTES,
            rows: rows.len() as u64,
            data: Box::new(rows),
        }
    }

    /// Appends those that ended at `from_ns` or later, or have no end.
    pub fn write(&self, files: &mut Files, from_ns: u64) -> Result<(), CaseError> {
        self.data.write(files, from_ns)
    }
}

/// What a chunk takes beside its rows: itself, its box, its place in the ring.
const OVERHEAD_BYTES: usize = 128;

trait Rows: Send + Sync {
    fn write(&self, files: &mut Files, from_ns: u64) -> Result<(), CaseError>;
}

impl<R: Told> Rows for Vec<R> {
    fn write(&self, files: &mut Files, from_ns: u64) -> Result<(), CaseError> {
        let writer = files.writer::<R>()?;
        for row in self.iter().filter(|row| row.end_ns() >= from_ns) {
            writer.push(row)?;
        }
        Ok(())
    }
}

/// Raw streams of a case.
pub struct Files {
    raw_dir: PathBuf,
    open: BTreeMap<&'static str, Box<dyn Finish>>,
}

trait Finish {
    fn as_any(&mut self) -> &mut dyn Any;
    fn finish(self: Box<Self>) -> Result<u64, CaseError>;
}

impl<R: Told> Finish for RawWriter<R> {
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }

    fn finish(self: Box<Self>) -> Result<u64, CaseError> {
        RawWriter::finish(*self)
    }
}

impl Files {
    /// Below `raw_dir`.
    pub fn new(raw_dir: &Path) -> Files {
        Files {
            raw_dir: raw_dir.to_owned(),
            open: BTreeMap::new(),
        }
    }

    fn writer<R: Told>(&mut self) -> Result<&mut RawWriter<R>, CaseError> {
        if !self.open.contains_key(R::PROBE) {
            let path = self.raw_dir.join(R::PROBE).join(format!("{}.arrows", R::PROBE));
            let writer: RawWriter<R> = RawWriter::create(&path, &[])?;
            self.open.insert(R::PROBE, Box::new(writer));
        }
        let writer = self
            .open
            .get_mut(R::PROBE)
            .and_then(|open| open.as_any().downcast_mut());
        Ok(writer.expect("a stream has one type of rows"))
    }

    /// Ends all streams; rows by stream.
    pub fn finish(self) -> Result<BTreeMap<String, u64>, CaseError> {
        let open = self.open.into_iter();
        open.map(|(name, writer)| Ok((name.to_string(), writer.finish()?)))
            .collect()
    }
}

/// The chunks, oldest first.
pub struct Ring {
    span_ns: u64,
    bytes_max: usize,
    bytes: usize,
    chunks: VecDeque<Arc<Chunk>>,
    /// Rows that had to go before their time, for want of memory.
    pub dropped: u64,
    /// When the last of those had come; 0 = none.
    pub dropped_until_ns: u64,
}

impl Ring {
    /// Keeps what came in the last `span_ns`, in at most `bytes_max`.
    pub fn new(span_ns: u64, bytes_max: usize) -> Ring {
        Ring {
            span_ns,
            bytes_max,
            bytes: 0,
            chunks: VecDeque::new(),
            dropped: 0,
            dropped_until_ns: 0,
        }
    }

    /// Memory taken.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a chunk; what is too old by now, or too much, goes.
    pub fn push(&mut self, chunk: Chunk) {
        let now_ns = chunk.end_ns;
        self.bytes += chunk.bytes;
        self.chunks.push_back(Arc::new(chunk));
        self.expire(now_ns);
        while self.bytes > self.bytes_max {
            let Some(oldest) = self.pop() else { break };
            self.dropped += oldest.rows;
            self.dropped_until_ns = oldest.end_ns;
        }
    }

    /// Lets go of what is too old by now.
    pub fn expire(&mut self, now_ns: u64) {
        let until_ns = now_ns.saturating_sub(self.span_ns);
        while self.chunks.front().is_some_and(|chunk| chunk.end_ns < until_ns) {
            self.pop();
        }
    }

    fn pop(&mut self) -> Option<Arc<Chunk>> {
        let chunk = self.chunks.pop_front()?;
        self.bytes -= chunk.bytes;
        Some(chunk)
    }

    /// Chunks with rows that came at this time or later.
    pub fn since(&self, from_ns: u64) -> Vec<Arc<Chunk>> {
        let new = |chunk: &&Arc<Chunk>| chunk.end_ns >= from_ns;
        self.chunks.iter().filter(new).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use case::rows::BlockRow;

    const SECOND: u64 = 1_000_000_000;

    fn chunk(end_ns: u64, rows: usize) -> Chunk {
        let row = BlockRow {
            complete_ns: end_ns,
            ..BlockRow::default()
        };
        Chunk::new(end_ns, vec![row; rows])
    }

    /// The events of 24 hours at 20,000 requests a second: the ring holds its span of them, and never more.
    #[test]
    fn a_day_passes_without_growth() {
        let mut ring = Ring::new(30 * SECOND, 64 << 20);
        let (per_chunk, pause_ns) = (200, SECOND / 4);
        let chunks = 24 * 3600 * SECOND / pause_ns;
        let whole = 30 * SECOND / pause_ns + 2;
        let each = chunk(0, per_chunk).bytes;
        for number in 0..chunks {
            ring.push(chunk(number * pause_ns, per_chunk));
            assert!(ring.bytes() <= whole as usize * each);
            assert!(ring.chunks.len() as u64 <= whole);
        }
        assert_eq!(ring.dropped, 0);
        assert_eq!(
            ring.bytes(),
            ring.chunks.iter().map(|chunk| chunk.bytes).sum::<usize>()
        );
        assert!(
            ring.chunks.capacity() as u64 <= 4 * whole,
            "{}",
            ring.chunks.capacity()
        );
    }

    #[test]
    fn want_of_memory_costs_the_oldest_and_is_counted() {
        let each = chunk(0, 100).bytes;
        let mut ring = Ring::new(30 * SECOND, 10 * each);
        for number in 0..1000 {
            ring.push(chunk(number, 100));
            assert!(ring.bytes() <= 10 * each);
        }
        assert_eq!(ring.dropped, 990 * 100);
        assert_eq!(ring.dropped_until_ns, 989);
        assert_eq!(ring.since(0).len(), 10);
        assert_eq!(ring.since(995).len(), 5);
    }

    #[test]
    fn any_pace_and_any_size_stay_within_the_bound() {
        let mut state = 7u64;
        let mut draw = |below: u64| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for _ in 0..20 {
            let bytes_max = 1 << (14 + draw(8));
            let mut ring = Ring::new(draw(20) * SECOND, bytes_max);
            let (mut now_ns, mut pushed, mut gone) = (0, 0, 0);
            for _ in 0..2000 {
                now_ns += draw(SECOND);
                let rows = draw(300);
                pushed += rows;
                ring.push(chunk(now_ns, rows as usize));
                assert!(ring.bytes() <= bytes_max);
                gone = gone.max(ring.dropped);
            }
            let held: u64 = ring.chunks.iter().map(|chunk| chunk.rows).sum();
            assert!(held + gone <= pushed);
            ring.expire(now_ns + 100 * SECOND);
            assert_eq!((ring.bytes(), ring.chunks.len()), (0, 0));
        }
    }

    #[test]
    fn rows_that_ended_before_the_window_stay_out_of_the_case() {
        let folder = tempfile::tempdir().unwrap();
        let rows = [5, 10, 0, 15].map(|complete_ns| BlockRow {
            complete_ns,
            ..BlockRow::default()
        });
        let mut files = Files::new(folder.path());
        Chunk::new(15, rows.to_vec()).write(&mut files, 10).unwrap();
        let written = files.finish().unwrap();
        assert_eq!(written["block"], 3, "one ended before");
    }
}

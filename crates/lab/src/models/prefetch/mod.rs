//! An array's prefetcher: it watches reads, recognises streams, and starts reads of what should come next.
//!
//! On each read of a stream it starts [`PrefetchParameters::chunks_per_read`] chunks behind the end of that
//! read, at most that many and each at most [`PrefetchParameters::chunk_bytes`] long. So a reader with
//! requests longer than the chunks outruns it for ever: of every request the last `size - chunks x chunk`
//! bytes were never prefetched.
//!
//! How the owner of the cache uses it, for every read: [`Prefetcher::read`], which says what of the read was
//! prefetched; then [`Prefetcher::plan`], for the commands to send to the disks; [`Prefetcher::arrived`] for
//! each that is complete; and [`Prefetcher::evicted`] when the cache drops something. What is cached for
//! another reason the owner knows better: it reports it with [`Prefetcher::was_cached`], and takes back
//! commands for cached data with [`Prefetcher::cancel`].

mod account;
mod ranges;
#[cfg(test)]
mod tests;

use super::{require, ParameterError};
pub use account::Account;
use ranges::Ranges;
use std::collections::BTreeMap;

/// Where the chunks of a read begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// At the end of the read (`read_end`).
    ReadEnd,
    /// At the next multiple of the chunk size (`grid`).
    Grid,
}

/// In which order the chunks of one read are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Nearest first (`ascending`).
    Ascending,
    /// Farthest first (`descending`), for a reader that goes backwards within its window.
    Descending,
}

/// How the prefetcher behaves.
#[derive(Clone, Debug, PartialEq)]
pub struct PrefetchParameters {
    /// Longest single prefetch, 4 KiB to 1 GiB.
    pub chunk_bytes: u64,
    /// Chunks per read request, 0 to 64; 0 = off.
    pub chunks_per_read: u32,
    /// Streams it remembers, 1 to 65,536; the one unused for longest is forgotten.
    pub streams: usize,
    /// Reads that must follow each other before it starts, 1 to 64; 1 = the first read already.
    pub trigger_reads: u32,
    /// Where chunks begin.
    pub anchor: Anchor,
    /// Which chunk is first.
    pub order: Order,
    /// Prefetches in flight at once, 1 to 65,536; a chunk beyond that is not started.
    pub outstanding_max: usize,
}

impl Default for PrefetchParameters {
    /// One chunk of 8 MiB per read, from the end of that read.
    fn default() -> PrefetchParameters {
        PrefetchParameters {
            chunk_bytes: 8 << 20,
            chunks_per_read: 1,
            streams: 64,
            trigger_reads: 1,
            anchor: Anchor::ReadEnd,
            order: Order::Ascending,
            outstanding_max: 256,
        }
    }
}

/// A range of a file to be read ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetch {
    /// The owner's number of the file.
    pub file: u32,
    /// First byte.
    pub offset_bytes: u64,
    /// Never 0.
    pub size_bytes: u64,
}

/// What a piece of a read had to do with prefetching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Prefetched and there.
    Ready,
    /// Prefetched and still on its way: the reader waits for it.
    InFlight,
    /// Not prefetched.
    Missed,
}

/// A piece of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// First byte in the file.
    pub offset_bytes: u64,
    /// Never 0.
    pub size_bytes: u64,
    /// What became of it.
    pub state: State,
}

#[derive(Clone, Debug)]
struct Stream {
    file: u32,
    next_byte: u64,
    reads: u32,
    used_at: u64,
}

/// A prefetcher for any number of files.
#[derive(Clone, Debug)]
pub struct Prefetcher {
    parameters: PrefetchParameters,
    streams: Vec<Stream>,
    unread: Ranges,
    in_flight: usize,
    accounts: BTreeMap<u32, Account>,
    reads: u64,
}

impl Prefetcher {
    /// A prefetcher that has seen nothing.
    pub fn new(parameters: PrefetchParameters) -> Result<Prefetcher, ParameterError> {
        let PrefetchParameters {
            chunk_bytes,
            chunks_per_read,
            streams,
            trigger_reads,
            outstanding_max,
            ..
        } = parameters;
        require(
            (4096..=1 << 30).contains(&chunk_bytes),
            "chunk_bytes",
            "4 KiB to 1 GiB",
            chunk_bytes,
        )?;
        require(
            chunks_per_read <= 64,
            "chunks_per_read",
            "0 to 64",
            chunks_per_read,
        )?;
        require((1..=65_536).contains(&streams), "streams", "1 to 65536", streams)?;
        require(
            (1..=64).contains(&trigger_reads),
            "trigger_reads",
            "1 to 64",
            trigger_reads,
        )?;
        require(
            (1..=65_536).contains(&outstanding_max),
            "outstanding_max",
            "1 to 65536",
            outstanding_max,
        )?;
        Ok(Prefetcher {
            parameters,
            streams: Vec::new(),
            unread: Ranges::default(),
            in_flight: 0,
            accounts: BTreeMap::new(),
            reads: 0,
        })
    }

    /// A read begins: what of it was prefetched, piece by piece in ascending order, without gaps.
    pub fn read(&mut self, file: u32, offset_bytes: u64, size_bytes: u64) -> Vec<Piece> {
        let end = offset_bytes + size_bytes;
        let missed = self.unread.gaps(file, offset_bytes, end);
        let found = self.unread.take(file, offset_bytes, end);
        let account = self.accounts.entry(file).or_default();
        let mut pieces = Vec::with_capacity(missed.len() + found.len());
        for part in found {
            let size_bytes = part.end - part.begin;
            account.used_bytes += size_bytes;
            account.late_bytes += if part.arrived { 0 } else { size_bytes };
            let state = if part.arrived {
                State::Ready
            } else {
                State::InFlight
            };
            pieces.push(Piece {
                offset_bytes: part.begin,
                size_bytes,
                state,
            });
        }
        for (begin, end) in missed {
            account.missed_bytes += end - begin;
            pieces.push(Piece {
                offset_bytes: begin,
                size_bytes: end - begin,
                state: State::Missed,
            });
        }
        pieces.sort_unstable_by_key(|piece| piece.offset_bytes);
        pieces
    }

    /// What to prefetch after this read of a file of `file_bytes`, in the order to start it.
    pub fn plan(&mut self, file: u32, offset_bytes: u64, size_bytes: u64, file_bytes: u64) -> Vec<Prefetch> {
        let end = offset_bytes + size_bytes;
        if self.follow(file, offset_bytes, end) < self.parameters.trigger_reads {
            return Vec::new();
        }
        let chunk = self.parameters.chunk_bytes;
        let base = match self.parameters.anchor {
            Anchor::ReadEnd => end,
            Anchor::Grid => end.next_multiple_of(chunk),
        };
        let count = u64::from(self.parameters.chunks_per_read);
        let mut plan = Vec::new();
        for i in 0..count {
            let i = if self.parameters.order == Order::Ascending {
                i
            } else {
                count - 1 - i
            };
            let begin = base + i * chunk;
            self.start(file, begin, (begin + chunk).min(file_bytes), &mut plan);
        }
        plan
    }

    /// A prefetch is complete.
    pub fn arrived(&mut self, prefetch: &Prefetch) {
        let Prefetch {
            file,
            offset_bytes,
            size_bytes,
        } = *prefetch;
        self.unread.arrive(file, offset_bytes, offset_bytes + size_bytes);
        self.in_flight -= 1;
    }

    /// A planned prefetch will not be sent, because the data are cached already: it counts as never issued.
    pub fn cancel(&mut self, prefetch: &Prefetch) {
        let Prefetch {
            file,
            offset_bytes,
            size_bytes,
        } = *prefetch;
        self.unread.take(file, offset_bytes, offset_bytes + size_bytes);
        self.accounts.entry(file).or_default().issued_bytes -= size_bytes;
        self.in_flight -= 1;
    }

    /// The cache dropped this range; what of it nobody had read is wasted. Returns those bytes.
    pub fn evicted(&mut self, file: u32, offset_bytes: u64, size_bytes: u64) -> u64 {
        let taken = self.unread.take(file, offset_bytes, offset_bytes + size_bytes);
        let wasted = taken.iter().map(|part| part.end - part.begin).sum();
        if wasted > 0 {
            self.accounts.entry(file).or_default().wasted_bytes += wasted;
        }
        wasted
    }

    /// Bytes that [`Prefetcher::read`] called missed were in the cache for another reason: they do not count
    /// as missed.
    pub fn was_cached(&mut self, file: u32, size_bytes: u64) {
        let missed = &mut self.accounts.entry(file).or_default().missed_bytes;
        *missed = missed.saturating_sub(size_bytes);
    }

    /// Prefetched bytes nobody has read and nobody has evicted.
    pub fn unread_bytes(&self) -> u64 {
        self.unread.total_bytes()
    }

    /// Prefetches planned and not yet arrived.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// The account of every file since the last call, by file; begins new ones.
    pub fn take_accounts(&mut self) -> Vec<(u32, Account)> {
        std::mem::take(&mut self.accounts).into_iter().collect()
    }

    /// The account of `file` since the last [`Prefetcher::take_accounts`].
    pub fn account(&self, file: u32) -> Account {
        self.accounts.get(&file).copied().unwrap_or_default()
    }

    /// Finds the stream this read continues, or begins one; how many reads it has now.
    fn follow(&mut self, file: u32, offset_bytes: u64, end: u64) -> u32 {
        self.reads += 1;
        let used_at = self.reads;
        let continues = |stream: &&mut Stream| stream.file == file && stream.next_byte == offset_bytes;
        if let Some(stream) = self.streams.iter_mut().find(continues) {
            stream.next_byte = end;
            stream.reads = stream.reads.saturating_add(1);
            stream.used_at = used_at;
            return stream.reads;
        }
        let stream = Stream {
            file,
            next_byte: end,
            reads: 1,
            used_at,
        };
        if self.streams.len() < self.parameters.streams {
            self.streams.push(stream);
        } else if let Some(oldest) = self.streams.iter_mut().min_by_key(|stream| stream.used_at) {
            *oldest = stream;
        }
        1
    }

    /// Starts what of `begin..end` is not on its way or waiting to be read.
    fn start(&mut self, file: u32, begin: u64, end: u64, plan: &mut Vec<Prefetch>) {
        if begin >= end {
            return;
        }
        for (begin, end) in self.unread.gaps(file, begin, end) {
            let account = self.accounts.entry(file).or_default();
            if self.in_flight >= self.parameters.outstanding_max {
                account.refused_chunks += 1;
                continue;
            }
            account.issued_bytes += end - begin;
            self.in_flight += 1;
            self.unread.add(file, begin, end);
            plan.push(Prefetch {
                file,
                offset_bytes: begin,
                size_bytes: end - begin,
            });
        }
    }
}

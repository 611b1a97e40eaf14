//! Rows come in order of their end and leave in order of their start, in bounded memory.
//!
//! A first pass ([`Scan`]) cuts the stream into chunks and notes, for each, the earliest start of its
//! rows; the minimum over all later chunks is then a *watermark*: no row that starts before it is still
//! to come. One operation that lasted for minutes would hold the watermark back for minutes, so such
//! *stragglers* are taken out and kept whole: they join the second pass ([`Reorder`]) from its
//! beginning. A bounded number of them is kept: where there are more, the span from which on a row
//! counts as one doubles until they fit.
//!
//! Held at any time: the stragglers, plus the rows of one chunk and of one straggler span.
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A chunk of a stream ends after this many rows ...
const CHUNK_ROWS: u64 = 4096;
/// ... or after this much time, so that a slow stream does not hold back the fast ones beside it.
const CHUNK_NS: u64 = 50_000_000;
/// Rows that last longer are stragglers, unless they are too many.
const STRAGGLER_NS: u64 = 1_000_000_000;
/// Stragglers that are kept of the block stream, and of all app streams together.
pub const STRAGGLERS_MAX: usize = 1 << 18;

#[derive(Clone, Copy, Debug)]
struct Chunk {
    first_row: u64,
    /// Earliest start of the chunk's rows, stragglers left out.
    start_min_ns: u64,
}

/// The first pass over one stream.
#[derive(Debug)]
pub struct Scan<R> {
    chunks: Vec<Chunk>,
    rows: u64,
    chunk_begin_ns: u64,
    straggler_ns: u64,
    stragglers_max: usize,
    /// With the chunk they came in and their span.
    stragglers: Vec<(usize, u64, R)>,
    start_ns: fn(&R) -> u64,
}

/// What the first pass learned.
#[derive(Debug)]
pub struct Plan<R> {
    /// First row of each chunk, and the earliest start from that row on.
    watermarks: Vec<(u64, u64)>,
    /// Rows in the stream.
    pub rows: u64,
    /// Span from which on a row is a straggler.
    pub straggler_ns: u64,
    /// The stragglers, in the order of the stream.
    pub stragglers: Vec<R>,
}

impl<R: Copy> Scan<R> {
    /// `start_ns` is what rows will be ordered by; at most `stragglers_max` rows are kept.
    pub fn new(start_ns: fn(&R) -> u64, stragglers_max: usize) -> Scan<R> {
        Scan {
            chunks: Vec::new(),
            rows: 0,
            chunk_begin_ns: 0,
            straggler_ns: STRAGGLER_NS,
            stragglers_max,
            stragglers: Vec::new(),
            start_ns,
        }
    }

    /// Takes the next row. `span_ns` is how far its start lies before its place in the stream
    /// (`u64::MAX` if it never ended), `order_ns` its place.
    pub fn push(&mut self, row: &R, order_ns: u64, span_ns: u64) {
        let open_new = match self.chunks.last() {
            None => true,
            Some(chunk) => {
                self.rows - chunk.first_row >= CHUNK_ROWS
                    || order_ns.saturating_sub(self.chunk_begin_ns) >= CHUNK_NS
            }
        };
        if open_new {
            self.chunks.push(Chunk {
                first_row: self.rows,
                start_min_ns: u64::MAX,
            });
            self.chunk_begin_ns = order_ns;
        }
        self.rows += 1;
        if span_ns > self.straggler_ns {
            self.stragglers.push((self.chunks.len() - 1, span_ns, *row));
            while self.stragglers.len() > self.stragglers_max && self.straggler_ns < u64::MAX / 2 {
                self.take_back_half();
            }
        } else {
            let last = self.chunks.len() - 1;
            self.lower(last, (self.start_ns)(row));
        }
    }

    fn lower(&mut self, chunk: usize, start_ns: u64) {
        let start_min_ns = &mut self.chunks[chunk].start_min_ns;
        *start_min_ns = start_ns.min(*start_min_ns);
    }

    /// Doubles the straggler span; who is below it now is an ordinary row.
    fn take_back_half(&mut self) {
        self.straggler_ns *= 2;
        let all = std::mem::take(&mut self.stragglers);
        for (chunk, span_ns, row) in all {
            if span_ns > self.straggler_ns {
                self.stragglers.push((chunk, span_ns, row));
            } else {
                self.lower(chunk, (self.start_ns)(&row));
            }
        }
    }

    /// Ends the pass.
    pub fn finish(self) -> Plan<R> {
        let mut watermarks = vec![(u64::MAX, u64::MAX); self.chunks.len()];
        let mut start_min_ns = u64::MAX;
        for (chunk, watermark) in self.chunks.iter().zip(&mut watermarks).rev() {
            start_min_ns = start_min_ns.min(chunk.start_min_ns);
            *watermark = (chunk.first_row, start_min_ns);
        }
        Plan {
            watermarks,
            rows: self.rows,
            straggler_ns: self.straggler_ns,
            stragglers: self.stragglers.into_iter().map(|(_, _, row)| row).collect(),
        }
    }
}

/// Follows a second pass through a stream and knows the watermark at each row.
#[derive(Debug)]
pub struct Watermark {
    /// Coming chunks, the next one last.
    watermarks: Vec<(u64, u64)>,
    rows: u64,
    rows_total: u64,
    watermark_ns: u64,
}

impl Watermark {
    /// Before the first row of the stream that `plan` was made of.
    pub fn new<R>(plan: &mut Plan<R>) -> Watermark {
        let watermarks = std::mem::take(&mut plan.watermarks);
        Watermark::before(watermarks, plan.rows)
    }

    /// The same, of a plan that is needed again.
    pub fn of<R>(plan: &Plan<R>) -> Watermark {
        Watermark::before(plan.watermarks.clone(), plan.rows)
    }

    fn before(mut watermarks: Vec<(u64, u64)>, rows_total: u64) -> Watermark {
        watermarks.reverse();
        let mut watermark = Watermark {
            watermarks,
            rows: 0,
            rows_total,
            watermark_ns: 0,
        };
        watermark.settle();
        watermark
    }

    /// One more row was read.
    pub fn advance(&mut self) {
        self.rows += 1;
        self.settle();
    }

    fn settle(&mut self) {
        if self.rows >= self.rows_total {
            self.watermark_ns = u64::MAX;
        }
        while self
            .watermarks
            .last()
            .is_some_and(|(first_row, _)| *first_row <= self.rows)
        {
            if let Some((_, start_min_ns)) = self.watermarks.pop() {
                if self.rows < self.rows_total {
                    self.watermark_ns = start_min_ns;
                }
            }
        }
    }

    /// Every row that is still to come, stragglers left out, starts at or after this; `u64::MAX` at the end.
    pub fn watermark_ns(&self) -> u64 {
        self.watermark_ns
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    start_ns: u64,
    /// Two more keys, so that the order never depends on the order of arrival.
    ties: (u64, u64),
    slot: u32,
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Ordering {
        (self.start_ns, self.ties, self.slot).cmp(&(other.start_ns, other.ties, other.slot))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Holds rows until no earlier one can come.
#[derive(Debug)]
pub struct Reorder<R> {
    heap: BinaryHeap<Reverse<Entry>>,
    slots: Vec<R>,
    free: Vec<u32>,
}

impl<R: Copy> Reorder<R> {
    /// Empty.
    pub fn new() -> Reorder<R> {
        Reorder {
            heap: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Holds a row. Rows with the same start leave in order of `ties`, which should be unique.
    pub fn push(&mut self, start_ns: u64, ties: (u64, u64), row: R) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = row;
                slot
            }
            None => {
                self.slots.push(row);
                (self.slots.len() - 1) as u32
            }
        };
        self.heap.push(Reverse(Entry { start_ns, ties, slot }));
    }

    /// Rows held.
    pub fn rows(&self) -> usize {
        self.heap.len()
    }

    /// Start of the row that [`Reorder::pop`] would give.
    pub fn next_ns(&self, watermark_ns: u64) -> Option<u64> {
        let Reverse(first) = self.heap.peek()?;
        (first.start_ns < watermark_ns || watermark_ns == u64::MAX).then_some(first.start_ns)
    }

    /// The next row in order of start, if nothing earlier can come any more.
    pub fn pop(&mut self, watermark_ns: u64) -> Option<R> {
        self.next_ns(watermark_ns)?;
        let Reverse(first) = self.heap.pop()?;
        self.free.push(first.slot);
        Some(self.slots[first.slot as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Span = (u64, u64); // start, end

    fn scan(spans: &[Span], stragglers_max: usize) -> Plan<Span> {
        let mut scan = Scan::new(|s: &Span| s.0, stragglers_max);
        for span in spans {
            scan.push(span, span.1, span.1 - span.0);
        }
        scan.finish()
    }

    fn reorder(spans: &[Span], mut plan: Plan<Span>) -> (Vec<Span>, usize) {
        let mut watermark = Watermark::new(&mut plan);
        let mut held = Reorder::new();
        let mut out = Vec::new();
        let mut held_max = 0;
        for span in &plan.stragglers {
            held.push(span.0, (span.1, 0), *span);
        }
        for span in spans {
            if span.1 - span.0 <= plan.straggler_ns {
                held.push(span.0, (span.1, 0), *span);
            }
            held_max = held_max.max(held.rows());
            watermark.advance();
            while let Some(row) = held.pop(watermark.watermark_ns()) {
                out.push(row);
            }
        }
        (out, held_max)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn any_stream_leaves_sorted_and_whole(
            mut spans in prop::collection::vec(
                (0u64..20_000_000_000, prop_oneof![0u64..10_000_000, 0u64..8_000_000_000]), 0..3000),
            stragglers_max in 1usize..200,
            shuffle_ns in 1u64..1_000_000_000,
        ) {
            for span in &mut spans { span.1 += span.0; }
            // Ends are only nearly in order, as those of several CPUs are.
            spans.sort_unstable_by_key(|s| s.1 / shuffle_ns);
            let (out, _) = reorder(&spans, scan(&spans, stragglers_max));
            let mut expected = spans.clone();
            expected.sort_unstable();
            prop_assert_eq!(out, expected);
        }
    }

    #[test]
    fn one_straggler_does_not_hold_the_others_back() {
        let mut spans: Vec<Span> = (0..1_000_000u64)
            .map(|i| (i * 10_000, i * 10_000 + 100_000))
            .collect();
        spans.push((5, 10_000_100_000)); // ten seconds
        let (out, rows_held_max) = reorder(&spans, scan(&spans, 100));
        assert_eq!(out.len(), spans.len());
        assert!(rows_held_max < 3 * CHUNK_ROWS as usize, "{rows_held_max}");
    }

    #[test]
    fn too_many_stragglers_become_ordinary_rows() {
        // All last 3 s, in flight together: 3 s hold 3,000 of them.
        let spans: Vec<Span> = (0..50_000u64)
            .map(|i| (i * 1_000_000, i * 1_000_000 + 3_000_000_000))
            .collect();
        let plan = scan(&spans, 1000);
        assert_eq!((plan.straggler_ns, plan.stragglers.len()), (4_000_000_000, 0));
        let (out, rows_held_max) = reorder(&spans, plan);
        assert!(out.is_sorted() && out.len() == spans.len());
        assert!(rows_held_max < 3000 + CHUNK_ROWS as usize, "{rows_held_max}");
    }

    #[test]
    fn a_slow_stream_moves_its_watermark_by_time() {
        let spans: Vec<Span> = (0..100u64)
            .map(|i| (i * 1_000_000_000, i * 1_000_000_000 + 1))
            .collect();
        let mut plan = scan(&spans, 10);
        let mut watermark = Watermark::new(&mut plan);
        for i in 0..99 {
            watermark.advance();
            assert_eq!(watermark.watermark_ns(), (i + 1) * 1_000_000_000);
        }
        watermark.advance();
        assert_eq!(watermark.watermark_ns(), u64::MAX);
    }
}

//! A raw stream in order of start, in bounded memory: both passes of [`crate::reorder`] behind one cursor.
use crate::pipeline::{each_row, StreamEnd};
use crate::reorder::{Plan, Reorder, Scan, Watermark};
use crate::stream::{Cursor, Stream};
use case::CaseError;

/// Rows that are kept whole because they lasted very long, of each stream.
const LONG_ROWS_MAX: usize = 1 << 16;

/// A row with a place in time.
pub trait Timed: Copy {
    /// What rows are ordered by, CLOCK_MONOTONIC.
    fn start_ns(&self) -> u64;
    /// When it was appended, as far as the row tells; `None` if it never ended.
    fn end_ns(&self) -> Option<u64>;
    /// Two more keys, so that the order does not depend on the order of arrival.
    fn ties(&self) -> (u64, u64);
}

fn span_ns<R: Timed>(row: &R) -> u64 {
    row.end_ns()
        .map_or(u64::MAX, |end_ns| end_ns.saturating_sub(row.start_ns()))
}

/// The rows of a stream in order of start. Without a stream there are none.
pub struct Sorted<'a, R> {
    cursor: Option<Cursor<'a, R>>,
    watermark: Watermark,
    straggler_ns: u64,
    held: Reorder<R>,
    next: Option<R>,
}

/// What the first pass over a stream found.
#[derive(Debug)]
pub struct Surveyed<R> {
    plan: Plan<R>,
    /// How the stream ended.
    pub end: StreamEnd,
}

impl<R: Timed> Surveyed<R> {
    /// Reads the stream once; `see` is called for each row, in the order of the stream.
    pub fn of(stream: Option<&dyn Stream<R>>, mut see: impl FnMut(&R)) -> Result<Surveyed<R>, CaseError> {
        let mut scan = Scan::new(R::start_ns, LONG_ROWS_MAX);
        let mut end = StreamEnd::default();
        if let Some(stream) = stream {
            let mut last_ns = 0;
            end.truncation = each_row(stream, |row: &R| {
                let place_ns = row.end_ns().unwrap_or(last_ns);
                scan.push(row, place_ns, span_ns(row));
                last_ns = last_ns.max(place_ns).max(row.start_ns());
                see(row);
            })?;
            end.last_ns = last_ns;
        }
        Ok(Surveyed {
            plan: scan.finish(),
            end,
        })
    }
}

impl<'a, R: Timed> Sorted<'a, R> {
    /// At the first row. `surveyed` is of the same stream, and can be used again.
    pub fn new(
        stream: Option<&'a dyn Stream<R>>,
        surveyed: &Surveyed<R>,
    ) -> Result<Sorted<'a, R>, CaseError> {
        let plan = &surveyed.plan;
        let mut sorted = Sorted {
            cursor: stream.map(Cursor::new).transpose()?,
            watermark: Watermark::of(plan),
            straggler_ns: plan.straggler_ns,
            held: Reorder::new(),
            next: None,
        };
        if sorted.cursor.is_none() {
            return Ok(sorted);
        }
        for row in &plan.stragglers {
            sorted.held.push(row.start_ns(), row.ties(), *row);
        }
        sorted.fill()?;
        Ok(sorted)
    }

    /// The next row; `None` at the end.
    pub fn peek(&self) -> Option<&R> {
        self.next.as_ref()
    }

    /// Takes the next row.
    pub fn take(&mut self) -> Result<Option<R>, CaseError> {
        let row = self.next.take();
        self.fill()?;
        Ok(row)
    }

    fn fill(&mut self) -> Result<(), CaseError> {
        loop {
            let watermark_ns = match &self.cursor {
                Some(_) => self.watermark.watermark_ns(),
                None => u64::MAX,
            };
            self.next = self.held.pop(watermark_ns);
            let Some(cursor) = self.cursor.as_mut().filter(|_| self.next.is_none()) else {
                return Ok(());
            };
            let Some(row) = cursor.peek().copied() else {
                return Ok(());
            };
            cursor.advance()?;
            if span_ns(&row) <= self.straggler_ns {
                self.held.push(row.start_ns(), row.ties(), row);
            }
            self.watermark.advance();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rows;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Span(u64, u64);

    impl Timed for Span {
        fn start_ns(&self) -> u64 {
            self.0
        }
        fn end_ns(&self) -> Option<u64> {
            (self.1 != 0).then_some(self.1)
        }
        fn ties(&self) -> (u64, u64) {
            (self.1, 0)
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn whole_and_in_order_as_often_as_wanted(
            spans in prop::collection::vec((1u64..20_000_000_000, 0u64..3_000_000_000, 0u8..10), 0..2000),
        ) {
            let open = |(start_ns, length_ns, kind)| Span(start_ns, if kind == 0 { 0 } else { start_ns + length_ns });
            let mut rows: Vec<Span> = spans.into_iter().map(open).collect();
            rows.sort_by_key(|row| row.end_ns().unwrap_or(u64::MAX));
            let stream = Rows(rows.clone());
            let mut seen = 0;
            let surveyed = Surveyed::of(Some(&stream as &dyn Stream<Span>), |_| seen += 1).unwrap();
            prop_assert_eq!(seen, rows.len());
            rows.sort_unstable();
            for _ in 0..2 {
                let mut sorted = Sorted::new(Some(&stream as &dyn Stream<Span>), &surveyed).unwrap();
                let mut out = Vec::new();
                while let Some(row) = sorted.take().unwrap() {
                    out.push(row);
                }
                prop_assert_eq!(&out, &rows);
            }
        }
    }

    #[test]
    fn no_stream_has_no_rows() {
        let surveyed = Surveyed::<Span>::of(None, |_| ()).unwrap();
        assert!(Sorted::new(None, &surveyed).unwrap().peek().is_none());
    }
}

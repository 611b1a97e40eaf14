//! Rows that belong to a request, of a stream beside that of the requests: a bounded look-ahead into it.
//!
//! A bio is merged while its request waits, and a carrier ends after all it waited for, so such a row comes before its
//! request completes, and its stream can be read ahead of the stream of requests. At most [`AHEAD_MAX`] rows are held,
//! several times what all queues of a machine can hold at once. Rows without a request (it was
//! lost) are dropped once the requests of much later rows have come.
use crate::stream::{Cursor, Stream};
use case::raw::RawRow;
use case::rows::{BlockCarrierRow, BlockMergeRow};
use case::CaseError;
use std::collections::{HashMap, VecDeque};

/// Rows held at most.
pub const AHEAD_MAX: usize = 1 << 18;

/// A row that belongs to a request.
pub trait OfRequest: RawRow {
    /// [`case::rows::BlockRow::request_key`] of the request.
    fn request_key(&self) -> u64;
}

impl OfRequest for BlockMergeRow {
    fn request_key(&self) -> u64 {
        self.request_key
    }
}

impl OfRequest for BlockCarrierRow {
    fn request_key(&self) -> u64 {
        self.carrier_key
    }
}

/// The rows of requests to come.
pub struct Ahead<'a, R: OfRequest> {
    cursor: Option<Cursor<'a, R>>,
    /// By request, with the row's number in the stream.
    held: HashMap<u64, Vec<(u64, R)>>,
    /// Request of each row, in the order read; some were taken since.
    order: VecDeque<(u64, u64)>,
    held_rows: usize,
    ahead_max: usize,
    rows_read: u64,
    last_taken: u64,
    /// Rows with a request that never came.
    pub orphans: u64,
}

impl<'a, R: OfRequest> Ahead<'a, R> {
    /// Before the first row; `None` where they were not recorded.
    pub fn new(stream: Option<&'a dyn Stream<R>>) -> Result<Ahead<'a, R>, CaseError> {
        Ahead::with_ahead_max(stream, AHEAD_MAX)
    }

    fn with_ahead_max(
        stream: Option<&'a dyn Stream<R>>,
        ahead_max: usize,
    ) -> Result<Ahead<'a, R>, CaseError> {
        Ok(Ahead {
            cursor: stream.map(Cursor::new).transpose()?,
            held: HashMap::new(),
            order: VecDeque::new(),
            held_rows: 0,
            ahead_max,
            rows_read: 0,
            last_taken: 0,
            orphans: 0,
        })
    }

    /// Rows held now.
    pub fn held_rows(&self) -> usize {
        self.held_rows
    }

    /// The rows of one request, in the order of the stream. A request is asked for once.
    pub fn take(&mut self, request_key: u64, into: &mut Vec<R>) -> Result<(), CaseError> {
        into.clear();
        self.read_ahead()?;
        let Some(rows) = self.held.remove(&request_key) else {
            return Ok(());
        };
        self.held_rows -= rows.len();
        for (number, row) in rows {
            self.last_taken = self.last_taken.max(number);
            into.push(row);
        }
        Ok(())
    }

    fn read_ahead(&mut self) -> Result<(), CaseError> {
        loop {
            if self.held_rows >= self.ahead_max {
                self.drop_overtaken();
                if self.held_rows >= self.ahead_max {
                    return Ok(());
                }
            }
            let Some(cursor) = &mut self.cursor else {
                return Ok(());
            };
            let Some(row) = cursor.peek().copied() else {
                return Ok(());
            };
            cursor.advance()?;
            self.held
                .entry(row.request_key())
                .or_default()
                .push((self.rows_read, row));
            self.order.push_back((self.rows_read, row.request_key()));
            self.held_rows += 1;
            self.rows_read += 1;
        }
    }

    /// Forgets rows that a quarter of the look-ahead has overtaken, and the marks of rows taken.
    fn drop_overtaken(&mut self) {
        while let Some((number, key)) = self.order.front().copied() {
            let held = self
                .held
                .get(&key)
                .is_some_and(|rows| rows.iter().any(|(n, _)| *n == number));
            if held {
                if number + self.ahead_max as u64 / 4 >= self.last_taken {
                    return;
                }
                let rows = self.held.remove(&key).map_or(0, |rows| rows.len());
                self.held_rows -= rows;
                self.orphans += rows as u64;
            }
            self.order.pop_front();
        }
    }

    /// Ends: what is left belongs to no request.
    pub fn finish(mut self) -> Result<u64, CaseError> {
        let mut orphans = self.orphans + self.held_rows as u64;
        if let Some(cursor) = &mut self.cursor {
            while cursor.peek().is_some() {
                orphans += 1;
                cursor.advance()?;
            }
        }
        Ok(orphans)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rows;

    fn merge(request_key: u64, op_id: u64) -> BlockMergeRow {
        BlockMergeRow {
            request_key,
            op_id,
            size_bytes: 4096,
            ..BlockMergeRow::default()
        }
    }

    #[test]
    fn each_request_gets_its_own() {
        let stream = Rows(vec![merge(1, 10), merge(2, 20), merge(1, 11), merge(3, 30)]);
        let mut merges = Ahead::new(Some(&stream)).unwrap();
        let mut rows = Vec::new();
        merges.take(1, &mut rows).unwrap();
        assert_eq!(rows, [merge(1, 10), merge(1, 11)]);
        merges.take(7, &mut rows).unwrap();
        assert_eq!(rows, []);
        merges.take(3, &mut rows).unwrap();
        assert_eq!(rows, [merge(3, 30)]);
        assert_eq!(merges.finish().unwrap(), 1);
    }

    #[test]
    fn lost_requests_do_not_block_the_look_ahead() {
        // Every third request is lost; requests complete a little out of order.
        let stream = Rows((0..30_000u64).map(|i| merge(i, i)).collect());
        let mut merges = Ahead::with_ahead_max(Some(&stream), 256).unwrap();
        let (mut rows, mut found, mut held_max) = (Vec::new(), 0, 0);
        for i in (0..30_000u64).map(|i| i ^ 7).filter(|i| i % 3 != 0) {
            merges.take(i, &mut rows).unwrap();
            found += rows.len();
            held_max = held_max.max(merges.held_rows().max(merges.order.len()));
        }
        assert_eq!(found, 20_000);
        assert!(held_max <= 512, "{held_max}");
        assert_eq!(merges.finish().unwrap(), 10_000);
    }
}

//! Operations come as they end, and are written as they begin; meanwhile those in flight are counted.
use case::schema::NameId;
use case::sealed::OpBatch;
use std::collections::HashMap;

/// Operations that are held back. One that ends after this many that began later comes out of order, which costs a few bytes.
const HELD_MIN: usize = 1 << 14;
/// Operations that are put in order at a time.
const BATCH: usize = 1 << 16;
/// Bits of a place among the held ones.
const PLACE_BITS: u32 = 17;
/// Bits that are sorted by in one pass.
const DIGIT_BITS: u32 = 11;

/// The operations of a layer that wait to be put in order.
#[derive(Default)]
pub struct Order {
    pub held: OpBatch,
    in_flight: InFlight,
}

impl Order {
    /// Whether a batch is due.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.held.len() >= HELD_MIN + BATCH
    }

    /// How many more make a batch.
    pub fn room(&self) -> usize {
        (HELD_MIN + BATCH).saturating_sub(self.held.len())
    }

    /// The operations that began first; all of them when the log has ended.
    pub fn take(&mut self, has_ended: bool) -> OpBatch {
        let rows = by_start(self.held.starts_ns());
        let kept = if has_ended { 0 } else { HELD_MIN.min(rows.len()) };
        self.held.take_in_order(&rows, rows.len() - kept)
    }

    /// Operations in flight on the same device when each of these began, itself included; None if one comes out of order.
    pub fn count_depth(&mut self, batch: &mut OpBatch) {
        let depths = self.in_flight.begin(batch);
        batch.set_queue_depths(depths.into_iter());
    }
}

/// Places of `starts_ns` in their order; of equal ones that which came first.
fn by_start(starts_ns: &[i64]) -> Vec<u32> {
    assert!(starts_ns.len() < 1 << PLACE_BITS);
    let least = starts_ns.iter().min().copied().unwrap_or(0);
    let most = starts_ns.iter().max().copied().unwrap_or(0);
    let span = most.wrapping_sub(least) as u64;
    if span >> (u64::BITS - PLACE_BITS) != 0 {
        let mut places: Vec<u32> = (0..starts_ns.len() as u32).collect();
        places.sort_by_key(|place| starts_ns[*place as usize]);
        return places;
    }
    // Moments and places in one number: nothing is compared.
    let packed =
        |(place, start): (usize, &i64)| (start.wrapping_sub(least) as u64) << PLACE_BITS | place as u64;
    let keys = starts_ns.iter().enumerate().map(packed).collect();
    let bits = u64::BITS - span.leading_zeros();
    digit_by_digit(keys, PLACE_BITS, bits)
        .into_iter()
        .map(|key| key as u32 & ((1 << PLACE_BITS) - 1))
        .collect()
}

/// Sorts by so many bits above the first few, digit by digit from the lowest.
fn digit_by_digit(mut keys: Vec<u64>, above: u32, bits: u32) -> Vec<u64> {
    let mut other = vec![0_u64; keys.len()];
    for pass in 0..bits.div_ceil(DIGIT_BITS) {
        let digit = |key: u64| (key >> (above + pass * DIGIT_BITS)) as usize & ((1 << DIGIT_BITS) - 1);
        let mut ends = [0_u32; 1 << DIGIT_BITS];
        keys.iter().for_each(|key| ends[digit(*key)] += 1);
        let mut before = 0;
        for end in &mut ends {
            before += std::mem::replace(end, before);
        }
        for key in &keys {
            let place = &mut ends[digit(*key)];
            other[*place as usize] = *key;
            *place += 1;
        }
        std::mem::swap(&mut keys, &mut other);
    }
    keys
}

/// What is in flight, per device.
#[derive(Default)]
struct InFlight {
    last_ns: Option<i64>,
    /// When those end that were in flight last, in order.
    ends: HashMap<Option<NameId>, Vec<i64>>,
}

impl InFlight {
    /// How many were in flight as each of these began, in the order of their starts.
    fn begin(&mut self, batch: &OpBatch) -> Vec<Option<i32>> {
        let starts = batch.starts_ns();
        // Only the first ones can come out of order: batches are sorted.
        let late = self
            .last_ns
            .map_or(0, |last| starts.partition_point(|start| *start < last));
        let mut depths: Vec<Option<i32>> = (0..batch.len()).map(|at| batch.queue_depth(at)).collect();
        let mut of_device: HashMap<Option<NameId>, Vec<u32>> = HashMap::new();
        let first = batch.device(late);
        if (late..batch.len()).all(|at| batch.device(at) == first) {
            of_device.insert(first, (late as u32..batch.len() as u32).collect());
        } else {
            for at in late..batch.len() {
                of_device.entry(batch.device(at)).or_default().push(at as u32);
            }
        }
        for (device, rows) in of_device {
            let ends = self.ends.entry(device).or_default();
            let ends_before = std::mem::take(ends);
            *ends = count(&rows, batch, ends_before, &mut depths);
        }
        self.last_ns = self.last_ns.max(starts.last().copied());
        depths
    }
}

/// Counts operations of one device; says when those end that go on after the last begins.
fn count(rows: &[u32], batch: &OpBatch, mut ends: Vec<i64>, depths: &mut [Option<i32>]) -> Vec<i64> {
    let (starts, latencies) = (batch.starts_ns(), batch.latencies_ns());
    let end = |row: u32| starts[row as usize].saturating_add(latencies[row as usize]);
    // What takes no time is in flight for no other.
    let takes_time = |row: u32| latencies[row as usize] > 0;
    let mut flying = ends.len();
    ends.extend(rows.iter().filter(|row| takes_time(**row)).map(|row| end(*row)));
    let mut ends = sorted(ends);
    let mut ended = 0;
    for row in rows {
        let start = starts[*row as usize];
        while ends.get(ended).is_some_and(|end| *end <= start) {
            ended += 1;
        }
        let depth = &mut depths[*row as usize];
        *depth = depth.or(i32::try_from(flying - ended + 1).ok());
        flying += usize::from(takes_time(*row));
    }
    ends.drain(..ended);
    ends
}

/// Moments in their order.
fn sorted(mut moments: Vec<i64>) -> Vec<i64> {
    let least = moments.iter().min().copied().unwrap_or(0);
    let most = moments.iter().max().copied().unwrap_or(0);
    let bits = u64::BITS - (most.wrapping_sub(least) as u64).leading_zeros();
    let keys = moments.iter().map(|moment| moment.wrapping_sub(least) as u64);
    let keys = digit_by_digit(keys.collect(), 0, bits);
    moments.clear();
    moments.extend(keys.into_iter().map(|key| least.wrapping_add(key as i64)));
    moments
}

#[cfg(test)]
mod tests {
    use super::*;
    use case::schema::{Op, OpRow};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_order_is_that_of_starts_and_the_depth_is_counted(
            ops in prop::collection::vec((0_i64..1000, 0_i64..100, prop::option::of(0_u32..3)), 0..200),
            cut in any::<prop::sample::Index>(),
        ) {
            // Two batches, the second of which begins where the first one ends.
            let mut expected = ops.clone();
            expected.sort_by_key(|(start, ..)| *start);
            let cut = if ops.is_empty() { 0 } else { cut.index(ops.len()) };
            let border = expected.get(cut).map_or(0, |(start, ..)| *start);
            let (first, second): (Vec<_>, Vec<_>) = ops.iter().partition(|(start, ..)| *start < border);
            let mut order = Order::default();
            let mut rows = Vec::new();
            for part in [first, second] {
                for (start, latency, device) in part {
                    let mut row = OpRow::plain(start, latency, Op::Read);
                    row.device = device;
                    order.held.push(&row);
                }
                let mut batch = order.take(true);
                order.count_depth(&mut batch);
                rows.extend((0..batch.len()).map(|at| batch.row(at)));
            }
            prop_assert_eq!(rows.len(), ops.len());
            for (at, (start, latency, device)) in expected.iter().enumerate() {
                let row = &rows[at];
                prop_assert_eq!((row.start_ns, row.latency_ns, row.device), (*start, *latency, *device));
                let before = expected[..at].iter();
                let flying = before.filter(|(begun, took, of)| of == device && begun + took > *start).count();
                prop_assert_eq!(row.queue_depth, Some(flying as i32 + 1));
            }
        }

        #[test]
        fn what_comes_late_has_no_depth(late in prop::collection::vec(0_i64..50, 1..9), latency in 0_i64..9) {
            let mut order = Order::default();
            let mut depths = |starts: &[i64]| {
                starts.iter().for_each(|start| order.held.push(&OpRow::plain(*start, latency, Op::Read)));
                let mut batch = order.take(true);
                order.count_depth(&mut batch);
                (0..batch.len()).map(|at| batch.queue_depth(at)).collect::<Vec<_>>()
            };
            prop_assert_eq!(depths(&[50]), [Some(1)]);
            let mut expected = vec![None; late.len()];
            expected.push(Some(if latency > 0 { 2 } else { 1 }));
            prop_assert_eq!(depths(&[late, vec![50]].concat()), expected);
        }

        #[test]
        fn any_moments_are_sorted(starts in prop::collection::vec(any::<i64>(), 0..300), narrow in 0_u32..64) {
            let starts: Vec<i64> = starts.into_iter().map(|start| start >> narrow).collect();
            let mut expected: Vec<u32> = (0..starts.len() as u32).collect();
            expected.sort_by_key(|place| starts[*place as usize]);
            prop_assert_eq!(by_start(&starts), expected);
        }
    }
}

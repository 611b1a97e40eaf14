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
        let rows = self.held.len();
        let count = if has_ended {
            rows
        } else {
            rows.saturating_sub(HELD_MIN)
        };
        if self.held.starts_ns().is_sorted() {
            return self.held.take_first(count);
        }
        self.held.take_in_order(&by_start(self.held.starts_ns()), count)
    }

    /// Operations in flight on the same device when each of these began, itself included; None if one comes out of order.
    pub fn count_depth(&mut self, batch: &mut OpBatch) {
        let depths = self.in_flight.begin(batch);
        batch.set_queue_depths(depths);
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
    /// How many were in flight as each of these began, in the order of their starts; 0: it comes out of order.
    fn begin(&mut self, batch: &OpBatch) -> Vec<i32> {
        let starts = batch.starts_ns();
        // Only the first ones can come out of order: batches are sorted.
        let late = self
            .last_ns
            .map_or(0, |last| starts.partition_point(|start| *start < last));
        self.last_ns = self.last_ns.max(starts.last().copied());
        let mut depths = vec![0; batch.len()];
        let first = batch.device(late);
        if (late..batch.len()).all(|at| batch.device(at) == first) {
            self.begin_on(first, late..batch.len(), batch, &mut depths);
            return depths;
        }
        let mut of_device: HashMap<Option<NameId>, Vec<usize>> = HashMap::new();
        for at in late..batch.len() {
            of_device.entry(batch.device(at)).or_default().push(at);
        }
        for (device, rows) in of_device {
            self.begin_on(device, rows.iter().copied(), batch, &mut depths);
        }
        depths
    }

    fn begin_on(
        &mut self,
        device: Option<NameId>,
        rows: impl ExactSizeIterator<Item = usize> + Clone,
        batch: &OpBatch,
        depths: &mut [i32],
    ) {
        let ends = self.ends.entry(device).or_default();
        *ends = count_few(rows.clone(), batch, ends.clone(), depths)
            .unwrap_or_else(|| count(rows, batch, std::mem::take(ends), depths));
    }
}

/// Moves of ends per operation up to which they are put in order one by one.
const MOVES_MAX: usize = 16;

/// Counts operations of one device; says when those end that go on after the last begins. None: so many are in flight that this takes long.
fn count_few(
    rows: impl ExactSizeIterator<Item = usize>,
    batch: &OpBatch,
    mut ends: Vec<i64>,
    depths: &mut [i32],
) -> Option<Vec<i64>> {
    let (starts, latencies) = (batch.starts_ns(), batch.latencies_ns());
    let (mut ended, mut moves) = (0, rows.len() * MOVES_MAX);
    for row in rows {
        let start = starts[row];
        while ends.get(ended).is_some_and(|end| *end <= start) {
            ended += 1;
        }
        depths[row] = i32::try_from(ends.len() - ended + 1).unwrap_or(0);
        // What takes no time is in flight for no other.
        if latencies[row] > 0 {
            let end = start.saturating_add(latencies[row]);
            let mut at = ends.len();
            ends.push(end);
            while at > ended && ends[at - 1] > end {
                ends[at] = ends[at - 1];
                at -= 1;
            }
            moves = moves.checked_sub(ends.len() - 1 - at)?;
            ends[at] = end;
        }
    }
    ends.drain(..ended);
    Some(ends)
}

/// The same for any number in flight.
fn count(
    rows: impl Iterator<Item = usize> + Clone,
    batch: &OpBatch,
    mut ends: Vec<i64>,
    depths: &mut [i32],
) -> Vec<i64> {
    let (starts, latencies) = (batch.starts_ns(), batch.latencies_ns());
    let mut flying = ends.len();
    let taking_time = rows.clone().filter(|row| latencies[*row] > 0);
    ends.extend(taking_time.map(|row| starts[row].saturating_add(latencies[row])));
    let mut ends = sorted(ends);
    let mut ended = 0;
    for row in rows {
        while ends.get(ended).is_some_and(|end| *end <= starts[row]) {
            ended += 1;
        }
        depths[row] = i32::try_from(flying - ended + 1).unwrap_or(0);
        flying += usize::from(latencies[row] > 0);
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
        fn few_or_many_in_flight_are_counted_alike(
            ops in prop::collection::vec((0_i64..100, 0_i64..1000), 0..200),
            before in prop::collection::vec(0_i64..500, 0..40),
        ) {
            let mut batch = OpBatch::default();
            let mut starts: Vec<i64> = ops.iter().map(|(start, _)| *start).collect();
            starts.sort_unstable();
            for (start, (_, latency)) in starts.into_iter().zip(&ops) {
                batch.push(&OpRow::plain(start, *latency, Op::Read));
            }
            let (before, mut many, mut few) = (sorted(before), vec![0; ops.len()], vec![0; ops.len()]);
            let left = count(0..ops.len(), &batch, before.clone(), &mut many);
            if let Some(left_of_few) = count_few(0..ops.len(), &batch, before, &mut few) {
                prop_assert_eq!((few, left_of_few), (many, left));
            }
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

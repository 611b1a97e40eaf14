//! Operations come as they end, and are written as they begin; meanwhile those in flight are counted.
use case::schema::NameId;
use case::sealed::OpBatch;
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, HashMap};

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

    /// The operations that began first; all of them when the log has ended.
    pub fn take(&mut self, has_ended: bool) -> OpBatch {
        let rows = by_start(self.held.starts_ns());
        let kept = if has_ended { 0 } else { HELD_MIN.min(rows.len()) };
        self.held.take_in_order(&rows, rows.len() - kept)
    }

    /// Operations in flight on the same device when each of these began, itself included; None if one comes out of order.
    pub fn count_depth(&mut self, batch: &mut OpBatch) {
        let in_flight = &mut self.in_flight;
        let counted: Vec<Option<i32>> = (0..batch.len())
            .map(|at| {
                let began =
                    in_flight.begin(batch.device(at), batch.starts_ns()[at], batch.latencies_ns()[at]);
                batch.queue_depth(at).or(began)
            })
            .collect();
        batch.set_queue_depths(counted.into_iter());
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
    // Moments and places in one number, sorted digit by digit from the lowest: nothing is compared.
    let packed =
        |(place, start): (usize, &i64)| (start.wrapping_sub(least) as u64) << PLACE_BITS | place as u64;
    let mut keys: Vec<u64> = starts_ns.iter().enumerate().map(packed).collect();
    let mut other = vec![0_u64; keys.len()];
    let bits = u64::BITS - span.leading_zeros();
    for pass in 0..bits.div_ceil(DIGIT_BITS) {
        let digit = |key: u64| (key >> (PLACE_BITS + pass * DIGIT_BITS)) as usize & ((1 << DIGIT_BITS) - 1);
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
    keys.into_iter()
        .map(|key| key as u32 & ((1 << PLACE_BITS) - 1))
        .collect()
}

type Ends = BinaryHeap<Reverse<i64>>;

/// Ends of what is in flight, per device.
#[derive(Default)]
struct InFlight {
    last_ns: Option<i64>,
    /// The device of the last operation: mostly the next one is of the same.
    device: Option<NameId>,
    ends: Ends,
    others: HashMap<Option<NameId>, Ends>,
}

impl InFlight {
    fn begin(&mut self, device: Option<NameId>, start_ns: i64, latency_ns: i64) -> Option<i32> {
        if self.last_ns.is_some_and(|last_ns| start_ns < last_ns) {
            return None;
        }
        self.last_ns = Some(start_ns);
        if device != self.device {
            let next = self.others.remove(&device).unwrap_or_default();
            let last = std::mem::replace(&mut self.ends, next);
            self.others
                .insert(std::mem::replace(&mut self.device, device), last);
        }
        let end_ns = start_ns.saturating_add(latency_ns);
        // This one takes the place of the first that ended, which saves putting the heap in order twice.
        let mut is_in = false;
        while let Some(mut first) = self.ends.peek_mut().filter(|first| first.0 <= start_ns) {
            if is_in || end_ns <= start_ns {
                PeekMut::pop(first);
            } else {
                *first = Reverse(end_ns);
                is_in = true;
            }
        }
        if !is_in {
            self.ends.push(Reverse(end_ns));
        }
        i32::try_from(self.ends.len()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::plain_op;
    use case::schema::Op;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_order_is_that_of_starts_and_the_depth_is_counted(
            ops in prop::collection::vec((0_i64..1000, 0_i64..100, prop::option::of(0_u32..3)), 0..200)
        ) {
            let mut order = Order::default();
            for (start, latency, device) in &ops {
                let mut row = plain_op(*start, *latency, Op::Read);
                row.device = *device;
                order.held.push(&row);
            }
            let mut batch = order.take(true);
            prop_assert_eq!(batch.len(), ops.len());
            order.count_depth(&mut batch);
            let mut expected = ops;
            expected.sort_by_key(|(start, ..)| *start);
            for (at, (start, latency, device)) in expected.iter().enumerate() {
                let row = batch.row(at);
                prop_assert_eq!((row.start_ns, row.latency_ns, row.device), (*start, *latency, *device));
                let before = expected[..at].iter();
                let flying = before.filter(|(begun, took, of)| of == device && begun + took > *start).count();
                prop_assert_eq!(row.queue_depth, Some(flying as i32 + 1));
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

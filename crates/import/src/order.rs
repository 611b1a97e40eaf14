//! Operations come as they end, and are written as they begin; meanwhile those in flight are counted.
use case::schema::{Layer, NameId, OpRow};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Operations that are held back. One that ends after so many that began later comes out of order, which costs a few bytes.
const HELD_MAX: usize = 16_384;

/// See the module.
#[derive(Default)]
pub struct Order {
    /// Begin, number of arrival, place in `rows`.
    heap: BinaryHeap<Reverse<(i64, u64, u32)>>,
    rows: Vec<(Layer, OpRow)>,
    free: Vec<u32>,
    arrived: u64,
    last_ns: i64,
    /// Ends of what is in flight, per layer and device.
    in_flight: HashMap<(Layer, Option<NameId>), BinaryHeap<Reverse<i64>>>,
}

impl Order {
    /// Takes an operation; gives one back once enough are held.
    pub fn push(&mut self, layer: Layer, row: OpRow) -> Option<(Layer, OpRow)> {
        let out = if self.heap.len() >= HELD_MAX {
            self.pop()
        } else {
            None
        };
        let start_ns = row.start_ns;
        let place = match self.free.pop() {
            Some(place) => {
                self.rows[place as usize] = (layer, row);
                place
            }
            None => {
                self.rows.push((layer, row));
                self.rows.len() as u32 - 1
            }
        };
        self.heap.push(Reverse((start_ns, self.arrived, place)));
        self.arrived += 1;
        out
    }

    /// The operation that began first.
    pub fn pop(&mut self) -> Option<(Layer, OpRow)> {
        let Reverse((_, _, place)) = self.heap.pop()?;
        self.free.push(place);
        Some(self.rows[place as usize].clone())
    }

    /// Operations of the same device in flight when this one began, itself included; None if it comes out of order.
    pub fn depth(&mut self, layer: Layer, row: &OpRow) -> Option<i32> {
        if row.start_ns < self.last_ns {
            return None;
        }
        self.last_ns = row.start_ns;
        let ends = self.in_flight.entry((layer, row.device)).or_default();
        while ends.peek().is_some_and(|Reverse(end)| *end <= row.start_ns) {
            ends.pop();
        }
        ends.push(Reverse(row.start_ns.saturating_add(row.latency_ns)));
        i32::try_from(ends.len()).ok()
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
            ops in prop::collection::vec((0_i64..1000, 0_i64..100), 0..200)
        ) {
            let mut order = Order::default();
            for (start, latency) in &ops {
                prop_assert!(order.push(Layer::Block, plain_op(*start, *latency, Op::Read)).is_none());
            }
            let mut done: Vec<(i64, i64)> = Vec::new();
            while let Some((layer, row)) = order.pop() {
                let flying = done.iter().filter(|(start, latency)| start + latency > row.start_ns).count();
                prop_assert_eq!(order.depth(layer, &row), Some(flying as i32 + 1));
                prop_assert!(done.last().is_none_or(|(start, _)| *start <= row.start_ns));
                done.push((row.start_ns, row.latency_ns));
            }
            prop_assert_eq!(done.len(), ops.len());
        }
    }
}

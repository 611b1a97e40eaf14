//! Stretches of time that come in order, and how much of another time they take: a binary search, however many there are.
use std::collections::VecDeque;

/// Stretches in order; none overlaps another.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    /// Begin, end, and the time of all that came before.
    spans: VecDeque<(u64, u64, u64)>,
}

impl Spans {
    /// Adds one that begins no earlier than the others. A moment counts once: what overlaps an earlier one is cut off.
    pub(crate) fn add(&mut self, from_ns: u64, to_ns: u64) {
        let (last_ns, before_ns) = match self.spans.back() {
            Some((from_ns, to_ns, before_ns)) => (*to_ns, before_ns + (to_ns - from_ns)),
            None => (0, 0),
        };
        if to_ns > from_ns.max(last_ns) {
            self.spans.push_back((from_ns.max(last_ns), to_ns, before_ns));
        }
    }

    /// Nobody asks any more for what ended until then.
    pub(crate) fn forget(&mut self, until_ns: u64) {
        while self.spans.front().is_some_and(|(_, to_ns, _)| *to_ns <= until_ns) {
            self.spans.pop_front();
        }
    }

    fn touched(&self, from_ns: u64, to_ns: u64) -> std::ops::Range<usize> {
        let first = self.spans.partition_point(|(_, end_ns, _)| *end_ns <= from_ns);
        let end = self.spans.partition_point(|(begin_ns, _, _)| *begin_ns < to_ns);
        first..end.max(first)
    }

    /// Those that touch a time.
    pub(crate) fn within(&self, from_ns: u64, to_ns: u64) -> Vec<(u64, u64)> {
        let touched = self.spans.range(self.touched(from_ns, to_ns));
        touched.map(|(from_ns, to_ns, _)| (*from_ns, *to_ns)).collect()
    }

    /// How much of a time they take.
    pub(crate) fn covered_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        let touched = self.touched(from_ns, to_ns);
        if touched.is_empty() {
            return 0;
        }
        let (begin_ns, _, before_ns) = self.spans[touched.start];
        let (last_begin_ns, last_end_ns, last_before_ns) = self.spans[touched.end - 1];
        let all_ns = last_before_ns + (last_end_ns - last_begin_ns) - before_ns;
        all_ns - from_ns.saturating_sub(begin_ns) - last_end_ns.saturating_sub(to_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn spans_cover_what_they_cover(
            gaps in prop::collection::vec((0u64..20, 0u64..10), 0..20),
            from_ns in 0u64..200,
            length_ns in 0u64..100,
            forgotten_ns in 0u64..200,
        ) {
            let (mut spans, mut plain, mut now_ns) = (Spans::default(), Vec::new(), 0);
            for (gap_ns, span_ns) in gaps {
                spans.add(now_ns + gap_ns, now_ns + gap_ns + span_ns);
                plain.push((now_ns + gap_ns, now_ns + gap_ns + span_ns));
                now_ns += gap_ns + span_ns;
            }
            // What is forgotten ended before what is asked for.
            spans.forget(forgotten_ns.min(from_ns));
            let to_ns = from_ns + length_ns;
            let overlap = |(a, b): &(u64, u64)| (*b).min(to_ns).saturating_sub((*a).max(from_ns));
            prop_assert_eq!(spans.covered_ns(from_ns, to_ns), plain.iter().map(overlap).sum::<u64>());
            let touched: Vec<_> = plain.iter().filter(|span| overlap(span) > 0).copied().collect();
            let within = spans.within(from_ns, to_ns);
            prop_assert_eq!(within.iter().filter(|span| overlap(span) > 0).copied().collect::<Vec<_>>(), touched);
        }
    }
}

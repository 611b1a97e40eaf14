//! The time of one operation as labelled stretches. Pure arithmetic: whatever is cut out of a stretch goes to another
//! label, so the labels always sum to the operation's length.
use crate::stages::{walk_back, Owner, Part};
use case::schema::Stage;

/// A stretch of time and the stage that it counts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Begin.
    pub from_ns: u64,
    /// End.
    pub to_ns: u64,
    /// Stage.
    pub stage: Stage,
}

/// Stretches of an operation; they do not overlap, in no order.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    stretches: Vec<Stretch>,
}

impl Timeline {
    /// Adds a stretch; an empty one is left out.
    pub fn add(&mut self, from_ns: u64, to_ns: u64, stage: Stage) {
        if to_ns > from_ns {
            self.stretches.push(Stretch {
                from_ns,
                to_ns,
                stage,
            });
        }
    }

    /// Adds `[from_ns, to_ns]`, split among requests by walking back from the end. Sorts `parts`.
    pub fn add_requests(&mut self, from_ns: u64, to_ns: u64, parts: &mut [Part]) {
        walk_back(from_ns, to_ns, parts, |from_ns, to_ns, owner| match owner {
            Owner::Nobody { before } => {
                let held_back = before.is_some_and(|part| part.throttled);
                self.add(
                    from_ns,
                    to_ns,
                    if held_back { Stage::Throttle } else { Stage::Fs },
                );
            }
            Owner::Part(part) => {
                part.each_stage(from_ns, to_ns, |from_ns, to_ns, stage| {
                    self.add(from_ns, to_ns, stage)
                });
            }
        });
    }

    /// Gives the time within `spans` to `stage` where it counts to one of `of` so far.
    pub fn move_to(&mut self, stage: Stage, of: &[Stage], spans: &[(u64, u64)]) {
        for &(begin_ns, end_ns) in spans {
            for at in 0..self.stretches.len() {
                let stretch = self.stretches[at];
                let low_ns = begin_ns.max(stretch.from_ns);
                let high_ns = end_ns.min(stretch.to_ns);
                if !of.contains(&stretch.stage) || low_ns >= high_ns {
                    continue;
                }
                self.stretches[at].to_ns = low_ns;
                self.add(low_ns, high_ns, stage);
                self.add(high_ns, stretch.to_ns, stretch.stage);
            }
        }
    }

    /// Its stretches, in no order.
    pub fn into_stretches(self) -> Vec<Stretch> {
        self.stretches
    }

    /// Time of each stage, in the order of [`Stage`].
    pub fn sums(&self) -> [u64; 9] {
        let mut sums = [0; 9];
        for stretch in &self.stretches {
            sums[stretch.stage as usize] += stretch.to_ns - stretch.from_ns;
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_part() -> impl Strategy<Value = Part> {
        (prop::collection::vec(0u64..120, 5), any::<bool>()).prop_map(|(mut t, throttled)| {
            t.sort_unstable();
            Part {
                entry_ns: t[0],
                passed_ns: t[1],
                issue_ns: t[2],
                irq_ns: t[3],
                end_ns: t[4],
                throttled,
                ..Part::default()
            }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn stages_sum_and_spans_are_taken_out_of_fs_and_reap_only(
            mut parts in prop::collection::vec(any_part(), 0..6),
            from_ns in 0u64..50,
            length_ns in 0u64..80,
            reap_ns in 0u64..20,
            spans in prop::collection::vec((0u64..150, 0u64..60), 0..5),
        ) {
            let to_ns = from_ns + length_ns;
            let mut timeline = Timeline::default();
            timeline.add_requests(from_ns, to_ns, &mut parts);
            timeline.add(to_ns, to_ns + reap_ns, Stage::Reap);
            let before = timeline.sums();
            let spans: Vec<_> = spans.into_iter().map(|(a, b)| (a, a + b)).collect();
            timeline.move_to(Stage::Runqueue, &[Stage::Fs, Stage::Reap], &spans);
            let after = timeline.sums();
            prop_assert_eq!(after.iter().sum::<u64>(), length_ns + reap_ns);
            for stage in [Stage::Throttle, Stage::Queue, Stage::Device, Stage::Interrupt] {
                prop_assert_eq!(before[stage as usize], after[stage as usize]);
            }
            let covered = |ns: &u64| spans.iter().any(|(a, b)| (*a..*b).contains(ns));
            let inside = (from_ns..to_ns + reap_ns).filter(covered).count() as u64;
            prop_assert!(after[Stage::Runqueue as usize] <= inside);
        }
    }

    #[test]
    fn time_before_a_request_that_was_held_back_is_throttling() {
        let mut parts = [Part {
            entry_ns: 40,
            passed_ns: 44,
            issue_ns: 50,
            irq_ns: 90,
            end_ns: 95,
            throttled: true,
            wbt: true,
            ..Part::default()
        }];
        let mut timeline = Timeline::default();
        timeline.add_requests(10, 100, &mut parts);
        let sums = timeline.sums();
        assert_eq!(sums[Stage::Throttle as usize], 30 + 4);
        assert_eq!((sums[Stage::Queue as usize], sums[Stage::Fs as usize]), (6, 5));
    }
}

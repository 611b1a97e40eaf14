//! What requests wait for between their interrupt and their completion: handlers of other devices on the same CPU.
use crate::beside::{text, Streams, Surveys};
use crate::pipeline::Out;
use crate::sorted::Sorted;
use case::rows::IrqRow;
use case::schema::NameId;
use case::CaseError;
use std::collections::{HashMap, VecDeque};

/// Softirqs in which block requests themselves complete.
const OWN_SOFTIRQS: [&str; 2] = ["BLOCK", "IRQ_POLL"];
/// Runs held on a CPU at most: this many may end before the oldest request does. The oldest go first.
const RUNS_MAX: usize = 1 << 18;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    start_ns: u64,
    end_ns: u64,
    device: Option<NameId>,
}

#[derive(Default)]
struct Cpu {
    /// In order of start.
    runs: VecDeque<Run>,
    longest_ns: u64,
    /// Runs that ended before this are no longer known.
    forgotten_ns: u64,
}

impl Cpu {
    fn push(&mut self, run: Run) {
        self.longest_ns = self.longest_ns.max(run.end_ns.saturating_sub(run.start_ns));
        self.runs.push_back(run);
        if self.runs.len() > RUNS_MAX {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some(run) = self.runs.pop_front() {
            self.forgotten_ns = self.forgotten_ns.max(run.end_ns);
        }
    }

    /// Time between two moments in which a handler of another device ran; handlers may interrupt each other.
    fn foreign_ns(&self, from_ns: u64, to_ns: u64, device: NameId) -> u64 {
        let first = self
            .runs
            .partition_point(|run| run.start_ns.saturating_add(self.longest_ns) <= from_ns);
        let (mut counted_to_ns, mut total_ns) = (from_ns, 0);
        for run in self.runs.range(first..).take_while(|run| run.start_ns < to_ns) {
            if run.device == Some(device) {
                continue;
            }
            let begin_ns = run.start_ns.max(counted_to_ns);
            let end_ns = run.end_ns.min(to_ns);
            if end_ns > begin_ns {
                total_ns += end_ns - begin_ns;
                counted_to_ns = end_ns;
            }
        }
        total_ns
    }
}

/// Handler runs near the requests that are written now.
pub(crate) struct ForeignHandlers<'a> {
    runs: Sorted<'a, IrqRow>,
    cpus: HashMap<u16, Cpu>,
}

impl<'a> ForeignHandlers<'a> {
    /// `None` if handlers were not recorded.
    pub(crate) fn new(streams: &Streams<'a>, surveys: &Surveys) -> Result<Option<Self>, CaseError> {
        if streams.irq.is_none() {
            return Ok(None);
        }
        Ok(Some(ForeignHandlers {
            runs: Sorted::new(streams.irq, &surveys.irq)?,
            cpus: HashMap::new(),
        }))
    }

    /// Time between `from_ns` and `to_ns` in which handlers of others than `device` ran on a CPU; `None` where that is not known.
    /// Nothing before `oldest_ns` will be asked for any more.
    pub(crate) fn between(
        &mut self,
        (from_ns, to_ns): (u64, u64),
        cpu: u16,
        device: NameId,
        oldest_ns: u64,
        out: &mut Out,
    ) -> Result<Option<i64>, CaseError> {
        while self.runs.peek().is_some_and(|run| run.start_ns < to_ns) {
            let Some(row) = self.runs.take()? else { break };
            let handler = text(&row.handler).unwrap_or_default();
            if row.kind == 0 || !OWN_SOFTIRQS.contains(&handler.as_str()) {
                let device = out.device_of_handler(&handler);
                let (start_ns, end_ns) = (row.start_ns, row.end_ns);
                self.cpus.entry(row.cpu).or_default().push(Run {
                    start_ns,
                    end_ns,
                    device,
                });
            }
        }
        let Some(known) = self.cpus.get_mut(&cpu) else {
            return Ok(Some(0));
        };
        while known.runs.front().is_some_and(|run| run.end_ns <= oldest_ns) {
            known.runs.pop_front();
        }
        Ok((from_ns >= known.forgotten_ns).then(|| known.foreign_ns(from_ns, to_ns, device) as i64))
    }

    pub(crate) fn rows_held(&self) -> usize {
        self.cpus.values().map(|cpu| cpu.runs.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cpu(runs: &[(u64, u64, Option<u32>)]) -> Cpu {
        let mut cpu = Cpu::default();
        let mut sorted = runs.to_vec();
        sorted.sort_unstable();
        for (start_ns, end_ns, device) in sorted {
            cpu.push(Run {
                start_ns,
                end_ns,
                device,
            });
        }
        cpu
    }

    #[test]
    fn only_runs_of_others_count_and_each_moment_once() {
        let own = 7;
        let cpu = cpu(&[
            (0, 100, None),
            (150, 250, Some(7)),
            (300, 500, Some(8)),
            (350, 400, None),
            (450, 700, None),
        ]);
        assert_eq!(cpu.foreign_ns(50, 600, own), 50 + 200 + 100);
        assert_eq!(cpu.foreign_ns(100, 300, own), 0);
        assert_eq!(cpu.foreign_ns(100, 300, 9), 100);
        assert_eq!(cpu.foreign_ns(360, 380, own), 20);
    }

    #[test]
    fn what_was_forgotten_is_known() {
        let mut cpu = Cpu::default();
        for number in 0..=RUNS_MAX as u64 {
            cpu.push(Run {
                start_ns: number * 10,
                end_ns: number * 10 + 5,
                device: None,
            });
        }
        assert_eq!((cpu.runs.len(), cpu.forgotten_ns), (RUNS_MAX, 5));
    }

    proptest! {
        #[test]
        fn as_counted_moment_by_moment(
            runs in prop::collection::vec((0u64..200, 0u64..60, prop::option::of(0u32..3)), 0..30),
            (from_ns, length_ns) in (0u64..200, 0u64..100),
        ) {
            let runs: Vec<_> = runs.into_iter().map(|(start, length, device)| (start, start + length, device)).collect();
            let to_ns = from_ns + length_ns;
            let counted = (from_ns..to_ns)
                .filter(|at| runs.iter().any(|(start, end, device)| *device != Some(1) && start <= at && at < end))
                .count() as u64;
            prop_assert_eq!(cpu(&runs).foreign_ns(from_ns, to_ns, 1), counted);
        }
    }
}

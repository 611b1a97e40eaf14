//! Decides for each request when it completes and whether it fails. No clock, no I/O: testable by itself.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::fault::{Fault, Kind, Op, Rate};

/// One request as it arrived.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// Read, write or flush.
    pub op: Op,
    /// First byte; 0 for a flush.
    pub offset_bytes: u64,
    /// Length; 0 for a flush.
    pub size_bytes: u64,
    /// When it arrived, ns since the start.
    pub arrive_ns: u64,
}

/// One fault that hit a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit {
    /// Which of the faults, in the order given.
    pub fault: usize,
    /// How much later the request completes because of it.
    pub delay_ns: u64,
}

/// What happens to a request.
#[derive(Debug, PartialEq, Eq)]
pub struct Decision {
    /// When it completes, ns since the start; `arrive_ns` if at once.
    pub due_ns: u64,
    /// Of that, what it takes beside a modelled drive.
    pub added_ns: u64,
    /// Error number to answer with instead of doing it.
    pub errno: Option<i32>,
    /// Faults that hit it.
    pub hits: Vec<Hit>,
}

/// A fault and what it did so far.
struct Active {
    fault: Fault,
    /// Requests that matched: numbers the random draws.
    matched: AtomicU64,
    hits: AtomicU64,
    delay_sum_ns: AtomicU64,
    /// Throttle: when the requests taken so far are all served. Sleep: when the last one arrived, or it was awake.
    busy_until_ns: AtomicU64,
    /// Sleep: when it is awake.
    awake_ns: AtomicU64,
}

/// All faults of a disk and its base service time.
pub struct Injector {
    latency_ns: u64,
    seed: u64,
    active: Vec<Active>,
    /// Set at shutdown: every request is then served at once and unharmed.
    disarmed: AtomicBool,
}

/// What one fault did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultStats {
    /// The fault in its canonical text.
    pub fault: String,
    /// Requests that matched its op, offset and time window.
    pub matched: u64,
    /// Requests that it delayed or failed.
    pub hits: u64,
    /// Sum of the delays it added.
    pub delay_sum_ns: u64,
}

impl Injector {
    pub fn new(faults: Vec<Fault>, latency_ns: u64, seed: u64) -> Injector {
        let activate = |fault| Active {
            fault,
            matched: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            delay_sum_ns: AtomicU64::new(0),
            busy_until_ns: AtomicU64::new(0),
            awake_ns: AtomicU64::new(0),
        };
        let active = faults.into_iter().map(activate).collect();
        Injector {
            latency_ns,
            seed,
            active,
            disarmed: AtomicBool::new(false),
        }
    }

    /// From now on nothing is delayed or failed.
    pub fn disarm(&self) {
        self.disarmed.store(true, Relaxed);
    }

    /// Whether [`Injector::disarm`] was called.
    pub fn is_disarmed(&self) -> bool {
        self.disarmed.load(Relaxed)
    }

    /// Applies the base service time, which begins when the disk is awake, then added delays, throttles, and stalls last: a request
    /// that would end in a stall completes after it.
    pub fn decide(&self, request: &Request) -> Decision {
        let mut decision = Decision {
            due_ns: request.arrive_ns,
            added_ns: 0,
            errno: None,
            hits: Vec::new(),
        };
        if self.disarmed.load(Relaxed) {
            return decision;
        }
        if request.op != Op::Flush {
            decision.due_ns += self.latency_ns;
        }
        for stage in [asleep, added_delay, throttle, stall] {
            for (index, active) in self.active.iter().enumerate() {
                if active.matches(request) {
                    if let Some(due_ns) = stage(active, self.draw_key(index), request, &mut decision) {
                        active.hit(index, due_ns, &mut decision);
                    }
                }
            }
        }
        decision.added_ns = decision.due_ns - request.arrive_ns;
        decision
    }

    pub fn stats(&self) -> Vec<FaultStats> {
        let one = |active: &Active| FaultStats {
            fault: active.fault.to_string(),
            matched: active.matched.load(Relaxed),
            hits: active.hits.load(Relaxed),
            delay_sum_ns: active.delay_sum_ns.load(Relaxed),
        };
        self.active.iter().map(one).collect()
    }

    /// The fault in its canonical text.
    pub fn fault_text(&self, index: usize) -> String {
        self.active[index].fault.to_string()
    }

    /// Error number of an `error` fault.
    pub fn errno(&self, index: usize) -> Option<i32> {
        match self.active[index].fault.kind {
            Kind::Error { errno, .. } => Some(errno),
            _ => None,
        }
    }

    /// Distinct per fault, so that two faults of the same probability hit different requests.
    fn draw_key(&self, index: usize) -> u64 {
        mix(self.seed ^ mix(index as u64 + 1))
    }
}

impl Active {
    fn matches(&self, request: &Request) -> bool {
        let fault = &self.fault;
        let op = fault.op == Op::Any || fault.op == request.op;
        let time = request.arrive_ns >= fault.from_ns
            && fault.until_ns.is_none_or(|until_ns| request.arrive_ns < until_ns);
        let end = request.offset_bytes + request.size_bytes;
        let place = fault
            .offset_bytes
            .as_ref()
            .is_none_or(|range| request.offset_bytes < range.end && end > range.start);
        op && time && place
    }

    /// True for a part `probability` of the matching requests; the n-th draw of a seed is always the same.
    fn draw(&self, key: u64, probability: f64) -> bool {
        let n = self.matched.fetch_add(1, Relaxed);
        let unit = (mix(key ^ mix(n)) >> 11) as f64 / (1u64 << 53) as f64;
        unit < probability
    }

    fn hit(&self, index: usize, due_ns: u64, decision: &mut Decision) {
        let delay_ns = due_ns - decision.due_ns;
        decision.due_ns = due_ns;
        decision.hits.push(Hit {
            fault: index,
            delay_ns,
        });
        self.hits.fetch_add(1, Relaxed);
        self.delay_sum_ns.fetch_add(delay_ns, Relaxed);
    }
}

/// `tail`, `constant` and `error`. Each stage returns the new due time if its kind of fault hits.
fn added_delay(active: &Active, key: u64, _: &Request, decision: &mut Decision) -> Option<u64> {
    match active.fault.kind {
        Kind::Tail {
            probability,
            delay_ns,
        } => active.draw(key, probability).then(|| decision.due_ns + delay_ns),
        Kind::Constant { delay_ns } => {
            active.matched.fetch_add(1, Relaxed);
            Some(decision.due_ns + delay_ns)
        }
        Kind::Error { probability, errno } => active.draw(key, probability).then(|| {
            decision.errno.get_or_insert(errno);
            decision.due_ns
        }),
        Kind::Stall { .. } | Kind::Sleep { .. } | Kind::Throttle { .. } => None,
    }
}

/// `sleep`: what comes long after the request before waits until the disk is awake, and so does what comes meanwhile.
fn asleep(active: &Active, _: u64, request: &Request, decision: &mut Decision) -> Option<u64> {
    let Kind::Sleep { idle_ns, wake_ns } = active.fault.kind else {
        return None;
    };
    active.matched.fetch_add(1, Relaxed);
    let arrive_ns = request.arrive_ns;
    let last_ns = active.busy_until_ns.fetch_max(arrive_ns, Relaxed);
    if arrive_ns.saturating_sub(last_ns) >= idle_ns {
        let awake_ns = arrive_ns + wake_ns;
        active.awake_ns.fetch_max(awake_ns, Relaxed);
        active.busy_until_ns.fetch_max(awake_ns, Relaxed);
    }
    let awake_ns = active.awake_ns.load(Relaxed);
    (awake_ns > arrive_ns).then(|| decision.due_ns + awake_ns - arrive_ns)
}

/// `throttle`: a single server that takes `cost` per request; its end is the earliest completion.
fn throttle(active: &Active, _: u64, request: &Request, decision: &mut Decision) -> Option<u64> {
    let Kind::Throttle { rate } = active.fault.kind else {
        return None;
    };
    active.matched.fetch_add(1, Relaxed);
    let second = 1_000_000_000u128;
    let cost_ns = match rate {
        Rate::BytesPerS(bytes) => (u128::from(request.size_bytes) * second / u128::from(bytes)) as u64,
        Rate::RequestsPerS(count) => (second / u128::from(count)) as u64,
    };
    let serve = |busy_ns: u64| busy_ns.max(request.arrive_ns) + cost_ns;
    let before_ns = active
        .busy_until_ns
        .fetch_update(Relaxed, Relaxed, |busy_ns| Some(serve(busy_ns)));
    let end_ns = serve(before_ns.unwrap_or_else(|now| now));
    (end_ns > decision.due_ns).then_some(end_ns)
}

/// `stall`: a request that arrives or would end in a window completes at the end of that window.
fn stall(active: &Active, _: u64, request: &Request, decision: &mut Decision) -> Option<u64> {
    let Kind::Stall { every_ns, length_ns } = active.fault.kind else {
        return None;
    };
    active.matched.fetch_add(1, Relaxed);
    let window_end = |ns: u64| {
        let begin_ns = ns / every_ns * every_ns;
        (begin_ns > 0 && ns - begin_ns < length_ns).then_some(begin_ns + length_ns)
    };
    let due_ns = decision.due_ns.max(window_end(request.arrive_ns).unwrap_or(0));
    let due_ns = window_end(due_ns).unwrap_or(due_ns);
    (due_ns > decision.due_ns).then_some(due_ns)
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): every input bit changes every output bit.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn injector(faults: &[&str], latency_ns: u64) -> Injector {
        let faults = faults.iter().map(|text| Fault::parse(text).unwrap()).collect();
        Injector::new(faults, latency_ns, 7)
    }

    fn read_at(arrive_ns: u64) -> Request {
        Request {
            op: Op::Read,
            offset_bytes: 0,
            size_bytes: 4096,
            arrive_ns,
        }
    }

    fn due(injector: &Injector, request: &Request) -> u64 {
        injector.decide(request).due_ns
    }

    #[test]
    fn base_latency_is_for_reads_and_writes() {
        let injector = injector(&[], 100_000);
        assert_eq!(due(&injector, &read_at(5)), 100_005);
        assert_eq!(
            due(
                &injector,
                &Request {
                    op: Op::Flush,
                    ..read_at(5)
                }
            ),
            5
        );
    }

    #[test]
    fn tail_hits_its_part_and_is_the_same_each_time() {
        let run = |seed| {
            let injector = Injector::new(vec![Fault::parse("read tail 0.01 30ms").unwrap()], 0, seed);
            let hit = |n: u64| (due(&injector, &read_at(n)) != n).then_some(n);
            let hits: Vec<u64> = (0..100_003).filter_map(hit).collect();
            assert_eq!(injector.stats()[0].hits, hits.len() as u64);
            assert_eq!(injector.stats()[0].delay_sum_ns, hits.len() as u64 * 30 * MS);
            hits
        };
        let hits = run(1);
        // 1000 expected, standard deviation 31: beyond 5 of them something is wrong.
        assert!((845..=1155).contains(&hits.len()), "{}", hits.len());
        assert_eq!(hits, run(1));
        assert_ne!(hits, run(2));
    }

    #[test]
    fn two_equal_faults_hit_different_requests() {
        let injector = injector(&["read tail 0.1 1ms", "read tail 0.1 1ms"], 0);
        let both = (0..10_007)
            .filter(|n| injector.decide(&read_at(*n)).hits.len() == 2)
            .count();
        assert!((50..150).contains(&both), "{both}");
    }

    #[test]
    fn op_offset_and_time_select() {
        let injector = injector(&["write constant 1ms offset 8KiB..16KiB from 1s until 2s"], 0);
        let hit = |op, offset_bytes, arrive_ms| {
            let request = Request {
                op,
                offset_bytes,
                size_bytes: 4096,
                arrive_ns: arrive_ms * MS,
            };
            !injector.decide(&request).hits.is_empty()
        };
        assert!(hit(Op::Write, 8192, 1000));
        assert!(hit(Op::Write, 4097, 1999));
        assert!(hit(Op::Write, 16383, 1000));
        assert!(!hit(Op::Write, 4096, 1000));
        assert!(!hit(Op::Write, 16384, 1000));
        assert!(!hit(Op::Write, 8192, 999));
        assert!(!hit(Op::Write, 8192, 2000));
        assert!(!hit(Op::Read, 8192, 1000));
        assert!(!hit(Op::Flush, 8192, 1000));
        assert_eq!(injector.stats()[0].matched, 3);
    }

    #[test]
    fn what_comes_after_a_silence_wakes_it_and_what_comes_meanwhile_waits() {
        let injector = injector(&["any sleep 100ms 20ms"], 1000);
        let latency = |arrive_ns| due(&injector, &read_at(arrive_ns)) - arrive_ns;
        // It was not used before.
        assert_eq!(latency(200 * MS), 20 * MS + 1000);
        assert_eq!(latency(215 * MS), 5 * MS + 1000);
        assert_eq!(latency(220 * MS), 1000);
        // Awake since 220 ms, last asked for at 319 ms.
        assert_eq!(latency(319 * MS), 1000);
        assert_eq!(latency(419 * MS - 1), 1000);
        assert_eq!(latency(519 * MS), 20 * MS + 1000);
        assert_eq!(injector.stats()[0].hits, 3);
    }

    #[test]
    fn stall_holds_arrivals_and_ends_within_its_windows() {
        let injector = injector(&["any stall 100ms 20ms"], MS);
        assert_eq!(due(&injector, &read_at(0)), MS, "no window at the start");
        assert_eq!(due(&injector, &read_at(98 * MS)), 99 * MS);
        assert_eq!(
            due(&injector, &read_at(99 * MS + 1)),
            120 * MS,
            "would end within"
        );
        assert_eq!(due(&injector, &read_at(100 * MS)), 120 * MS);
        assert_eq!(
            due(&injector, &read_at(120 * MS - 1)),
            121 * MS - 1,
            "ends later by itself"
        );
        assert_eq!(due(&injector, &read_at(120 * MS)), 121 * MS);
        assert_eq!(due(&injector, &read_at(205 * MS)), 220 * MS);
    }

    #[test]
    fn throttle_serves_one_after_the_other() {
        let by_count = injector(&["read throttle 1000/s"], 0);
        assert_eq!(due(&by_count, &read_at(0)), MS);
        assert_eq!(due(&by_count, &read_at(0)), 2 * MS);
        assert_eq!(due(&by_count, &read_at(10 * MS)), 11 * MS);
        let by_bytes = injector(&["read throttle 4MiB/s"], 0);
        let seconds = (0..1024).map(|_| due(&by_bytes, &read_at(0))).last().unwrap() as f64 / 1e9;
        assert!((seconds - 1.0).abs() < 1e-6, "4 MiB took {seconds} s");
    }

    #[test]
    fn errors_and_delays_combine() {
        let injector = injector(
            &["read error 1 ENOSPC", "read constant 2ms", "read tail 1 3ms"],
            0,
        );
        let decision = injector.decide(&read_at(0));
        assert_eq!((decision.errno, decision.due_ns), (Some(libc::ENOSPC), 5 * MS));
        let delays: Vec<_> = decision
            .hits
            .iter()
            .map(|hit| (hit.fault, hit.delay_ns))
            .collect();
        assert_eq!(delays, [(0, 0), (1, 2 * MS), (2, 3 * MS)]);
    }

    #[test]
    fn disarmed_means_at_once() {
        let injector = injector(&["any constant 1s", "any error 1"], 500);
        injector.disarm();
        assert_eq!(
            injector.decide(&read_at(9)),
            Decision {
                due_ns: 9,
                added_ns: 0,
                errno: None,
                hits: Vec::new()
            }
        );
    }
}

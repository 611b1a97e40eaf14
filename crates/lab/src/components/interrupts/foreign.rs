//! Handlers that are no drive's, and the device that answers their reads of registers.

/// A handler that is no drive's.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignHandler {
    /// `switchtec`.
    pub name: String,
    /// Vectors it is on.
    pub vectors: Vec<usize>,
    /// Per call.
    pub cost_ns: u64,
    /// Share of a call during which its device is busy, 0 to 1; see [`Endpoint`].
    pub busy: f64,
    /// Interrupts of its own per second; 0 = it only runs along.
    pub rate_per_s: f64,
    /// First moment.
    pub from_ns: u64,
    /// After the last moment.
    pub to_ns: u64,
}

/// A call under way.
struct Call {
    cpu: usize,
    /// What is left of it, ns on an idle device.
    left_ns: f64,
}

/// The device behind a foreign handler. A call is a chain of register reads; reads are not posted, so the CPU stands still
/// until each is answered. Part of that time the read travels, in the other part (`busy`) the device answers it, one read at a
/// time. So calls on a few CPUs go side by side, and slow each other down alike once the device has no time left.
pub(super) struct Endpoint {
    busy: f64,
    calls: Vec<Call>,
    since_ns: u64,
    /// Number of the timer that counts; those set before it do not.
    timer: u32,
}

impl Endpoint {
    pub fn new(handler: &ForeignHandler) -> Endpoint {
        Endpoint {
            busy: handler.busy,
            calls: Vec::new(),
            since_ns: 0,
            timer: 0,
        }
    }

    /// How fast each call goes on, 0 to 1.
    fn speed(&self) -> f64 {
        (1.0 / (self.calls.len() as f64 * self.busy)).min(1.0)
    }

    fn catch_up(&mut self, now_ns: u64) {
        let done_ns = (now_ns - self.since_ns) as f64 * self.speed();
        self.calls.iter_mut().for_each(|call| call.left_ns -= done_ns);
        self.since_ns = now_ns;
    }

    /// When the next call ends, and the number of the timer for it; None without calls.
    fn next(&mut self) -> Option<(u64, u32)> {
        let least_ns = self.calls.iter().map(|call| call.left_ns).reduce(f64::min)?;
        self.timer = self.timer.wrapping_add(1);
        let wait_ns = (least_ns.max(0.0) / self.speed()).ceil() as u64;
        Some((self.since_ns + wait_ns, self.timer))
    }

    /// A CPU begins a call of `cost_ns`; the timer to set.
    pub fn begin(&mut self, cpu: usize, cost_ns: u64, now_ns: u64) -> Option<(u64, u32)> {
        self.catch_up(now_ns);
        self.calls.push(Call {
            cpu,
            left_ns: cost_ns as f64,
        });
        self.next()
    }

    /// A timer went off: the CPU with the call that ended, if it is the one that counts, and the next timer to set.
    pub fn end(&mut self, timer: u32, now_ns: u64) -> (Option<usize>, Option<(u64, u32)>) {
        if timer != self.timer {
            return (None, None);
        }
        self.catch_up(now_ns);
        let least =
            (0..self.calls.len()).min_by(|a, b| self.calls[*a].left_ns.total_cmp(&self.calls[*b].left_ns));
        let ended = least.map(|at| self.calls.remove(at).cpu);
        (ended, self.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(busy: f64) -> Endpoint {
        Endpoint::new(&ForeignHandler {
            name: "switch".into(),
            vectors: Vec::new(),
            cost_ns: 100,
            busy,
            rate_per_s: 0.0,
            from_ns: 0,
            to_ns: u64::MAX,
        })
    }

    /// When calls that begin together end.
    fn ends(busy: f64, calls: usize) -> Vec<u64> {
        let mut endpoint = endpoint(busy);
        let mut timer = None;
        for cpu in 0..calls {
            timer = endpoint.begin(cpu, 100, 0);
        }
        let mut found = Vec::new();
        while let Some((at_ns, number)) = timer {
            let (cpu, next) = endpoint.end(number, at_ns);
            found.extend(cpu.map(|_| at_ns));
            timer = next;
        }
        found
    }

    #[test]
    fn calls_go_side_by_side_until_the_device_has_no_time_left() {
        assert_eq!(ends(0.0, 3), [100, 100, 100]);
        assert_eq!(ends(0.5, 2), [100, 100]);
        assert_eq!(ends(0.5, 4), [200, 200, 200, 200]);
        assert_eq!(ends(1.0, 3), [300, 300, 300]);
    }

    #[test]
    fn a_later_call_slows_an_earlier_one_for_as_long_as_both_last() {
        let mut endpoint = endpoint(1.0);
        endpoint.begin(0, 100, 0);
        // Half of the first is done; both go on at half the speed.
        let (at_ns, timer) = endpoint.begin(1, 100, 50).unwrap();
        assert_eq!(at_ns, 150);
        assert_eq!(endpoint.end(timer.wrapping_sub(1), 100), (None, None));
        assert_eq!(endpoint.end(timer, 150).0, Some(0));
    }
}

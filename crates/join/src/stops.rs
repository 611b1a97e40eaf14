//! When the observed process was stopped: the recorder is its parent and hears of it from the kernel.
use case::schema::{EventRow, EVENT_CONTINUED, EVENT_STOPPED};

/// Intervals in which a process was stopped by a signal (or a tracer), CLOCK_MONOTONIC.
#[derive(Clone, Debug, Default)]
pub struct Stops {
    intervals: Vec<(i32, u64, u64)>,
}

impl Stops {
    /// Reads them off the recorder's events. A stop that nobody ended lasts until `end_ns`.
    pub fn of(events: &[EventRow], end_ns: u64) -> Stops {
        let mut intervals: Vec<(i32, u64, u64)> = Vec::new();
        for event in events {
            let Some(pid) = event
                .subject
                .strip_prefix("process ")
                .and_then(|p| p.parse().ok())
            else {
                continue;
            };
            let now_ns = u64::try_from(event.time_ns).unwrap_or(0);
            let open = intervals
                .iter_mut()
                .rev()
                .find(|(stopped, ..)| *stopped == pid)
                .filter(|(_, _, until_ns)| *until_ns == u64::MAX);
            match (event.kind.as_str(), open) {
                (EVENT_STOPPED, None) => intervals.push((pid, now_ns, u64::MAX)),
                (EVENT_CONTINUED, Some((.., until_ns))) => *until_ns = now_ns,
                _ => {}
            }
        }
        for (_, from_ns, until_ns) in &mut intervals {
            *until_ns = (*until_ns).min(end_ns.max(*from_ns));
        }
        Stops { intervals }
    }

    /// State of a silence of a thread of `pid`: `stopped` if the process was stopped for most of it.
    pub fn state(&self, pid: Option<i32>, start_ns: u64, duration_ns: u64) -> &'static str {
        let overlap = |&(_, from_ns, until_ns): &(i32, u64, u64)| {
            until_ns
                .min(start_ns.saturating_add(duration_ns))
                .saturating_sub(from_ns.max(start_ns))
        };
        let mine = self
            .intervals
            .iter()
            .filter(|(stopped, ..)| Some(*stopped) == pid);
        if 2 * mine.map(overlap).sum::<u64>() > duration_ns {
            "stopped"
        } else {
            "unobserved"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(time_ns: i64, kind: &str, pid: i32) -> EventRow {
        EventRow {
            time_ns,
            kind: kind.into(),
            subject: format!("process {pid}"),
            detail: String::new(),
        }
    }

    #[test]
    fn a_silence_within_a_stop_is_a_stop() {
        let events = [event(100, EVENT_STOPPED, 7), event(200, EVENT_CONTINUED, 7)];
        let stops = Stops::of(&events, 1000);
        assert_eq!(stops.state(Some(7), 105, 100), "stopped");
        assert_eq!(
            stops.state(Some(7), 150, 101),
            "unobserved",
            "less than half of it"
        );
        assert_eq!(stops.state(Some(8), 105, 90), "unobserved", "another process");
        assert_eq!(stops.state(None, 105, 90), "unobserved");
    }

    #[test]
    fn a_stop_without_an_end_lasts_to_the_end() {
        let stops = Stops::of(
            &[event(100, EVENT_STOPPED, 7), event(150, EVENT_STOPPED, 7)],
            1000,
        );
        assert_eq!(stops.state(Some(7), 500, 500), "stopped");
        assert_eq!(stops.state(Some(7), 900, 300), "unobserved");
    }

    #[test]
    fn strange_events_are_no_stops() {
        let mut odd = event(100, EVENT_STOPPED, 7);
        odd.subject = "disk vda".into();
        let events = [odd, event(50, EVENT_CONTINUED, 7), event(-5, "error", 7)];
        assert_eq!(Stops::of(&events, 1000).state(Some(7), 0, 1000), "unobserved");
    }
}

//! One thread that does things when they are due: no request waits for another one's timer.
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::clock::mono_ns;

/// Something to do at a time.
struct Entry<T> {
    due_mono_ns: u64,
    /// Order of arrival: equal times keep it.
    number: u64,
    item: T,
}

impl<T> Entry<T> {
    fn key(&self) -> (u64, u64) {
        (self.due_mono_ns, self.number)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl<T> Eq for Entry<T> {}
impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

struct State<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    pushed: u64,
    closed: bool,
    late: Lateness,
}

/// How late the timer thread was: the error of every injected delay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Timers that ran.
    pub count: u64,
    /// Sum of their lateness.
    pub sum_ns: u64,
    /// The worst.
    pub max_ns: u64,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The timer thread and its queue.
pub struct Timer<T> {
    shared: Arc<Shared<T>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl<T: Send + 'static> Timer<T> {
    /// Starts the thread; `run` is called there with each item at its time.
    pub fn start(run: impl Fn(T) + Send + 'static) -> io::Result<Timer<T>> {
        let state = State {
            heap: BinaryHeap::new(),
            pushed: 0,
            closed: false,
            late: Lateness::default(),
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let theirs = shared.clone();
        let thread = Builder::new().name("slowdisk-timer".into()).spawn(move || {
            crate::process::be_a_disk_thread();
            timer_loop(&theirs, run);
        })?;
        Ok(Timer {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Queues an item for a time of CLOCK_MONOTONIC. Gives it back if the timer is closed.
    pub fn push(&self, due_mono_ns: u64, item: T) -> Result<(), T> {
        let mut state = self.shared.lock();
        if state.closed {
            return Err(item);
        }
        let earliest = state
            .heap
            .peek()
            .is_none_or(|Reverse(first)| due_mono_ns < first.due_mono_ns);
        let number = state.pushed;
        state.pushed += 1;
        state.heap.push(Reverse(Entry {
            due_mono_ns,
            number,
            item,
        }));
        drop(state);
        if earliest {
            self.shared.changed.notify_one();
        }
        Ok(())
    }

    /// Runs all that is queued at once and ends the thread. Later pushes are refused.
    pub fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic there was printed by its thread; what it held was answered when it was dropped.
            let _ = thread.join();
        }
    }

    /// How late timers were so far.
    pub fn lateness(&self) -> Lateness {
        self.shared.lock().late
    }
}

fn timer_loop<T>(shared: &Shared<T>, run: impl Fn(T)) {
    let mut state = shared.lock();
    loop {
        let closed = state.closed;
        let now_ns = mono_ns();
        let Some(Reverse(first)) = state.heap.peek() else {
            if closed {
                return;
            }
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        let due_ns = first.due_mono_ns;
        if due_ns > now_ns && !closed {
            let wait = Duration::from_nanos(due_ns - now_ns);
            let woken = shared.changed.wait_timeout(state, wait);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
            continue;
        }
        if !closed {
            let late_ns = now_ns - due_ns;
            state.late.count += 1;
            state.late.sum_ns += late_ns;
            state.late.max_ns = state.late.max_ns.max(late_ns);
        }
        if let Some(Reverse(entry)) = state.heap.pop() {
            drop(state);
            run(entry.item);
            state = shared.lock();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn runs_in_order_of_time_and_not_early() {
        let (tell, told) = mpsc::channel();
        let timer = Timer::start(move |item| tell.send((item, mono_ns())).unwrap()).unwrap();
        let start_ns = mono_ns();
        for ms in [30, 10, 20] {
            timer.push(start_ns + ms * 1_000_000, ms).unwrap();
        }
        for ms in [10, 20, 30] {
            let (item, at_ns) = told.recv().unwrap();
            assert_eq!(item, ms);
            assert!(at_ns >= start_ns + ms * 1_000_000, "early");
        }
        assert_eq!(timer.lateness().count, 3);
    }

    #[test]
    fn close_runs_what_waits_and_refuses_more() {
        let (tell, told) = mpsc::channel();
        let timer = Timer::start(move |item| tell.send(item).unwrap()).unwrap();
        timer.push(mono_ns() + 3_600_000_000_000, 1).unwrap();
        timer.close();
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [1]);
        assert_eq!(timer.push(0, 2), Err(2));
        timer.close();
    }
}

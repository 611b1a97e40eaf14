//! Completions that BPF programs are not shown, taken from the kernel's own event tracing.
//!
//! Where the kernel runs no BPF program while a thread of process 1 is current, it still writes events: an instance
//! of tracefs of our own logs `block_rq_complete` on CPUs with one of those threads as current task, and nothing
//! else, so that it costs a comparison per completion elsewhere. A request that was found to be unfinished though
//! its memory is in use again (or free) is looked up there by device, sectors and time.
//!
//! What is found has the completion's time, CPU and error as the kernel's event says; which interrupt led to it is
//! not known (`INTERRUPT_UNSEEN`). What is not found stays lost.
use super::layout::{BlockRecord, Unfinished, VECTOR_UNSEEN};
use crate::tracefs::{follow, Field, Instance, Pages};
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The threads of this process hide completions.
const HIDING_PROCESS: &str = "/proc/1/task";

/// Name of the thread that follows new threads of that process.
pub const FOLLOWER: &str = "whodisk-follow";

/// Memory for events, over all CPUs.
const BUFFER_BYTES: usize = 8 << 20;
/// And for one CPU.
const BUFFER_CPU_BYTES: (usize, usize) = (64 << 10, 1 << 20);

/// How often events are fetched while nobody asks for one.
const FETCH_PAUSE: Duration = Duration::from_millis(100);

/// How often the threads of the hiding process are listed though it has started nothing.
const LIST_PAUSE: Duration = Duration::from_secs(1);

/// Memory for what the hiding process starts, for each CPU.
const BIRTHS_CPU_BYTES: usize = 8 << 10;

/// An unfinished request is noticed within about a second: then it is begun anew, or looked at by the recorder.
const KEPT_NS: u64 = 5_000_000_000;

/// An event may be invisible for as long as another one is being written on its CPU.
const SECOND_LOOK: Duration = Duration::from_micros(200);

/// One `block_rq_complete` (or a part of one).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Completion {
    time_ns: u64,
    device: u32,
    sector_512: u64,
    sectors: u32,
    /// 0 or errno.
    error: u16,
    cpu: u16,
}

/// Where the fields of the event are.
#[derive(Clone, Copy, Debug)]
struct Layout {
    event_id: u64,
    device: Field,
    sector: Field,
    sectors: Field,
    error: Field,
}

impl Layout {
    fn of(instance: &Instance) -> io::Result<Layout> {
        let format = instance.format("block", "block_rq_complete")?;
        Ok(Layout {
            event_id: format.id,
            device: format.field("dev")?,
            sector: format.field("sector")?,
            sectors: format.field("nr_sector")?,
            error: format.field("error")?,
        })
    }

    fn completion(&self, time_ns: u64, cpu: u16, event: &[u8]) -> Option<Completion> {
        if event
            .get(..2)
            .map(|id| u64::from(u16::from_ne_bytes([id[0], id[1]])))
            != Some(self.event_id)
        {
            return None;
        }
        Some(Completion {
            time_ns,
            device: self.device.read(event)? as u32,
            sector_512: self.sector.read(event)?,
            sectors: self.sectors.read(event)? as u32,
            error: (self.error.read(event)? as i32).unsigned_abs() as u16,
            cpu,
        })
    }
}

/// The instance, and what it has shown.
pub struct Hidden {
    /// Before the instance, as are the pages: the kernel removes no instance that somebody still uses.
    _follower: Follower,
    pages: Pages,
    _instance: Instance,
    layout: Layout,
    seen: Completions,
    fetched: Instant,
}

impl Hidden {
    /// Makes the instance and begins to trace. An error means that this host does not offer it.
    pub fn start(cpus: u32) -> io::Result<Hidden> {
        let instance = Instance::create()?;
        let layout = Layout::of(&instance)?;
        let (least, most) = BUFFER_CPU_BYTES;
        instance.set_buffer_bytes((BUFFER_BYTES / cpus.max(1) as usize).clamp(least, most))?;
        instance.set("trace_clock", "mono")?;
        let follower = Follower::start(instance.followed())?;
        let pages = instance.open_pages()?;
        instance.set("events/block/block_rq_complete/enable", "1")?;
        Ok(Hidden {
            _follower: follower,
            pages,
            _instance: instance,
            layout,
            seen: Completions::default(),
            fetched: Instant::now(),
        })
    }

    /// To be called every few milliseconds: keeps the buffers from running over.
    pub fn tend(&mut self) {
        if self.fetched.elapsed() >= FETCH_PAUSE {
            self.fetch();
        }
    }

    fn fetch(&mut self) {
        self.fetched = Instant::now();
        let (layout, seen) = (self.layout, &mut self.seen);
        self.pages.read(|cpu, time_ns, event| {
            if let Some(completion) = layout.completion(time_ns, cpu, event) {
                seen.push(completion);
            }
        });
        self.seen.forget();
    }

    /// Turns those with a completion that was seen into finished requests, appended to `into`; the rest stays in `unfinished`.
    pub fn resolve(&mut self, unfinished: &mut Vec<Unfinished>, into: &mut Vec<BlockRecord>) {
        if unfinished.is_empty() {
            return;
        }
        self.fetch();
        self.seen.resolve(unfinished, into);
        if !unfinished.is_empty() {
            std::thread::sleep(SECOND_LOOK);
            self.fetch();
            self.seen.resolve(unfinished, into);
        }
    }
}

/// Follows the threads of the hiding process, on a thread of its own: the kernel makes whoever adds one wait, and
/// the rings would run over meanwhile. That thread sleeps until the kernel logs that the process has started something:
/// looking every few milliseconds would cost as much as a fifth of all recording.
struct Follower {
    /// Closed, it ends the thread.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Follower {
    /// Follows all threads there are, and then every new one.
    fn start(completions: PathBuf) -> io::Result<Follower> {
        let births = Instance::create()?;
        births.set_buffer_bytes(BIRTHS_CPU_BYTES)?;
        let mut followed = Followed {
            lists: [completions, births.followed()],
            known: BTreeSet::new(),
        };
        followed.look()?;
        // Only now: while nobody is followed, everybody's events are logged.
        births.set("events/sched/sched_process_fork/enable", "1")?;
        followed.look()?;
        let mut born = births.open_text()?;
        let (stop, stopped) = UnixStream::pair()?;
        let body = move || {
            // Held until the thread ends, and dropped after what it reads from.
            let _births = births;
            loop {
                let mut text = [0; 4096];
                while born.read(&mut text).is_ok_and(|length| length > 0) {}
                // A thread that ended meanwhile may be refused; the next look follows the others.
                let _ = followed.look();
                if wait(&born, &stopped, LIST_PAUSE) {
                    drop(born);
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name(FOLLOWER.into()).spawn(body)?;
        Ok(Follower {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Waits until there is something to read; true if it is from `stopped`: its other end is closed then.
fn wait(events: &File, stopped: &UnixStream, at_most: Duration) -> bool {
    let of = |fd: i32| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let mut fds = [of(events.as_raw_fd()), of(stopped.as_raw_fd())];
    // SAFETY: two descriptors that are open, in memory that is ours.
    unsafe { libc::poll(fds.as_mut_ptr(), 2, at_most.as_millis() as i32) };
    fds[1].revents != 0
}

/// The threads that are followed, and where they are listed.
struct Followed {
    lists: [PathBuf; 2],
    known: BTreeSet<String>,
}

impl Followed {
    /// Adds the threads that are not known yet, all at once.
    fn look(&mut self) -> io::Result<()> {
        let present = thread_ids()?;
        self.known.retain(|thread| present.contains(thread));
        let new: Vec<String> = present.difference(&self.known).cloned().collect();
        if new.is_empty() {
            return Ok(());
        }
        self.lists.iter().try_for_each(|list| follow(list, &new))?;
        self.known.extend(new);
        Ok(())
    }
}

/// Completions by device and the sector after their last.
#[derive(Default)]
struct Completions {
    by_end: HashMap<(u32, u64), Vec<Completion>>,
    count: usize,
    newest_ns: u64,
    forgotten_ns: u64,
}

impl Completions {
    fn push(&mut self, completion: Completion) {
        let end = completion.sector_512.wrapping_add(u64::from(completion.sectors));
        self.newest_ns = self.newest_ns.max(completion.time_ns);
        self.count += 1;
        self.by_end
            .entry((completion.device, end))
            .or_default()
            .push(completion);
    }

    /// Drops what nobody can ask for any more.
    fn forget(&mut self) {
        let oldest_ns = self.newest_ns.saturating_sub(KEPT_NS);
        if oldest_ns < self.forgotten_ns + KEPT_NS {
            return;
        }
        self.forgotten_ns = oldest_ns;
        self.by_end.retain(|_, list| {
            list.retain(|completion| completion.time_ns >= oldest_ns);
            !list.is_empty()
        });
        self.count = self.by_end.values().map(Vec::len).sum();
    }

    fn resolve(&mut self, unfinished: &mut Vec<Unfinished>, into: &mut Vec<BlockRecord>) {
        // A request's memory may have been used twice meanwhile, for the same sectors: the earlier use takes the
        // earlier completion.
        unfinished.sort_by_key(|request| request.slot.active);
        unfinished.retain(|request| match self.take(request) {
            Some(completion) => {
                into.push(finished(request, &completion));
                false
            }
            None => true,
        });
    }

    /// The first completion of the request's last sector, after its issue and before it was known to be over. A
    /// request completed in parts has several; the last part ends where the request does.
    fn take(&mut self, request: &Unfinished) -> Option<Completion> {
        let facts = &request.slot.facts;
        let end = facts.sector_512.wrapping_add(u64::from(facts.size_bytes / 512));
        let list = self.by_end.get_mut(&(facts.device, end))?;
        let since_ns = facts.issue_ns.max(facts.start_ns);
        let fits = |completion: &Completion| {
            (since_ns..=request.before_ns).contains(&completion.time_ns)
                && completion.sectors <= facts.size_bytes / 512
        };
        let at = (0..list.len())
            .filter(|at| fits(&list[*at]))
            .min_by_key(|at| list[*at].time_ns)?;
        self.count -= 1;
        Some(list.swap_remove(at))
    }
}

fn finished(request: &Unfinished, completion: &Completion) -> BlockRecord {
    BlockRecord {
        facts: request.slot.facts,
        irq_ns: 0,
        complete_ns: completion.time_ns,
        vector: VECTOR_UNSEEN,
        complete_cpu: completion.cpu,
        error: completion.error,
        owner: request.owner,
    }
}

fn thread_ids() -> io::Result<BTreeSet<String>> {
    let entries = std::fs::read_dir(Path::new(HIDING_PROCESS))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names.collect())
}

#[cfg(test)]
mod tests {
    use super::super::layout::{Facts, Owner, Slot};
    use super::*;

    fn completion(time_ns: u64, sector_512: u64, sectors: u32) -> Completion {
        let (device, error, cpu) = (7, 0, 1);
        Completion {
            time_ns,
            device,
            sector_512,
            sectors,
            error,
            cpu,
        }
    }

    fn request(issue_ns: u64, sector_512: u64, sectors: u32, before_ns: u64) -> Unfinished {
        let facts = Facts {
            start_ns: issue_ns - 1,
            issue_ns,
            sector_512,
            size_bytes: sectors * 512,
            device: 7,
            ..Facts::default()
        };
        let slot = Slot {
            active: issue_ns - 1,
            facts,
            ..Slot::default()
        };
        Unfinished {
            slot,
            before_ns,
            owner: Owner::default(),
        }
    }

    fn resolve(completions: &[Completion], mut requests: Vec<Unfinished>) -> (Vec<u64>, usize) {
        let (mut seen, mut into) = (Completions::default(), Vec::new());
        completions.iter().for_each(|one| seen.push(*one));
        seen.resolve(&mut requests, &mut into);
        (into.iter().map(|one| one.complete_ns).collect(), requests.len())
    }

    #[test]
    fn a_completion_belongs_to_the_request_in_whose_time_it_falls() {
        let seen = [completion(100, 64, 8), completion(300, 64, 8)];
        assert_eq!(resolve(&seen, vec![request(200, 64, 8, 400)]), (vec![300], 0));
        assert_eq!(resolve(&seen, vec![request(310, 64, 8, 400)]), (vec![], 1));
        assert_eq!(resolve(&seen, vec![request(50, 72, 8, 400)]), (vec![], 1));
        assert_eq!(resolve(&seen, vec![request(50, 64, 8, 99)]), (vec![], 1));
    }

    #[test]
    fn two_uses_of_the_same_sectors_take_their_completions_in_order() {
        let seen = [completion(300, 64, 8), completion(100, 64, 8)];
        let later_first = vec![request(200, 64, 8, 400), request(50, 64, 8, 400)];
        assert_eq!(resolve(&seen, later_first), (vec![100, 300], 0));
    }

    #[test]
    fn a_completion_is_used_once() {
        let seen = [completion(300, 64, 8)];
        let both = vec![request(200, 64, 8, 400), request(50, 64, 8, 400)];
        assert_eq!(resolve(&seen, both), (vec![300], 1));
    }

    #[test]
    fn a_request_completed_in_parts_is_over_with_its_last() {
        let seen = [completion(300, 64, 8), completion(350, 72, 8)];
        assert_eq!(resolve(&seen, vec![request(200, 64, 16, 400)]), (vec![350], 0));
    }

    #[test]
    fn old_completions_are_forgotten() {
        let mut seen = Completions::default();
        seen.push(completion(1, 64, 8));
        seen.push(completion(20_000_000_000, 64, 8));
        seen.forget();
        assert_eq!(seen.count, 1);
    }
}

//! Requests that wait for the app operation they belong to.
use crate::stages::{block_times, BlockTimes, Part};
use case::rows::{block_flags, BlockRow};
use case::schema::{Layer, LinkKind};
use std::collections::HashMap;

/// A request as its operation sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    /// Boundaries.
    pub part: Part,
    /// Sealed id; 0 while it is not known.
    pub id: u64,
    /// Bytes of the request that belong to the operation.
    pub bytes: u64,
    /// Kernel dev_t.
    pub device: u32,
    /// How it belongs to the operation.
    pub kind: LinkKind,
}

impl Child {
    /// A bio of a volume that ends at `end_ns`, or a request that was made for it. Its members' requests show what is spent
    /// below the volume, so its own part is empty, and lies at its end.
    pub fn of_volume(row: &BlockRow, id: u64, end_ns: u64) -> Child {
        Child {
            part: Part {
                entry_ns: end_ns,
                passed_ns: end_ns,
                issue_ns: end_ns,
                irq_ns: end_ns,
                end_ns,
                ..Part::default()
            },
            id,
            bytes: u64::from(row.size_bytes),
            device: row.device,
            kind: LinkKind::WaitsFor,
        }
    }

    /// Whether it is a member's request: its time is the operation's, which waits for the volume.
    pub fn below_volume(&self) -> bool {
        self.kind == LinkKind::Stacked
    }

    /// Times and device only. They do not depend on the end of the recording: an open request ends
    /// after everything.
    pub fn timed(row: &BlockRow) -> Child {
        Child::of(row, &block_times(row, u64::MAX))
    }

    /// The same of a request with these times.
    pub fn of(row: &BlockRow, times: &BlockTimes) -> Child {
        Child {
            part: times.part(row.flags & block_flags::THROTTLED != 0),
            id: 0,
            bytes: 0,
            device: row.device,
            kind: LinkKind::WaitsFor,
        }
    }
}

/// Most operations have one request: no allocation for those.
#[derive(Debug)]
enum Few {
    One(Child),
    Many(Vec<Child>),
}

/// Requests by operation.
#[derive(Debug)]
pub struct Children {
    by_operation: HashMap<u64, Few>,
    len: usize,
    /// Workers with ended streams: nobody will ask for their requests.
    ended: Vec<bool>,
    unclaimed: u64,
}

/// Number of the worker in an app operation's id, or `None` if it is no such id.
fn worker_of(op_id: u64) -> Option<usize> {
    (op_id >> 56 == Layer::App.op_id_base() >> 56).then_some((op_id >> 40 & 0xffff) as usize)
}

impl Children {
    /// None yet. Ids of workers other than `workers` belong to nobody.
    pub fn new(workers: impl IntoIterator<Item = u16>) -> Children {
        let mut ended = vec![true; 1 << 16];
        for worker in workers {
            ended[usize::from(worker)] = false;
        }
        Children {
            by_operation: HashMap::new(),
            len: 0,
            ended,
            unclaimed: 0,
        }
    }

    /// A request of operation `op_id`.
    pub fn add(&mut self, op_id: u64, child: Child) {
        if worker_of(op_id).is_none_or(|worker| self.ended[worker]) {
            self.unclaimed += 1;
            return;
        }
        self.len += 1;
        match self.by_operation.entry(op_id) {
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(Few::One(child));
            }
            std::collections::hash_map::Entry::Occupied(mut place) => match place.get_mut() {
                Few::Many(children) => children.push(child),
                Few::One(first) => {
                    let both = vec![*first, child];
                    place.insert(Few::Many(both));
                }
            },
        }
    }

    /// The requests of `op_id`, in order of their ids. One that began after the operation was reaped is
    /// none of them: nobody waited for it.
    pub fn take(&mut self, op_id: u64, reap_ns: u64, into: &mut Vec<Child>) {
        into.clear();
        match self.by_operation.remove(&op_id) {
            None => {}
            Some(Few::One(child)) => into.push(child),
            Some(Few::Many(children)) => into.extend(children),
        }
        self.len -= into.len();
        let all = into.len();
        into.retain(|child| child.part.entry_ns <= reap_ns);
        self.unclaimed += (all - into.len()) as u64;
    }

    /// The stream of this worker has ended.
    pub fn end_worker(&mut self, worker: u16) {
        self.ended[usize::from(worker)] = true;
        let before = self.len;
        let len = &mut self.len;
        self.by_operation.retain(|op_id, few| {
            let keep = worker_of(*op_id) != Some(usize::from(worker));
            if !keep {
                *len -= match few {
                    Few::One(_) => 1,
                    Few::Many(children) => children.len(),
                };
            }
            keep
        });
        self.unclaimed += (before - self.len) as u64;
    }

    /// Requests held.
    pub fn held(&self) -> usize {
        self.len
    }

    /// Requests that nobody asked for.
    pub fn unclaimed(&self) -> u64 {
        self.unclaimed + self.len as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(worker: u64, sequence: u64) -> u64 {
        Layer::App.op_id_base() | worker << 40 | sequence
    }

    #[test]
    fn taken_once_in_order_and_counted_if_never() {
        let mut children = Children::new([0, 1]);
        let child = |id| Child {
            id,
            ..Child::timed(&BlockRow::default())
        };
        for (op_id, child_id) in [
            (id(0, 1), 1),
            (id(1, 1), 2),
            (id(0, 1), 3),
            (id(1, 2), 4),
            (id(0, 1), 5),
        ] {
            children.add(op_id, child(child_id));
        }
        let mut taken = Vec::new();
        children.take(id(0, 1), 100, &mut taken);
        assert_eq!(taken.iter().map(|c| c.id).collect::<Vec<_>>(), [1, 3, 5]);
        children.take(id(0, 1), 100, &mut taken);
        assert!(taken.is_empty() && children.held() == 2);
        children.end_worker(1);
        children.add(id(1, 3), child(6)); // after the end of its worker
        children.add(id(2, 1), child(7)); // no such worker
        children.add(77, child(8)); // no app operation
        assert_eq!((children.held(), children.unclaimed()), (0, 5));
    }
}

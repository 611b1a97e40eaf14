//! Draws one worker's operations: kind, target, place and size. Deterministic by seed and worker.
use crate::rng::Rng;
use crate::spec::{Spec, SyncKind};
use crate::trace::Step;
use case::schema::Op;
use std::sync::Arc;

/// One operation to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Read, write or sync.
    pub op: Op,
    /// Index of the target.
    pub file: u8,
    /// A multiple of the alignment; 0 for a sync.
    pub offset_bytes: u64,
    /// 0 for a sync.
    pub size_bytes: u32,
}

/// Where one worker is on one target.
#[derive(Clone, Debug)]
struct Place {
    size_bytes: u64,
    /// End of the last operation here.
    position_bytes: u64,
    /// Operations since (and with) the last seek.
    run_ops: u64,
    writes_unsynced: u64,
    /// Per block size: number of aligned offsets at which it fits; >= 1.
    offsets: Vec<u64>,
}

/// The generator of one worker.
#[derive(Clone, Debug)]
pub struct Mix {
    rng: Rng,
    read_below: u64,
    random_below: u64,
    /// (upper end of the draw, size), ascending; the last end is 2^32.
    blocks: Vec<(u64, u32)>,
    align_bytes: u64,
    run_ops_max: u64,
    sync_every_writes: u64,
    sync_due: Option<u8>,
    places: Vec<Place>,
    /// Operations that are done instead of drawn ones, and which is next.
    steps: Option<(Arc<[Step]>, usize)>,
}

impl Mix {
    /// `sizes_bytes`: usable size of each target; each at least the largest block size.
    pub fn new(spec: &Spec, worker: u32, sizes_bytes: &[u64]) -> Mix {
        let mut end_ppm = 0;
        let blocks = spec.blocks.iter().map(|block| {
            end_ppm += block.share_ppm;
            (threshold(end_ppm), block.size_bytes)
        });
        Mix {
            rng: Rng::new(spec.seed, u64::from(worker)),
            read_below: threshold(spec.read_ppm),
            random_below: threshold(spec.random_ppm),
            blocks: blocks.collect(),
            align_bytes: spec.align_bytes,
            run_ops_max: if spec.sequential_run_ops == 0 {
                u64::MAX
            } else {
                spec.sequential_run_ops
            },
            sync_every_writes: match spec.sync_kind {
                SyncKind::Fsync | SyncKind::Fdatasync => spec.sync_every_writes,
                SyncKind::ODsync | SyncKind::OSync => 0,
            },
            sync_due: None,
            places: sizes_bytes
                .iter()
                .map(|size| Place::new(spec, worker, *size))
                .collect(),
            steps: None,
        }
    }

    /// Does these operations, and draws none.
    pub fn replaying(mut self, steps: Option<Arc<[Step]>>) -> Mix {
        self.steps = steps.map(|steps| (steps, 0));
        self
    }

    /// The next operation. The caller must let earlier ones end before it starts a sync.
    #[inline]
    pub fn next_access(&mut self) -> Access {
        if let Some((steps, at)) = &mut self.steps {
            *at += 1;
            // The quota ends with the last one.
            return steps[*at - 1].access;
        }
        if let Some(file) = self.sync_due.take() {
            return Access {
                op: Op::Sync,
                file,
                offset_bytes: 0,
                size_bytes: 0,
            };
        }
        let draw = self.rng.next_u64();
        let is_read = draw & 0xffff_ffff < self.read_below;
        let seeks = draw >> 32 < self.random_below;
        let block = self.draw_block();
        let size_bytes = self.blocks[block].1;
        let file = if self.places.len() == 1 {
            0
        } else {
            self.rng.below(self.places.len() as u64) as usize
        };
        let place = &mut self.places[file];
        let offset_bytes = if seeks || place.run_ops >= self.run_ops_max {
            place.run_ops = 1;
            self.rng.below(place.offsets[block]) * self.align_bytes
        } else {
            place.run_ops += 1;
            place.continue_at(self.align_bytes, size_bytes)
        };
        place.position_bytes = offset_bytes + u64::from(size_bytes);
        if !is_read && self.sync_every_writes > 0 {
            place.writes_unsynced += 1;
            if place.writes_unsynced == self.sync_every_writes {
                place.writes_unsynced = 0;
                self.sync_due = Some(file as u8);
            }
        }
        Access {
            op: if is_read { Op::Read } else { Op::Write },
            file: file as u8,
            offset_bytes,
            size_bytes,
        }
    }

    #[inline]
    fn draw_block(&mut self) -> usize {
        if self.blocks.len() == 1 {
            return 0;
        }
        let draw = self.rng.next_u64() >> 32;
        self.blocks
            .iter()
            .position(|(end, _)| draw < *end)
            .unwrap_or(self.blocks.len() - 1)
    }
}

impl Place {
    fn new(spec: &Spec, worker: u32, size_bytes: u64) -> Place {
        let share_bytes = size_bytes / u64::from(spec.workers) * u64::from(worker);
        let fits = |block: u32| {
            assert!(
                u64::from(block) <= size_bytes,
                "target of {size_bytes} bytes, block of {block}"
            );
            (size_bytes - u64::from(block)) / spec.align_bytes + 1
        };
        Place {
            size_bytes,
            position_bytes: share_bytes / spec.align_bytes * spec.align_bytes,
            run_ops: 0,
            writes_unsynced: 0,
            offsets: spec.blocks.iter().map(|block| fits(block.size_bytes)).collect(),
        }
    }

    /// The next aligned offset after the last operation, or the beginning where it does not fit.
    #[inline]
    fn continue_at(&self, align_bytes: u64, size_bytes: u32) -> u64 {
        let aligned = if align_bytes.is_power_of_two() {
            (self.position_bytes + align_bytes - 1) & !(align_bytes - 1)
        } else {
            self.position_bytes.next_multiple_of(align_bytes)
        };
        if aligned + u64::from(size_bytes) <= self.size_bytes {
            aligned
        } else {
            0
        }
    }
}

/// A draw of 32 random bits is below this with the given probability (1,000,000 ppm: always).
fn threshold(ppm: u32) -> u64 {
    (u64::from(ppm) << 32) / 1_000_000
}

#[cfg(test)]
#[path = "mix_tests.rs"]
mod tests;

//! Checkpoints of the array: what memory holds goes out in rows, some of which are read before they are written.
use super::Array;
use crate::component::{Handle, NO_HANDLE};
use crate::models::allocator::BLOCK_BYTES;
use crate::sim::Core;
use case::schema::Op;

impl Array {
    pub(super) fn is_writing(&self) -> bool {
        self.writing > 0 || !self.to_write.is_empty() || !self.transfers.is_empty()
    }

    /// Begins a checkpoint, unless one is under way or there is nothing to write.
    pub(super) fn checkpoint(&mut self, core: &mut Core) {
        if self.is_writing() || self.contents.allocator.dirty_blocks() == 0 {
            return;
        }
        // A full array keeps its data in memory and tries again at the next checkpoint.
        let Ok(done) = self.contents.allocator.checkpoint() else {
            return;
        };
        self.checkpoints += 1;
        let most = self.rules.max_io_bytes / BLOCK_BYTES as u32;
        self.to_write.extend(self.rules.rows.plan(&done.writes, most));
        self.write_out(core);
    }

    pub(super) fn write_out(&mut self, core: &mut Core) {
        while self.writing < self.rules.depth {
            let Some((row, transfer)) = self.transfers.pop_front() else {
                if !self.begin_row() {
                    return;
                }
                continue;
            };
            let counted = match transfer.op {
                Op::Read => &mut self.blocks_read_first,
                _ => &mut self.blocks_written,
            };
            *counted += u64::from(transfer.run.blocks);
            let child = self.request(transfer.op, transfer.run, NO_HANDLE, core);
            self.row_of.insert(child, row);
            self.writing += 1;
            core.send(self.below.id, child);
        }
    }

    /// Makes transfers of the next row; whether there was one.
    fn begin_row(&mut self) -> bool {
        let Some(plan) = self.to_write.pop_front() else {
            return false;
        };
        let row = self.rows_begun;
        self.rows_begun = self.rows_begun.wrapping_add(1);
        let first = match plan.reads.is_empty() {
            true => plan.writes,
            false => {
                self.reading.insert(row, (plan.reads.len(), plan.writes));
                plan.reads
            }
        };
        self.transfers
            .extend(first.into_iter().map(|transfer| (row, transfer)));
        true
    }

    /// A transfer of a checkpoint has ended; the last read of a row lets its writes go.
    pub(super) fn transfer_done(&mut self, child: Handle) {
        self.writing -= 1;
        let row = self.row_of.remove(&child);
        let Some((row, (missing, _))) = row.and_then(|row| Some((row, self.reading.get_mut(&row)?))) else {
            return;
        };
        *missing -= 1;
        if *missing == 0 {
            let writes = self
                .reading
                .remove(&row)
                .map_or_else(Vec::new, |(_, writes)| writes);
            self.transfers
                .extend(writes.into_iter().map(|write| (row, write)));
        }
    }
}

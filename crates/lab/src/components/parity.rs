//! Parity of a copy-on-write array: which blocks of a checkpoint need reads before they can be written.
//!
//! Drives with parity of their own (RAID 4; with two of them RAID-DP), after Corbett and others, "Row-Diagonal Parity for
//! Double Disk Failure Correction", FAST 2004. A row is a chunk on every drive; a line is one block on each, and has its
//! parity beside it. A checkpoint that has all data blocks of a line computes parity from them. Where it has only some, as in
//! splintered free space, it must read first: what it replaces together with the old parity, or the blocks that stay, whichever is
//! less. That is what splintered free space costs.
use crate::models::allocator::Extent;
use case::schema::Op;

/// Shape of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Drives with data.
    pub data: u32,
    /// Drives with parity, the last of each row; 0 = none, and nothing is ever read before a write.
    pub parity: u32,
    /// Blocks of a chunk.
    pub chunk_blocks: u32,
}

/// A transfer of consecutive blocks, as places on the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Read or write.
    pub op: Op,
    /// First block on the volume, parity included, and how many.
    pub run: Extent,
}

/// What a checkpoint does in one row: reads, then writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowPlan {
    /// Before the writes.
    pub reads: Vec<Transfer>,
    /// Data and parity.
    pub writes: Vec<Transfer>,
}

impl Rows {
    /// Blocks of data in a row.
    pub fn data_blocks(&self) -> u32 {
        self.data * self.chunk_blocks
    }

    /// Where a block of data is on the volume, parity included.
    pub fn place(&self, block: u32) -> u32 {
        match self.parity {
            0 => block,
            parity => block + block / self.data_blocks() * parity * self.chunk_blocks,
        }
    }

    /// How many of a run's blocks are in its first row.
    pub fn within_row(&self, run: Extent) -> u32 {
        match self.parity {
            0 => run.blocks,
            _ => run
                .blocks
                .min(self.data_blocks() - run.first % self.data_blocks()),
        }
    }

    /// Reads and writes of a checkpoint that writes `runs`, row by row in their order; none larger than `most` blocks.
    pub fn plan(&self, runs: &[Extent], most: u32) -> Vec<RowPlan> {
        if self.parity == 0 {
            let writes = runs.iter().flat_map(|run| pieces(Op::Write, *run, most));
            let alone = |write| RowPlan {
                reads: Vec::new(),
                writes: vec![write],
            };
            return writes.map(alone).collect();
        }
        let mut plans = Vec::new();
        let mut row: Option<(u32, Vec<bool>)> = None;
        for run in runs {
            let mut rest = *run;
            while rest.blocks > 0 {
                let number = rest.first / self.data_blocks();
                if row.as_ref().is_none_or(|(own, _)| *own != number) {
                    plans.extend(row.take().map(|(own, written)| self.row(own, &written, most)));
                    row = Some((number, vec![false; self.data_blocks() as usize]));
                }
                let blocks = self.within_row(rest);
                let first = (rest.first % self.data_blocks()) as usize;
                if let Some((_, written)) = &mut row {
                    written[first..first + blocks as usize].fill(true);
                }
                (rest.first, rest.blocks) = (rest.first + blocks, rest.blocks - blocks);
            }
        }
        plans.extend(row.map(|(own, written)| self.row(own, &written, most)));
        plans
    }

    /// One row, of which `written` says which data blocks are new.
    fn row(&self, number: u32, written: &[bool], most: u32) -> RowPlan {
        let lines = self.chunk_blocks;
        let (data, all) = (self.data, self.data + self.parity);
        let mut reads = vec![false; (all * lines) as usize];
        let mut writes = reads.clone();
        for line in 0..lines {
            let new = |drive: u32| written[(drive * lines + line) as usize];
            let count = (0..data).filter(|drive| new(*drive)).count() as u32;
            if count == 0 {
                continue;
            }
            let replace = count + self.parity < data - count;
            for drive in 0..all {
                let at = (drive * lines + line) as usize;
                let is_new = drive >= data || new(drive);
                writes[at] = is_new;
                reads[at] = match replace {
                    true => is_new,
                    false => !is_new,
                };
            }
        }
        let first = number * all * lines;
        RowPlan {
            reads: self.transfers(Op::Read, first, &reads, most),
            writes: self.transfers(Op::Write, first, &writes, most),
        }
    }

    /// The set blocks of a row as runs, each on one drive.
    fn transfers(&self, op: Op, first: u32, blocks: &[bool], most: u32) -> Vec<Transfer> {
        let mut found = Vec::new();
        for (drive, own) in blocks.chunks(self.chunk_blocks as usize).enumerate() {
            let base = first + drive as u32 * self.chunk_blocks;
            let mut begin = 0;
            for part in own.chunk_by(|a, b| a == b) {
                if part[0] {
                    let run = Extent {
                        first: base + begin,
                        blocks: part.len() as u32,
                    };
                    found.extend(pieces(op, run, most));
                }
                begin += part.len() as u32;
            }
        }
        found
    }
}

/// A run in pieces of at most `most` blocks.
fn pieces(op: Op, run: Extent, most: u32) -> impl Iterator<Item = Transfer> {
    (0..run.blocks)
        .step_by(most.max(1) as usize)
        .map(move |at| Transfer {
            op,
            run: Extent {
                first: run.first + at,
                blocks: most.min(run.blocks - at),
            },
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: Rows = Rows {
        data: 4,
        parity: 2,
        chunk_blocks: 8,
    };

    fn run(first: u32, blocks: u32) -> Extent {
        Extent { first, blocks }
    }

    fn blocks(transfers: &[Transfer]) -> u32 {
        transfers.iter().map(|transfer| transfer.run.blocks).sum()
    }

    #[test]
    fn a_whole_row_is_written_without_reads() {
        let plans = ROWS.plan(&[run(32, 32)], 100);
        assert_eq!(plans.len(), 1);
        assert!(plans[0].reads.is_empty());
        let places: Vec<u32> = plans[0].writes.iter().map(|write| write.run.first).collect();
        assert_eq!(places, [48, 56, 64, 72, 80, 88]);
    }

    #[test]
    fn one_block_replaces_or_reads_the_others_whichever_is_less() {
        // Four data drives: the three others are as many as the old block and two parities.
        let plans = ROWS.plan(&[run(9, 1)], 100);
        assert_eq!((blocks(&plans[0].reads), blocks(&plans[0].writes)), (3, 3));
        assert!(plans[0].reads.iter().all(|read| read.run.first != 9));
        let wide = Rows { data: 10, ..ROWS };
        let plans = wide.plan(&[run(9, 1)], 100);
        let at = |transfers: &[Transfer]| -> Vec<u32> { transfers.iter().map(|t| t.run.first).collect() };
        assert_eq!(at(&plans[0].reads), [9, 81, 89]);
        assert_eq!(at(&plans[0].writes), [9, 81, 89]);
        // Nine of ten: one is read.
        let plans = wide.plan(&[run(0, 72)], 100);
        assert_eq!((blocks(&plans[0].reads), blocks(&plans[0].writes)), (8, 88));
    }

    #[test]
    fn rows_are_apart_and_transfers_are_no_larger_than_allowed() {
        let plans = ROWS.plan(&[run(30, 4), run(64, 1)], 3);
        assert_eq!(plans.len(), 3);
        let all = plans
            .iter()
            .flat_map(|plan| plan.reads.iter().chain(&plan.writes));
        assert!(all.clone().all(|transfer| transfer.run.blocks <= 3));
        assert_eq!(ROWS.within_row(run(30, 4)), 2);
        assert_eq!((ROWS.place(31), ROWS.place(32)), (31, 48));
    }

    #[test]
    fn without_parity_runs_are_written_as_they_are() {
        let rows = Rows { parity: 0, ..ROWS };
        let plans = rows.plan(&[run(30, 40)], 16);
        assert!(plans.iter().all(|plan| plan.reads.is_empty()));
        let sizes: Vec<u32> = plans.iter().map(|plan| plan.writes[0].run.blocks).collect();
        assert_eq!((sizes, rows.place(77)), (vec![16, 16, 8], 77));
    }
}

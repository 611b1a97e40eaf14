//! Turns drained block records into rows.
use super::layout::{BlockRecord, CarrierRecord, MergeRecord};
use super::scoped::Scoped;
use crate::drain::HANDOVER_RECORDS;
use crate::pool::Pool;
use crate::probe::{Batch, Log, Target};
use crate::sampling::SampledRequests;
use crate::streams::{Out, Stream};
use case::raw::BLOCK_ROWS;
use case::rows::{BlockCarrierRow, BlockMergeRow, BlockRow};
use case::CaseError;

/// What came out of the rings since the last drain.
#[derive(Default)]
pub struct Drained {
    /// Requests in the order of completion.
    pub requests: Vec<BlockRecord>,
    /// Bios beyond the first.
    pub merges: Vec<MergeRecord>,
    /// What carriers waited for.
    pub carriers: Vec<CarrierRecord>,
}

impl Drained {
    /// Room for what usually comes until the next hand-over: growing would copy it again and again.
    pub fn with_room() -> Drained {
        Drained {
            requests: Vec::with_capacity(2 * HANDOVER_RECORDS),
            merges: Vec::new(),
            carriers: Vec::new(),
        }
    }

    /// Forgets all, and keeps the room.
    pub fn clear(&mut self) {
        self.requests.clear();
        self.merges.clear();
        self.carriers.clear();
    }

    /// Memory that the records take.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.requests[..]) + size_of_val(&self.merges[..]) + size_of_val(&self.carriers[..])
    }

    /// Requests, bios, and what carriers waited for.
    pub fn len(&self) -> usize {
        self.requests.len() + self.merges.len() + self.carriers.len()
    }
}

/// The streams `block`, `block_merge` and `block_carrier`.
pub struct BlockLog {
    blocks: Out<BlockRow>,
    merges: Out<BlockMergeRow>,
    carriers: Out<BlockCarrierRow>,
    rows: Vec<BlockRow>,
    requests: u64,
    joined: u64,
    /// `None`: every request is wanted.
    scoped: Option<Scoped>,
    /// `None`: every request is kept.
    sampled: Option<SampledRequests>,
    used: Pool<Drained>,
}

impl BlockLog {
    /// Creates the streams.
    pub fn create(target: &Target, used: Pool<Drained>) -> Result<BlockLog, CaseError> {
        Ok(BlockLog {
            blocks: Out::create(target, &[])?,
            merges: Out::create(target, &[])?,
            carriers: Out::create(target, &[])?,
            rows: Vec::new(),
            requests: 0,
            joined: 0,
            scoped: target.filter.clone().map(Scoped::new),
            sampled: target.sampler.clone().map(SampledRequests::new),
            used,
        })
    }

    /// Writes what is kept of the requests that have waited long enough, or of all.
    fn write_sampled(&mut self, all: bool) {
        let Some(mut sampled) = self.sampled.take() else {
            return;
        };
        loop {
            self.rows.clear();
            let (rows, requests) = (&mut self.rows, &mut self.requests);
            let judged = sampled.judge(all, |record, mark| {
                *requests += 1;
                let row = record.row(*requests);
                rows.push(BlockRow {
                    flags: row.flags | mark,
                    ..row
                });
            });
            let Some(buffer) = judged else { break };
            self.used.give(Drained {
                requests: buffer,
                ..Drained::default()
            });
            self.rows
                .chunks(BLOCK_ROWS)
                .for_each(|rows| self.blocks.push_many(rows));
        }
        self.sampled = Some(sampled);
    }

    fn write_all(&mut self, records: &Drained) {
        for record in &records.merges {
            self.joined += u64::from(record.owner.op_id != 0);
            self.merges.push(&record.row());
        }
        for record in &records.carriers {
            self.carriers.push(&record.row());
        }
        for block in records.requests.chunks(BLOCK_ROWS) {
            self.rows.clear();
            for record in block {
                self.requests += 1;
                self.joined += u64::from(record.facts.op_id != 0);
                self.rows.push(record.row(self.requests));
            }
            self.blocks.push_many(&self.rows);
        }
    }
}

impl Log for BlockLog {
    fn write(&mut self, batch: Batch) {
        let mut records: Box<Drained> = batch.data.downcast().expect("the block probe's own records");
        if let Some(sampled) = &mut self.sampled {
            // Requests with merged bios are always kept, and come later.
            sampled.take_in(std::mem::take(&mut records.requests));
            self.write_all(&records);
            self.write_sampled(false);
            return;
        }
        match &mut self.scoped {
            None => self.write_all(&records),
            Some(scoped) => {
                let judged = scoped.pass(&records);
                self.write_all(&judged);
            }
        }
        records.clear();
        self.used.give(*records);
    }

    fn end(&mut self) {
        self.write_sampled(true);
        if let Some(judged) = self.scoped.as_mut().map(|scoped| scoped.judge_until(u64::MAX)) {
            self.write_all(&judged);
        }
    }

    fn out_of_scope(&self) -> u64 {
        self.scoped.as_ref().map_or(0, |scoped| scoped.outside)
    }

    /// Requests last: one in the file then has its merged bios and what it waited for in the file, even after a kill.
    fn streams(&mut self) -> Vec<&mut dyn Stream> {
        vec![&mut self.merges, &mut self.carriers, &mut self.blocks]
    }

    fn notes(&self) -> Vec<(&'static str, u64)> {
        let competing = self.scoped.as_ref().map(|scoped| ("competing", scoped.competing));
        [("joined", self.joined)].into_iter().chain(competing).collect()
    }
}

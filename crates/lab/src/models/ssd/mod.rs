//! A flash drive: channels and dies, a mapping with garbage collection, a write buffer, firmware pauses.
//!
//! * A read senses its pages on their dies, all at once; each die does one thing at a time, and a read goes
//!   before programs that wait and interrupts the running one. Then the page crosses its channel and the link
//!   to the host.
//! * A write is complete when it is in the buffer. The buffer gives its units to the dies; when it is full,
//!   writes wait until a program has ended: that is the sustained rate.
//! * Garbage collection runs with the host's programs on the same die, as fast as blocks are needed (see
//!   `mapping`); what it does to other commands is queueing on the dies, not a constant.
//! * Controller, channels and link are served in the order of arrival, whatever the dies do meanwhile.
//!
//! Not modelled: wear, a single-level-cell cache, thermal throttling, mapping in host memory. Use a fault for
//! those. After Agrawal et al., "Design tradeoffs for SSD performance", USENIX ATC 2008.

mod mapping;
mod parameters;
#[cfg(test)]
mod tests;

use super::ParameterError;
use crate::component::{Command, DriveModel, Note, Service};
use case::schema::Op;
pub use mapping::Written;
use mapping::{Mapping, Work};
pub use parameters::SsdParameters;
use parameters::UNIT_BYTES;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use workload::rng::Rng;

/// A flash drive in virtual time.
#[derive(Clone, Debug)]
pub struct Ssd {
    parameters: SsdParameters,
    mapping: Mapping,
    rng: Rng,
    dies: Vec<Die>,
    channels: Vec<Line>,
    link_in: Line,
    link_out: Line,
    controller: Line,
    buffer: Buffer,
    /// The next firmware pause begins then, and the current one ends then.
    pause_begin_ns: u64,
    pause_end_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Die {
    /// Programs and erases given to it end then.
    programs_end_ns: u64,
    /// The part of them that is garbage collection ends then.
    gc_end_ns: u64,
    /// Reads given to it end then.
    reads_end_ns: u64,
}

/// Something that serves one at a time, in order of arrival.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    free_ns: u64,
}

impl Line {
    /// Nanoseconds that something of `ns` takes when it comes at `now_ns`, waiting included.
    #[inline]
    fn pass(&mut self, now_ns: u64, ns: u64) -> u64 {
        self.free_ns = self.free_ns.max(now_ns) + ns;
        self.free_ns - now_ns
    }
}

/// Units that wait to be programmed.
#[derive(Clone, Debug, Default)]
struct Buffer {
    units: u64,
    /// When programs end, and how many units each frees.
    programs: BinaryHeap<Reverse<(u64, u32)>>,
    /// Writes are admitted in order.
    admitted_ns: u64,
}

impl Ssd {
    /// A drive filled and overwritten as its parameters say.
    pub fn new(parameters: SsdParameters, rng: Rng) -> Result<Ssd, ParameterError> {
        parameters.check()?;
        let mut ssd = Ssd {
            mapping: Mapping::new(&parameters),
            rng,
            dies: vec![Die::default(); parameters.dies() as usize],
            channels: vec![Line::default(); parameters.channels as usize],
            link_in: Line::default(),
            link_out: Line::default(),
            controller: Line::default(),
            buffer: Buffer::default(),
            pause_begin_ns: u64::MAX,
            pause_end_ns: 0,
            parameters,
        };
        ssd.precondition();
        if ssd.parameters.hiccup_every_ns > 0.0 {
            ssd.pause_begin_ns = ssd.until_next_pause();
        }
        Ok(ssd)
    }

    /// Host and garbage-collection writes since the drive was made.
    pub fn written(&self) -> Written {
        self.mapping.written
    }

    fn precondition(&mut self) {
        let filled = (self.parameters.logical_units() as f64 * self.parameters.filled) as u64;
        let overwrites = (filled as f64 * self.parameters.overwritten) as u64;
        for i in 0..filled + overwrites {
            let unit = if i < filled { i } else { self.rng.below(filled) };
            if let (die, true) = self.mapping.write(unit) {
                self.mapping.collect(die);
            }
        }
        self.mapping.written = Written::default();
    }

    fn until_next_pause(&mut self) -> u64 {
        (self.parameters.hiccup_every_ns * self.rng.exponential()) as u64 + 1
    }

    /// When the firmware has taken the command in.
    fn begin(&mut self, now_ns: u64) -> u64 {
        while self.pause_begin_ns <= now_ns {
            self.pause_end_ns = self.pause_begin_ns + self.parameters.hiccup.sample(&mut self.rng);
            self.pause_begin_ns = self.pause_end_ns.saturating_add(self.until_next_pause());
        }
        let start_ns = now_ns.max(self.pause_end_ns);
        let gap_ns = (1e9 / self.parameters.commands_per_s) as u64;
        start_ns + self.controller.pass(start_ns, gap_ns) - gap_ns + self.parameters.command_ns as u64
    }

    /// Senses one page, `units` of which are wanted; when they have crossed the channel, and what they waited
    /// for.
    fn read_page(&mut self, at_ns: u64, die: usize, units: u32) -> (u64, Note) {
        let sense_ns = self.parameters.read_page.sample(&mut self.rng);
        let state = &mut self.dies[die];
        let program_ns = state
            .programs_end_ns
            .min(at_ns + self.parameters.suspend_ns as u64);
        let start_ns = at_ns.max(state.reads_end_ns).max(program_ns);
        let note = if program_ns > at_ns && state.gc_end_ns > at_ns {
            Note::GarbageCollection
        } else {
            Note::None
        };
        state.reads_end_ns = start_ns + sense_ns;
        if state.programs_end_ns > start_ns {
            state.programs_end_ns += sense_ns;
        }
        let crossing_ns = self.cross_channel(at_ns, die, units);
        (start_ns + sense_ns + crossing_ns, note)
    }

    fn cross_channel(&mut self, at_ns: u64, die: usize, units: u32) -> u64 {
        let ns = f64::from(units) * UNIT_BYTES as f64 * 1e9 / self.parameters.channel_bytes_per_s;
        let channel = die % self.channels.len();
        self.channels[channel].pass(at_ns, ns as u64)
    }

    fn link_ns(&self, size_bytes: u32) -> u64 {
        (f64::from(size_bytes) * 1e9 / self.parameters.link_bytes_per_s) as u64
    }

    /// Whether flash unit `flash` is not yet programmed, so that the buffer still has it.
    fn is_buffered(&self, at_ns: u64, flash: u32, die: usize) -> bool {
        let Some(newer) = self.mapping.newer_in_block(flash) else {
            return false;
        };
        let program_ns = self.parameters.program.mean_ns().max(1.0);
        let waiting_ns = self.dies[die].programs_end_ns.saturating_sub(at_ns) as f64;
        let waiting_programs = (waiting_ns / program_ns).ceil() as u32;
        newer <= (waiting_programs + 1) * self.parameters.program_units()
    }

    fn read(&mut self, now_ns: u64, command: &Command) -> Service {
        let at_ns = self.begin(now_ns);
        let (first, end) = units(command);
        let (mut done_ns, mut note) = (at_ns, Note::None);
        let (mut page, mut wanted, mut flash_reads) = (None, 0, 0);
        // One more round than units: the last page is sensed when another would begin.
        for unit in first..=end {
            let flash = if unit < end { self.mapping.find(unit) } else { None };
            let next = flash.map(|flash| (flash / self.parameters.page_units(), self.mapping.die(flash)));
            if next != page {
                if let Some((_, die)) = page {
                    let (page_ns, why) = self.read_page(at_ns, die, wanted);
                    done_ns = done_ns.max(page_ns);
                    note = if why == Note::None { note } else { why };
                    flash_reads += 1;
                }
                let buffered = flash
                    .zip(next)
                    .is_some_and(|(flash, (_, die))| self.is_buffered(at_ns, flash, die));
                page = if buffered { None } else { next };
                wanted = 0;
            }
            wanted += 1;
        }
        if flash_reads == 0 {
            note = Note::Buffered;
        }
        done_ns += self.link_out.pass(at_ns, self.link_ns(command.size_bytes));
        Service {
            done_ns,
            free_ns: now_ns,
            note,
        }
    }

    fn write(&mut self, now_ns: u64, command: &Command) -> Service {
        let at_ns = self.begin(now_ns);
        let arrived_ns = at_ns + self.link_in.pass(at_ns, self.link_ns(command.size_bytes));
        let mut admitted_ns = arrived_ns.max(self.buffer.admitted_ns);
        let mut note = if admitted_ns > arrived_ns {
            Note::BufferFull
        } else {
            Note::Buffered
        };
        let (first, end) = units(command);
        for unit in first..end {
            if let Some(freed_ns) = self.make_room() {
                if freed_ns > admitted_ns {
                    admitted_ns = freed_ns;
                    note = Note::BufferFull;
                }
            }
            self.buffer.units += 1;
            if let (die, true) = self.mapping.write(unit) {
                self.program(die, admitted_ns);
            }
        }
        self.buffer.admitted_ns = admitted_ns;
        let done_ns = admitted_ns + self.parameters.buffer_ns as u64;
        Service {
            done_ns,
            free_ns: now_ns,
            note,
        }
    }

    /// Frees buffer space if there is none; when that space was free.
    fn make_room(&mut self) -> Option<u64> {
        if self.buffer.units < self.parameters.buffer_bytes / UNIT_BYTES {
            return None;
        }
        let Reverse((end_ns, units)) = self.buffer.programs.pop()?;
        self.buffer.units -= u64::from(units);
        Some(end_ns)
    }

    /// Gives a full program unit to `die`, with the garbage collection that goes with it.
    fn program(&mut self, die: usize, at_ns: u64) {
        let work = self.mapping.collect(die);
        let gc_ns = self.gc_ns(work);
        let units = self.parameters.program_units();
        let crossing_ns = self.cross_channel(at_ns, die, units);
        let program_ns = self.parameters.program.sample(&mut self.rng);
        let state = &mut self.dies[die];
        let free_ns = state
            .programs_end_ns
            .max(at_ns + crossing_ns)
            .max(state.reads_end_ns);
        if gc_ns > 0 {
            state.gc_end_ns = free_ns + gc_ns;
        }
        state.programs_end_ns = free_ns + gc_ns + program_ns;
        self.buffer.programs.push(Reverse((state.programs_end_ns, units)));
    }

    /// Collected data stay on their die, so they cross no channel.
    fn gc_ns(&self, work: Work) -> u64 {
        if work == Work::default() {
            return 0;
        }
        let p = &self.parameters;
        let reads_ns = f64::from(work.page_reads) * p.read_page.mean_ns();
        let programs_ns = f64::from(work.programs) * p.program.mean_ns();
        (reads_ns + programs_ns + f64::from(work.erases) * p.erase_ns) as u64
    }

    fn flush(&mut self, now_ns: u64) -> Service {
        let mut done_ns = self.begin(now_ns);
        if !self.parameters.power_loss_protection {
            let programmed_ns = self.dies.iter().map(|die| die.programs_end_ns).max().unwrap_or(0);
            let rest = !self
                .buffer
                .units
                .is_multiple_of(u64::from(self.parameters.program_units()));
            let rest_ns = if rest {
                self.parameters.program.sample(&mut self.rng)
            } else {
                0
            };
            done_ns = done_ns.max(programmed_ns) + rest_ns;
        }
        Service {
            done_ns,
            free_ns: now_ns,
            note: Note::None,
        }
    }

    fn discard(&mut self, now_ns: u64, command: &Command) -> Service {
        let done_ns = self.begin(now_ns);
        let (first, end) = units(command);
        (first..end).for_each(|unit| self.mapping.discard(unit));
        Service {
            done_ns,
            free_ns: now_ns,
            note: Note::None,
        }
    }
}

/// Units a command touches: first, and the one after the last.
fn units(command: &Command) -> (u64, u64) {
    let end_byte = command.offset_bytes + u64::from(command.size_bytes);
    (command.offset_bytes / UNIT_BYTES, end_byte.div_ceil(UNIT_BYTES))
}

impl DriveModel for Ssd {
    fn size_bytes(&self) -> u64 {
        self.parameters.size_bytes
    }

    fn rotational(&self) -> bool {
        false
    }

    fn slots(&self) -> usize {
        self.parameters.queue_slots
    }

    fn serve(&mut self, now_ns: u64, command: &Command) -> Service {
        match command.op {
            Op::Write => self.write(now_ns, command),
            Op::Flush | Op::Sync => self.flush(now_ns),
            Op::Discard => self.discard(now_ns, command),
            _ => self.read(now_ns, command),
        }
    }
}

//! What a flash drive is made of.
use crate::models::distribution::Distribution;
use crate::models::{require, ParameterError};

/// A flash drive. Times in nanoseconds, rates in bytes per second.
#[derive(Clone, Debug, PartialEq)]
pub struct SsdParameters {
    /// Capacity the host sees, 64 MiB to 4 TiB. The mapping takes 9 bytes of memory per 4 KiB of it: a
    /// scenario that uses 64 GiB of a drive models a drive of 64 GiB.
    pub size_bytes: u64,
    /// Flash beyond that, as a part of it, 0.02 to 4.
    pub over_provisioning: f64,
    /// Channels, 1 to 64.
    pub channels: u32,
    /// Dies per channel, 1 to 64.
    pub dies_per_channel: u32,
    /// Read unit of a die, a multiple of 4 KiB up to 64 KiB; what follows it in the address space lies on the
    /// next die.
    pub page_bytes: u32,
    /// Pages a die programs at once (planes), 1 to 8.
    pub planes: u32,
    /// Pages of an erase block over all planes, a multiple of `planes`, 8 to 65,536.
    pub block_pages: u32,
    /// Sensing a page.
    pub read_page: Distribution,
    /// Programming all planes.
    pub program: Distribution,
    /// Erasing a block, 0 to 1e9.
    pub erase_ns: f64,
    /// A read interrupts a program or an erase after this time, 0 to 1e9; it waits for its end if that is
    /// sooner.
    pub suspend_ns: f64,
    /// One channel.
    pub channel_bytes_per_s: f64,
    /// The link to the host.
    pub link_bytes_per_s: f64,
    /// Fixed part of every command: firmware, doorbells, completion. 0 to 1e7.
    pub command_ns: f64,
    /// Commands per second the controller can take, 1e3 to 1e8.
    pub commands_per_s: f64,
    /// Most commands inside the drive at once, 1 to 65,536: 32 with NCQ.
    pub queue_slots: usize,
    /// Taking a write into the buffer, 0 to 1e7.
    pub buffer_ns: f64,
    /// Data the write buffer holds until they are programmed, at least one program unit per die.
    pub buffer_bytes: u64,
    /// Whether capacitors protect the buffer: then a flush is free.
    pub power_loss_protection: bool,
    /// Free blocks per die below which garbage collection works, 2 to 64.
    pub gc_free_blocks: u32,
    /// Mean time between firmware pauses, exponentially distributed; 0 = none.
    pub hiccup_every_ns: f64,
    /// How long the whole drive pauses then.
    pub hiccup: Distribution,
    /// Part of the capacity that holds data at the beginning, written in order, 0 to 1.
    pub filled: f64,
    /// Random overwrites after that, as a multiple of the filled part, 0 to 10: 2 is near the steady state.
    pub overwritten: f64,
}

/// Unit of the mapping.
pub(super) const UNIT_BYTES: u64 = 4096;

impl SsdParameters {
    /// Intel SSD DC P4500 2.0 TB, as much of it as `size_bytes` (the rates are those of the whole drive).
    /// From its product guide: 490,000 reads and 38,000 writes of 4 KiB per second, 3.2 and 1.05 GB/s, 85 us
    /// per random read and 20 us per random write. Flash times are typical of its TLC generation. Blocks are
    /// a quarter of real ones, and so is the time to erase one: a scaled-down drive keeps enough of them.
    /// `over_provisioning` is calibrated on the random writes, `program` on the sequential ones, `read_page`
    /// on the random reads.
    pub fn p4500(size_bytes: u64) -> SsdParameters {
        SsdParameters {
            size_bytes,
            over_provisioning: 0.108,
            channels: 12,
            dies_per_channel: 4,
            page_bytes: 16 << 10,
            planes: 2,
            block_pages: 64,
            read_page: Distribution::Lognormal {
                median_ns: 66_000.0,
                sigma: 0.08,
            },
            program: Distribution::Lognormal {
                median_ns: 1_480_000.0,
                sigma: 0.1,
            },
            erase_ns: 1.5e6,
            suspend_ns: 200_000.0,
            channel_bytes_per_s: 400e6,
            link_bytes_per_s: 3.2e9,
            command_ns: 7_000.0,
            commands_per_s: 490_000.0,
            queue_slots: 1023,
            buffer_ns: 12_000.0,
            buffer_bytes: 16 << 20,
            power_loss_protection: true,
            gc_free_blocks: 3,
            hiccup_every_ns: 0.0,
            hiccup: Distribution::Constant { ns: 20e6 },
            filled: 1.0,
            overwritten: 0.0,
        }
    }

    /// A flash drive for clients behind SATA 6 Gb/s: what the link and NCQ allow, four channels of two dies, no capacitors. Typical of
    /// data sheets (some 95,000 reads of 4 KiB per second, 550 and 500 MB/s), no particular one.
    pub fn sata(size_bytes: u64) -> SsdParameters {
        SsdParameters {
            channels: 4,
            dies_per_channel: 2,
            link_bytes_per_s: 550e6,
            command_ns: 15_000.0,
            commands_per_s: 95_000.0,
            queue_slots: 32,
            power_loss_protection: false,
            ..SsdParameters::p4500(size_bytes)
        }
    }

    /// Dies of the whole drive.
    pub fn dies(&self) -> u32 {
        self.channels * self.dies_per_channel
    }

    /// Units a die programs at once.
    pub(super) fn program_units(&self) -> u32 {
        self.page_units() * self.planes
    }

    pub(super) fn page_units(&self) -> u32 {
        self.page_bytes / UNIT_BYTES as u32
    }

    pub(super) fn block_units(&self) -> u32 {
        self.page_units() * self.block_pages
    }

    /// Units the host sees.
    pub(super) fn logical_units(&self) -> u64 {
        self.size_bytes / UNIT_BYTES
    }

    /// Blocks of each die: the capacity and the over-provisioning, and at least what garbage collection needs
    /// to work.
    pub(super) fn blocks_per_die(&self) -> u32 {
        let blocks =
            |units: f64| (units / f64::from(self.dies()) / f64::from(self.block_units())).ceil() as u32;
        let logical = self.logical_units() as f64;
        blocks(logical * (1.0 + self.over_provisioning)).max(blocks(logical) + self.gc_free_blocks + 3)
    }

    /// Refuses what no drive has.
    pub fn check(&self) -> Result<(), ParameterError> {
        let within = |key, expected, value: f64, low: f64, high: f64| {
            require((low..=high).contains(&value), key, expected, value)
        };
        within(
            "size_bytes",
            "64 MiB to 4 TiB",
            self.size_bytes as f64,
            (1u64 << 26) as f64,
            (1u64 << 42) as f64,
        )?;
        within(
            "over_provisioning",
            "0.02 to 4",
            self.over_provisioning,
            0.02,
            4.0,
        )?;
        within("channels", "1 to 64", f64::from(self.channels), 1.0, 64.0)?;
        within(
            "dies_per_channel",
            "1 to 64",
            f64::from(self.dies_per_channel),
            1.0,
            64.0,
        )?;
        let page = u64::from(self.page_bytes);
        let legal = page.is_multiple_of(UNIT_BYTES) && (UNIT_BYTES..=65_536).contains(&page);
        require(legal, "page_bytes", "a multiple of 4 KiB up to 64 KiB", page)?;
        within("planes", "1 to 8", f64::from(self.planes), 1.0, 8.0)?;
        let legal = self.block_pages.is_multiple_of(self.planes) && (8..=65_536).contains(&self.block_pages);
        require(
            legal,
            "block_pages",
            "a multiple of planes, 8 to 65536",
            self.block_pages,
        )?;
        within("erase_ns", "0 to 1e9 ns", self.erase_ns, 0.0, 1e9)?;
        within("suspend_ns", "0 to 1e9 ns", self.suspend_ns, 0.0, 1e9)?;
        within(
            "channel_bytes_per_s",
            "1e6 to 1e11",
            self.channel_bytes_per_s,
            1e6,
            1e11,
        )?;
        within(
            "link_bytes_per_s",
            "1e6 to 1e12",
            self.link_bytes_per_s,
            1e6,
            1e12,
        )?;
        within("command_ns", "0 to 1e7 ns", self.command_ns, 0.0, 1e7)?;
        within("commands_per_s", "1e3 to 1e8", self.commands_per_s, 1e3, 1e8)?;
        within(
            "queue_slots",
            "1 to 65536",
            self.queue_slots as f64,
            1.0,
            65_536.0,
        )?;
        within("buffer_ns", "0 to 1e7 ns", self.buffer_ns, 0.0, 1e7)?;
        let least = u64::from(self.program_units()) * UNIT_BYTES * u64::from(self.dies());
        let expected = "at least one program unit per die, at most 64 GiB";
        require(
            (least..=1 << 36).contains(&self.buffer_bytes),
            "buffer_bytes",
            expected,
            self.buffer_bytes,
        )?;
        within(
            "gc_free_blocks",
            "2 to 64",
            f64::from(self.gc_free_blocks),
            2.0,
            64.0,
        )?;
        within("hiccup_every_ns", "0 to 1e15 ns", self.hiccup_every_ns, 0.0, 1e15)?;
        within("filled", "0 to 1", self.filled, 0.0, 1.0)?;
        within("overwritten", "0 to 10", self.overwritten, 0.0, 10.0)?;
        let blocks = f64::from(self.blocks_per_die());
        let expected = "at least 8 blocks per die: smaller blocks, fewer dies or more capacity";
        within("block_pages", expected, blocks, 8.0, 1e9)?;
        let units = self.blocks_per_die() as u64 * u64::from(self.block_units()) * u64::from(self.dies());
        require(
            units < u64::from(u32::MAX),
            "size_bytes",
            "less than 2^32 flash units of 4 KiB",
            units,
        )?;
        [&self.read_page, &self.program, &self.hiccup]
            .into_iter()
            .try_for_each(Distribution::check)
    }
}

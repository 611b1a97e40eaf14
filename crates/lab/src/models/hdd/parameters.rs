//! What a disk is made of.
use crate::models::{require, ParameterError};

/// A disk. Times in nanoseconds, rates in bytes per second.
#[derive(Clone, Debug, PartialEq)]
pub struct HddParameters {
    /// Capacity, 1 GiB to 64 TiB.
    pub size_bytes: u64,
    /// Turns per minute, 3,600 to 15,000.
    pub turns_per_minute: f64,
    /// Recording surfaces, 1 to 24.
    pub heads: u32,
    /// Zones of equal track length, 1 to 1,000.
    pub zones: u32,
    /// Sustained media rate at the outer edge, 1e6 to 1e9.
    pub outer_bytes_per_s: f64,
    /// Sustained media rate at the inner edge, at most the outer one.
    pub inner_bytes_per_s: f64,
    /// Moving by one track and settling, 1e5 to 1e7. Also the time to switch heads.
    pub track_to_track_ns: f64,
    /// Moving from edge to edge and settling, up to 1e8.
    pub full_stroke_ns: f64,
    /// A seek over the part `d` of the full stroke takes `track_to_track + (full_stroke - track_to_track)
    /// d^exponent`: 0.5 for an arm that accelerates and brakes all the way, towards 1 for one that mostly
    /// coasts. 0.1 to 1.
    pub seek_exponent: f64,
    /// Further settling before a write, 0 to 1e7: a write must be on track, a read may try early.
    pub write_settle_ns: f64,
    /// The drive's own work on a command that finds it idle, 0 to 1e7. Later commands overlap with it.
    pub command_ns: f64,
    /// Rate of the link to the host, 1e7 to 1e10.
    pub link_bytes_per_s: f64,
    /// Commands the drive may reorder, 1 to 256; 1 = no native command queueing.
    pub queue_slots: usize,
    /// How far into the queue the firmware looks when it picks the next command, 1 to `queue_slots`.
    pub reorder_window: usize,
    /// The oldest command is taken at the latest after this many others went before it, 1 to 10,000.
    pub passes_max: u32,
    /// Data the drive reads on behind a read, 0 to 1e9; a sequential read is served from there.
    pub read_on_bytes: u64,
    /// Data written that the drive may hold back, 0 to 1e9; 0 = the write cache is off.
    pub write_cache_bytes: u64,
    /// Commands the write cache holds, 1 to 4,096.
    pub write_cache_commands: usize,
}

impl HddParameters {
    /// A nearline disk of 7,200 turns per minute: 8.1 ms mean seek, 4.17 ms mean rotation, 200 MB/s outside;
    /// a random 256 KiB read takes about 14 ms when it is idle. Shape after common data sheets of 4 TB
    /// drives.
    pub fn nearline_7200() -> HddParameters {
        HddParameters {
            size_bytes: 4_000_000_000_000,
            turns_per_minute: 7_200.0,
            heads: 8,
            zones: 24,
            outer_bytes_per_s: 210e6,
            inner_bytes_per_s: 100e6,
            track_to_track_ns: 1.0e6,
            full_stroke_ns: 14.3e6,
            seek_exponent: 0.5,
            write_settle_ns: 0.5e6,
            command_ns: 0.1e6,
            link_bytes_per_s: 550e6,
            queue_slots: 32,
            reorder_window: 32,
            passes_max: 200,
            read_on_bytes: 4 << 20,
            write_cache_bytes: 0,
            write_cache_commands: 256,
        }
    }

    /// Seagate ST2000DM006 (2 TB desktop, 7,200 turns per minute). From the data sheet: capacity, speed, 64
    /// MB cache, track to track 1 ms, 220 MB/s at most and 156 MB/s on average, SATA 6 Gb/s. Calibrated on
    /// published measurements of one drive, 4 KiB random reads over the whole disk: `full_stroke_ns` on 17.2
    /// to 17.8 ms at depth 1, `reorder_window` on 94 IOPS at depth 32.
    pub fn st2000dm006() -> HddParameters {
        HddParameters {
            size_bytes: 2_000_398_934_016,
            heads: 4,
            outer_bytes_per_s: 220e6,
            inner_bytes_per_s: 92e6,
            full_stroke_ns: 24.0e6,
            reorder_window: 7,
            write_cache_bytes: 32 << 20,
            ..HddParameters::nearline_7200()
        }
    }

    /// Nanoseconds per turn.
    pub fn turn_ns(&self) -> f64 {
        60e9 / self.turns_per_minute
    }

    /// Refuses what no disk has.
    pub fn check(&self) -> Result<(), ParameterError> {
        let within = |key, expected, value: f64, low: f64, high: f64| {
            require((low..=high).contains(&value), key, expected, value)
        };
        within(
            "size_bytes",
            "1 GiB to 64 TiB",
            self.size_bytes as f64,
            (1u64 << 30) as f64,
            (1u64 << 46) as f64,
        )?;
        within(
            "turns_per_minute",
            "3600 to 15000",
            self.turns_per_minute,
            3600.0,
            15000.0,
        )?;
        within("heads", "1 to 24", f64::from(self.heads), 1.0, 24.0)?;
        within("zones", "1 to 1000", f64::from(self.zones), 1.0, 1000.0)?;
        within(
            "outer_bytes_per_s",
            "1e6 to 1e9",
            self.outer_bytes_per_s,
            1e6,
            1e9,
        )?;
        let outer = self.outer_bytes_per_s;
        within(
            "inner_bytes_per_s",
            "1e6 to outer_bytes_per_s",
            self.inner_bytes_per_s,
            1e6,
            outer,
        )?;
        within(
            "track_to_track_ns",
            "1e5 to 1e7 ns",
            self.track_to_track_ns,
            1e5,
            1e7,
        )?;
        let shortest = self.track_to_track_ns;
        within(
            "full_stroke_ns",
            "track_to_track_ns to 1e8 ns",
            self.full_stroke_ns,
            shortest,
            1e8,
        )?;
        within("seek_exponent", "0.1 to 1", self.seek_exponent, 0.1, 1.0)?;
        within("write_settle_ns", "0 to 1e7 ns", self.write_settle_ns, 0.0, 1e7)?;
        within("command_ns", "0 to 1e7 ns", self.command_ns, 0.0, 1e7)?;
        within(
            "link_bytes_per_s",
            "1e7 to 1e10",
            self.link_bytes_per_s,
            1e7,
            1e10,
        )?;
        within("queue_slots", "1 to 256", self.queue_slots as f64, 1.0, 256.0)?;
        within(
            "reorder_window",
            "1 to queue_slots",
            self.reorder_window as f64,
            1.0,
            self.queue_slots as f64,
        )?;
        within("passes_max", "1 to 10000", f64::from(self.passes_max), 1.0, 1e4)?;
        within("read_on_bytes", "0 to 1e9", self.read_on_bytes as f64, 0.0, 1e9)?;
        within(
            "write_cache_bytes",
            "0 to 1e9",
            self.write_cache_bytes as f64,
            0.0,
            1e9,
        )?;
        within(
            "write_cache_commands",
            "1 to 4096",
            self.write_cache_commands as f64,
            1.0,
            4096.0,
        )
    }
}

//! Where a byte lies on the platters: zones, tracks, angles; and how far the arm has to go.

/// One zone: tracks that hold the same number of bytes.
#[derive(Clone, Debug)]
struct Zone {
    first_byte: u64,
    first_track: u64,
    track_bytes: u64,
}

/// Tracks from the outer edge (byte 0, fastest) to the inner one. Consecutive tracks of one cylinder lie
/// under different heads.
#[derive(Clone, Debug)]
pub(super) struct Geometry {
    zones: Vec<Zone>,
    cylinders: f64,
    heads: u64,
    /// Each track begins this part of a turn later than the one before, so that reading on costs a switch and
    /// not a turn.
    skew_turns: f64,
}

/// Place of a byte.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    pub byte: u64,
    pub track: u64,
    /// The tracks that the arm reaches without moving.
    pub cylinder: u64,
    /// Where on the platter, in turns, 0 to 1.
    pub angle: f64,
    /// Bytes from here to the end of the track.
    pub left_bytes: u64,
    /// Bytes of the whole track.
    pub track_bytes: u64,
}

impl Geometry {
    /// `outer` and `inner`: bytes per turn at either edge.
    pub fn new(size_bytes: u64, zones: u32, heads: u32, outer: f64, inner: f64, skew_turns: f64) -> Geometry {
        let tracks_per_zone = (size_bytes as f64 / ((outer + inner) / 2.0) / f64::from(zones)).ceil() as u64;
        let mut list = Vec::new();
        let (mut first_byte, mut first_track) = (0, 0);
        for zone in 0..zones {
            let part = (f64::from(zone) + 0.5) / f64::from(zones);
            // Whole sectors of 4096 bytes; the last zone's unused rest is the drive's spare area.
            let track_bytes = ((outer + (inner - outer) * part) as u64 / 4096 + 1) * 4096;
            list.push(Zone {
                first_byte,
                first_track,
                track_bytes,
            });
            first_byte += track_bytes * tracks_per_zone;
            first_track += tracks_per_zone;
        }
        Geometry {
            zones: list,
            cylinders: (first_track / u64::from(heads)).max(1) as f64,
            heads: u64::from(heads),
            skew_turns,
        }
    }

    /// Where `byte` is.
    pub fn place(&self, byte: u64) -> Place {
        let zone = &self.zones[self.zones.partition_point(|zone| zone.first_byte <= byte) - 1];
        let inside = byte - zone.first_byte;
        let track = zone.first_track + inside / zone.track_bytes;
        let on_track = inside % zone.track_bytes;
        let turns = on_track as f64 / zone.track_bytes as f64 + track as f64 * self.skew_turns;
        let left_bytes = zone.track_bytes - on_track;
        Place {
            byte,
            track,
            cylinder: self.cylinder(track),
            angle: turns - (turns as u64) as f64,
            left_bytes,
            track_bytes: zone.track_bytes,
        }
    }

    /// Cylinders between the edges.
    pub fn cylinders(&self) -> f64 {
        self.cylinders
    }

    /// Where the arm is for a track.
    pub fn cylinder(&self, track: u64) -> u64 {
        track / self.heads
    }

    /// The way of the arm between two cylinders, as a part of its full stroke, 0 to 1.
    pub fn stroke(&self, from: u64, to: u64) -> f64 {
        from.abs_diff(to) as f64 / self.cylinders
    }
}

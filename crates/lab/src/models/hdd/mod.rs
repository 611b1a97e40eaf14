//! A disk: one arm, platters that never stop, zones, a write cache, native command queueing.
//!
//! The platter's angle follows from virtual time alone, so a command waits for the true position of its first
//! sector, and picking the next of several commands by the shortest way (seek plus rotation) pays as much as
//! it does in reality. Seek and rotation after Ruemmler and Wilkes, "An introduction to disk drive modeling",
//! IEEE Computer 1994.
//!
//! * A read that continues behind the last one is served at media speed by what the drive read on meanwhile.
//! * With the write cache on, a write is complete once it is in the cache; the drive writes it out when it is
//!   idle, nearest first, and a command that comes meanwhile waits until that one write is done. A full cache
//!   makes writes wait.
//! * Not modelled: remapped sectors, retries, shingles, thermal recalibration. Use a fault for those.

mod geometry;
mod parameters;
#[cfg(test)]
mod tests;

use super::ParameterError;
use crate::component::{Command, DriveModel, Note, Service};
use case::schema::Op;
use geometry::{Geometry, Place};
pub use parameters::HddParameters;

/// Parts of the full stroke for which the shortest seek is kept.
const SEEK_PARTS: usize = 1024;
/// A sector that passed this little ago is still there.
const PASSING_TURNS: f64 = 1e-6;

/// A disk in virtual time.
#[derive(Clone, Debug)]
pub struct Hdd {
    parameters: HddParameters,
    geometry: Geometry,
    turn_ns: f64,
    turns_per_ns: f64,
    /// From the end of a track to the begin of the next, which is laid out that far behind.
    switch_ns: f64,
    /// The track under the head, and its cylinder.
    track: u64,
    cylinder: u64,
    /// Per part of the full stroke: no longer way takes less time.
    seeks_at_least_ns: Vec<f64>,
    seek_parts_per_cylinder: f64,
    /// Arm and head are ready for another command from here on.
    ready_ns: u64,
    /// What the last read left streaming into the drive's buffer.
    stream: Option<Stream>,
    /// Written, in the cache, not yet on the platter; in order of arrival.
    dirty: Vec<Command>,
    dirty_bytes: u64,
    /// Places of the first of `dirty` and of the first waiting commands, as far as they are known.
    dirty_places: Vec<Place>,
    waiting_places: Vec<Place>,
    /// The nearest command of the last choice, until the arm moves.
    chosen: Option<Nearest>,
    /// Commands chosen so far, and how many they were when each waiting one was first seen.
    choices: u64,
    seen_at_choice: Vec<u64>,
}

/// The head stays where a read ended and goes on reading.
#[derive(Clone, Copy, Debug)]
struct Stream {
    next_byte: u64,
    since_ns: u64,
}

/// A command that can begin soonest when the arm starts at `from_ns`.
#[derive(Clone, Copy, Debug)]
struct Nearest {
    index: usize,
    op: Op,
    place: Place,
    from_ns: u64,
    /// Until its first sector is under the head.
    position_ns: f64,
}

/// How a mechanical access goes.
struct Access {
    end_ns: u64,
    track: u64,
}

impl Hdd {
    /// A disk with its arm at the outer edge and an empty cache.
    pub fn new(parameters: HddParameters) -> Result<Hdd, ParameterError> {
        parameters.check()?;
        let turn_ns = parameters.turn_ns();
        let slowest_track = parameters.inner_bytes_per_s * turn_ns / 1e9;
        let cylinders = parameters.size_bytes as f64 / slowest_track / f64::from(parameters.heads);
        let one_step = (parameters.full_stroke_ns - parameters.track_to_track_ns)
            * (2.0 / cylinders).powf(parameters.seek_exponent);
        let switch_ns = parameters.track_to_track_ns + one_step + parameters.write_settle_ns;
        // The stated rates are sustained ones: they hold with the switch after each track.
        let per_turn = |rate: f64| rate * (turn_ns + switch_ns) / 1e9;
        let geometry = Geometry::new(
            parameters.size_bytes,
            parameters.zones,
            parameters.heads,
            per_turn(parameters.outer_bytes_per_s),
            per_turn(parameters.inner_bytes_per_s),
            switch_ns / turn_ns,
        );
        let seeks_at_least_ns = (0..=SEEK_PARTS)
            .map(|part| way_ns(&parameters, part as f64 / SEEK_PARTS as f64))
            .collect();
        let seek_parts_per_cylinder = SEEK_PARTS as f64 / geometry.cylinders();
        Ok(Hdd {
            parameters,
            geometry,
            turn_ns,
            switch_ns,
            track: 0,
            cylinder: 0,
            seeks_at_least_ns,
            seek_parts_per_cylinder,
            turns_per_ns: 1.0 / turn_ns,
            ready_ns: 0,
            stream: None,
            dirty: Vec::new(),
            dirty_bytes: 0,
            dirty_places: Vec::new(),
            waiting_places: Vec::new(),
            chosen: None,
            choices: 0,
            seen_at_choice: Vec::new(),
        })
    }

    /// Bytes in the write cache that are not on the platter.
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes
    }

    fn move_to(&mut self, track: u64) {
        (self.track, self.cylinder) = (track, self.geometry.cylinder(track));
        self.chosen = None;
    }

    fn settle_ns(&self, op: Op) -> f64 {
        if op == Op::Write {
            self.parameters.write_settle_ns
        } else {
            0.0
        }
    }

    /// Time of the arm from where it is to `place`, settled.
    fn seek_ns(&self, place: &Place, op: Op) -> f64 {
        if place.track == self.track {
            return 0.0;
        }
        let stroke = self.geometry.stroke(self.cylinder, place.cylinder);
        way_ns(&self.parameters, stroke) + self.settle_ns(op)
    }

    /// Nanoseconds from `from_ns` until the first sector at `place` is under the head.
    fn position_ns(&self, from_ns: u64, place: &Place, op: Op) -> f64 {
        let seek_ns = self.seek_ns(place, op);
        let turns = (from_ns as f64 + seek_ns) / self.turn_ns;
        seek_ns + wait_turns(place.angle - turns, PASSING_TURNS) * self.turn_ns
    }

    /// A bound of [`Hdd::position_ns`] from below, with neither power nor division: an arm that is there sooner does not
    /// have to wait for a later turn. A nanosecond and twice the tolerance are for what is rounded otherwise.
    #[inline]
    fn position_at_least_ns(&self, from_ns: u64, place: &Place, op: Op) -> f64 {
        let mut seek_ns = 0.0;
        if place.track != self.track {
            let way = self.cylinder.abs_diff(place.cylinder) as f64 * self.seek_parts_per_cylinder;
            seek_ns = self.seeks_at_least_ns[way as usize] + self.settle_ns(op);
        }
        let turns = (from_ns as f64 + seek_ns) * self.turns_per_ns;
        seek_ns + wait_turns(place.angle - turns, 2.0 * PASSING_TURNS) * self.turn_ns - 1.0
    }

    /// Seek, rotation and transfer of one command that begins at `from_ns`.
    fn access(&self, from_ns: u64, command: &Command) -> Access {
        let known = self
            .chosen
            .filter(|chosen| chosen.place.byte == command.offset_bytes && chosen.op == command.op);
        let mut place = known.map_or_else(
            || self.geometry.place(command.offset_bytes),
            |chosen| chosen.place,
        );
        let mut ns = known.filter(|chosen| chosen.from_ns == from_ns).map_or_else(
            || self.position_ns(from_ns, &place, command.op),
            |chosen| chosen.position_ns,
        );
        let mut left_bytes = u64::from(command.size_bytes);
        loop {
            let here = left_bytes.min(place.left_bytes);
            ns += here as f64 / place.track_bytes as f64 * self.turn_ns;
            left_bytes -= here;
            if left_bytes == 0 {
                return Access {
                    end_ns: from_ns + ns.ceil() as u64,
                    track: place.track,
                };
            }
            place = self
                .geometry
                .place(command.offset_bytes + u64::from(command.size_bytes) - left_bytes);
            ns += self.switch_ns;
        }
    }

    /// The one of `commands`, of which there is one at least, that can begin soonest when the arm starts at `from_ns`; `places`
    /// are theirs.
    fn nearest(&self, from_ns: u64, commands: &[Command], places: &[Place]) -> Nearest {
        let mut best = (0, f64::INFINITY);
        for (index, (command, place)) in commands.iter().zip(places).enumerate() {
            if self.position_at_least_ns(from_ns, place, command.op) > best.1 {
                continue;
            }
            let ns = self.position_ns(from_ns, place, command.op);
            if ns < best.1 {
                best = (index, ns);
            }
        }
        let (index, position_ns) = best;
        Nearest {
            index,
            op: commands[index].op,
            place: places[index],
            from_ns,
            position_ns,
        }
    }

    /// Makes `places` those of `commands`. Only new ones are computed: most were there at the last choice, too.
    fn find_places(&self, commands: &[Command], places: &mut Vec<Place>) {
        places.truncate(commands.len());
        for (index, command) in commands.iter().enumerate() {
            match places.get_mut(index) {
                None => places.push(self.geometry.place(command.offset_bytes)),
                Some(known) if known.byte == command.offset_bytes => {}
                Some(stale) => *stale = self.geometry.place(command.offset_bytes),
            }
        }
    }

    fn link_ns(&self, size_bytes: u32) -> u64 {
        (f64::from(size_bytes) * 1e9 / self.parameters.link_bytes_per_s) as u64
    }

    /// Writes one dirty command out; the arm is busy until the returned time.
    fn write_out_one(&mut self) -> u64 {
        let window = self.dirty.len().min(self.parameters.write_cache_commands);
        let mut places = std::mem::take(&mut self.dirty_places);
        self.find_places(&self.dirty[..window], &mut places);
        let nearest = self.nearest(self.ready_ns, &self.dirty[..window], &places);
        self.chosen = Some(nearest);
        let command = self.dirty.remove(nearest.index);
        places.remove(nearest.index);
        self.dirty_places = places;
        let access = self.access(self.ready_ns, &command);
        self.dirty_bytes -= u64::from(command.size_bytes);
        self.stream = None;
        self.move_to(access.track);
        self.ready_ns = access.end_ns;
        access.end_ns
    }

    /// Lives through the idle time up to `now_ns`: the drive writes its cache out.
    fn catch_up(&mut self, now_ns: u64) {
        while self.ready_ns < now_ns && !self.dirty.is_empty() {
            self.write_out_one();
        }
    }

    fn read(&mut self, now_ns: u64, command: &Command) -> Service {
        let end_byte = command.offset_bytes + u64::from(command.size_bytes);
        let covers = |held: &Command| {
            held.offset_bytes <= command.offset_bytes
                && end_byte <= held.offset_bytes + u64::from(held.size_bytes)
        };
        if self.dirty.iter().any(covers) {
            let done_ns = now_ns + self.parameters.command_ns as u64 + self.link_ns(command.size_bytes);
            return Service {
                done_ns,
                free_ns: done_ns,
                note: Note::Buffered,
            };
        }
        if let Some(done_ns) = self.streamed(now_ns, command, end_byte) {
            return Service {
                done_ns,
                free_ns: done_ns,
                note: Note::Buffered,
            };
        }
        self.mechanical(now_ns, command)
    }

    /// When the stream behind the last read has delivered `command`, if it continues that read.
    fn streamed(&mut self, now_ns: u64, command: &Command, end_byte: u64) -> Option<u64> {
        let Stream { next_byte, since_ns } = self.stream?;
        let reach = next_byte + self.parameters.read_on_bytes;
        if command.offset_bytes < next_byte || end_byte > reach.min(self.parameters.size_bytes) {
            return None;
        }
        let ahead = Command {
            op: Op::Read,
            offset_bytes: next_byte,
            size_bytes: (end_byte - next_byte) as u32,
        };
        let media = self.access(since_ns, &ahead);
        let idle = now_ns > self.ready_ns;
        let begun_ns = now_ns
            + if idle {
                self.parameters.command_ns as u64
            } else {
                0
            };
        let done_ns = media.end_ns.max(begun_ns + self.link_ns(command.size_bytes));
        self.stream = Some(Stream {
            next_byte: end_byte,
            since_ns: media.end_ns,
        });
        self.move_to(media.track);
        self.ready_ns = done_ns;
        Some(done_ns)
    }

    fn mechanical(&mut self, now_ns: u64, command: &Command) -> Service {
        let idle = now_ns > self.ready_ns;
        let from_ns = now_ns.max(self.ready_ns)
            + if idle {
                self.parameters.command_ns as u64
            } else {
                0
            };
        let access = self.access(from_ns, command);
        self.move_to(access.track);
        self.ready_ns = access.end_ns;
        self.stream = (command.op == Op::Read).then_some(Stream {
            next_byte: command.offset_bytes + u64::from(command.size_bytes),
            since_ns: access.end_ns,
        });
        Service {
            done_ns: access.end_ns,
            free_ns: access.end_ns,
            note: Note::None,
        }
    }

    fn write(&mut self, now_ns: u64, command: &Command) -> Service {
        if u64::from(command.size_bytes) > self.parameters.write_cache_bytes {
            return self.mechanical(now_ns, command);
        }
        let mut admitted_ns = now_ns;
        let mut note = Note::Buffered;
        let room = self.parameters.write_cache_bytes - u64::from(command.size_bytes);
        while self.dirty_bytes > room || self.dirty.len() >= self.parameters.write_cache_commands {
            self.ready_ns = self.ready_ns.max(now_ns);
            admitted_ns = self.write_out_one();
            note = Note::BufferFull;
        }
        let done_ns = admitted_ns + self.parameters.command_ns as u64 + self.link_ns(command.size_bytes);
        if self.dirty.is_empty() {
            // Nothing was left to do before: the idle arm starts on this one when it is in.
            self.ready_ns = self.ready_ns.max(done_ns);
        }
        if !self.dirty.contains(command) {
            self.dirty.push(*command);
            self.dirty_bytes += u64::from(command.size_bytes);
        }
        Service {
            done_ns,
            free_ns: done_ns,
            note,
        }
    }

    fn flush(&mut self, now_ns: u64) -> Service {
        self.ready_ns = self.ready_ns.max(now_ns);
        while !self.dirty.is_empty() {
            self.write_out_one();
        }
        let done_ns = self.ready_ns + self.parameters.command_ns as u64;
        Service {
            done_ns,
            free_ns: done_ns,
            note: Note::None,
        }
    }
}

/// Time of the arm for a part of its full stroke.
fn way_ns(parameters: &HddParameters, stroke: f64) -> f64 {
    let p = parameters;
    p.track_to_track_ns + (p.full_stroke_ns - p.track_to_track_ns) * stroke.powf(p.seek_exponent)
}

/// Turns until a sector comes that is `ahead` turns away. One that is just passing counts as there, and as long ago as it is: rounding to
/// whole ns must not cost a turn, nor may it add up over the reads of a stream until it does.
#[inline]
fn wait_turns(ahead: f64, passing: f64) -> f64 {
    let wait = positive_part(ahead);
    if wait > 1.0 - passing {
        wait - 1.0
    } else {
        wait
    }
}

/// What is left of a number of turns without the whole ones, 0 to 1. A conversion to a whole number and back is exact for as
/// many turns as a disk ever makes, and much faster than a remainder.
fn positive_part(turns: f64) -> f64 {
    let rest = turns - (turns as i64) as f64;
    if rest < 0.0 {
        rest + 1.0
    } else {
        rest
    }
}

impl DriveModel for Hdd {
    fn size_bytes(&self) -> u64 {
        self.parameters.size_bytes
    }

    fn rotational(&self) -> bool {
        true
    }

    fn slots(&self) -> usize {
        self.parameters.queue_slots
    }

    /// The soonest of the first `reorder_window` commands; the oldest once enough went before it. A flush is
    /// never passed.
    fn choose(&mut self, now_ns: u64, waiting: &[Command]) -> usize {
        self.seen_at_choice.resize(waiting.len(), self.choices);
        let overdue = self.choices - self.seen_at_choice[0] >= u64::from(self.parameters.passes_max);
        let barrier = waiting
            .iter()
            .position(|command| command.op == Op::Flush)
            .unwrap_or(waiting.len());
        let window = self.parameters.reorder_window.min(barrier);
        let chosen = if overdue || window <= 1 {
            0
        } else {
            let mut places = std::mem::take(&mut self.waiting_places);
            self.find_places(&waiting[..window], &mut places);
            let nearest = self.nearest(now_ns, &waiting[..window], &places);
            self.chosen = Some(nearest);
            places.remove(nearest.index);
            self.waiting_places = places;
            nearest.index
        };
        self.seen_at_choice.remove(chosen);
        self.choices += 1;
        chosen
    }

    fn serve(&mut self, now_ns: u64, command: &Command) -> Service {
        self.catch_up(now_ns);
        match command.op {
            Op::Write => self.write(now_ns, command),
            Op::Flush | Op::Sync => self.flush(now_ns),
            // A disk that is not shingled only takes note of a discard.
            Op::Discard => {
                let done_ns = now_ns + self.parameters.command_ns as u64;
                Service {
                    done_ns,
                    free_ns: done_ns,
                    note: Note::Buffered,
                }
            }
            _ => self.read(now_ns, command),
        }
    }
}

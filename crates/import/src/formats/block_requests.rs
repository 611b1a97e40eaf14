//! Events of block requests (bio queued, request issued, completed) become operations. Shared by the formats of tracers.
//!
//! A request begins when the first bio in it was queued and ends when its last sector completed; a requeued one is issued last when it is
//! issued last. What completes without having been issued (stacked devices that take bios) has one stage. What has no completion was in flight
//! when the log ended; of more than a device can have in flight, the completions are not in the log, and nothing is said of their time.
//!
//! Completions name a place, not a request, and logs lack events: files of CPUs are missing, buffers were full, lines were cut out. Where a place was
//! asked for anew before a completion comes, that may be of either request. It is held back until the log tells: if as many completions
//! come as requests were issued, the first is of the first; if fewer do, they are of the newest, and those before lack theirs. Of a log that lacks
//! events for sure, every completion is of the newest: a request that seems slow since another's end was taken for its own accuses a healthy device.
//!
//! A device without FUA gets the data, and then a flush: such a write ends with its second completion, which names its place and no length. One without a
//! write cache gets no flush, and what was queued ends at once. Commands that are passed through have no place; their bytes stand for it.
//! Memory: what is in flight.
use crate::sink::Sink;
use crate::text::{counted, sectors};
use crate::ImportError;
use case::schema::{flags, Layer, NameId, Op, OpRow, Stage};
use foldhash::fast::FixedState;
use std::collections::{BTreeMap, HashMap};

/// Bios without a request that are kept at most.
const WAITING_MAX: usize = 1 << 20;

/// Requests without a completion that are kept at most.
const ISSUED_MAX: usize = 1 << 20;
/// What a flush was for ends so soon after it at most: the completion follows in the same interrupt.
const FLUSHED_NS: i64 = 10_000_000;
/// Completions of one place that are held back at most, and places that have such ones.
const HELD_BACK_MAX: usize = 64;
const CONTESTS_MAX: usize = 1 << 14;
/// More than a device has in flight: drivers give it up to 1023 at once per queue, and programs rarely so many.
const IN_FLIGHT_MAX: u64 = 1024;

/// What no log of the block layer's tracer carries, and why; see `Format::not_carried`.
pub const NOT_TRACED: &[(&str, &str)] = &[
    (
        "where the interrupt began",
        "the block layer's tracer sees completions, which are device and interrupt together",
    ),
    (
        "what lies above the block layer",
        "its tracer sees bios and requests only",
    ),
];

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A bio came.
    Queue,
    /// A request came to the scheduler; where its bios were seen, they tell more.
    Insert,
    /// A bio was cut in two; the rest begins at this sector.
    Split(u64),
    /// A request was given to the driver.
    Issue,
    /// The driver gave it back: it will be issued once more.
    Requeue,
    /// (A part of) a request is done.
    Complete,
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// On the log's clock.
    pub time_ns: i64,
    /// What happened.
    pub what: What,
    /// Major and minor number.
    pub device: (u32, u32),
    /// Kind.
    pub op: Op,
    /// See `case::schema::flags`.
    pub flags: u32,
    /// First sector.
    pub sector: u64,
    /// Sectors of 512 bytes.
    pub count: u64,
    /// CPU of the event.
    pub cpu: Option<i32>,
    /// Who caused it.
    pub pid: Option<i32>,
    /// Its name.
    pub comm: Option<NameId>,
    /// errno of a completion.
    pub error: i32,
}

/// Kind and flags of the letters that the kernel prints for a request (`fill_rwbs`), and of how many sectors it is.
pub fn kind_of(rwbs: &[u8], count: u64) -> (Op, u32) {
    let is_flush = rwbs.first() == Some(&b'F') && (count == 0 || !rwbs[1..].contains(&b'W'));
    let op = match rwbs.iter().find(|letter| **letter != b'F') {
        _ if is_flush => Op::Flush,
        Some(b'R') => Op::Read,
        Some(b'W') => Op::Write,
        Some(b'D') => Op::Discard,
        _ => Op::Other,
    };
    let mut set = 0;
    for letter in rwbs.iter().skip(1) {
        set |= match letter {
            b'S' => flags::SYNC,
            b'M' => flags::META,
            b'A' => flags::READAHEAD,
            b'F' => flags::FUA,
            _ => 0,
        };
    }
    (op, set)
}

/// The name that the kernel gives a device, where its number tells it for good (Documentation/admin-guide/devices.txt).
pub fn device_name((major, minor): (u32, u32)) -> String {
    let disk = |index: u32, part: u32| {
        let (mut letters, mut rest) = (String::new(), index + 1);
        while rest > 0 {
            letters.insert(0, char::from(b'a' + ((rest - 1) % 26) as u8));
            rest = (rest - 1) / 26;
        }
        let part = if part == 0 {
            String::new()
        } else {
            part.to_string()
        };
        format!("sd{letters}{part}")
    };
    match major {
        7 => format!("loop{minor}"),
        9 => format!("md{minor}"),
        8 => disk(minor / 16, minor % 16),
        65..=71 => disk((major - 64) * 16 + minor / 16, minor % 16),
        _ => format!("{major}:{minor}"),
    }
}

type Place = (u32, u32, u8);

#[derive(Clone, Copy)]
struct Bio {
    time_ns: i64,
    end: u64,
    flags: u32,
    cpu: Option<i32>,
    pid: Option<i32>,
    comm: Option<NameId>,
}

struct Request {
    queued: Option<Bio>,
    issue_ns: i64,
    sector: u64,
    count: u64,
    left: u64,
    op: Op,
    flags: u32,
    cpu: Option<i32>,
    /// The driver gave it back.
    is_requeued: bool,
}

impl Request {
    /// Whether a completion ends it: a part that is done leaves a rest.
    fn ends_with(&self, event: &Event) -> bool {
        event.count == self.left || event.error != 0 || event.count == 0
    }

    /// Whether it can be the same one. What has no length has no place either, which would tell.
    fn is_as_long_as(&self, other: &Request) -> bool {
        self.count == other.count && self.count > 0
    }

    /// Whether a flush follows when its data are on the device: that knows no FUA.
    fn is_flushed_after(&self) -> bool {
        let asked = self.queued.as_ref().map_or(0, |bio| bio.flags);
        self.op == Op::Write && self.count > 0 && asked & !self.flags & flags::FUA != 0
    }

    /// It is the same one, issued once more.
    fn takes_over(&mut self, before: &Request) {
        if self.queued.is_none() && before.count == self.count {
            self.queued = before.queued;
        }
    }

    /// Whether a completion can be of it. Requests do not grow; those without data say no length.
    fn fits(&self, event: &Event) -> bool {
        event.count <= self.left || self.count == 0
    }
}

/// Requests of one kind that were issued for the same place, in their order, and completions that may be of any of them.
#[derive(Default)]
struct Contest {
    issued: Vec<Request>,
    ended: Vec<Event>,
}

/// Requests of a place, and a completion that is either of one of them or of a bio that was queued for the place later.
struct Doubt {
    contest: Contest,
    completion: Event,
    /// When that bio was queued.
    queued_ns: i64,
}

/// See the module.
#[derive(Default)]
pub struct Requests {
    device: Option<String>,
    /// The device that was named last.
    named: Option<((u32, u32), NameId)>,
    waiting: HashMap<Place, BTreeMap<u64, Bio>, FixedState>,
    waiting_count: usize,
    issued: HashMap<(Place, u64), Request, FixedState>,
    /// Places with several requests; none of these is in `issued`.
    contests: BTreeMap<(Place, u64), Contest>,
    /// Completions of a request or of a bio that was not issued so far; neither is in `issued`.
    doubts: BTreeMap<(Place, u64), Doubt>,
    /// Devices that requests were issued to: they complete no bios.
    issuing: Vec<(u32, u32)>,
    /// It is sure that events of the log are lost.
    is_lossy: bool,
    /// Requests without a completion before others of the same place that have one.
    superseded: u64,
    unmatched: u64,
    /// Of those, completions with an error.
    unmatched_errors: u64,
    dropped: u64,
    /// Requests without a completion that were given up.
    forgotten: u64,
    /// Requests and bios that ended.
    ended: u64,
    last_end_ns: i64,
    /// Why completions may be missing.
    lacks: Option<String>,
    last_ns: i64,
    is_told: bool,
    has_issues: bool,
    /// The flush that ended last: what it was for ends after it, with the error if there is one.
    flushed: Option<(Place, Request, Event)>,
    /// Devices that flushes were issued to.
    flushing: Vec<(u32, u32)>,
    /// Writes whose data are on the device, and which end after a flush.
    unflushed: Vec<(Place, Request, Event)>,
}

impl Requests {
    /// `device`: the name of the device, if the log has but one and does not say it.
    pub fn new(device: Option<String>) -> Requests {
        Requests {
            device,
            ..Requests::default()
        }
    }

    /// Completions are missing, because of this: what has none says nothing.
    pub fn lacks_completions(&mut self, because: String) {
        self.lacks = Some(because);
    }

    /// The tracer lost events.
    pub fn has_losses(&mut self) {
        self.is_lossy = true;
    }

    /// Takes the next event, in the order of time.
    pub fn event(&mut self, event: Event, sink: &mut Sink) -> Result<(), ImportError> {
        if !self.is_told {
            sink.has_every_operation();
            self.is_told = true;
        }
        // Of a log without issues the time of a request cannot be parted.
        if event.what == What::Issue && !std::mem::replace(&mut self.has_issues, true) {
            sink.layer(
                Layer::Block,
                &[(Stage::Queue, "queue"), (Stage::Device, "device+interrupt")],
            );
        }
        self.last_ns = self.last_ns.max(event.time_ns);
        if self
            .flushed
            .as_ref()
            .is_some_and(|(_, _, end)| event.time_ns - end.time_ns > FLUSHED_NS)
        {
            self.tell_flush(0, sink)?;
        }
        let place = (event.device.0, event.device.1, event.op as u8);
        let asks = matches!(event.what, What::Queue | What::Issue);
        if !self.doubts.is_empty() && (asks || event.what == What::Complete) {
            self.settle_doubt((place, event.sector), sink)?;
        }
        if asks && self.loses() && event.count > 0 {
            self.supersede_others(place, event.sector);
        }
        match event.what {
            What::Queue => self.queue(place, event),
            What::Insert if self.waits(place, &event) => {}
            What::Insert => self.queue(place, event),
            What::Split(at) => self.split(place, event.sector, at),
            What::Issue => return self.issue(place, event, sink),
            What::Requeue => self.requeue((place, event.sector)),
            What::Complete => return self.complete(place, event, sink),
        }
        Ok(())
    }

    fn queue(&mut self, place: Place, event: Event) {
        if self.waiting_count >= WAITING_MAX {
            self.dropped += self.waiting_count as u64;
            self.waiting.clear();
            self.waiting_count = 0;
        }
        let bio = Bio {
            time_ns: event.time_ns,
            end: event.sector.saturating_add(event.count),
            flags: event.flags,
            cpu: event.cpu,
            pid: event.pid,
            comm: event.comm,
        };
        if self
            .waiting
            .entry(place)
            .or_default()
            .insert(event.sector, bio)
            .is_none()
        {
            self.waiting_count += 1;
        }
    }

    fn waits(&self, place: Place, event: &Event) -> bool {
        let end = event.sector.saturating_add(event.count.max(1));
        let bios = self.waiting.get(&place);
        bios.is_some_and(|bios| bios.range(event.sector..end).next().is_some())
    }

    fn split(&mut self, place: Place, sector: u64, at: u64) {
        let Some(bios) = self.waiting.get_mut(&place) else {
            return;
        };
        let Some(bio) = bios.get_mut(&sector) else { return };
        if at <= sector || at >= bio.end {
            return;
        }
        let rest = *bio;
        bio.end = at;
        if bios.insert(at, rest).is_none() {
            self.waiting_count += 1;
        }
    }

    fn take_waiting(&mut self, place: Place, sector: u64, end: u64) -> Option<Bio> {
        let bios = self.waiting.get_mut(&place)?;
        let end = end.max(sector.saturating_add(1));
        let mut first: Option<Bio> = None;
        while let Some(at) = bios.range(sector..end).next().map(|(at, _)| *at) {
            let bio = bios.remove(&at)?;
            self.waiting_count -= 1;
            if first.is_none_or(|first| bio.time_ns < first.time_ns) {
                first = Some(bio);
            }
        }
        first
    }

    fn issue(&mut self, place: Place, event: Event, sink: &mut Sink) -> Result<(), ImportError> {
        let end = event.sector.saturating_add(event.count);
        if self.issued.len() >= ISSUED_MAX {
            self.forgotten += self.issued.len() as u64;
            self.issued.clear();
        }
        if !self.issuing.contains(&event.device) {
            self.issuing.push(event.device);
        }
        if event.op == Op::Flush && !self.flushing.contains(&event.device) {
            self.flushing.push(event.device);
        }
        let key = (place, event.sector);
        if let Some(at) = self.unflushed_at(key) {
            self.tell_unflushed(at, None, sink)?;
        }
        let request = Request {
            queued: self.take_waiting(place, event.sector, end),
            issue_ns: event.time_ns,
            sector: event.sector,
            count: event.count,
            left: event.count,
            op: event.op,
            flags: event.flags,
            cpu: event.cpu,
            is_requeued: false,
        };
        self.put_issued(key, request);
        if self.contests.len() > CONTESTS_MAX {
            for key in self.contests.keys().copied().collect::<Vec<_>>() {
                self.settle_with_newest(key, sink)?;
            }
        }
        Ok(())
    }

    /// A request is in flight, maybe beside others of its place.
    fn put_issued(&mut self, key: (Place, u64), mut request: Request) {
        let contest = self.contests.get_mut(&key);
        let before = match contest {
            Some(contest) => contest.issued.pop_if(|one| one.is_requeued),
            None => self.issued.remove(&key),
        };
        match before {
            // Issued once more: what counts is the last time.
            Some(before) if before.is_requeued => request.takes_over(&before),
            Some(before) => {
                self.contests.entry(key).or_default().issued.push(before);
            }
            None => {}
        }
        match self.contests.get_mut(&key) {
            Some(contest) => {
                contest.issued.push(request);
                if contest.issued.len() as u64 > IN_FLIGHT_MAX {
                    contest.issued.remove(0);
                    self.superseded += 1;
                }
            }
            None => {
                self.issued.insert(key, request);
            }
        }
    }

    fn requeue(&mut self, key: (Place, u64)) {
        let request = match self.contests.get_mut(&key) {
            Some(contest) => contest.issued.last_mut(),
            None => self.issued.get_mut(&key),
        };
        if let Some(request) = request {
            request.is_requeued = true;
        }
    }

    /// Whether the log lacks events for sure.
    fn loses(&self) -> bool {
        self.is_lossy || self.lacks.is_some() || self.superseded > 0
    }

    /// A request of another kind for the same place, from now on: programs read what they write once it has been written, and the other way round.
    fn supersede_others(&mut self, (major, minor, kind): Place, sector: u64) {
        for other in [Op::Read, Op::Write] {
            let of_other = (major, minor, other as u8);
            if of_other.2 != kind && self.issued.remove(&(of_other, sector)).is_some() {
                self.superseded += 1;
            }
        }
    }

    fn complete(&mut self, place: Place, event: Event, sink: &mut Sink) -> Result<(), ImportError> {
        let key = (place, event.sector);
        if let (0, Some(at)) = (event.count, self.unflushed_at(key)) {
            self.tell_flush(event.error, sink)?;
            return self.tell_unflushed(at, Some(event), sink);
        }
        let newest = match self.contests.get(&key) {
            Some(contest) => contest.issued.last(),
            None => self.issued.get(&key),
        };
        let Some(queued_ns) = newest.and_then(|request| self.rival(request, key, &event)) else {
            return self.complete_issued(key, event, sink);
        };
        let mut contest = self.contests.remove(&key).unwrap_or_default();
        contest.issued.extend(self.issued.remove(&key));
        let doubt = Doubt {
            contest,
            completion: event,
            queued_ns,
        };
        if self.loses() {
            return self.settle(key, doubt, true, sink);
        }
        if self.doubts.len() >= CONTESTS_MAX {
            self.settle_doubts(sink)?;
        }
        self.doubts.insert(key, doubt);
        Ok(())
    }

    /// When a bio was queued for the place of a request that had been issued, if a completion may be of it, too: its issue would be lost.
    fn rival(&self, request: &Request, (place, sector): (Place, u64), event: &Event) -> Option<i64> {
        if request.op == Op::Flush || request.count == 0 || request.is_requeued {
            return None;
        }
        let bio = self.waiting.get(&place)?.get(&sector)?;
        let is_later = bio.time_ns > request.issue_ns;
        (is_later && bio.end - sector <= event.count).then_some(bio.time_ns)
    }

    /// What was held back between requests and a bio is settled by the next event of the place: what is issued then, or completes as the second,
    /// is the bio.
    fn settle_doubt(&mut self, key: (Place, u64), sink: &mut Sink) -> Result<(), ImportError> {
        match self.doubts.remove(&key) {
            Some(doubt) => self.settle(key, doubt, self.loses(), sink),
            None => Ok(()),
        }
    }

    /// All of these, of which nothing more is told.
    fn settle_doubts(&mut self, sink: &mut Sink) -> Result<(), ImportError> {
        for (key, doubt) in std::mem::take(&mut self.doubts) {
            self.settle(key, doubt, true, sink)?;
        }
        Ok(())
    }

    fn settle(
        &mut self,
        key: (Place, u64),
        doubt: Doubt,
        is_of_bio: bool,
        sink: &mut Sink,
    ) -> Result<(), ImportError> {
        let bio = self.waiting.get(&key.0).and_then(|bios| bios.get(&key.1));
        // It is gone if another request took it.
        let still_waits = bio.is_some_and(|bio| bio.time_ns == doubt.queued_ns);
        self.put_back(key, doubt.contest);
        if !is_of_bio || !still_waits {
            return self.complete_issued(key, doubt.completion, sink);
        }
        self.settle_with_newest(key, sink)?;
        let rest = self
            .contests
            .remove(&key)
            .map_or(0, |contest| contest.issued.len());
        self.superseded += rest as u64 + u64::from(self.issued.remove(&key).is_some());
        self.complete_unissued(key.0, &doubt.completion, sink)
    }

    /// A completion, of what was issued if that was.
    fn complete_issued(
        &mut self,
        key: (Place, u64),
        event: Event,
        sink: &mut Sink,
    ) -> Result<(), ImportError> {
        if !self.contests.is_empty() && self.contests.contains_key(&key) {
            return self.complete_one_of(key, event, sink);
        }
        let Some(request) = self.issued.remove(&key) else {
            return self.complete_unissued(key.0, &event, sink);
        };
        if !request.fits(&event) {
            // It is longer, so another request's, and this one had ended.
            self.superseded += 1;
            return self.complete_unissued(key.0, &event, sink);
        }
        self.end_with(key.0, request, event, sink)
    }

    /// A completion of what was not issued as far as the log says.
    fn complete_unissued(&mut self, place: Place, event: &Event, sink: &mut Sink) -> Result<(), ImportError> {
        let end = event.sector.saturating_add(event.count);
        match self.take_waiting(place, event.sector, end) {
            Some(bio) => {
                // A device that requests are issued to completes no bio: the issue is lost.
                self.is_lossy |= event.count > 0 && self.issuing.contains(&event.device);
                self.bio_done(&bio, event, sink)
            }
            // A write with nothing in it was queued to flush, which a request of its own did.
            None if event.count == 0 => match &self.flushed {
                Some((of, ..)) if (of.0, of.1) == event.device => self.tell_flush(event.error, sink),
                _ => self.end_without_flush(event, sink),
            },
            None => {
                self.unmatched += u64::from(event.op != Op::Flush);
                self.unmatched_errors += u64::from(event.op != Op::Flush && event.error != 0);
                Ok(())
            }
        }
    }

    /// A completion of one of several requests of the same place.
    fn complete_one_of(
        &mut self,
        key: (Place, u64),
        event: Event,
        sink: &mut Sink,
    ) -> Result<(), ImportError> {
        let Some(mut contest) = self.contests.remove(&key) else {
            return Ok(());
        };
        if self.loses() {
            contest.ended.push(event);
            self.contests.insert(key, contest);
            return self.settle_with_newest(key, sink);
        }
        let ends = |one: &Request| one.fits(&event) && one.ends_with(&event);
        let exact = contest.issued.iter().filter(|one| ends(one)).count();
        let chosen = match exact {
            0 => contest.issued.iter().position(|one| one.fits(&event)),
            // Its length tells which.
            1 if contest.ended.is_empty() => contest.issued.iter().position(ends),
            _ => None,
        };
        let request = chosen.map(|at| contest.issued.remove(at));
        if request.is_none() && exact == 0 {
            self.put_back(key, contest);
            return self.complete_unissued(key.0, &event, sink);
        }
        if request.is_none() {
            contest.ended.push(event);
            let is_full = contest.ended.len() >= HELD_BACK_MAX;
            if contest.ended.len() >= contest.issued.len() || is_full {
                // As many: each has its own. Too many to wait for: no event is known to be lost.
                let pairs: Vec<_> = contest
                    .ended
                    .drain(..)
                    .map(|event| (contest.issued.remove(0), event))
                    .collect();
                self.put_back(key, contest);
                for (request, event) in pairs {
                    self.end_with(key.0, request, event, sink)?;
                }
                return Ok(());
            }
        }
        self.put_back(key, contest);
        match request {
            Some(request) => self.end_with(key.0, request, event, sink),
            None => Ok(()),
        }
    }

    /// One alone is no contest.
    fn put_back(&mut self, key: (Place, u64), mut contest: Contest) {
        if contest.issued.len() > 1 || !contest.ended.is_empty() {
            self.contests.insert(key, contest);
        } else if let Some(request) = contest.issued.pop() {
            self.issued.insert(key, request);
        }
    }

    /// Fewer completions than requests: each is of the one that was issued last before it. What was issued before such a one had ended.
    fn settle_with_newest(&mut self, key: (Place, u64), sink: &mut Sink) -> Result<(), ImportError> {
        let Some(mut contest) = self.contests.remove(&key) else {
            return Ok(());
        };
        let mut pairs: Vec<(Request, Event)> = Vec::new();
        for event in std::mem::take(&mut contest.ended) {
            let of = |one: &Request| one.fits(&event) && one.issue_ns <= event.time_ns;
            let Some(at) = contest.issued.iter().rposition(of) else {
                self.unmatched += 1;
                continue;
            };
            let mut request = contest.issued.remove(at);
            for before in contest.issued.drain(..at).rev() {
                // Without a bio of its own it is the same request, issued once more, unless its bio may be lost.
                if self.loses() || request.queued.is_some() || !request.is_as_long_as(&before) {
                    self.superseded += 1;
                } else {
                    request.takes_over(&before);
                }
            }
            pairs.push((request, event));
        }
        self.put_back(key, contest);
        for (request, event) in pairs {
            self.end_with(key.0, request, event, sink)?;
        }
        Ok(())
    }

    /// A completion of a request, or of a part of it.
    fn end_with(
        &mut self,
        place: Place,
        mut request: Request,
        event: Event,
        sink: &mut Sink,
    ) -> Result<(), ImportError> {
        if event.count < request.left && !request.ends_with(&event) {
            request.left -= event.count;
            let next = event.sector.saturating_add(event.count);
            self.put_issued((place, next), request);
            return Ok(());
        }
        self.ended += 1;
        self.last_end_ns = self.last_end_ns.max(event.time_ns);
        if request.op == Op::Flush {
            self.tell_flush(0, sink)?;
            self.flushed = Some((place, request, event));
            return Ok(());
        }
        if event.error == 0 && request.is_flushed_after() {
            if self.unflushed.len() >= HELD_BACK_MAX {
                self.tell_unflushed(0, None, sink)?;
            }
            self.unflushed.push((place, request, event));
            return Ok(());
        }
        self.done(place, &request, event.time_ns, Some(&event), sink)
    }

    /// Which write of this place waits for a flush. Kernels before 6.10 say where it ends, once its data are on the device.
    fn unflushed_at(&self, (place, sector): (Place, u64)) -> Option<usize> {
        let is_there = |one: &Request| one.sector == sector || one.sector.saturating_add(one.count) == sector;
        self.unflushed
            .iter()
            .position(|(of, one, _)| *of == place && is_there(one))
    }

    /// A write after which a flush followed has ended; where the log does not say when, with its data.
    fn tell_unflushed(&mut self, at: usize, end: Option<Event>, sink: &mut Sink) -> Result<(), ImportError> {
        let (place, request, of_data) = self.unflushed.remove(at);
        let event = end.unwrap_or(of_data);
        self.last_end_ns = self.last_end_ns.max(event.time_ns);
        self.done(place, &request, event.time_ns, Some(&event), sink)
    }

    /// What was queued to flush a device that needs none.
    fn end_without_flush(&mut self, event: &Event, sink: &mut Sink) -> Result<(), ImportError> {
        if self.flushing.contains(&event.device) {
            return Ok(());
        }
        let flush = Event {
            op: Op::Flush,
            ..*event
        };
        let place = (event.device.0, event.device.1, Op::Flush as u8);
        match self.take_waiting(place, event.sector, event.sector) {
            Some(bio) => self.bio_done(&bio, &flush, sink),
            None => Ok(()),
        }
    }

    /// The flush that ended last is told, with the error of what it was for.
    fn tell_flush(&mut self, error: i32, sink: &mut Sink) -> Result<(), ImportError> {
        let Some((place, request, mut event)) = self.flushed.take() else {
            return Ok(());
        };
        if event.error == 0 {
            event.error = error;
        }
        self.done(place, &request, event.time_ns, Some(&event), sink)
    }

    fn done(
        &mut self,
        (major, minor, _): Place,
        request: &Request,
        end_ns: i64,
        event: Option<&Event>,
        sink: &mut Sink,
    ) -> Result<(), ImportError> {
        let queue_ns = request
            .queued
            .as_ref()
            .map(|bio| (request.issue_ns - bio.time_ns).max(0));
        let device_ns = (end_ns - request.issue_ns).max(0);
        let start_ns = request.issue_ns - queue_ns.unwrap_or(0);
        let mut row = OpRow::plain(start_ns, queue_ns.unwrap_or(0) + device_ns, request.op);
        row.stages[Stage::Queue as usize] = queue_ns;
        row.stages[Stage::Device as usize] = Some(device_ns);
        row.open = event.is_none();
        row.device = Some(self.name((major, minor), sink));
        row.flags = request.flags | request.queued.as_ref().map_or(0, |bio| bio.flags);
        row.cpu = request.queued.as_ref().map_or(request.cpu, |bio| bio.cpu);
        if let Some(bio) = &request.queued {
            row.pid = bio.pid;
            row.comm = bio.comm;
        }
        Self::place(&mut row, request.sector, request.count);
        if let Some(event) = event {
            row.complete_cpu = event.cpu;
            row.error = event.error;
        }
        sink.op(Layer::Block, row)
    }

    fn bio_done(&mut self, bio: &Bio, event: &Event, sink: &mut Sink) -> Result<(), ImportError> {
        sink.layer(Layer::Block, &[(Stage::Queue, "queue+device+interrupt")]);
        self.ended += 1;
        self.last_end_ns = self.last_end_ns.max(event.time_ns);
        let latency_ns = (event.time_ns - bio.time_ns).max(0);
        let mut row = OpRow::plain(bio.time_ns, latency_ns, event.op);
        row.stages[Stage::Queue as usize] = Some(latency_ns);
        row.device = Some(self.name(event.device, sink));
        row.flags = bio.flags;
        (row.pid, row.cpu, row.complete_cpu) = (bio.pid, bio.cpu, event.cpu);
        row.comm = bio.comm;
        row.error = event.error;
        Self::place(&mut row, event.sector, event.count);
        sink.op(Layer::Block, row)
    }

    fn place(row: &mut OpRow, sector: u64, count: u64) {
        row.size_bytes = sectors(count);
        // Neither flushes nor commands have a place.
        let has_place = row.op != Op::Flush && (row.op != Op::Other || count > 0);
        row.offset_bytes = sectors(sector).filter(|_| has_place);
    }

    fn name(&mut self, device: (u32, u32), sink: &mut Sink) -> NameId {
        match self.named {
            Some((named, name)) if named == device => name,
            _ => {
                let name = match &self.device {
                    Some(name) => sink.name(name),
                    None => sink.name(&device_name(device)),
                };
                self.named = Some((device, name));
                name
            }
        }
    }

    /// Why requests without a completion are not those that were in flight when the log ended; None: they are.
    fn why_without_completion(&self, open: &[(Place, Request)]) -> Option<String> {
        if let Some(lacks) = &self.lacks {
            return Some(match self.ended {
                0 => format!("{lacks}: give all files that blktrace wrote, one for each CPU"),
                _ => format!("{lacks}, with all else that the tracer saw there"),
            });
        }
        if self.ended == 0 {
            let because = "no completion is in the log: record block_rq_complete, too (blktrace: -a complete; all its files, one for each CPU), and until requests end";
            return Some(because.into());
        }
        // What a device that stops completing leaves was issued after its last completion, but for what was in flight then.
        let earlier = open.iter().filter(|(_, one)| one.issue_ns < self.last_end_ns);
        let earlier = earlier.count() as u64 + self.forgotten + self.superseded;
        (earlier > self.ended.min(IN_FLIGHT_MAX))
            .then(|| "no device has this many in flight: not all completions were traced".into())
    }

    /// What is still in flight, in the order of places.
    fn take_open(&mut self) -> Vec<(Place, Request)> {
        let mut open: Vec<((Place, u64), Request)> = std::mem::take(&mut self.issued).into_iter().collect();
        for (key, contest) in std::mem::take(&mut self.contests) {
            let mut issued = contest.issued.into_iter().rev();
            let mut later = issued.next();
            for before in issued {
                match &mut later {
                    // No bio of its own: the same request, issued once more.
                    Some(later) if later.queued.is_none() && later.is_as_long_as(&before) => {
                        later.takes_over(&before);
                    }
                    _ => open.extend(later.replace(before).map(|one| (key, one))),
                }
            }
            open.extend(later.map(|one| (key, one)));
        }
        open.sort_by_key(|(key, request)| (*key, request.issue_ns));
        open.into_iter()
            .map(|((place, _), request)| (place, request))
            .collect()
    }

    /// The first of requests, in words: of logs without any completion it tells which were recorded.
    fn first_of(&self, open: &[(Place, Request)]) -> Option<String> {
        let (place, first) = open.iter().min_by_key(|(_, request)| request.issue_ns)?;
        let name = match &self.device {
            Some(name) => name.clone(),
            None => device_name((place.0, place.1)),
        };
        let of_place = match (first.op, first.count) {
            (Op::Flush, _) | (_, 0) => String::new(),
            (_, count) => format!(" of {} at sector {}", counted(count, "sector"), first.sector),
        };
        let seconds = first.issue_ns as f64 / 1e9;
        Some(format!(
            "the first: {}{of_place} of {name}, issued at {seconds:.6} s",
            first.op.name()
        ))
    }

    /// The log has ended: what is still in flight is open.
    pub fn end(mut self, sink: &mut Sink) -> Result<(), ImportError> {
        self.settle_doubts(sink)?;
        for key in self.contests.keys().copied().collect::<Vec<_>>() {
            self.settle_with_newest(key, sink)?;
        }
        self.tell_flush(0, sink)?;
        while !self.unflushed.is_empty() {
            self.tell_unflushed(0, None, sink)?;
        }
        let mut open = self.take_open();
        let why = self.why_without_completion(&open);
        let first = match self.ended {
            0 => self.first_of(&open),
            _ => None,
        };
        let mut without = self.forgotten + self.superseded;
        if why.is_some() || without > 0 {
            // Where completions are lost for sure, it is no more than what was issued after the last one that is certainly in flight.
            let all = open.len();
            open.retain(|(_, one)| why.is_none() && one.issue_ns >= self.last_end_ns);
            without += (all - open.len()) as u64;
        }
        if without > 0 {
            let requests = counted(without, "request");
            let more = first.map_or(", slow or not".into(), |first| format!(" ({first})"));
            let what = format!("{requests} without a completion in the log{more}");
            let because = why.unwrap_or_else(|| {
                "others of the same place ended later, so completions were not traced, or are lost".into()
            });
            sink.missing(what, because);
            sink.without_end(Layer::Block, without);
        } else if let Some(lacks) = self.lacks.take() {
            sink.missing("what the tracer saw on all CPUs", lacks);
        }
        for (place, request) in &open {
            self.done(*place, request, self.last_ns, None, sink)?;
        }
        if self.unmatched > 0 {
            let failed = match self.unmatched_errors {
                0 => String::new(),
                failed => format!(", of which {failed} failed"),
            };
            let what = format!(
                "{} without an issue in the log, slow or not{failed}",
                counted(self.unmatched, "request")
            );
            let because = match self.ended {
                0 => "no issue and no queueing is in the log: record block_rq_issue beside block_rq_complete (blktrace: -a issue -a complete)",
                _ => "they were issued before it began, or their issue was lost",
            };
            sink.missing(what, because);
        }
        if self.ended == 0 && !self.has_issues && self.waiting_count > 0 {
            sink.missing(
                format!("{} that were queued, slow or not", counted(self.waiting_count as u64, "bio")),
                "no issue and no completion is in the log: record those, too (block_rq_issue, block_rq_complete; blktrace: -a issue -a complete)",
            );
        }
        if self.dropped > 0 {
            let what = format!("who queued {}", counted(self.dropped, "bio"));
            sink.missing(
                what,
                format!("no request took them; at most {WAITING_MAX} are kept"),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_numbers_have_names() {
        assert_eq!(kind_of(b"WS", 8), (Op::Write, flags::SYNC));
        assert_eq!(kind_of(b"FWFS", 8).0, Op::Write);
        assert_eq!(
            (kind_of(b"FWS", 0).0, kind_of(b"FN", 0).0, kind_of(b"F", 0).0),
            (Op::Flush, Op::Flush, Op::Flush)
        );
        assert_eq!(kind_of(b"RAM", 8), (Op::Read, flags::READAHEAD | flags::META));
        assert_eq!(kind_of(b"DS", 8).0, Op::Discard);
        let names = [(8, 0), (8, 17), (65, 160), (7, 3), (259, 2)].map(device_name);
        assert_eq!(names, ["sda", "sdb1", "sdaa", "loop3", "259:2"]);
    }

    const READ: Event = Event {
        time_ns: 0,
        what: What::Issue,
        device: (8, 0),
        op: Op::Read,
        flags: 0,
        sector: 0,
        count: 8,
        cpu: None,
        pid: None,
        comm: None,
        error: 0,
    };

    /// Operations that become of requests, each with the moments of its issue and, if there is one, of its completion.
    fn operations(requests: &[(i64, Option<i64>)], lacks: Option<&str>) -> usize {
        let mut events: Vec<Event> = Vec::new();
        for (at, (issued_ns, ended_ns)) in requests.iter().enumerate() {
            let event = |what, time_ns| Event {
                what,
                time_ns,
                sector: 8 * at as u64,
                ..READ
            };
            events.push(event(What::Issue, *issued_ns));
            events.extend(ended_ns.map(|ns| event(What::Complete, ns)));
        }
        events.sort_by_key(|event| event.time_ns);
        let (mut names, mut silent) = (case::sealed::Names::default(), |_: u64| {});
        let mut sink = Sink::survey(&mut names, &mut silent, false);
        let mut reader = Requests::new(None);
        if let Some(because) = lacks {
            reader.lacks_completions(because.into());
        }
        for event in events {
            reader.event(event, &mut sink).unwrap();
        }
        reader.end(&mut sink).unwrap();
        sink.surveyed().ops.len()
    }

    #[test]
    fn requests_without_a_completion_were_in_flight_at_the_end() {
        let ended: Vec<_> = (0..100).map(|at| (at * 10, Some(at * 10 + 5))).collect();
        // A device that stops, with 32 in flight.
        let stuck: Vec<_> = (0..32).map(|at| (990 + at, None)).collect();
        assert_eq!(operations(&[&ended[..], &stuck[..]].concat(), None), 132);
        // One that is stuck while others go on.
        assert_eq!(operations(&[&[(1, None)], &ended[..]].concat(), None), 101);
    }

    /// Events of one place of a log, each with its letter (`r`: a requeue; `w`: an issue of another length), at 10 ns, 20 ns and so on: the start and
    /// latency of its operations, and what is said of requests without a completion.
    fn of_one_place(letters: &str, is_lossy: bool) -> (Vec<(i64, i64)>, String) {
        let read = |sink: &mut Sink| {
            let mut reader = Requests::new(None);
            if is_lossy {
                reader.has_losses();
            }
            for (at, letter) in letters.bytes().enumerate() {
                let (what, count) = match letter {
                    b'Q' => (What::Queue, 8),
                    b'D' => (What::Issue, 8),
                    b'C' => (What::Complete, 8),
                    b'r' => (What::Requeue, 8),
                    b'q' => (What::Queue, 16),
                    b'd' => (What::Issue, 16),
                    b'c' => (What::Complete, 16),
                    // Half of a request, and its other half.
                    b'1' | b'2' => (What::Complete, 4),
                    // Merged into what is issued before it, which another reader takes.
                    b'M' => (What::Issue, 16),
                    _ => continue,
                };
                let sector = match letter {
                    b'2' => 12,
                    b'M' => 0,
                    _ => 8,
                };
                let event = Event {
                    time_ns: 10 * (at as i64 + 1),
                    what,
                    sector,
                    count,
                    ..READ
                };
                reader.event(event, sink).unwrap();
            }
            reader
        };
        let (mut names, mut silent) = (case::sealed::Names::default(), |_: u64| {});
        let mut sink = Sink::survey(&mut names, &mut silent, false);
        read(&mut sink).end(&mut sink).unwrap();
        let ops = crate::testing::moments(sink);
        let mut sink = Sink::survey(&mut names, &mut silent, false);
        read(&mut sink).end(&mut sink).unwrap();
        let missing = sink.finish().missing;
        (ops, missing.first().map_or(String::new(), |one| one.what.clone()))
    }

    #[test]
    fn a_completion_is_of_the_request_that_it_can_be_of() {
        let one = "1 request without a completion in the log, slow or not";
        let two = "2 requests without a completion in the log, slow or not";
        for (letters, is_lossy, ops, missing) in [
            // One after the other.
            ("QDCQDC", false, vec![(10, 20), (40, 20)], ""),
            // Issued once more, with or without a word of it.
            ("QDrDC", false, vec![(10, 40)], ""),
            ("QDDC", false, vec![(10, 30)], ""),
            // Queued, and issued, while the first is in flight: as many end.
            ("QDQCDC", false, vec![(10, 30), (30, 30)], ""),
            ("QDQDCC", false, vec![(10, 40), (30, 30)], ""),
            ("QDQDCQDCC", false, vec![(10, 40), (30, 50), (60, 30)], ""),
            // Events are lost for sure: never is a request slow with the end of another.
            ("QDQDCC", true, vec![(30, 20)], one),
            ("QDQCDC", true, vec![(30, 10), (50, 10)], one),
            ("QDD..QC", true, vec![(60, 10)], two),
            // Merged into what begins before it.
            ("QDQMC", false, vec![(10, 40), (30, 20)], ""),
            // The first one's completion is lost: one of two ends.
            ("QD....QDC", false, vec![(70, 20)], one),
            ("QD....QDC..", true, vec![(70, 20)], one),
            ("QD....QDCQDC", true, vec![(70, 20), (100, 20)], one),
            ("QD....QDCQDC", false, vec![(70, 20), (100, 20)], one),
            // The issue of the second is lost, too.
            ("QD....QC", false, vec![(70, 10)], one),
            ("QD....QCQDC", true, vec![(70, 10), (90, 20)], one),
            // Another length is another request's.
            ("QD....qdc", false, vec![(10, 80), (70, 20)], ""),
            ("QD....qc", false, vec![(70, 10)], one),
            ("qdQDCc", false, vec![(10, 50), (30, 20)], ""),
            // A request that ends by halves.
            ("QD12", false, vec![(10, 30)], ""),
        ] {
            assert_eq!(
                of_one_place(letters, is_lossy),
                (ops, missing.to_owned()),
                "{letters}"
            );
        }
    }

    #[test]
    fn of_a_place_that_is_always_in_flight_each_completion_is_of_the_first() {
        let letters = format!("QD{}", "QDC".repeat(200));
        let (ops, missing) = of_one_place(&letters, false);
        let last = "1 request without a completion in the log, slow or not";
        assert_eq!((ops.len(), missing.as_str()), (200, last));
        assert!(
            ops[1..100].iter().all(|(_, latency_ns)| *latency_ns == 50),
            "{ops:?}"
        );
    }

    /// What is made of events: how many completions had no issue, and the start and latency of each operation.
    fn made_of(events: impl IntoIterator<Item = Event>) -> (u64, Vec<(i64, i64)>) {
        let (mut names, mut silent) = (case::sealed::Names::default(), |_: u64| {});
        let mut sink = Sink::survey(&mut names, &mut silent, false);
        let mut reader = Requests::new(None);
        for event in events {
            reader.event(event, &mut sink).unwrap();
        }
        let unmatched = reader.unmatched;
        reader.end(&mut sink).unwrap();
        (unmatched, crate::testing::moments(sink))
    }

    #[test]
    fn what_a_flush_was_for_ends_after_it_and_has_its_error() {
        let flush = Event {
            op: Op::Flush,
            count: 0,
            ..READ
        };
        let write = Event {
            op: Op::Write,
            count: 0,
            what: What::Complete,
            ..READ
        };
        let read = |events: &[Event]| {
            let (unmatched, operations) = made_of(events.iter().copied());
            (unmatched, operations.len())
        };
        let of = |event: Event, what, time_ns| Event {
            what,
            time_ns,
            ..event
        };
        let pair = [of(flush, What::Issue, 10), of(flush, What::Complete, 20)];
        let failed = Event {
            time_ns: 21,
            error: 5,
            ..write
        };
        assert_eq!(read(&[pair[0], pair[1], failed]), (0, 1));
        assert_eq!(
            read(&[
                pair[0],
                pair[1],
                of(write, What::Complete, 21),
                of(flush, What::Issue, 30),
                of(flush, What::Complete, 40)
            ]),
            (0, 2)
        );
        assert_eq!(read(&[of(READ, What::Complete, 5)]), (1, 0));
    }

    #[test]
    fn a_device_that_lacks_fua_or_a_write_cache_ends_flushes_otherwise() {
        let flush = Event {
            op: Op::Flush,
            count: 0,
            ..READ
        };
        let asked = Event {
            op: Op::Write,
            flags: flags::FUA,
            what: What::Queue,
            ..READ
        };
        let write = Event { flags: 0, ..asked };
        let read = |events: &[(i64, What, Event)]| {
            let at = |&(time_ns, what, event): &(i64, What, Event)| Event {
                time_ns,
                what,
                ..event
            };
            made_of(events.iter().map(at)).1
        };
        let mut steps = vec![
            (10, What::Queue, asked),
            (20, What::Issue, write),
            (50, What::Complete, write),
            (60, What::Issue, flush),
            (90, What::Complete, flush),
        ];
        // The log ends, or lacks the second completion.
        assert_eq!(read(&steps), [(10, 40), (60, 30)]);
        steps.push((91, What::Complete, Event { count: 0, ..write }));
        assert_eq!(read(&steps), [(10, 81), (60, 30)]);
        // With FUA there is one.
        steps[1].2 = asked;
        assert_eq!(read(&steps), [(10, 40), (60, 30)]);
        let ended = Event {
            op: Op::Write,
            ..flush
        };
        assert_eq!(
            read(&[(10, What::Queue, flush), (15, What::Complete, ended)]),
            [(10, 5)]
        );
        // The next one waits until the first has ended.
        let two = [
            (10, What::Queue, flush),
            (15, What::Issue, flush),
            (20, What::Queue, flush),
            (25, What::Complete, flush),
            (26, What::Complete, ended),
            (27, What::Complete, ended),
        ];
        assert_eq!(read(&two), [(10, 15)]);
    }

    #[test]
    fn of_completions_that_are_not_in_the_log_nothing_is_said() {
        let ended: Vec<_> = (0..100).map(|at| (at * 10, Some(at * 10 + 5))).collect();
        let lost: Vec<_> = (0..101).map(|at| (at * 9, None)).collect();
        assert_eq!(operations(&[&ended[..], &lost[..]].concat(), None), 100);
        assert_eq!(operations(&lost, None), 0);
        // Files of some CPUs are missing.
        assert_eq!(operations(&[&ended[..], &lost[..3]].concat(), Some("why")), 100);
        assert_eq!(operations(&[&ended[..], &lost[..3]].concat(), None), 103);
    }

    #[test]
    fn the_first_request_is_named_where_none_ended() {
        let (ops, missing) = of_one_place("QDQ", false);
        assert!(ops.is_empty());
        assert_eq!(
            missing,
            "1 request without a completion in the log (the first: read of 8 sectors at sector 8 of sda, issued at 0.000000 s)"
        );
    }
}

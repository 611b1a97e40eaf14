//! Events of block requests (bio queued, request issued, completed) become operations. Shared by the formats of tracers.
//!
//! A request begins when the first bio in it was queued and ends when its last sector completed; a requeued one is issued last when it is
//! issued last. What completes without having been issued (stacked devices that take bios) has one stage. What has no completion was in flight
//! when the log ended; of more than a device can have in flight, the completions are not in the log, and nothing is said of their time.
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
    unmatched: u64,
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
}

impl Requests {
    /// `device`: the name of the device, if the log has but one and does not say it.
    pub fn new(device: Option<String>) -> Requests {
        Requests {
            device,
            ..Requests::default()
        }
    }

    /// Completions may be missing, because of this: what has none says nothing.
    pub fn lacks_completions(&mut self, because: String) {
        self.lacks = Some(because);
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
        match event.what {
            What::Queue => self.queue(place, event),
            What::Insert if self.waits(place, &event) => {}
            What::Insert => self.queue(place, event),
            What::Split(at) => self.split(place, event.sector, at),
            What::Issue => self.issue(place, event),
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

    fn issue(&mut self, place: Place, event: Event) {
        let end = event.sector.saturating_add(event.count);
        if self.issued.len() >= ISSUED_MAX {
            self.forgotten += self.issued.len() as u64;
            self.issued.clear();
        }
        // Issued once more: it was requeued, and what counts is the last time.
        let before = self.issued.remove(&(place, event.sector));
        let queued = match self.take_waiting(place, event.sector, end) {
            Some(bio) => Some(bio),
            None => before
                .filter(|one| one.count == event.count)
                .and_then(|one| one.queued),
        };
        let request = Request {
            queued,
            issue_ns: event.time_ns,
            sector: event.sector,
            count: event.count,
            left: event.count,
            op: event.op,
            flags: event.flags,
            cpu: event.cpu,
        };
        self.issued.insert((place, event.sector), request);
    }

    fn complete(&mut self, place: Place, event: Event, sink: &mut Sink) -> Result<(), ImportError> {
        let Some(mut request) = self.issued.remove(&(place, event.sector)) else {
            let end = event.sector.saturating_add(event.count);
            return match self.take_waiting(place, event.sector, end) {
                Some(bio) => self.bio_done(&bio, &event, sink),
                // A write with nothing in it was queued to flush, which a request of its own did.
                None if event.count == 0 => match &self.flushed {
                    Some((of, ..)) if (of.0, of.1) == event.device => self.tell_flush(event.error, sink),
                    _ => Ok(()),
                },
                None => {
                    self.unmatched += u64::from(event.op != Op::Flush);
                    Ok(())
                }
            };
        };
        if event.count < request.left && event.error == 0 && event.count > 0 {
            request.left -= event.count;
            let next = event.sector.saturating_add(event.count);
            self.issued.insert((place, next), request);
            return Ok(());
        }
        self.ended += 1;
        self.last_end_ns = self.last_end_ns.max(event.time_ns);
        if request.op == Op::Flush {
            self.tell_flush(0, sink)?;
            self.flushed = Some((place, request, event));
            return Ok(());
        }
        self.done(place, &request, event.time_ns, Some(&event), sink)
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
        row.offset_bytes = if row.op == Op::Flush {
            None
        } else {
            sectors(sector)
        };
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
    fn why_without_completion(&self) -> Option<String> {
        if self.lacks.is_some() {
            return self.lacks.clone();
        }
        let none_ended = self.ended == 0;
        // What a device that stops completing leaves was issued after its last completion, but for what was in flight then.
        let earlier = self
            .issued
            .values()
            .filter(|request| request.issue_ns < self.last_end_ns);
        let earlier = earlier.count() as u64 + self.forgotten;
        let too_many = earlier > self.ended.min(IN_FLIGHT_MAX);
        let because = match (none_ended, too_many) {
            (true, _) => "no completion is in the log: none was traced, or no request ended",
            (false, true) => "no device has this many in flight: not all completions were traced",
            (false, false) => return None,
        };
        Some(because.into())
    }

    /// The log has ended: what is still in flight is open.
    pub fn end(mut self, sink: &mut Sink) -> Result<(), ImportError> {
        self.tell_flush(0, sink)?;
        let why = self.why_without_completion();
        let mut open: Vec<((Place, u64), Request)> = std::mem::take(&mut self.issued).into_iter().collect();
        let without = open.len() as u64 + self.forgotten;
        if let Some(because) = why.filter(|_| without > 0) {
            open.clear();
            let requests = counted(without, "request");
            let what = format!("slow ones among {requests} without a completion in the log");
            sink.missing(what, because);
        }
        open.sort_by_key(|(key, _)| *key);
        for ((place, _), request) in &open {
            self.done(*place, request, self.last_ns, None, sink)?;
        }
        if self.unmatched > 0 {
            let what = format!(
                "slow ones among {} without an issue in the log",
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
                format!("slow ones among {} that were queued", counted(self.waiting_count as u64, "bio")),
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
            let (mut names, mut silent) = (case::sealed::Names::default(), |_: u64| {});
            let mut sink = Sink::survey(&mut names, &mut silent, false);
            let mut reader = Requests::new(None);
            for event in events {
                reader.event(*event, &mut sink).unwrap();
            }
            let unmatched = reader.unmatched;
            reader.end(&mut sink).unwrap();
            (unmatched, sink.surveyed().ops.len())
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
    fn of_completions_that_are_not_in_the_log_nothing_is_said() {
        let ended: Vec<_> = (0..100).map(|at| (at * 10, Some(at * 10 + 5))).collect();
        let lost: Vec<_> = (0..101).map(|at| (at * 9, None)).collect();
        assert_eq!(operations(&[&ended[..], &lost[..]].concat(), None), 100);
        assert_eq!(operations(&lost, None), 0);
        // Files of some CPUs are missing.
        assert_eq!(operations(&[&ended[..], &lost[..3]].concat(), Some("why")), 100);
        assert_eq!(operations(&[&ended[..], &lost[..3]].concat(), None), 103);
    }
}

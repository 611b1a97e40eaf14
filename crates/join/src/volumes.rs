//! Bios of volumes (dm, md) in flight, and which of them a member's request was made for.
//!
//! The kernel tells of each bio below which place of the volume it comes from, and when. The volume's bio is the one in
//! flight then that covers the place and is of the same kind. Where several are, nothing is tied: their own time counts as
//! unknown then.
//!
//! Of flushes MD tells nothing: it sends a bio without data to each member, one flush at a time, which serves all bios that had asked for one when it
//! began (drivers/md/md.c, `md_flush_request`). Who the members are, data that were sent to them tell.
use crate::kernel;
use crate::sorted::{Sorted, Surveyed, Timed};
use crate::stages::{split_kernel, Part};
use crate::stream::Stream;
use case::rows::{BioMemberRow, BioRow, BlockRow};
use case::schema::{OpRow, Stage};
use case::CaseError;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

/// Two programs see one issue; the one that tells of members comes second, at most this much later.
const ISSUE_NS: u64 = 10_000_000;
/// Volumes on volumes that are followed.
const LEVELS: usize = 8;
const OP_MASK: u32 = 0xff;

impl Timed for BioRow {
    fn start_ns(&self) -> u64 {
        self.queue_ns
    }
    fn end_ns(&self) -> Option<u64> {
        (self.complete_ns != 0).then_some(self.complete_ns)
    }
    fn ties(&self) -> (u64, u64) {
        (self.complete_ns, self.sector_512)
    }
}

impl Timed for BioMemberRow {
    fn start_ns(&self) -> u64 {
        self.issue_ns
    }
    fn end_ns(&self) -> Option<u64> {
        Some(self.issue_ns)
    }
    fn ties(&self) -> (u64, u64) {
        (self.sector_512, self.origin_sector_512)
    }
}

/// A volume's bio as the request that it resembles.
pub(crate) fn as_request(bio: &BioRow) -> BlockRow {
    BlockRow {
        op_id: bio.op_id,
        queue_ns: bio.queue_ns,
        complete_ns: bio.complete_ns,
        sector_512: bio.sector_512,
        size_bytes: bio.size_bytes,
        cmd_flags: bio.cmd_flags,
        device: bio.device,
        pid: bio.pid,
        tid: bio.tid,
        vector: -1,
        error: bio.error,
        cpu: bio.cpu,
        complete_cpu: bio.complete_cpu,
        owner_key: bio.owner_key,
        inode: bio.inode,
        file_offset_bytes: bio.file_offset_bytes,
        cgroup: bio.cgroup,
        file_device: bio.file_device,
        flags: bio.flags,
        comm: bio.comm,
        ..BlockRow::default()
    }
}

/// What the first pass found.
#[derive(Debug)]
pub struct VolumeSurvey {
    /// Bios of volumes.
    pub bios: Surveyed<BioRow>,
    /// What became of them.
    pub members: Surveyed<BioMemberRow>,
    /// Whether there is any.
    pub any: bool,
    /// The devices that each volume sent bios to.
    members_of: HashMap<u32, BTreeSet<u32>>,
}

impl VolumeSurvey {
    /// Reads both streams once.
    pub fn of(
        bios: Option<&dyn Stream<BioRow>>,
        members: Option<&dyn Stream<BioMemberRow>>,
    ) -> Result<VolumeSurvey, CaseError> {
        let mut any = false;
        let mut members_of: HashMap<u32, BTreeSet<u32>> = HashMap::new();
        let mut learn = |member: &BioMemberRow| {
            members_of
                .entry(member.origin_device)
                .or_default()
                .insert(member.device);
        };
        Ok(VolumeSurvey {
            bios: Surveyed::of(bios, |_| any = true)?,
            members: Surveyed::of(members, &mut learn)?,
            any,
            members_of,
        })
    }
}

/// A bio of a volume in flight.
#[derive(Debug)]
struct Volume {
    row: BioRow,
    sealed: OpRow,
    end_ns: u64,
    /// Requests of members, however far down.
    parts: Vec<Part>,
    /// The bio of the volume above that this one was made for.
    parent: Option<u64>,
    /// A request below may be this one's, or another's.
    ambiguous: bool,
}

/// A place that a bio of a volume is looked for by.
#[derive(Clone, Copy, Debug)]
struct Place {
    device: u32,
    time_ns: u64,
    sector_512: u64,
    size_bytes: u32,
    cmd_flags: u32,
}

/// A request of a member; the bios of its volumes may not all have begun.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    /// Its number.
    pub id: u64,
    /// Its times.
    pub part: Part,
    /// Its device.
    pub device: u32,
    members: Vec<BioMemberRow>,
}

/// A request of a member, tied to a bio of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tie {
    /// Number of the volume's bio.
    pub volume: u64,
    /// Bytes of the request that come from it.
    pub bytes: u64,
    /// The bio of the topmost volume, which stands in place of the request to whoever is above.
    pub top: BioRow,
}

/// How a search for a bio ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    One(u64),
    Several(Vec<u64>),
    None,
}

/// Bios by their place on one volume.
#[derive(Debug, Default)]
struct Places {
    by_sector: BTreeSet<(u64, u64)>,
    sectors_max: u64,
}

/// The volumes of a case on their way through a seal.
pub(crate) struct Volumes<'a> {
    bios: Sorted<'a, BioRow>,
    members: Sorted<'a, BioMemberRow>,
    /// Whether there is any bio in this case.
    pub any: bool,
    members_of: HashMap<u32, BTreeSet<u32>>,
    /// Members with a request that has not come yet, by its place.
    coming: HashMap<(u32, u64), Vec<BioMemberRow>>,
    in_flight: HashMap<u64, Volume>,
    by_device: HashMap<u32, Places>,
    by_end: BinaryHeap<Reverse<(u64, u64)>>,
    /// Requests that were begun before the bio that was merged into them, by the time when all of them have begun.
    pending: BTreeMap<(u64, u64), Pending>,
    /// Requests of members that were tied.
    pub tied: u64,
    /// Bios of members that fitted several bios of a volume.
    pub ambiguous: u64,
    /// Bios of members that fitted none.
    pub lost: u64,
}

impl<'a> Volumes<'a> {
    /// Before the first bio.
    pub fn new(
        bios: Option<&'a dyn Stream<BioRow>>,
        members: Option<&'a dyn Stream<BioMemberRow>>,
        survey: &VolumeSurvey,
    ) -> Result<Volumes<'a>, CaseError> {
        Ok(Volumes {
            bios: Sorted::new(bios, &survey.bios)?,
            members: Sorted::new(members, &survey.members)?,
            any: survey.any,
            members_of: survey.members_of.clone(),
            coming: HashMap::new(),
            in_flight: HashMap::new(),
            by_device: HashMap::new(),
            by_end: BinaryHeap::new(),
            pending: BTreeMap::new(),
            tied: 0,
            ambiguous: 0,
            lost: 0,
        })
    }

    /// Rows held now.
    pub fn rows_held(&self) -> usize {
        self.in_flight.len() + self.coming.len() + self.pending.len()
    }

    /// When the next bio is queued.
    pub fn next_ns(&self) -> Option<u64> {
        self.bios.peek().map(|bio| bio.queue_ns)
    }

    /// Takes the next bio.
    pub fn take(&mut self) -> Result<Option<BioRow>, CaseError> {
        self.bios.take()
    }

    /// A bio begins; `sealed` is its row but for the stages. Returns the number of the bio above that it was made for.
    pub fn begin(&mut self, row: BioRow, sealed: OpRow, end_ns: u64) -> Option<u64> {
        let parent = match row.origin_ns {
            0 => None,
            origin_ns => self.resolve(Place {
                device: row.origin_device,
                time_ns: origin_ns,
                sector_512: row.origin_sector_512,
                size_bytes: row.size_bytes,
                cmd_flags: row.cmd_flags,
            }),
        };
        let id = sealed.op_id;
        let places = self.by_device.entry(row.device).or_default();
        places.by_sector.insert((row.sector_512, id));
        places.sectors_max = places.sectors_max.max(u64::from(row.size_bytes).div_ceil(512));
        self.by_end.push(Reverse((end_ns, id)));
        self.in_flight.insert(
            id,
            Volume {
                row,
                sealed,
                end_ns,
                parts: Vec::new(),
                parent,
                ambiguous: false,
            },
        );
        parent
    }

    /// The bio in flight that covers a place; counts it where there is not exactly one.
    fn resolve(&mut self, place: Place) -> Option<u64> {
        match self.find(place) {
            Found::One(id) => return Some(id),
            Found::None => self.lost += 1,
            Found::Several(ids) => {
                self.ambiguous += 1;
                for id in ids {
                    if let Some(volume) = self.in_flight.get_mut(&id) {
                        volume.ambiguous = true;
                    }
                }
            }
        }
        None
    }

    fn find(&self, place: Place) -> Found {
        let Some(places) = self.by_device.get(&place.device) else {
            return Found::None;
        };
        let sector = place.sector_512;
        let covers = |id: &u64| {
            self.in_flight.get(id).is_some_and(|volume| {
                let row = &volume.row;
                let end = row.sector_512 * 512 + u64::from(row.size_bytes);
                row.cmd_flags & OP_MASK == place.cmd_flags & OP_MASK
                    && (row.queue_ns..=volume.end_ns).contains(&place.time_ns)
                    && sector * 512 + u64::from(place.size_bytes) <= end
                    && (row.size_bytes == 0) == (place.size_bytes == 0)
            })
        };
        let near = (sector.saturating_sub(places.sectors_max), 0)..=(sector, u64::MAX);
        let ids: Vec<u64> = places
            .by_sector
            .range(near)
            .map(|(_, id)| *id)
            .filter(covers)
            .collect();
        match ids[..] {
            [] => Found::None,
            [id] => Found::One(id),
            _ => Found::Several(ids),
        }
    }

    /// What a request holds that comes from volumes; `None`: nothing. To be asked in order of entry.
    pub fn of_request(&mut self, row: &BlockRow, id: u64, part: Part) -> Result<Option<Pending>, CaseError> {
        if !self.any || row.issue_first_ns == 0 {
            return Ok(None);
        }
        let until_ns = row.issue_first_ns.saturating_add(ISSUE_NS);
        while self
            .members
            .peek()
            .is_some_and(|member| member.issue_ns <= until_ns)
        {
            if let Some(member) = self.members.take()? {
                let place = (member.device, member.sector_512);
                self.coming.entry(place).or_default().push(member);
            }
        }
        let Some(coming) = self.coming.get_mut(&(row.device, row.sector_512)) else {
            return Ok(None);
        };
        // No request that is still to come was issued before this one entered.
        coming.retain(|member| member.issue_ns >= part.entry_ns);
        let alike = |member: &BioMemberRow| {
            member.request_bytes == row.size_bytes
                && member.hctx == row.hctx
                && member.cmd_flags & OP_MASK == row.cmd_flags & OP_MASK
                && (row.issue_first_ns..=until_ns).contains(&member.issue_ns)
        };
        let issue_ns = coming
            .iter()
            .filter(|member| alike(member))
            .map(|member| member.issue_ns)
            .min();
        let its = |member: &mut BioMemberRow| alike(member) && Some(member.issue_ns) == issue_ns;
        let members: Vec<BioMemberRow> = coming.extract_if(.., its).collect();
        if coming.is_empty() {
            self.coming.remove(&(row.device, row.sector_512));
        }
        Ok((!members.is_empty()).then_some(Pending {
            id,
            part,
            device: row.device,
            members,
        }))
    }

    /// A flush of a member, and the bios that it serves: those that had asked their volume for one when it began. `None`: it is none, or several volumes' bios did.
    pub fn of_flush(
        &mut self,
        row: &BlockRow,
        id: u64,
        entry_ns: u64,
        part: Part,
    ) -> Option<(Pending, Vec<Tie>)> {
        if !self.any || row.size_bytes != 0 || !kernel::asks_for_flush(row.cmd_flags) {
            return None;
        }
        let asked = |volume: &Volume| {
            let above = self.members_of.get(&volume.row.device);
            kernel::asks_for_flush(volume.row.cmd_flags)
                && (volume.row.queue_ns..=volume.end_ns).contains(&entry_ns)
                && above.is_some_and(|members| members.contains(&row.device))
        };
        let mut ids: Vec<u64> = Vec::new();
        let mut volumes: BTreeSet<u32> = BTreeSet::new();
        for (id, volume) in self.in_flight.iter().filter(|(_, volume)| asked(volume)) {
            ids.push(*id);
            volumes.insert(volume.row.device);
        }
        if volumes.len() != 1 {
            return None;
        }
        ids.sort_unstable();
        self.tied += 1;
        let tie = |volume| {
            let top = self.add_below(volume, part)?;
            Some(Tie {
                volume,
                bytes: 0,
                top,
            })
        };
        let ties = ids.into_iter().filter_map(tie).collect();
        let request = Pending {
            id,
            part,
            device: row.device,
            members: Vec::new(),
        };
        Some((request, ties))
    }

    /// Ties a request if all bios that may be its have begun by `now_ns`; otherwise that is done later, by [`Volumes::due`].
    pub fn tie_at(&mut self, now_ns: u64, request: Pending) -> Option<(Pending, Vec<Tie>)> {
        let last_ns = request.members.iter().map(|member| member.origin_ns).max();
        let last_ns = last_ns.unwrap_or(0);
        if last_ns > now_ns {
            self.pending.insert((last_ns, request.id), request);
            return None;
        }
        let ties = self.tie(&request);
        Some((request, ties))
    }

    /// The next request with all its volumes' bios begun before `now_ns`: when they had, and what it is tied to.
    pub fn due(&mut self, now_ns: u64) -> Option<(u64, Pending, Vec<Tie>)> {
        let (&(last_ns, _), _) = self.pending.first_key_value()?;
        if last_ns >= now_ns && now_ns != u64::MAX {
            return None;
        }
        let (_, request) = self.pending.pop_first()?;
        let ties = self.tie(&request);
        Some((last_ns, request, ties))
    }

    fn tie(&mut self, request: &Pending) -> Vec<Tie> {
        let mut bytes: BTreeMap<u64, u64> = BTreeMap::new();
        for member in &request.members {
            let found = self.resolve(Place {
                device: member.origin_device,
                time_ns: member.origin_ns,
                sector_512: member.origin_sector_512,
                size_bytes: member.origin_bytes,
                cmd_flags: member.cmd_flags,
            });
            if let Some(id) = found {
                *bytes.entry(id).or_default() += u64::from(member.size_bytes);
            }
        }
        self.tied += u64::from(!bytes.is_empty());
        let tie = |(volume, bytes): (u64, u64)| {
            let top = self.add_below(volume, request.part)?;
            Some(Tie { volume, bytes, top })
        };
        bytes.into_iter().filter_map(tie).collect()
    }

    /// Notes a request below a bio and below all that are above it; returns the topmost.
    fn add_below(&mut self, volume: u64, part: Part) -> Option<BioRow> {
        let mut next = Some(volume);
        let mut top = None;
        for _ in 0..LEVELS {
            let Some(volume) = next.and_then(|id| self.in_flight.get_mut(&id)) else {
                break;
            };
            volume.parts.push(part);
            top = Some(volume.row);
            next = volume.parent;
        }
        top
    }

    /// The next bio that ended before `now_ns`: its row, with its stages.
    pub fn end_before(&mut self, now_ns: u64, interrupts_watched: bool) -> Option<OpRow> {
        let Reverse((end_ns, id)) = self.by_end.peek().copied()?;
        if end_ns >= now_ns && now_ns != u64::MAX {
            return None;
        }
        self.by_end.pop();
        let mut volume = self.in_flight.remove(&id)?;
        if let Some(places) = self.by_device.get_mut(&volume.row.device) {
            places.by_sector.remove(&(volume.row.sector_512, id));
        }
        volume.sealed.stages = stages(&mut volume, interrupts_watched);
        Some(volume.sealed)
    }
}

/// The volume's own time is that in which no request of a member was in flight.
fn stages(volume: &mut Volume, interrupts_watched: bool) -> [Option<i64>; 9] {
    let below = split_kernel(volume.row.queue_ns, volume.end_ns, &mut volume.parts);
    let throttle_seen = volume.sealed.stages[Stage::Throttle as usize].is_some();
    let own_ns = below.fs_ns + if throttle_seen { 0 } else { below.throttle_ns };
    let (fs_ns, unknown_ns) = if volume.ambiguous {
        (0, own_ns)
    } else {
        (own_ns, 0)
    };
    let mut stages = [None; 9];
    let mut set = |stage: Stage, ns: u64| stages[stage as usize] = Some(ns as i64);
    set(Stage::Fs, fs_ns);
    if throttle_seen {
        set(Stage::Throttle, below.throttle_ns);
    }
    set(Stage::Queue, below.queue_ns);
    if interrupts_watched {
        set(Stage::Device, below.device_ns);
        set(Stage::Interrupt, below.interrupt_ns);
    } else {
        set(Stage::Device, below.device_ns + below.interrupt_ns);
    }
    set(Stage::Unknown, unknown_ns);
    stages
}

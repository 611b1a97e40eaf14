//! Builds the stack of a plan: which parts there are, how they are connected, what they are called.
use crate::component::{CacheModel, Component, ComponentId, DriveModel};
use crate::components::array::{self, Array};
use crate::components::clients::Clients;
use crate::components::drive::Drive;
use crate::components::fitted_drive::FittedDrive;
use crate::components::host::{Host, FIRST_TID};
use crate::components::interrupts::{self, Interrupts};
use crate::components::load::{Load, Target};
use crate::components::network::Network;
use crate::components::pages::{prefetch_parameters, Pages, Tier};
use crate::components::parity::Rows;
use crate::components::placement::Placement;
use crate::components::protocol::{Protocol, Rules};
use crate::components::replay::{Replay, To};
use crate::components::server::{self, Below, Server};
use crate::components::simple_drive::SimpleDrive;
use crate::components::slowness::Slowness;
use crate::components::throttle::Throttle;
use crate::components::volume::{Geometry, Shape, Volume};
use crate::components::writeback::{Limits, Writeback};
use crate::error::LabError;
use crate::faults::Plan;
use crate::keys::Section;
use crate::models::allocator::{Allocator, AllocatorParameters, FileId, BLOCK_BYTES};
use crate::models::cache::{Cache, PolicyKind};
use crate::models::guest_fs::GuestFile;
use crate::models::hdd::{Hdd, HddParameters};
use crate::models::prefetch::Prefetcher;
use crate::models::ssd::{Ssd, SsdParameters};
use crate::models::ParameterError;
use crate::recorder::Recorder;
use crate::request::Level;
use crate::sim::{stream, Sim};
use crate::writer::{Cast, Thread};
use case::meta::{DeviceMeta, SystemMeta};
use workload::rng::Rng;
use workload::spec::Targets;
use workload::units;

/// First byte of files on the volume.
const FIRST_BYTE: u64 = 1 << 20;

/// Thread numbers of other load and of the file server begin here.
const OTHER_TID: i32 = 5001;

/// Process and thread of a part beside the workload.
fn other_thread(n: usize, comm: &str) -> Thread {
    let tid = OTHER_TID + n as i32;
    Thread {
        pid: tid,
        tid,
        comm: comm.into(),
    }
}

/// Names and sizes of a stack, before it is built.
pub struct Layout {
    /// Names of rows.
    pub cast: Cast,
    /// Usable size of each target.
    pub sizes_bytes: Vec<u64>,
    /// Thread of the file server.
    server_thread: u16,
    /// Thread of the first load.
    load_thread: u16,
    volume_bytes: u64,
    drive_bytes: u64,
}

impl Layout {
    /// Names and sizes of a plan. Errors: the files do not fit on the volume.
    pub fn new(plan: &Plan) -> Result<Layout, LabError> {
        let scenario = &plan.scenario;
        let drive_bytes = scenario.section("device").whole("size");
        let volume_bytes = match geometry(plan) {
            Some(geometry) => geometry.size_bytes(drive_bytes),
            None => drive_bytes,
        };
        let mut cast = Cast {
            host: scenario.section("host").text("name").into(),
            devices: scenario.drive_names(),
            files: scenario.workload.target_names(),
            threads: Vec::new(),
        };
        if copies(plan) {
            let twins: Vec<String> = cast.files.iter().map(|name| format!("{name}.copy")).collect();
            cast.files.extend(twins);
        }
        if scenario.has("volume") {
            cast.devices.push(scenario.section("volume").text("name").into());
        }
        if scenario.has("ssd_tier") {
            cast.devices.push("ssdtier0".into());
        }
        let comm = match scenario.has("protocol") {
            true => "client",
            false => "whodisk-app",
        };
        cast.threads = (0..scenario.workload.workers as i32)
            .map(|worker| Thread {
                pid: FIRST_TID - 1,
                tid: FIRST_TID + worker,
                comm: comm.into(),
            })
            .collect();
        let server_thread = cast.threads.len() as u16;
        cast.threads.push(other_thread(0, "fileserver"));
        let load_thread = cast.threads.len() as u16;
        let loads = plan.loads.iter().enumerate();
        cast.threads
            .extend(loads.map(|(n, (_, pattern))| other_thread(n + 1, &pattern.comm)));
        let sizes_bytes = sizes(plan, volume_bytes)?;
        Ok(Layout {
            cast,
            sizes_bytes,
            server_thread,
            load_thread,
            volume_bytes,
            drive_bytes,
        })
    }
}

impl Layout {
    /// Usable size of the volume, or of the drive.
    pub fn volume_bytes(&self) -> u64 {
        self.volume_bytes
    }
}

fn copies(plan: &Plan) -> bool {
    plan.scenario.has("protocol") && Rules::new(plan.scenario.section("protocol")).copies()
}

/// Size of each target: `file_size`, else an equal share of half the volume.
fn sizes(plan: &Plan, volume_bytes: u64) -> Result<Vec<u64>, LabError> {
    let spec = &plan.scenario.workload;
    let count = match &spec.targets {
        Targets::Null => 1,
        Targets::Paths(paths) => paths.len() as u64,
    };
    let files = if copies(plan) { 2 * count } else { count };
    let room = volume_bytes.saturating_sub(2 * FIRST_BYTE);
    let share = room / 2 / files / FIRST_BYTE * FIRST_BYTE;
    let size = spec.file_size_bytes.unwrap_or(share);
    let needed = size.next_multiple_of(FIRST_BYTE) * files;
    if needed > room || size < u64::from(spec.block_size_max()) {
        return Err(LabError::key(
            &plan.scenario.file,
            "workload.file_size",
            format!(
                "{files} files that fit on a volume of {}",
                units::format_size(volume_bytes)
            ),
            units::format_size(size),
            "lower it, or raise device.size or device.count",
        ));
    }
    Ok(vec![size; count as usize])
}

fn geometry(plan: &Plan) -> Option<Geometry> {
    let volume = plan
        .scenario
        .has("volume")
        .then(|| plan.scenario.section("volume"))?;
    let shape = match volume.text("kind") {
        "mirror" => Shape::Mirror,
        "erasure" => Shape::Erasure {
            data: volume.whole("data"),
            parity: volume.whole("parity"),
        },
        _ => Shape::Stripe,
    };
    Some(Geometry {
        shape,
        drives: plan.scenario.section("device").whole("count") as usize,
        chunk_bytes: volume.whole("chunk"),
        missing: match shape {
            Shape::Stripe => 0,
            _ => volume.whole("missing") as usize,
        },
    })
}

fn check_geometry(plan: &Plan, geometry: &Geometry) -> Result<(), LabError> {
    let file = &plan.scenario.file;
    let (width, spare) = match geometry.shape {
        Shape::Stripe => (1, 0),
        Shape::Mirror => (2, geometry.drives as u64 - 1),
        Shape::Erasure { data, parity } => (data + parity, parity),
    };
    if (geometry.drives as u64) < width {
        let found = geometry.drives.to_string();
        let expected = format!("{width} drives or more for this volume");
        return Err(LabError::key(
            file,
            "device.count",
            expected,
            found,
            "raise it, or lower volume.data",
        ));
    }
    if geometry.missing as u64 > spare {
        let found = geometry.missing.to_string();
        return Err(LabError::key(
            file,
            "volume.missing",
            format!("0 to {spare}"),
            found,
            "lower it",
        ));
    }
    Ok(())
}

/// Builds the whole stack; `recorder` gets its rows.
pub fn build(plan: &Plan, layout: &Layout, recorder: Recorder) -> Result<Sim, LabError> {
    let mut builder = Builder {
        plan,
        layout,
        seed: plan.scenario.workload.seed,
        sim: Sim::new(recorder, plan.scenario.root.whole("sample")),
    };
    let interrupts = builder.interrupts();
    let drives = builder.drives(interrupts)?;
    let volume = builder.volume(&drives)?;
    let below = builder.throttle(volume);
    let server = builder.storage(below)?;
    let top = builder.protocol(server);
    builder.loads(volume, &drives);
    builder.clients(top);
    Ok(builder.sim)
}

/// Where a replay enters the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Top {
    /// As clients do.
    Whole,
    /// At the volume, or the drive.
    Volume,
}

/// Builds the stack with a replay, made by `replay`, in the place of its clients.
pub fn build_replay(
    plan: &Plan,
    layout: &Layout,
    recorder: Recorder,
    top: Top,
    replay: impl FnOnce(To) -> Replay,
) -> Result<Sim, LabError> {
    let mut builder = Builder {
        plan,
        layout,
        seed: plan.scenario.workload.seed,
        sim: Sim::new(recorder, 0),
    };
    let interrupts = builder.interrupts();
    let drives = builder.drives(interrupts)?;
    let volume = builder.volume(&drives)?;
    let below = builder.throttle(volume);
    let to = match top {
        Top::Volume => To::Device(below),
        Top::Whole => {
            let server = builder.storage(below)?;
            To::Top(builder.protocol(server), builder.host())
        }
    };
    builder.loads(volume, &drives);
    let replay = builder.sim.add(Box::new(replay(to)));
    builder.sim.wake(replay, 0);
    Ok(builder.sim)
}

struct Builder<'a> {
    plan: &'a Plan,
    layout: &'a Layout,
    seed: u64,
    sim: Sim,
}

impl Builder<'_> {
    fn section(&self, name: &str) -> &Section {
        self.plan.scenario.section(name)
    }

    fn cpus(&self) -> usize {
        self.section("host").whole("cpus") as usize
    }

    fn interrupts(&mut self) -> Option<ComponentId> {
        let part = make_interrupts(self.plan, self.seed)?;
        let id = self.sim.add(Box::new(part));
        self.sim.wake(id, 0);
        Some(id)
    }

    fn drives(&mut self, interrupts: Option<ComponentId>) -> Result<Vec<ComponentId>, LabError> {
        let device = self.section("device").clone();
        let names = self.plan.scenario.drive_names();
        let mut ids = Vec::new();
        for (n, name) in names.iter().enumerate() {
            let model = drive_model(self.plan, self.layout.drive_bytes, self.seed, name)?;
            let own = |at: &usize| *at == n;
            let slow = self
                .plan
                .slow
                .iter()
                .filter(|(at, _)| own(at))
                .map(|(_, slow)| *slow);
            let pauses = self
                .plan
                .pauses
                .iter()
                .filter(|(at, _)| own(at))
                .map(|(_, pauses)| *pauses);
            let rng = stream(self.seed, &format!("{name} slowness"));
            let errors = self.plan.errors.iter().filter(|(at, _)| own(at));
            let slowness = Slowness::new(slow.collect(), pauses.collect(), rng)
                .with_errors(errors.map(|(_, errors)| *errors).collect());
            let tags = device.whole("tags") as usize;
            let stalls = self.plan.queue_stalls.iter().filter(|(at, _)| own(at));
            let drive = Drive::new(name, model, slowness, tags, interrupts)
                .with_stalls(stalls.map(|(_, stall)| *stall).collect());
            ids.push(self.sim.add(Box::new(drive)));
        }
        Ok(ids)
    }

    fn volume(&mut self, drives: &[ComponentId]) -> Result<Below, LabError> {
        let Some(geometry) = geometry(self.plan) else {
            return Ok(Below {
                id: drives[0],
                level: Level::Block,
                device: 0,
            });
        };
        check_geometry(self.plan, &geometry)?;
        let section = self.section("volume").clone();
        let volume = Volume::new(
            section.text("name"),
            geometry,
            drives.to_vec(),
            section.whole("hedge"),
        );
        Ok(Below {
            id: self.sim.add(Box::new(volume)),
            level: Level::Volume,
            device: drives.len() as u16,
        })
    }

    fn throttle(&mut self, below: Below) -> Below {
        if self.plan.limits.is_empty() {
            return below;
        }
        let part = Throttle::new(below.id, self.plan.limits.clone());
        Below {
            id: self.sim.add(Box::new(part)),
            ..below
        }
    }

    /// What clients or their protocol talk to.
    fn storage(&mut self, below: Below) -> Result<ComponentId, LabError> {
        match self.plan.scenario.has("array") {
            true => self.array(below),
            false => Ok(self.server(below)),
        }
    }

    fn array(&mut self, below: Below) -> Result<ComponentId, LabError> {
        let section = self.section("array").clone();
        let rows = self.rows(&section)?;
        let contents = self.array_contents(&section, rows)?;
        let rules = array::Rules {
            half_blocks: (section.whole("nvram") / 2 / BLOCK_BYTES) as usize,
            interval_ns: section.whole("interval"),
            depth: section.whole("depth") as usize,
            cluster_blocks: (section.whole("cluster") / BLOCK_BYTES) as u32,
            memory_ns: section.whole("write"),
            max_io_bytes: self.section("server").whole("max_io") as u32,
            rows,
        };
        let blocks = self.section("cache").whole("size") / BLOCK_BYTES;
        let cache = policy(PolicyKind::Lru, blocks as usize);
        let id = self
            .sim
            .add(Box::new(Array::new(below, rules, contents, Box::new(cache))));
        self.sim.wake(id, 0);
        Ok(id)
    }

    /// Rows of an array over its volume. Errors: parity without enough drives for it.
    fn rows(&self, section: &Section) -> Result<Rows, LabError> {
        let parity = section.whole("parity") as u32;
        let geometry = geometry(self.plan).filter(|geometry| geometry.shape == Shape::Stripe);
        let drives = geometry.as_ref().map_or(1, |geometry| geometry.drives as u32);
        if parity > 0 && drives < parity + 2 {
            return Err(LabError::key(
                &self.plan.scenario.file,
                "array.parity",
                format!("a [volume] of kind stripe over {} drives or more", parity + 2),
                format!("{drives}"),
                "raise device.count, or set array.parity = 0",
            ));
        }
        Ok(Rows {
            data: drives - parity,
            parity,
            chunk_blocks: geometry.map_or(1, |geometry| (geometry.chunk_bytes / BLOCK_BYTES) as u32),
        })
    }

    /// The array as it is at the beginning: files written, other data around them, aged, reallocated.
    fn array_contents(&mut self, section: &Section, rows: Rows) -> Result<array::Contents, LabError> {
        let file = self.plan.scenario.file.clone();
        let refused = |error: ParameterError| {
            let key = format!("array.{}", error.key);
            LabError::key(&file, key, error.expected, error.found, "correct it")
        };
        let mut rng = stream(self.seed, "array");
        let files_bytes: u64 = self.layout.sizes_bytes.iter().sum();
        let blocks = (files_bytes.div_ceil(BLOCK_BYTES) as f64 * section.real("capacity")) as u64 + 1024;
        let first_byte = match rows.parity {
            0 => FIRST_BYTE,
            parity => u64::from((rows.data + parity) * rows.chunk_blocks) * BLOCK_BYTES,
        };
        let room = self.layout.volume_bytes.saturating_sub(first_byte) / BLOCK_BYTES * u64::from(rows.data)
            / u64::from(rows.data + rows.parity);
        if blocks > room.min(1 << 31) {
            let most = (room.min(1 << 31) * BLOCK_BYTES) as f64 / section.real("capacity");
            let expected = format!(
                "at most {} in all",
                units::format_size(most as u64 / FIRST_BYTE * FIRST_BYTE)
            );
            let found = units::format_size(files_bytes);
            return Err(LabError::key(
                &file,
                "workload.file_size",
                expected,
                found,
                "lower it, or raise device.size",
            ));
        }
        let mut parameters = AllocatorParameters::with_blocks(blocks as u32);
        parameters.score_threshold = section.real("threshold");
        if rows.parity > 0 {
            // Areas are whole rows, so that an empty one is written without reads.
            let many = parameters.area_blocks.div_ceil(rows.data_blocks());
            parameters.area_blocks = (many * rows.data_blocks()).min(1 << 20);
        }
        let mut allocator = Allocator::new(parameters).map_err(refused)?;
        let other = section.real("full") - files_bytes as f64 / (blocks * BLOCK_BYTES) as f64;
        let spare = blocks as f64 * (1.0 - section.real("full"));
        let nvram_blocks = (section.whole("nvram") / BLOCK_BYTES) as f64;
        if other < 0.0 || spare < nvram_blocks {
            let most = 1.0 - nvram_blocks / blocks as f64;
            let least = 100.0 / section.real("capacity");
            let expected = format!(
                "{least:.1}% (the files) to {:.1}% (room for a checkpoint)",
                most * 100.0
            );
            let found = format!("{:.1}%", section.real("full") * 100.0);
            return Err(LabError::key(&file, "array.full", expected, found, "correct it"));
        }
        let hole_blocks = (section.whole("holes") / BLOCK_BYTES).max(1) as u32;
        allocator
            .occupy(other.min(0.99), hole_blocks, &mut rng)
            .map_err(refused)?;
        let mut files = Vec::new();
        for size in &self.layout.sizes_bytes {
            let disk_bytes = (*size as f64 * section.real("guest_disk")) as u64;
            let guest = match section.whole("guest_piece") {
                0 => GuestFile::contiguous(0, *size),
                piece => GuestFile::fragmented(*size, piece, disk_bytes, &mut rng).map_err(refused)?,
            };
            let disk = allocator.create(disk_bytes.div_ceil(BLOCK_BYTES) as u32);
            files.push((guest, disk));
        }
        let mut age = Ageing {
            allocator,
            files,
            step_blocks: nvram_blocks as u32 / 2,
        };
        age.write_all();
        age.overwrite(section.real("overwritten"), &mut rng);
        if section.flag("reallocated") {
            age.reallocate();
            age.overwrite(section.real("used_after"), &mut rng);
        }
        Ok(array::Contents {
            allocator: age.allocator,
            files: age.files,
            first_byte,
        })
    }

    fn server(&mut self, below: Below) -> ComponentId {
        let section = self.section("server").clone();
        let costs = server::Costs {
            syscall_ns: self.section("host").whole("syscall"),
            request_ns: section.whole("request"),
            per_mib_ns: section.whole("per_mib"),
            write_per_mib_ns: section.whole("write_per_mib"),
            max_io_bytes: section.whole("max_io") as u32,
        };
        let mut sizes = self.layout.sizes_bytes.clone();
        if copies(self.plan) {
            sizes.extend(self.layout.sizes_bytes.iter());
        }
        let mut rng = stream(self.seed, "placement");
        let placement = Placement::new(&sizes, FIRST_BYTE, section.whole("piece"), &mut rng);
        let tier = self.tier();
        let pages = self.pages(tier);
        let writeback = self.plan.scenario.has("writeback").then(|| self.writeback());
        let threads = section.whole("threads") as usize;
        let server = Server::new(below, costs, threads, placement, pages, writeback);
        self.sim.add(Box::new(server))
    }

    fn writeback(&self) -> Writeback {
        let section = self.section("writeback");
        let limits = Limits {
            background_bytes: section.whole("background"),
            limit_bytes: section.whole("limit"),
            age_ns: section.whole("age"),
            interval_ns: section.whole("interval"),
            depth: section.whole("depth") as usize,
            cluster_bytes: section.whole("cluster"),
        };
        Writeback::new(self.section("cache").whole("page"), limits)
    }

    fn tier(&mut self) -> Option<Tier> {
        if !self.plan.scenario.has("ssd_tier") {
            return None;
        }
        let section = self.section("ssd_tier").clone();
        let device = self.layout.cast.devices.len() - 1;
        let name = self.layout.cast.devices[device].clone();
        let chunk_bytes = section.whole("chunk");
        // An address keeps its place on the tier: as large as the volume, of which it holds a part.
        let model = SimpleDrive::tier(&section, self.layout.volume_bytes, stream(self.seed, &name));
        let slowness = Slowness::new(Vec::new(), Vec::new(), stream(self.seed, "tier slowness"));
        let drive = Drive::new(&name, Box::new(model), slowness, 1023, None);
        let id = self.sim.add(Box::new(drive));
        let chunks = (section.whole("size") / chunk_bytes).max(2) as usize;
        let mut held = policy(PolicyKind::Lru, chunks);
        if section.flag("filled") {
            let all = self.layout.volume_bytes / chunk_bytes;
            (0..all.min(chunks as u64)).for_each(|chunk| {
                held.insert(chunk);
            });
        }
        Some(Tier {
            model: Box::new(held),
            below: Below {
                id,
                level: Level::Block,
                device: device as u16,
            },
            chunk_bytes,
        })
    }

    fn pages(&mut self, tier: Option<Tier>) -> Option<Pages> {
        if !self.plan.scenario.has("cache") {
            return None;
        }
        let cache = self.section("cache");
        let page_bytes = cache.whole("page").next_power_of_two();
        let pages = (cache.whole("size") / page_bytes).max(2) as usize;
        let kind = PolicyKind::from_name(cache.text("policy")).unwrap_or(PolicyKind::Lru);
        let prefetcher = self.plan.scenario.has("prefetch").then(|| {
            let parameters = prefetch_parameters(self.section("prefetch"));
            Prefetcher::new(parameters).expect("the keys have the ranges of the model")
        });
        let spinning = self.section("device").text("kind") == "hdd";
        Some(Pages::new(
            Box::new(policy(kind, pages)),
            page_bytes,
            prefetcher,
            tier,
            spinning,
        ))
    }

    fn protocol(&mut self, server: ComponentId) -> ComponentId {
        if !self.plan.scenario.has("protocol") {
            return server;
        }
        let rules = Rules::new(self.section("protocol"));
        let networks = (self.network("network forth"), self.network("network back"));
        let thread = self.layout.server_thread;
        let part = Protocol::new(rules, server, networks, thread, self.layout.sizes_bytes.clone());
        self.sim.add(Box::new(part))
    }

    fn network(&self, name: &str) -> Network {
        let section = self.section("network");
        Network::new(
            section.whole("latency"),
            section.whole("bandwidth"),
            section.real("loss"),
            section.whole("retransmit"),
            self.plan.losses.clone(),
            stream(self.seed, name),
        )
    }

    fn loads(&mut self, volume: Below, drives: &[ComponentId]) {
        for (n, (name, pattern)) in self.plan.loads.iter().enumerate() {
            let target = match pattern.drive {
                Some(drive) => Target {
                    id: drives[drive],
                    level: Level::Block,
                    device: drive as u16,
                    size_bytes: self.layout.drive_bytes,
                },
                None => Target {
                    id: volume.id,
                    level: volume.level,
                    device: volume.device,
                    size_bytes: self.layout.volume_bytes,
                },
            };
            let thread = self.layout.load_thread + n as u16;
            let load = Load::new(name, pattern.clone(), target, thread, stream(self.seed, name));
            let id = self.sim.add(Box::new(load));
            self.sim.wake(id, 0);
        }
    }

    fn host(&self) -> Host {
        let section = self.section("host");
        Host::new(
            self.cpus(),
            section.whole("submit"),
            section.whole("take"),
            self.plan.stalls.clone(),
            self.plan.pressure.clone(),
            stream(self.seed, "host"),
        )
    }

    fn clients(&mut self, top: ComponentId) {
        let host = self.host();
        let spec = &self.plan.scenario.workload;
        let clients: Box<dyn Component> = Box::new(Clients::new(spec, &self.layout.sizes_bytes, top, host));
        let id = self.sim.add(clients);
        self.sim.wake(id, 0);
    }
}

/// Passes of a reallocation over files that found no room.
const PASSES: usize = 2;

/// The past of an array.
struct Ageing {
    allocator: Allocator,
    files: Vec<(GuestFile, FileId)>,
    /// Blocks of a checkpoint.
    step_blocks: u32,
}

impl Ageing {
    /// A checkpoint; there is room for it, as the caller of [`Ageing`] has made sure.
    fn checkpoint(&mut self) {
        let done = self.allocator.checkpoint();
        assert!(done.is_ok(), "an array with room for a checkpoint: {done:?}");
    }

    fn write(&mut self, file: usize, offset_bytes: u64, size_bytes: u64) {
        let (guest, disk) = &self.files[file];
        for placed in guest.map(offset_bytes, size_bytes) {
            let first = placed.disk_offset_bytes / BLOCK_BYTES;
            let end = (placed.disk_offset_bytes + placed.size_bytes).div_ceil(BLOCK_BYTES);
            self.allocator.write(*disk, first as u32, (end - first) as u32);
        }
        if self.allocator.dirty_blocks() >= self.step_blocks as usize {
            self.checkpoint();
        }
    }

    /// Every file from its begin to its end.
    fn write_all(&mut self) {
        for file in 0..self.files.len() {
            let size = self.files[file].0.size_bytes();
            for at in (0..size).step_by(1 << 20) {
                self.write(file, at, (size - at).min(1 << 20));
            }
        }
        self.checkpoint();
    }

    /// Random blocks, `times` as many as the files have.
    fn overwrite(&mut self, times: f64, rng: &mut Rng) {
        for file in 0..self.files.len() {
            let blocks = self.files[file].0.size_bytes() / BLOCK_BYTES;
            for _ in 0..(blocks as f64 * times) as u64 {
                self.write(file, rng.below(blocks) * BLOCK_BYTES, BLOCK_BYTES);
            }
        }
        self.checkpoint();
    }

    fn reallocate(&mut self) {
        for (_, disk) in &self.files {
            let mut window = Some(0);
            while let Some(next) = window {
                window = self.allocator.reallocate(*disk, next, 1024).next_window;
            }
        }
        // Where free space is in splinters no window finds a run. Writing whole files again, in order, gathers it: what
        // they leave behind lies together after a pass or two.
        for _ in 0..PASSES {
            self.write_all();
        }
    }
}

/// A cache of at least two keys, which is all that policies ask for.
fn policy(kind: PolicyKind, keys: usize) -> Cache {
    Cache::new(kind, keys.max(2)).expect("two keys or more")
}

fn drive_model(plan: &Plan, size_bytes: u64, seed: u64, name: &str) -> Result<Box<dyn DriveModel>, LabError> {
    let device = plan.scenario.section("device");
    let rng = stream(seed, name);
    let refused = |error: ParameterError| {
        let key = format!("device.{}", error.key);
        LabError::key(
            &plan.scenario.file,
            key,
            error.expected,
            error.found,
            "correct it",
        )
    };
    match device.text("kind") {
        "hdd" => {
            let mut parameters = match device.text("hdd_model") {
                "st2000dm006" => HddParameters::st2000dm006(),
                _ => HddParameters::nearline_7200(),
            };
            parameters.size_bytes = size_bytes;
            Ok(Box::new(Hdd::new(parameters).map_err(refused)?))
        }
        "ssd" => {
            let mut parameters = SsdParameters::p4500(size_bytes);
            parameters.filled = device.real("ssd_filled");
            parameters.overwritten = device.real("ssd_overwritten");
            Ok(Box::new(Ssd::new(parameters, rng).map_err(refused)?))
        }
        "fitted" => {
            let drive = FittedDrive::new(&plan.scenario.file, device, size_bytes, rng)?;
            Ok(Box::new(drive))
        }
        _ => Ok(Box::new(SimpleDrive::new(device, size_bytes, rng))),
    }
}

fn make_interrupts(plan: &Plan, seed: u64) -> Option<Interrupts> {
    if !plan.scenario.has("interrupts") {
        return None;
    }
    let section = plan.scenario.section("interrupts");
    let cpus = plan.scenario.section("host").whole("cpus") as usize;
    let used = match section.text("affinity") {
        "honoured" => cpus,
        _ => cpus.min(section.whole("ignored_cpus") as usize),
    };
    let affinity: Vec<usize> = (0..section.whole("vectors") as usize)
        .map(|vector| vector % used)
        .collect();
    let costs = interrupts::Costs {
        handler_ns: section.whole("handler"),
        completion_ns: section.whole("completion"),
        idle_handler_ns: section.whole("idle_handler"),
    };
    Some(Interrupts::new(
        plan.scenario.drive_names(),
        section.whole("max_vec") as usize,
        &affinity,
        cpus,
        costs,
        plan.handlers.clone(),
        stream(seed, "interrupts"),
    ))
}

/// `system.json` of the modelled machine.
pub fn system(plan: &Plan, layout: &Layout) -> SystemMeta {
    let host = plan.scenario.section("host");
    let device = plan.scenario.section("device");
    let mut system = SystemMeta {
        host: host.text("name").into(),
        kernel: format!("whodisk lab {}", env!("CARGO_PKG_VERSION")),
        cpus: host.whole("cpus") as u32,
        cpu_model: "modelled".into(),
        memory_bytes: host.whole("memory"),
        virtualization: "simulated".into(),
        ..SystemMeta::default()
    };
    let drives = plan.scenario.drive_names();
    let rotational = device.text("kind") == "hdd";
    for (n, name) in layout.cast.devices.iter().enumerate() {
        let mut meta = DeviceMeta {
            name: name.clone(),
            dev: (259 << 20) | n as u32,
            size_bytes: if n < drives.len() {
                layout.drive_bytes
            } else {
                layout.volume_bytes
            },
            ..DeviceMeta::default()
        };
        let mut put = |key: &str, value: String| meta.queue.insert(key.into(), value);
        put(
            "rotational",
            u32::from(rotational && n < drives.len()).to_string(),
        );
        put("nr_requests", device.whole("tags").to_string());
        put(
            "max_sectors_kb",
            (plan.scenario.section("server").whole("max_io") >> 10).to_string(),
        );
        put("scheduler", "none".into());
        if plan.scenario.has("prefetch") {
            put(
                "read_ahead_kb",
                (plan.scenario.section("prefetch").whole("chunk") >> 10).to_string(),
            );
        }
        meta.facts
            .insert("model".into(), format!("lab {}", device.text("kind")));
        if n == drives.len() && plan.scenario.has("volume") {
            meta.facts.insert("members".into(), drives.join(" "));
        } else {
            meta.facts.insert("pci_slot".into(), n.to_string());
        }
        system.devices.insert(name.clone(), meta);
    }
    if let Some(parts) = make_interrupts(plan, 0) {
        for (number, handlers, cpu) in parts.facts() {
            system
                .irqs
                .insert(number.to_string(), [handlers, cpu.to_string()]);
        }
    }
    system
}

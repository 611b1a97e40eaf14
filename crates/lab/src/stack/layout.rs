//! What there is before a stack is built: names, sizes, the shape of its volume.
use crate::components::host::FIRST_TID;
use crate::components::protocol::Rules;
use crate::components::volume::{Geometry, Shape};
use crate::error::LabError;
use crate::faults::Plan;
use crate::keys::Section;
use crate::names;
use crate::writer::{Cast, Thread};
use workload::spec::Targets;
use workload::units;

/// First byte of files on the volume.
pub(super) const FIRST_BYTE: u64 = 1 << 20;

/// Thread numbers of other load and of the file server begin here.
const OTHER_TID: i32 = 5001;

/// Name of the SSD of a cache tier: the NVMe drive after the others.
fn tier_name(device: &Section) -> String {
    let before = match device.text("name") {
        "nvme" => device.whole("count"),
        _ => 0,
    };
    names::disk("nvme", before)
}

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
    pub(super) server_thread: u16,
    /// Thread of the first load.
    pub(super) load_thread: u16,
    pub(super) volume_bytes: u64,
    pub(super) drive_bytes: u64,
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
            stacked: scenario.has("volume"),
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
            cast.devices.push(tier_name(scenario.section("device")));
        }
        let comm = scenario.section("host").text("comm");
        cast.threads = (0..scenario.workload.workers as i32)
            .map(|worker| Thread {
                pid: FIRST_TID - 1,
                tid: FIRST_TID + worker,
                comm: comm.into(),
            })
            .collect();
        let server_thread = cast.threads.len() as u16;
        cast.threads.push(other_thread(0, "smbd"));
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

pub(super) fn copies(plan: &Plan) -> bool {
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

pub(super) fn geometry(plan: &Plan) -> Option<Geometry> {
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

pub(super) fn check_geometry(plan: &Plan, geometry: &Geometry) -> Result<(), LabError> {
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

//! The array of a stack, and its past: files written, overwritten, reallocated.
use super::layout::{geometry, FIRST_BYTE};
use super::{policy, Builder};
use crate::component::ComponentId;
use crate::components::array::{self, Array};
use crate::components::parity::Rows;
use crate::components::placement::MISPLACED_BY;
use crate::components::server::Below;
use crate::components::volume::Shape;
use crate::error::LabError;
use crate::keys::Section;
use crate::models::allocator::{Allocator, AllocatorParameters, FileId, BLOCK_BYTES};
use crate::models::cache::PolicyKind;
use crate::models::guest_fs::GuestFile;
use crate::models::ParameterError;
use crate::sim::stream;
use workload::rng::Rng;
use workload::units;

impl Builder<'_> {
    pub(super) fn array(&mut self, below: Below) -> Result<ComponentId, LabError> {
        let section = self.section("array").clone();
        let rows = self.rows(&section)?;
        let contents = self.array_contents(&section, rows)?;
        let rules = array::Rules {
            half_blocks: (section.whole("nvram") / 2 / BLOCK_BYTES) as usize,
            interval_ns: section.whole("interval"),
            misplaced_by: match section.flag("misplaced") {
                true => MISPLACED_BY,
                false => 0,
            },
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
            let disk = allocator.create(disk_bytes.div_ceil(BLOCK_BYTES) as u32 + 1);
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

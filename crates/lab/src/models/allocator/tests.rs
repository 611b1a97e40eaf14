use super::*;
use proptest::prelude::*;
use workload::rng::Rng;

const FILE_BLOCKS: u32 = 1 << 16;

/// A volume with one file, written in order, and the part of the volume in use that is asked for.
fn volume(blocks: u32, fill: f64, run_blocks: u32) -> (Allocator, FileId, Rng) {
    let mut rng = Rng::new(1, 0);
    let mut allocator = Allocator::new(AllocatorParameters::with_blocks(blocks)).unwrap();
    let file = allocator.create(FILE_BLOCKS);
    allocator.write(file, 0, FILE_BLOCKS);
    allocator.checkpoint().unwrap();
    allocator.occupy(fill, run_blocks, &mut rng).unwrap();
    (allocator, file, rng)
}

/// Random single-block overwrites, a checkpoint every `every`; mean blocks per run that the checkpoints
/// wrote.
fn age(allocator: &mut Allocator, file: FileId, rng: &mut Rng, overwrites: u32, every: u32) -> f64 {
    let (mut blocks, mut runs) = (0, 0);
    for i in 1..=overwrites {
        allocator.write(file, rng.below(u64::from(FILE_BLOCKS)) as u32, 1);
        if i % every == 0 {
            let checkpoint = allocator.checkpoint().unwrap();
            blocks += checkpoint.blocks;
            runs += checkpoint.writes.len();
        }
    }
    f64::from(blocks) / runs as f64
}

#[test]
fn a_file_written_in_order_is_contiguous() {
    let (allocator, file, _) = volume(1 << 18, 0.5, 64);
    assert_eq!(allocator.layout_score(file), Some(1.0));
    let extents = allocator.extents(file, 0, FILE_BLOCKS);
    assert_eq!(
        extents,
        [Extent {
            first: 0,
            blocks: FILE_BLOCKS
        }]
    );
}

/// The order that mystery 3 demands: contiguous < threshold < reallocated and used again < aged.
#[test]
fn layout_ages_and_reallocation_repairs_it() {
    let (mut allocator, file, mut rng) = volume(1 << 18, 0.6, 32);
    age(&mut allocator, file, &mut rng, FILE_BLOCKS / 2, 512);
    let half = allocator.layout_score(file).unwrap();
    age(&mut allocator, file, &mut rng, FILE_BLOCKS / 2, 512);
    let aged = allocator.layout_score(file).unwrap();
    assert!(
        half > 15.0 && aged > half * 1.15 && aged <= 64.0,
        "{half}, {aged}"
    );

    let mut window = Some(0);
    while let Some(next) = window {
        let step = allocator.reallocate(file, next, 100);
        assert_eq!(step.no_room, 0);
        window = step.next_window;
    }
    let repaired = allocator.layout_score(file).unwrap();
    assert!(repaired < 1.01, "{repaired}");
    assert!(allocator.hotspots(file, 10).is_empty());

    age(&mut allocator, file, &mut rng, FILE_BLOCKS / 10, 512);
    let used_again = allocator.layout_score(file).unwrap();
    let threshold = allocator.parameters.score_threshold;
    assert!(
        threshold < used_again && used_again < half,
        "{repaired}, {used_again}, {half}"
    );
}

#[test]
fn the_fuller_the_volume_the_shorter_the_runs_a_checkpoint_writes() {
    let run_blocks = |fill| {
        let (mut allocator, file, mut rng) = volume(1 << 18, fill, 16);
        age(&mut allocator, file, &mut rng, 60_000, 1024)
    };
    let by_fill: Vec<f64> = [0.4, 0.8, 0.9, 0.95].map(run_blocks).into();
    assert!(by_fill.windows(2).all(|pair| pair[1] < pair[0]), "{by_fill:?}");
    assert!(by_fill[0] > 2.0 * by_fill[3], "{by_fill:?}");
}

#[test]
fn hotspots_are_the_worst_windows() {
    let (mut allocator, file, _) = volume(1 << 18, 0.5, 64);
    for block in (6400..6464).step_by(2) {
        allocator.write(file, block, 1);
        allocator.checkpoint().unwrap();
    }
    assert_eq!(allocator.hotspots(file, 5), [100]);
    let step = allocator.reallocate(file, 100, 1);
    assert_eq!((step.writes.len(), step.writes[0].blocks), (1, 64));
    assert!(step.reads.len() > 30);
    assert_eq!(allocator.reallocate(file, 0, 10_000), Reallocated::default());
}

#[test]
fn a_full_volume_says_so_and_loses_nothing() {
    let (mut allocator, file, _) = volume(1 << 17, 0.99, 64);
    allocator.write(file, 0, 5_000);
    let free = allocator.space.free();
    let error = allocator.checkpoint().unwrap_err();
    assert_eq!(
        error,
        VolumeFull {
            needed: 5_000,
            free: u64::from(free)
        }
    );
    assert_eq!(allocator.dirty_blocks(), 5_000);
    assert!(allocator.is_dirty(file, 4_999) && !allocator.is_dirty(file, 5_000));
}

#[test]
fn no_room_for_a_run_is_counted_and_changes_nothing() {
    let (mut allocator, file, mut rng) = volume(1 << 17, 0.97, 1);
    age(&mut allocator, file, &mut rng, 60_000, 512);
    let before = allocator.layout_score(file);
    let step = allocator.reallocate(file, 0, 10);
    assert!(step.no_room == 10 && step.writes.is_empty());
    assert_eq!(allocator.layout_score(file), before);
}

#[test]
fn parameters_out_of_range_are_named() {
    let new = |p: AllocatorParameters| Allocator::new(p).unwrap_err().key;
    assert_eq!(new(AllocatorParameters::with_blocks(10)), "blocks");
    let window = AllocatorParameters {
        score_window_blocks: 1,
        ..AllocatorParameters::with_blocks(4096)
    };
    assert_eq!(new(window), "score_window_blocks");
}

proptest! {
    /// Every block of a file has a place of its own, and used + free is the volume, whatever happens.
    #[test]
    fn blocks_are_conserved(
        steps in prop::collection::vec((0..6u8, 0..2u32, 0..900u32, 1..100u32), 1..120),
        seed in any::<u64>(),
    ) {
        let parameters = AllocatorParameters {
            area_blocks: 256,
            score_window_blocks: 16,
            score_threshold: 2.0,
            ..AllocatorParameters::with_blocks(4096)
        };
        let mut allocator = Allocator::new(parameters).unwrap();
        allocator.create(800);
        allocator.create(800);
        allocator.occupy(0.4, 8, &mut Rng::new(seed, 0)).unwrap();
        let others = allocator.space.blocks() - allocator.space.free();
        for (what, file, first, count) in steps {
            match what {
                0 => drop(allocator.checkpoint()),
                1 => drop(allocator.reallocate(file, first / 16, count)),
                _ => allocator.write(file, first, count),
            }
            let first_extent = allocator.first_extent(file, first, count);
            prop_assert_eq!(first_extent, allocator.extents(file, first, count).first().copied());
            let mapped = allocator.files.iter().flat_map(|file| file.map.clone());
            let mut places: Vec<u32> = mapped.filter(|block| *block != HOLE).collect();
            places.sort_unstable();
            let mapped = places.len() as u32;
            places.dedup();
            prop_assert_eq!(places.len() as u32, mapped, "two blocks in one place");
            prop_assert!(places.iter().all(|block| allocator.space.is_used(*block)));
            prop_assert_eq!(mapped + others + allocator.space.free(), allocator.space.blocks());
        }
    }
}

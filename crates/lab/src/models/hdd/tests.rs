use super::*;
use workload::rng::Rng;

fn command(op: Op, offset_bytes: u64, size_bytes: u32) -> Command {
    Command {
        op,
        offset_bytes,
        size_bytes,
    }
}

fn random(rng: &mut Rng, disk: &Hdd, op: Op, size_bytes: u32) -> Command {
    command(op, rng.below(disk.size_bytes() / 4096 - 1024) * 4096, size_bytes)
}

/// Closed loop of `depth` random commands; mean service interval in ms and the latencies in ms.
fn closed_loop(disk: &mut Hdd, depth: usize, count: usize, op: Op, size: u32) -> (f64, Vec<f64>) {
    let mut rng = Rng::new(1, 9);
    let mut waiting = Vec::new();
    let mut since = Vec::new();
    let (mut now_ns, mut latencies) = (0, Vec::new());
    for _ in 0..count {
        while waiting.len() < depth {
            waiting.push(random(&mut rng, disk, op, size));
            since.push(now_ns);
        }
        // At depth 1 the host takes 20 us to come back; deeper queues never let the disk idle.
        let begin_ns = if depth == 1 { now_ns + 20_000 } else { now_ns };
        let chosen = disk.choose(begin_ns, &waiting);
        let service = disk.serve(begin_ns, &waiting.remove(chosen));
        assert!(service.done_ns >= begin_ns && service.free_ns >= begin_ns);
        latencies.push((service.done_ns - since.remove(chosen)) as f64 / 1e6);
        now_ns = service.free_ns;
    }
    (now_ns as f64 / 1e6 / count as f64, latencies)
}

fn disk(change: impl FnOnce(&mut HddParameters)) -> Hdd {
    let mut parameters = HddParameters::nearline_7200();
    change(&mut parameters);
    Hdd::new(parameters).unwrap()
}

#[test]
fn mean_rotational_latency_is_half_a_turn() {
    let disk = disk(|_| ());
    let mut rng = Rng::new(5, 0);
    let mut sum = 0.0;
    for _ in 0..20_000 {
        let place = disk.geometry.place(rng.below(disk.size_bytes()));
        sum += disk.position_ns(rng.below(1 << 40), &place, Op::Read) - disk.seek_ns(&place, Op::Read);
    }
    let half_turn = disk.turn_ns / 2.0;
    assert!(
        (sum / 20_000.0 / half_turn - 1.0).abs() < 0.02,
        "{} against {half_turn}",
        sum / 20_000.0
    );
}

#[test]
fn an_idle_disk_needs_14_ms_for_random_256_kib() {
    let (mean_ms, _) = closed_loop(&mut disk(|_| ()), 1, 5_000, Op::Read, 256 << 10);
    assert!((13.5..14.5).contains(&mean_ms), "{mean_ms} ms");
}

#[test]
fn a_known_disk_meets_its_measurements() {
    let new = || Hdd::new(HddParameters::st2000dm006()).unwrap();
    let (mean_ms, _) = closed_loop(&mut new(), 1, 5_000, Op::Read, 4096);
    assert!(
        (17.2..17.8).contains(&mean_ms),
        "depth 1: {mean_ms} ms, measured 17.2 to 17.8"
    );
    let (interval_ms, _) = closed_loop(&mut new(), 32, 5_000, Op::Read, 4096);
    let iops = 1e3 / interval_ms;
    assert!(
        (iops / 94.0 - 1.0).abs() < 0.05,
        "depth 32: {iops} IOPS, measured 94"
    );
}

#[test]
fn reordering_pays_more_the_deeper_the_queue() {
    let iops = |depth| 1e3 / closed_loop(&mut disk(|_| ()), depth, 3_000, Op::Read, 4096).0;
    let by_depth: Vec<f64> = [1, 2, 4, 8, 16, 32].map(iops).into();
    assert!(
        by_depth.windows(2).all(|pair| pair[1] > pair[0] * 1.02),
        "{by_depth:?}"
    );
    assert!((1.8..3.2).contains(&(by_depth[5] / by_depth[0])), "{by_depth:?}");
}

#[test]
fn nobody_waits_forever() {
    let mut fair = disk(|p| p.passes_max = 40);
    let (interval_ms, latencies) = closed_loop(&mut fair, 32, 3_000, Op::Read, 4096);
    let longest = latencies.into_iter().fold(0.0, f64::max);
    assert!(
        longest < 110.0 * interval_ms,
        "{longest} ms at {interval_ms} ms each"
    );
}

#[test]
fn sequential_reads_run_at_media_speed() {
    for (from, rate) in [(0, 210e6), (3_990_000_000_000, 100e6)] {
        let mut disk = disk(|_| ());
        let (mut now_ns, size) = (0, 1 << 20);
        for i in 0..400u64 {
            let service = disk.serve(now_ns, &command(Op::Read, from + i * u64::from(size), size));
            now_ns = service.done_ns + 30_000;
        }
        let reached = 400.0 * f64::from(size) / (now_ns as f64 / 1e9);
        assert!(
            (0.97..1.03).contains(&(reached / rate)),
            "{reached} of {rate} B/s"
        );
    }
}

#[test]
fn a_long_stream_of_reads_never_loses_a_turn() {
    for size in [16 << 10, 64 << 10, 512 << 10] {
        let mut disk = disk(|_| ());
        let mut now_ns = disk.serve(0, &command(Op::Read, 0, size)).done_ns;
        for i in 1..5_000u64 {
            let done_ns = disk
                .serve(now_ns, &command(Op::Read, i * u64::from(size), size))
                .done_ns;
            let ms = (done_ns - now_ns) as f64 / 1e6;
            assert!(ms < 5.0, "read {i} of {size} bytes took {ms} ms");
            now_ns = done_ns;
        }
    }
}

#[test]
fn sequential_writes_without_cache_lose_a_turn_each_and_with_cache_do_not() {
    let rate = |cache| {
        let mut disk = disk(|p| p.write_cache_bytes = cache);
        let mut now_ns = 0;
        for i in 0..2_000u64 {
            now_ns = disk
                .serve(now_ns, &command(Op::Write, i * 65_536, 65_536))
                .done_ns
                + 10_000;
        }
        let flushed = disk.serve(now_ns, &command(Op::Flush, 0, 0)).done_ns;
        assert_eq!(disk.dirty_bytes(), 0);
        2_000.0 * 65_536.0 / (flushed as f64 / 1e9)
    };
    assert!(rate(0) < 12e6, "{}", rate(0));
    assert!(rate(16 << 20) > 150e6, "{}", rate(16 << 20));
}

#[test]
fn a_full_write_cache_makes_writes_wait() {
    let mut disk = disk(|p| p.write_cache_bytes = 1 << 20);
    let (mut rng, mut now_ns, mut notes) = (Rng::new(2, 0), 0, Vec::new());
    for _ in 0..1_000 {
        let write = random(&mut rng, &disk, Op::Write, 4096);
        let service = disk.serve(now_ns, &write);
        assert!(disk.dirty_bytes() <= 1 << 20);
        notes.push((service.note, service.done_ns - now_ns));
        now_ns = service.free_ns;
    }
    let full = notes.iter().filter(|(note, _)| *note == Note::BufferFull).count();
    assert!(full > 300, "{full} of 1000 writes waited");
    assert!(notes[0].0 == Note::Buffered && notes[0].1 < 200_000);
    let mean_ms = now_ns as f64 / 1e6 / 1_000.0;
    assert!(
        mean_ms < 7.0,
        "nearest of many first: {mean_ms} ms per random write"
    );
}

#[test]
fn what_is_in_the_write_cache_is_read_from_it() {
    let mut disk = disk(|p| p.write_cache_bytes = 1 << 20);
    let done_ns = disk.serve(0, &command(Op::Write, 1 << 40, 8192)).done_ns;
    let read = disk.serve(done_ns, &command(Op::Read, (1 << 40) + 4096, 4096));
    assert_eq!(read.note, Note::Buffered);
    assert!(read.done_ns - done_ns < 200_000);
}

#[test]
fn every_byte_has_one_place_and_tracks_follow_each_other() {
    let disk = disk(|_| ());
    let mut byte = 0;
    let mut tracks = 0;
    let mut last = None;
    while tracks < 10_000 {
        let place = disk.geometry.place(byte);
        assert!((0.0..1.0).contains(&place.angle) && place.left_bytes <= place.track_bytes);
        assert_eq!(last.map_or(place.track, |track: u64| track + 1), place.track);
        last = Some(place.track);
        byte += place.left_bytes;
        tracks += 1;
    }
    let end = disk.geometry.place(disk.size_bytes() - 1);
    let stroke = disk.geometry.stroke(0, end.cylinder);
    assert!(stroke > 0.98 && stroke <= 1.0);
}

#[test]
fn the_same_commands_take_the_same_time() {
    let run = || closed_loop(&mut disk(|_| ()), 8, 500, Op::Write, 8192);
    assert_eq!(run(), run());
}

#[test]
fn parameters_out_of_range_are_named() {
    let error = Hdd::new(HddParameters {
        turns_per_minute: 0.0,
        ..HddParameters::nearline_7200()
    })
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "turns_per_minute: expected 3600 to 15000, found 0"
    );
}

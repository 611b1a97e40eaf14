use super::*;
use proptest::prelude::*;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn prefetcher(change: impl FnOnce(&mut PrefetchParameters)) -> Prefetcher {
    let mut parameters = PrefetchParameters::default();
    change(&mut parameters);
    Prefetcher::new(parameters).unwrap()
}

/// Reads `count` requests one after the other; every prefetch arrives before the next. Missed pieces of each.
fn sequential(prefetcher: &mut Prefetcher, size: u64, count: u64) -> Vec<Vec<Piece>> {
    let mut missed = Vec::new();
    for i in 0..count {
        let pieces = prefetcher.read(1, i * size, size);
        assert_eq!(pieces.iter().map(|piece| piece.size_bytes).sum::<u64>(), size);
        let plan = prefetcher.plan(1, i * size, size, u64::MAX);
        plan.iter().for_each(|prefetch| prefetcher.arrived(prefetch));
        missed.push(
            pieces
                .into_iter()
                .filter(|piece| piece.state != State::Ready)
                .collect(),
        );
    }
    missed
}

#[test]
fn requests_longer_than_the_chunk_leave_a_constant_tail() {
    let size = 8 * MIB + 256 * KIB;
    let mut prefetcher = prefetcher(|_| ());
    let missed = sequential(&mut prefetcher, size, 100);
    for (i, pieces) in missed.iter().enumerate().skip(1) {
        let tail_offset = (i as u64 + 1) * size - 256 * KIB;
        let tail = Piece {
            offset_bytes: tail_offset,
            size_bytes: 256 * KIB,
            state: State::Missed,
        };
        assert_eq!(pieces, &[tail], "read {i}");
    }
    let account = prefetcher.account(1);
    assert_eq!(account.accuracy(), Some(1.0));
    let coverage = 99.0 * 8.0 / (100.0 * 8.25);
    assert!((account.coverage().unwrap() - coverage).abs() < 1e-9);
    assert_eq!(account.timeliness(), Some(1.0));
}

#[test]
fn requests_up_to_the_chunk_are_covered() {
    for size in [64 * KIB, MIB, 3 * MIB, 8 * MIB] {
        let missed = sequential(&mut prefetcher(|_| ()), size, 50);
        assert!(missed[1..].iter().all(Vec::is_empty), "{size}");
    }
}

#[test]
fn two_chunks_per_read_cover_longer_requests() {
    for order in [Order::Ascending, Order::Descending] {
        let mut two = prefetcher(|p| {
            p.chunks_per_read = 2;
            p.order = order;
        });
        let missed = sequential(&mut two, 8 * MIB + 256 * KIB, 50);
        assert!(missed[1..].iter().all(Vec::is_empty));
    }
}

#[test]
fn a_chunk_anchored_on_a_grid_leaves_no_constant_tail() {
    let missed = sequential(
        &mut prefetcher(|p| p.anchor = Anchor::Grid),
        8 * MIB + 256 * KIB,
        60,
    );
    let sizes: Vec<u64> = missed[2..]
        .iter()
        .map(|pieces| pieces.iter().map(|p| p.size_bytes).sum())
        .collect();
    assert!(sizes.iter().any(|size| *size != sizes[0]), "{sizes:?}");
}

#[test]
fn what_is_read_in_flight_is_late_and_not_missed() {
    let mut prefetcher = prefetcher(|_| ());
    let plan = prefetcher.plan(1, 0, MIB, u64::MAX);
    let pieces = prefetcher.read(1, MIB, MIB);
    assert_eq!(
        pieces,
        [Piece {
            offset_bytes: MIB,
            size_bytes: MIB,
            state: State::InFlight
        }]
    );
    prefetcher.arrived(&plan[0]);
    assert_eq!(prefetcher.read(1, 2 * MIB, MIB)[0].state, State::Ready);
    let account = prefetcher.account(1);
    assert_eq!(
        (account.late_bytes, account.used_bytes, account.missed_bytes),
        (MIB, 2 * MIB, 0)
    );
    assert_eq!(account.timeliness(), Some(0.5));
    assert_eq!(prefetcher.unread_bytes(), 6 * MIB);
}

#[test]
fn evicted_unread_is_wasted_once() {
    let mut prefetcher = prefetcher(|_| ());
    let plan = prefetcher.plan(1, 0, MIB, u64::MAX);
    prefetcher.arrived(&plan[0]);
    prefetcher.read(1, MIB, MIB);
    assert_eq!(prefetcher.evicted(1, MIB, 2 * MIB), MIB);
    assert_eq!(prefetcher.evicted(1, MIB, 2 * MIB), 0);
    assert_eq!(prefetcher.account(1).waste(), Some(1.0 / 8.0));
    assert_eq!(prefetcher.account(1).accuracy(), Some(0.5));
}

#[test]
fn random_reads_start_nothing_when_two_must_follow_each_other() {
    let mut careful = prefetcher(|p| p.trigger_reads = 2);
    for i in [7, 3, 90, 12, 55] {
        assert_eq!(careful.plan(1, i * MIB, MIB / 2, u64::MAX), []);
    }
    assert_eq!(careful.plan(1, 55 * MIB + MIB / 2, MIB, u64::MAX).len(), 1);
}

#[test]
fn more_streams_than_it_remembers_are_not_followed() {
    let mut two_streams = prefetcher(|p| {
        p.streams = 2;
        p.trigger_reads = 2;
    });
    let mut started = [0; 2];
    for (round, files) in [(0, 2), (1, 3)] {
        for i in 0..10 {
            for file in 0..files {
                started[round] += two_streams
                    .plan(file + 10 * round as u32, i * MIB, MIB, u64::MAX)
                    .len();
            }
        }
    }
    assert_eq!(started, [18, 0]);
}

#[test]
fn it_stops_at_the_end_of_the_file_and_at_the_limit_in_flight() {
    let mut prefetcher = prefetcher(|p| p.outstanding_max = 1);
    assert_eq!(prefetcher.plan(1, 0, MIB, 3 * MIB)[0].size_bytes, 2 * MIB);
    assert_eq!(prefetcher.plan(2, 0, MIB, 3 * MIB), []);
    assert_eq!(prefetcher.account(2).refused_chunks, 1);
    assert_eq!(prefetcher.in_flight(), 1);
}

proptest! {
    /// Issued = used + wasted + unread; every read byte is ready, in flight or missed; nothing twice.
    #[test]
    fn bytes_are_conserved(
        chunks in 0..4u32,
        steps in prop::collection::vec((0..6u8, 0..2u32, 0..64u64, 1..20u64), 1..200),
    ) {
        let mut prefetcher = prefetcher(|p| {
            p.chunk_bytes = 16 * 4096;
            p.chunks_per_read = chunks;
            p.outstanding_max = 5;
        });
        let mut flying = Vec::new();
        let mut read_bytes = 0;
        for (what, file, page, pages) in steps {
            let (offset, size) = (page * 4096, pages * 4096);
            match what {
                0 => drop(prefetcher.evicted(file, offset, size)),
                1 if !flying.is_empty() => prefetcher.arrived(&flying.remove(page as usize % flying.len())),
                _ => {
                    let pieces = prefetcher.read(file, offset, size);
                    let mut at = offset;
                    for piece in pieces {
                        prop_assert_eq!(piece.offset_bytes, at);
                        at += piece.size_bytes;
                    }
                    prop_assert_eq!(at, offset + size);
                    read_bytes += size;
                    flying.extend(prefetcher.plan(file, offset, size, 60 * 4096));
                    prop_assert!(flying.len() <= 5 && prefetcher.in_flight() == flying.len());
                }
            }
            let sum = |of: fn(&Account) -> u64| [0, 1].iter().map(|file| of(&prefetcher.account(*file))).sum::<u64>();
            let (used, wasted) = (sum(|a| a.used_bytes), sum(|a| a.wasted_bytes));
            prop_assert_eq!(sum(|a| a.issued_bytes), used + wasted + prefetcher.unread_bytes());
            prop_assert_eq!(used + sum(|a| a.missed_bytes), read_bytes);
        }
    }
}

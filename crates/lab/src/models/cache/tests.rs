use super::reference::{ArcReference, LruReference, Reference, S3FifoReference};
use super::{traces, Access, Cache, CacheModel, PolicyKind, S3FifoParameters};
use proptest::prelude::*;
use std::collections::VecDeque;

fn reference(kind: PolicyKind, capacity: usize) -> Box<dyn Reference> {
    match kind {
        PolicyKind::Lru => Box::new(LruReference {
            capacity,
            list: VecDeque::new(),
        }),
        PolicyKind::Arc => Box::new(ArcReference {
            capacity,
            ..ArcReference::default()
        }),
        PolicyKind::S3Fifo => Box::new(S3FifoReference {
            capacity,
            parameters: S3FifoParameters::default(),
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghost: VecDeque::new(),
            warm: false,
        }),
    }
}

fn misses(kind: PolicyKind, capacity: usize, trace: &[u64]) -> usize {
    let mut cache = Cache::new(kind, capacity).unwrap();
    trace
        .iter()
        .filter(|key| cache.access(**key) != Access::Hit)
        .count()
}

/// A trace with reuse at several distances: skewed keys, and now and then a run of fresh ones.
fn trace() -> impl Strategy<Value = Vec<u64>> {
    let piece = prop_oneof![
        (0..12u64).prop_map(|key| vec![key]),
        (0..60u64).prop_map(|key| vec![key]),
        (100..400u64, 1..30u64).prop_map(|(key, run)| (key..key + run).collect()),
    ];
    prop::collection::vec(piece, 1..400).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn every_access_equals_the_paper(capacity in 2..64usize, trace in trace()) {
        for kind in PolicyKind::ALL {
            let mut fast = Cache::new(kind, capacity).unwrap();
            let mut slow = reference(kind, capacity);
            for (i, key) in trace.iter().enumerate() {
                let resident = fast.contains(*key);
                let (a, b) = (fast.access(*key), slow.access(*key));
                prop_assert_eq!(a, b, "{:?}, access {}, key {}", kind, i, key);
                prop_assert_eq!(a == Access::Hit, resident, "contains() and access() disagree");
                prop_assert!(fast.len() <= capacity);
            }
            let resident = slow.resident();
            prop_assert_eq!(fast.len(), resident.len());
            prop_assert!(resident.iter().all(|key| fast.contains(*key)));
        }
    }

    /// With removals and prefetches between: nothing is lost, nothing is resident twice.
    #[test]
    fn residents_are_conserved(capacity in 2..40usize, steps in prop::collection::vec((0..10u8, 0..80u64), 1..600)) {
        for kind in PolicyKind::ALL {
            let mut cache = Cache::new(kind, capacity).unwrap();
            let mut resident = std::collections::BTreeSet::new();
            for (what, key) in &steps {
                let evicted = match what {
                    0 => {
                        prop_assert_eq!(cache.remove(*key), resident.remove(key));
                        prop_assert!(!cache.contains(*key));
                        continue;
                    }
                    1..=3 => cache.insert(*key),
                    _ => match cache.access(*key) {
                        Access::Hit => {
                            prop_assert!(resident.contains(key));
                            None
                        }
                        Access::Miss { evicted } => {
                            prop_assert!(!resident.contains(key));
                            evicted
                        }
                    },
                };
                if let Some(evicted) = evicted {
                    prop_assert!(evicted != *key && resident.remove(&evicted), "evicted {}, not resident", evicted);
                    prop_assert_eq!(resident.len(), capacity - 1, "evicted although there was room");
                }
                resident.insert(*key);
                prop_assert!(cache.contains(*key));
                prop_assert_eq!(cache.len(), resident.len());
            }
        }
    }
}

#[test]
fn a_scan_never_hits_and_what_fits_always_does() {
    for kind in PolicyKind::ALL {
        assert_eq!(misses(kind, 100, &traces::scan(10_000)), 10_000, "{kind:?}");
        assert_eq!(
            misses(kind, 100, &traces::repeated_loop(100, 10_000)),
            100,
            "{kind:?}"
        );
        assert!(Cache::new(kind, 100).unwrap().is_empty());
    }
}

#[test]
fn a_loop_that_does_not_fit_defeats_lru_only() {
    let trace = traces::repeated_loop(120, 12_000);
    assert_eq!(misses(PolicyKind::Lru, 100, &trace), 12_000);
    assert!(misses(PolicyKind::S3Fifo, 100, &trace) < 12_000);
}

#[test]
fn prefetching_a_scan_does_not_push_out_what_is_used_often() {
    for kind in [PolicyKind::Arc, PolicyKind::S3Fifo] {
        let mut cache = Cache::new(kind, 100).unwrap();
        for _ in 0..5 {
            (0..50).for_each(|key| {
                cache.access(key);
            });
        }
        // Push the small queue through once, so that the often used keys earn their place.
        (1000..1100).for_each(|key| {
            cache.access(key);
        });
        for key in 2000..3000 {
            cache.insert(key);
            assert_eq!(
                cache.access(key),
                Access::Hit,
                "{kind:?}: a prefetched key is read from the cache"
            );
        }
        let kept = (0..50).filter(|key| cache.contains(*key)).count();
        assert_eq!(kept, 50, "{kind:?}");
    }
}

/// Misses as counted by libCacheSim 0.3.5 (S3-FIFO with its defaults) on the same traces; see
/// benches/lab_cache.py.
#[test]
fn misses_equal_another_simulator() {
    use PolicyKind::{Arc, Lru, S3Fifo};
    let looped = traces::repeated_loop(120_000, 2_000_000);
    let mixed = traces::zipf_with_scans(300_000, 1.0, 2_000_000, 6, 4);
    let counted: [(PolicyKind, usize, &[u64], usize); 8] = [
        (Lru, 100_000, &looped, 2_000_000),
        (Arc, 100_000, &looped, 2_000_000),
        (S3Fifo, 1_000, &looped, 1_985_600),
        (S3Fifo, 100_000, &looped, 940_006),
        (Lru, 10_000, &mixed, 1_752_723),
        (Arc, 10_000, &mixed, 1_621_165),
        (S3Fifo, 10_000, &mixed, 1_615_468),
        (S3Fifo, 100_000, &mixed, 1_374_725),
    ];
    for (kind, capacity, trace, expected) in counted {
        assert_eq!(
            misses(kind, capacity, trace),
            expected,
            "{kind:?} with {capacity} keys"
        );
    }
}

#[test]
fn capacities_out_of_range_are_refused() {
    for kind in PolicyKind::ALL {
        assert!(Cache::new(kind, 1).is_err() && Cache::new(kind, usize::MAX).is_err());
    }
}

#[test]
fn names_round_trip() {
    for kind in PolicyKind::ALL {
        assert_eq!(PolicyKind::from_name(kind.name()), Some(kind));
    }
    assert_eq!(PolicyKind::from_name("fifo"), None);
}

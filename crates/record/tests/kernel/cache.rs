//! The cache probe on real file systems: what was found, what was brought, what was waited for, what was wasted.
use crate::pages::*;
use case::rows::{CacheReadRow, CacheWait, CacheWaitRow, Readahead, ReadaheadRow, ReadaheadUseRow};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use testing::test;

/// Pages of the test file: a prime.
const PAGES: u64 = 1009;

/// What one recording says about one file.
struct Told {
    reads: Vec<CacheReadRow>,
    waits: Vec<CacheWaitRow>,
    runs: Vec<ReadaheadRow>,
    uses: Vec<ReadaheadUseRow>,
}

fn record_file(system: &FileSystem, file: &File, workload: impl FnOnce()) -> Told {
    let recorded = record_with("cache", workload);
    let (inode, device) = (inode(file), system.device);
    let mut told = Told {
        reads: recorded.rows(),
        waits: recorded.rows(),
        runs: recorded.rows(),
        uses: recorded.rows(),
    };
    told.reads
        .retain(|row| (row.inode, row.device) == (inode, device));
    told.waits
        .retain(|row| (row.inode, row.device) == (inode, device));
    told.runs.retain(|row| (row.inode, row.device) == (inode, device));
    told.uses.retain(|row| (row.inode, row.device) == (inode, device));
    told.check();
    told
}

impl Told {
    /// What holds in every recording.
    fn check(&self) {
        for row in &self.reads {
            assert!(
                row.pages_missed <= row.pages_asked && row.start_ns <= row.end_ns,
                "{row:?}"
            );
        }
        for row in &self.waits {
            assert!(
                row.wait_ns <= row.end_ns - row.start_ns && row.wait_ns > 0,
                "{row:?}"
            );
            assert!(
                row.index <= row.waited_index && row.waited_index <= row.last_index,
                "{row:?}"
            );
        }
        for row in &self.uses {
            assert!(
                row.pages_used + row.pages_wasted <= row.pages_prefetched,
                "{row:?}"
            );
        }
        let ahead = self.uses.iter().map(|row| u64::from(row.pages_prefetched));
        assert_eq!(self.prefetched(), ahead.sum::<u64>());
        let waits: u64 = self.reads.iter().map(|row| row.waits).sum();
        assert_eq!(
            waits,
            self.waits
                .iter()
                .filter(|row| row.kind != CacheWait::Fault as u8)
                .count() as u64
        );
    }

    fn asked(&self) -> u64 {
        self.reads.iter().map(|row| row.pages_asked).sum()
    }

    fn missed(&self) -> u64 {
        self.reads.iter().map(|row| row.pages_missed).sum()
    }

    fn brought(&self) -> u64 {
        self.runs.iter().map(|row| u64::from(row.pages)).sum()
    }

    fn prefetched(&self) -> u64 {
        let ahead = |row: &ReadaheadRow| u64::from(row.pages - row.pages_demanded);
        self.runs.iter().map(ahead).sum()
    }

    fn used(&self) -> u64 {
        self.uses.iter().map(|row| u64::from(row.pages_used)).sum()
    }

    fn wasted(&self) -> u64 {
        self.uses.iter().map(|row| u64::from(row.pages_wasted)).sum()
    }
}

#[test]
fn a_cold_read_brings_every_page_once_and_a_second_one_finds_all() {
    require_kernel!();
    on_each(&["ext4", "xfs", "btrfs"], |kind| {
        let system = FileSystem::new(kind);
        let file = system.cold_file(PAGES);
        let cold = record_file(&system, &file, || assert_eq!(read_all(&file, 16), PAGES));
        assert_eq!(cold.asked(), PAGES, "{kind}: {:?}", cold.reads);
        // Others may need the memory: what they evict before it is read is brought again.
        assert_eq!(cold.brought(), PAGES + cold.wasted(), "{kind}: {:?}", cold.runs);
        // Brought because they were asked for, or in advance and then found.
        assert_eq!(cold.missed() + cold.used(), PAGES, "{kind}");
        assert_eq!(cold.used() + cold.wasted(), cold.prefetched(), "{kind}");
        assert!(cold.missed() < PAGES / 2, "{kind}: readahead was at work");
        assert!(cold.reads.iter().all(|row| row.tid == thread()), "{kind}");
        let kinds_of: Vec<u8> = cold.runs.iter().map(|row| row.kind).collect();
        assert!(
            kinds_of.contains(&(Readahead::Sync as u8)),
            "{kind}: {kinds_of:?}"
        );
        assert!(
            kinds_of.contains(&(Readahead::Async as u8)),
            "{kind}: {kinds_of:?}"
        );

        let mut absent = 0;
        let warm = record_file(&system, &file, || {
            absent = PAGES - resident(&file, PAGES);
            assert_eq!(read_all(&file, 1), PAGES);
        });
        assert!(absent < PAGES / 10, "{kind}: {absent} pages were evicted at once");
        let reads: u64 = warm.reads.iter().map(|row| row.reads).sum();
        // One miss may bring absent neighbours with it.
        let seen = (warm.asked(), warm.missed() + warm.used(), reads);
        assert_eq!(
            seen,
            (PAGES, absent, PAGES),
            "{kind}: {:?} {:?}",
            warm.reads,
            warm.runs
        );
    });
}

#[test]
fn random_reads_without_readahead_bring_what_they_ask_for() {
    require_kernel!();
    on_each(&["ext4", "xfs", "btrfs"], |kind| {
        let system = FileSystem::new(kind);
        let file = system.cold_file(PAGES);
        advise(&file, libc::POSIX_FADV_RANDOM);
        // 7 is a generator modulo the prime: every page once, in no order.
        let count = 211;
        let order = (0..count).scan(1, |page, _| {
            *page = *page * 11 % PAGES;
            Some(*page)
        });
        let order: Vec<u64> = order.collect();
        let told = record_file(&system, &file, || {
            let mut buffer = [0; PAGE as usize];
            for page in &order {
                file.read_exact_at(&mut buffer, page * PAGE).unwrap();
            }
        });
        assert_eq!(told.asked(), count, "{kind}");
        if kind == "ext4" {
            assert_eq!(
                (told.missed(), told.brought(), told.prefetched()),
                (count, count, 0),
                "{kind}"
            );
        }
        let missed = told
            .waits
            .iter()
            .filter(|row| row.kind == CacheWait::Missed as u8);
        assert!(
            missed.clone().count() as u64 > count / 2,
            "{kind}: {} waits",
            told.waits.len()
        );
        assert!(
            missed.clone().all(|row| order.contains(&row.waited_index)),
            "{kind}"
        );
    });
}

#[test]
fn what_is_evicted_unread_is_waste() {
    require_kernel!();
    let system = FileSystem::new("ext4");
    let file = system.cold_file(PAGES);
    let told = record_file(&system, &file, || {
        let mut buffer = [0; PAGE as usize];
        file.read_exact_at(&mut buffer, 0).unwrap();
        advise(&file, libc::POSIX_FADV_DONTNEED);
    });
    assert_eq!((told.asked(), told.missed()), (1, 1));
    assert!(told.prefetched() > 0, "the begin of a file is read ahead");
    assert_eq!((told.used(), told.wasted()), (0, told.prefetched()));
}

#[test]
fn what_a_program_has_read_ahead_is_prefetched_and_used() {
    require_kernel!();
    let system = FileSystem::new("ext4");
    let file = system.cold_file(PAGES);
    let told = record_file(&system, &file, || {
        advise(&file, libc::POSIX_FADV_WILLNEED);
        assert_eq!(read_all(&file, 7), PAGES);
    });
    assert_eq!((told.asked(), told.brought()), (PAGES, PAGES));
    assert!(
        told.runs.iter().any(|row| row.kind == Readahead::Other as u8),
        "{:?}",
        told.runs
    );
    assert_eq!(told.prefetched() + told.missed(), PAGES);
    assert_eq!((told.used(), told.wasted()), (told.prefetched(), 0));
}

#[test]
fn readahead_that_comes_too_late_is_told_from_a_miss() {
    require_kernel!();
    let disk = crate::common::slow_disk(64 << 20, "read constant 10ms");
    let system = FileSystem::on("ext4", disk.device().to_str().unwrap());
    let file = system.cold_file(PAGES);
    let mut took = Duration::ZERO;
    let told = record_file(&system, &file, || {
        let begin = Instant::now();
        assert_eq!(read_all(&file, 4), PAGES);
        took = begin.elapsed();
    });
    drop(file);
    assert_eq!((told.asked(), told.brought()), (PAGES, PAGES));
    let late: Vec<&CacheWaitRow> = told
        .waits
        .iter()
        .filter(|row| row.kind == CacheWait::InFlight as u8)
        .collect();
    assert!(!late.is_empty(), "{:?}", told.waits);
    // Every late page had been prefetched before the wait, and was not asked for by the call that waited.
    for wait in &late {
        let prefetched =
            |run: &&ReadaheadRow| (run.index..run.index + u64::from(run.pages)).contains(&wait.waited_index);
        let run = told.runs.iter().find(prefetched).unwrap();
        assert!(run.time_ns < wait.start_ns, "{wait:?} {run:?}");
    }
    let waited: u64 = told.waits.iter().map(|row| row.wait_ns).sum();
    let waited = Duration::from_nanos(waited);
    assert!(waited <= took, "{waited:?} of {took:?}");
    assert!(waited > took * 3 / 4, "{waited:?} of {took:?}");
}

/// What a call finds before a page that somebody else is bringing, the kernel hands out without a word.
#[test]
fn a_call_that_waits_for_a_page_of_another_threads_read_has_asked_for_the_pages_before_it() {
    require_kernel!();
    let disk = crate::common::slow_disk(64 << 20, "read constant 20ms");
    let system = FileSystem::on("ext4", disk.device().to_str().unwrap());
    let file = system.cold_file(PAGES);
    advise(&file, libc::POSIX_FADV_RANDOM); // no page comes unasked
    let read = |first: u64, pages: u64| {
        let mut buffer = vec![0; (pages * PAGE) as usize];
        file.read_exact_at(&mut buffer, first * PAGE).unwrap();
    };
    let places = [0, 100, 200, 300, 400];
    for first in places {
        read(first, 1);
    }
    let told = record_file(&system, &file, || {
        for first in places {
            std::thread::scope(|scope| {
                scope.spawn(|| read(first + 1, 1));
                std::thread::sleep(Duration::from_millis(6));
                read(first, 2);
            });
        }
    });
    let own: Vec<&CacheReadRow> = told.reads.iter().filter(|row| row.tid == thread()).collect();
    let asked: u64 = own.iter().map(|row| row.pages_asked).sum();
    let waits: u64 = own.iter().map(|row| row.waits).sum();
    assert_eq!(asked, 2 * places.len() as u64, "{own:?}");
    assert!(waits > 0, "{own:?}");
}

#[test]
fn a_page_fault_that_waits_is_told() {
    require_kernel!();
    let system = FileSystem::new("ext4");
    let file = system.cold_file(PAGES);
    let told = record_file(&system, &file, || {
        with_mapping(&file, PAGES, |at, bytes| {
            // SAFETY: within the mapping of a file that nobody truncates.
            unsafe {
                libc::madvise(at, bytes, libc::MADV_RANDOM);
                for page in (0..PAGES).step_by(37) {
                    assert_eq!(at.cast::<u8>().add((page * PAGE) as usize).read_volatile(), 0x5a);
                }
            }
        });
    });
    let faults: Vec<&CacheWaitRow> = told
        .waits
        .iter()
        .filter(|row| row.kind == CacheWait::Fault as u8)
        .collect();
    assert!(faults.len() > 14, "{:?}", told.waits);
    assert!(
        faults.iter().all(|row| row.waited_index.is_multiple_of(37)),
        "{faults:?}"
    );
    assert_eq!(told.asked(), 0);
}

/// The kernel's own event tracing counts the same pages.
#[test]
fn pages_brought_are_those_that_the_kernel_traces() {
    require_kernel!();
    let system = FileSystem::new("ext4");
    let file = system.cold_file(PAGES);
    let filter = format!("i_ino=={} && s_dev=={}", inode(&file), system.device);
    let Some(events) = Events::start("filemap/mm_filemap_add_to_page_cache", &filter) else {
        testing::skip("no tracefs instances here");
    };
    let told = record_file(&system, &file, || assert_eq!(read_all(&file, 3), PAGES));
    let traced: u64 = events
        .lines()
        .iter()
        .map(|line| 1 << number(line, "order").unwrap_or(0))
        .sum();
    assert_eq!((told.brought(), traced), (PAGES, PAGES));
}

/// Only the command and what it starts is in the recording.
#[test]
fn processes_outside_the_scope_are_not_recorded() {
    require_kernel!();
    let system = FileSystem::new("ext4");
    let file = system.cold_file(PAGES);
    let path = system.file("data");
    let script = format!(
        "read go; dd if={} of=/dev/null bs=64k status=none; true",
        path.display()
    );
    let mut shell = std::process::Command::new("sh")
        .args(["-c", &script])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let config = record::Config {
        command_pid: Some(shell.id()),
        ..record::Config::only(&["cache"])
    };
    let recorded = record_as(config, "cache", || {
        assert_eq!(read_all(&file, 16), PAGES); // by this process, which is outside
        drop(shell.stdin.take());
        assert!(shell.wait().unwrap().success());
    });
    let reads: Vec<CacheReadRow> = recorded.rows();
    let own: Vec<&CacheReadRow> = reads
        .iter()
        .filter(|row| row.inode == inode(&file) && row.device == system.device)
        .collect();
    assert_eq!(
        own.iter().map(|row| row.pages_asked).sum::<u64>(),
        PAGES,
        "{own:?}"
    );
    assert!(
        own.iter().all(|row| row.tid != thread() && row.pages_missed == 0),
        "{own:?}"
    );
}

/// A block device read through its own page cache has no inode: it goes by its number.
#[test]
fn a_block_device_goes_by_its_number() {
    require_kernel!();
    let device = crate::common::LoopDevice::new(PAGES * PAGE);
    let file = File::open(&device.path).unwrap();
    let recorded = record_with("cache", || assert_eq!(read_all(&file, 8), PAGES));
    let reads: Vec<CacheReadRow> = recorded.rows();
    let own = reads
        .iter()
        .filter(|row| row.device == device.device && row.inode == 0 && row.tid == thread());
    assert_eq!(own.map(|row| row.pages_asked).sum::<u64>(), PAGES, "{reads:?}");
}

//! The writeback probe on real file systems: pauses of writers, who dirtied what a flusher wrote, commits of journals.
use crate::pages::*;
use case::rows::{Writeback, WritebackRow, WRITEBACK_CAUSES};
use record::Config;
use std::collections::BTreeSet;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use testing::test;

const MIB: u64 = 1 << 20;

fn of_kind(rows: &[WritebackRow], kind: Writeback) -> Vec<WritebackRow> {
    let wanted = |row: &&WritebackRow| row.kind == kind as u8;
    rows.iter().filter(wanted).copied().collect()
}

fn sync_file_system(system: &FileSystem) {
    let folder = std::fs::File::open(&system.mount.path).unwrap();
    // SAFETY: a valid descriptor.
    assert_eq!(unsafe { libc::syncfs(folder.as_raw_fd()) }, 0);
}

/// Lowers how much may be dirty for one device; as it was when dropped.
struct DirtyLimit {
    settings: Vec<(PathBuf, String)>,
}

impl DirtyLimit {
    /// `None` where the kernel has no limit in bytes for one device (before 6.2).
    fn set(device: u32, bytes: u64) -> Option<DirtyLimit> {
        let folder = PathBuf::from(format!("/sys/class/bdi/{}:{}", device >> 20, device & 0xfffff));
        let mut limit = DirtyLimit { settings: Vec::new() };
        for (name, value) in [("max_bytes", bytes.to_string()), ("strict_limit", "1".into())] {
            let path = folder.join(name);
            let before = std::fs::read_to_string(&path).ok()?;
            std::fs::write(&path, value).ok()?;
            limit.settings.push((path, before));
        }
        Some(limit)
    }
}

impl Drop for DirtyLimit {
    fn drop(&mut self) {
        for (path, before) in &self.settings {
            let _ = std::fs::write(path, before);
        }
    }
}

#[test]
fn a_writer_beyond_the_dirty_limit_is_seen_to_pause() {
    require_kernel!();
    let disk = crate::common::slow_disk(64 << 20, "write throttle 20MiB/s");
    let system = FileSystem::on("ext4", disk.device().to_str().unwrap());
    let Some(_limit) = DirtyLimit::set(system.device, 2 * MIB) else {
        testing::skip("this kernel has no dirty limit for one device");
    };
    let file = create(&system.file("data"));
    let block = vec![1; 64 << 10];
    let mut took = Duration::ZERO;
    let recorded = record_with("writeback", || {
        let begin = Instant::now();
        for index in 0..320 {
            file.write_all_at(&block, index * block.len() as u64).unwrap();
        }
        took = begin.elapsed();
    });
    let rows: Vec<WritebackRow> = recorded.rows();
    let mut pauses = of_kind(&rows, Writeback::Throttled);
    pauses.retain(|row| row.tid == thread());
    assert!(!pauses.is_empty(), "{took:?}");
    assert!(pauses.iter().all(|row| row.device == system.device), "{pauses:?}");
    // The rate is zero for a while where far too much is dirty.
    assert!(pauses.iter().all(|row| row.bytes > 0), "{pauses:?}");
    assert!(pauses.iter().any(|row| row.rate_bytes_per_s > 0), "{pauses:?}");
    assert!(pauses.is_sorted_by_key(|row| row.start_ns));
    assert!(pauses.windows(2).all(|pair| pair[0].end_ns <= pair[1].start_ns));
    // 20 MiB of which 2 may stay dirty need about a second at 20 MiB/s: nearly all of it is pauses.
    let paused: u64 = pauses.iter().map(|row| row.end_ns - row.start_ns).sum();
    let paused = Duration::from_nanos(paused);
    assert!(paused <= took, "{paused:?} of {took:?}");
    assert!(paused > took / 2, "{paused:?} of {took:?}");
}

#[test]
fn who_dirtied_what_a_flusher_writes_is_named() {
    require_kernel!();
    on_each(&["ext4", "xfs", "btrfs"], |kind| {
        let system = FileSystem::new(kind);
        let path = system.file("data");
        let mut pid = 0;
        let recorded = record_with("writeback", || {
            let target = format!("of={}", path.display());
            let mut child = Command::new("dd")
                .args(["if=/dev/zero", &target, "bs=64k", "count=113", "status=none"])
                .spawn()
                .unwrap();
            pid = child.id() as i32;
            assert!(child.wait().unwrap().success());
            sync_file_system(&system);
        });
        let bytes = 113 * (64 << 10);
        let inode = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&path).unwrap());
        let mut rows: Vec<WritebackRow> = recorded.rows();
        rows.retain(|row| row.device == system.device);
        let works = of_kind(&rows, Writeback::Work);
        assert!(works.iter().any(|row| row.bytes > 0), "{kind}: {works:?}");
        rows.retain(|row| row.inode == inode);
        let dirtied = of_kind(&rows, Writeback::Dirtied);
        assert_eq!(
            dirtied.iter().map(|row| row.bytes).sum::<u64>(),
            bytes,
            "{kind}: {dirtied:?}"
        );
        assert!(
            dirtied
                .iter()
                .all(|row| row.pid == pid && row.comm.starts_with(b"dd\0")),
            "{kind}: {dirtied:?}"
        );
        let written = of_kind(&rows, Writeback::InodeWritten);
        assert_eq!(
            written.iter().map(|row| row.bytes).sum::<u64>(),
            bytes,
            "{kind}: {written:?}"
        );
        assert!(
            written.iter().all(|row| row.comm.starts_with(b"kworker")),
            "{kind}: {written:?}"
        );
        let cause = |row: &WritebackRow| WRITEBACK_CAUSES.get(usize::from(row.cause)).copied();
        assert!(
            written.iter().any(|row| cause(row) == Some("sync")),
            "{kind}: {written:?}"
        );
    });
}

/// Journals by BPF programs, and as where file systems are modules: by the kernel's event tracing.
fn both_ways() -> [Config; 2] {
    [false, true].map(|journals_by_tracing| Config {
        journals_by_tracing,
        ..Config::only(&["writeback"])
    })
}

/// Each fsync of a file that grew needs a commit of its own, and ends after it.
#[test]
fn every_fsync_waits_for_a_commit_of_the_journal() {
    require_kernel!();
    both_ways().into_iter().for_each(fsyncs_of_ext4);
}

fn fsyncs_of_ext4(config: Config) {
    let by_tracing = config.journals_by_tracing;
    let system = FileSystem::new("ext4");
    let file = create(&system.file("data"));
    sync_file_system(&system);
    let count = 17;
    let filter = format!("dev=={}", system.device);
    let mut traced = None;
    let recorded = record_as(config, "writeback", || {
        let events = Events::start("jbd2/jbd2_end_commit", &filter);
        for _ in 0..count {
            append_page(&file);
            file.sync_all().unwrap();
        }
        traced = events.map(|events| events.lines().len());
    });
    let mut rows: Vec<WritebackRow> = recorded.rows();
    rows.retain(|row| row.device == system.device);
    let commits = of_kind(&rows, Writeback::Commit);
    let mut syncs = of_kind(&rows, Writeback::Fsync);
    syncs.retain(|row| row.inode == inode(&file));
    assert_eq!((syncs.len(), commits.len()), (count, count), "{rows:?}");
    assert!(traced.is_none_or(|traced| traced == count), "{traced:?}");
    for sync in &syncs {
        assert_eq!((sync.tid, sync.pid), (thread(), std::process::id() as i32));
        // Event tracing does not tell which one.
        let is_its = |row: &&WritebackRow| match by_tracing {
            false => row.transaction == sync.transaction,
            true => sync.start_ns <= row.start_ns && row.end_ns <= sync.end_ns,
        };
        let commit = commits.iter().find(is_its).unwrap();
        assert!(
            sync.start_ns <= commit.start_ns && commit.end_ns <= sync.end_ns,
            "{sync:?} {commit:?}"
        );
        assert!(
            commit.bytes > 0 && commit.comm.starts_with(b"jbd2/"),
            "{commit:?}"
        );
    }
    let told = if by_tracing { &commits } else { &syncs };
    let transactions: BTreeSet<u64> = told.iter().map(|row| row.transaction).collect();
    assert_eq!(transactions.len(), count);
    // The parts of a commit follow each other within it.
    let parts = [
        Writeback::CommitLocking,
        Writeback::CommitFlushing,
        Writeback::CommitLogging,
    ];
    for commit in &commits {
        let mut until_ns = commit.start_ns;
        for part in parts {
            let rows = of_kind(&rows, part);
            let row = rows
                .iter()
                .find(|row| row.transaction == commit.transaction)
                .unwrap();
            assert!(
                until_ns <= row.start_ns && row.end_ns <= commit.end_ns,
                "{row:?} {commit:?}"
            );
            until_ns = row.end_ns;
        }
    }
}

#[test]
fn syncs_of_xfs_and_btrfs_are_told() {
    require_kernel!();
    for config in both_ways() {
        syncs_of_others(&config);
    }
}

fn syncs_of_others(config: &Config) {
    on_each(&["xfs", "btrfs"], |kind| {
        let system = FileSystem::new(kind);
        let file = create(&system.file("data"));
        let count = 13;
        let recorded = record_as(config.clone(), "writeback", || {
            for _ in 0..count {
                append_page(&file);
                file.sync_all().unwrap();
            }
            sync_file_system(&system);
        });
        let mut rows: Vec<WritebackRow> = recorded.rows();
        rows.retain(|row| row.device == system.device);
        let mut syncs = of_kind(&rows, Writeback::Fsync);
        syncs.retain(|row| row.inode == inode(&file));
        assert_eq!(syncs.len(), count, "{kind}: {syncs:?}");
        assert!(syncs.iter().all(|row| row.tid == thread()), "{kind}");
        let forced = of_kind(&rows, Writeback::LogForce).len();
        assert!(kind != "xfs" || forced >= count, "{forced} of {count}");
        let commits = of_kind(&rows, Writeback::TreeCommit);
        assert!(kind != "btrfs" || !commits.is_empty());
    });
}

/// An fsync of data in flight waits for pages under writeback, and its waits lie within it.
#[test]
fn waits_for_pages_under_writeback_lie_within_the_sync() {
    require_kernel!();
    let disk = crate::common::slow_disk(64 << 20, "write constant 20ms");
    let system = FileSystem::on("ext4", disk.device().to_str().unwrap());
    let file = create(&system.file("data"));
    let recorded = record_with("writeback", || {
        file.write_all_at(&vec![3; MIB as usize], 0).unwrap();
        file.sync_all().unwrap();
    });
    let mut rows: Vec<WritebackRow> = recorded.rows();
    rows.retain(|row| row.device == system.device && row.inode == inode(&file));
    let sync = of_kind(&rows, Writeback::Fsync)[0];
    let waits = of_kind(&rows, Writeback::WaitedForPage);
    assert!(!waits.is_empty(), "{rows:?}");
    for wait in &waits {
        assert_eq!(wait.tid, thread());
        assert!(
            sync.start_ns <= wait.start_ns && wait.end_ns <= sync.end_ns,
            "{wait:?} {sync:?}"
        );
    }
    let longest = waits.iter().map(|row| row.end_ns - row.start_ns).max().unwrap();
    assert!(longest > 10_000_000, "{waits:?}");
}

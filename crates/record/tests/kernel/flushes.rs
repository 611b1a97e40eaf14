//! The flush machinery on real file systems: flush commands as the kernel counts them, and what their carriers waited for.
use crate::common::{REQ_OP_FLUSH, REQ_OP_MASK};
use crate::pages::*;
use case::rows::{BlockCarrierRow, BlockRow};
use record::Config;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::Duration;
use testing::test;

const REQ_PREFLUSH: u32 = 1 << 18;
/// Flushes of one workload: a prime.
const ROUNDS: u64 = 11;

/// Field 16 of `/sys/block/NAME/stat`: flush commands that have completed.
fn flushes_counted(name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
    text.split_whitespace().nth(15).unwrap().parse().unwrap()
}

/// Name and number of every disk that has requests.
fn disks() -> BTreeMap<String, u32> {
    let names = std::fs::read_dir("/sys/block").unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let number = |name: &String| {
        let text = std::fs::read_to_string(format!("/sys/block/{name}/dev")).ok()?;
        let (major, minor) = text.trim().split_once(':')?;
        Some(major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?)
    };
    names
        .filter_map(|name| Some((name.clone(), number(&name)?)))
        .collect()
}

fn is_flush(row: &BlockRow) -> bool {
    row.cmd_flags & REQ_OP_MASK == REQ_OP_FLUSH
}

/// What the kernel has counted, and between which moments it was read.
struct Counted {
    from_ns: u64,
    to_ns: u64,
    flushes: BTreeMap<String, u64>,
}

fn count(disks: &BTreeMap<String, u32>) -> Counted {
    let from_ns = monotonic_ns();
    let flushes = disks
        .keys()
        .map(|name| (name.clone(), flushes_counted(name)))
        .collect();
    Counted {
        from_ns,
        to_ns: monotonic_ns(),
        flushes,
    }
}

/// Records block requests while `workload` runs. The flush rows of every disk are those that the kernel counted, all carriers
/// that completed were served, and nothing was served that is not there.
fn record_flushes(workload: impl FnOnce()) -> (Vec<BlockRow>, Vec<BlockCarrierRow>) {
    /// The kernel counts a flush command just after it tells of its completion.
    const COUNTED_AFTER: Duration = Duration::from_millis(20);
    let disks = disks();
    let (mut before, mut after) = (None, None);
    let recorded = record_as(Config::only(&["block"]), "block", || {
        before = Some(count(&disks));
        workload();
        std::thread::sleep(COUNTED_AFTER);
        after = Some(count(&disks));
        std::thread::sleep(COUNTED_AFTER);
    });
    let (before, after) = (before.unwrap(), after.unwrap());
    let late_ns = COUNTED_AFTER.as_nanos() as u64;
    let rows: Vec<BlockRow> = recorded.rows();
    let turns: Vec<BlockCarrierRow> = recorded.rows();
    for (name, device) in &disks {
        let flushes = rows.iter().filter(|row| row.device == *device && is_flush(row));
        // Others may flush their disks while the counts are read; where nobody does both are the same number.
        let between = |from_ns: u64, to_ns: u64| {
            let inside = |row: &&BlockRow| (from_ns..to_ns).contains(&row.complete_ns);
            flushes.clone().filter(inside).count() as u64
        };
        let grown = after.flushes[name] - before.flushes[name];
        let least = between(before.to_ns, after.from_ns - late_ns);
        let most = between(before.from_ns - late_ns, after.to_ns);
        assert!(
            (least..=most).contains(&grown),
            "{name}: {grown} counted, {least} to {most} seen"
        );
        for row in flushes {
            assert_eq!(
                (row.pid, row.tid, row.comm),
                (-1, -1, [0; 16]),
                "nobody's: {row:?}"
            );
        }
    }
    check_carriers(&rows, &turns);
    (rows, turns)
}

fn monotonic_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a valid place for the time.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) }, 0);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn check_carriers(rows: &[BlockRow], turns: &[BlockCarrierRow]) {
    let by_key: HashMap<u64, &BlockRow> = rows.iter().map(|row| (row.request_key, row)).collect();
    let mut served: HashMap<u64, Vec<&BlockCarrierRow>> = HashMap::new();
    for turn in turns {
        served.entry(turn.carrier_key).or_default().push(turn);
        let carrier = by_key[&turn.carrier_key];
        assert!(!is_flush(carrier), "{carrier:?}");
        let entry_ns = carrier.queue_ns.max(carrier.start_ns);
        assert!(
            turn.issue_ns >= entry_ns && turn.done_ns <= carrier.complete_ns,
            "{turn:?} {carrier:?}"
        );
        assert!(
            turn.irq_ns == 0 || (turn.issue_ns..=turn.done_ns).contains(&turn.irq_ns),
            "{turn:?}"
        );
        if turn.flush_key == 0 {
            assert_eq!(turn.issue_ns, carrier.issue_ns);
            continue;
        }
        let flush = by_key[&turn.flush_key];
        assert!(is_flush(flush), "{flush:?}");
        assert_eq!((flush.issue_ns, flush.complete_ns), (turn.issue_ns, turn.done_ns));
        assert_eq!((flush.device, flush.hctx), (carrier.device, carrier.hctx));
    }
    for row in rows
        .iter()
        .filter(|row| row.cmd_flags & REQ_PREFLUSH != 0 && !is_flush(row))
    {
        let turns = served.get(&row.request_key).map_or(&[][..], Vec::as_slice);
        let flushed = turns.iter().filter(|turn| turn.flush_key != 0).count();
        assert!(flushed > 0, "not served: {row:?} {turns:?}");
        assert_eq!(
            turns.len() - flushed,
            usize::from(row.size_bytes > 0 && row.issue_ns > 0),
            "{row:?}"
        );
    }
}

/// Writes a page and makes it durable, this many times.
fn write_and_sync(file: &File) {
    for round in 0..ROUNDS {
        file.write_all_at(&[round as u8; PAGE as usize], round * PAGE)
            .unwrap();
        file.sync_data().unwrap();
    }
}

#[test]
fn flush_rows_are_those_that_the_kernel_counts() {
    require_kernel!();
    on_each(&["ext4", "xfs", "btrfs"], |kind| {
        // A loop device over memory answers flushes, too; one with a fault shows where the time goes.
        let disk = crate::common::slow_disk(400 << 20, "flush constant 25ms");
        let name = disk.device().file_name().unwrap().to_str().unwrap().to_owned();
        let number = disks()[&name];
        let system = FileSystem::on(kind, disk.device().to_str().unwrap());
        let file = File::create(system.file("data")).unwrap();
        file.set_len(ROUNDS * PAGE).unwrap();
        file.sync_all().unwrap();
        // It compares them with what the kernel counted.
        let (rows, turns) = record_flushes(|| write_and_sync(&file));
        let of_disk = |row: &&BlockRow| row.device == number && is_flush(row);
        let flushes: Vec<_> = rows.iter().filter(of_disk).collect();
        assert!(flushes.len() as u64 >= ROUNDS, "{kind}: {}", flushes.len());
        let device_ns: Vec<u64> = flushes
            .iter()
            .map(|flush| flush.complete_ns - flush.issue_ns)
            .collect();
        // Who serves the disk may get its CPU late, but not each time: none of them took the time of two.
        let least_ns = device_ns.iter().min().copied();
        assert!(
            least_ns.is_some_and(|ns| (25_000_000..50_000_000).contains(&ns)),
            "{kind}: {device_ns:?}"
        );
        let carriers = turns.iter().filter(|turn| turn.flush_key != 0).count();
        assert!(carriers as u64 >= ROUNDS, "{kind}: {carriers}");
    });
}

#[test]
fn on_the_disk_of_the_checkout() {
    require_kernel!();
    let folder = crate::common::folder_on_disk();
    let file = File::create(folder.path().join("data")).unwrap();
    file.set_len(ROUNDS * PAGE).unwrap();
    file.sync_all().unwrap();
    record_flushes(|| write_and_sync(&file));
}

#[test]
fn forced_unit_access_that_a_loop_device_has_not_is_data_and_a_flush() {
    require_kernel!();
    let disk = crate::common::slow_disk(16 << 20, "flush constant 25ms");
    let name = disk.device().file_name().unwrap().to_str().unwrap().to_owned();
    let fua = std::fs::read_to_string(format!("/sys/block/{name}/queue/fua")).unwrap();
    assert_eq!(fua.trim(), "0", "the kernel's loop devices have no FUA");
    let number = disks()[&name];
    let mut options = std::fs::OpenOptions::new();
    let file = options
        .write(true)
        .custom_flags(libc::O_DIRECT | libc::O_DSYNC)
        .open(disk.device())
        .unwrap();
    let memory = [[7u8; PAGE as usize]; 2];
    let aligned = memory.as_ptr().cast::<u8>().align_offset(PAGE as usize);
    let page = &memory.as_flattened()[aligned..aligned + PAGE as usize];
    let (rows, turns) = record_flushes(|| {
        for round in 0..ROUNDS {
            assert_eq!(file.write_at(page, round * PAGE).unwrap(), PAGE as usize);
        }
    });
    let me = std::process::id() as i32;
    let mine: Vec<_> = rows
        .iter()
        .filter(|row| row.device == number && row.pid == me && row.size_bytes > 0)
        .collect();
    assert_eq!(mine.len() as u64, ROUNDS);
    for write in mine {
        let mut of_write = turns.iter().filter(|turn| turn.carrier_key == write.request_key);
        let kinds: Vec<bool> = of_write.clone().map(|turn| turn.flush_key == 0).collect();
        // A write with O_DSYNC to a block device carries FUA; a file system may flush by itself after it.
        if write.cmd_flags & 1 << 17 != 0 {
            assert_eq!(kinds, [true, false], "data, then a flush: {write:?}");
            let flush = of_write.next_back().unwrap();
            assert!(flush.done_ns - flush.issue_ns >= 25_000_000, "{flush:?}");
        }
    }
    assert!(rows.iter().any(|row| row.device == number && is_flush(row)));
}

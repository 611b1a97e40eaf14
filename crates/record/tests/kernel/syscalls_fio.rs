//! The ways in which programs do many operations at once, as fio does them: prime numbers go in and come out; strace
//! counts the same.
use crate::common::calls::*;
use crate::common::*;
use case::rows::{syscall_flags as flags, SyscallRow, Via};
use case::schema::Op;
use std::collections::HashMap;
use std::path::Path;
use testing::test;

const MIB: u64 = 1 << 20;
const READS: u64 = 5003;

/// Random reads of 4 KiB by an engine; the rows of exactly these reads.
fn reads_by(target: &str, engine: &str, direct: bool, options: &[&str]) -> (Calls, Vec<SyscallRow>) {
    let size = format!("--io_size={}", READS * 4096);
    let engine = format!("--ioengine={engine}");
    let direct = format!("--direct={}", u8::from(direct));
    let mut all = vec![
        "--rw=randread",
        "--size=16m",
        &size,
        &engine,
        &direct,
        "--allow_file_create=0",
    ];
    all.extend(options);
    let calls = record_calls(only_us(), || {
        fio(target, &all);
    });
    let rows = calls.on_target(target);
    let reads = rows
        .into_iter()
        .filter(|row| row.op == Op::Read as u8 && row.size_bytes == 4096);
    let reads: Vec<SyscallRow> = reads.collect();
    (calls, reads)
}

impl Calls {
    fn on_target(&self, target: &str) -> Vec<SyscallRow> {
        match self.names.iter().find(|(_, name)| *name == target) {
            Some((file, _)) => self
                .rows
                .iter()
                .filter(|row| (row.device, row.inode) == *file)
                .copied()
                .collect(),
            None => panic!("{target} is not among {:?}", self.names.values()),
        }
    }
}

/// What must hold for reads that all succeeded.
fn check_reads(reads: &[SyscallRow], via: Via, direct: bool, what: &str) {
    assert_eq!(reads.len() as u64, READS, "{what}");
    let wanted = if direct { flags::DIRECT } else { 0 };
    for row in reads {
        assert_eq!(
            (row.via, row.flags & flags::DIRECT),
            (via as u8, wanted),
            "{what}: {row:?}"
        );
        assert_eq!(
            (row.result, row.offset_bytes % 4096),
            (4096, 0),
            "{what}: {row:?}"
        );
        assert!(row.end_ns > row.start_ns, "{what}: {row:?}");
        assert_eq!(row.owner_key != 0, direct, "{what}: {row:?}");
    }
    // The same key is never in flight twice at once.
    let mut by_owner: HashMap<u64, Vec<(u64, u64)>> = HashMap::new();
    for row in reads.iter().filter(|row| row.owner_key != 0) {
        by_owner
            .entry(row.owner_key)
            .or_default()
            .push((row.start_ns, row.end_ns));
    }
    for mut spans in by_owner.into_values() {
        spans.sort_unstable();
        assert!(
            spans.windows(2).all(|pair| pair[0].1 <= pair[1].0),
            "{what}: {spans:?}"
        );
    }
}

fn file_on(mount: &Path) -> String {
    let path = mount.join("data");
    std::fs::write(&path, vec![3u8; 16 << 20]).unwrap();
    path.canonicalize().unwrap().to_str().unwrap().to_string()
}

#[test]
fn every_engine_on_a_file() {
    require_kernel!();
    let folder = folder_on_disk();
    let file = file_on(folder.path());
    for direct in [true, false] {
        for (engine, via) in [
            ("sync", Via::Call),
            ("psync", Via::Call),
            ("pvsync", Via::Call),
            ("pvsync2", Via::Call),
            ("libaio", Via::Aio),
            ("io_uring", Via::Uring),
        ] {
            let (_, reads) = reads_by(&file, engine, direct, &[]);
            check_reads(&reads, via, direct, &format!("{engine}, direct {direct}"));
        }
    }
}

#[test]
fn ways_of_io_uring() {
    require_kernel!();
    let folder = folder_on_disk();
    let file = file_on(folder.path());
    for option in [
        "--fixedbufs",
        "--registerfiles",
        "--nonvectored=0",
        "--sqthread_poll",
        "--force_async=3",
    ] {
        let (_, reads) = reads_by(&file, "io_uring", true, &[option]);
        check_reads(&reads, Via::Uring, true, option);
        let workers = reads.iter().filter(|row| row.flags & flags::WORKER != 0).count();
        if option == "--force_async=3" {
            assert!(workers as u64 >= READS / 3, "{workers}");
        }
    }
    let options = ["--iodepth_batch_submit=16", "--iodepth_batch_complete_min=8"];
    let (calls, reads) = reads_by(&file, "io_uring", true, &options);
    check_reads(&reads, Via::Uring, true, "batches");
    // Most wait for eight, the last ones for what is left. Calls that only submit ask for none, and are not there.
    let waits: Vec<&SyscallRow> = calls
        .rows
        .iter()
        .filter(|row| row.via == Via::Wait as u8)
        .collect();
    assert!((1..=READS as usize / 4).contains(&waits.len()), "{}", waits.len());
    assert!(waits.iter().all(|row| row.size_bytes > 0), "{waits:?}");
}

#[test]
fn engines_on_a_block_device() {
    require_kernel!();
    let device = LoopDevice::new(16 * MIB);
    for (engine, via) in [
        ("psync", Via::Call),
        ("libaio", Via::Aio),
        ("io_uring", Via::Uring),
    ] {
        let (_, reads) = reads_by(&device.path, engine, true, &[]);
        check_reads(&reads, via, true, engine);
        assert!(reads
            .iter()
            .all(|row| row.device == device.device && row.flags & flags::BLOCK_DEVICE != 0));
    }
}

#[test]
fn libaio_ends_when_it_is_reaped_in_batches() {
    require_kernel!();
    let folder = folder_on_disk();
    let file = file_on(folder.path());
    let options = ["--iodepth_batch_submit=16", "--iodepth_batch_complete_min=8"];
    let (_, reads) = reads_by(&file, "libaio", true, &options);
    check_reads(&reads, Via::Aio, true, "batches");
    assert!(reads.iter().all(|row| row.flags & flags::END_IS_REAP != 0));
    let ends: std::collections::HashSet<u64> = reads.iter().map(|row| row.end_ns).collect();
    assert!((ends.len() as u64) < READS / 4, "{} reaps", ends.len());
}

#[test]
fn writes_and_syncs() {
    require_kernel!();
    let folder = folder_on_disk();
    let file = file_on(folder.path());
    for engine in ["psync", "libaio", "io_uring"] {
        let engine = format!("--ioengine={engine}");
        let options = [
            "--rw=randwrite",
            "--size=16m",
            "--io_size=8204288",
            "--fsync=100",
            "--direct=0",
        ];
        let calls = record_calls(only_us(), || {
            fio(
                &file,
                &[
                    &options[..],
                    &[engine.as_str(), "--allow_file_create=0", "--iodepth=1"],
                ]
                .concat(),
            );
        });
        let rows = calls.on_target(&file);
        let writes: Vec<_> = rows.iter().filter(|row| row.op == Op::Write as u8).collect();
        // 8,204,288 bytes are 2003 blocks of 4 KiB; a sync follows every hundredth.
        assert_eq!(writes.len(), 2003, "{engine}");
        assert!(writes.iter().all(|row| row.result == 4096), "{engine}");
        let syncs: Vec<_> = rows.iter().filter(|row| row.op == Op::Sync as u8).collect();
        assert_eq!(syncs.len(), 20, "{engine}");
        assert!(syncs.iter().all(|row| row.result == 0), "{engine}");
    }
}

#[test]
fn strace_counts_the_same() {
    require_kernel!();
    require_program("strace");
    let folder = folder_on_disk();
    let file = file_on(folder.path());
    let arguments = [
        "--name=test",
        &format!("--filename={file}"),
        "--ioengine=psync",
        "--rw=randrw",
        "--bs=4k",
        "--size=4m",
        "--io_size=4124672",
        "--norandommap=1",
        "--allow_file_create=0",
        "--output-format=terse",
    ];
    let calls = record_calls(only_us(), || {
        run("fio", &arguments);
    });
    let trace = folder.path().join("trace");
    let traced = [
        "-f",
        "-qq",
        "-y",
        "-e",
        "trace=pread64,pwrite64",
        "-o",
        trace.to_str().unwrap(),
        "fio",
    ];
    run("strace", &[&traced[..], &arguments[..]].concat());
    let text = std::fs::read_to_string(&trace).unwrap();
    let path = format!("<{file}>");
    for (name, number) in [("pread64(", libc::SYS_pread64), ("pwrite64(", libc::SYS_pwrite64)] {
        // fio's seed is fixed, so both runs do the same.
        let strace = text
            .lines()
            .filter(|line| line.contains(name) && line.contains(&path))
            .count();
        assert!(strace > 400, "{strace}");
        assert_eq!(calls.count_on(Path::new(&file), number), strace, "{name}");
    }
}

//! Slow disks for real: what is injected is what a reader sees. Needs root, /dev/fuse and loop devices; otherwise
//! every test is skipped.
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use slowdisk::{Config, Fault, Options, Slowdisk};

const MIB: u64 = 1 << 20;
const SIZE_BYTES: u64 = 64 * MIB;
const BLOCK_BYTES: usize = 4096;

/// Something took longer than it should, which a busy machine can cause too: another try may pass. What is plainly wrong
/// panics instead.
struct Late(String);

type Outcome = Result<(), Late>;

/// Tries of a test that is only late.
const TRIES: usize = 8;

/// For upper bounds on time. Lower bounds are asserted: no load makes a delay shorter.
fn in_time(in_time: bool, what: impl FnOnce() -> String) -> Outcome {
    if in_time {
        Ok(())
    } else {
        Err(Late(what()))
    }
}

/// Registers tests that make devices and may come late.
macro_rules! tests {
    ($($name:ident)*) => {
        mod on_a_device {
            $(
                #[testing::test]
                fn $name() {
                    super::try_until_in_time(super::$name);
                }
            )*
        }
    };
}

tests! {
    keeps_bytes_and_counts_exactly
    large_requests_stay_whole
    queue_settings_are_ours_and_do_not_stay
    tail_does_not_touch_neighbours
    same_seed_hits_the_same_requests
    constant_delays_every_write_only
    base_latency_is_there_without_faults
    stall_holds_requests_to_its_end
    throttle_reaches_its_rates
    errors_reach_the_reader_by_name
    offset_and_time_window_select
    flush_fault_delays_fsync
    file_system_and_backing_file
    stop_answers_waiting_requests_at_once
    stop_leaves_nothing_behind
    killed_while_open_gives_errors_then_goes
    killed_with_dirty_pages_ends
    serve_prints_the_device_first
    mistakes_are_said_in_words
}

fn main() -> ExitCode {
    if std::env::var_os("SLOWDISK_TEST_CHILD").is_some() {
        return child();
    }
    let mut arguments = testing::Arguments::from_args();
    // They measure time: one after the other.
    arguments.test_threads = Some(1);
    testing::run(arguments)
}

fn try_until_in_time(test: fn() -> Outcome) {
    if let Some(reason) = missing() {
        testing::skip(reason);
    }
    for n in 1..=TRIES {
        match test() {
            Ok(()) => return,
            Err(Late(what)) => println!("try {n} of {TRIES}: {what}"),
        }
    }
    panic!("late in each of {TRIES} tries");
}

/// Why no device can be made here, if so.
fn missing() -> Option<String> {
    // SAFETY: cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return Some("needs root".into());
    }
    let absent = ["/dev/fuse", "/dev/loop-control"]
        .into_iter()
        .find(|path| !Path::new(path).exists());
    absent.map(|path| format!("needs {path}"))
}

fn config(faults: &[&str]) -> Config {
    Config {
        size_bytes: SIZE_BYTES,
        faults: faults.iter().map(|text| Fault::parse(text).unwrap()).collect(),
        latency_ns: 0,
        seed: 1,
        backing: None,
        log: None,
    }
}

fn start(faults: &[&str]) -> Slowdisk {
    Slowdisk::start(config(faults)).unwrap()
}

/// The device, opened for direct I/O.
fn open(disk: &Slowdisk) -> File {
    open_path(disk.device())
}

fn open_path(path: &Path) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)
        .unwrap()
}

/// Memory that direct I/O takes.
#[repr(align(4096))]
struct Block([u8; BLOCK_BYTES]);

fn read_block(file: &File, offset_bytes: u64) -> io::Result<Duration> {
    let mut block = Block([0; BLOCK_BYTES]);
    let begin = Instant::now();
    file.read_exact_at(&mut block.0, offset_bytes)
        .map(|()| begin.elapsed())
}

fn write_block(file: &File, offset_bytes: u64) -> io::Result<Duration> {
    let block = Block([7; BLOCK_BYTES]);
    let begin = Instant::now();
    file.write_all_at(&block.0, offset_bytes)
        .map(|()| begin.elapsed())
}

fn median(mut values: Vec<Duration>) -> Duration {
    values.sort();
    values[values.len() / 2]
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// CLOCK_MONOTONIC, as in the log.
fn mono_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is valid.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The number of a field in each line of a log.
fn log_numbers(path: &Path, field: &str) -> Vec<u64> {
    let key = format!("\"{field}\":");
    let number = |line: &str| {
        let (_, rest) = line.split_once(&key).unwrap();
        rest.split([',', '}']).next().unwrap().parse().unwrap()
    };
    fs::read_to_string(path).unwrap().lines().map(number).collect()
}

/// A small generator for tests (xorshift64*).
fn random(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d)
}

/// Aligned memory of `size` bytes within `memory`.
fn aligned(memory: &mut [u8], size: usize) -> &mut [u8] {
    let skip = memory.as_ptr().align_offset(4096);
    &mut memory[skip..skip + size]
}

fn keeps_bytes_and_counts_exactly() -> Outcome {
    let disk = start(&[]);
    let file = open(&disk);
    let mut model = vec![0u8; SIZE_BYTES as usize];
    let mut memory = vec![0u8; MIB as usize];
    let (mut state, mut written_bytes) = (3, 0);
    let before = disk.stats();
    for n in 0..211u64 {
        let size = (random(&mut state) % 512 + 1) as usize * 512;
        let offset = (random(&mut state) % (SIZE_BYTES / 512 - 512)) as usize * 512;
        let buffer = aligned(&mut memory, size);
        buffer.fill(n as u8 + 1);
        file.write_all_at(buffer, offset as u64).unwrap();
        model[offset..offset + size].fill(n as u8 + 1);
        written_bytes += size as u64;
    }
    let stats = disk.stats();
    assert_eq!(
        (
            stats.writes - before.writes,
            stats.write_bytes - before.write_bytes
        ),
        (211, written_bytes)
    );
    // BLKDISCARD of the first MiB: reads as zeros.
    const BLKDISCARD: libc::Ioctl = 0x1277;
    let range = [0u64, MIB];
    // SAFETY: the kernel reads two numbers.
    assert_eq!(
        unsafe { libc::ioctl(file.as_raw_fd(), BLKDISCARD, range.as_ptr()) },
        0
    );
    model[..MIB as usize].fill(0);
    assert_eq!(disk.stats().discards, 1);
    for n in 0..SIZE_BYTES / (256 << 10) {
        let offset = n * (256 << 10);
        let buffer = aligned(&mut memory, 256 << 10);
        file.read_exact_at(buffer, offset).unwrap();
        assert!(
            buffer == &model[offset as usize..][..256 << 10],
            "bytes differ at {offset}"
        );
    }
    let after = disk.stats();
    assert_eq!(
        (after.reads - stats.reads, after.read_bytes - stats.read_bytes),
        (256, SIZE_BYTES)
    );
    Ok(())
}

/// A block request is one request of ours, also where its memory is not aligned to pages.
fn large_requests_stay_whole() -> Outcome {
    let disk = start(&[]);
    let file = open(&disk);
    let mut memory = vec![0u8; 2 << 20];
    let before = disk.stats().reads;
    file.read_exact_at(&mut aligned(&mut memory, MIB as usize)[..512 << 10], 0)
        .unwrap();
    assert_eq!(disk.stats().reads - before, 1);
    file.read_exact_at(&mut aligned(&mut memory, MIB as usize)[512..][..512 << 10], 0)
        .unwrap();
    let reads = disk.stats().reads - before;
    assert!(reads <= 3, "one unaligned request became {reads}");
    Ok(())
}

/// What an earlier user of the loop device set does not shape the new disk, nor ours the next one.
fn queue_settings_are_ours_and_do_not_stay() -> Outcome {
    let disk = start(&[]);
    let queue = Path::new("/sys/block")
        .join(disk.device().file_name().unwrap())
        .join("queue");
    let setting = |name: &str| fs::read_to_string(queue.join(name)).unwrap().trim().to_owned();
    assert_eq!(
        (setting("max_sectors_kb"), setting("nr_requests")),
        ("512".into(), "128".into())
    );
    fs::write(queue.join("scheduler"), "mq-deadline").unwrap();
    fs::write(queue.join("nr_requests"), "4").unwrap();
    let device = disk.device().to_owned();
    disk.stop();
    assert_eq!(setting("max_sectors_kb"), setting("max_hw_sectors_kb"));
    let again = start(&[]);
    if again.device() != device {
        testing::skip(format!("{} was taken meanwhile", device.display()));
    }
    assert!(setting("scheduler").starts_with("[none]"));
    assert_eq!(setting("nr_requests"), "128");
    Ok(())
}

/// 32 readers: the hit ones wait 50 ms, the others as long as without a fault.
fn tail_does_not_touch_neighbours() -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("truth.jsonl");
    let healthy = start(&[]);
    let without = quantile(&parallel_reads(&healthy, 32, 200), 0.99);
    drop(healthy);
    let mut config = config(&["read tail 0.01 50ms"]);
    config.log = Some(log.clone());
    let disk = Slowdisk::start(config).unwrap();
    let latencies = parallel_reads(&disk, 32, 200);
    let stats = disk.stats();
    assert_eq!(disk.stop(), Vec::<String>::new());
    let (hits, fault) = (stats.faults[0].hits, &stats.faults[0]);
    assert_eq!(fault.matched, stats.reads);
    assert!(
        (30..=110).contains(&hits),
        "{hits} of 6400 hit, expected about 64"
    );
    assert_eq!(log_numbers(&log, "delay_ns"), vec![50_000_000; hits as usize]);
    let slow = latencies.iter().filter(|latency| **latency >= ms(50)).count() as u64;
    // Nothing is faster than its delay; a machine hiccup of 50 ms may add a few.
    assert!(slow >= hits, "{slow} of {hits} hit requests took 50 ms");
    in_time(slow <= hits + 10, || {
        format!("{slow} requests took 50 ms, {hits} were hit")
    })?;
    let others: Vec<_> = latencies
        .into_iter()
        .filter(|latency| *latency < ms(50))
        .collect();
    let with = quantile(&others, 0.99);
    in_time(with < without * 3 + ms(3), || {
        format!("p99 of the neighbours: {with:?}, without the fault {without:?}")
    })
}

fn quantile(latencies: &[Duration], part: f64) -> Duration {
    let mut sorted = latencies.to_vec();
    sorted.sort();
    sorted[(sorted.len() as f64 * part) as usize]
}

/// Latencies of `each` random reads by each of `threads` threads.
fn parallel_reads(disk: &Slowdisk, threads: u64, each: usize) -> Vec<Duration> {
    let path = disk.device();
    thread::scope(|scope| {
        let read = |thread: u64| {
            let (file, mut state) = (open_path(path), thread + 1);
            let one = |_| read_block(&file, random(&mut state) % (SIZE_BYTES / 4096) * 4096).unwrap();
            (0..each).map(one).collect::<Vec<_>>()
        };
        let running: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || read(thread)))
            .collect();
        running
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    })
}

fn same_seed_hits_the_same_requests() -> Outcome {
    let offsets_hit = |seed| {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("truth.jsonl");
        let mut config = config(&["write tail 0.1 100us"]);
        (config.seed, config.log) = (seed, Some(log.clone()));
        let disk = Slowdisk::start(config).unwrap();
        let file = open(&disk);
        for n in 0..101 {
            write_block(&file, n * 4096).unwrap();
        }
        drop(file);
        disk.stop();
        log_numbers(&log, "offset_bytes")
    };
    let first = offsets_hit(5);
    assert!(!first.is_empty());
    assert_eq!(first, offsets_hit(5));
    assert_ne!(first, offsets_hit(6));
    Ok(())
}

fn constant_delays_every_write_only() -> Outcome {
    let disk = start(&["write constant 5ms"]);
    let file = open(&disk);
    let writes: Vec<_> = (0..23).map(|n| write_block(&file, n * 4096).unwrap()).collect();
    assert!(writes.iter().all(|latency| *latency >= ms(5)), "{writes:?}");
    let typical = median(writes);
    in_time(typical < ms(7), || format!("a write with 5 ms took {typical:?}"))?;
    let reads: Vec<_> = (0..23).map(|n| read_block(&file, n * 4096).unwrap()).collect();
    let typical = median(reads);
    assert_eq!(
        (disk.stats().faults[0].hits, disk.stats().faults[0].delay_sum_ns),
        (23, 23 * 5_000_000)
    );
    in_time(typical < ms(2), || {
        format!("a read without a fault took {typical:?}")
    })
}

fn base_latency_is_there_without_faults() -> Outcome {
    let disk = Slowdisk::start(Config {
        latency_ns: 1_000_000,
        ..config(&[])
    })
    .unwrap();
    let file = open(&disk);
    let reads: Vec<_> = (0..101).map(|n| read_block(&file, n * 4096).unwrap()).collect();
    assert!(reads.iter().all(|latency| *latency >= ms(1)));
    let typical = median(reads);
    assert_eq!(disk.stats().faults, []);
    in_time(typical < Duration::from_micros(1500), || {
        format!("a read with 1 ms took {typical:?}")
    })
}

fn stall_holds_requests_to_its_end() -> Outcome {
    let disk = start(&["any stall 300ms 100ms"]);
    let (file, start_ns) = (open(&disk), disk.start_mono_ns());
    let end_ns = start_ns + 1_000_000_000;
    let mut held = 0;
    while mono_ns() < end_ns {
        let begin_ns = mono_ns() - start_ns;
        let latency = read_block(&file, 0).unwrap();
        let done_ns = mono_ns() - start_ns;
        let window_ns = begin_ns / 300_000_000 * 300_000_000;
        if window_ns > 0 && begin_ns - window_ns < 100_000_000 {
            assert!(
                done_ns >= window_ns + 100_000_000,
                "ended {} ns into a stall",
                done_ns - window_ns
            );
        }
        held += u64::from(latency > ms(90));
        thread::sleep(Duration::from_micros(200));
    }
    let hits = disk.stats().faults[0].hits;
    in_time((2..=3).contains(&held) && (held..=6).contains(&hits), || {
        format!("{held} reads were held, {hits} hit; windows began at 300, 600 and 900 ms")
    })
}

fn throttle_reaches_its_rates() -> Outcome {
    let disk = start(&["read throttle 2MiB/s", "write throttle 500/s"]);
    let bytes_per_s = rate(disk.device(), |file, n| read_block(file, n % 4096 * 4096)) * BLOCK_BYTES as f64;
    let wanted = 2.0 * MIB as f64;
    assert!(bytes_per_s < wanted * 1.1, "{bytes_per_s} of {wanted} bytes/s");
    in_time(bytes_per_s > wanted * 0.9, || {
        format!("{bytes_per_s} of {wanted} bytes/s")
    })?;
    let per_s = rate(disk.device(), |file, n| write_block(file, n % 4096 * 4096));
    assert!(per_s < 550.0, "{per_s} of 500 writes/s");
    in_time(per_s > 450.0, || format!("{per_s} of 500 writes/s"))
}

/// Requests per second of 8 threads over one second, without those in flight at the end.
fn rate(path: &Path, request: fn(&File, u64) -> io::Result<Duration>) -> f64 {
    let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let begin = Instant::now();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let file = open_path(path);
                loop {
                    request(&file, next.fetch_add(1, Relaxed)).unwrap();
                    if begin.elapsed() >= ms(1000) {
                        return;
                    }
                    done.fetch_add(1, Relaxed);
                }
            });
        }
    });
    done.load(Relaxed) as f64
}

fn errors_reach_the_reader_by_name() -> Outcome {
    let names = [
        ("EIO", libc::EIO),
        ("ENOSPC", libc::ENOSPC),
        ("ETIMEDOUT", libc::ETIMEDOUT),
        ("ENODATA", libc::ENODATA),
        ("EILSEQ", libc::EILSEQ),
        ("ENOLINK", libc::ENOLINK),
        ("EREMOTEIO", libc::EREMOTEIO),
    ];
    for (name, errno) in names {
        let disk = start(&[&format!("any error 1 {name} offset 4KiB..8KiB")]);
        let file = open(&disk);
        assert_eq!(
            read_block(&file, 4096).unwrap_err().raw_os_error(),
            Some(errno),
            "{name}"
        );
        assert_eq!(
            write_block(&file, 4096).unwrap_err().raw_os_error(),
            Some(errno),
            "{name}"
        );
        read_block(&file, 0).unwrap();
        assert!(disk.stats().faults[0].hits >= 2);
    }
    Ok(())
}

fn offset_and_time_window_select() -> Outcome {
    let disk = start(&["read constant 20ms offset 1MiB..2MiB from 200ms until 500ms"]);
    let (file, start_ns) = (open(&disk), disk.start_mono_ns());
    let hits = || disk.stats().faults[0].hits;
    let read = |offset| read_block(&file, offset).unwrap();
    let wait_until = |at_ms: u64| {
        let left_ns = (start_ns + at_ms * 1_000_000).saturating_sub(mono_ns());
        thread::sleep(Duration::from_nanos(left_ns));
    };
    read(MIB);
    let before = hits();
    in_time(mono_ns() < start_ns + 200_000_000, || {
        "the first read came after 200 ms".into()
    })?;
    assert_eq!(before, 0, "hit before the window");
    wait_until(200);
    let inside = [read(MIB), read(2 * MIB - 4096)];
    for outside in [0, MIB - 4096, 2 * MIB] {
        read(outside);
    }
    in_time(mono_ns() < start_ns + 500_000_000, || {
        "the reads took 300 ms".into()
    })?;
    assert!(inside.iter().all(|latency| *latency >= ms(20)), "{inside:?}");
    assert_eq!(hits(), 2);
    wait_until(500);
    read(MIB);
    assert_eq!(hits(), 2, "hit after the window");
    Ok(())
}

fn flush_fault_delays_fsync() -> Outcome {
    let disk = start(&["flush constant 30ms"]);
    let file = open(&disk);
    let before = disk.stats().flushes;
    let begin = Instant::now();
    file.sync_all().unwrap();
    assert!(begin.elapsed() >= ms(30));
    assert_eq!(disk.stats().flushes - before, 1);
    let read = read_block(&file, 0).unwrap();
    in_time(read < ms(30), || format!("a read took {read:?}"))
}

/// mkfs, mount, a file, and the bytes are there again on a second disk over the same backing file.
fn file_system_and_backing_file() -> Outcome {
    let mkfs = ["/sbin/mkfs.ext4", "/usr/sbin/mkfs.ext4"]
        .into_iter()
        .find(|path| Path::new(path).exists());
    let mkfs = mkfs.unwrap_or_else(|| testing::skip("needs mkfs.ext4"));
    let dir = tempfile::tempdir().unwrap();
    let mounted = dir.path().join("mounted");
    fs::create_dir(&mounted).unwrap();
    let backing = Config {
        backing: Some(dir.path().join("disk.img")),
        ..config(&["any tail 0.05 2ms"])
    };
    let run = |program: &str, words: &[&Path]| {
        let output = Command::new(program).args(words).output().unwrap();
        assert!(
            output.status.success(),
            "{program}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    let disk = Slowdisk::start(backing.clone()).unwrap();
    run(mkfs, &[Path::new("-q"), disk.device()]);
    run("mount", &[disk.device(), &mounted]);
    let content: Vec<u8> = (0..3_000_017u32).map(|n| (n % 251) as u8).collect();
    fs::write(mounted.join("file"), &content).unwrap();
    run("umount", &[&mounted]);
    assert_eq!(disk.stop(), Vec::<String>::new());
    let disk = Slowdisk::start(backing).unwrap();
    run("mount", &[disk.device(), &mounted]);
    assert!(
        fs::read(mounted.join("file")).unwrap() == content,
        "the file changed"
    );
    let warnings = disk.stop();
    run("umount", &[&mounted]);
    let expected = format!("still mounted at {}", mounted.display());
    assert!(
        warnings.len() == 1 && warnings[0].contains(&expected),
        "{warnings:?}"
    );
    Ok(())
}

/// Whether the kernel has a loop device over a file of this process.
fn attached(process: u32) -> bool {
    let devices = fs::read_dir("/sys/block").unwrap().flatten();
    let name = |device: fs::DirEntry| fs::read_to_string(device.path().join("loop/backing_file"));
    let wanted = format!("/whodisk-slowdisk-{process}-");
    devices
        .filter_map(|device| name(device).ok())
        .any(|name| name.contains(&wanted))
}

fn wait_for(what: &str, done: impl Fn() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < ms(5000), "waited 5 s for: {what}");
        thread::sleep(ms(5));
    }
}

fn stop_answers_waiting_requests_at_once() -> Outcome {
    let disk = start(&["read constant 60s"]);
    let path = disk.device().to_owned();
    let (tell, told) = mpsc::channel();
    let reader = thread::spawn(move || {
        let file = open_path(&path);
        tell.send(()).unwrap();
        read_block(&file, 0)
    });
    told.recv().unwrap();
    wait_for("the read to arrive", || disk.stats().reads > 0);
    let begin = Instant::now();
    drop(disk.stop());
    reader.join().unwrap().unwrap();
    assert!(begin.elapsed() < ms(2000), "{:?}", begin.elapsed());
    wait_for("the device to go", || !attached(std::process::id()));

    let disk = start(&[]);
    let file = open(&disk);
    let warnings = disk.stop();
    assert!(
        warnings.len() == 1 && warnings[0].contains("still open in another program"),
        "{warnings:?}"
    );
    assert_eq!(read_block(&file, 0).unwrap_err().raw_os_error(), Some(libc::EIO));
    assert!(attached(std::process::id()));
    drop(file);
    wait_for("the device to go with its last user", || {
        !attached(std::process::id())
    });
    Ok(())
}

/// Names of this process's threads that belong to a disk.
fn disk_threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names
        .filter(|name| name.starts_with("slowdisk-") || name.starts_with("fuser"))
        .collect()
}

fn stop_leaves_nothing_behind() -> Outcome {
    wait_for("earlier disks to end", || disk_threads().is_empty());
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let before = descriptors();
    for _ in 0..5 {
        let (one, two) = (start(&[]), start(&["any constant 1ms"]));
        assert_ne!(one.device(), two.device());
        read_block(&open(&one), 0).unwrap();
        read_block(&open(&two), 0).unwrap();
        assert!(!disk_threads().is_empty());
    }
    // A joined thread is listed until the kernel has buried it.
    wait_for("the threads to go", || disk_threads().is_empty());
    assert_eq!(descriptors(), before);
    assert!(!attached(std::process::id()));
    Ok(())
}

/// This program again, as a process that serves one disk (see `child`).
fn spawn_child(faults: &str) -> (Child, PathBuf) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .env("SLOWDISK_TEST_CHILD", faults)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    (child, PathBuf::from(line.trim()))
}

fn child() -> ExitCode {
    let faults = std::env::var("SLOWDISK_TEST_CHILD").unwrap_or_default();
    let faults = faults
        .split(';')
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
        .collect();
    let options = Options {
        size: "64MiB".into(),
        faults,
        duration: Some("30s".into()),
        ..Options::default()
    };
    match slowdisk::serve(&options, None, &AtomicBool::new(false), &mut io::stdout()) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::from(2)
        }
    }
}

fn killed_while_open_gives_errors_then_goes() -> Outcome {
    let (mut child, path) = spawn_child("read constant 60s");
    let process = child.id();
    let file = open_path(&path);
    write_block(&file, 0).unwrap();
    let waiting = file.try_clone().unwrap();
    let reader = thread::spawn(move || read_block(&waiting, 0));
    thread::sleep(ms(50));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(reader.join().unwrap().is_err(), "the waiting read fails");
    assert!(write_block(&file, 0).is_err(), "later requests fail");
    drop(file);
    wait_for("the device to go with its last user", || !attached(process));
    Ok(())
}

/// Dirty pages of the device at the moment of the kill, and only the dying process has it open.
fn killed_with_dirty_pages_ends() -> Outcome {
    let (mut child, path) = spawn_child("write constant 200ms");
    let process = child.id();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let writer = thread::spawn(move || {
        file.write_all_at(&vec![1; 8 << 20], 0).unwrap();
        // Closing writes the pages back while the server holds each for 200 ms.
        drop(file);
    });
    thread::sleep(ms(50));
    let begin = Instant::now();
    child.kill().unwrap();
    child.wait().unwrap();
    writer.join().unwrap();
    assert!(begin.elapsed() < ms(5000));
    wait_for("the device to go", || !attached(process));
    Ok(())
}

fn serve_prints_the_device_first() -> Outcome {
    let faults = vec!["read constant 1ms".to_owned()];
    let options = Options {
        size: "4MiB".into(),
        faults,
        duration: Some("300ms".into()),
        ..Options::default()
    };
    let (mut pipe, mut out) = io::pipe().unwrap();
    let server =
        thread::spawn(move || slowdisk::serve(&options, None, &AtomicBool::new(false), &mut out).unwrap());
    let mut lines = BufReader::new(pipe.try_clone().unwrap()).lines();
    let path = PathBuf::from(lines.next().unwrap().unwrap());
    for n in 0..3 {
        read_block(&open_path(&path), n * 4096).unwrap();
    }
    let stats = server.join().unwrap();
    assert_eq!((stats.reads, stats.faults[0].hits), (3, 3));
    let rest: Vec<_> = lines.map(Result::unwrap).collect();
    assert!(rest[0].starts_with("reads 3 (12KiB), writes 0 (0B)"), "{rest:?}");
    assert_eq!(
        rest[1],
        "fault 'read constant 1ms': hit 3 of 3 requests, added 3ms in all"
    );
    assert_eq!(pipe.read(&mut [0]).unwrap(), 0);
    let stop = AtomicBool::new(true);
    let options = Options {
        size: "4MiB".into(),
        ..Options::default()
    };
    slowdisk::serve(&options, None, &stop, &mut io::sink()).unwrap();
    Ok(())
}

fn mistakes_are_said_in_words() -> Outcome {
    let text = |config| Slowdisk::start(config).err().expect("an error").to_string();
    let size = text(Config {
        size_bytes: 5000,
        ..config(&[])
    });
    assert_eq!(
        size,
        "--size 5000 bytes: expected a multiple of 4096 bytes above 0; e.g. --size 1GiB"
    );
    let place = text(config(&["read constant 1ms offset 64MiB..65MiB"]));
    assert!(
        place.contains("expected an offset on the device, below 67108864 bytes"),
        "{place}"
    );
    let log = text(Config {
        log: Some("/proc/none/truth".into()),
        ..config(&[])
    });
    assert!(log.contains("/proc/none/truth: cannot create the log"), "{log}");
    let precious = tempfile::NamedTempFile::new().unwrap();
    fs::write(precious.path(), "precious").unwrap();
    let log = text(Config {
        log: Some(precious.path().into()),
        ..config(&[])
    });
    assert!(log.contains("expected a new file, found one of 8 bytes"), "{log}");
    assert_eq!(fs::read_to_string(precious.path()).unwrap(), "precious");
    let bad = Options {
        size: "1G".into(),
        ..Options::default()
    }
    .config()
    .unwrap_err()
    .to_string();
    assert!(bad.contains("--size '1G': expected a size with a unit"), "{bad}");
    // The same program without root: a copy that nobody may read the folder of cannot be run as nobody.
    let dir = tempfile::Builder::new().prefix("slowdisk").tempdir().unwrap();
    let copy = dir.path().join("device");
    fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let allow = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(dir.path(), allow).unwrap();
    let output = Command::new(copy)
        .env("SLOWDISK_TEST_CHILD", "")
        .uid(65534)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said.contains("expected root, which loop devices and mounts need, found user 65534"),
        "{said}"
    );
    Ok(())
}

//! Calls of every kind: a prime number goes in, the same number comes out, with the right place, size and result.
use crate::common::calls::*;
use crate::common::*;
use case::rows::{syscall_flags as flags, Via};
use case::schema::Op;
use record::Recorder;
use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use testing::test;

const MIB: u64 = 1 << 20;
const SIZE: usize = 4096;

fn new_file(path: &Path) -> File {
    std::fs::write(path, vec![5u8; MIB as usize]).unwrap();
    File::options().read(true).write(true).open(path).unwrap()
}

/// Makes a system call, which must succeed.
fn call(number: libc::c_long, arguments: [u64; 6]) -> i64 {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the callers pass descriptors and buffers that outlive the call.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    assert!(result >= 0, "{number}: {}", std::io::Error::last_os_error());
    result
}

#[test]
fn every_kind_is_counted() {
    require_kernel!();
    let folder = folder_on_disk();
    let (path, other) = (folder.path().join("data"), folder.path().join("other"));
    let (file, copy) = (new_file(&path), new_file(&other));
    let fd = file.as_raw_fd() as u64;
    let mut buffer = vec![7u8; SIZE];
    let data = buffer.as_mut_ptr() as u64;
    let size = SIZE as u64;
    let vectors = [[data, 1024], [data, 3072]];
    let vector = vectors.as_ptr() as u64;
    let name = CString::new(path.to_str().unwrap()).unwrap();
    let open = || {
        let how = [libc::O_RDONLY as u64, 0];
        let fd = call(
            libc::SYS_openat,
            [libc::AT_FDCWD as u64, name.as_ptr() as u64, how[0], 0, 0, 0],
        );
        // SAFETY: just opened, owned here alone.
        unsafe { File::from_raw_fd(fd as i32) }
    };
    // Number of the system call, how many, its arguments.
    let kinds: [(libc::c_long, usize, [u64; 6]); 15] = [
        (libc::SYS_pread64, 101, [fd, data, size, 8192, 0, 0]),
        (libc::SYS_pwrite64, 103, [fd, data, size, 8192, 0, 0]),
        (libc::SYS_preadv, 107, [fd, vector, 2, 8192, 0, 0]),
        (libc::SYS_pwritev, 109, [fd, vector, 2, 8192, 0, 0]),
        (libc::SYS_preadv2, 113, [fd, vector, 2, 8192, 0, 0]),
        (
            libc::SYS_pwritev2,
            127,
            [fd, vector, 2, 8192, 0, libc::RWF_DSYNC as u64],
        ),
        (libc::SYS_read, 131, [fd, data, size, 0, 0, 0]),
        (libc::SYS_readv, 7, [fd, vector, 2, 0, 0, 0]),
        (libc::SYS_write, 17, [fd, data, size, 0, 0, 0]),
        (libc::SYS_writev, 19, [fd, vector, 2, 0, 0, 0]),
        (libc::SYS_fsync, 11, [fd, 0, 0, 0, 0, 0]),
        (libc::SYS_fdatasync, 13, [fd, 0, 0, 0, 0, 0]),
        (libc::SYS_sync_file_range, 5, [fd, 4096, 8192, 2, 0, 0]),
        (libc::SYS_fallocate, 3, [fd, 0, 4096, 8192, 0, 0]),
        (libc::SYS_ftruncate, 2, [fd, 2 * MIB, 0, 0, 0, 0]),
    ];
    let copies = [file.as_raw_fd() as u64, copy.as_raw_fd() as u64];
    let calls = record_calls(only_us(), || {
        for (number, count, arguments) in kinds {
            (0..count).for_each(|_| {
                call(number, arguments);
            });
        }
        for _ in 0..23 {
            let mut offset = 4096u64;
            let from = &mut offset as *mut u64 as u64;
            call(
                libc::SYS_copy_file_range,
                [copies[0], from, copies[1], 0, size, 0],
            );
        }
        for _ in 0..29 {
            call(libc::SYS_sendfile, [copies[1], copies[0], 0, size, 0, 0]);
        }
        (0..31).for_each(|_| drop(open()));
    });
    for (number, count, arguments) in kinds {
        assert_eq!(
            calls.count_on(&path, number),
            count,
            "call {number} {arguments:?}"
        );
    }
    for (number, count) in [
        (libc::SYS_copy_file_range, 23),
        (libc::SYS_sendfile, 29),
        (libc::SYS_openat, 31),
    ] {
        assert_eq!(calls.count_on(&path, number), count, "call {number}");
    }
    let rows = calls.on(&path);
    let all = |number: libc::c_long| rows.iter().filter(move |row| row.call == number as u16);
    for number in [libc::SYS_pread64, libc::SYS_preadv, libc::SYS_preadv2] {
        assert!(all(number).all(|row| {
            (row.op, row.offset_bytes, row.size_bytes, row.result)
                == (Op::Read as u8, 8192, size, SIZE as i64)
        }));
    }
    for number in [libc::SYS_pwrite64, libc::SYS_pwritev, libc::SYS_pwritev2] {
        let sync = if number == libc::SYS_pwritev2 {
            flags::SYNC
        } else {
            0
        };
        assert!(all(number).all(|row| {
            (row.op, row.offset_bytes, row.size_bytes, row.flags) == (Op::Write as u8, 8192, size, sync)
        }));
    }
    // Reads at the file's position follow each other.
    let places: Vec<u64> = all(libc::SYS_read).map(|row| row.offset_bytes).collect();
    assert_eq!(places, (0..131).map(|n| n * size).collect::<Vec<_>>());
    assert!(all(libc::SYS_readv).all(|row| row.size_bytes == size));
    assert!(all(libc::SYS_fsync).all(|row| row.op == Op::Sync as u8 && row.result == 0));
    assert!(all(libc::SYS_sync_file_range).all(|row| (row.offset_bytes, row.size_bytes) == (4096, 8192)));
    assert!(all(libc::SYS_copy_file_range).all(|row| row.op == Op::Copy as u8 && row.offset_bytes == 4096));
    let us = std::process::id() as i32;
    assert!(rows.iter().all(|row| row.pid == us && row.owner_key == 0));
    assert!(rows
        .iter()
        .all(|row| row.start_ns >= calls.begin_ns && row.end_ns <= calls.end_ns));
    assert_eq!(calls.name(&path), path.canonicalize().unwrap().to_str().unwrap());
}

/// Pages that a program has mapped, from so many bytes of a file on; of no file: memory of its own.
fn mapped(file: Option<&File>, offset: i64, size: usize) -> u64 {
    let (flags, fd) = match file {
        Some(file) => (libc::MAP_SHARED, file.as_raw_fd()),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
    };
    let wanted = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice; it stays until the process ends.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), size, wanted, flags, fd, offset) };
    assert_ne!(address, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
    address as u64
}

#[test]
fn a_sync_of_mapped_pages_is_one_of_their_file() {
    require_kernel!();
    let (folder, in_memory) = (folder_on_disk(), tempfile::tempdir_in("/dev/shm").unwrap());
    let path = folder.path().join("data");
    let (file, other) = (new_file(&path), new_file(&in_memory.path().join("data")));
    let ours = mapped(Some(&file), 16384, 65536);
    let not_ours = [mapped(Some(&other), 0, 65536), mapped(None, 0, 65536)];
    let calls = record_calls(only_us(), || {
        for turn in 0..37u8 {
            // SAFETY: inside the pages that were mapped above.
            unsafe { ((ours + 8192) as *mut u8).write_volatile(turn) };
            call(
                libc::SYS_msync,
                [ours + 8192, 4096, libc::MS_SYNC as u64, 0, 0, 0],
            );
        }
        for address in not_ours {
            call(libc::SYS_msync, [address, 4096, libc::MS_SYNC as u64, 0, 0, 0]);
        }
    });
    // The kernel tells nothing of a process that changes its mappings at that moment, as other tests do in this one: then no file is known.
    let rows: Vec<_> = calls
        .rows
        .iter()
        .filter(|row| row.call == libc::SYS_msync as u16)
        .collect();
    let unknown = rows.iter().filter(|row| row.device == 0).count();
    assert!(
        rows.len() - unknown <= 37 && (37..=39).contains(&rows.len()),
        "{rows:?}"
    );
    let ours = calls.on(&path);
    let ours: Vec<_> = ours
        .iter()
        .filter(|row| row.call == libc::SYS_msync as u16)
        .collect();
    assert!(
        ours.len() + unknown == rows.len() && ours.len() >= 30,
        "{unknown} of {} unknown",
        rows.len()
    );
    assert!(ours.iter().all(|row| {
        (row.op, row.offset_bytes, row.size_bytes, row.result) == (Op::Sync as u8, 16384 + 8192, 4096, 0)
    }));
    let skipped = ["skipped_in_memory", "skipped_no_storage"].map(|name| calls.summary.count(name));
    assert!(
        skipped.iter().sum::<u64>() as usize + rows.len() >= 39,
        "{skipped:?}"
    );
}

#[test]
fn what_is_no_storage_is_counted_and_left_out() {
    require_kernel!();
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut file = File::create(memory.path().join("data")).unwrap();
    let calls = record_calls(only_us(), || {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        for _ in 0..101 {
            writer.write_all(b"x").unwrap();
            reader.read_exact(&mut [0]).unwrap();
            file.write_all(b"x").unwrap();
        }
        std::fs::read_to_string("/proc/self/stat").unwrap();
    });
    assert!(
        calls.summary.count("skipped_no_storage") >= 202,
        "{:?}",
        calls.summary
    );
    assert!(
        calls.summary.count("skipped_in_memory") >= 102,
        "{:?}",
        calls.summary
    );
    let data = (Op::Read as u8, Op::Write as u8);
    let ours = calls
        .rows
        .iter()
        .filter(|row| row.op == data.0 || row.op == data.1);
    assert_eq!(ours.count(), 0);
}

#[test]
fn names_flags_and_failures() {
    require_kernel!();
    let folder = folder_on_disk();
    let device = LoopDevice::new(16 * MIB);
    run("mkfs.ext4", &["-q", &device.path]);
    let mount = Mount::new(&[&device.path]);
    let deep = mount.path.join("a".repeat(100)).join("b".repeat(100));
    std::fs::create_dir_all(&deep).unwrap();
    let (inside, outside) = (deep.join("file"), folder.path().join("first"));
    let renamed = folder.path().join("second");
    let file = new_file(&inside);
    new_file(&outside);
    let mut buffer = vec![0u8; 8192];
    let data = (buffer.as_mut_ptr() as u64).next_multiple_of(512);
    let calls = record_calls(only_us(), || {
        // Opened before the recording, and known by its descriptor alone.
        call(libc::SYS_pread64, [file.as_raw_fd() as u64, data, 4096, 0, 0, 0]);
        let disk = File::options()
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(&device.path)
            .unwrap();
        call(libc::SYS_pread64, [disk.as_raw_fd() as u64, data, 4096, 0, 0, 0]);
        assert!(File::open(folder.path().join("nowhere")).is_err());
        drop(File::open(&outside).unwrap());
        std::fs::rename(&outside, &renamed).unwrap();
        drop(File::open(&renamed).unwrap());
        let mut log = File::options().append(true).open(&renamed).unwrap();
        log.write_all(b"end").unwrap();
        let durable = File::options()
            .write(true)
            .custom_flags(libc::O_SYNC)
            .open(&renamed)
            .unwrap();
        call(
            libc::SYS_pwrite64,
            [durable.as_raw_fd() as u64, data, 512, 0, 0, 0],
        );
    });
    assert_eq!(calls.name(&inside), inside.to_str().unwrap());
    assert_eq!(
        calls.name(&renamed),
        renamed.canonicalize().unwrap().to_str().unwrap()
    );
    assert_eq!(
        calls.names.get(&(device.device, 0)).map(String::as_str),
        Some(device.path.as_str())
    );
    let on_disk: Vec<_> = calls
        .rows
        .iter()
        .filter(|row| (row.device, row.inode) == (device.device, 0))
        .collect();
    let read = on_disk.iter().find(|row| row.op == Op::Read as u8).unwrap();
    assert_eq!(read.flags, flags::DIRECT | flags::BLOCK_DEVICE);
    assert_ne!(read.owner_key, 0);
    let failed = |row: &&&case::rows::SyscallRow| row.result == -i64::from(libc::ENOENT);
    assert!(calls
        .rows
        .iter()
        .collect::<Vec<_>>()
        .iter()
        .filter(failed)
        .any(|row| row.inode == 0));
    let writes: Vec<_> = calls
        .on(&renamed)
        .into_iter()
        .filter(|row| row.op == Op::Write as u8)
        .collect();
    assert_eq!(writes.len(), 2);
    assert_eq!((writes[0].flags, writes[0].offset_bytes), (flags::APPEND, MIB));
    assert_eq!((writes[1].flags, writes[1].offset_bytes), (flags::SYNC, 0));
}

#[test]
fn other_programs_are_out_of_scope_and_children_within() {
    require_kernel!();
    let folder = folder_on_disk();
    let (theirs, ours) = (folder.path().join("theirs"), folder.path().join("ours"));
    let copy = |to: &Path| format!("dd if=/dev/zero of={} bs=4k count=101 status=none", to.display());
    // Forked before, it waits for its command: no child of the recording.
    let mut stranger = Command::new("sh").stdin(Stdio::piped()).spawn().unwrap();
    let calls = record_calls(only_us(), || {
        let mut commands = stranger.stdin.take().unwrap();
        writeln!(commands, "{}", copy(&theirs)).unwrap();
        drop(commands);
        assert!(stranger.wait().unwrap().success());
        // A child, and a child's child.
        run("sh", &["-c", &format!("({})", copy(&ours))]);
    });
    assert_eq!(calls.count_on(&ours, libc::SYS_write), 101);
    assert_eq!(calls.on(&theirs), []);
    let stranger = stranger.id() as i32;
    assert!(calls.rows.iter().all(|row| row.pid != stranger));
}

#[test]
fn programs_with_many_descriptors_are_seen_alike() {
    require_kernel!();
    let folder = folder_on_disk();
    let (few, many) = (folder.path().join("few"), folder.path().join("many"));
    let (_few, _many) = (new_file(&few), new_file(&many));
    let read = "for i in $(seq 103); do head -c 4096 >/dev/null; done";
    let calls = record_calls(only_us(), || {
        run("bash", &["-c", &format!("({read}) <{}", few.display())]);
        // A descriptor above 64: the kernel makes a larger table, which those that are started begin with.
        run(
            "bash",
            &["-c", &format!("exec 200<{}; ({read}) <&200", many.display())],
        );
    });
    for file in [&few, &many] {
        assert_eq!(calls.count_on(file, libc::SYS_read), 103, "{}", file.display());
        assert!(calls.on(file).iter().all(|row| row.flags & flags::DIRECT == 0));
    }
}

/// Stops all writes to a file system until dropped.
struct Frozen(File);

impl Frozen {
    const FIFREEZE: libc::c_ulong = 0xC004_5877;
    const FITHAW: libc::c_ulong = 0xC004_5878;

    fn new(mount: &Path) -> Frozen {
        let folder = File::open(mount).unwrap();
        // SAFETY: a valid descriptor; the argument is not used.
        assert_eq!(unsafe { libc::ioctl(folder.as_raw_fd(), Frozen::FIFREEZE, 0) }, 0);
        Frozen(folder)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { libc::ioctl(self.0.as_raw_fd(), Frozen::FITHAW, 0) };
    }
}

/// Waits until some thread of a process is inside a call.
fn wait_for_call(pid: u32, number: libc::c_long) {
    let inside = || {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        threads.flatten().any(|thread| {
            let state = std::fs::read_to_string(thread.path().join("syscall")).unwrap_or_default();
            state.split(' ').next() == Some(&number.to_string())
        })
    };
    let begin = std::time::Instant::now();
    while !inside() {
        assert!(begin.elapsed().as_secs() < 10);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn calls_in_flight_at_begin_and_end() {
    require_kernel!();
    let device = LoopDevice::new(16 * MIB);
    run("mkfs.ext4", &["-q", &device.path]);
    let mount = Mount::new(&[&device.path]);
    let (early, late) = (mount.path.join("early"), mount.path.join("late"));
    let files = [new_file(&early), new_file(&late)];
    let write = |mut file: File| std::thread::spawn(move || file.write_all(&[1; 4096]).unwrap());
    let recorder = Recorder::attach(only_us()).unwrap();
    let [first, second] = files;
    let frozen = Frozen::new(&mount.path);
    let threads = [write(first)];
    wait_for_call(std::process::id(), libc::SYS_write);
    let recording = CallRecording::start(recorder);
    drop(frozen);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let frozen = Frozen::new(&mount.path);
    let thread = write(second);
    wait_for_call(std::process::id(), libc::SYS_write);
    let calls = recording.stop();
    drop(frozen);
    thread.join().unwrap();
    assert_eq!(calls.losses, "");
    let [begun_before] = calls.on(&early)[..] else {
        panic!("{:?}", calls.on(&early))
    };
    assert!(begun_before.start_ns < calls.begin_ns && begun_before.end_ns > calls.begin_ns);
    let [open] = calls.on(&late)[..] else {
        panic!("{:?}", calls.on(&late))
    };
    assert_eq!((open.end_ns, open.flags, calls.summary.open), (0, 0, 1));
}

#[test]
fn a_thread_killed_in_a_call_ends_it() {
    require_kernel!();
    let device = LoopDevice::new(16 * MIB);
    run("mkfs.ext4", &["-q", &device.path]);
    let mount = Mount::new(&[&device.path]);
    let path = mount.path.join("data");
    new_file(&path);
    let calls = record_calls(only_us(), || {
        let frozen = Frozen::new(&mount.path);
        let mut child = Command::new("dd")
            .args(["if=/dev/zero", "bs=4k", "count=7", "conv=notrunc", "status=none"])
            .arg(format!("of={}", path.display()))
            .spawn()
            .unwrap();
        wait_for_call(child.id(), libc::SYS_write);
        child.kill().unwrap();
        drop(frozen);
        child.wait().unwrap();
    });
    let writes: Vec<_> = calls
        .on(&path)
        .into_iter()
        .filter(|row| row.op == Op::Write as u8)
        .collect();
    assert_eq!(writes.len(), 1, "{writes:?}");
    assert_ne!(writes[0].end_ns, 0);
    assert_eq!(writes[0].via, Via::Call as u8);
}

#[test]
fn lookups_listings_and_attributes_are_those_that_slept() {
    require_kernel!();
    let device = LoopDevice::new(16 * MIB);
    run("mkfs.ext4", &["-q", &device.path]);
    let mount = Mount::new(&[&device.path]);
    for name in ["folder", "other"] {
        std::fs::create_dir(mount.path.join(name)).unwrap();
        new_file(&mount.path.join(name).join("data"));
    }
    drop(mount);
    // A file system that was just mounted has nothing in memory.
    let mount = Mount::new(&[&device.path]);
    let (path, folder) = (mount.path.join("folder/data"), mount.path.join("other"));
    let look = || {
        assert_eq!(std::fs::metadata(&path).unwrap().len(), MIB);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    };
    let allow = || std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let count = |calls: &Calls, op: Op| calls.rows.iter().filter(|row| row.op == op as u8).count();

    let cold = record_calls(only_us(), look);
    let listings: Vec<_> = cold.rows.iter().filter(|row| row.op == Op::List as u8).collect();
    let inode = std::fs::metadata(&folder).unwrap().ino();
    assert_eq!(
        listings
            .iter()
            .map(|row| (row.inode, row.result > 0))
            .collect::<Vec<_>>(),
        [(inode, true)]
    );
    assert_eq!(count(&cold, Op::Lookup), 1, "{:?}", cold.rows);
    assert!(
        cold.names.values().any(|name| *name == path.to_str().unwrap()),
        "{:?}",
        cold.names
    );

    let warm = record_calls(only_us(), || {
        (0..7).for_each(|_| {
            look();
            allow();
        })
    });
    for op in [Op::List, Op::Lookup, Op::Attribute, Op::Close] {
        assert_eq!(count(&warm, op), 0, "{op:?}: {:?}", warm.rows);
    }

    let file = std::fs::File::options().write(true).open(&path).unwrap();
    // futimens: a descriptor, and no name.
    let touch = || file.set_modified(std::time::UNIX_EPOCH).unwrap();
    let in_frozen = |what: &(dyn Fn() + Sync), number| {
        record_calls(only_us(), || {
            let frozen = Frozen::new(&mount.path);
            std::thread::scope(|scope| {
                let thread = scope.spawn(what);
                wait_for_call(std::process::id(), number);
                drop(frozen);
                thread.join().unwrap();
            });
        })
    };
    let waited = in_frozen(&allow, libc::SYS_chmod);
    assert_eq!(count(&waited, Op::Attribute), 1, "{:?}", waited.rows);
    let touched = in_frozen(&touch, libc::SYS_utimensat);
    let inode = std::fs::metadata(&path).unwrap().ino();
    let attributes = touched.rows.iter().filter(|row| row.op == Op::Attribute as u8);
    assert_eq!(attributes.map(|row| row.inode).collect::<Vec<_>>(), [inode]);
}

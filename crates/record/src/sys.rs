//! The few bpf(2) calls that aya does not offer, and the clock of the probes.
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

const BPF_MAP_LOOKUP_ELEM: libc::c_int = 1;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_MAP_DELETE_ELEM: libc::c_int = 3;
const BPF_MAP_LOOKUP_AND_DELETE_ELEM: libc::c_int = 21;
const BPF_MAP_LOOKUP_BATCH: libc::c_int = 24;
const BPF_PROG_TEST_RUN: libc::c_int = 10;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_int = 15;

/// Gives the calling thread the highest nice value; without the privilege it stays as it is.
pub fn run_first() {
    // SAFETY: concerns the calling thread only (0 = this thread on Linux).
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
}

/// Whether there is a process of this number, waited for by its parent or not.
pub fn is_there(pid: i32) -> bool {
    // SAFETY: signal 0 is sent to nobody; the kernel only looks.
    let sent = unsafe { libc::kill(pid, 0) };
    sent == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// `CLOCK_MONOTONIC` in ns: the clock of `bpf_ktime_get_ns`.
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec. CLOCK_MONOTONIC exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CPU time that all threads of this process have taken, ns.
pub fn process_cpu_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec. Every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[repr(C)]
struct MapElement {
    map_fd: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// A command that writes into its attributes.
fn bpf_in_out<T>(command: libc::c_int, attributes: &mut T) -> io::Result<()> {
    // SAFETY: as for `bpf`.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes as *mut T, size_of::<T>()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<()> {
    // SAFETY: every caller passes the attribute struct of its command; the pointers in it outlive the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes as *const T, size_of::<T>()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Reads the only element of an array (a section of global variables) into `value`, which must have its length.
pub fn read_single(map: BorrowedFd<'_>, value: &mut [u8]) -> io::Result<()> {
    access_single(BPF_MAP_LOOKUP_ELEM, map, value.as_mut_ptr() as u64)
}

/// Replaces it. That of a program array is a program's descriptor.
pub fn write_single(map: BorrowedFd<'_>, value: &[u8]) -> io::Result<()> {
    access_single(BPF_MAP_UPDATE_ELEM, map, value.as_ptr() as u64)
}

/// Takes it out of a program array.
pub fn clear_single(map: BorrowedFd<'_>) -> io::Result<()> {
    access_single(BPF_MAP_DELETE_ELEM, map, 0)
}

fn access_single(command: libc::c_int, map: BorrowedFd<'_>, value: u64) -> io::Result<()> {
    let key = 0u32;
    let map_fd = map.as_raw_fd() as u32;
    let key_address = &key as *const u32 as u64;
    bpf(
        command,
        &MapElement {
            map_fd,
            pad: 0,
            key: key_address,
            value,
            flags: 0,
        },
    )
}

/// Takes an element out of a hash map and reads it as it was; false if it is not there.
pub fn take_element(map: BorrowedFd<'_>, key: &[u8], value: &mut [u8]) -> io::Result<bool> {
    let element = MapElement {
        map_fd: map.as_raw_fd() as u32,
        pad: 0,
        key: key.as_ptr() as u64,
        value: value.as_mut_ptr() as u64,
        flags: 0,
    };
    match bpf(BPF_MAP_LOOKUP_AND_DELETE_ELEM, &element) {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Elements that one call of [`read_hash`] to the kernel asks for.
const BATCH: usize = 4096;

/// Calls `found` with key and value of every element of a hash map. What is added or deleted meanwhile may be seen or
/// not. Needs Linux 5.6.
pub fn read_hash(
    map: BorrowedFd<'_>,
    key_bytes: usize,
    value_bytes: usize,
    mut found: impl FnMut(&[u8], &[u8]),
) -> io::Result<()> {
    #[repr(C)]
    struct Batch {
        in_batch: u64,
        out_batch: u64,
        keys: u64,
        values: u64,
        count: u32,
        map_fd: u32,
        element_flags: u64,
        flags: u64,
    }
    // The place where a call stopped, in a form that only the kernel knows (of the key's size at most).
    let mut place = vec![0u8; key_bytes.max(8)];
    let mut keys = vec![0u8; BATCH * key_bytes];
    let mut values = vec![0u8; BATCH * value_bytes];
    let mut first = true;
    loop {
        let at = place.as_mut_ptr() as u64;
        let mut batch = Batch {
            in_batch: if first { 0 } else { at },
            out_batch: at,
            keys: keys.as_mut_ptr() as u64,
            values: values.as_mut_ptr() as u64,
            count: BATCH as u32,
            map_fd: map.as_raw_fd() as u32,
            element_flags: 0,
            flags: 0,
        };
        let result = bpf_in_out(BPF_MAP_LOOKUP_BATCH, &mut batch);
        let ended = match &result {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => true,
            Err(_) => return result,
            Ok(()) => false,
        };
        for index in 0..(batch.count as usize).min(BATCH) {
            found(
                &keys[index * key_bytes..][..key_bytes],
                &values[index * value_bytes..][..value_bytes],
            );
        }
        if ended {
            return Ok(());
        }
        first = false;
    }
}

/// Runs a raw tracepoint program once, here and now, with one argument.
pub fn run_program(program: BorrowedFd<'_>, argument: u64) -> io::Result<()> {
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        fd: u32,
        result: u32,
        data_in_size: u32,
        data_out_size: u32,
        data_in: u64,
        data_out: u64,
        repeat: u32,
        duration: u32,
        context_in_size: u32,
        context_out_size: u32,
        context_in: u64,
        context_out: u64,
    }
    bpf(
        BPF_PROG_TEST_RUN,
        &Attributes {
            fd: program.as_raw_fd() as u32,
            context_in_size: size_of::<u64>() as u32,
            context_in: &argument as *const u64 as u64,
            ..Attributes::default()
        },
    )
}

/// What the kernel counts about one program.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProgramCounts {
    /// Runs that were refused because the same program was running on this CPU already.
    pub recursion_misses: u64,
    /// Runs; counted only while kernel.bpf_stats_enabled is 1.
    pub runs: u64,
    /// Time in them, ns; likewise.
    pub run_time_ns: u64,
}

/// Reads the kernel's account of a program (5.12 and later; zeros before).
pub fn program_counts(program: BorrowedFd<'_>) -> io::Result<ProgramCounts> {
    #[repr(C)]
    struct Attributes {
        fd: u32,
        info_len: u32,
        info: u64,
    }
    let mut info: aya_obj::generated::bpf_prog_info = unsafe { std::mem::zeroed() };
    let attributes = Attributes {
        fd: program.as_raw_fd() as u32,
        info_len: size_of_val(&info) as u32,
        info: &mut info as *mut _ as u64,
    };
    bpf(BPF_OBJ_GET_INFO_BY_FD, &attributes)?;
    Ok(ProgramCounts {
        recursion_misses: info.recursion_misses,
        runs: info.run_cnt,
        run_time_ns: info.run_time_ns,
    })
}

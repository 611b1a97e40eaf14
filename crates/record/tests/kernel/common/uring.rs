//! Our engine's way to read: operations with their ids in `user_data`.
use io_uring::{opcode, types, IoUring};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Where our operations are numbered from.
pub const OP_ID_BASE: u64 = 1 << 56;
const DEPTH: u64 = 64;

/// Reads `count` blocks of `size` one after the other at depth 64, submitted 16 at a time.
/// The engine's way: the operation's id is the `user_data`.
pub fn read_sequentially(path: &Path, count: u64, size: u64, file_bytes: u64) {
    let file = std::fs::File::options()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)
        .unwrap();
    let layout = std::alloc::Layout::from_size_align((size * DEPTH) as usize, 4096).unwrap();
    // SAFETY: a non-empty layout; freed at the end, when nothing is in flight.
    let memory = unsafe { std::alloc::alloc_zeroed(layout) };
    let mut ring = IoUring::new(DEPTH as u32).unwrap();
    let (mut submitted, mut completed) = (0, 0);
    while completed < count {
        let batch = (count - submitted).min(16);
        if batch > 0 && submitted - completed + batch <= DEPTH {
            for sequence in submitted..submitted + batch {
                // SAFETY: the slot of a completed operation; never two in flight share one by construction of
                // the wait below, and reads of the same bytes would do no harm.
                let buffer = unsafe { memory.add((sequence % DEPTH * size) as usize) };
                let fd = types::Fd(file.as_raw_fd());
                let offset = sequence * size % file_bytes;
                let entry = opcode::Read::new(fd, buffer, size as u32).offset(offset).build();
                let entry = entry.user_data(OP_ID_BASE | sequence);
                // SAFETY: file and buffer outlive the operation.
                unsafe { ring.submission().push(&entry).unwrap() };
            }
            submitted += batch;
            ring.submit().unwrap();
        } else {
            ring.submit_and_wait(1).unwrap();
        }
        for completion in ring.completion() {
            assert_eq!(completion.result(), size as i32);
            completed += 1;
        }
    }
    // SAFETY: allocated above with the same layout.
    unsafe { std::alloc::dealloc(memory, layout) };
}

//! Settings of our own threads.

/// Prepares the calling thread for serving a disk, as far as the kernel allows.
pub fn be_a_disk_thread() {
    const PR_SET_IO_FLUSHER: i32 = 57;
    // SAFETY: prctl with plain numbers.
    unsafe {
        // Timers fire when due and not up to 50 us later.
        libc::prctl(libc::PR_SET_TIMERSLACK, 1usize, 0usize, 0usize, 0usize);
        // Memory we need must not wait for write-back to the very disk we serve.
        libc::prctl(PR_SET_IO_FLUSHER, 1usize, 0usize, 0usize, 0usize);
        // A device has processors of its own: load on the machine's should not slow it. 0: this thread.
        libc::setpriority(libc::PRIO_PROCESS, 0, -20);
    }
}

//! Where operations go: io_uring, or nowhere.
use crate::buffers::Buffers;
use crate::clock::{mono_ns, sleep_until};
use crate::mix::Access;
use crate::spec::SyncKind;
use crate::WorkloadError;
use case::schema::Op;
use io_uring::{cqueue, opcode, squeue, types, IoUring, SubmissionQueue, Submitter};
use std::os::fd::RawFd;

/// How long [`Backend::enter`] may wait for a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Until there is one.
    Completion,
    /// Until there is one or this moment (CLOCK_MONOTONIC) has come.
    Until(u64),
    /// Not at all.
    No,
}

/// Takes operations and gives completions.
pub(crate) trait Backend {
    /// Takes an operation; it begins with the next [`Backend::submit`] or [`Backend::enter`].
    fn queue(&mut self, access: &Access, op_id: u64, slot: usize);
    /// Hands over what was queued. Operations that are refused for lack of resources stay queued.
    fn submit(&mut self) -> Result<(), WorkloadError>;
    /// Hands over what was queued and waits.
    fn enter(&mut self, wait: Wait) -> Result<(), WorkloadError>;
    /// Calls `each(op_id, result)` for every completion at hand; results are those of the system calls.
    fn completions(&mut self, each: impl FnMut(u64, i32));
}

/// Completes every operation at once, inside the engine.
#[derive(Default)]
pub(crate) struct Null {
    queued: Vec<(u64, i32)>,
    done: Vec<(u64, i32)>,
}

impl Null {
    pub(crate) fn new(queue_depth: usize) -> Null {
        Null {
            queued: Vec::with_capacity(queue_depth),
            done: Vec::with_capacity(queue_depth),
        }
    }
}

impl Backend for Null {
    #[inline]
    fn queue(&mut self, access: &Access, op_id: u64, _slot: usize) {
        self.queued.push((op_id, access.size_bytes as i32));
    }

    #[inline]
    fn submit(&mut self) -> Result<(), WorkloadError> {
        Ok(())
    }

    #[inline]
    fn enter(&mut self, wait: Wait) -> Result<(), WorkloadError> {
        if self.queued.is_empty() {
            if let Wait::Until(until_ns) = wait {
                sleep_until(until_ns);
            }
        }
        std::mem::swap(&mut self.queued, &mut self.done);
        Ok(())
    }

    #[inline]
    fn completions(&mut self, mut each: impl FnMut(u64, i32)) {
        for (op_id, result) in self.done.drain(..) {
            each(op_id, result);
        }
    }
}

/// What of io_uring this kernel and these limits gave us; goes into the summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct UringFeatures {
    /// Completions run when the worker enters the kernel, not in interrupts of its thread.
    pub defer_taskrun: bool,
    /// Buffers are mapped once, not per operation.
    pub registered_buffers: bool,
}

/// An io_uring with its files and buffers registered where possible.
pub(crate) struct Uring<'r> {
    submitter: Submitter<'r>,
    submissions: SubmissionQueue<'r>,
    completions: io_uring::CompletionQueue<'r>,
    buffers: &'r Buffers,
    sync_flags: types::FsyncFlags,
    pub(crate) features: UringFeatures,
}

/// Creates the ring of one worker, on the thread that will use it. The flags a kernel lacks are left out.
pub(crate) fn new_ring(queue_depth: u32) -> Result<(IoUring, bool), WorkloadError> {
    let mut best = IoUring::builder();
    best.setup_cqsize(queue_depth * 2)
        .setup_submit_all()
        .setup_single_issuer();
    best.setup_coop_taskrun()
        .setup_defer_taskrun()
        .setup_taskrun_flag();
    match best.build(queue_depth) {
        Ok(ring) => return Ok((ring, true)),
        Err(error) if error.raw_os_error() != Some(libc::EINVAL) => return Err(uring_error(error)),
        Err(_) => {}
    }
    let mut plain = IoUring::builder();
    plain.setup_cqsize(queue_depth * 2);
    plain
        .build(queue_depth)
        .map(|ring| (ring, false))
        .map_err(uring_error)
}

fn uring_error(source: std::io::Error) -> WorkloadError {
    let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    let hint = match (source.raw_os_error(), disabled.trim()) {
        (Some(libc::EPERM), "1") => {
            "kernel.io_uring_disabled is 1: run as root, or as a member of kernel.io_uring_group, or set it to 0"
        }
        (Some(libc::EPERM), "2") => "kernel.io_uring_disabled is 2: run `sysctl kernel.io_uring_disabled=0`",
        (Some(libc::EPERM), _) => {
            "a seccomp filter forbids it: allow io_uring_setup, io_uring_enter and io_uring_register in the container's profile"
        }
        (Some(libc::ENOSYS), _) => "this kernel or its seccomp filter has no io_uring: Linux 5.10 or newer is needed",
        (Some(libc::ENOMEM), _) => "raise the limit of locked memory (`ulimit -l`) or lower queue_depth",
        _ => "see `man io_uring_setup` for this error",
    };
    WorkloadError::Uring {
        action: "set up a ring".into(),
        source,
        hint: hint.into(),
    }
}

impl<'r> Uring<'r> {
    /// Registers `files` and `buffers` with `ring`. Buffers that are refused (the limit of locked
    /// memory) are used unregistered.
    pub(crate) fn new(
        ring: &'r mut IoUring,
        defer_taskrun: bool,
        files: &[RawFd],
        buffers: &'r Buffers,
        sync_kind: SyncKind,
    ) -> Result<Uring<'r>, WorkloadError> {
        let (mut submitter, submissions, completions) = ring.split();
        // SAFETY: `buffers` outlives the ring's use of them (lifetime 'r).
        let registered_buffers = unsafe { submitter.register_buffers(&buffers.iovecs()) }.is_ok();
        submitter
            .register_files(files)
            .map_err(|source| WorkloadError::Uring {
                action: format!("register {} files", files.len()),
                source,
                hint: "raise the limit of open files (`ulimit -n`)".into(),
            })?;
        // Only saves a lookup per call; older kernels go without.
        let _ = submitter.register_ring_fd();
        let sync_flags = match sync_kind {
            SyncKind::Fdatasync => types::FsyncFlags::DATASYNC,
            _ => types::FsyncFlags::empty(),
        };
        let features = UringFeatures {
            defer_taskrun,
            registered_buffers,
        };
        Ok(Uring {
            submitter,
            submissions,
            completions,
            buffers,
            sync_flags,
            features,
        })
    }

    #[inline]
    fn entry(&self, access: &Access, slot: usize) -> squeue::Entry {
        let fd = types::Fixed(u32::from(access.file));
        let (offset, len) = (access.offset_bytes, access.size_bytes);
        let fixed = self.features.registered_buffers;
        match access.op {
            Op::Sync => opcode::Fsync::new(fd).flags(self.sync_flags).build(),
            Op::Write if fixed => {
                let index = self.buffers.write_index(slot) as u16;
                opcode::WriteFixed::new(fd, self.buffers.write(slot), len, index)
                    .offset(offset)
                    .build()
            }
            Op::Write => opcode::Write::new(fd, self.buffers.write(slot), len)
                .offset(offset)
                .build(),
            _ if fixed => opcode::ReadFixed::new(fd, self.buffers.read(slot), len, slot as u16)
                .offset(offset)
                .build(),
            _ => opcode::Read::new(fd, self.buffers.read(slot), len)
                .offset(offset)
                .build(),
        }
    }
}

/// A signal, the end of a wait, or resources that come back with completions are no errors: the loop goes on.
fn well_enough(entered: std::io::Result<usize>) -> Result<(), WorkloadError> {
    let Err(source) = entered else { return Ok(()) };
    match source.raw_os_error() {
        Some(libc::EINTR | libc::ETIME | libc::EAGAIN | libc::EBUSY) => Ok(()),
        _ => Err(WorkloadError::Uring {
            action: "submit operations".into(),
            source,
            hint: "see `man io_uring_enter` for this error".into(),
        }),
    }
}

impl Backend for Uring<'_> {
    #[inline]
    fn queue(&mut self, access: &Access, op_id: u64, slot: usize) {
        let entry = self.entry(access, slot).user_data(op_id);
        // SAFETY: the buffer of `slot` lives until the ring is gone, and the slot is free.
        // The queue has room: it holds queue_depth entries, and no more are in flight.
        unsafe { self.submissions.push(&entry) }.expect("the submission queue holds queue_depth entries");
    }

    fn submit(&mut self) -> Result<(), WorkloadError> {
        self.submissions.sync();
        let entered = self.submitter.submit();
        self.submissions.sync();
        well_enough(entered)
    }

    fn enter(&mut self, wait: Wait) -> Result<(), WorkloadError> {
        self.submissions.sync();
        let entered = match wait {
            Wait::Completion => self.submitter.submit_and_wait(1),
            Wait::No if self.submissions.is_empty() && !self.submissions.taskrun() => Ok(0),
            Wait::No => self.submitter.submit(),
            Wait::Until(until_ns) => {
                let left_ns = until_ns.saturating_sub(mono_ns());
                let time = types::Timespec::new()
                    .sec(left_ns / 1_000_000_000)
                    .nsec((left_ns % 1_000_000_000) as u32);
                self.submitter
                    .submit_with_args(1, &types::SubmitArgs::new().timespec(&time))
            }
        };
        self.submissions.sync();
        well_enough(entered)
    }

    #[inline]
    fn completions(&mut self, mut each: impl FnMut(u64, i32)) {
        self.completions.sync();
        for entry in &mut self.completions {
            let entry: cqueue::Entry = entry;
            each(entry.user_data(), entry.result());
        }
    }
}

//! What a recording can know beyond block requests. A fact that no attached probe provides is said to be unseen.

/// A kind of knowledge that some probe provides.
#[derive(Debug, PartialEq, Eq)]
pub struct Fact {
    /// What it is, as `not_observed` in `case.json` names it.
    pub what: &'static str,
    /// What follows where it is missing.
    pub consequence: &'static str,
}

/// Requests to devices.
pub const BLOCK_REQUESTS: Fact = Fact {
    what: "block requests (layer block)",
    consequence: "nothing is known below the submitter",
};
/// What programs asked the kernel for.
pub const SYSCALLS: Fact = Fact {
    what: "system calls (layer syscall)",
    consequence: "time above the block layer is one stage, whatever the kernel did there",
};
/// Waiting for a CPU.
pub const RUN_QUEUE: Fact = Fact {
    what: "run queue",
    consequence: "a submitter that waits for a CPU counts as app, fs or reap time",
};
/// What the hypervisor took.
pub const STEAL: Fact = Fact {
    what: "steal time",
    consequence: "time in which the hypervisor ran somebody else is not told apart",
};
/// Hits and readahead.
pub const PAGE_CACHE: Fact = Fact {
    what: "page cache",
    consequence: "hits do not show, and readahead shows only as block requests",
};
/// Flushers, dirty throttling, journals.
pub const WRITEBACK: Fact = Fact {
    what: "writeback, dirty throttling and journals",
    consequence: "a writer's pauses and waits for a journal count as fs time, and nobody is named for what is written back",
};
/// Time held back on purpose by a control group's limits.
pub const CONTROLLERS: Fact = Fact {
    what: "I/O controllers",
    consequence: "time held back on purpose counts as fs or queue time",
};
/// Time held back on purpose in favour of reads.
pub const WRITEBACK_THROTTLING: Fact = Fact {
    what: "writeback throttling (wbt)",
    consequence: "time in which it held a writer back counts as queue time",
};
/// Handlers on the vector or CPU of a completion.
pub const HANDLERS: Fact = Fact {
    what: "interrupt handlers of other devices",
    consequence: "time they take inside an interrupt is not told apart",
};
/// Bios above the requests.
pub const STACKED_BIOS: Fact = Fact {
    what: "bios on stacked devices (dm, md)",
    consequence: "only requests at the devices below are seen",
};
/// Retries, aborts, resets and administration.
pub const NVME_COMMANDS: Fact = Fact {
    what: "commands to NVMe controllers, and those that failed",
    consequence: "what a drive was asked beside reads and writes, and the status that it gave, are not known",
};
/// What the drive itself does.
pub const DEVICE_INSIDE: Fact = Fact {
    what: "inside of the drive (layer device)",
    consequence: "device time includes driver, bus and firmware",
};

/// All of them, from the top of the stack to its bottom.
pub const ALL: [&Fact; 12] = [
    &SYSCALLS,
    &RUN_QUEUE,
    &STEAL,
    &PAGE_CACHE,
    &WRITEBACK,
    &CONTROLLERS,
    &WRITEBACK_THROTTLING,
    &STACKED_BIOS,
    &BLOCK_REQUESTS,
    &HANDLERS,
    &NVME_COMMANDS,
    &DEVICE_INSIDE,
];

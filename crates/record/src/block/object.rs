//! Loads the block probe's programs, and tells them what they must know of this kernel.
use super::SLOTS;
use crate::load::{refused_text, Kernel};
use crate::recorder::Config;
use crate::{error::RecordError, facts, host, kernel, owner};
use aya::{include_bytes_aligned, Btf, EbpfLoader};
use std::collections::BTreeMap;

static OBJECT: &[u8] = include_bytes_aligned!("block.bpf.o");

/// The rings of merges and of requests with a completion that passed unseen.
const SIDE_RING_BYTES: u32 = 4 << 20;
/// The ring of what carriers waited for: 20,000 flushes between two looks.
const CARRIER_RING_BYTES: u32 = 1 << 20;
/// `REQ_PREFLUSH` and `REQ_FUA`; [`kernel::Numbers::OF_BIOS`] checks them.
const REQ_DURABLE: u32 = 1 << 18 | 1 << 17;

/// Kernel functions by which a bio's owner is recognised.
const SPLIT_SYMBOL: &str = "bio_chain_endio";
const OWNER_SYMBOLS: [&str; 3] = [
    "iomap_dio_bio_end_io",
    "blkdev_bio_end_io",
    "blkdev_bio_end_io_async",
];
/// Likewise, of a thread that waits for its bio (alone or in a chain); where the file system is btrfs; and the work that releases bios which the I/O controller held back.
const FURTHER_SYMBOLS: [&str; 5] = [
    "submit_bio_wait_endio",
    "bio_wait_end_io",
    "btrfs_simple_end_io",
    "btrfs_dio_end_io",
    "blk_throtl_dispatch_work_fn",
];
const URING_SYMBOLS: [&str; 2] = ["io_complete_rw", "io_complete_rw_iopoll"];

/// include/linux/sched.h; of the kernels in [`kernel::WORKERS`].
const PF_WQ_WORKER: u64 = 0x20;
/// include/linux/sched.h; of the kernels in [`kernel::TASKS`].
const PF_KTHREAD: u64 = 0x20_0000;
/// include/linux/page-flags.h; of the kernels in [`kernel::MAPPINGS`].
const MAPPING_FLAGS: u64 = 3;

/// Functions that the exact join needs the addresses of, and those that were found.
pub fn join_symbols() -> (Vec<&'static str>, BTreeMap<String, u64>) {
    let wanted: Vec<&str> = [SPLIT_SYMBOL]
        .into_iter()
        .chain(OWNER_SYMBOLS)
        .chain(URING_SYMBOLS)
        .chain(FURTHER_SYMBOLS)
        .collect();
    let found = host::kernel_symbols(&wanted);
    (wanted, found)
}

/// Why the exact join cannot work with these symbols; `None` if it can.
pub fn join_obstacle(found: &BTreeMap<String, u64>) -> Option<String> {
    let missing = |names: &[&str]| names.iter().all(|name| !found.contains_key(*name));
    if found.is_empty() {
        let hint = "run as root, with kernel.kptr_restrict at 0 or 1";
        return Some(format!("/proc/kallsyms shows no addresses; {hint}"));
    }
    if missing(&OWNER_SYMBOLS) || missing(&URING_SYMBOLS) {
        return Some("this kernel has no direct I/O through io_uring that we recognise".into());
    }
    None
}

/// Variables of `bio.h` and the values that they are to have. Addresses: 0 = this kernel has no such function.
pub fn bio_globals(found: &BTreeMap<String, u64>) -> Vec<(&'static str, u64)> {
    let functions = [
        ("sym_bio_chain_endio", SPLIT_SYMBOL),
        ("sym_iomap_dio_bio_end_io", OWNER_SYMBOLS[0]),
        ("sym_blkdev_bio_end_io", OWNER_SYMBOLS[1]),
        ("sym_blkdev_bio_end_io_async", OWNER_SYMBOLS[2]),
        ("sym_submit_bio_wait_endio", FURTHER_SYMBOLS[0]),
        ("sym_bio_wait_end_io", FURTHER_SYMBOLS[1]),
        ("sym_btrfs_simple_end_io", FURTHER_SYMBOLS[2]),
        ("sym_btrfs_dio_end_io", FURTHER_SYMBOLS[3]),
        ("sym_blk_throtl_dispatch_work_fn", FURTHER_SYMBOLS[4]),
        ("sym_io_complete_rw", URING_SYMBOLS[0]),
        ("sym_io_complete_rw_iopoll", URING_SYMBOLS[1]),
    ]
    .map(|(variable, function)| (variable, found.get(function).copied().unwrap_or(0)));
    let known = |macros, value, otherwise| kernel::known(macros).map_or(otherwise, |()| value);
    let numbers = [
        ("pf_kthread", known(&kernel::TASKS, PF_KTHREAD, 0)),
        ("pf_wq_worker", known(&kernel::WORKERS, PF_WQ_WORKER, 0)),
        ("mapping_flags", known(&kernel::MAPPINGS, MAPPING_FLAGS, u64::MAX)),
    ];
    functions.into_iter().chain(numbers).collect()
}

/// What is not known behind a bio where the kernel's macros are not.
pub fn bio_unseen(kernel: &mut Kernel) {
    for (macros, what) in [
        (
            &kernel::TASKS,
            "which block requests threads of the kernel submitted",
        ),
        (&kernel::WORKERS, facts::CONTROLLERS.what),
        (&kernel::MAPPINGS, kernel::FILES_BEHIND),
    ] {
        if let Err(because) = kernel::known(macros) {
            kernel.miss(what, &because);
        }
    }
}

/// The process with io_uring requests that can be joined exactly; 0 = none.
pub fn join_tgid(config: &Config, found: &BTreeMap<String, u64>) -> u32 {
    let joinable = |_: &u32| join_obstacle(found).is_none();
    config.join_tgid.filter(joinable).unwrap_or(0)
}

/// Loads the programs with what they must know of this kernel. `start_at_getrq`: there is no block_io_start.
pub fn load(btf: &Btf, config: &Config, start_at_getrq: bool) -> Result<Kernel, RecordError> {
    let (_, found) = join_symbols();
    let obstacle = config.join_tgid.and_then(|_| join_obstacle(&found));
    let tgid = join_tgid(config, &found);
    let globals = bio_globals(&found);
    let page_shift = host::page_bytes().trailing_zeros();
    // The owner of a request may be known by what is behind it only.
    let owners = u8::from(config.owners || !config.scope.is_everything());
    let limited = u8::from(config.only_processes());
    let slot_owners = if owners != 0 { SLOTS as u32 } else { 1 };
    let start_at_getrq = u8::from(start_at_getrq);
    let flush_sequence = kernel::Kernel::running()
        .and_then(kernel::Kernel::flush_sequence_bit)
        .map_err(|cause| refused_text("block", cause))?;
    let rqf_flush_seq = 1u32 << flush_sequence;
    let weakly_ordered = u8::from(!cfg!(target_arch = "x86_64"));
    let cpus = host::cpus_possible();
    let length = super::ring_records(config.ring(config.ring_bytes));
    let mut loader = EbpfLoader::new();
    owner::configure(&mut loader);
    loader
        .btf(Some(btf))
        .map_max_entries("ring_ends", cpus)
        .map_max_entries("ring", cpus * length)
        .map_max_entries("merges", config.ring(SIDE_RING_BYTES))
        .map_max_entries("unfinished", config.ring(SIDE_RING_BYTES))
        .map_max_entries("carriers", config.ring(CARRIER_RING_BYTES))
        .map_max_entries("slot_owners", slot_owners)
        .override_global("owners", &owners, true)
        .override_global("page_shift", &page_shift, true)
        .override_global("ring_records", &length, true)
        .override_global("weakly_ordered", &weakly_ordered, true)
        .override_global("join_tgid", &tgid, true)
        .override_global("scope_limited", &limited, true)
        .override_global("rqf_flush_seq", &rqf_flush_seq, true)
        .override_global("req_durable", &REQ_DURABLE, true)
        .override_global("start_at_getrq", &start_at_getrq, true);
    for (name, address) in &globals {
        loader.override_global(name, address, true);
    }
    let mut kernel = Kernel::load("block", OBJECT, &mut loader)?;
    bio_unseen(&mut kernel);
    if let Err(because) = kernel::known(&kernel::STATUSES) {
        kernel.miss(
            "which error a block request ended with (each one is EIO)",
            &because,
        );
    }
    if let Some(because) = obstacle {
        let what = "which block requests belong to which operation of the workload";
        kernel.miss(what, &because);
    }
    Ok(kernel)
}

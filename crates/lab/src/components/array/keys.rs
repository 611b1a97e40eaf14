//! Keys of `[array]`.
use crate::keys::{key, Key, Kind};

/// Keys of `[array]`.
pub const KEYS: [Key; 16] = [
    key(
        "capacity",
        Kind::Number(1.1, 1000.0),
        "2",
        "Of the array, as a multiple of the files.",
    ),
    key(
        "full",
        Kind::Percent,
        "60%",
        "Part of the array that is in use, files of the workload included.",
    ),
    key(
        "holes",
        Kind::Size(4096, 1 << 32),
        "1MiB",
        "Free space lies in runs of about this size at the beginning.",
    ),
    key(
        "overwritten",
        Kind::Number(0.0, 20.0),
        "0",
        "Random overwrites of the files before the beginning, as a multiple of their size: ages the layout.",
    ),
    key(
        "reallocated",
        Kind::Flag,
        "false",
        "Whether files are reallocated after that, which makes their layout contiguous.",
    ),
    key(
        "used_after",
        Kind::Number(0.0, 20.0),
        "0",
        "Random overwrites after reallocation.",
    ),
    key(
        "threshold",
        Kind::Number(1.0, 64.0),
        "4",
        "Layout score (runs per 64 blocks) above which reallocation moves blocks.",
    ),
    key(
        "guest_piece",
        Kind::Size(0, 1 << 30),
        "0B",
        "Files lie in pieces of this size on the guest's disk; 0 = in one piece.",
    ),
    key(
        "guest_disk",
        Kind::Number(1.0, 100.0),
        "2.5",
        "Size of the guest's disk, as a multiple of its file.",
    ),
    key(
        "misplaced",
        Kind::Flag,
        "false",
        "Whether the guests' partitions begin within a block: each of their requests touches one block more, and writes read first.",
    ),
    key(
        "nvram",
        Kind::Size(1 << 20, 1 << 36),
        "128MiB",
        "Protected memory; a checkpoint begins when half of it is full.",
    ),
    key(
        "interval",
        Kind::Time(1_000_000, 3_600_000_000_000),
        "10s",
        "A checkpoint begins at least this often.",
    ),
    key(
        "depth",
        Kind::Count(1, 4096),
        "64",
        "Writes of a checkpoint in flight.",
    ),
    key(
        "parity",
        Kind::Count(0, 2),
        "0",
        "Drives of the volume with parity; a checkpoint that has not all of a line of blocks reads before it writes.",
    ),
    key(
        "cluster",
        Kind::Size(4096, 1 << 24),
        "32KiB",
        "A read from disk goes on up to here where blocks follow each other.",
    ),
    key(
        "write",
        Kind::Time(0, 1_000_000_000),
        "200us",
        "Time of a write into protected memory, or of a read from memory.",
    ),
];

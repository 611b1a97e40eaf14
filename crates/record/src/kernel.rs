//! Numbers that the kernel's headers give to names, as our programs and the readers of their records use them.
//!
//! Most are enumerators, which the running kernel's type information tells ([`Kernel::checked`]), in enums without a name,
//! too. Some are macros, which it does not: for those there is the range of versions that we read the sources of. A number that
//! is not found, or is another one than expected, is never guessed: what needs it declines, and says why.
use crate::facts;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

/// The oldest kernel that can be recorded.
const OLDEST: Version = (6, 1);

/// Major and minor number.
pub type Version = (u32, u32);

/// An enumerator and the number that the code was written for.
pub type Enumerator = (&'static str, u64);

/// Operations and flags of requests and bios (include/linux/blk_types.h), as rows carry them in `cmd_flags`.
const REQUESTS: &[Enumerator] = &[
    ("REQ_OP_READ", 0),
    ("REQ_OP_WRITE", 1),
    ("REQ_OP_FLUSH", 2),
    ("REQ_OP_DISCARD", 3),
    ("REQ_OP_SECURE_ERASE", 5),
    ("REQ_OP_WRITE_ZEROES", 9),
    ("__REQ_SYNC", 11),
    ("__REQ_META", 12),
    ("__REQ_FUA", 17),
    ("__REQ_PREFLUSH", 18),
    ("__REQ_RAHEAD", 19),
    ("__REQ_BACKGROUND", 20),
];

/// A flag that moved. Source: commits 3480373ebdf7 and before it, include/linux/blk_types.h of 6.1, 6.12, 6.18.
const POLLED: &str = "__REQ_POLLED";
const POLLED_MOVED: Version = (6, 4);
const POLLED_BITS: (u64, u64) = (23, 22);

/// Softirqs (include/linux/interrupt.h, an enum without a name), in the order of `irq::SOFTIRQ_NAMES`.
const SOFTIRQS: &[Enumerator] = &[
    ("HI_SOFTIRQ", 0),
    ("TIMER_SOFTIRQ", 1),
    ("NET_TX_SOFTIRQ", 2),
    ("NET_RX_SOFTIRQ", 3),
    ("BLOCK_SOFTIRQ", 4),
    ("IRQ_POLL_SOFTIRQ", 5),
    ("TASKLET_SOFTIRQ", 6),
    ("SCHED_SOFTIRQ", 7),
    ("HRTIMER_SOFTIRQ", 8),
    ("RCU_SOFTIRQ", 9),
];

/// Flags of io_uring's requests (include/linux/io_uring_types.h, an enum without a name).
const URING_REQUESTS: &[Enumerator] = &[("REQ_F_FIXED_FILE_BIT", 0)];

/// What `block/flush.h` tells.
const FLUSHES_SERVING: &str = "which flush command a write waited for";

/// What `block/bio.h` tells of bios with data in the page cache.
pub const FILES_BEHIND: &str = "files behind block requests of the page cache";

/// A flag. Its place differs between kernels.
const FLUSH_SEQUENCE: &str = "__RQF_FLUSH_SEQ";

/// The same as a macro, `#define RQF_FLUSH_SEQ ((__force req_flags_t)(1 << 4))`, until it became an enumerator. Source:
/// include/linux/blk-mq.h of 6.1, and "block: Use enum to define RQF_x bit indexes", which takes it away for 6.11.
const FLUSH_SEQUENCE_MACRO: Macros = Macros {
    names: "RQF_FLUSH_SEQ",
    header: "include/linux/blk-mq.h",
    first: (6, 1),
    last: (6, 10),
};
const FLUSH_SEQUENCE_MACRO_BIT: u32 = 4;

/// Macros, and the versions in which they have the values that our code has.
#[derive(Debug, PartialEq, Eq)]
pub struct Macros {
    names: &'static str,
    header: &'static str,
    first: Version,
    last: Version,
}

/// The newest kernel of which macros were read.
const READ_UNTIL: Version = (7, 3);

/// `sched.bpf.c`. Sources: the headers of 6.1, 6.12 and 7.3.
pub const TASKS: Macros = Macros {
    names: "TASK_*, EXIT_*, PF_KTHREAD, JOBCTL_TRAP_FREEZE_BIT, LCB_F_*",
    header: "include/linux/sched.h, include/linux/sched/jobctl.h, include/trace/events/lock.h",
    first: OLDEST,
    last: READ_UNTIL,
};

/// `syscall.bpf.c`. Source: the header of 6.1, 6.12 and 7.3.
pub const COMPAT: Macros = Macros {
    names: "TS_COMPAT",
    header: "arch/x86/include/asm/thread_info.h",
    first: OLDEST,
    last: READ_UNTIL,
};

/// `bio.h`, for bios that the I/O controller held back. Source: the header of 6.1, 6.12 and 7.3.
pub const WORKERS: Macros = Macros {
    names: "PF_WQ_WORKER",
    header: "include/linux/sched.h",
    first: OLDEST,
    last: READ_UNTIL,
};

/// `bio.h`, for the files behind bios. Source: the header of 6.1 and 6.12 (PAGE_MAPPING_FLAGS), and that of 7.3; they are named
/// FOLIO_MAPPING_FLAGS since 6.17, with the same value.
pub const MAPPINGS: Macros = Macros {
    names: "FOLIO_MAPPING_FLAGS",
    header: "include/linux/page-flags.h",
    first: OLDEST,
    last: READ_UNTIL,
};

/// `errno` of block requests. Source: the header of 6.1, 6.12 and 7.3, where BLK_STS_NOTSUPP to BLK_STS_DEV_RESOURCE are 1 to 13.
pub const STATUSES: Macros = Macros {
    names: "BLK_STS_*",
    header: "include/linux/blk_types.h",
    first: OLDEST,
    last: READ_UNTIL,
};

/// What a probe's programs and the readers of its records take for granted.
#[derive(Debug)]
pub struct Numbers {
    /// Enumerators, by group.
    pub enumerators: &'static [&'static [Enumerator]],
    /// Macros.
    pub macros: &'static [&'static Macros],
    /// Flags that moved between versions are among them.
    pub request_flags: bool,
    /// Fields of which one must be there: programs look at which it is, and would take a wrong argument where none is.
    pub fields: &'static [Fields],
    /// The same where a program leaves out what it cannot read.
    pub told: &'static [Fields],
}

/// Alternatives: struct and field.
#[derive(Debug)]
pub struct Fields {
    any: &'static [(&'static str, &'static str)],
    /// What is not known without them, as `not_observed` names it.
    pub what: &'static str,
    /// Nobody asks while this module is not loaded.
    module: Option<&'static str>,
}

impl Numbers {
    /// Of a probe that needs none.
    pub const NONE: Numbers = Numbers {
        enumerators: &[],
        macros: &[],
        request_flags: false,
        fields: &[],
        told: &[],
    };
    /// Of bios.
    pub const OF_BIOS: Numbers = Numbers {
        enumerators: &[REQUESTS],
        request_flags: true,
        ..Numbers::NONE
    };
    /// Of requests and of what is behind them.
    pub const OF_REQUESTS: Numbers = Numbers {
        told: &[
            Fields {
                any: &[("io_kiocb", "tctx"), ("io_kiocb", "task")],
                what: "which block requests belong to which operation of the workload",
                module: None,
            },
            Fields {
                any: &[("blk_mq_hw_ctx", "fq")],
                what: FLUSHES_SERVING,
                module: None,
            },
            Fields {
                any: &[("blk_flush_queue", "flush_queue")],
                what: FLUSHES_SERVING,
                module: None,
            },
            Fields {
                any: &[("blk_flush_queue", "flush_running_idx")],
                what: FLUSHES_SERVING,
                module: None,
            },
            Fields {
                any: &[("bio", "bi_blkg")],
                what: "control groups that block requests are accounted to",
                module: None,
            },
            Fields {
                any: &[("task_struct", "worker_private")],
                what: facts::CONTROLLERS.what,
                module: None,
            },
            Fields {
                any: &[("btrfs_bio", "private")],
                what: "which direct I/O on btrfs a block request belongs to",
                module: Some("btrfs"),
            },
            Fields {
                any: &[("page", "compound_info"), ("page", "compound_head")],
                what: FILES_BEHIND,
                module: None,
            },
            Fields {
                any: &[("bvec_iter", "bi_offset"), ("bvec_iter", "bi_bvec_done")],
                what: FILES_BEHIND,
                module: None,
            },
            Fields {
                any: &[("loop_cmd", "iocb")],
                what: "which request of a loop device a request to its file belongs to",
                module: Some("loop"),
            },
        ],
        ..Numbers::OF_BIOS
    };
    /// Of softirqs.
    pub const OF_SOFTIRQS: Numbers = Numbers {
        enumerators: &[SOFTIRQS],
        ..Numbers::NONE
    };
    /// Of system calls and io_uring.
    pub const OF_CALLS: Numbers = Numbers {
        enumerators: &[URING_REQUESTS],
        macros: &[&COMPAT],
        ..Numbers::NONE
    };
    /// Of threads.
    pub const OF_THREADS: Numbers = Numbers {
        macros: &[&TASKS],
        told: &[Fields {
            any: &[("task_struct", "throttled"), ("cfs_rq", "throttle_count")],
            what: "time in which the CPU limit of a control group held a thread back",
            module: None,
        }],
        ..Numbers::NONE
    };
    /// Of the page cache: reads of one call are distinguished from those of the next by the number of reads that a thread has ended.
    pub const OF_PAGES: Numbers = Numbers {
        fields: &[Fields {
            any: &[("task_struct", "ioac")],
            what: facts::PAGE_CACHE.what,
            module: None,
        }],
        ..Numbers::NONE
    };
    /// Of writeback: the tracepoint balance_dirty_pages has other arguments where its event has another field.
    pub const OF_WRITEBACK: Numbers = Numbers {
        fields: &[Fields {
            any: &[
                ("trace_event_raw_balance_dirty_pages", "wb_setpoint"),
                ("trace_event_raw_balance_dirty_pages", "bdi_setpoint"),
            ],
            what: facts::WRITEBACK.what,
            module: None,
        }],
        ..Numbers::NONE
    };

    const ALL: [&Numbers; 7] = [
        &Numbers::OF_BIOS,
        &Numbers::OF_REQUESTS,
        &Numbers::OF_SOFTIRQS,
        &Numbers::OF_CALLS,
        &Numbers::OF_THREADS,
        &Numbers::OF_PAGES,
        &Numbers::OF_WRITEBACK,
    ];
}

/// The running kernel, or one in a test.
#[derive(Debug)]
pub struct Kernel {
    release: String,
    types: Types,
}

/// What was looked for in type information, as far as it is there.
#[derive(Debug, Default)]
struct Types {
    /// Every number that an enumerator of this name has.
    enumerators: BTreeMap<String, BTreeSet<u64>>,
    /// Struct and field.
    fields: BTreeSet<(String, String)>,
}

impl Kernel {
    /// The one that runs, read once. The error says what could not be read.
    pub fn running() -> Result<&'static Kernel, String> {
        static KERNEL: OnceLock<Result<Kernel, String>> = OnceLock::new();
        let read = || {
            let path = "/sys/kernel/btf/vmlinux";
            let types = fs::read(path).map_err(|error| format!("{path}: {error}"))?;
            Kernel::of(&release(), &types).map_err(|error| format!("{path}: {error}"))
        };
        KERNEL.get_or_init(read).as_ref().map_err(Clone::clone)
    }

    /// A kernel by its release and its type information.
    pub fn of(release: &str, types: &[u8]) -> Result<Kernel, String> {
        let enumerators = Numbers::ALL
            .iter()
            .flat_map(|numbers| numbers.enumerators.concat());
        let names: BTreeSet<&str> = enumerators
            .map(|(name, _)| name)
            .chain([POLLED, FLUSH_SEQUENCE])
            .collect();
        let fields = Numbers::ALL
            .iter()
            .flat_map(|numbers| numbers.fields.iter().chain(numbers.told));
        let structs: BTreeSet<&str> = fields
            .flat_map(|fields| fields.any.iter().map(|(of, _)| *of))
            .collect();
        let types = read_types(types, &names, &structs);
        Ok(Kernel {
            release: release.into(),
            types: types.ok_or("expected type information (BTF), found something else")?,
        })
    }

    /// Whether all of these numbers are what our code was written for; the error names those that are not.
    pub fn checked(&self, numbers: &Numbers) -> Result<(), String> {
        let mut wanted: Vec<Enumerator> = numbers.enumerators.concat();
        if numbers.request_flags {
            wanted.push((POLLED, self.polled_bit()?));
        }
        let mut wrong: Vec<String> = Vec::new();
        for (name, expected) in wanted {
            let found = self.enumerator(name);
            if found != Ok(expected) {
                let found = found.map_or_else(|words| words, |number| number.to_string());
                wrong.push(format!("{name}: expected {expected}, found {found}"));
            }
        }
        wrong.extend(
            numbers
                .macros
                .iter()
                .filter_map(|macros| self.macros_known(macros).err()),
        );
        if numbers.request_flags {
            wrong.extend(self.flush_sequence_bit().err());
        }
        wrong.extend(
            numbers
                .fields
                .iter()
                .filter_map(|fields| self.fields_missing(fields)),
        );
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(wrong.join("; ")),
        }
    }

    /// Which of these fields are missing, in words, where none of them is there.
    fn fields_missing(&self, fields: &Fields) -> Option<String> {
        let there =
            |(of, field): &(&str, &str)| self.types.fields.contains(&(of.to_string(), field.to_string()));
        let names: Vec<String> = fields
            .any
            .iter()
            .map(|(of, field)| format!("{of}.{field}"))
            .collect();
        let any = fields.any.iter().any(there);
        (!any).then(|| {
            format!(
                "the kernel's type information has no field {}",
                names.join(" or ")
            )
        })
    }

    /// What a probe with these numbers leaves out on this kernel: what, and why.
    pub fn left_out(&self, numbers: &Numbers) -> Vec<(&'static str, String)> {
        let asked = |fields: &&Fields| {
            let loaded = |module: &str| Path::new("/sys/module").join(module).exists();
            fields.module.is_none_or(loaded)
        };
        let told = numbers.told.iter().filter(asked);
        told.filter_map(|fields| Some((fields.what, self.fields_missing(fields)?)))
            .collect()
    }

    /// Where a request's `rq_flags` say that it is part of a flush sequence (RQF_FLUSH_SEQ).
    pub fn flush_sequence_bit(&self) -> Result<u32, String> {
        match self.enumerator(FLUSH_SEQUENCE) {
            Ok(bit) => Ok(bit as u32),
            Err(found) => match self.macros_known(&FLUSH_SEQUENCE_MACRO) {
                Ok(()) => Ok(FLUSH_SEQUENCE_MACRO_BIT),
                Err(unknown) => Err(format!("{FLUSH_SEQUENCE}: {found}; {unknown}")),
            },
        }
    }

    /// Whether our code has the values of these macros on this kernel; the error says which versions they are known of.
    pub fn macros_known(&self, macros: &Macros) -> Result<(), String> {
        let Macros {
            names,
            header,
            first,
            last,
        } = macros;
        match version(&self.release) {
            Some(version) if (*first..=*last).contains(&version) => Ok(()),
            _ => Err(format!(
                "{names} ({header}): known for Linux {}.{} to {}.{}, this is {}",
                first.0, first.1, last.0, last.1, self.release
            )),
        }
    }

    fn polled_bit(&self) -> Result<u64, String> {
        let (before, since) = POLLED_BITS;
        match version(&self.release) {
            Some(version) => Ok(if version < POLLED_MOVED { before } else { since }),
            None => Err(format!(
                "{POLLED}: no version in the kernel's release {:?}",
                self.release
            )),
        }
    }

    fn enumerator(&self, name: &str) -> Result<u64, String> {
        let numbers = self.types.enumerators.get(name).ok_or("none")?;
        match Vec::from_iter(numbers)[..] {
            [one] => Ok(*one),
            _ => Err(format!("several: {numbers:?}")),
        }
    }
}

/// Whether the macros' values are known for the running kernel; the error says why not.
pub fn known(macros: &Macros) -> Result<(), String> {
    Kernel::running()?.macros_known(macros)
}

/// Why this kernel cannot be recorded at all, in words; `None` if it can, as far as its version tells.
pub fn unsupported(release: &str) -> Option<String> {
    let (major, minor) = OLDEST;
    let needs = format!("whodisk records on Linux {major}.{minor} and later");
    match version(release) {
        Some(version) if version >= OLDEST => None,
        Some(_) => Some(format!("Linux {release} is not supported: {needs}")),
        None => Some(format!(
            "the kernel's release {release:?} has no version: {needs}"
        )),
    }
}

/// Since then overlayfs keeps the real file in a struct of its own. Source: fs/overlayfs/file.c of 6.12 and 6.13, `ovl_open`.
const OVERLAY_WRAPPED: Version = (6, 13);

/// Whether the running kernel's overlayfs wraps the real file.
pub fn overlay_wraps() -> bool {
    version(&release()).is_none_or(|version| version >= OVERLAY_WRAPPED)
}

/// What `uname -r` prints.
pub fn release() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    text.trim().to_string()
}

/// Major and minor number of a release such as `6.12.117+deb12-amd64`.
fn version(release: &str) -> Option<Version> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Enumerators with these names in type information (Documentation/bpf/btf.rst), whatever the enum is called, and the fields
/// of these structs; `None` if it is not whole.
fn read_types(types: &[u8], names: &BTreeSet<&str>, structs: &BTreeSet<&str>) -> Option<Types> {
    const MAGIC: u16 = 0xeb9f;
    const STRUCT: u32 = 4;
    const UNION: u32 = 5;
    const ENUM: u32 = 6;
    const ENUM64: u32 = 19;
    let number = |at: usize| Some(u32::from_le_bytes(types.get(at..at + 4)?.try_into().ok()?));
    let magic = u16::from_le_bytes(types.get(..2)?.try_into().ok()?);
    if magic != MAGIC {
        return None;
    }
    let header_bytes = number(4)? as usize;
    let (begin, length) = (header_bytes + number(8)? as usize, number(12)? as usize);
    let texts = types.get(header_bytes + number(16)? as usize..)?;
    let text = |offset: u32| {
        let rest = texts.get(offset as usize..)?;
        std::str::from_utf8(&rest[..rest.iter().position(|byte| *byte == 0)?]).ok()
    };
    let mut found = Types::default();
    let mut at = begin;
    // Where each type lies; its number is its place here plus one. Number 0 is void.
    let mut places = Vec::new();
    let mut wanted = Vec::new();
    while at < begin + length {
        let (called, info) = (text(number(at)?)?, number(at + 4)?);
        let (kind, members) = (info >> 24 & 0x1f, info as usize & 0xffff);
        if kind == STRUCT && structs.contains(called) {
            wanted.push((called, at));
        }
        places.push(at);
        at += 12;
        // What follows the 12 bytes that every type has.
        let (once, each) = match kind {
            1 | 14 | 17 => (4, 0),                   // integer, variable, declaration tag
            3 => (12, 0),                            // array
            STRUCT | UNION | 15 | ENUM64 => (0, 12), // struct, union, section, enum of 64 bits
            ENUM | 13 => (0, 8),                     // enum, prototype of a function
            2 | 7..=12 | 16 | 18 => (0, 0),          // what has only a name and a type
            _ => return None,
        };
        if kind == ENUM || kind == ENUM64 {
            for member in 0..members {
                let place = at + member * each;
                let name = text(number(place)?)?;
                if names.contains(name) {
                    let high = if kind == ENUM64 { number(place + 8)? } else { 0 };
                    let value = u64::from(number(place + 4)?) | u64::from(high) << 32;
                    found.enumerators.entry(name.into()).or_default().insert(value);
                }
            }
        }
        at += once + members * each;
    }
    for (called, place) in wanted {
        // Members without a name are structs and unions: what they have is the struct's own.
        let mut inside = vec![place];
        while let Some(at) = inside.pop() {
            for member in 0..number(at + 4)? as usize & 0xffff {
                let member = at + 12 + member * 12;
                let (field, of) = (text(number(member)?)?, number(member + 4)? as usize);
                if !field.is_empty() {
                    found.fields.insert((called.into(), field.into()));
                    continue;
                }
                let at = *places.get(of.checked_sub(1)?)?;
                if [STRUCT, UNION].contains(&(number(at + 4)? >> 24 & 0x1f)) {
                    inside.push(at);
                }
            }
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Type information with these enums, by name; an empty name is none.
    fn types(enums: &[(&str, &[Enumerator])]) -> Vec<u8> {
        let (mut types, mut texts) = (Vec::new(), vec![0]);
        let mut text = |word: &str| {
            let at = if word.is_empty() { 0 } else { texts.len() as u32 };
            if at > 0 {
                texts.extend([word.as_bytes(), b"\0"].concat());
            }
            at
        };
        // An integer, an array and a struct before them: places must be skipped as they are.
        let before = [
            text("int"),
            1 << 24,
            4,
            32,
            0,
            3 << 24,
            0,
            1,
            1,
            2,
            text("s"),
            4 << 24 | 1,
            4,
            text("f"),
            1,
            0,
        ];
        let mut words: Vec<u32> = before.to_vec();
        for (name, members) in enums {
            words.extend([text(name), 6 << 24 | members.len() as u32, 4]);
            for (member, value) in *members {
                words.extend([text(member), *value as u32]);
            }
        }
        types.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        let header = [
            0x0001_eb9f,
            24,
            0,
            types.len() as u32,
            types.len() as u32,
            texts.len() as u32,
        ];
        let header = header.iter().flat_map(|word: &u32| word.to_le_bytes());
        header.chain(types.iter().copied()).chain(texts).collect()
    }

    fn kernel(release: &str, enums: &[(&str, &[Enumerator])]) -> Kernel {
        Kernel::of(release, &types(enums)).unwrap()
    }

    /// As 6.12 has it: the enum has no name, so that looking it up by its name finds nothing; bit 4 is RQF_SCHED_TAGS.
    const NAMELESS: &[(&str, &[Enumerator])] = &[(
        "",
        &[
            ("__RQF_STARTED", 0),
            ("__RQF_FLUSH_SEQ", 1),
            ("__RQF_SCHED_TAGS", 4),
        ],
    )];

    #[test]
    fn an_enumerator_is_found_in_an_enum_without_a_name() {
        assert_eq!(
            kernel("6.12.117+deb12-amd64", NAMELESS).flush_sequence_bit(),
            Ok(1)
        );
    }

    #[test]
    fn a_macro_is_known_only_of_versions_whose_sources_were_read() {
        for release in ["6.1.0-56-amd64", "6.10.11"] {
            assert_eq!(kernel(release, &[]).flush_sequence_bit(), Ok(4), "{release}");
        }
        for release in ["5.14.0-427.el9", "6.11.0", "6.12.117+deb12-amd64", "7.2.1", ""] {
            let said = kernel(release, &[]).flush_sequence_bit().unwrap_err();
            assert!(
                said.contains("__RQF_FLUSH_SEQ") && said.contains("6.1 to 6.10"),
                "{said}"
            );
        }
        for release in ["6.18.44", "6.19.14+deb13-amd64", "7.3.4+deb13-amd64"] {
            assert!(kernel(release, &[]).macros_known(&TASKS).is_ok(), "{release}");
        }
        assert!(kernel("7.4.0", &[])
            .macros_known(&TASKS)
            .unwrap_err()
            .contains("this is 7.4.0"));
    }

    #[test]
    fn a_number_that_is_not_ours_is_named() {
        let shifted: Vec<Enumerator> = SOFTIRQS
            .iter()
            .map(|(name, number)| (*name, number + u64::from(*number > 3)))
            .collect();
        let said = kernel("6.12.0", &[("", &shifted)])
            .checked(&Numbers::OF_SOFTIRQS)
            .unwrap_err();
        assert!(said.contains("BLOCK_SOFTIRQ: expected 4, found 5"), "{said}");
        assert!(!said.contains("NET_RX_SOFTIRQ"), "{said}");
        let said = kernel("6.12.0", &[]).checked(&Numbers::OF_CALLS).unwrap_err();
        assert_eq!(said, "REQ_F_FIXED_FILE_BIT: expected 0, found none");
        let twice: &[(&str, &[Enumerator])] = &[
            ("one", &[("REQ_F_FIXED_FILE_BIT", 0)]),
            ("", &[("REQ_F_FIXED_FILE_BIT", 3)]),
        ];
        let said = kernel("6.12.0", twice).checked(&Numbers::OF_CALLS).unwrap_err();
        assert!(said.contains("several: {0, 3}"), "{said}");
    }

    #[test]
    fn the_flag_that_moved_is_expected_where_this_version_has_it() {
        for (release, bit, right) in [
            ("6.1.0", 23, true),
            ("6.1.0", 22, false),
            ("6.4.1", 22, true),
            ("6.18.2", 23, false),
        ] {
            let all = [REQUESTS, &[(POLLED, bit), (FLUSH_SEQUENCE, 1)]].concat();
            let said = kernel(release, &[("req_flag_bits", &all)]).checked(&Numbers::OF_REQUESTS);
            assert_eq!(said.is_ok(), right, "{release} {bit}: {said:?}");
        }
    }

    #[test]
    fn a_field_that_is_gone_is_named() {
        let kernel = kernel("6.12.0", NAMELESS);
        let said = kernel.checked(&Numbers::OF_PAGES).unwrap_err();
        assert_eq!(
            said,
            "the kernel's type information has no field task_struct.ioac"
        );
        let told = kernel.left_out(&Numbers::OF_REQUESTS);
        let join = told
            .iter()
            .find(|(what, _)| what.starts_with("which block requests"));
        assert!(
            join.unwrap()
                .1
                .ends_with("no field io_kiocb.tctx or io_kiocb.task"),
            "{told:?}"
        );
        let fields = types(&[]);
        let there = read_types(&fields, &BTreeSet::new(), &["s"].into())
            .unwrap()
            .fields;
        assert_eq!(there, [("s".to_string(), "f".to_string())].into());
    }

    /// A struct and, behind it, what its members without a name are: `page` of 7.1 has `compound_info` in a struct in a union.
    #[test]
    fn a_field_is_found_in_a_member_without_a_name() {
        let mut texts = vec![0];
        let mut text = |word: &str| {
            let at = texts.len() as u32;
            texts.extend([word.as_bytes(), b"\0"].concat());
            at
        };
        let (page, flags, info) = (text("page"), text("flags"), text("compound_info"));
        let (int, other, head) = (text("int"), text("other"), text("compound_head"));
        let words = [
            [int, 1 << 24, 4, 32].as_slice(),
            &[page, 4 << 24 | 2, 16, flags, 1, 0, 0, 3, 64],
            &[0, 5 << 24 | 1, 8, 0, 4, 0],
            &[0, 4 << 24 | 1, 8, info, 1, 0],
            &[other, 4 << 24 | 1, 8, head, 1, 0],
        ]
        .concat();
        let bytes = |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|word| word.to_le_bytes()).collect() };
        let length = words.len() as u32 * 4;
        let header = bytes(&[0x0001_eb9f, 24, 0, length, length, texts.len() as u32]);
        let found = read_types(
            &[header, bytes(&words), texts].concat(),
            &BTreeSet::new(),
            &["page"].into(),
        );
        let fields = ["compound_info", "flags"].map(|field| ("page".to_string(), field.to_string()));
        assert_eq!(found.unwrap().fields, fields.into());
    }

    #[test]
    fn what_is_left_out_of_bios_is_told_once_for_each_field() {
        let left_out = kernel("7.9.0", NAMELESS).left_out(&Numbers::OF_REQUESTS);
        let of_files: Vec<&str> = left_out
            .iter()
            .filter(|(what, _)| *what == FILES_BEHIND)
            .map(|(_, because)| because.rsplit_once(' ').unwrap().1)
            .collect();
        assert_eq!(of_files, ["page.compound_head", "bvec_iter.bi_bvec_done"]);
    }

    #[test]
    fn all_numbers_are_right_on_this_machine() {
        let Ok(kernel) = Kernel::running() else {
            panic!("/sys/kernel/btf/vmlinux: expected type information; use a kernel built with CONFIG_DEBUG_INFO_BTF");
        };
        for numbers in Numbers::ALL {
            assert_eq!(kernel.checked(numbers), Ok(()));
            assert_eq!(kernel.left_out(numbers), []);
        }
    }

    #[test]
    fn kernels_that_are_too_old_are_refused_in_words() {
        for release in [
            "6.1.0-56-amd64",
            "6.12.117+deb12-amd64",
            "6.18.44-fc-v595",
            "7.0.1",
            "10.2",
        ] {
            assert_eq!(unsupported(release), None);
        }
        let said = unsupported("5.10.0-35-amd64").unwrap();
        assert_eq!(
            said,
            "Linux 5.10.0-35-amd64 is not supported: whodisk records on Linux 6.1 and later"
        );
        assert!(unsupported("6.0.19").is_some() && unsupported("4.19.0").is_some());
        assert!(unsupported("").unwrap().contains("no version"));
    }

    #[test]
    fn broken_type_information_is_not_read() {
        assert!(Kernel::of("6.12", b"not BTF").is_err());
        let whole = types(NAMELESS);
        for length in [10, 30, whole.len() - 20] {
            assert!(Kernel::of("6.12", &whole[..length]).is_err(), "{length}");
        }
    }
}

//! The kernel's numbers for request operations and flags, turned into those of a case.
//!
//! Source: `enum req_op` and `enum req_flag_bits` of `include/linux/blk_types.h`, Linux 6.1 to 6.18.
//! Between them only two things moved that matter here:
//! * `__REQ_POLLED` is bit 23 up to 6.3 and bit 22 from 6.4 on, where `__REQ_CGROUP_PUNT` went away
//!   (bit 23 is `__REQ_ALLOC_CACHE` since then, which most direct requests carry);
//! * the numbers of the zone operations, some of them within stable series.
use case::schema::{flags, Op};

const OP_MASK: u32 = 0xff;
const REQ_SYNC: u32 = 1 << 11;
const REQ_META: u32 = 1 << 12;
const REQ_FUA: u32 = 1 << 17;
const REQ_PREFLUSH: u32 = 1 << 18;
const REQ_RAHEAD: u32 = 1 << 19;
const REQ_BACKGROUND: u32 = 1 << 20;
const REQ_POLLED_UNTIL_6_3: u32 = 1 << 23;
const REQ_POLLED_SINCE_6_4: u32 = 1 << 22;

/// Whether a write asks its device to flush its cache first.
pub fn asks_for_flush(cmd_flags: u32) -> bool {
    op(cmd_flags, 0) == Op::Write && cmd_flags & REQ_PREFLUSH != 0
}

/// Decoder of `cmd_flags` for one kernel.
#[derive(Clone, Copy, Debug)]
pub struct CmdFlags {
    polled: u32,
}

impl CmdFlags {
    /// `release` is what `uname -r` printed; an unreadable one counts as new.
    pub fn of_kernel(release: &str) -> CmdFlags {
        let mut numbers = release
            .split(|c: char| !c.is_ascii_digit())
            .map_while(|s| s.parse::<u32>().ok());
        let old = match (numbers.next(), numbers.next()) {
            (Some(major), Some(minor)) => (major, minor) < (6, 4),
            _ => false,
        };
        CmdFlags {
            polled: if old {
                REQ_POLLED_UNTIL_6_3
            } else {
                REQ_POLLED_SINCE_6_4
            },
        }
    }

    /// Bits of [`flags`] for `cmd_flags`; `merges` is the number of bios beyond the first.
    pub fn flags(self, cmd_flags: u32, merges: u16) -> u32 {
        let pairs = [
            (REQ_SYNC, flags::SYNC),
            (REQ_META, flags::META),
            (REQ_FUA, flags::FUA),
            (REQ_PREFLUSH, flags::PREFLUSH),
            (REQ_RAHEAD, flags::READAHEAD),
            (REQ_BACKGROUND, flags::BACKGROUND),
            (self.polled, flags::POLLED),
        ];
        let merged = if merges > 0 { flags::MERGED } else { 0 };
        pairs
            .iter()
            .filter(|(kernel, _)| cmd_flags & kernel != 0)
            .fold(merged, |all, (_, ours)| all | ours)
    }
}

/// Kind of a request. `size_bytes` tells a zone append (number 13 or 15 before 6.18) from the zone
/// management operations that have these numbers elsewhere: those carry no data.
pub fn op(cmd_flags: u32, size_bytes: u32) -> Op {
    match cmd_flags & OP_MASK {
        0 => Op::Read,
        1 => Op::Write,
        2 => Op::Flush,
        3 | 5 | 9 => Op::Discard, // discard, secure erase, write zeroes
        7 | 13 | 15 if size_bytes > 0 => Op::Write,
        _ => Op::Other, // zone management, driver commands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polled_moved_in_6_4() {
        let bit_22 = 1 << 22;
        let bit_23 = 1 << 23;
        for (release, polled, other) in [
            ("6.1.0-18-amd64", bit_23, bit_22),
            ("6.3.13", bit_23, bit_22),
            ("6.4", bit_22, bit_23),
            ("6.18.44-fc", bit_22, bit_23),
            ("5.15.0", bit_23, bit_22),
            ("7.0.1", bit_22, bit_23),
            ("", bit_22, bit_23),
        ] {
            let decoder = CmdFlags::of_kernel(release);
            assert_eq!(decoder.flags(polled, 0), flags::POLLED, "{release}");
            assert_eq!(decoder.flags(other, 0), 0, "{release}");
        }
    }

    #[test]
    fn each_flag_is_its_own() {
        let decoder = CmdFlags::of_kernel("6.18.44");
        let expected = [
            (11, flags::SYNC),
            (12, flags::META),
            (17, flags::FUA),
            (18, flags::PREFLUSH),
            (19, flags::READAHEAD),
            (20, flags::BACKGROUND),
        ];
        for bit in 8..30 {
            let ours = expected.iter().find(|(b, _)| *b == bit).map_or(0, |(_, f)| *f);
            if bit != 22 {
                assert_eq!(decoder.flags(1 << bit, 0), ours, "bit {bit}");
            }
        }
        assert_eq!(
            decoder.flags(1 | 1 << 11 | 1 << 17, 2),
            flags::SYNC | flags::FUA | flags::MERGED
        );
    }

    #[test]
    fn operations() {
        let with_data = |n: u32| op(n | 1 << 11, 4096);
        assert_eq!([0, 1, 2, 3, 5, 9].map(with_data), {
            use Op::*;
            [Read, Write, Flush, Discard, Discard, Discard]
        });
        assert_eq!([7, 13, 15].map(with_data), [Op::Write; 3]);
        assert_eq!([13, 15, 17, 19, 10].map(|n| op(n, 0)), [Op::Other; 5]);
        assert_eq!(op(34, 512), Op::Other);
    }
}

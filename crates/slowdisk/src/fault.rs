//! The grammar of faults: from text to [`Fault`] and back.
use std::fmt::{self, Display};
use std::ops::Range;
use std::str::FromStr;

use crate::error::FaultError;
use crate::units::{
    format_duration_ns, format_size, parse_duration_ns, parse_size, SIZE_EXPECTED, TIME_EXPECTED,
};

/// The grammar, for `--help`.
pub const FAULT_HELP: &str = "\
A fault is one line: <op> <kind> [where] [when]

op    read | write | flush | any      any: reads, writes and flushes
kind  tail P DELAY                    a part P of the requests (0 < P <= 1) takes DELAY longer
      constant DELAY                  every request takes DELAY longer
      stall EVERY LENGTH              every EVERY, all requests are held for LENGTH
      sleep IDLE WAKE                 after IDLE without a request the disk sleeps: the next one, and what comes
                                      meanwhile, waits until it is awake, WAKE later
      throttle RATE                   at most RATE: 50MiB/s (bytes) or 500/s (requests)
      error P [NAME]                  a part P of the requests fails: EIO (default), ENOSPC,
                                      ETIMEDOUT, ENODATA, EILSEQ, ENOLINK or EREMOTEIO
where offset A..B                     only requests that touch the bytes A up to B of the device
when  from T                          only requests that arrive T or later after the start
      until T                         only requests that arrive before T after the start

Units: ns us ms s min h; B KiB MiB GiB TiB. Repeat --fault for several faults: delays add up,
a throttle and a stall then hold the request until their own end.

Examples:
  read tail 0.001 30ms
  any stall 10s 200ms from 20s until 50s
  any sleep 500ms 30ms
  write throttle 50MiB/s offset 0..512MiB
  read error 0.0001 EIO";

/// Error names that reach the reader as they are: the block layer has a status for each.
const ERROR_NAMES: [(&str, i32); 7] = [
    ("EIO", libc::EIO),
    ("ENOSPC", libc::ENOSPC),
    ("ETIMEDOUT", libc::ETIMEDOUT),
    ("ENODATA", libc::ENODATA),
    ("EILSEQ", libc::EILSEQ),
    ("ENOLINK", libc::ENOLINK),
    ("EREMOTEIO", libc::EREMOTEIO),
];

/// Requests that a fault may hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Cache flushes.
    Flush,
    /// All three.
    Any,
}

const OPS: [(&str, Op); 4] = [
    ("read", Op::Read),
    ("write", Op::Write),
    ("flush", Op::Flush),
    ("any", Op::Any),
];

impl Op {
    /// The word of the grammar.
    pub fn name(self) -> &'static str {
        OPS.iter()
            .find(|(_, op)| *op == self)
            .map_or("any", |(name, _)| name)
    }
}

/// A limit of [`Kind::Throttle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// Bytes per second, at least 1.
    BytesPerS(u64),
    /// Requests per second, at least 1.
    RequestsPerS(u64),
}

/// What a fault does to a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Adds a delay to some requests.
    Tail {
        /// Part of the requests, above 0, up to 1.
        probability: f64,
        /// Added delay, at least 1 ns.
        delay_ns: u64,
    },
    /// Adds a delay to every request.
    Constant {
        /// Added delay, at least 1 ns.
        delay_ns: u64,
    },
    /// Holds all requests, again and again: windows begin at `every_ns`, 2 `every_ns`, ... after the start.
    Stall {
        /// Distance between the beginnings of two windows.
        every_ns: u64,
        /// Length of a window, shorter than `every_ns`.
        length_ns: u64,
    },
    /// Sleeps when it has nothing to do, and has to wake first.
    Sleep {
        /// So long after the request before, at least 1 ns.
        idle_ns: u64,
        /// What waking takes, at least 1 ns.
        wake_ns: u64,
    },
    /// Serves requests one after the other at a rate.
    Throttle {
        /// The rate.
        rate: Rate,
    },
    /// Fails some requests.
    Error {
        /// Part of the requests, above 0, up to 1.
        probability: f64,
        /// Error number, one of those in [`FAULT_HELP`].
        errno: i32,
    },
}

/// One fault: which requests, what happens to them, where and when.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// Requests that may be hit.
    pub op: Op,
    /// What happens.
    pub kind: Kind,
    /// Only requests that overlap these bytes of the device; None: all.
    pub offset_bytes: Option<Range<u64>>,
    /// Only requests that arrive this long after the start, or later.
    pub from_ns: u64,
    /// Only requests that arrive earlier than this after the start; None: for ever.
    pub until_ns: Option<u64>,
}

/// Name of an error number in [`FAULT_HELP`].
pub fn error_name(errno: i32) -> &'static str {
    ERROR_NAMES
        .iter()
        .find(|(_, code)| *code == errno)
        .map_or("EIO", |(name, _)| name)
}

impl Fault {
    /// Parses one fault; see [`FAULT_HELP`] for the grammar.
    pub fn parse(text: &str) -> Result<Fault, FaultError> {
        Words::new(text).fault()
    }
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Fault, FaultError> {
        Fault::parse(text)
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.op.name())?;
        let time = format_duration_ns;
        match self.kind {
            Kind::Tail {
                probability,
                delay_ns,
            } => write!(f, "tail {probability} {}", time(delay_ns))?,
            Kind::Constant { delay_ns } => write!(f, "constant {}", time(delay_ns))?,
            Kind::Stall { every_ns, length_ns } => write!(f, "stall {} {}", time(every_ns), time(length_ns))?,
            Kind::Sleep { idle_ns, wake_ns } => write!(f, "sleep {} {}", time(idle_ns), time(wake_ns))?,
            Kind::Throttle {
                rate: Rate::BytesPerS(bytes),
            } => write!(f, "throttle {}/s", format_size(bytes))?,
            Kind::Throttle {
                rate: Rate::RequestsPerS(count),
            } => write!(f, "throttle {count}/s")?,
            Kind::Error { probability, errno } => write!(f, "error {probability} {}", error_name(errno))?,
        }
        if let Some(range) = &self.offset_bytes {
            let start = if range.start == 0 {
                "0".into()
            } else {
                format_size(range.start)
            };
            write!(f, " offset {start}..{}", format_size(range.end))?;
        }
        if self.from_ns > 0 {
            write!(f, " from {}", time(self.from_ns))?;
        }
        if let Some(until_ns) = self.until_ns {
            write!(f, " until {}", time(until_ns))?;
        }
        Ok(())
    }
}

/// A reader of the words of a fault that remembers where it is.
struct Words<'a> {
    text: &'a str,
    words: Vec<&'a str>,
    /// Index of the next word.
    next: usize,
}

impl<'a> Words<'a> {
    fn new(text: &'a str) -> Words<'a> {
        Words {
            text,
            words: text.split_whitespace().collect(),
            next: 0,
        }
    }

    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.next).copied()
    }

    /// The error at the next word.
    fn expected(&self, expected: impl Into<String>) -> FaultError {
        let found = self.peek().map_or("the end".into(), |word| format!("'{word}'"));
        FaultError {
            text: self.text.into(),
            word: self.next + 1,
            expected: expected.into(),
            found,
        }
    }

    /// Takes the next word if `parse` understands it.
    fn take<T>(&mut self, expected: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T, FaultError> {
        let value = self
            .peek()
            .and_then(parse)
            .ok_or_else(|| self.expected(expected))?;
        self.next += 1;
        Ok(value)
    }

    fn fault(mut self) -> Result<Fault, FaultError> {
        let op = self.take("read, write, flush or any", |word| {
            OPS.iter().find(|(name, _)| *name == word).map(|(_, op)| *op)
        })?;
        let kind = self.kind(op)?;
        let mut fault = Fault {
            op,
            kind,
            offset_bytes: None,
            from_ns: 0,
            until_ns: None,
        };
        self.clauses(&mut fault)?;
        Ok(fault)
    }

    fn kind(&mut self, op: Op) -> Result<Kind, FaultError> {
        let kinds = "tail, constant, stall, sleep, throttle or error";
        match self.peek() {
            Some("tail") => {
                self.next += 1;
                Ok(Kind::Tail {
                    probability: self.probability()?,
                    delay_ns: self.duration()?,
                })
            }
            Some("constant") => {
                self.next += 1;
                Ok(Kind::Constant {
                    delay_ns: self.duration()?,
                })
            }
            Some("stall") => {
                self.next += 1;
                let every_ns = self.duration()?;
                let shorter = format!("a duration below {}", format_duration_ns(every_ns));
                let length_ns = self.take(&shorter, |w| {
                    parse_duration_ns(w).filter(|ns| *ns > 0 && *ns < every_ns)
                })?;
                Ok(Kind::Stall { every_ns, length_ns })
            }
            Some("sleep") => {
                self.next += 1;
                Ok(Kind::Sleep {
                    idle_ns: self.duration()?,
                    wake_ns: self.duration()?,
                })
            }
            Some("throttle") => {
                self.next += 1;
                Ok(Kind::Throttle { rate: self.rate(op)? })
            }
            Some("error") => {
                self.next += 1;
                Ok(Kind::Error {
                    probability: self.probability()?,
                    errno: self.errno()?,
                })
            }
            _ => Err(self.expected(kinds)),
        }
    }

    fn probability(&mut self) -> Result<f64, FaultError> {
        self.take("a part of the requests above 0 and up to 1, e.g. 0.001", |word| {
            word.parse().ok().filter(|p: &f64| *p > 0.0 && *p <= 1.0)
        })
    }

    fn duration(&mut self) -> Result<u64, FaultError> {
        self.take(TIME_EXPECTED, |word| parse_duration_ns(word).filter(|ns| *ns > 0))
    }

    fn rate(&mut self, op: Op) -> Result<Rate, FaultError> {
        let parse = |word: &str| {
            let amount = word.strip_suffix("/s")?;
            match amount.parse() {
                Ok(count) => Some(Rate::RequestsPerS(count)).filter(|_| count > 0),
                Err(_) => parse_size(amount).filter(|bytes| *bytes > 0).map(Rate::BytesPerS),
            }
        };
        let expected = "a rate: bytes, e.g. 50MiB/s, or requests, e.g. 500/s";
        let before = self.next;
        let rate = self.take(expected, parse)?;
        if op == Op::Flush && matches!(rate, Rate::BytesPerS(_)) {
            self.next = before;
            return Err(self.expected("requests, e.g. 500/s (a flush carries no bytes)"));
        }
        Ok(rate)
    }

    /// The optional name of an error; EIO if the next word begins a clause or nothing follows.
    fn errno(&mut self) -> Result<i32, FaultError> {
        if matches!(self.peek(), None | Some("offset" | "from" | "until")) {
            return Ok(libc::EIO);
        }
        let names: Vec<_> = ERROR_NAMES.iter().map(|(name, _)| *name).collect();
        self.take(&format!("one of {}", names.join(", ")), |word| {
            ERROR_NAMES
                .iter()
                .find(|(name, _)| *name == word)
                .map(|(_, code)| *code)
        })
    }

    /// `offset`, `from` and `until`, each at most once, in any order.
    fn clauses(&mut self, fault: &mut Fault) -> Result<(), FaultError> {
        let mut left = vec!["offset", "from", "until"];
        if fault.op == Op::Flush {
            // A flush has no place on the device.
            left.remove(0);
        }
        while let Some(word) = self.peek() {
            let Some(index) = left.iter().position(|name| *name == word) else {
                let mut expected = left.join(", ");
                expected.push_str(if left.is_empty() { "the end" } else { " or the end" });
                return Err(self.expected(expected));
            };
            self.next += 1;
            match left.remove(index) {
                "offset" => fault.offset_bytes = Some(self.range()?),
                "from" => fault.from_ns = self.take(TIME_EXPECTED, parse_duration_ns)?,
                _ => fault.until_ns = Some(self.duration()?),
            }
        }
        match fault.until_ns {
            Some(until_ns) if until_ns <= fault.from_ns => Err(self.expected(format!(
                "an until later than from {}",
                format_duration_ns(fault.from_ns)
            ))),
            _ => Ok(()),
        }
    }

    fn range(&mut self) -> Result<Range<u64>, FaultError> {
        let expected = format!("A..B with A below B, each {SIZE_EXPECTED}");
        self.take(&expected, |word| {
            let (start, end) = word.split_once("..")?;
            let range = parse_size(start)?..parse_size(end)?;
            (!range.is_empty()).then_some(range)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn good_faults() {
        let fault = Fault::parse("read tail 0.001 30ms").unwrap();
        assert_eq!(
            fault.kind,
            Kind::Tail {
                probability: 0.001,
                delay_ns: 30_000_000
            }
        );
        assert_eq!(
            (fault.op, fault.offset_bytes, fault.from_ns, fault.until_ns),
            (Op::Read, None, 0, None)
        );
        let fault = Fault::parse("any stall 10s 200ms from 20s until 50s").unwrap();
        assert_eq!(
            fault.kind,
            Kind::Stall {
                every_ns: 10_000_000_000,
                length_ns: 200_000_000
            }
        );
        assert_eq!(
            (fault.from_ns, fault.until_ns),
            (20_000_000_000, Some(50_000_000_000))
        );
        let fault = Fault::parse("  write  throttle 50MiB/s until 5s offset 0..512MiB ").unwrap();
        assert_eq!(
            fault.kind,
            Kind::Throttle {
                rate: Rate::BytesPerS(50 << 20)
            }
        );
        assert_eq!(fault.offset_bytes, Some(0..512 << 20));
        let fault = Fault::parse("flush throttle 20/s").unwrap();
        assert_eq!(
            fault.kind,
            Kind::Throttle {
                rate: Rate::RequestsPerS(20)
            }
        );
        let fault = Fault::parse("read error 1 offset 4KiB..8KiB").unwrap();
        assert_eq!(
            fault.kind,
            Kind::Error {
                probability: 1.0,
                errno: libc::EIO
            }
        );
        let fault = Fault::parse("write error 0.5 ENOSPC from 1s").unwrap();
        assert_eq!(
            fault.kind,
            Kind::Error {
                probability: 0.5,
                errno: libc::ENOSPC
            }
        );
    }

    /// Every bad text names the word, what was expected and what was found.
    #[test]
    fn bad_faults_name_the_word() {
        let bad = [
            ("", 1, "read, write", "the end"),
            ("reed tail 0.1 1ms", 1, "read, write", "'reed'"),
            ("read", 2, "tail, constant", "the end"),
            ("read tial 0.1 1ms", 2, "tail, constant", "'tial'"),
            ("read tail 30ms 0.1", 3, "above 0 and up to 1", "'30ms'"),
            ("read tail 0 30ms", 3, "above 0", "'0'"),
            ("read tail 1.1 30ms", 3, "up to 1", "'1.1'"),
            ("read tail NaN 30ms", 3, "up to 1", "'NaN'"),
            ("read tail 0.1 30", 4, "duration with a unit", "'30'"),
            ("read constant", 3, "duration", "the end"),
            ("read constant 0", 3, "duration", "'0'"),
            ("any stall 1s 1s", 4, "below 1s", "'1s'"),
            ("any stall every 2s for 200ms", 3, "duration", "'every'"),
            ("any sleep 1s", 4, "duration", "the end"),
            ("read throttle 50MiB", 3, "rate", "'50MiB'"),
            ("read throttle 0/s", 3, "rate", "'0/s'"),
            ("flush throttle 5MiB/s", 3, "no bytes", "'5MiB/s'"),
            ("read error 0.1 EPERM", 4, "one of EIO", "'EPERM'"),
            ("read constant 1ms offset 8..4", 5, "A below B", "'8..4'"),
            ("read constant 1ms offset", 5, "A..B", "the end"),
            (
                "flush constant 1ms offset 0..4KiB",
                4,
                "from, until or the end",
                "'offset'",
            ),
            (
                "read constant 1ms from 1s from 2s",
                6,
                "offset, until or the end",
                "'from'",
            ),
            (
                "read constant 1ms from 2s until 2s",
                8,
                "later than from 2s",
                "the end",
            ),
            (
                "read constant 1ms now",
                4,
                "offset, from, until or the end",
                "'now'",
            ),
        ];
        for (text, word, expected, found) in bad {
            let error = Fault::parse(text).expect_err(text);
            assert_eq!((error.word, error.found.as_str()), (word, found), "{error}");
            assert!(error.expected.contains(expected), "{error}");
            assert!(
                error.to_string().contains(&format!("word {word}: expected ")),
                "{error}"
            );
        }
    }

    #[test]
    fn examples_of_the_help_are_right() {
        let (_, examples) = FAULT_HELP.split_once("Examples:\n").unwrap();
        for line in examples.lines() {
            assert_eq!(Fault::parse(line).unwrap().to_string(), line.trim());
        }
    }

    fn any_kind() -> impl Strategy<Value = Kind> {
        let errno = (0..ERROR_NAMES.len()).prop_map(|index| ERROR_NAMES[index].1);
        prop_oneof![
            (1e-9..=1.0f64, 1u64..1 << 40).prop_map(|(probability, delay_ns)| Kind::Tail {
                probability,
                delay_ns
            }),
            (1u64..1 << 40).prop_map(|delay_ns| Kind::Constant { delay_ns }),
            (1u64..1 << 40, 1u64..1 << 30).prop_map(|(more, length_ns)| Kind::Stall {
                every_ns: length_ns + more,
                length_ns
            }),
            (1u64..1 << 40, 1u64..1 << 40).prop_map(|(idle_ns, wake_ns)| Kind::Sleep { idle_ns, wake_ns }),
            (1u64..1 << 40).prop_map(|n| Kind::Throttle {
                rate: Rate::RequestsPerS(n)
            }),
            (1u64..1 << 40).prop_map(|n| Kind::Throttle {
                rate: Rate::BytesPerS(n)
            }),
            (1e-9..=1.0f64, errno).prop_map(|(probability, errno)| Kind::Error { probability, errno }),
        ]
    }

    prop_compose! {
        fn any_fault()(
            op in (0..3usize).prop_map(|index| [Op::Read, Op::Write, Op::Any][index]),
            kind in any_kind(),
            range in proptest::option::of((0u64..1 << 40, 1u64..1 << 40)),
            from_ns in 0u64..1 << 40,
            length_ns in proptest::option::of(1u64..1 << 40),
        ) -> Fault {
            let offset_bytes = range.map(|(start, length)| start..start + length);
            Fault { op, kind, offset_bytes, from_ns, until_ns: length_ns.map(|length| from_ns + length) }
        }
    }

    proptest! {
        #[test]
        fn every_fault_survives_its_text(fault in any_fault()) {
            prop_assert_eq!(Fault::parse(&fault.to_string()), Ok(fault));
        }

        #[test]
        fn no_text_panics(text in "((read|any|tail|stall|error|offset|from|0\\.1|1ms|4KiB\\.\\.8KiB|\\PC{0,6}) ?){0,9}") {
            let _ = Fault::parse(&text);
        }
    }
}

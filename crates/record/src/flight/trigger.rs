//! What makes a case out of what flies by: `latency > 50ms and device == sda and op == read`.
use std::fmt;
use std::time::Duration;

/// The grammar, for `--help` and for errors.
pub const TRIGGER_HELP: &str = "\
A trigger is a limit, and conditions: <limit> [and <condition>]...

limit      latency > TIME       an operation took longer: a block request, or a system call on storage
           age > TIME           an operation has been in flight for longer, whether it ever ends or not
condition  layer == LAYER       block | syscall
           op == OP             read | write | flush | discard | sync | copy | other
           device == NAME       sda, /dev/nvme0n1: the disk, or the partition that holds the file

Times have a unit: ns us ms s min h. Repeat --trigger for several; any of them is enough.";

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// From begin to end.
    Latency,
    /// From begin until now, of what has not ended.
    Age,
}

impl Measure {
    /// As a trigger names it.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Latency => "latency",
            Measure::Age => "age",
        }
    }
}

/// Kind of an operation, as in the tables of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpLayer {
    /// A request to a block device.
    Block,
    /// A system call, or a request in an io_uring.
    Syscall,
}

impl OpLayer {
    /// As in the tables of a case.
    pub fn name(self) -> &'static str {
        match self {
            OpLayer::Block => "block",
            OpLayer::Syscall => "syscall",
        }
    }
}

/// A limit with its conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// What is compared.
    pub measure: Measure,
    /// What it must exceed.
    pub limit_ns: u64,
    /// Only operations of this layer.
    pub layer: Option<OpLayer>,
    /// Only this kind.
    pub op: Option<&'static str>,
    /// Only on this device.
    pub device: Option<String>,
    /// As it was given.
    pub text: String,
}

/// A text that is no trigger.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("trigger '{text}': at '{at}': expected {expected}; e.g. 'latency > 50ms and op == read'")]
pub struct TriggerError {
    /// The whole text.
    pub text: String,
    /// Where it went wrong.
    pub at: String,
    /// What the grammar wants there.
    pub expected: String,
}

const OPS: [&str; 20] = [
    "read",
    "write",
    "flush",
    "discard",
    "sync",
    "copy",
    "open",
    "rename",
    "unlink",
    "mkdir",
    "link",
    "truncate",
    "allocate",
    "fault",
    "drop",
    "close",
    "lookup",
    "list",
    "attribute",
    "other",
];

impl std::str::FromStr for Trigger {
    type Err = TriggerError;

    fn from_str(text: &str) -> Result<Trigger, TriggerError> {
        let wrong = |at: &str, expected: &str| TriggerError {
            text: text.into(),
            at: if at.is_empty() {
                "the end".into()
            } else {
                at.into()
            },
            expected: expected.into(),
        };
        let mut trigger = Trigger {
            measure: Measure::Latency,
            limit_ns: 0,
            layer: None,
            op: None,
            device: None,
            text: text.trim().into(),
        };
        for part in parts(text) {
            let Some((field, sign, value)) = comparison(part) else {
                return Err(wrong(part, "a comparison, as latency > 50ms or op == read"));
            };
            match field {
                "latency" | "age" => {
                    if sign != ">" {
                        return Err(wrong(part, &format!("{field} > TIME")));
                    }
                    if trigger.limit_ns != 0 {
                        return Err(wrong(part, "one limit; repeat --trigger for another"));
                    }
                    trigger.measure = match field {
                        "age" => Measure::Age,
                        _ => Measure::Latency,
                    };
                    trigger.limit_ns = time_ns(value).map_err(|expected| wrong(value, &expected))?;
                }
                _ if sign != "==" => return Err(wrong(part, "== between a name and its value")),
                "layer" => {
                    let layers = [OpLayer::Block, OpLayer::Syscall];
                    let layer = layers.into_iter().find(|layer| layer.name() == value);
                    trigger.layer = Some(layer.ok_or_else(|| wrong(value, "block or syscall"))?);
                }
                "op" => {
                    let op = OPS.into_iter().find(|op| *op == value);
                    trigger.op = Some(op.ok_or_else(|| wrong(value, &format!("one of {}", OPS.join(", "))))?);
                }
                "device" if !value.is_empty() => {
                    trigger.device = Some(value.strip_prefix("/dev/").unwrap_or(value).into());
                }
                "device" => return Err(wrong(value, "the name of a device, as sda")),
                _ => return Err(wrong(field, "latency, age, layer, op or device")),
            }
        }
        if trigger.limit_ns == 0 {
            return Err(wrong("", "a limit: latency > TIME or age > TIME"));
        }
        Ok(trigger)
    }
}

/// What stands between the words `and`.
fn parts(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut begin, mut at) = (0, 0);
    for word in text.split_inclusive(char::is_whitespace) {
        if matches!(word.trim(), "and" | "&&") {
            parts.push(text[begin..at].trim());
            begin = at + word.len();
        }
        at += word.len();
    }
    parts.push(text[begin..].trim());
    parts
}

fn comparison(part: &str) -> Option<(&str, &str, &str)> {
    let begin = part.find(['>', '<', '=', '!'])?;
    let sign_bytes = part[begin..].find(|c| !['>', '<', '=', '!'].contains(&c));
    let end = begin + sign_bytes.unwrap_or(part.len() - begin);
    Some((part[..begin].trim(), &part[begin..end], part[end..].trim()))
}

fn time_ns(text: &str) -> Result<u64, String> {
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let units = [
        ("ns", 1.0),
        ("us", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
        ("min", 60e9),
        ("h", 3600e9),
    ];
    let unit = units.into_iter().find(|(name, _)| *name == unit.trim());
    let value: Option<f64> = number.parse().ok();
    match (value, unit) {
        (Some(value), Some((_, ns))) if value * ns >= 1.0 && value * ns < 1e18 => Ok((value * ns) as u64),
        _ => Err("a time above zero with its unit, as 50ms".into()),
    }
}

/// An operation as triggers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Where it was seen.
    pub layer: OpLayer,
    /// `read`, `write`, ...
    pub op: &'static str,
    /// Begin, `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// How long it took, or how old it is.
    pub time_ns: u64,
    /// Kernel dev_t of the disk, or of what holds the file; 0 = none.
    pub device: u32,
    /// Process; -1 = not known.
    pub pid: i32,
    /// Thread; -1 = not known.
    pub tid: i32,
    /// Command name, NUL padded.
    pub comm: [u8; 16],
}

impl Trigger {
    /// Whether an operation exceeds the limit and meets the conditions; `names`: of its device.
    pub fn fires(&self, measure: Measure, operation: &Operation, names: &[String]) -> bool {
        self.measure == measure
            && operation.time_ns > self.limit_ns
            && self.layer.is_none_or(|layer| layer == operation.layer)
            && self.op.is_none_or(|op| op == operation.op)
            && self.device.as_ref().is_none_or(|device| names.contains(device))
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

/// A time for people, with three digits.
pub fn spoken(ns: u64) -> String {
    let time = Duration::from_nanos(ns);
    format!("{time:.1?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Trigger, String> {
        text.parse::<Trigger>().map_err(|error| error.to_string())
    }

    #[test]
    fn triggers_are_read() {
        let plain = parse("latency > 50ms").unwrap();
        assert_eq!((plain.measure, plain.limit_ns), (Measure::Latency, 50_000_000));
        let all = parse("age>1.5s and device == /dev/sda && op==read and layer == block").unwrap();
        assert_eq!((all.measure, all.limit_ns), (Measure::Age, 1_500_000_000));
        assert_eq!(all.device.as_deref(), Some("sda"));
        assert_eq!((all.op, all.layer), (Some("read"), Some(OpLayer::Block)));
    }

    #[test]
    fn wrong_ones_say_where_and_what_is_expected() {
        let wrong = [
            ("", "at 'the end'"),
            ("latency", "at 'latency'"),
            ("latency > 50", "with its unit"),
            ("latency > 0ms", "above zero"),
            ("latency < 5ms", "latency > TIME"),
            ("latency > 5ms and age > 1s", "one limit"),
            ("op == read", "a limit"),
            ("latency > 5ms and op == reed", "one of read, write"),
            ("latency > 5ms and op > read", "=="),
            ("latency > 5ms and colour == red", "at 'colour'"),
            ("latency > 5ms and device ==", "name of a device"),
            ("latency > 5ms and layer == app", "block or syscall"),
            ("latency > 5ms and", "a comparison"),
        ];
        for (text, part) in wrong {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn conditions_must_all_hold() {
        let operation = Operation {
            layer: OpLayer::Block,
            op: "read",
            start_ns: 1,
            time_ns: 60_000_000,
            device: 5,
            pid: 1,
            tid: 1,
            comm: [0; 16],
        };
        let names = ["sda1".to_string(), "sda".to_string()];
        let fires = |text: &str| parse(text).unwrap().fires(Measure::Latency, &operation, &names);
        assert!(fires("latency > 50ms") && fires("latency > 50ms and device == sda and op == read"));
        assert!(!fires("latency > 60ms") && !fires("age > 50ms") && !fires("latency > 50ms and op == write"));
        assert!(!fires("latency > 50ms and layer == syscall") && !fires("latency > 50ms and device == sdb"));
    }
}

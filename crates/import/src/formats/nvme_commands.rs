//! Commands of NVMe drives from the driver's tracepoints: nvme_setup_cmd and nvme_complete_rq become operations of layer `device`.
//!
//! `nvme0: disk=nvme0n1, qid=1, cmdid=7, nsid=1, flags=0x0, meta=0x0, cmd=(nvme_cmd_read slba=8, len=7, ...)` begins, `nvme0: disk=nvme0n1, qid=1, cmdid=7,
//! res=0x0, retries=0, flags=0x0, status=0x0` ends a command. Source: drivers/nvme/host/trace.h, trace.c. Places and sizes are in blocks of the
//! namespace, and no tracepoint tells how long these are: `--map block=512` does.
use crate::error::Bad;
use crate::format::Source;
use crate::sink::{one_stage_op, Sink};
use crate::text::{counted, integer};
use crate::ImportError;
use case::schema::{Layer, Op, OpRow, Stage};
use std::collections::HashMap;

/// Commands in flight that are kept at most: 64 queues of 1024.
const IN_FLIGHT_MAX: usize = 1 << 16;
/// EIO, which is what Linux makes of a status that says no more than that a command failed.
const FAILED: i32 = 5;
/// Type and code of a status; above it are whether and when to try again, and where the drive says more.
const STATUS_CODE: u32 = 0x7ff;

/// The errno that Linux gives whoever waits for a command with this status (the completion's field without its phase bit, as the tracepoint prints it).
/// Source: nvme_error_status(), drivers/nvme/host/core.c; blk_errors, block/blk-core.c.
fn errno_of(status: u32) -> i32 {
    match status & STATUS_CODE {
        // Only whether to try again is said.
        0 if status == 0 => 0,
        // Capacity exceeded: ENOSPC.
        0x81 => 28,
        // Place out of range, command interrupted, namespace not ready: the target's own error, EREMOTEIO.
        0x80 | 0x21 | 0x82 => 121,
        // Invalid opcode, field or namespace, conflicting attributes, not supported together: EOPNOTSUPP.
        0x1 | 0x2 | 0xb | 0x180 | 0x18c => 95,
        // Write fault, unrecovered read error, access denied, block never written, namespace read-only: the medium's, ENODATA.
        0x280 | 0x281 | 0x286 | 0x287 | 0x182 => 61,
        // Protection information does not fit: EILSEQ.
        0x181 | 0x282..=0x284 => 84,
        // Reserved by another host: EBADE.
        0x83 => 52,
        // The path to the drive: ENOLINK.
        0x370 => 67,
        // Too many active (EOVERFLOW) or open (ETOOMANYREFS) zones.
        0x1bd => 75,
        0x1be => 109,
        _ => FAILED,
    }
}

/// Drive, queue and number of a command.
type Key = (String, u32, u32);

/// See the module.
#[derive(Default)]
pub struct Commands {
    block_bytes: Option<i64>,
    in_flight: HashMap<Key, OpRow>,
    last_ns: i64,
    /// When the last command ended.
    last_end_ns: i64,
    is_told: bool,
    of_admin: u64,
    unmatched: u64,
    /// Commands whose completion cannot come any more.
    forgotten: u64,
    ended: u64,
}

impl Commands {
    /// Error: `--map` is there, and no length of a block.
    pub fn new(source: &Source) -> Result<Commands, ImportError> {
        let block_bytes = source.map.as_deref().map(|map| {
            let bytes = map.trim().strip_prefix("block=").and_then(|text| text.parse().ok());
            let is_length = |bytes: &i64| (1..=1 << 20).contains(bytes);
            bytes.filter(is_length).ok_or_else(|| {
                ImportError::Use(format!(
                    "--map: expected the bytes of a logical block of the NVMe drive, e.g. 'block=512', found '{map}'"
                ))
            })
        });
        Ok(Commands {
            block_bytes: block_bytes.transpose()?,
            ..Commands::default()
        })
    }

    /// A command begins.
    pub fn setup(
        &mut self,
        time_ns: i64,
        cpu: Option<i32>,
        pid: Option<i32>,
        rest: &str,
        sink: &mut Sink,
    ) -> Result<(), Bad> {
        let Some(key) = self.key(time_ns, rest)? else {
            self.of_admin += 1;
            return Ok(());
        };
        if self.in_flight.len() >= IN_FLIGHT_MAX {
            self.forgotten += self.in_flight.len() as u64;
            self.in_flight.clear();
        }
        let command = rest.split_once("cmd=(").map_or("", |(_, command)| command);
        let op = match command.split([' ', ')']).next().unwrap_or("") {
            "nvme_cmd_read" => Op::Read,
            "nvme_cmd_write" | "nvme_cmd_zone_append" => Op::Write,
            "nvme_cmd_flush" => Op::Flush,
            "nvme_cmd_dsm" | "nvme_cmd_write_zeroes" => Op::Discard,
            _ => Op::Other,
        };
        let mut row = one_stage_op(time_ns, 0, op, Stage::Device);
        (row.cpu, row.pid) = (cpu, pid.filter(|pid| *pid > 0));
        let name = field(rest, "disk=")
            .filter(|name| !name.is_empty())
            .unwrap_or(&key.0);
        row.device = Some(sink.name(name));
        if let (Some(block), true) = (self.block_bytes, matches!(op, Op::Read | Op::Write)) {
            let blocks = |name| field(command, name).and_then(|text| text.parse::<i64>().ok());
            row.offset_bytes = blocks("slba=").and_then(|place| place.checked_mul(block));
            // 0 is one block.
            row.size_bytes = blocks("len=").and_then(|more| more.checked_add(1)?.checked_mul(block));
        }
        // A number is given anew once its command has ended.
        if self.in_flight.insert(key, row).is_some() {
            self.forgotten += 1;
        }
        Ok(())
    }

    /// A command ends.
    pub fn complete(
        &mut self,
        time_ns: i64,
        cpu: Option<i32>,
        rest: &str,
        sink: &mut Sink,
    ) -> Result<(), crate::error::RecordError> {
        let Some(key) = self.key(time_ns, rest)? else {
            return Ok(());
        };
        let Some(mut row) = self.in_flight.remove(&key) else {
            self.unmatched += 1;
            return Ok(());
        };
        let status = field(rest, "status=").unwrap_or("");
        row.error = match status {
            "" => 0,
            text => u32::from_str_radix(text.trim_start_matches("0x"), 16).map_or(FAILED, errno_of),
        };
        row.complete_cpu = cpu;
        self.ended += 1;
        self.last_end_ns = self.last_end_ns.max(time_ns);
        self.done(row, time_ns, sink)?;
        Ok(())
    }

    /// None: a command of the admin queue.
    fn key(&mut self, time_ns: i64, rest: &str) -> Result<Option<Key>, Bad> {
        self.last_ns = self.last_ns.max(time_ns);
        let drive = rest.trim_start().split_once(':').map_or("", |(drive, _)| drive);
        let queue: u32 = integer(field(rest, "qid=").unwrap_or(""), "qid")?;
        let number: u32 = integer(field(rest, "cmdid=").unwrap_or(""), "cmdid")?;
        Ok((queue > 0).then(|| (drive.to_owned(), queue, number)))
    }

    fn done(&mut self, mut row: OpRow, end_ns: i64, sink: &mut Sink) -> Result<(), ImportError> {
        if !self.is_told {
            sink.layer(Layer::Device, &[(Stage::Device, "device+interrupt")]);
            sink.has_every_operation();
            if self.block_bytes.is_none() {
                sink.unseen(
                    "places and sizes of NVMe commands",
                    "the log counts in blocks of the namespace, and does not say how long these are; --map block=512 does",
                );
            }
            self.is_told = true;
        }
        row.latency_ns = end_ns.saturating_sub(row.start_ns).max(0);
        row.stages[Stage::Device as usize] = Some(row.latency_ns);
        sink.op(Layer::Device, row)
    }

    /// Why commands without a completion are not those that were in flight when the log ended; None: they are.
    fn why_without_completion(&self) -> Option<&'static str> {
        if self.ended == 0 {
            return Some("no completion is in the log: none was traced, or no command ended");
        }
        // What a drive that stops completing leaves was begun after its last completion, but for what was in flight then.
        let earlier = self
            .in_flight
            .values()
            .filter(|row| row.start_ns < self.last_end_ns);
        let earlier = earlier.count() as u64 + self.forgotten;
        (earlier > self.ended.min(IN_FLIGHT_MAX as u64))
            .then_some("no drive has this many in flight: not all completions were traced")
    }

    /// The log has ended: what is still in flight is open.
    pub fn end(&mut self, sink: &mut Sink) -> Result<(), ImportError> {
        let why = self.why_without_completion();
        let mut open: Vec<(Key, OpRow)> = self.in_flight.drain().collect();
        open.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut without = self.forgotten;
        if why.is_some() {
            without += open.len() as u64;
            open.clear();
        }
        if without > 0 {
            let commands = counted(without, "NVMe command");
            let what = format!("{commands} without a completion in the log, slow or not");
            let because = why.unwrap_or(
                "their numbers were given to others, so they had ended: that was not traced, or lost",
            );
            sink.missing(what, because);
        }
        for (_, mut row) in open {
            row.open = true;
            self.done(row, self.last_ns, sink)?;
        }
        if self.of_admin > 0 {
            let what = format!("{} of NVMe admin queues", counted(self.of_admin, "command"));
            sink.unseen(what, "they read and write no data");
        }
        if self.unmatched > 0 {
            let what = format!(
                "{} without a begin in the log, slow or not",
                counted(self.unmatched, "NVMe command")
            );
            sink.missing(what, "they were set up before it began, or that was lost");
        }
        Ok(())
    }
}

/// The value after a name and its sign, up to a comma, a blank or a bracket.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, after) = text.split_once(name)?;
    after.split([',', ' ', ')']).next()
}

#[cfg(test)]
mod tests {
    use crate::formats::trace_events::FORMAT;
    use crate::testing::import;
    use crate::Summary;

    /// A log of commands, each with its number, the microsecond of its begin and, if it is in the log, that of its end.
    fn log(commands: &[(u32, u32, Option<u32>)]) -> Summary {
        let point = |us: &u32, what: &str, number: &u32, rest: &str| {
            let line = format!("  fio-7 [001] ..... 16.{us:06}: {what}: nvme0: disk=nvme0n1, qid=2, cmdid={number}, {rest}\n");
            (*us, line)
        };
        let mut lines = Vec::new();
        for (number, begin_us, end_us) in commands {
            let begin = "nsid=1, flags=0x0, meta=0x0, cmd=(nvme_cmd_read slba=8, len=7, ctrl=0x0, dsmgmt=0, reftag=0)";
            lines.push(point(begin_us, "nvme_setup_cmd", number, begin));
            let end = end_us.as_ref().map(|us| {
                point(
                    us,
                    "nvme_complete_rq",
                    number,
                    "res=0x0, retries=0, flags=0x0, status=0x0",
                )
            });
            lines.extend(end);
        }
        lines.sort();
        import(
            &FORMAT,
            &lines.into_iter().map(|(_, line)| line).collect::<String>(),
        )
        .unwrap()
    }

    fn missing(summary: &Summary) -> String {
        let told = summary
            .missing
            .iter()
            .map(|missing| format!("{}: {}", missing.what, missing.because));
        told.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_status_becomes_the_errno_that_linux_gives() {
        for (status, errno) in [
            (0, 0),
            // Invalid field; the second with "do not retry" and "more".
            (0x2, 95),
            (0x4002, 95),
            (0x6002, 95),
            (0x4281, 61),
            (0x280, 61),
            (0x182, 61),
            (0x2282, 84),
            (0x80, 121),
            (0x81, 28),
            (0x83, 52),
            (0x4370, 67),
            // Aborted by the host, internal error, of the vendor.
            (0x7, 5),
            (0x4006, 5),
            (0x371, 5),
            (0x7c1, 5),
        ] {
            assert_eq!(super::errno_of(status), errno, "{status:#x}");
        }
    }

    const ENDED: [(u32, u32, Option<u32>); 4] = [
        (0, 100, Some(150)),
        (1, 200, Some(250)),
        (2, 300, Some(350)),
        (3, 400, Some(450)),
    ];

    #[test]
    fn commands_without_a_completion_were_in_flight_at_the_end() {
        let stuck: Vec<_> = (10..30).map(|number| (number, 440 + number, None)).collect();
        let summary = log(&[&ENDED[..], &stuck[..]].concat());
        assert_eq!((summary.records, missing(&summary).as_str()), (24, ""));
    }

    #[test]
    fn of_completions_that_are_not_in_the_log_nothing_is_said() {
        // More of them than the drive ended: it was not traced.
        let lost: Vec<_> = (10..15).map(|number| (number, 100 + number, None)).collect();
        let summary = log(&[&ENDED[..], &lost[..]].concat());
        let told = missing(&summary);
        assert_eq!(summary.records, 4, "{told}");
        assert!(
            told.contains("5 NVMe commands without") && told.contains("not all completions were traced"),
            "{told}"
        );
        // None at all.
        let summary = log(&lost);
        let told = missing(&summary);
        assert_eq!((summary.records, summary.layers.len()), (0, 0), "{told}");
        assert!(
            told.contains("5 NVMe commands without") && told.contains("no completion"),
            "{told}"
        );
    }

    #[test]
    fn a_command_whose_number_is_given_again_has_no_latency() {
        let summary = log(&[&ENDED[..], &[(0, 120, None), (9, 130, None), (9, 140, Some(160))]].concat());
        let told = missing(&summary);
        // Number 0 was given twice, too: the first of both never ended as far as the log says.
        assert!(told.contains("2 NVMe commands without"), "{told}");
        assert_eq!(summary.records, 5, "{told}");
        assert!(summary.end_ns <= 350_000, "{}", summary.end_ns);
    }
}

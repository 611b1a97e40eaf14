//! Commands of NVMe drives from the driver's tracepoints: nvme_setup_cmd and nvme_complete_rq become operations of layer `device`.
//!
//! `nvme0: disk=nvme0n1, qid=1, cmdid=7, nsid=1, flags=0x0, meta=0x0, cmd=(nvme_cmd_read slba=8, len=7, ...)` begins, `nvme0: disk=nvme0n1, qid=1, cmdid=7,
//! res=0x0, retries=0, flags=0x0, status=0x0` ends a command. Source: drivers/nvme/host/trace.h, trace.c. Places and sizes are in blocks of the
//! namespace, and no tracepoint tells how long these are: `--map block=512` does.
use crate::error::Bad;
use crate::format::Source;
use crate::sink::{one_stage_op, Sink};
use crate::text::integer;
use crate::ImportError;
use case::schema::{Layer, Op, OpRow, Stage};
use std::collections::HashMap;

/// Commands in flight that are kept at most: 64 queues of 1024.
const IN_FLIGHT_MAX: usize = 1 << 16;
/// What a failed command is told as: errno EIO.
const FAILED: i32 = 5;

/// Drive, queue and number of a command.
type Key = (String, u32, u32);

/// See the module.
#[derive(Default)]
pub struct Commands {
    block_bytes: Option<i64>,
    in_flight: HashMap<Key, OpRow>,
    last_ns: i64,
    is_told: bool,
    of_admin: u64,
    unmatched: u64,
    dropped: u64,
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
            self.dropped += self.in_flight.len() as u64;
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
        self.in_flight.insert(key, row);
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
        row.error = match status.trim_start_matches("0x").bytes().all(|digit| digit == b'0') {
            true => 0,
            false => FAILED,
        };
        row.complete_cpu = cpu;
        self.ended += 1;
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

    /// The log has ended: what is still in flight is open.
    pub fn end(&mut self, sink: &mut Sink) -> Result<(), ImportError> {
        let mut open: Vec<(Key, OpRow)> = self.in_flight.drain().collect();
        open.sort_by(|(one, _), (other, _)| one.cmp(other));
        if self.ended == 0 && !open.is_empty() {
            sink.unseen(
                "how long NVMe commands took",
                "no completion is in the log: none was traced, or no command ended",
            );
            open.clear();
        }
        for (_, mut row) in open {
            row.open = true;
            self.done(row, self.last_ns, sink)?;
        }
        for (count, what, because) in [
            (
                self.of_admin,
                "commands of NVMe admin queues",
                "they read and write no data",
            ),
            (
                self.unmatched,
                "NVMe commands of which only the completion is in the log",
                "they were set up before it began, or that was lost",
            ),
            (
                self.dropped,
                "NVMe commands without a completion",
                "too many were in flight at once",
            ),
        ] {
            if count > 0 {
                sink.unseen(format!("{count} {what}"), because);
            }
        }
        Ok(())
    }
}

/// The value after a name and its sign, up to a comma, a blank or a bracket.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, after) = text.split_once(name)?;
    after.split([',', ' ', ')']).next()
}

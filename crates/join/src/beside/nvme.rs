//! `events/`: commands to NVMe controllers, commands that failed, and what controllers reported by themselves.
use super::{text, Streams, Surveys};
use crate::pipeline::Out;
use crate::sorted::{Sorted, Timed};
use case::rows::{Nvme, NvmeRow};
use case::schema::EventRow;
use case::CaseError;

impl Timed for NvmeRow {
    fn start_ns(&self) -> u64 {
        self.start_ns
    }
    fn end_ns(&self) -> Option<u64> {
        (self.end_ns != 0).then_some(self.end_ns)
    }
    fn ties(&self) -> (u64, u64) {
        (u64::from(self.queue) << 16 | u64::from(self.command), self.end_ns)
    }
}

/// Admin commands, NVM Express Base Specification 2.0, figure 138.
const OPCODES: [(u8, &str); 22] = [
    (0x00, "delete_submission_queue"),
    (CREATE_SUBMISSION_QUEUE, "create_submission_queue"),
    (0x02, "get_log_page"),
    (0x04, "delete_completion_queue"),
    (0x05, "create_completion_queue"),
    (0x06, "identify"),
    (ABORT, "abort"),
    (0x09, "set_features"),
    (0x0a, "get_features"),
    (0x0d, "namespace_management"),
    (0x10, "firmware_commit"),
    (0x11, "firmware_download"),
    (0x14, "self_test"),
    (0x15, "namespace_attachment"),
    (0x1c, "virtualization_management"),
    (0x1d, "mi_send"),
    (0x1e, "mi_receive"),
    (0x7c, "doorbell_buffer_config"),
    (0x80, "format"),
    (0x81, "security_send"),
    (0x82, "security_receive"),
    (0x84, "sanitize"),
];
const CREATE_SUBMISSION_QUEUE: u8 = 0x01;
const ABORT: u8 = 0x08;

/// Status code type and code, the same specification, section 3.3.3.2.
const STATUS: [(u16, &str); 36] = [
    (0x001, "invalid opcode"),
    (0x002, "invalid field"),
    (0x003, "command id conflict"),
    (0x004, "data transfer error"),
    (0x005, "aborted: power loss"),
    (0x006, "internal error"),
    (0x007, "abort requested"),
    (0x008, "aborted: queue deleted"),
    (0x00b, "invalid namespace or format"),
    (0x00c, "command sequence error"),
    (0x01d, "sanitize in progress"),
    (0x020, "namespace is write protected"),
    (0x021, "command interrupted"),
    (0x022, "transient transport error"),
    (0x080, "address out of range"),
    (0x081, "capacity exceeded"),
    (0x082, "namespace not ready"),
    (0x083, "reservation conflict"),
    (0x084, "format in progress"),
    (0x100, "invalid completion queue"),
    (0x101, "invalid queue identifier"),
    (0x102, "invalid queue size"),
    (0x103, "abort limit exceeded"),
    (0x105, "event request limit exceeded"),
    (0x109, "invalid log page"),
    (0x10a, "invalid format"),
    (0x280, "write fault"),
    (0x281, "unrecovered read error"),
    (0x282, "guard check error"),
    (0x283, "application tag check error"),
    (0x284, "reference tag check error"),
    (0x285, "compare failure"),
    (0x286, "access denied"),
    (0x287, "block was never written"),
    (0x370, "path error of the host"),
    (0x371, "aborted by the host"),
];
/// Status code and its type.
const STATUS_MASK: u16 = 0x7ff;
const DO_NOT_RETRY: u16 = 1 << 14;

fn name<T: PartialEq>(names: &[(T, &'static str)], number: T) -> Option<&'static str> {
    let found = names.iter().find(|(known, _)| *known == number);
    found.map(|(_, name)| *name)
}

pub(super) fn write(surveys: &Surveys, streams: &Streams, out: &mut Out) -> Result<(), CaseError> {
    let mut rows = Sorted::new(streams.nvme, &surveys.nvme)?;
    while let Some(row) = rows.take()? {
        let Some(kind) = Nvme::from_raw(row.kind) else {
            continue;
        };
        let controller = format!("nvme{}", row.controller);
        let disk = text(&row.disk).unwrap_or_else(|| controller.clone());
        // The driver aborts what takes too long, and makes its queues anew after a reset.
        let trouble = match kind {
            Nvme::Admin if row.opcode == ABORT => Some("timeout"),
            Nvme::Admin if row.opcode == CREATE_SUBMISSION_QUEUE && row.parameter & 0xffff == 1 => {
                Some("reset")
            }
            _ => None,
        };
        let (event, subject) = match kind {
            Nvme::Admin => ("admin_command", controller),
            Nvme::Failed => ("failed_command", disk.clone()),
            Nvme::Notice => ("controller_notice", controller),
        };
        let time_ns = out.case_ns(row.start_ns);
        for (kind, subject) in trouble
            .map(|kind| (kind, disk))
            .into_iter()
            .chain([(event, subject)])
        {
            out.event(&EventRow {
                time_ns,
                kind: kind.into(),
                subject,
                detail: detail(&row),
            })?;
        }
    }
    Ok(())
}

/// `duration_ns 1200 opcode 0x2 get_log_page parameter 0x7f0002 by smartctl (pid 12)`, `status 0x281 unrecovered read error
/// retry 1 queue 2 command 17`.
fn detail(row: &NvmeRow) -> String {
    let mut parts = Vec::new();
    let mut named = |what: &str, number: u64, name: Option<&str>| {
        parts.push(format!("{what} {number:#x}"));
        parts.extend(name.map(str::to_owned));
    };
    let status = name(&STATUS, row.status & STATUS_MASK);
    match Nvme::from_raw(row.kind) {
        Some(Nvme::Admin) => {
            named("opcode", row.opcode.into(), name(&OPCODES, row.opcode));
            named("parameter", row.parameter.into(), None);
            if row.status != 0 {
                named("status", row.status.into(), status);
            }
            let first = match row.end_ns {
                0 => "not ended".to_owned(),
                end_ns => format!("duration_ns {}", end_ns.saturating_sub(row.start_ns)),
            };
            parts.insert(0, first);
        }
        Some(Nvme::Failed) => {
            named("status", row.status.into(), status);
            let retry = match row.status & DO_NOT_RETRY {
                0 => "",
                _ => " (not to be tried again)",
            };
            parts.push(format!(
                "retry {} queue {} command {}{retry}",
                row.retries, row.queue, row.command
            ));
        }
        _ => named("result", row.parameter.into(), notice(row.parameter)),
    }
    match text(&row.comm) {
        Some(comm) if row.pid > 0 => parts.push(format!("by {comm} (pid {})", row.pid)),
        // In the same form: what is redacted is found by it.
        Some(comm) => parts.push(format!("by {comm} (pid not known)")),
        None => {}
    }
    parts.join(" ")
}

/// What dword 0 of an asynchronous event's completion means, the same specification, section 5.2.1: type in bits 2:0, information
/// in bits 15:8.
fn notice(result: u32) -> Option<&'static str> {
    match (result & 7, result >> 8 & 0xff) {
        (0, _) => Some("error"),
        (1, 0) => Some("reliability is degraded"),
        (1, 1) => Some("temperature above its limit"),
        (1, 2) => Some("spare below its limit"),
        (2, 0) => Some("namespaces changed"),
        (2, 1) => Some("firmware activation begins"),
        (6, 1) => Some("sanitize completed"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use case::rows::NAME_BYTES;

    fn padded<const N: usize>(name: &str) -> [u8; N] {
        let mut bytes = [0; N];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        bytes
    }

    #[test]
    fn details_name_what_is_known() {
        let admin = NvmeRow {
            start_ns: 100,
            end_ns: 1300,
            pid: 12,
            parameter: 0x7f_0002,
            opcode: 2,
            comm: padded("smartctl"),
            ..NvmeRow::default()
        };
        assert_eq!(
            detail(&admin),
            "duration_ns 1200 opcode 0x2 get_log_page parameter 0x7f0002 by smartctl (pid 12)"
        );
        let open = NvmeRow {
            end_ns: 0,
            opcode: 0xc1,
            status: 0x4002,
            pid: -1,
            ..admin
        };
        assert_eq!(
            detail(&open),
            "not ended opcode 0xc1 parameter 0x7f0002 status 0x4002 invalid field by smartctl (pid not known)"
        );
        let failed = NvmeRow {
            status: 0x4281,
            retries: 5,
            queue: 2,
            command: 17,
            kind: Nvme::Failed as u8,
            disk: padded::<NAME_BYTES>("nvme0n1"),
            ..NvmeRow::default()
        };
        assert_eq!(
            detail(&failed),
            "status 0x4281 unrecovered read error retry 5 queue 2 command 17 (not to be tried again)"
        );
        let warm = NvmeRow {
            kind: Nvme::Notice as u8,
            parameter: 0x1_0101,
            ..NvmeRow::default()
        };
        assert_eq!(detail(&warm), "result 0x10101 temperature above its limit");
    }

    #[test]
    fn numbers_are_listed_once() {
        for (index, (opcode, _)) in OPCODES.iter().enumerate() {
            assert!(OPCODES[..index].iter().all(|(before, _)| before < opcode));
        }
        for (index, (status, _)) in STATUS.iter().enumerate() {
            assert!(STATUS[..index].iter().all(|(before, _)| before < status));
        }
    }
}

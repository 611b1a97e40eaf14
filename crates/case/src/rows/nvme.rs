//! Raw rows of the NVMe driver.
use super::host::NAME_BYTES;
use crate::raw::raw_row;

/// What a [`NvmeRow`] tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Nvme {
    /// A command to the controller itself (admin queue).
    Admin,
    /// A command that moves data, or one like it, failed. The driver may try again: then there is a row for each time.
    Failed,
    /// The controller reported something by itself (asynchronous event).
    Notice,
}

impl Nvme {
    /// Every kind, by its raw value.
    pub const ALL: [Nvme; 3] = [Nvme::Admin, Nvme::Failed, Nvme::Notice];

    /// The kind of a raw value; `None` if there is none.
    pub fn from_raw(raw: u8) -> Option<Nvme> {
        Nvme::ALL.get(usize::from(raw)).copied()
    }
}

/// An NVMe command that is no ordinary read or write, or that failed (`raw/nvme/nvme.arrows`). Columns that a kind does not
/// use are zero. Sources: the kernel's events `nvme_setup_cmd`, `nvme_complete_rq`, `nvme_async_event`; NVM Express Base
/// Specification 2.0, sections 3.3.3 (status) and 5 (admin commands).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NvmeRow {
    /// `Nvme::Admin`: given to the driver. Else `end_ns`.
    pub start_ns: u64,
    /// It ended; 0 = it has not.
    pub end_ns: u64,
    /// Number of the controller: N of `nvmeN`.
    pub controller: i32,
    /// `Nvme::Admin`: process that gave it; -1 = not known.
    pub pid: i32,
    /// `Nvme::Admin`: its thread; 0 = not known.
    pub tid: i32,
    /// `Nvme::Admin`: command dword 10. `Nvme::Notice`: dword 0 of the event's completion.
    pub parameter: u32,
    /// Queue: 0 is that of the admin commands.
    pub queue: u16,
    /// Number of the command in its queue.
    pub command: u16,
    /// Status field without phase: status code, type << 8, more << 13, do not retry << 14.
    pub status: u16,
    /// `Nvme` discriminant.
    pub kind: u8,
    /// `Nvme::Admin`: its opcode.
    pub opcode: u8,
    /// `Nvme::Failed`: how often it had been tried again before.
    pub retries: u8,
    /// Its disk, NUL padded; of a command to the controller the first disk of it, if it has one.
    pub disk: [u8; NAME_BYTES],
    /// Command name of the thread, NUL padded.
    pub comm: [u8; 16],
}

raw_row!(NvmeRow, "nvme", {
    start_ns: u64,
    end_ns: u64,
    controller: i32,
    pid: i32,
    tid: i32,
    parameter: u32,
    queue: u16,
    command: u16,
    status: u16,
    kind: u8,
    opcode: u8,
    retries: u8,
    disk: [u8; NAME_BYTES],
    comm: [u8; 16],
});

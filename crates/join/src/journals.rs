//! Journals that lie on another device than their file systems.
use case::meta::SystemMeta;
use std::collections::HashMap;

/// Where the journals of file systems are that have them on another device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journals {
    /// Kernel dev_t of the file system -> of the disk with its journal, and of the disk or partition that is the journal.
    of: HashMap<u32, (u32, u32)>,
}

impl Journals {
    /// As the host told.
    pub fn of(system: &SystemMeta) -> Journals {
        let found = system.journals.iter().filter_map(|journal| {
            let disk = system.devices.get(&journal.journal_disk)?;
            Some((journal.dev, (disk.dev, journal.journal_dev)))
        });
        Journals { of: found.collect() }
    }

    /// Whether a write of metadata to `disk` may be of the journal of the file system on `device`: ext4 writes it through the cache of the device
    /// that it is on (`file_device`), XFS past it (0).
    pub(crate) fn has(&self, device: u32, disk: u32, file_device: u32) -> bool {
        let its = self.of.get(&device);
        its.is_some_and(|&(on, own)| on == disk && (file_device == own || file_device == 0))
    }
}

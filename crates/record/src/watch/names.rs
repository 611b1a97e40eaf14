//! Names of disks by number, and what they have in flight, from sysfs.
use std::collections::HashMap;
use std::path::Path;

/// Numbers remembered; beyond, all are forgotten and looked up anew.
const NAMES_MAX: usize = 1 << 12;

/// Names of disks, each looked up once.
#[derive(Default)]
pub struct Disks {
    names: HashMap<u32, String>,
}

impl Disks {
    /// The disk with this number (`major << 20 | minor`), or the disk of this partition. A number that sysfs does
    /// not know (a file system without a device of its own) is its own name, `0:45`.
    pub fn name(&mut self, dev: u32) -> &str {
        if self.names.len() >= NAMES_MAX {
            self.names.clear();
        }
        self.names.entry(dev).or_insert_with(|| look_up(dev))
    }
}

fn look_up(dev: u32) -> String {
    let number = format!("{}:{}", dev >> 20, dev & 0xf_ffff);
    let link = Path::new("/sys/dev/block").join(&number);
    let Ok(folder) = link.canonicalize() else {
        return number;
    };
    let disk = if folder.join("partition").exists() {
        folder.parent().unwrap_or(&folder)
    } else {
        &folder
    };
    let name = disk.file_name().map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or(number)
}

/// Requests that a disk has in flight now: reads and writes.
pub fn in_flight(disk: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/sys/block/{disk}/inflight")).ok()?;
    let counts = text.split_whitespace().map(str::parse::<u64>);
    counts.sum::<Result<u64, _>>().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_number_is_its_own_name() {
        let mut disks = Disks::default();
        assert_eq!(disks.name(4095 << 20 | 1), "4095:1");
        assert_eq!(disks.name(0), "0:0");
    }
}

//! Which volumes this host has.
use super::layout::Origin;
use std::path::Path;

/// Driver of each kind of volume in /proc/devices.
const DRIVERS: [&str; 3] = ["md", "mdp", "device-mapper"];

/// Majors of volumes that the programs get (`MAJORS`).
pub const MAJORS: usize = 4;

/// Names of the volumes that are there now.
pub fn volumes() -> Vec<String> {
    let Ok(folder) = std::fs::read_dir("/sys/block") else {
        return Vec::new();
    };
    let names = folder.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| is_volume(name)).collect()
}

fn is_volume(name: &str) -> bool {
    name.starts_with("dm-") || name.starts_with("md")
}

/// Majors of the drivers that make volumes; 0 = none.
pub fn majors() -> [u32; MAJORS] {
    majors_of(&std::fs::read_to_string("/proc/devices").unwrap_or_default())
}

fn majors_of(text: &str) -> [u32; MAJORS] {
    let block = text.split("Block devices:").nth(1).unwrap_or("");
    let line = |line: &str| {
        let (major, driver) = line.trim().split_once(' ')?;
        DRIVERS.contains(&driver).then(|| major.parse().ok())?
    };
    let mut majors = [0; MAJORS];
    let places = majors.iter_mut();
    places
        .zip(block.lines().filter_map(line))
        .for_each(|(place, major)| *place = major);
    majors
}

/// Whether a bio of a raid4, 5 or 6 may carry parity. The kernel gives it the array's first sector as its origin, which is
/// that of the first data, too.
pub fn is_parity(origin: &Origin) -> bool {
    if origin.sector_512 != 0 {
        return false;
    }
    let (major, minor) = (origin.device >> 20, origin.device & 0xf_ffff);
    let path = format!("/sys/dev/block/{major}:{minor}/md/level");
    let level = std::fs::read_to_string(Path::new(&path)).unwrap_or_default();
    matches!(level.trim(), "raid4" | "raid5" | "raid6")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn majors_are_those_of_block_drivers() {
        let text =
            "Character devices:\n 10 misc\n254 mdp\n\nBlock devices:\n  9 md\n259 blkext\n253 device-mapper\n";
        assert_eq!(majors_of(text), [9, 253, 0, 0]);
        assert_eq!(majors_of(""), [0; MAJORS]);
    }

    #[test]
    fn volumes_are_told_by_their_names() {
        assert!(is_volume("md0") && is_volume("dm-3") && is_volume("md_d0"));
        assert!(!is_volume("sda") && !is_volume("loop0") && !is_volume("nvme0n1"));
    }
}

//! Names as Linux gives them.

/// Disk number `n` (from 0) of a family: `nvme` gives `nvme0n1`, `sd` gives `sda`, ..., `sdz`, `sdaa`; `vd`, `xvd` and `hd` likewise. Any
/// other family is numbered.
pub fn disk(family: &str, n: u64) -> String {
    match family {
        "nvme" => format!("nvme{n}n1"),
        "sd" | "vd" | "xvd" | "hd" => format!("{family}{}", letters(n)),
        _ => format!("{family}{n}"),
    }
}

/// `a` to `z`, then `aa`, as `sd_format_disk_name` of the kernel counts.
fn letters(n: u64) -> String {
    let last = char::from(b'a' + (n % 26) as u8);
    match n / 26 {
        0 => last.into(),
        before => letters(before - 1) + &last.to_string(),
    }
}

/// Whether a disk is an NVMe drive, by its name.
pub fn is_nvme(disk: &str) -> bool {
    controller(disk) != disk
}

/// The controller of an NVMe namespace; elsewhere the disk itself.
fn controller(disk: &str) -> String {
    match disk.strip_prefix("nvme").and_then(|rest| rest.split_once('n')) {
        Some((number, _)) => format!("nvme{number}"),
        None => disk.into(),
    }
}

/// Handler of disk number `number`'s queue number `queue` (both from 0), as in /proc/interrupts: `nvme3q1`, `virtio3-req.0`, `mpt3sas0-msix0`.
pub fn handler(disk: &str, number: usize, queue: usize) -> String {
    match disk.get(..2) {
        Some("nv") => format!("{}q{}", controller(disk), queue + 1),
        Some("vd") => format!("virtio{number}-req.{queue}"),
        _ => format!("mpt3sas0-msix{queue}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_a_real_host() {
        let named: Vec<String> = [0, 25, 26, 27, 701, 702].map(|n| disk("sd", n)).into();
        assert_eq!(named, ["sda", "sdz", "sdaa", "sdab", "sdzz", "sdaaa"]);
        assert_eq!(
            (disk("nvme", 12), handler("nvme12n1", 12, 0)),
            ("nvme12n1".into(), "nvme12q1".into())
        );
        assert_eq!(
            (disk("vd", 1), handler("vdb", 1, 2)),
            ("vdb".into(), "virtio1-req.2".into())
        );
    }
}

//! Bios of a disk that has no requests, as of a volume.

use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use testing::test;

/// A disk of zram, which has no requests, like a volume, and is there where dm and md are not.
struct Zram(String);

impl Zram {
    fn new() -> std::io::Result<Zram> {
        let number = std::fs::read_to_string("/sys/class/zram-control/hot_add")?;
        let disk = Zram(number.trim().to_owned());
        std::fs::write(format!("/sys/block/zram{}/disksize", disk.0), "1M")?;
        Ok(disk)
    }

    fn path(&self) -> PathBuf {
        format!("/dev/zram{}", self.0).into()
    }

    fn major(&self) -> u32 {
        let dev = std::fs::read_to_string(format!("/sys/block/zram{}/dev", self.0)).unwrap();
        dev.split(':').next().unwrap().parse().unwrap()
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        let _ = std::fs::write("/sys/class/zram-control/hot_remove", &self.0);
    }
}

#[test]
fn a_disk_without_requests_has_one_record_per_bio() {
    require_kernel!();
    let disk = Zram::new().unwrap_or_else(|error| testing::skip(format!("no zram: {error}")));
    let mut file = std::fs::OpenOptions::new();
    let mut file = file
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(disk.path())
        .unwrap();
    let mut memory = vec![0; 8192];
    let aligned = memory.as_ptr().align_offset(4096);
    let bios = record::bios_of(disk.major(), || {
        for _ in 0..23 {
            file.read_exact(&mut memory[aligned..aligned + 4096]).unwrap();
        }
    });
    let bios = bios.unwrap();
    assert_eq!(bios.len(), 23);
    for (number, bio) in bios.iter().enumerate() {
        assert_eq!((bio.sector_512, bio.size_bytes), (8 * number as u64, 4096));
        assert!(bio.queue_ns > 0 && bio.complete_ns >= bio.queue_ns);
        assert_ne!(bio.owner_key, 0, "the reader waits on its stack");
    }
}

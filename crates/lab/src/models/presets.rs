//! Drives by name, for whoever needs a typical one: `whodisk slowdisk --model`.
use super::hdd::{Hdd, HddParameters};
use super::ssd::{Ssd, SsdParameters};
use super::ParameterError;
use crate::component::DriveModel;
use workload::rng::Rng;

/// Names, and what each is.
pub const DRIVES: [(&str, &str); 3] = [
    (
        "nearline_7200",
        "a disk of 7,200 turns per minute with its write cache on: seeks, rotation, command reordering",
    ),
    (
        "sata_ssd",
        "a flash drive behind SATA, full and overwritten once: garbage collection, no capacitors, so flushes cost",
    ),
    (
        "nvme",
        "a data-centre NVMe flash drive (P4500), full and overwritten once: garbage collection",
    ),
];

/// No smaller disk can be modelled.
const HDD_BYTES_MIN: u64 = 1 << 30;

/// The drive of this name; `None` if there is none. Error: `size_bytes` is none that it can have.
///
/// A disk keeps its full stroke and its rotation, however small it is: its whole is on fewer tracks. Of one below 1 GiB the outer part is used.
pub fn drive(name: &str, size_bytes: u64, rng: Rng) -> Option<Result<Box<dyn DriveModel>, ParameterError>> {
    let ssd = |parameters: SsdParameters| {
        let worn = SsdParameters {
            overwritten: 1.0,
            ..parameters
        };
        Ssd::new(worn, rng).map(|ssd| Box::new(ssd) as Box<dyn DriveModel>)
    };
    match name {
        "nearline_7200" => {
            let parameters = HddParameters {
                size_bytes: size_bytes.max(HDD_BYTES_MIN),
                write_cache_bytes: 64 << 20,
                ..HddParameters::nearline_7200()
            };
            Some(Hdd::new(parameters).map(|hdd| Box::new(hdd) as Box<dyn DriveModel>))
        }
        "sata_ssd" => Some(ssd(SsdParameters::sata(size_bytes))),
        "nvme" => Some(ssd(SsdParameters::p4500(size_bytes))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_drive() {
        for (name, _) in DRIVES {
            let made = drive(name, 1 << 30, Rng::new(1, 0)).expect("a name of the list");
            assert_eq!(made.unwrap().size_bytes(), 1 << 30, "{name}");
        }
        assert!(drive("floppy", 1 << 30, Rng::new(1, 0)).is_none());
        assert!(drive("nvme", 1 << 20, Rng::new(1, 0)).unwrap().is_err());
    }
}

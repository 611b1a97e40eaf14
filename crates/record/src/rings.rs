//! The reader's side of rings with one part per CPU, and of other maps that share memory with the kernel.
use crate::plain::Plain;
use aya::maps::MapData;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Records a CPU's ring holds at least.
const RECORDS_MIN: u32 = 1024;

/// Positions of a CPU's ring, in memory shared with the kernel; counted in records since loading.
#[repr(C)]
pub struct RingEnds {
    head: AtomicU64,
    pad: [u64; 7],
    tail: AtomicU64,
    pad2: [u64; 7],
}

const _: () = assert!(size_of::<RingEnds>() == 128);

/// Length of each of `cpus` rings that together take about `bytes`: a power of two.
pub fn records_per_cpu<T>(bytes: u32, cpus: u32) -> u32 {
    let records = bytes / size_of::<T>() as u32 / cpus.max(1);
    let power = if records.is_power_of_two() {
        records
    } else {
        records.next_power_of_two() / 2
    };
    power.max(RECORDS_MIN)
}

/// A map's values, shared with the kernel.
pub struct Shared<T> {
    first: NonNull<T>,
    bytes: usize,
}

// SAFETY: the mapping belongs to no thread, and its owner alone reads it.
unsafe impl<T> Send for Shared<T> {}

impl<T> Shared<T> {
    /// Maps `count` values of an array map made with BPF_F_MMAPABLE.
    pub fn map(map: &MapData, count: usize) -> io::Result<Shared<T>> {
        let bytes = count * size_of::<T>();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let fd = map.fd().as_fd().as_raw_fd();
        // SAFETY: a fresh mapping; the kernel checks the length against the map.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, fd, 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let first = NonNull::new(address.cast()).expect("mmap gave an address");
        Ok(Shared { first, bytes })
    }
}

impl<T: Plain> Shared<T> {
    /// Copies of those values that are not zero in the eight bytes at `offset`.
    pub fn copies_with(&self, offset: usize) -> impl Iterator<Item = T> + '_ {
        assert!(offset + size_of::<u64>() <= size_of::<T>());
        let count = self.bytes / size_of::<T>();
        (0..count).filter_map(move |index| {
            // SAFETY: within the mapping, and any bytes make a valid value.
            unsafe {
                let value = self.first.as_ptr().add(index);
                let field = value.cast::<u8>().add(offset).cast::<u64>();
                (field.read_volatile() != 0).then(|| value.read_volatile())
            }
        })
    }

    /// Sets the eight bytes at `offset` of a value.
    pub fn set(&self, index: usize, offset: usize, bytes: u64) {
        assert!(offset + size_of::<u64>() <= size_of::<T>());
        assert!(index < self.bytes / size_of::<T>());
        // SAFETY: within the mapping, which is writable.
        unsafe {
            let value = self.first.as_ptr().add(index).cast::<u8>();
            value.add(offset).cast::<u64>().write_volatile(bytes);
        }
    }

    /// Copies of the values, one at a time. The kernel may change them meanwhile.
    pub fn copies(&self) -> impl Iterator<Item = T> + '_ {
        let count = self.bytes / size_of::<T>();
        // SAFETY: within the mapping, and any bytes make a valid value.
        (0..count).map(|index| unsafe { self.first.as_ptr().add(index).read_volatile() })
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `map`, unmapped once.
        unsafe { libc::munmap(self.first.as_ptr().cast(), self.bytes) };
    }
}

/// The rings of all CPUs.
pub struct Rings<T> {
    ends: Shared<RingEnds>,
    records: Shared<T>,
    cpus: usize,
    /// Records in each.
    length: usize,
}

impl<T: Plain> Rings<T> {
    /// Maps the rings of `cpus` CPUs with `length` records each.
    pub fn map(ends: &MapData, records: &MapData, cpus: u32, length: u32) -> io::Result<Rings<T>> {
        let (cpus, length) = (cpus as usize, length as usize);
        Ok(Rings {
            ends: Shared::map(ends, cpus)?,
            records: Shared::map(records, cpus * length)?,
            cpus,
            length,
        })
    }

    /// Moves what waits into `into`, CPU by CPU.
    pub fn drain(&mut self, into: &mut Vec<T>) {
        for cpu in 0..self.cpus {
            // SAFETY: `cpu` is below the mapped count; the kernel only ever changes the atomics.
            let ends = unsafe { self.ends.first.add(cpu).as_ref() };
            let head = ends.head.load(Ordering::Acquire);
            let tail = ends.tail.load(Ordering::Relaxed);
            // Never more than the ring holds, whatever the counters say.
            let waiting = head.wrapping_sub(tail).min(self.length as u64) as usize;
            if waiting == 0 {
                continue;
            }
            let begin = tail as usize & (self.length - 1);
            let before_wrap = waiting.min(self.length - begin);
            self.copy(cpu * self.length + begin, before_wrap, into);
            self.copy(cpu * self.length, waiting - before_wrap, into);
            ends.tail.store(head, Ordering::Release);
        }
    }

    fn copy(&self, begin: usize, count: usize, into: &mut Vec<T>) {
        // SAFETY: within the mapping. The kernel does not write records between tail and head, and any
        // bytes make a valid record.
        let records = unsafe { std::slice::from_raw_parts(self.records.first.as_ptr().add(begin), count) };
        into.extend_from_slice(records);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Record = [u64; 19];

    #[test]
    fn ring_lengths_are_powers_of_two_within_the_memory() {
        assert_eq!(records_per_cpu::<Record>(64 << 20, 2), 1 << 17);
        assert_eq!(records_per_cpu::<Record>(64 << 20, 128), 1 << 11);
        assert_eq!(records_per_cpu::<Record>(1 << 16, 64), RECORDS_MIN);
        let exact = 4096 * size_of::<Record>() as u32;
        assert_eq!(records_per_cpu::<Record>(exact, 1), 4096);
    }
}

//! Memory for data in flight: page-aligned, one read and one write buffer per slot.
use crate::rng::Rng;
use crate::WorkloadError;

const PAGE_BYTES: usize = 4096;

/// The buffers of one worker. Write buffers hold seeded random data, which no device can compress.
pub(crate) struct Buffers {
    base: *mut u8,
    stride_bytes: usize,
    slots: usize,
    /// Write buffers exist and begin after all read buffers.
    writes: bool,
    reads: bool,
}

impl Buffers {
    /// `slots` buffers of at least `size_bytes` for each direction that is used.
    pub(crate) fn new(
        slots: usize,
        size_bytes: usize,
        reads: bool,
        writes: bool,
        mut rng: Rng,
    ) -> Result<Buffers, WorkloadError> {
        let stride_bytes = size_bytes.next_multiple_of(PAGE_BYTES);
        let mut buffers = Buffers {
            base: std::ptr::null_mut(),
            stride_bytes,
            slots,
            writes,
            reads,
        };
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        // SAFETY: an anonymous mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                buffers.total_bytes(),
                protection,
                flags,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(WorkloadError::Io {
                path: "memory".into(),
                action: format!("allocate {} bytes of buffers", buffers.total_bytes()),
                source: std::io::Error::last_os_error(),
                hint: "lower queue_depth, workers or block_sizes".into(),
            });
        }
        buffers.base = base.cast();
        if writes {
            for slot in 0..slots {
                // SAFETY: the buffer lies inside the mapping and nothing else refers to it yet.
                let bytes = unsafe { std::slice::from_raw_parts_mut(buffers.write(slot), stride_bytes) };
                rng.fill(bytes);
            }
        }
        Ok(buffers)
    }

    fn count(&self) -> usize {
        self.slots * (usize::from(self.reads) + usize::from(self.writes))
    }

    fn total_bytes(&self) -> usize {
        self.count() * self.stride_bytes
    }

    /// Index of the write buffer of `slot` among the registered buffers; a read buffer's is `slot`.
    pub(crate) fn write_index(&self, slot: usize) -> usize {
        slot + if self.reads { self.slots } else { 0 }
    }

    fn at(&self, index: usize) -> *mut u8 {
        assert!(index < self.count(), "buffer {index} of {}", self.count());
        // SAFETY: inside the mapping, as just checked.
        unsafe { self.base.add(index * self.stride_bytes) }
    }

    /// Read buffer of `slot`.
    #[inline]
    pub(crate) fn read(&self, slot: usize) -> *mut u8 {
        self.at(slot)
    }

    /// Write buffer of `slot`.
    #[inline]
    pub(crate) fn write(&self, slot: usize) -> *mut u8 {
        self.at(self.write_index(slot))
    }

    /// Makes each page of the next write from `slot` differ from every page written before.
    #[inline]
    pub(crate) fn vary(&self, slot: usize, size_bytes: u32, op_id: u64) {
        let base = self.write(slot);
        for page in 0..(size_bytes as usize).div_ceil(PAGE_BYTES) {
            let stamp = op_id ^ (page as u64) << 48;
            // SAFETY: buffers are page-aligned and whole pages long, and `size_bytes` fits in one;
            // the slot is not in flight.
            unsafe { base.add(page * PAGE_BYTES).cast::<u64>().write(stamp) };
        }
    }

    /// All buffers, for registration.
    pub(crate) fn iovecs(&self) -> Vec<libc::iovec> {
        let vector = |index| libc::iovec {
            iov_base: self.at(index).cast(),
            iov_len: self.stride_bytes,
        };
        (0..self.count()).map(vector).collect()
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        if !self.base.is_null() {
            // SAFETY: our own mapping; the ring that used it is dropped before.
            unsafe { libc::munmap(self.base.cast(), self.total_bytes()) };
        }
    }
}

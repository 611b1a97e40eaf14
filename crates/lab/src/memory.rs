//! What large arrays that are used at random places ask of the processor and the kernel. Nothing here changes a result.

/// Asks the processor to fetch `place` from memory, and goes on.
#[inline(always)]
pub(crate) fn fetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch changes nothing and cannot fault; every x86-64 has it.
    unsafe {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Bytes of a huge page on x86-64; elsewhere only a measure of what is large.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Asks the kernel for huge pages behind a vector of fixed capacity, if it has many bytes. With small ones, every access
/// at a random place first waits for the place of its page, which in a virtual machine takes longer than the access.
pub(crate) fn use_huge_pages<T>(array: &mut Vec<T>) {
    let begin = array.as_mut_ptr() as usize;
    let end = begin + array.capacity() * size_of::<T>();
    let first = begin.next_multiple_of(HUGE_PAGE_BYTES);
    let last = end / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    if first < last {
        // SAFETY: the range lies within one allocation of ours, and the advice does not change what it holds. That a
        // kernel refuses it does not matter.
        unsafe { libc::madvise(first as *mut libc::c_void, last - first, libc::MADV_HUGEPAGE) };
    }
}

//! Values read from bytes that the kernel wrote.

/// Types of plain integers that may be read from any bytes of their size.
///
/// # Safety
/// Implement only for `repr(C)` types whose every bit pattern is valid.
pub unsafe trait Plain: Copy {}

/// Reads a value from the begin of `bytes`; `None` if they are too few.
pub fn read<T: Plain>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: enough bytes, and `Plain` accepts any of them; read_unaligned needs no alignment.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

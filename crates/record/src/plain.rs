//! Values read from bytes that the kernel wrote.

/// Types of plain integers that may be read from any bytes of their size.
///
/// # Safety
/// Implement only for `repr(C)` types for which every bit pattern is valid.
pub unsafe trait Plain: Copy {}

/// Reads a value from the begin of `bytes`; `None` if they are too few.
pub fn read<T: Plain>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: enough bytes, and `Plain` accepts any of them; read_unaligned needs no alignment.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// The bytes of a value, as the kernel would write them. `T` must have no gaps between its fields.
pub fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: `Plain` types are integers, and these have no gaps; the slice lives as long as the value.
    unsafe { std::slice::from_raw_parts((value as *const T).cast(), size_of::<T>()) }
}

/// Text from the begin of a NUL-padded field, cut to the length of another.
pub fn padded<const N: usize>(text: &[u8]) -> [u8; N] {
    let length = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    let mut field = [0; N];
    let kept = length.min(N);
    field[..kept].copy_from_slice(&text[..kept]);
    field
}

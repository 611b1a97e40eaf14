//! Contents as one number, read from the device where that can be had.
use crate::kernel::forget;
use std::fs::File;
use std::hash::Hasher;
use std::io;
use std::os::unix::fs::FileExt;
use twox_hash::XxHash64;

/// Bytes per read.
pub const CHUNK_BYTES: usize = 1 << 20;

/// XXH64 (seed 0) of the first `size_bytes` of `file`. What is cached is written and dropped before, so that what was moved is read from
/// where it is now. `tell` hears the bytes read and ends it by `false` (None).
pub fn checksum(file: &File, size_bytes: u64, tell: &mut dyn FnMut(u64) -> bool) -> io::Result<Option<u64>> {
    file.sync_all()?;
    forget(file, 0, 0);
    let mut hasher = XxHash64::with_seed(0);
    let mut buffer = vec![0_u8; CHUNK_BYTES];
    let mut at = 0;
    while at < size_bytes {
        let wanted = buffer.len().min((size_bytes - at) as usize);
        let got = file.read_at(&mut buffer[..wanted], at)?;
        if got == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file got shorter meanwhile",
            ));
        }
        hasher.write(&buffer[..got]);
        at += got as u64;
        if !tell(got as u64) {
            return Ok(None);
        }
    }
    Ok(Some(hasher.finish()))
}

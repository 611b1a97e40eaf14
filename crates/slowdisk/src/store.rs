//! Where the bytes of a slow disk are kept: a sparse file in memory, or a file of the user's.
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::SlowdiskError;

/// A file of exactly the size of the disk.
pub struct Store {
    file: File,
}

impl Store {
    /// A sparse file in memory; pages come with the first write and go with a discard.
    pub fn memory(size_bytes: u64) -> Result<Store, SlowdiskError> {
        // SAFETY: a literal name; the returned descriptor is ours.
        let fd = unsafe { libc::memfd_create(c"whodisk-slowdisk".as_ptr(), libc::MFD_CLOEXEC) };
        let file = if fd < 0 {
            Err(io::Error::last_os_error())
        } else {
            // SAFETY: a fresh descriptor that nobody else owns.
            Ok(unsafe { File::from_raw_fd(fd) })
        };
        file.and_then(|file| file.set_len(size_bytes).map(|()| Store { file }))
            .map_err(|source| SlowdiskError::System {
                action: "make a file in memory for the data",
                source,
                hint: "choose a smaller --size, or a file with --backing",
            })
    }

    /// A file: made if it is not there, otherwise it must have the size of the disk already.
    pub fn open(path: &Path, size_bytes: u64) -> Result<Store, SlowdiskError> {
        let fail = |action, hint| {
            move |source| SlowdiskError::File {
                path: path.into(),
                action,
                source,
                hint,
            }
        };
        let hint = "give --backing a file in a writable folder";
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(fail("open the backing file", hint))?;
        let metadata = file.metadata().map_err(fail("look at the backing file", hint))?;
        let found_bytes = metadata.len();
        if metadata.is_file() && found_bytes == 0 {
            file.set_len(size_bytes)
                .map_err(fail("extend the backing file", "choose a smaller --size"))?;
        } else if !metadata.is_file() || found_bytes != size_bytes {
            let kind = if metadata.is_file() {
                "a file"
            } else {
                "no regular file"
            };
            return Err(SlowdiskError::Option {
                option: "--backing",
                found: format!("{} is {kind} of {found_bytes} bytes", path.display()),
                expected: format!("a new file, or one of {size_bytes} bytes as --size says"),
                hint: "change --size, or name another file".into(),
            });
        }
        Ok(Store { file })
    }

    pub fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset_bytes)
    }

    pub fn write(&self, offset_bytes: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset_bytes)
    }

    /// Frees or zeroes a range, as `mode` of fallocate(2) says.
    pub fn allocate(&self, mode: i32, offset_bytes: u64, length_bytes: u64) -> io::Result<()> {
        // SAFETY: our own descriptor and plain numbers.
        let result = unsafe {
            libc::fallocate(
                self.file.as_raw_fd(),
                mode,
                offset_bytes as i64,
                length_bytes as i64,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Makes earlier writes durable; nothing to do in memory, where this is fast.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(store: &Store) {
        store.write(4096, b"hello").unwrap();
        let mut buffer = [1; 5];
        store.read(4096, &mut buffer).unwrap();
        assert_eq!(&buffer, b"hello");
        store
            .allocate(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, 4096, 4096)
            .unwrap();
        store.read(4096, &mut buffer).unwrap();
        assert_eq!(buffer, [0; 5]);
        store.sync().unwrap();
    }

    #[test]
    fn memory_keeps_bytes_and_frees_holes() {
        check(&Store::memory(1 << 20).unwrap());
    }

    #[test]
    fn file_keeps_bytes_and_its_size_is_checked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk.img");
        check(&Store::open(&path, 1 << 20).unwrap());
        assert_eq!(path.metadata().unwrap().len(), 1 << 20);
        let text = Store::open(&path, 2 << 20).err().unwrap().to_string();
        assert!(
            text.contains("is a file of 1048576 bytes: expected a new file"),
            "{text}"
        );
        let text = Store::open(&dir.path().join("no/disk.img"), 4096)
            .err()
            .unwrap()
            .to_string();
        assert!(text.contains("cannot open the backing file"), "{text}");
    }
}

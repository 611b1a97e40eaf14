//! Buffers that go from `whodisk-rec` to `whodisk-log` and come back: memory that is new costs a page fault every 4 KiB.
use std::sync::{Arc, Mutex};

/// Buffers that may wait to be used again.
const WAITING_MAX: usize = 4;

/// Shared by a probe and its log.
pub struct Pool<T>(Arc<Mutex<Vec<T>>>);

impl<T> Default for Pool<T> {
    fn default() -> Pool<T> {
        Pool(Arc::default())
    }
}

impl<T> Clone for Pool<T> {
    fn clone(&self) -> Pool<T> {
        Pool(self.0.clone())
    }
}

impl<T> Pool<T> {
    /// A buffer that was given back.
    pub fn take(&self) -> Option<T> {
        self.0.lock().expect(NO_PANIC).pop()
    }

    /// Gives an empty buffer back.
    pub fn give(&self, buffer: T) {
        let mut waiting = self.0.lock().expect(NO_PANIC);
        if waiting.len() < WAITING_MAX {
            waiting.push(buffer);
        }
    }
}

const NO_PANIC: &str = "no thread panics with the lock";

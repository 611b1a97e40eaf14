//! A thread with a name: that it could not be started, or died, is an error that says which one it was.
use crate::error::RecordError;
use std::thread::{Builder, JoinHandle};

/// A thread of ours that runs.
pub struct Thread<T> {
    name: &'static str,
    handle: JoinHandle<T>,
}

impl<T: Send + 'static> Thread<T> {
    /// Runs `body` in a thread of this name (the kernel keeps 15 bytes of it).
    pub fn start(
        name: &'static str,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Thread<T>, RecordError> {
        let started = Builder::new().name(name.into()).spawn(body);
        let handle = started.map_err(|error| RecordError::Thread {
            thread: name,
            cause: error.to_string(),
        })?;
        Ok(Thread { name, handle })
    }

    /// Waits for its end; gives what its body gave.
    pub fn join(self) -> Result<T, RecordError> {
        self.handle.join().map_err(|_| RecordError::Thread {
            thread: self.name,
            cause: "it panicked".into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_the_name() {
        assert_eq!(Thread::start("whodisk-one", || 7).unwrap().join().unwrap(), 7);
        let dead = Thread::start("whodisk-two", || panic!("on purpose")).unwrap();
        let error = dead.join().unwrap_err().to_string();
        assert!(
            error.contains("whodisk-two") && error.contains("it panicked"),
            "{error}"
        );
    }
}

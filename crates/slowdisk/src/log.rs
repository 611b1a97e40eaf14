//! The ground truth: one JSON line per fault that hit a request.
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// One fault that hit one request.
#[derive(Debug)]
pub struct LogLine {
    /// Arrival, CLOCK_MONOTONIC.
    pub time_mono_ns: u64,
    /// read, write or flush.
    pub op: &'static str,
    pub offset_bytes: u64,
    pub size_bytes: u64,
    /// Canonical text of the fault: letters, digits, dots and spaces only, so JSON needs no escapes.
    pub fault: String,
    /// Delay that this fault added.
    pub delay_ns: u64,
    /// Name of the error the request got, for `error` faults.
    pub error: Option<&'static str>,
}

impl LogLine {
    fn to_json(&self) -> String {
        let LogLine {
            time_mono_ns,
            op,
            offset_bytes,
            size_bytes,
            fault,
            delay_ns,
            error,
        } = self;
        let error = error.map_or("null".into(), |name| format!("\"{name}\""));
        format!(
            "{{\"time_ns\":{time_mono_ns},\"op\":\"{op}\",\"offset_bytes\":{offset_bytes},\
             \"size_bytes\":{size_bytes},\"fault\":\"{fault}\",\"delay_ns\":{delay_ns},\"error\":{error}}}\n"
        )
    }
}

/// A thread that writes lines, so that no request waits for the log's disk.
pub struct Log {
    sender: Sender<LogLine>,
    thread: JoinHandle<io::Result<()>>,
}

impl Log {
    /// Creates the file and starts the thread. One that holds something is somebody's, and refused.
    pub fn create(path: &Path) -> io::Result<Log> {
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        let found = file.metadata()?;
        if found.is_file() && found.len() > 0 {
            let bytes = found.len();
            return Err(io::Error::other(format!(
                "expected a new file, found one of {bytes} bytes"
            )));
        }
        let (sender, receiver) = mpsc::channel();
        let thread = Builder::new()
            .name("slowdisk-log".into())
            .spawn(move || write_lines(file, &receiver))?;
        Ok(Log { sender, thread })
    }

    /// A handle that queues lines; never blocks.
    pub fn sender(&self) -> Sender<LogLine> {
        self.sender.clone()
    }

    /// Writes what is queued and closes the file. All senders must be gone.
    pub fn finish(self) -> io::Result<()> {
        drop(self.sender);
        self.thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the log thread failed")))
    }
}

fn write_lines(file: File, receiver: &Receiver<LogLine>) -> io::Result<()> {
    let mut writer = BufWriter::new(file);
    loop {
        match receiver.recv_timeout(Duration::from_millis(100)) {
            Ok(line) => writer.write_all(line.to_json().as_bytes())?,
            Err(RecvTimeoutError::Timeout) => writer.flush()?,
            Err(RecvTimeoutError::Disconnected) => return writer.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_json() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("truth.jsonl");
        let log = Log::create(&path).unwrap();
        let line = |error| LogLine {
            time_mono_ns: 12,
            op: "read",
            offset_bytes: 4096,
            size_bytes: 512,
            fault: "read tail 0.5 1ms".into(),
            delay_ns: 1_000_000,
            error,
        };
        log.sender().send(line(None)).unwrap();
        log.sender().send(line(Some("EIO"))).unwrap();
        log.finish().unwrap();
        let begin = "{\"time_ns\":12,\"op\":\"read\",\"offset_bytes\":4096,\"size_bytes\":512,";
        let middle = "\"fault\":\"read tail 0.5 1ms\",\"delay_ns\":1000000,";
        let expected = format!("{begin}{middle}\"error\":null}}\n{begin}{middle}\"error\":\"EIO\"}}\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
    }
}

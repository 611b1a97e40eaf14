//! From single events of the driver to commands.
use crate::plain::padded;
use crate::writeback::Names;
use case::rows::NvmeRow;
use std::collections::HashMap;

/// Commands that may be in flight to all controllers; further ones are not followed.
const OPEN_MAX: usize = 1 << 14;

/// What an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// An admin command was set up.
    Began(NvmeRow),
    /// A command ended: an admin command, or one that failed.
    Ended(NvmeRow),
    /// A controller reported something by itself.
    Notice(NvmeRow),
}

/// What is in flight.
pub struct Commands<N> {
    names: N,
    /// The first disk of a controller.
    disk: fn(i32) -> Option<String>,
    /// By controller and number.
    open: HashMap<(i32, u16), NvmeRow>,
    unmatched: u64,
}

impl<N: Names> Commands<N> {
    /// Nothing is in flight. `disk`: the first disk of a controller.
    pub fn new(names: N, disk: fn(i32) -> Option<String>) -> Commands<N> {
        Commands {
            names,
            disk,
            open: HashMap::new(),
            unmatched: 0,
        }
    }

    /// Takes an event, in the order of their times; gives the row that is complete with it.
    pub fn take(&mut self, time_ns: u64, seen: Seen) -> Option<NvmeRow> {
        match seen {
            Seen::Began(row) => {
                let who = self.names.who(row.tid);
                let disk = (self.disk)(row.controller).unwrap_or_default();
                let row = NvmeRow {
                    start_ns: time_ns,
                    pid: who.pid,
                    comm: who.comm,
                    disk: padded(disk.as_bytes()),
                    ..row
                };
                if self.open.len() < OPEN_MAX {
                    // A command that was there before has been given up with its queue.
                    return self.open.insert((row.controller, row.command), row);
                }
                self.unmatched += 1;
                None
            }
            Seen::Ended(end) if end.queue == 0 => {
                let Some(begun) = self.open.remove(&(end.controller, end.command)) else {
                    // It began before the recording, or waits all the time for a controller's notice.
                    self.unmatched += 1;
                    return None;
                };
                Some(NvmeRow {
                    end_ns: time_ns,
                    status: end.status,
                    ..begun
                })
            }
            Seen::Ended(row) | Seen::Notice(row) => Some(NvmeRow {
                start_ns: time_ns,
                end_ns: time_ns,
                ..row
            }),
        }
    }

    /// Commands that have not ended.
    pub fn open(&mut self) -> Vec<NvmeRow> {
        let mut open: Vec<NvmeRow> = self.open.drain().map(|(_, row)| row).collect();
        open.sort_by_key(|row| (row.start_ns, row.controller, row.command));
        open
    }

    /// Ends without a begin that was seen.
    pub fn unmatched(&self) -> u64 {
        self.unmatched
    }

    /// Who gives commands.
    pub fn names(&mut self) -> &mut N {
        &mut self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writeback::Who;
    use case::rows::Nvme;

    struct Nobody;

    impl Names for Nobody {
        fn who(&mut self, tid: i32) -> Who {
            Who {
                pid: tid - 1,
                comm: padded(b"nvme"),
            }
        }
        fn block_bytes(&mut self, _device: u32) -> u64 {
            0
        }
    }

    fn row(kind: Nvme, controller: i32, queue: u16, command: u16) -> NvmeRow {
        NvmeRow {
            kind: kind as u8,
            controller,
            queue,
            command,
            tid: 8,
            ..NvmeRow::default()
        }
    }

    #[test]
    fn commands_are_matched_by_controller_and_number() {
        let mut commands = Commands::new(Nobody, |controller| Some(format!("nvme{controller}n1")));
        let begin = |controller, command| Seen::Began(row(Nvme::Admin, controller, 0, command));
        let end = |controller, queue, command, status| {
            Seen::Ended(NvmeRow {
                status,
                ..row(Nvme::Failed, controller, queue, command)
            })
        };
        assert_eq!(commands.take(10, begin(0, 5)), None);
        assert_eq!(commands.take(11, begin(1, 5)), None);
        let failed = commands.take(12, end(0, 3, 5, 0x281)).unwrap();
        assert_eq!((failed.kind, failed.start_ns, failed.end_ns), (1, 12, 12));
        let ended = commands.take(13, end(1, 0, 5, 2)).unwrap();
        assert_eq!(
            (ended.kind, ended.start_ns, ended.end_ns, ended.status),
            (0, 11, 13, 2)
        );
        assert_eq!((ended.pid, ended.disk[4]), (7, b'1'));
        assert_eq!(commands.take(14, end(1, 0, 6, 0)), None);
        assert_eq!(commands.unmatched(), 1);
        // Its queue was reset, and its number is used again.
        let given_up = commands.take(15, begin(0, 5)).unwrap();
        assert_eq!((given_up.start_ns, given_up.end_ns), (10, 0));
        assert_eq!(commands.open().len(), 1);
        assert_eq!(commands.open(), []);
    }
}

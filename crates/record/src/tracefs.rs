//! An instance of the kernel's event tracing (tracefs) of our own: made, read in its binary form, removed.
//!
//! Sources: Documentation/trace/ftrace.rst (instances, set_event_pid), Documentation/trace/ring-buffer-design.rst and
//! `events/header_page`, `events/header_event` for the pages of `trace_pipe_raw`.
use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Where it is mounted.
const ROOTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Where it is mounted if it is not.
const MOUNT_POINT: &CStr = c"/sys/kernel/tracing";

/// Begin of our instances' names; the recorder's pid and a number follow.
const PREFIX: &str = "whodisk-";

/// A page of events is at most this large (a kernel may use larger ones than a page of memory).
const PAGE_BYTES_MAX: usize = 64 << 10;

/// Pages of one CPU that are read at a time, so that a flood cannot hold the reader for ever.
const PAGES_PER_READ: usize = 1024;

/// Before the events of a page: its time, and how many bytes of events follow.
const PAGE_HEADER_BYTES: usize = 16;
/// The rest of that number is flags: events were lost before this page, and their number stands behind its events.
const PAGE_LENGTH_MASK: u64 = (1 << 27) - 1;
const PAGE_MISSED: u64 = 1 << 31;
const PAGE_MISSED_STORED: u64 = 1 << 30;

/// Removed when dropped; the next recorder removes the instance of a killed process.
pub struct Instance {
    folder: PathBuf,
}

impl Instance {
    /// Makes one, after removing what killed recorders left.
    pub fn create() -> io::Result<Instance> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let instances = root()?.join("instances");
        remove_leftovers(&instances);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = instances.join(format!("{PREFIX}{}-{number}", std::process::id()));
        std::fs::create_dir(&folder)?;
        Ok(Instance { folder })
    }

    /// Writes a control file.
    pub fn set(&self, file: &str, value: &str) -> io::Result<()> {
        std::fs::write(self.folder.join(file), value)
    }

    /// Sets the length of every CPU's buffer.
    pub fn set_buffer_bytes(&self, bytes: usize) -> io::Result<()> {
        self.set("buffer_size_kb", &(bytes >> 10).to_string())
    }

    /// Where threads are added to those that have their events logged ([`follow`]).
    pub fn followed(&self) -> PathBuf {
        self.folder.join("set_event_pid")
    }

    /// How an event's fields lie.
    pub fn format(&self, system: &str, event: &str) -> io::Result<Format> {
        let file = self.folder.join("events").join(system).join(event).join("format");
        Format::parse(&std::fs::read_to_string(file)?)
    }

    /// Whether the kernel has events of a system now: those of a module come and go with it.
    pub fn has_system(&self, system: &str) -> bool {
        self.folder.join("events").join(system).is_dir()
    }

    /// Where the kernel keeps the names of threads that logged something lately: a number and a name a line.
    pub fn saved_names(&self) -> PathBuf {
        // The folder is instances/OURS below the root.
        let root = self.folder.ancestors().nth(2).unwrap_or(&self.folder);
        root.join("saved_cmdlines")
    }

    /// Logs an event from now on.
    pub fn enable(&self, system: &str, event: &str) -> io::Result<()> {
        self.set(&format!("events/{system}/{event}/enable"), "1")
    }

    /// Logs an event from now on, if what its fields say is so (Documentation/trace/events.rst, "Event filtering").
    pub fn enable_if(&self, system: &str, event: &str, filter: &str) -> io::Result<()> {
        self.set(&format!("events/{system}/{event}/filter"), filter)?;
        self.enable(system, event)
    }

    /// All events as text, opened for reading without waiting; it can be polled.
    pub fn open_text(&self) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(self.folder.join("trace_pipe"))
    }

    /// The buffers of all CPUs, opened for reading.
    pub fn open_pages(&self) -> io::Result<Pages> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(self.folder.join("per_cpu"))? {
            let entry = entry?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("cpu"));
            let Some(cpu) = number.and_then(|number| number.parse().ok()) else {
                continue;
            };
            let file = OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(entry.path().join("trace_pipe_raw"))?;
            files.push((cpu, file));
        }
        let page = vec![0; PAGE_BYTES_MAX];
        Ok(Pages { files, page, lost: 0 })
    }
}

/// Whether this host can make instances; if so, whether the kernel has events of a system now, and this one among them.
pub fn has_event(system: &str, event: &str) -> io::Result<Option<bool>> {
    let root = root()?;
    let system = root.join("events").join(system);
    Ok(system.is_dir().then(|| system.join(event).is_dir()))
}

/// Where instances are made. Where nobody has mounted tracefs yet (a machine without systemd), it is mounted where it
/// belongs, as perf and trace-cmd do, and stays.
fn root() -> io::Result<&'static Path> {
    let mounted = || {
        let mut roots = ROOTS.iter().map(Path::new);
        roots.find(|root| root.join("instances").is_dir())
    };
    if let Some(root) = mounted() {
        return Ok(root);
    }
    mount_at(MOUNT_POINT)?;
    mounted().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}

fn mount_at(folder: &CStr) -> io::Result<()> {
    // SAFETY: three strings that end with a NUL; tracefs takes no data.
    let refused = unsafe {
        libc::mount(
            c"nodev".as_ptr(),
            folder.as_ptr(),
            c"tracefs".as_ptr(),
            0,
            std::ptr::null(),
        )
    };
    match refused {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Adds threads to those that have their events logged. The kernel waits until nobody uses its old list any more: that
/// can take a tenth of a second.
pub fn follow(followed: &Path, threads: &[String]) -> io::Result<()> {
    // Opened for appending: truncating it would log every thread's events for a moment.
    let mut file = OpenOptions::new().append(true).open(followed)?;
    let text = threads.join("\n") + "\n";
    file.write_all(text.as_bytes())
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Its events end with it. The kernel refuses while somebody still reads from it: `Pages` are dropped first
        // by whoever owns both; if not, the next recorder removes it.
        let _ = std::fs::remove_dir(&self.folder);
    }
}

fn remove_leftovers(instances: &Path) {
    let Ok(entries) = std::fs::read_dir(instances) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        let Some(pid) = pid.and_then(|pid| pid.parse::<u32>().ok()) else {
            continue;
        };
        if !Path::new("/proc").join(pid.to_string()).exists() {
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

/// A number in an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    offset: usize,
    size: usize,
}

impl Field {
    /// Its value, zero-extended; `None` if the event is too short.
    pub fn read(self, event: &[u8]) -> Option<u64> {
        let bytes = event.get(self.offset..self.offset + self.size)?;
        match self.size {
            1 => Some(u64::from(bytes[0])),
            2 => Some(u64::from(u16::from_ne_bytes(bytes.try_into().ok()?))),
            4 => Some(u64::from(u32::from_ne_bytes(bytes.try_into().ok()?))),
            8 => Some(u64::from_ne_bytes(bytes.try_into().ok()?)),
            _ => None,
        }
    }

    /// Its bytes; `None` if the event is too short, or the field has another size.
    pub fn bytes<const SIZE: usize>(self, event: &[u8]) -> Option<[u8; SIZE]> {
        event.get(self.offset..self.offset + self.size)?.try_into().ok()
    }
}

/// An event's `format` file.
#[derive(Debug)]
pub struct Format {
    /// The first two bytes of every such event.
    pub id: u64,
    fields: Vec<(String, Field)>,
}

impl Format {
    fn parse(text: &str) -> io::Result<Format> {
        let mut id = None;
        let mut fields = Vec::new();
        for line in text.lines().map(str::trim) {
            if let Some(number) = line.strip_prefix("ID:") {
                id = number.trim().parse().ok();
            } else if line.starts_with("field:") {
                fields.extend(parse_field(line));
            }
        }
        let id = id.ok_or_else(|| unexpected("an event's format has no ID"))?;
        Ok(Format { id, fields })
    }

    /// A field by name.
    pub fn field(&self, name: &str) -> io::Result<Field> {
        let found = self.fields.iter().find(|(known, _)| known == name);
        found
            .map(|(_, field)| *field)
            .ok_or_else(|| unexpected(&format!("event {} has no field {name}", self.id)))
    }
}

fn unexpected(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// A line such as `field:sector_t sector; offset:16; size:8; signed:0;`.
fn parse_field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.split(';').map(str::trim);
    let declared = parts.next()?.split_whitespace().last()?;
    // Of an array without its length.
    let name = declared.split('[').next()?;
    let offset = parts.next()?.strip_prefix("offset:")?.parse().ok()?;
    let size = parts.next()?.strip_prefix("size:")?.parse().ok()?;
    Some((name.to_string(), Field { offset, size }))
}

/// The buffers of all CPUs.
pub struct Pages {
    files: Vec<(u16, File)>,
    page: Vec<u8>,
    lost: u64,
}

impl Pages {
    /// Events that were overwritten before they were read, so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Gives every event that waits to `each(cpu, time_ns, event)`.
    pub fn read(&mut self, mut each: impl FnMut(u16, u64, &[u8])) {
        for (cpu, file) in &mut self.files {
            for _ in 0..PAGES_PER_READ {
                match file.read(&mut self.page) {
                    Ok(length) if length > PAGE_HEADER_BYTES => {
                        self.lost += missed(&self.page[..length]);
                        events(&self.page[..length], |time_ns, event| each(*cpu, time_ns, event));
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    _ => break,
                }
            }
        }
    }
}

/// Events that were overwritten before this page was read; at least one where the kernel had no room to say how many.
fn missed(page: &[u8]) -> u64 {
    let long = |at: usize| Some(u64::from_ne_bytes(page.get(at..at + 8)?.try_into().ok()?));
    let commit = long(8).unwrap_or(0);
    if commit & PAGE_MISSED == 0 {
        return 0;
    }
    let end = PAGE_HEADER_BYTES + (commit & PAGE_LENGTH_MASK) as usize;
    let stored = long(end).filter(|_| commit & PAGE_MISSED_STORED != 0);
    stored.unwrap_or(1)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

/// Walks the events of a page; ends where the page does, or where it makes no sense.
fn events(page: &[u8], mut each: impl FnMut(u64, &[u8])) {
    let Some(header) = page.get(..PAGE_HEADER_BYTES) else {
        return;
    };
    let mut time_ns = u64::from_ne_bytes(header[..8].try_into().expect("eight bytes"));
    let commit = u64::from_ne_bytes(header[8..].try_into().expect("eight bytes"));
    let length = (commit & PAGE_LENGTH_MASK) as usize;
    let end = page.len().min(PAGE_HEADER_BYTES + length);
    let page = &page[..end];
    let mut at = PAGE_HEADER_BYTES;
    while let Some((kind, delta, further)) = event_header(page, at) {
        let data = match kind {
            // Padding: the rest of the page, or as much as it says.
            29 if delta == 0 => return,
            29 => 4 + further as usize,
            30 => {
                time_ns += (u64::from(further) << 27) + delta;
                at += 8;
                continue;
            }
            31 => {
                time_ns = (u64::from(further) << 27) + delta;
                at += 8;
                continue;
            }
            0 => 4 + further as usize,
            words => 4 + 4 * words as usize,
        };
        time_ns += delta;
        let begin = if kind == 0 { at + 8 } else { at + 4 };
        let Some(event) = page.get(begin..at + data) else {
            return;
        };
        if kind != 29 {
            each(time_ns, event);
        }
        at += data;
    }
}

/// An event's kind (5 bits), its time after the one before (27 bits), and the word that follows.
fn event_header(page: &[u8], at: usize) -> Option<(u32, u64, u32)> {
    let first = word(page, at)?;
    // Only the smallest event has no second word, and it does not need it.
    let further = word(page, at + 4).unwrap_or(0);
    Some((first & 31, u64::from(first >> 5), further))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: block_rq_complete\nID: 2107\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \n\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;\n\nprint fmt: \"%d\"\n";

    #[test]
    fn a_format_tells_where_fields_are() {
        let format = Format::parse(FORMAT).unwrap();
        assert_eq!(format.id, 2107);
        let field = format.field("sector").unwrap();
        assert_eq!(field, Field { offset: 16, size: 8 });
        assert!(format.field("nr_sector").is_err());
        let rwbs = format.field("rwbs").unwrap();
        assert_eq!(rwbs.bytes::<10>(&[7; 44]), Some([7; 10]));
        assert_eq!(
            (rwbs.bytes::<10>(&[7; 43]), rwbs.bytes::<8>(&[7; 44])),
            (None, None)
        );
        let mut event = [0u8; 24];
        event[16..].copy_from_slice(&99u64.to_ne_bytes());
        assert_eq!(field.read(&event), Some(99));
        assert_eq!(field.read(&event[..23]), None);
        assert!(Format::parse("nonsense").is_err());
    }

    fn page(words: &[u32]) -> Vec<u8> {
        let mut page = 1000u64.to_ne_bytes().to_vec();
        page.extend((PAGE_MISSED | (4 * words.len() as u64)).to_ne_bytes());
        page.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        page
    }

    fn walk(page: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut seen = Vec::new();
        events(page, |time_ns, event| seen.push((time_ns, event.to_vec())));
        seen
    }

    #[test]
    fn times_add_up_over_all_kinds_of_events() {
        let small = |delta: u32| delta << 5 | 1;
        let words = [
            small(5),
            0xa,
            30 | 7 << 5, // 7 ns and 2^27 ns
            1,
            10 << 5, // length in the next word: itself and 4 bytes
            8,
            0xb,
            29 | 1 << 5, // padding of one word beside its length
            8,
            0,
            31 | 3 << 5, // a time by itself
            2,
            small(1),
            0xc,
        ];
        let seen = walk(&page(&words));
        let extended = 1005 + 7 + (1 << 27) + 10;
        let absolute = (2 << 27) + 3 + 1;
        let values: Vec<u64> = seen.iter().map(|one| one.0).collect();
        assert_eq!(values, [1005, extended, absolute]);
        let bytes: Vec<u8> = seen.iter().map(|one| one.1[0]).collect();
        assert_eq!(bytes, [0xa, 0xb, 0xc]);
    }

    #[test]
    fn overwritten_events_are_counted() {
        assert_eq!(missed(&page(&[])), 1);
        let mut stored = page(&[0, 0]);
        stored[11] |= 1 << 6;
        stored.extend(77u64.to_ne_bytes());
        assert_eq!(missed(&stored), 77);
        stored[11] = 0;
        assert_eq!((missed(&stored), missed(&[0; 9])), (0, 0));
    }

    #[test]
    fn nonsense_ends_the_walk() {
        assert!(walk(&[1, 2, 3]).is_empty());
        assert!(walk(&page(&[28])).is_empty());
        assert!(walk(&page(&[0, u32::MAX, 0])).is_empty());
        assert!(walk(&page(&[29, 0, 1 << 5 | 1, 1])).is_empty());
    }
}

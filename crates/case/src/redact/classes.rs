//! What every string of a case is, as far as secrecy goes. Whatever is not listed here is treated as [`Class::Secret`].

/// What a string is, and with that, what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Vocabulary of whodisk, the kernel or the hardware's maker: stays.
    Keep,
    /// Name of a host.
    Host,
    /// Name of a block device. Those that the kernel gives (`nvme0n1`) are numbers in disguise and stay.
    Device,
    /// Several of them, with blanks between.
    Devices,
    /// Path of a file or folder; each component has its own token, so that what lies together still does.
    Path,
    /// Command name of a thread. Those of the kernel's own threads stay.
    Comm,
    /// Such a name with `#` for each number, as `kernel_threads` has it.
    KernelThread,
    /// The program of a command line: a path with a command name as its last part.
    Program,
    /// Any other word of a command line.
    Argument,
    /// What a mount comes from: a device, a server, or a word of the kernel's.
    MountSource,
    /// Options of a mount.
    MountOptions,
    /// What an event is about: a device, a file, a numbered process or CPU.
    Subject,
    /// Words: what is known from elsewhere in the case, and paths, are replaced inside of them.
    Text,
    /// Replaced as a whole: serial numbers, labels, unique ids.
    Secret,
    /// Cause of a wait; depends on its `state`.
    WaitCause,
    /// Subject of a sample; depends on its `kind`.
    SampleSubject,
}

impl Class {
    /// The class of a string in a row with these other columns.
    pub fn in_row(self, other: &dyn Fn(&str) -> Option<String>) -> Class {
        let other = |column| other(column).unwrap_or_default();
        match self {
            // What the thread was blocked in is a function of the kernel; else somebody ran meanwhile.
            Class::WaitCause if other("state") == "blocked" => Class::Keep,
            Class::WaitCause => Class::Comm,
            Class::SampleSubject => match other("kind").as_str() {
                "device" => Class::Device,
                "cpu" | "component" => Class::Keep,
                "cgroup" => Class::Path,
                "host" => Class::Host,
                _ => Class::Subject,
            },
            class => class,
        }
    }
}

/// Columns of the sealed tables: table, column, class.
pub const COLUMNS: &[(&str, &str, Class)] = &[
    ("ops", "op", Class::Keep),
    ("ops", "host", Class::Host),
    ("ops", "device", Class::Device),
    ("ops", "file", Class::Path),
    ("ops", "comm", Class::Comm),
    ("ops", "cgroup", Class::Path),
    ("links", "kind", Class::Keep),
    ("gaps", "layer", Class::Keep),
    ("gaps", "comm", Class::Comm),
    ("gaps", "state", Class::Keep),
    ("irqs", "host", Class::Host),
    ("irqs", "handler", Class::Keep),
    ("irqs", "kind", Class::Keep),
    ("irqs", "device", Class::Device),
    ("cache", "tier", Class::Keep),
    ("cache", "file", Class::Path),
    ("prefetch", "file", Class::Path),
    ("waits", "comm", Class::Comm),
    ("waits", "state", Class::Keep),
    ("waits", "cause", Class::WaitCause),
    ("waits", "waker", Class::Comm),
    ("series", "host", Class::Host),
    ("series", "kind", Class::Keep),
    ("series", "subject", Class::SampleSubject),
    ("series", "metric", Class::Keep),
    ("losses", "probe", Class::Text),
    ("losses", "reason", Class::Text),
    ("events", "kind", Class::Keep),
    ("events", "subject", Class::Subject),
    ("events", "detail", Class::Text),
];

/// Strings of case.json by their place; `*` is any key or index, `**` at the end anything below. The first that fits
/// counts.
pub const CASE_JSON: &[(&str, Class)] = &[
    ("format", Class::Keep),
    ("observer", Class::Keep),
    ("tool_version", Class::Keep),
    ("argv.*", Class::Argument),
    ("command.0", Class::Program),
    ("command.*", Class::Argument),
    ("command_status", Class::Keep),
    ("scope.cgroups.*", Class::Path),
    ("scope.devices.*", Class::Path),
    ("scope.paths.*", Class::Path),
    ("start_utc", Class::Keep),
    ("clock.name", Class::Keep),
    ("clock.host", Class::Host),
    ("state", Class::Keep),
    ("layers.*.stages.*", Class::Keep),
    ("layers.*.join", Class::Keep),
    ("layers.*.slower_than_ns", Class::Keep),
    ("probes.*.attached.*", Class::Text),
    ("phases.*.name", Class::Keep),
    ("fired.*.trigger", Class::Text),
    ("fired.*.measure", Class::Keep),
    ("fired.*.layer", Class::Keep),
    ("fired.*.op", Class::Keep),
    ("fired.*.device", Class::Device),
    ("fired.*.comm", Class::Comm),
    ("workload.*.targets.*", Class::Path),
    ("workload.*.targets.*.name", Class::Path),
    ("workload.**", Class::Text),
    ("not_observed.*.what", Class::Text),
    ("not_observed.*.because", Class::Text),
    ("not_carried.*.what", Class::Text),
    ("not_carried.*.because", Class::Text),
    ("open_questions.*", Class::Text),
    ("tables.*.xxh64", Class::Keep),
];

/// The same for system.json.
pub const SYSTEM_JSON: &[(&str, Class)] = &[
    ("host", Class::Host),
    ("kernel", Class::Keep),
    ("numa_nodes.*", Class::Keep),
    ("cpu_model", Class::Keep),
    ("virtualization", Class::Keep),
    ("devices.*.name", Class::Device),
    ("devices.*.queue.*", Class::Keep),
    ("devices.*.facts.model", Class::Keep),
    ("devices.*.facts.vendor", Class::Keep),
    ("devices.*.facts.firmware", Class::Keep),
    ("devices.*.facts.driver", Class::Keep),
    ("devices.*.facts.transport", Class::Keep),
    ("devices.*.facts.device_queue_depth", Class::Keep),
    ("devices.*.facts.removable", Class::Keep),
    ("devices.*.facts.read_only", Class::Keep),
    ("devices.*.facts.loop_direct_io", Class::Keep),
    ("devices.*.facts.loop_backing_file", Class::Path),
    ("devices.*.facts.md_level", Class::Keep),
    ("devices.*.facts.md_state", Class::Keep),
    ("devices.*.facts.members", Class::Devices),
    ("devices.*.facts.partitions", Class::Devices),
    ("devices.*.facts.partition_starts_512", Class::Keep),
    ("devices.*.facts.irq_prefixes", Class::Keep),
    ("devices.*.facts.pci_address", Class::Keep),
    ("devices.*.facts.pci_slot", Class::Keep),
    ("devices.*.facts.numa_node", Class::Keep),
    ("devices.*.facts.pcie_link", Class::Keep),
    ("devices.*.facts.pcie_link_max", Class::Keep),
    // serial, wwid, dm_name, dm_uuid, and whatever is added one day.
    ("devices.*.facts.*", Class::Secret),
    ("mounts.*.0", Class::MountSource),
    ("mounts.*.1", Class::Keep),
    ("mounts.*.2", Class::MountOptions),
    ("pools.*.*", Class::Device),
    ("journals.*.file_system", Class::Device),
    ("journals.*.journal", Class::Device),
    ("journals.*.journal_disk", Class::Device),
    ("swaps.*", Class::MountSource),
    ("irqs.*.*", Class::Keep),
    ("servers.*.*", Class::Subject),
    ("kernel_threads.*", Class::KernelThread),
    ("processes.*", Class::Comm),
    ("recorder.*.*", Class::Keep),
    ("cgroups.*", Class::Path),
    ("changes.*", Class::Text),
];

/// Keys that are names themselves: file, place of the object, class of its keys. All other keys stay.
pub const KEYS: &[(&str, &str, Class)] = &[
    ("system.json", "devices", Class::Device),
    ("system.json", "mounts", Class::Path),
];

/// Class of a column; `None` if nobody has classified it.
pub fn of_column(table: &str, column: &str) -> Option<Class> {
    let fits = |entry: &&(&str, &str, Class)| (entry.0, entry.1) == (table, column);
    COLUMNS.iter().find(fits).map(|entry| entry.2)
}

/// Class of a string in a JSON file with this table; `None` if nobody has classified it.
pub fn of_place(table: &[(&str, Class)], place: &[String]) -> Option<Class> {
    table
        .iter()
        .find(|(pattern, _)| fits(pattern, place))
        .map(|(_, class)| *class)
}

/// Class of the keys of the object at a place.
pub fn of_keys(file: &str, place: &[String]) -> Class {
    let entry = KEYS
        .iter()
        .find(|(of, pattern, _)| *of == file && fits(pattern, place));
    entry.map_or(Class::Keep, |entry| entry.2)
}

fn fits(pattern: &str, place: &[String]) -> bool {
    let parts: Vec<&str> = pattern.split('.').collect();
    let (parts, open) = match parts.split_last() {
        Some((&"**", rest)) => (rest.to_vec(), true),
        _ => (parts, false),
    };
    let long_enough = if open {
        place.len() > parts.len()
    } else {
        place.len() == parts.len()
    };
    long_enough
        && parts
            .iter()
            .zip(place)
            .all(|(part, key)| *part == "*" || part == key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{Kind, ALWAYS, OPS};

    #[test]
    fn every_string_column_has_a_class_and_no_class_is_left_over() {
        let mut classified = 0;
        for table in ALWAYS.iter().chain([&OPS]) {
            for column in table.columns {
                let is_text = matches!(column.kind, Kind::Name | Kind::Text);
                let class = of_column(table.name, column.name);
                assert_eq!(class.is_some(), is_text, "{}.{}", table.name, column.name);
                classified += usize::from(class.is_some());
            }
        }
        assert_eq!(classified, COLUMNS.len());
    }

    #[test]
    fn a_row_decides_where_a_column_holds_several_things() {
        let row = |value: &'static str| move |_: &str| Some(value.to_owned());
        assert_eq!(Class::WaitCause.in_row(&row("blocked")), Class::Keep);
        assert_eq!(Class::WaitCause.in_row(&row("runnable")), Class::Comm);
        assert_eq!(Class::SampleSubject.in_row(&row("device")), Class::Device);
        assert_eq!(Class::SampleSubject.in_row(&row("new kind")), Class::Subject);
    }

    #[test]
    fn places_fit_patterns() {
        let place = |text: &str| text.split('/').map(String::from).collect::<Vec<_>>();
        assert_eq!(of_place(CASE_JSON, &place("command/0")), Some(Class::Program));
        assert_eq!(of_place(CASE_JSON, &place("command/7")), Some(Class::Argument));
        assert_eq!(of_place(CASE_JSON, &place("workload/a/b/c")), Some(Class::Text));
        assert_eq!(of_place(CASE_JSON, &place("workload")), None);
        assert_eq!(
            of_place(SYSTEM_JSON, &place("devices/sda/facts/new")),
            Some(Class::Secret)
        );
        assert_eq!(of_keys("system.json", &place("mounts")), Class::Path);
        assert_eq!(of_keys("case.json", &place("mounts")), Class::Keep);
    }
}

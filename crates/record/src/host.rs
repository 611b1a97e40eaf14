//! Facts about this host that decide what can be observed.
use std::collections::BTreeMap;
use std::fs;
use std::sync::LazyLock;

/// Bit numbers of capabilities (linux/capability.h).
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Effective capabilities of this process; `None` if /proc does not tell.
fn effective_capabilities() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// Whether BPF tracing programs may be loaded; the error says in words what is missing.
pub fn may_load_tracing() -> Result<String, String> {
    let Some(capabilities) = effective_capabilities() else {
        return Err("/proc/self/status does not show capabilities".into());
    };
    let has = |bit: u32| capabilities >> bit & 1 == 1;
    if has(CAP_SYS_ADMIN) {
        return Ok("CAP_SYS_ADMIN".into());
    }
    match (has(CAP_BPF), has(CAP_PERFMON)) {
        (true, true) => Ok("CAP_BPF and CAP_PERFMON".into()),
        (true, false) => Err("this process has CAP_BPF but not CAP_PERFMON".into()),
        (false, true) => Err("this process has CAP_PERFMON but not CAP_BPF".into()),
        (false, false) => Err("this process has neither".into()),
    }
}

/// Whether kernel lockdown forbids reading kernel memory.
pub fn locked_down() -> bool {
    fs::read_to_string("/sys/kernel/security/lockdown").is_ok_and(|text| text.contains("[confidentiality]"))
}

/// Highest possible CPU number plus one.
pub fn cpus_possible() -> u32 {
    let text = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = text
        .trim()
        .rsplit([',', '-'])
        .next()
        .and_then(|cpu| cpu.parse::<u32>().ok());
    last.map_or(1, |cpu| cpu + 1)
}

/// Binary logarithm of the bytes in a page.
pub fn page_shift() -> u32 {
    // SAFETY: no pointers.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).map_or(12, u64::trailing_zeros)
}

/// Addresses of kernel functions by name, as far as /proc/kallsyms shows them to us.
/// A name that several functions share is left out: it would be a guess.
pub fn kernel_symbols(names: &[&str]) -> BTreeMap<String, u64> {
    Functions::of_kernel().addresses(names)
}

/// Kernel functions by address, as far as /proc/kallsyms shows them to us.
#[derive(Default)]
pub struct Functions {
    /// Sorted by address; where the name begins and ends in `names`.
    functions: Vec<(u64, u32, u32)>,
    names: String,
}

impl Functions {
    /// Those of the running kernel, and of the modules loaded when they were asked for first: reading them takes 0.1 s.
    pub fn of_kernel() -> &'static Functions {
        static READ: LazyLock<Functions> =
            LazyLock::new(|| Functions::of(&fs::read_to_string("/proc/kallsyms").unwrap_or_default()));
        &READ
    }

    fn addresses(&self, names: &[&str]) -> BTreeMap<String, u64> {
        let mut found: BTreeMap<String, u64> = BTreeMap::new();
        for (address, begin, end) in &self.functions {
            let name = &self.names[*begin as usize..*end as usize];
            if names.contains(&name) {
                let known = found.entry(name.to_string()).or_insert(*address);
                if known != address {
                    *known = 0;
                }
            }
        }
        found.retain(|_, address| *address != 0);
        found
    }

    fn of(kallsyms: &str) -> Functions {
        let mut known = Functions::default();
        for line in kallsyms.lines() {
            let mut fields = line.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) = (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let address = u64::from_str_radix(address, 16).unwrap_or(0);
            if address == 0 || !matches!(kind, "t" | "T" | "w" | "W") {
                continue;
            }
            let begin = known.names.len() as u32;
            known.names.push_str(name);
            known.functions.push((address, begin, known.names.len() as u32));
        }
        known.functions.sort_unstable();
        known
    }

    /// Where the function that begins at an address ends: the next one's begin; the address itself where there is no function.
    pub fn end(&self, begin: u64) -> u64 {
        let after = self
            .functions
            .partition_point(|(address, _, _)| *address <= begin);
        let known = after
            .checked_sub(1)
            .is_some_and(|at| self.functions[at].0 == begin);
        self.functions
            .get(after)
            .filter(|_| known)
            .map_or(begin, |(end, _, _)| *end)
    }

    /// The function that holds an address.
    pub fn name(&self, address: u64) -> Option<&str> {
        let after = self.functions.partition_point(|(begin, _, _)| *begin <= address);
        let (_, begin, end) = self.functions.get(after.checked_sub(1)?)?;
        self.names.get(*begin as usize..*end as usize)
    }
}

/// Bytes of a page of memory.
pub fn page_bytes() -> u32 {
    // SAFETY: no pointers; the value always exists.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_function_before_it() {
        let text = "ffff20 T second\nffff10 t first\nffff18 d data\n0 T blanked\n";
        let functions = Functions::of(text);
        assert_eq!(functions.name(0xffff0f), None);
        assert_eq!(functions.name(0xffff10), Some("first"));
        assert_eq!(functions.name(0xffff1f), Some("first"));
        assert_eq!(functions.name(0xffff21), Some("second"));
        assert_eq!(functions.end(0xffff10), 0xffff20);
        assert_eq!((functions.end(0xffff20), functions.end(0)), (0xffff20, 0));
    }

    #[test]
    fn symbols_are_exact_unique_and_not_blanked() {
        let text = "ffffffff81000010 t __pfx_io_complete_rw\n\
                    ffffffff81000020 t io_complete_rw\n\
                    ffffffff81000030 t twice\n\
                    ffffffff81000040 t twice\n\
                    0000000000000000 T blanked\n\
                    ffffffffc0000050 t in_module\t[ext4]\n";
        let wanted = ["io_complete_rw", "twice", "blanked", "in_module", "absent"];
        let found = Functions::of(text).addresses(&wanted);
        let expected = [
            ("in_module", 0xffffffffc0000050),
            ("io_complete_rw", 0xffffffff81000020),
        ];
        assert_eq!(
            found,
            expected.map(|(name, address)| (name.to_string(), address)).into()
        );
    }
}

//! What can keep a recording from starting, in words that say what to do.

/// Errors of attaching and recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Not root and without the capabilities that loading BPF programs takes.
    #[error("recording block requests needs root, or CAP_BPF and CAP_PERFMON: {found}; run as root, or record only your own workload")]
    NotPrivileged {
        /// What this process has.
        found: String,
    },
    /// A kernel that is too old.
    #[error("{0}")]
    Unsupported(String),
    /// The kernel's numbers are not those that our programs were written for.
    #[error("probe {probe} does not know this kernel's numbers: {found}; tell us of this kernel, or use one that is known")]
    Numbers {
        /// Its name.
        probe: &'static str,
        /// Which, and what was found.
        found: String,
    },
    /// The kernel does not describe its types.
    #[error("/sys/kernel/btf/vmlinux: expected the kernel's type information, found {found}; use a kernel built with CONFIG_DEBUG_INFO_BTF")]
    NoBtf {
        /// What happened on reading it.
        found: String,
    },
    /// Kernel lockdown forbids reading kernel memory.
    #[error("/sys/kernel/security/lockdown: expected none or integrity, found confidentiality; the kernel forbids tracing until it is booted without it")]
    Lockdown,
    /// A hook without which there is no recording.
    #[error("kernel tracepoint {tracepoint} cannot be used: {cause}; {hint}")]
    Hook {
        /// Tracepoint.
        tracepoint: String,
        /// What the kernel or loader said.
        cause: String,
        /// What to do.
        hint: String,
    },
    /// The object or its maps were refused.
    #[error("the kernel refused our BPF {what}: {cause}; {hint}")]
    Load {
        /// Part.
        what: String,
        /// What the kernel or loader said.
        cause: String,
        /// What to do.
        hint: String,
    },
    /// A setting that cannot work.
    #[error("recorder setting {name}: expected {expected}, found {found}; change it")]
    Setting {
        /// Field of `Config`.
        name: &'static str,
        /// Legal values.
        expected: String,
        /// Given value.
        found: String,
    },
    /// A thread could not be started or died.
    #[error("recorder thread {thread}: {cause}; free some memory or raise the limit on processes")]
    Thread {
        /// Thread name.
        thread: &'static str,
        /// Cause.
        cause: String,
    },
    /// Writing the case failed.
    #[error(transparent)]
    Case(#[from] case::CaseError),
}

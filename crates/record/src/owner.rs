//! What probes need to compute the same key for the same operation (`bpf/owner.h`).
use crate::host;
use aya::EbpfLoader;
use std::sync::OnceLock;

/// Called when a control block of libaio is complete; by this address its kiocb is recognised.
const AIO_SYMBOL: &str = "aio_complete_rw";

struct Shared {
    /// Random, so that a key tells nothing about the kernel's addresses.
    secret_add: u64,
    /// Likewise, odd: the hash is one to one.
    secret_mul: u64,
    aio_complete: u64,
}

/// Sets the variables of `owner.h`. All probes of this process get the same.
pub fn configure(loader: &mut EbpfLoader<'_>) {
    let shared = shared();
    loader
        .override_global("owner_secret_add", &shared.secret_add, true)
        .override_global("owner_secret_mul", &shared.secret_mul, true)
        .override_global("sym_aio_complete_rw", &shared.aio_complete, true);
}

/// The same variables and their values, for a probe that gets settings.
pub fn globals() -> [(&'static str, u64); 3] {
    let shared = shared();
    [
        ("owner_secret_add", shared.secret_add),
        ("owner_secret_mul", shared.secret_mul),
        ("sym_aio_complete_rw", shared.aio_complete),
    ]
}

fn shared() -> &'static Shared {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    SHARED.get_or_init(|| Shared {
        secret_add: random(),
        secret_mul: random() | 1,
        aio_complete: host::kernel_symbols(&[AIO_SYMBOL])
            .get(AIO_SYMBOL)
            .copied()
            .unwrap_or(0),
    })
}

/// 64 random bits.
pub fn random() -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: eight bytes are there to be written. Eight bytes always come at once.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    u64::from_ne_bytes(bytes)
}

//! A drive that is nothing but service times: `parallel` commands at once, each as long as drawn.
//!
//! With one server and `fixed` or `exponential` times it is the server of M/D/1, M/M/1, M/M/c.
use crate::component::{Command, DriveModel, Note, Service};
use crate::keys::{key, Key, Kind, Section};
use case::schema::Op;
use workload::rng::Rng;

/// Keys of `[device]` for `kind = "simple"` (those without a prefix belong to every kind).
pub const KEYS: [Key; 7] = [
    key(
        "simple_read",
        Kind::Time(0, 10_000_000_000),
        "80us",
        "Service time of a read, without its transfer.",
    ),
    key(
        "simple_write",
        Kind::Time(0, 10_000_000_000),
        "20us",
        "Service time of a write, without its transfer.",
    ),
    key(
        "simple_flush",
        Kind::Time(0, 10_000_000_000),
        "200us",
        "Service time of a flush.",
    ),
    key(
        "simple_distribution",
        Kind::Choice(&["fixed", "exponential", "lognormal"]),
        "lognormal",
        "How service times spread around their mean: not at all, exponentially, or lognormally.",
    ),
    key(
        "simple_spread",
        Kind::Number(0.0, 3.0),
        "0.15",
        "Sigma of the logarithm, for lognormal: 0.15 is about 15 %.",
    ),
    key(
        "simple_parallel",
        Kind::Count(1, 4096),
        "64",
        "Commands served at once.",
    ),
    key(
        "simple_bandwidth",
        Kind::Rate(1 << 20, 1 << 40),
        "3GiB/s",
        "Rate of one command's transfer; divided by nothing, as each of the parallel commands has its own.",
    ),
];

#[derive(Clone, Copy)]
enum Spread {
    Fixed,
    Exponential,
    Lognormal(f64),
}

/// The drive.
pub struct SimpleDrive {
    size_bytes: u64,
    read_ns: u64,
    write_ns: u64,
    flush_ns: u64,
    bandwidth: u64,
    spread: Spread,
    /// Commands at once.
    parallel: usize,
    rng: Rng,
}

impl SimpleDrive {
    /// Reads the keys above.
    pub fn new(section: &Section, size_bytes: u64, rng: Rng) -> SimpleDrive {
        SimpleDrive {
            size_bytes,
            read_ns: section.whole("simple_read"),
            write_ns: section.whole("simple_write"),
            flush_ns: section.whole("simple_flush"),
            bandwidth: section.whole("simple_bandwidth"),
            spread: match section.text("simple_distribution") {
                "fixed" => Spread::Fixed,
                "exponential" => Spread::Exponential,
                _ => Spread::Lognormal(section.real("simple_spread")),
            },
            parallel: section.whole("simple_parallel") as usize,
            rng,
        }
    }

    /// The SSD of a cache tier: reads as `[ssd_tier]` says, writes into its buffer, 2 GiB/s.
    pub fn tier(section: &Section, size_bytes: u64, rng: Rng) -> SimpleDrive {
        SimpleDrive {
            size_bytes,
            read_ns: section.whole("read"),
            write_ns: 20_000,
            flush_ns: 0,
            bandwidth: 2 << 30,
            spread: Spread::Lognormal(0.15),
            parallel: 64,
            rng,
        }
    }

    #[inline]
    fn draw(&mut self, mean_ns: u64) -> u64 {
        match self.spread {
            Spread::Fixed => mean_ns,
            Spread::Exponential => (mean_ns as f64 * self.rng.exponential()) as u64,
            Spread::Lognormal(sigma) => {
                // The mean of exp(sigma z) is exp(sigma^2 / 2).
                (mean_ns as f64 * (sigma * normal(&mut self.rng) - sigma * sigma / 2.0).exp()) as u64
            }
        }
    }
}

/// A standard normal draw: the sum of 12 uniforms of 32 bits, less 6. Its tails end at 6 sigma, which a drive's do too.
#[inline]
pub fn normal(rng: &mut Rng) -> f64 {
    let mut sum = 0u64;
    for _ in 0..6 {
        let draw = rng.next_u64();
        sum += (draw & 0xffff_ffff) + (draw >> 32);
    }
    sum as f64 / (1u64 << 32) as f64 - 6.0
}

impl DriveModel for SimpleDrive {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn rotational(&self) -> bool {
        false
    }

    fn slots(&self) -> usize {
        self.parallel
    }

    #[inline]
    fn serve(&mut self, now_ns: u64, command: &Command) -> Service {
        let base_ns = match command.op {
            Op::Read => self.read_ns,
            Op::Flush => self.flush_ns,
            _ => self.write_ns,
        };
        let transfer_ns = u64::from(command.size_bytes) * 1_000_000_000 / self.bandwidth;
        let service_ns = self.draw(base_ns) + transfer_ns;
        // No more commands than servers are ever inside, so one is free.
        let done_ns = now_ns + service_ns;
        Service {
            done_ns,
            free_ns: now_ns,
            note: Note::None,
        }
    }
}

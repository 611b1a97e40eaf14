//! The network between clients and server: latency, bandwidth of one direction, loss.
//!
//! A message waits for the sender's line, takes its bytes at the bandwidth, then the latency. A lost packet costs a
//! retransmission timeout (200 ms is Linux' smallest, `TCP_RTO_MIN`); several lost ones in a row double it each time.
use crate::keys::{key, Key, Kind};
use workload::rng::Rng;

/// Keys of `[network]`.
pub const KEYS: [Key; 4] = [
    key(
        "latency",
        Kind::Time(0, 10_000_000_000),
        "50us",
        "One way, without transfer.",
    ),
    key(
        "bandwidth",
        Kind::Rate(1 << 10, 1 << 40),
        "1170MiB/s",
        "Of each direction; all clients share it.",
    ),
    key(
        "loss",
        Kind::Percent,
        "0%",
        "Probability that a message is lost and sent again.",
    ),
    key(
        "retransmit",
        Kind::Time(1000, 60_000_000_000),
        "200ms",
        "Time until a lost message is sent again.",
    ),
];

/// Extra loss for a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loss {
    /// First moment.
    pub from_ns: u64,
    /// After the last moment.
    pub to_ns: u64,
    /// Probability per message.
    pub probability: f64,
}

/// One direction of the line.
pub struct Network {
    latency_ns: u64,
    bandwidth: u64,
    loss: f64,
    retransmit_ns: u64,
    extra: Vec<Loss>,
    free_ns: u64,
    rng: Rng,
}

impl Network {
    /// `bandwidth` in bytes per second.
    pub fn new(
        latency_ns: u64,
        bandwidth: u64,
        loss: f64,
        retransmit_ns: u64,
        extra: Vec<Loss>,
        rng: Rng,
    ) -> Network {
        Network {
            latency_ns,
            bandwidth,
            loss,
            retransmit_ns,
            extra,
            free_ns: 0,
            rng,
        }
    }

    /// When a message of `bytes` sent now arrives.
    pub fn arrival_ns(&mut self, now_ns: u64, bytes: u64) -> u64 {
        let begin_ns = self.free_ns.max(now_ns);
        let transfer_ns = (u128::from(bytes) * 1_000_000_000 / u128::from(self.bandwidth)) as u64;
        self.free_ns = begin_ns + transfer_ns;
        let extra = self
            .extra
            .iter()
            .filter(|loss| (loss.from_ns..loss.to_ns).contains(&now_ns));
        let loss = self.loss + extra.map(|loss| loss.probability).sum::<f64>();
        let mut lost_ns = 0;
        if loss > 0.0 {
            let mut timeout_ns = self.retransmit_ns;
            while ((self.rng.next_u64() >> 11) as f64) < loss.min(0.9) * (1u64 << 53) as f64 {
                lost_ns += timeout_ns;
                timeout_ns = (timeout_ns * 2).min(60_000_000_000);
            }
        }
        self.free_ns + self.latency_ns + lost_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_share_the_line_and_lost_ones_wait() {
        let mut net = Network::new(50, 1_000_000_000, 0.0, 1_000_000, Vec::new(), Rng::new(1, 2));
        assert_eq!(net.arrival_ns(0, 1000), 1050);
        assert_eq!(net.arrival_ns(0, 1000), 2050);
        assert_eq!(net.arrival_ns(5000, 0), 5050);
        let loss = Loss {
            from_ns: 0,
            to_ns: 100,
            probability: 0.25,
        };
        let mut net = Network::new(50, 1_000_000_000, 0.0, 1_000_000, vec![loss], Rng::new(1, 2));
        let lost = (0..40_000).filter(|_| net.arrival_ns(0, 0) > 1000).count();
        assert!((9_400..10_600).contains(&lost), "{lost}");
        assert_eq!(net.arrival_ns(100, 0), 150);
    }
}

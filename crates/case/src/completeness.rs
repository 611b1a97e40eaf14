//! How much of a layer is missing: the one place that knows which losses take operations away, and from which layer.
//!
//! `docs/reference/case-format.md`, section Losses, lists the same for other readers; a test compares the two.
use crate::meta::CaseMeta;
use crate::schema::{Layer, LossRow};
use std::collections::BTreeMap;

/// More of a layer than this may not be missing: below it nothing that hangs on the layer is known (decision 0135).
pub const MISSING_SHARE_MAX: f64 = 0.01;

/// What stands before the first `/` in a loss's `probe`, and the layer that lost operations by it. Other probes tell
/// about operations, but no operation is missing where they lost something.
pub const LAYER_OF: [(&str, Layer); 6] = [
    ("app", Layer::App),
    ("own", Layer::App),
    ("syscall", Layer::Syscall),
    ("block", Layer::Block),
    // Bios of volumes are rows of the block layer.
    ("bio", Layer::Block),
    ("stack", Layer::Block),
];

/// Reasons of losses of those probes that left the operations there: a file's name, bios merged into a request, what a carrier
/// waited for.
pub const ROW_IS_THERE: [&str; 6] = [
    "name_ring_full",
    "merge_ring_full",
    "merge_walk_cut",
    "carrier_ring_full",
    "carriers_cut",
    "volume_appeared",
];

/// A layer of which operations are missing.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Missing {
    /// Name of the layer.
    pub layer: &'static str,
    /// Operations lost, as far as their number is known.
    pub lost: u64,
    /// Operations that are there, and those that a CPU budget left out on purpose.
    pub there: u64,
    /// Operations lost, by reason.
    pub reasons: BTreeMap<String, u64>,
}

impl Missing {
    /// Part of the layer that is missing, 0 to 1.
    pub fn share(&self) -> f64 {
        self.lost as f64 / (self.lost + self.there).max(1) as f64
    }

    /// Whether it is more than [`MISSING_SHARE_MAX`].
    pub fn is_too_much(&self) -> bool {
        self.share() > MISSING_SHARE_MAX
    }
}

/// Adds up the losses of layers.
#[derive(Clone, Debug, Default)]
pub struct Account {
    lost: BTreeMap<Layer, BTreeMap<String, u64>>,
}

impl Account {
    /// The account of these losses.
    pub fn of<'a>(losses: impl IntoIterator<Item = &'a LossRow>) -> Account {
        let mut account = Account::default();
        for loss in losses {
            account.add(&loss.probe, &loss.reason, loss.lost);
        }
        account
    }

    /// Adds a loss. An unknown number adds nothing: the case names it as it is, but no share follows from it.
    pub fn add(&mut self, probe: &str, reason: &str, lost: Option<u64>) {
        let name = probe.split('/').next().unwrap_or(probe);
        let layer = LAYER_OF.iter().find(|(of, _)| *of == name);
        let (Some((_, layer)), Some(lost)) = (layer, lost) else {
            return;
        };
        // `write_failed: No space left`: what follows the colon are the circumstances.
        let reason = reason.split(':').next().unwrap_or(reason);
        if lost == 0 || ROW_IS_THERE.contains(&reason) {
            return;
        }
        let reasons = self.lost.entry(*layer).or_default();
        *reasons.entry(reason.to_owned()).or_default() += lost;
    }

    /// What is missing of every layer that lost something. `there` gives the operations that are there.
    pub fn missing(self, there: impl Fn(Layer) -> u64) -> Vec<Missing> {
        let missing = |(layer, reasons): (Layer, BTreeMap<String, u64>)| Missing {
            layer: layer.name(),
            lost: reasons.values().sum(),
            there: there(layer),
            reasons,
        };
        self.lost.into_iter().map(missing).collect()
    }
}

/// Operations of a layer that a recording with a CPU budget left out on purpose: they are not lost.
pub fn left_out(meta: &CaseMeta, layer: Layer) -> u64 {
    let Some(sampling) = &meta.sampling else { return 0 };
    match layer {
        Layer::Syscall => sampling.calls_left_out,
        Layer::Block => sampling.left_out.values().map(|device| device.requests).sum(),
        Layer::App | Layer::Device => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_takes_operations_away_counts() {
        let mut account = Account::default();
        for (probe, reason, lost) in [
            ("block", "ring_full", Some(7)),
            ("block/block_rq_issue", "recursion", Some(2)),
            ("block", "merge_walk_cut", Some(1000)),
            ("syscall", "write_failed: disk/raw: No space left", Some(30)),
            ("syscall", "name_ring_full", Some(5000)),
            ("sched", "ring_full", Some(9000)),
            ("block_merge", "ring_full", Some(9000)),
            ("app/worker-000", "truncated_raw", None),
        ] {
            account.add(probe, reason, lost);
        }
        let missing = account.missing(|layer| if layer == Layer::Block { 891 } else { 3000 });
        let told: Vec<_> = missing
            .iter()
            .map(|m| (m.layer, m.lost, m.is_too_much()))
            .collect();
        assert_eq!(told, [("syscall", 30, false), ("block", 9, false)]);
        assert_eq!(missing[1].share(), 0.01);
        assert_eq!(missing[0].reasons.keys().collect::<Vec<_>>(), ["write_failed"]);
    }

    #[test]
    fn a_layer_without_a_row_is_missing_altogether() {
        let mut account = Account::default();
        account.add("block", "ring_full", Some(3));
        assert_eq!(account.missing(|_| 0)[0].share(), 1.0);
    }
}

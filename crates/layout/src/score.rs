//! What a list of extents means for whoever reads the file. Pure.
use serde::Serialize;

/// Blocks of one window of the layout score.
pub const WINDOW_BLOCKS: u64 = 64;

/// A piece of a file that lies in one piece on the device. All in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Place in the file.
    pub logical: u64,
    /// Place on the file system's device; meaningless where not `placed`.
    pub physical: u64,
    /// Length, 1 and up.
    pub length: u64,
    /// Has an address of its own: not inline, not still to be allocated.
    pub placed: bool,
    /// Shared with another file or snapshot.
    pub shared: bool,
    /// Reserved, but nothing was written there.
    pub unwritten: bool,
}

impl Extent {
    fn end(&self) -> u64 {
        self.logical + self.length
    }

    /// Goes on where `before` ends, in the file and on the device.
    fn follows(&self, before: &Extent) -> bool {
        before.end() == self.logical
            && before.placed
            && self.placed
            && before.physical + before.length == self.physical
    }
}

/// How a file, or several, lie.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Layout {
    /// Bytes that have a place on the device, holes left out.
    pub allocated_bytes: u64,
    /// Extents as the file system keeps them.
    pub extents: u64,
    /// Runs: extents that follow each other in the file and on the device are one.
    pub runs: u64,
    /// Extents per GiB of data; 0 without data.
    pub extents_per_gib: f64,
    /// Layout score: runs in a window of 64 blocks, averaged over windows with data. 1 is contiguous, 64 the worst; 0 without data.
    pub runs_per_64_blocks: f64,
    /// Requests that a reader from begin to end causes, if each is cut where a run ends.
    pub requests: u64,
    /// The same for a file in one run.
    pub requests_contiguous: u64,
    /// Times that reader has to go elsewhere on the device.
    pub seeks: u64,
    /// Bytes shared with other files or snapshots.
    pub shared_bytes: u64,
    /// The lowest place of its data on the file system's device; None without data that has a place.
    pub first_byte: Option<u64>,
    /// From there to the highest: how far a reader at random places has to go on the device.
    pub span_bytes: u64,
    #[serde(skip)]
    windows: u64,
    #[serde(skip)]
    runs_in_windows: u64,
}

impl Layout {
    /// Of the extents of one file, sorted by their place in it; `block_bytes` and `request_bytes` are 1 and up.
    pub fn of(extents: &[Extent], block_bytes: u64, request_bytes: u64) -> Layout {
        let (windows, runs_in_windows) = in_windows(extents, WINDOW_BLOCKS * block_bytes);
        let (requests_contiguous, requests) = in_windows(extents, request_bytes);
        let follow = extents
            .windows(2)
            .filter(|pair| pair[1].follows(&pair[0]))
            .count() as u64;
        let runs = extents.len() as u64 - follow;
        let placed = || extents.iter().filter(|e| e.placed);
        let first_byte = placed().map(|e| e.physical).min();
        let end = placed().map(|e| e.physical + e.length).max();
        let mut layout = Layout {
            allocated_bytes: extents.iter().map(|e| e.length).sum(),
            extents: extents.len() as u64,
            runs,
            requests,
            requests_contiguous,
            seeks: runs.saturating_sub(1),
            shared_bytes: extents.iter().filter(|e| e.shared).map(|e| e.length).sum(),
            first_byte,
            span_bytes: end.unwrap_or(0) - first_byte.unwrap_or(0),
            windows,
            runs_in_windows,
            ..Layout::default()
        };
        layout.average();
        layout
    }

    /// Adds another file.
    pub fn add(&mut self, other: &Layout) {
        let end = |layout: &Layout| layout.first_byte.map(|first| first + layout.span_bytes);
        let last = end(self).max(end(other));
        self.first_byte = self.first_byte.into_iter().chain(other.first_byte).min();
        self.span_bytes = last.unwrap_or(0) - self.first_byte.unwrap_or(0);
        self.allocated_bytes += other.allocated_bytes;
        self.extents += other.extents;
        self.runs += other.runs;
        self.requests += other.requests;
        self.requests_contiguous += other.requests_contiguous;
        self.seeks += other.seeks;
        self.shared_bytes += other.shared_bytes;
        self.windows += other.windows;
        self.runs_in_windows += other.runs_in_windows;
        self.average();
    }

    fn average(&mut self) {
        let gib = self.allocated_bytes as f64 / (1_u64 << 30) as f64;
        self.extents_per_gib = if gib > 0.0 { self.extents as f64 / gib } else { 0.0 };
        self.runs_per_64_blocks = if self.windows > 0 {
            self.runs_in_windows as f64 / self.windows as f64
        } else {
            0.0
        };
    }
}

/// Aligned windows of the file that hold data, and the runs in each of them, summed up.
fn in_windows(extents: &[Extent], window_bytes: u64) -> (u64, u64) {
    assert!(window_bytes > 0, "a window has a length");
    let (mut windows, mut runs) = (0, 0);
    let mut before: Option<&Extent> = None;
    for extent in extents {
        let first = extent.logical / window_bytes;
        let spanned = (extent.end() - 1) / window_bytes - first + 1;
        windows += spanned;
        runs += spanned;
        if let Some(before) = before.filter(|b| (b.end() - 1) / window_bytes == first) {
            windows -= 1;
            runs -= u64::from(extent.follows(before));
        }
        before = Some(extent);
    }
    (windows, runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCK: u64 = 4096;

    fn extent(logical: u64, physical: u64, blocks: u64) -> Extent {
        Extent {
            logical: logical * BLOCK,
            physical: physical * BLOCK,
            length: blocks * BLOCK,
            placed: true,
            shared: false,
            unwritten: false,
        }
    }

    #[test]
    fn a_contiguous_file_scores_one_however_many_extents_it_has() {
        let layout = Layout::of(
            &[extent(0, 1000, 100), extent(100, 1100, 156)],
            BLOCK,
            128 * BLOCK,
        );
        assert_eq!((layout.extents, layout.runs, layout.seeks), (2, 1, 0));
        assert_eq!((layout.requests, layout.requests_contiguous), (2, 2));
        assert_eq!(layout.runs_per_64_blocks, 1.0);
        assert_eq!(layout.extents_per_gib, 2048.0);
    }

    #[test]
    fn pieces_of_64_kib_score_four_and_cost_a_request_each() {
        let pieces: Vec<Extent> = (0..256).map(|i| extent(i * 16, 1_000_000 - i * 32, 16)).collect();
        let layout = Layout::of(&pieces, BLOCK, 128 * BLOCK);
        assert_eq!((layout.runs, layout.seeks), (256, 255));
        assert_eq!(layout.runs_per_64_blocks, 4.0);
        assert_eq!((layout.requests, layout.requests_contiguous), (256, 32));
        let (first, blocks) = (1_000_000 - 255 * 32, 255 * 32 + 16);
        assert_eq!(
            (layout.first_byte, layout.span_bytes),
            (Some(first * BLOCK), blocks * BLOCK)
        );
    }

    #[test]
    fn several_files_span_what_lies_between_them() {
        let mut both = Layout::of(&[], BLOCK, BLOCK);
        for (physical, blocks) in [(5000, 10), (100, 20)] {
            both.add(&Layout::of(&[extent(0, physical, blocks)], BLOCK, BLOCK));
        }
        assert_eq!(
            (both.first_byte, both.span_bytes),
            (Some(100 * BLOCK), 4910 * BLOCK)
        );
    }

    #[test]
    fn holes_and_nothing_count_for_nothing() {
        let empty = Layout::of(&[], BLOCK, BLOCK);
        assert_eq!((empty.runs, empty.seeks, empty.runs_per_64_blocks), (0, 0, 0.0));
        // A hole ends a run even where the device goes on.
        let layout = Layout::of(&[extent(0, 0, 8), extent(1000, 8, 8)], BLOCK, 64 * BLOCK);
        assert_eq!(
            (layout.runs, layout.requests, layout.requests_contiguous),
            (2, 2, 2)
        );
    }

    proptest! {
        /// Against counting block by block.
        #[test]
        fn windows_are_counted_as_block_by_block(
            pieces in prop::collection::vec((0_u64..5, 1_u64..40, any::<bool>()), 1..40),
            window in 1_u64..70,
        ) {
            let mut extents: Vec<Extent> = Vec::new();
            let (mut logical, mut physical) = (0, 10_000);
            for (gap, blocks, moves) in pieces {
                logical += gap;
                physical += if moves { 5000 } else { gap };
                extents.push(extent(logical, physical, blocks));
                logical += blocks;
                physical += blocks;
            }
            let mut by_window = std::collections::BTreeMap::<u64, u64>::new();
            let mut last: Option<(u64, u64)> = None;
            for extent in &extents {
                for block in 0..extent.length / BLOCK {
                    let here = (extent.logical / BLOCK + block, extent.physical / BLOCK + block);
                    let goes_on = last.is_some_and(|(l, p)| (l + 1, p + 1) == here && l / window == here.0 / window);
                    *by_window.entry(here.0 / window).or_default() += u64::from(!goes_on);
                    last = Some(here);
                }
            }
            let expected = (by_window.len() as u64, by_window.values().sum::<u64>());
            prop_assert_eq!(in_windows(&extents, window * BLOCK), expected);
        }
    }
}

//! Linux readahead of one open file, as kernel 6.1 does it (`mm/readahead.c`, `filemap_get_pages`).
//!
//! A window is read at once and one page of it carries a mark. Touching the mark starts the next window in
//! the background; touching an absent page reads at once and waits. Windows double up to `ra_pages`
//! (`read_ahead_kb`). One read may go beyond that, up to `io_pages` (from `max_sectors_kb`): both limits
//! together decide whether a read is served in one piece. A read longer than both waits for a window and only
//! then finds out that its tail is still missing.
//!
//! Not modelled: large folios, `POSIX_FADV_*`, memory pressure, congestion.

use super::{require, ParameterError};
use std::collections::BTreeSet;

/// Limits of the device under the file, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadaheadParameters {
    /// `read_ahead_kb` in pages, 0 to 65,536; 0 = no readahead.
    pub ra_pages: u64,
    /// `max_sectors_kb` in pages, 1 to 65,536: the longest request.
    pub io_pages: u64,
}

/// Which pages of the file are cached or on their way.
pub trait Pages {
    /// Whether `page` is there or on its way.
    fn contains(&self, page: u64) -> bool;
    /// `page` is on its way from now on.
    fn insert(&mut self, page: u64);
}

impl Pages for BTreeSet<u64> {
    fn contains(&self, page: u64) -> bool {
        BTreeSet::contains(self, &page)
    }

    fn insert(&mut self, page: u64) {
        BTreeSet::insert(self, page);
    }
}

/// What a read does, step by step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Sends a request to the device and goes on.
    Issue {
        /// First page.
        first: u64,
        /// At most `io_pages`.
        pages: u64,
    },
    /// Copies pages to the reader; waits for those that have not arrived.
    Copy {
        /// First page.
        first: u64,
        /// Never 0.
        pages: u64,
    },
}

/// Readahead state of an open file (`struct file_ra_state`).
#[derive(Clone, Debug)]
pub struct Readahead {
    parameters: ReadaheadParameters,
    start: u64,
    size: u64,
    async_size: u64,
    /// Last page of the last read; none before the first.
    previous: Option<u64>,
    marks: BTreeSet<u64>,
    file_pages: u64,
}

impl Readahead {
    /// For a file of `file_pages` that was just opened.
    pub fn new(parameters: ReadaheadParameters, file_pages: u64) -> Result<Readahead, ParameterError> {
        require(
            parameters.ra_pages <= 65_536,
            "ra_pages",
            "0 to 65536",
            parameters.ra_pages,
        )?;
        require(
            (1..=65_536).contains(&parameters.io_pages),
            "io_pages",
            "1 to 65536",
            parameters.io_pages,
        )?;
        let marks = BTreeSet::new();
        Ok(Readahead {
            parameters,
            start: 0,
            size: 0,
            async_size: 0,
            previous: None,
            marks,
            file_pages,
        })
    }

    /// A read of `count` pages from `first`, cut at the end of the file.
    pub fn read(&mut self, pages: &mut impl Pages, first: u64, count: u64) -> Vec<Step> {
        let end = (first + count).min(self.file_pages);
        let mut steps = Vec::new();
        for page in first..end {
            if !pages.contains(page) {
                self.window(pages, page, end - page, false, &mut steps);
            }
            if self.marks.remove(&page) {
                self.window(pages, page, end - page, true, &mut steps);
            }
            match steps.last_mut() {
                Some(Step::Copy { first, pages }) if *first + *pages == page => *pages += 1,
                _ => steps.push(Step::Copy {
                    first: page,
                    pages: 1,
                }),
            }
        }
        if first < end {
            self.previous = Some(end - 1);
        }
        steps
    }

    /// Decides on the next window, at an absent page or at a mark, when `wanted` pages remain to be read.
    fn window(
        &mut self,
        pages: &mut impl Pages,
        page: u64,
        wanted: u64,
        at_mark: bool,
        steps: &mut Vec<Step>,
    ) {
        let ReadaheadParameters { ra_pages, io_pages } = self.parameters;
        if ra_pages == 0 {
            return self.issue(pages, page, wanted, 0, steps);
        }
        let most = if wanted > ra_pages && io_pages > ra_pages {
            wanted.min(io_pages)
        } else {
            ra_pages
        };
        let after = self.start + self.size;
        let adjacent = self
            .previous
            .is_some_and(|previous| page.wrapping_sub(previous) <= 1);
        if page == 0 {
            self.first_window(page, wanted, most);
        } else if self.size > 0 && (page == after || page == after - self.async_size) {
            self.start = after;
            self.size = self.grown(most);
            self.async_size = self.size;
        } else if at_mark {
            let Some(absent) = (page + 1..=page + most).find(|p| !pages.contains(*p)) else {
                return;
            };
            self.start = absent;
            self.size = absent - page + wanted;
            self.size = self.grown(most);
            self.async_size = self.size;
        } else if wanted > most || adjacent {
            self.first_window(page, wanted, most);
        } else if !self.history_window(pages, page, wanted, most) {
            return self.issue(pages, page, wanted, 0, steps);
        }
        self.absorb_own_mark(page, most);
        self.issue(pages, self.start, self.size, self.async_size, steps);
    }

    fn first_window(&mut self, page: u64, wanted: u64, most: u64) {
        let rounded = wanted.next_power_of_two();
        self.start = page;
        self.size = match rounded {
            small if small <= most / 32 => small * 4,
            medium if medium <= most / 4 => medium * 2,
            _ => most,
        };
        self.async_size = if self.size > wanted {
            self.size - wanted
        } else {
            self.size
        };
    }

    /// Pages cached just before `page` hint at a stream that is interleaved with others.
    fn history_window(&mut self, pages: &impl Pages, page: u64, wanted: u64, most: u64) -> bool {
        let history = (1..=most.min(page))
            .take_while(|back| pages.contains(page - back))
            .count() as u64;
        if history <= wanted {
            return false;
        }
        let history = if history >= page { history * 2 } else { history };
        self.start = page;
        self.size = (history + wanted).min(most);
        self.async_size = 1;
        true
    }

    /// A window whose mark this very read would hit takes the next window in at once.
    fn absorb_own_mark(&mut self, page: u64, most: u64) {
        if page != self.start || self.size != self.async_size {
            return;
        }
        let more = self.grown(most);
        if self.size + more <= most {
            self.async_size = more;
            self.size += more;
        } else {
            self.size = most;
            self.async_size = most / 2;
        }
    }

    fn grown(&self, most: u64) -> u64 {
        match self.size {
            small if small < most / 16 => small * 4,
            medium if medium <= most / 2 => medium * 2,
            _ => most,
        }
    }

    /// Requests for the absent pages of a window, and its mark.
    fn issue(&mut self, pages: &mut impl Pages, first: u64, count: u64, ahead: u64, steps: &mut Vec<Step>) {
        let end = (first + count).min(self.file_pages);
        let mut page = first;
        while page < end {
            if pages.contains(page) {
                page += 1;
                continue;
            }
            let most = (page + self.parameters.io_pages).min(end);
            let until = (page..most).find(|p| pages.contains(*p)).unwrap_or(most);
            (page..until).for_each(|p| pages.insert(p));
            if ahead > 0 && (page..until).contains(&(first + count - ahead)) {
                self.marks.insert(first + count - ahead);
            }
            steps.push(Step::Issue {
                first: page,
                pages: until - page,
            });
            page = until;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FAR: u64 = 1 << 24;

    fn open(ra_pages: u64, io_pages: u64) -> Readahead {
        Readahead::new(ReadaheadParameters { ra_pages, io_pages }, FAR * 2).unwrap()
    }

    fn issued(steps: &[Step]) -> Vec<u64> {
        let issues = steps.iter().filter(|step| matches!(step, Step::Issue { .. }));
        issues.map(length).collect()
    }

    fn length(step: &Step) -> u64 {
        match step {
            Step::Issue { pages, .. } | Step::Copy { pages, .. } => *pages,
        }
    }

    /// Random reads at places far apart; the requests of one of them.
    fn random_read(ra_pages: u64, io_pages: u64, count: u64) -> Vec<Step> {
        let (mut file, mut pages) = (open(ra_pages, io_pages), BTreeSet::new());
        file.read(&mut pages, FAR, count);
        file.read(&mut pages, FAR / 2, count)
    }

    /// 132 KiB with `read_ahead_kb` and `max_sectors_kb` 128: measured on a 6.1 kernel, 3 requests and 384
    /// KiB.
    #[test]
    fn a_read_one_page_longer_than_both_limits_takes_three_requests() {
        let steps = random_read(32, 32, 33);
        assert_eq!(issued(&steps), [32, 32, 32]);
        let copy_then_tail = [
            Step::Copy {
                first: FAR / 2,
                pages: 16,
            },
            Step::Issue {
                first: FAR / 2 + 32,
                pages: 32,
            },
            Step::Copy {
                first: FAR / 2 + 16,
                pages: 16,
            },
        ];
        assert_eq!(
            steps[1..4],
            copy_then_tail,
            "the tail is requested only after the first window was there"
        );
    }

    #[test]
    fn the_same_read_is_one_request_when_either_limit_allows_it() {
        assert_eq!(issued(&random_read(32, 320, 33)), [33]);
        assert_eq!(issued(&random_read(64, 64, 33)), [33]);
        assert_eq!(issued(&random_read(32, 32, 32)), [32]);
    }

    #[test]
    fn without_readahead_only_what_is_asked_is_read() {
        assert_eq!(issued(&random_read(0, 32, 40)), [32, 8]);
    }

    #[test]
    fn a_sequential_reader_gets_ahead_and_stays_ahead() {
        let (mut file, mut pages) = (open(32, 320), BTreeSet::new());
        let steps: Vec<Vec<Step>> = (0..256).map(|i| file.read(&mut pages, i, 1)).collect();
        let windows: Vec<u64> = steps.iter().flat_map(|steps| issued(steps)).collect();
        assert_eq!(windows[..4], [4, 8, 16, 32]);
        assert!(windows[4..].iter().all(|window| *window == 32), "{windows:?}");
        // After the first page no read begins with a request that it then waits for.
        for (page, steps) in steps.iter().enumerate().skip(1) {
            let first_issued = steps.iter().find_map(|step| match step {
                Step::Issue { first, .. } => Some(*first),
                Step::Copy { .. } => None,
            });
            assert_ne!(first_issued, Some(page as u64), "page {page} was absent");
        }
    }

    proptest! {
        /// Every page asked for is copied once, in order, and only after it was requested.
        #[test]
        fn reads_are_complete(
            ra_pages in 0..64u64,
            io_pages in 1..80u64,
            reads in prop::collection::vec((0..600u64, 1..90u64), 1..60),
        ) {
            let parameters = ReadaheadParameters { ra_pages, io_pages };
            let mut file = Readahead::new(parameters, 500).unwrap();
            let (mut pages, mut requested) = (BTreeSet::new(), BTreeSet::new());
            for (first, count) in reads {
                let mut next = first;
                for step in file.read(&mut pages, first, count) {
                    prop_assert!(length(&step) > 0);
                    match step {
                        Step::Issue { first, pages } => {
                            prop_assert!(pages <= io_pages && first + pages <= 500);
                            for page in first..first + pages {
                                prop_assert!(requested.insert(page), "page {} requested twice", page);
                            }
                        }
                        Step::Copy { first, pages } => {
                            prop_assert_eq!(first, next);
                            next += pages;
                            prop_assert!((first..next).all(|page| requested.contains(&page)));
                        }
                    }
                }
                prop_assert_eq!(next, first.max((first + count).min(500)));
            }
        }
    }
}

//! Linux's page cache with its readahead, for files that are read through it.
//!
//! Source: Linux 6.18, mm/readahead.c (`page_cache_sync_ra`, `page_cache_async_ra`), mm/filemap.c
//! (`filemap_get_pages`); windows end where folios of several pages do, pages are kept one by one.
//! Readahead takes no time in the simulation. The lists are those of
//! [`TwoLists`].

use rustc_hash::FxHashMap;

use crate::accesses::TooManyBlocks;
use crate::policy::TwoLists;

/// The size of a page of Linux.
pub const PAGE_BYTES: u32 = 4096;
/// The step by which the lists grow.
const ROOM: u32 = 1 << 12;
/// The folios of each window are larger by this power of two than those of the one before.
const ORDER_STEP: u32 = 2;

/// The readahead state of an open file (`struct file_ra_state`).
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    start: u64,
    pages: u64,
    /// The number of pages before its end at which the next readahead begins.
    ahead_pages: u64,
    /// It ends at a multiple of two to this power, the size of its folios.
    order: u32,
    /// The page after the last one that was read; none before the first read.
    next: Option<u64>,
}

/// A page cache of a size.
pub struct PageCache {
    lists: TwoLists,
    /// The number that a page has in the lists.
    numbers: FxHashMap<u64, u32>,
    /// Whether a page starts the next readahead when it is read, by its number.
    marked: Vec<bool>,
    windows: FxHashMap<u32, Window>,
    window_pages: u64,
    fetched_pages: u64,
}

impl PageCache {
    /// An empty cache; `window_pages` are read ahead at most, 0 for none.
    ///
    /// # Panics
    ///
    /// When `capacity_pages` is 0: a cache of nothing has no policy.
    pub fn new(capacity_pages: usize, window_pages: u64) -> PageCache {
        assert!(capacity_pages > 0, "a cache of nothing has no policy");
        PageCache {
            lists: TwoLists::new(capacity_pages, 0, PAGE_BYTES),
            numbers: FxHashMap::default(),
            marked: Vec::new(),
            windows: FxHashMap::default(),
            window_pages,
            fetched_pages: 0,
        }
    }

    /// Returns the number of pages read from the disk, including readahead.
    pub fn fetched_pages(&self) -> u64 {
        self.fetched_pages
    }

    /// Returns whether a page is in the cache.
    pub fn holds(&self, page: u64) -> bool {
        self.numbers.get(&page).is_some_and(|&number| self.lists.is_held(number))
    }

    /// Reads pages by an open file and returns whether one of them was absent.
    pub fn read(&mut self, file: u32, first: u64, pages: u64) -> Result<bool, TooManyBlocks> {
        let mut window = self.windows.get(&file).copied().unwrap_or_default();
        let end = first + pages;
        let mut is_miss = false;
        for page in first..end {
            if !self.holds(page) {
                is_miss = true;
                self.read_at_once(&mut window, page, end - page)?;
            } else if self.take_mark(page) {
                self.read_on(&mut window, page, end - page)?;
            }
            let number = self.number(page)?;
            self.lists.reference(number);
        }
        window.next = Some(end);
        self.windows.insert(file, window);
        Ok(is_miss)
    }

    /// A page is absent (`page_cache_sync_ra`).
    fn read_at_once(
        &mut self,
        window: &mut Window,
        page: u64,
        wanted_pages: u64,
    ) -> Result<(), TooManyBlocks> {
        let most = self.window_pages;
        let is_next = window.next.map_or(page == 0, |next| page.wrapping_sub(next) <= 1);
        if most == 0 {
            return self.fetch(page, wanted_pages, None);
        }
        if is_next || wanted_pages > most {
            let pages = first_window(wanted_pages, most);
            let is_larger = pages > wanted_pages;
            let ahead_pages = if is_larger { pages - wanted_pages } else { pages / 2 };
            *window = Window { start: page, pages, ahead_pages, order: 0, ..*window };
        } else {
            // Pages before it that are still there show a reader in order.
            let before = (1..=most.min(page)).take_while(|&back| self.holds(page - back)).count();
            let before = before as u64;
            if before <= wanted_pages {
                return self.fetch(page, wanted_pages, None);
            }
            let pages = (before + wanted_pages).min(most);
            *window = Window { start: page, pages, ahead_pages: 1, order: 0, ..*window };
        }
        self.fetch(window.start, window.pages, Some(window.pages - window.ahead_pages))
    }

    /// A page with a mark is read (`page_cache_async_ra`).
    fn read_on(
        &mut self,
        window: &mut Window,
        page: u64,
        wanted_pages: u64,
    ) -> Result<(), TooManyBlocks> {
        let most = self.window_pages;
        if page + window.ahead_pages == window.start + window.pages {
            window.start += window.pages;
            window.pages = next_window(window.pages, most);
        } else {
            let Some(absent) = (page + 1..=page + most).find(|&other| !self.holds(other)) else {
                return Ok(());
            };
            window.start = absent;
            window.pages = next_window(absent - page + wanted_pages, most);
        }
        let order = (window.order + ORDER_STEP).min(most.ilog2());
        let aligned_end = (window.start + window.pages) >> order << order;
        if aligned_end > window.start {
            window.pages = aligned_end - window.start;
        }
        window.order = order.min(window.pages.ilog2());
        window.ahead_pages = window.pages;
        self.fetch(window.start, window.pages, Some(0))
    }

    /// Reads absent pages, and marks the one at `mark`.
    fn fetch(&mut self, first: u64, pages: u64, mark: Option<u64>) -> Result<(), TooManyBlocks> {
        for nth in 0..pages {
            if !self.holds(first + nth) {
                let number = self.number(first + nth)?;
                self.marked[number as usize] = mark == Some(nth);
                self.lists.add(number);
                self.fetched_pages += 1;
            }
        }
        Ok(())
    }

    fn take_mark(&mut self, page: u64) -> bool {
        let number = self.numbers.get(&page);
        number.is_some_and(|&number| std::mem::take(&mut self.marked[number as usize]))
    }

    fn number(&mut self, page: u64) -> Result<u32, TooManyBlocks> {
        if let Some(&number) = self.numbers.get(&page) {
            return Ok(number);
        }
        let number = self.numbers.len() as u32;
        if number >= u32::MAX - ROOM {
            return Err(TooManyBlocks);
        }
        if number as usize == self.marked.len() {
            self.marked.resize(self.marked.len() + (number.max(ROOM)) as usize, false);
            self.lists.make_room(self.marked.len() as u32);
        }
        self.numbers.insert(page, number);
        Ok(number)
    }
}

/// The first window of a reader in order (`get_init_ra_size`).
fn first_window(wanted_pages: u64, most: u64) -> u64 {
    let pages = wanted_pages.next_power_of_two();
    if pages <= most / 32 {
        pages * 4
    } else if pages <= most / 4 {
        pages * 2
    } else {
        most
    }
}

/// The window that follows one (`get_next_ra_size`).
fn next_window(pages: u64, most: u64) -> u64 {
    if pages < most / 16 {
        4 * pages
    } else if pages <= most / 2 {
        2 * pages
    } else {
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accesses::Accesses;
    use crate::policy::Kind;

    fn misses(
        reads: impl IntoIterator<Item = (u32, u64)>,
        capacity_pages: usize,
        window_pages: u64,
    ) -> usize {
        let mut cache = PageCache::new(capacity_pages, window_pages);
        let mut is_miss = |(file, page)| cache.read(file, page, 1).expect("few pages");
        reads.into_iter().filter(|&read| is_miss(read)).count()
    }

    fn misses_of(pages: &[u64], capacity_pages: usize, window_pages: u64) -> usize {
        misses(pages.iter().map(|&page| (0, page)), capacity_pages, window_pages)
    }

    #[test]
    fn a_reader_in_order_waits_only_once() {
        let pages: Vec<u64> = (0..10_000).collect();
        assert_eq!(misses_of(&pages, 1000, 32), 1);
        assert_eq!(misses_of(&pages, 1000, 0), 10_000);
        // Of two readers in turns each goes on by its own file. Where the first page is not page 0,
        // the second one shows that they are in order.
        let both = (0..1000u64).flat_map(|page| [(0, page), (1, 1 << 20 | page)]);
        assert_eq!(misses(both, 1000, 32), 3);
    }

    #[test]
    fn windows_grow_as_the_kernels_do() {
        let mut cache = PageCache::new(1000, 32);
        let mut fetched = Vec::new();
        for page in 0..40 {
            cache.read(0, page, 1).expect("few pages");
            fetched.push(cache.fetched_pages());
        }
        // 4 pages at once; at the second page 8 more, at their first 16 less what is behind the end
        // of a folio of 16, and so on.
        assert_eq!(fetched[..5], [4, 12, 12, 12, 16]);
        assert_eq!([11, 12, 16, 24].map(|page: usize| fetched[page]), [16, 24, 32, 48]);
    }

    #[test]
    fn without_order_there_is_nothing_ahead_and_misses_are_those_of_the_lists() {
        let mut state = 5u64;
        let mut page = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) % 5000 * 7 + 100
        };
        let pages: Vec<u64> = (0..30_000).map(|_| page()).collect();
        let accesses = Accesses::new(&pages).expect("few pages");
        let hits = Kind::TwoLists.cache(800, &accesses, PAGE_BYTES).hits_of(&accesses);
        assert_eq!(misses_of(&pages, 800, 32) as u64, pages.len() as u64 - hits);
    }

    #[test]
    fn pages_that_are_read_ahead_and_never_used_take_room() {
        // Each of these begins in order, and ends after three pages.
        let pages: Vec<u64> =
            (0..200u64).flat_map(|run| (0..3).map(move |nth| 1 + run * 100 + nth)).collect();
        let mut cache = PageCache::new(1000, 32);
        for &page in &pages {
            cache.read(0, page, 1).expect("few pages");
        }
        assert!(cache.fetched_pages() > pages.len() as u64 * 2);
    }
}

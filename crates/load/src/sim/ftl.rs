//! A flash translation layer: why a drive slows down as it is written at random.
//!
//! Flash is programmed page by page, each page once, and erased block by block. So a page that is
//! written again goes to another physical page, and the old one becomes garbage. When free blocks
//! run out, a block is emptied: the pages that are still valid are copied (the victim is the block
//! with the fewest of them: greedy), and then it is erased. The model is that of the analysis by
//! Desnoyers ("Analytic modeling of SSD write performance", SYSTOR 2012): one map of pages, one
//! block open for writes and copies alike, collection whenever the last free block is taken.
//!
//! Under uniform random writes the copies settle at a write amplification of about 1 / (1 - u),
//! where u is the share of a victim's pages that are valid
//! ([`crate::address::one_pass::victim_valid_share`]); the tests hold the model to it.

use std::collections::VecDeque;

use super::model::FtlModel;

/// No page, no block.
const NONE: u32 = u32::MAX;

/// Blocks beyond what the over-provisioning gives: the one that a victim's pages are copied into.
const RESERVE_BLOCKS: u64 = 1;

/// Fewest blocks of data with which the model is more than an accident of rounding.
const DATA_BLOCKS_MIN: u64 = 8;

/// Most pages of the map: 64 GiB in pages of 4 KiB, and some 150 MB of memory.
const PAGES_MAX: u64 = 1 << 24;

/// The work of the flash for one request. A collection is done at once, and its cost is spread:
/// each page written to the new block carries its share of the cost of freeing that block.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlashWork {
    /// Pages read for the request itself.
    pub read_pages: u64,
    /// Pages programmed for the request itself.
    pub programmed_pages: u64,
    /// Its share of the pages that collection read and programmed.
    pub copied_pages: f64,
    /// Its share of the blocks that were erased.
    pub erased_blocks: f64,
}

/// Pages written since the flash was new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashCounters {
    /// Pages that the host wrote.
    pub host_pages: u64,
    /// Pages that were programmed, copies included.
    pub nand_pages: u64,
    /// Blocks that were erased.
    pub erased_blocks: u64,
}

impl FlashCounters {
    /// Pages written since `earlier`.
    pub fn since(self, earlier: FlashCounters) -> FlashCounters {
        FlashCounters {
            host_pages: self.host_pages - earlier.host_pages,
            nand_pages: self.nand_pages - earlier.nand_pages,
            erased_blocks: self.erased_blocks - earlier.erased_blocks,
        }
    }

    /// Pages programmed for each that the host wrote; `None` where it wrote none.
    pub fn amplification(self) -> Option<f64> {
        (self.host_pages > 0).then(|| self.nand_pages as f64 / self.host_pages as f64)
    }
}

/// The map, the blocks and their garbage.
#[derive(Debug)]
pub struct Ftl {
    page_bytes: u64,
    pages_per_block: u32,
    /// The physical page of each logical page.
    physical_page: Vec<u32>,
    /// Which logical page each physical one holds; [`NONE`] where it is garbage or erased.
    holds: Vec<u32>,
    /// How many pages of each block are valid.
    valid: Vec<u32>,
    closed: BlocksByValidPages,
    free: VecDeque<u32>,
    open: u32,
    open_filled: u32,
    /// The share of the last collection that each page in the open block carries.
    owed: FlashWork,
    written: FlashCounters,
}

impl Ftl {
    /// Erased flash behind a device of `size_bytes`.
    ///
    /// # Errors
    ///
    /// A sentence when it would be too small or too large.
    pub fn new(model: &FtlModel, size_bytes: u64) -> Result<Ftl, String> {
        let pages = size_bytes.div_ceil(model.page_bytes);
        let per_block = u64::from(model.pages_per_block);
        if pages < DATA_BLOCKS_MIN * per_block {
            return Err(format!(
                "the ftl needs a target of at least {DATA_BLOCKS_MIN} blocks of {per_block} pages \
                 of {} bytes; this one has {size_bytes} bytes",
                model.page_bytes
            ));
        }
        let physical_pages = pages as f64 * (1.0 + model.over_provisioning_share);
        // One more than the data take, so that there always is a block with garbage in it.
        let data_blocks =
            ((physical_pages / per_block as f64).ceil() as u64).max(pages.div_ceil(per_block) + 1);
        let blocks = data_blocks + RESERVE_BLOCKS;
        if blocks * per_block > 2 * PAGES_MAX {
            return Err(format!(
                "the ftl's map would have {pages} pages, and at most {PAGES_MAX} are modelled; \
                 take a smaller target or a larger page_bytes"
            ));
        }
        let (pages, blocks) = (pages as usize, blocks as usize);
        Ok(Ftl {
            page_bytes: model.page_bytes,
            pages_per_block: model.pages_per_block,
            physical_page: vec![NONE; pages],
            holds: vec![NONE; blocks * model.pages_per_block as usize],
            valid: vec![0; blocks],
            closed: BlocksByValidPages::new(blocks, model.pages_per_block),
            free: (1..blocks as u32).collect(),
            open: 0,
            open_filled: 0,
            owed: FlashWork::default(),
            written: FlashCounters::default(),
        })
    }

    /// Pages written so far.
    pub fn written(&self) -> FlashCounters {
        self.written
    }

    /// Reads; pages that were never written need no access to the flash.
    pub fn read(&self, offset_bytes: u64, length_bytes: u32) -> FlashWork {
        let pages = self.pages(offset_bytes, length_bytes);
        let read_pages = pages.filter(|&page| self.physical_page[page] != NONE).count() as u64;
        FlashWork { read_pages, ..FlashWork::default() }
    }

    /// Writes; a page that is written in part is read before.
    pub fn write(&mut self, offset_bytes: u64, length_bytes: u32) -> FlashWork {
        let mut work = FlashWork::default();
        let end_bytes = offset_bytes + u64::from(length_bytes);
        for page in self.pages(offset_bytes, length_bytes) {
            let start_bytes = page as u64 * self.page_bytes;
            let is_whole =
                offset_bytes <= start_bytes && start_bytes + self.page_bytes <= end_bytes;
            work.read_pages += u64::from(!is_whole && self.physical_page[page] != NONE);
            self.write_page(page as u32);
            work.programmed_pages += 1;
            work.copied_pages += self.owed.copied_pages;
            work.erased_blocks += self.owed.erased_blocks;
        }
        work
    }

    /// The logical pages of a request.
    fn pages(&self, offset_bytes: u64, length_bytes: u32) -> std::ops::Range<usize> {
        let end_bytes = offset_bytes + u64::from(length_bytes);
        let end = (end_bytes.div_ceil(self.page_bytes) as usize).min(self.physical_page.len());
        ((offset_bytes / self.page_bytes) as usize).min(end)..end
    }

    fn write_page(&mut self, page: u32) {
        let old = self.physical_page[page as usize];
        if old != NONE {
            self.holds[old as usize] = NONE;
            let block = old / self.pages_per_block;
            self.valid[block as usize] -= 1;
            if block != self.open {
                self.closed.lower(block, self.valid[block as usize]);
            }
        }
        if self.open_filled == self.pages_per_block {
            self.open_next();
        }
        self.append(page);
        self.written.host_pages += 1;
    }

    /// Puts a page at the end of the open block, which has room.
    fn append(&mut self, page: u32) {
        let physical_page = self.open * self.pages_per_block + self.open_filled;
        self.open_filled += 1;
        self.physical_page[page as usize] = physical_page;
        self.holds[physical_page as usize] = page;
        self.valid[self.open as usize] += 1;
        self.written.nand_pages += 1;
    }

    fn open_next(&mut self) {
        self.closed.put(self.open, self.valid[self.open as usize]);
        self.owed = FlashWork::default();
        // Never empty: taking the last one frees another.
        let Some(block) = self.free.pop_front() else { return };
        (self.open, self.open_filled) = (block, 0);
        if self.free.is_empty() {
            self.collect();
        }
    }

    /// Copies the valid pages of the emptiest block into the open one, which is empty, and erases
    /// it.
    fn collect(&mut self) {
        let Some(victim) = self.closed.take_lowest() else { return };
        let copied = self.valid[victim as usize];
        let first = victim * self.pages_per_block;
        for physical_page in first..first + self.pages_per_block {
            let page = std::mem::replace(&mut self.holds[physical_page as usize], NONE);
            if page != NONE {
                self.append(page);
            }
        }
        self.valid[victim as usize] = 0;
        self.free.push_back(victim);
        self.written.erased_blocks += 1;
        // More blocks are closed than the data fill, so at least one page of the emptiest is free.
        let room_pages = f64::from(self.pages_per_block - copied);
        self.owed = FlashWork {
            copied_pages: f64::from(copied) / room_pages,
            erased_blocks: 1.0 / room_pages,
            ..FlashWork::default()
        };
    }
}

/// The closed blocks by how many of their pages are valid: a list for each number, so that the
/// emptiest is found and a block moves down in constant time.
#[derive(Debug)]
struct BlocksByValidPages {
    first: Vec<u32>,
    last: Vec<u32>,
    next: Vec<u32>,
    previous: Vec<u32>,
    /// No list below this one holds a block.
    lowest: usize,
}

impl BlocksByValidPages {
    fn new(blocks: usize, pages_per_block: u32) -> BlocksByValidPages {
        let numbers = pages_per_block as usize + 1;
        BlocksByValidPages {
            first: vec![NONE; numbers],
            last: vec![NONE; numbers],
            next: vec![NONE; blocks],
            previous: vec![NONE; blocks],
            lowest: numbers,
        }
    }

    fn put(&mut self, block: u32, valid: u32) {
        let number = valid as usize;
        let last = std::mem::replace(&mut self.last[number], block);
        self.previous[block as usize] = last;
        self.next[block as usize] = NONE;
        match last {
            NONE => self.first[number] = block,
            _ => self.next[last as usize] = block,
        }
        self.lowest = self.lowest.min(number);
    }

    /// Moves a block whose valid pages have become one fewer: `valid`.
    fn lower(&mut self, block: u32, valid: u32) {
        self.remove(block, valid as usize + 1);
        self.put(block, valid);
    }

    fn remove(&mut self, block: u32, number: usize) {
        let (previous, next) = (self.previous[block as usize], self.next[block as usize]);
        match previous {
            NONE => self.first[number] = next,
            _ => self.next[previous as usize] = next,
        }
        match next {
            NONE => self.last[number] = previous,
            _ => self.previous[next as usize] = previous,
        }
    }

    /// Takes the emptiest block; of several the one that has been so for longest.
    fn take_lowest(&mut self) -> Option<u32> {
        while self.lowest < self.first.len() {
            let block = self.first[self.lowest];
            if block != NONE {
                self.remove(block, self.lowest);
                return Some(block);
            }
            self.lowest += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests;

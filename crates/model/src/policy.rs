//! Replacement policies, one file each, behind one trait.
//!
//! Each policy counts blocks of one size. Sources are named in each file.

mod arc;
mod arc_pinned;
mod belady;
mod clock;
mod clock_sweep;
mod lirs;
mod queue;
mod s3_fifo;
mod sieve;
#[cfg(test)]
mod tests;
mod tiny_lfu;
mod two_lists;
mod two_q;

pub use arc::Arc;
pub use arc_pinned::ArcPinned;
pub use belady::Belady;
pub use clock::Clock;
pub use clock_sweep::ClockSweep;
pub use lirs::Lirs;
pub use queue::Queue;
pub use s3_fifo::S3Fifo;
pub use sieve::Sieve;
pub use tiny_lfu::TinyLfu;
pub use two_lists::TwoLists;
pub use two_q::TwoQ;

use crate::accesses::{Access, Accesses};

/// The outcome of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The block was in the cache.
    Hit,
    /// It was not. The block that left the cache for it, if one did; the accessed block itself
    /// where the cache does not admit it.
    Miss {
        /// The block that left.
        evicted: Option<u32>,
    },
}

/// A cache with its replacement policy.
pub trait Policy {
    /// Accesses a block.
    fn access(&mut self, access: Access) -> Outcome;

    /// Accesses a block that the cache device behind memory holds, too.
    fn access_held(&mut self, access: Access) -> Outcome {
        self.access(access)
    }

    /// Sets the time of the next calls, if the policy depends on time.
    fn at(&mut self, _now_ns: u64) {}

    /// Notes that a block that was missed has been read, once the time was noted.
    fn arrived(&mut self, _block: u32) {}

    /// Notes that a cache device was added, which frees memory for a moment where it matters.
    fn device_added(&mut self) {}

    /// Changes the capacity; blocks leave if there are more. Where no feed reads it, nothing is
    /// changed: see [`Kind::has_order`].
    fn resize(&mut self, _capacity_blocks: usize) {}

    /// Returns whether a block is in the cache.
    fn holds(&self, block: u32) -> bool;

    /// Returns how many blocks are in the cache.
    fn len(&self) -> usize;

    /// Returns whether the cache is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the blocks that will leave next, at most `count` of each list: what a feed reads.
    ///
    /// None where the policy has no such order: see [`Kind::has_order`].
    fn leaving(&self, _count: usize) -> Vec<u32> {
        Vec::new()
    }

    /// Returns the newest blocks, at most the given number of each list.
    fn newest(&self, _count: usize) -> Vec<u32> {
        Vec::new()
    }

    /// Makes all accesses and returns how many of the reads were hits.
    fn hits_of(&mut self, accesses: &Accesses) -> u64 {
        let mut hits = 0;
        for index in 0..accesses.len() {
            let is_hit = self.access(accesses.access(index)) == Outcome::Hit;
            hits += u64::from(is_hit && !accesses.is_write(index));
        }
        hits
    }
}

/// Declares the policies: variant, name and description.
macro_rules! kinds {
    ($($kind:ident $name:literal $text:literal,)*) => {
        /// A policy, by its name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Kind {
            $(#[doc = $text] $kind,)*
        }

        impl Kind {
            /// All of them.
            pub const ALL: &'static [Kind] = &[$(Kind::$kind,)*];

            /// Returns the name that a user types.
            pub fn name(self) -> &'static str {
                match self { $(Kind::$kind => $name,)* }
            }

            /// Returns its description.
            pub fn text(self) -> &'static str {
                match self { $(Kind::$kind => $text,)* }
            }

            /// Returns the policy of a name.
            pub fn of_name(name: &str) -> Option<Kind> {
                Kind::ALL.iter().copied().find(|kind| kind.name() == name)
            }
        }
    };
}

kinds! {
    Lru "lru" "Evicts the least recently used block.",
    Fifo "fifo" "First in, first out.",
    Clock "clock" "FIFO with a second chance for blocks that were used.",
    TwoQ "2q" "2Q: a queue for new blocks, LRU for those that are used again.",
    Arc "arc" "ARC: LRU for blocks used once and for blocks used often, balanced by ghosts.",
    ArcPinned "arc-pinned" "ARC of zfs-fuse 0.7: a fixed target, which starves blocks used often.",
    Lirs "lirs" "LIRS: blocks with a short reuse distance stay.",
    Sieve "sieve" "SIEVE: fifo with a hand that spares used blocks in place.",
    S3Fifo "s3-fifo" "S3-FIFO: a small queue for new blocks, a main one, ghosts.",
    TinyLfu "w-tinylfu" "W-TinyLFU: a block is admitted if it is used more often than its victim.",
    Belady "belady" "The optimum: evicts the block whose next use is farthest.",
    ClockSweep "postgresql" "PostgreSQL's shared buffers: clock sweep, rings for scans.",
    TwoLists "linux" "Linux's page cache: an inactive and an active list.",
}

impl Kind {
    /// Returns whether it knows which blocks will leave next, which a feed reads.
    pub fn has_order(self) -> bool {
        matches!(self, Kind::Lru | Kind::Fifo | Kind::Arc | Kind::ArcPinned)
    }

    /// Makes an empty cache for accesses.
    ///
    /// # Panics
    ///
    /// When `capacity_blocks` is 0: a cache of nothing has no policy.
    pub fn cache(
        self,
        capacity_blocks: usize,
        accesses: &Accesses,
        block_bytes: u32,
    ) -> Box<dyn Policy> {
        assert!(capacity_blocks > 0, "a cache of nothing has no policy");
        let blocks = accesses.different;
        match self {
            Kind::Lru => Box::new(Queue::new(capacity_blocks, blocks, true)),
            Kind::Fifo => Box::new(Queue::new(capacity_blocks, blocks, false)),
            Kind::Clock => Box::new(Clock::new(capacity_blocks, blocks)),
            Kind::TwoQ => Box::new(TwoQ::new(capacity_blocks, blocks)),
            Kind::Arc => Box::new(Arc::new(capacity_blocks, blocks)),
            Kind::ArcPinned => Box::new(ArcPinned::new(capacity_blocks, blocks)),
            Kind::Lirs => Box::new(Lirs::new(capacity_blocks, blocks)),
            Kind::Sieve => Box::new(Sieve::new(capacity_blocks, blocks)),
            Kind::S3Fifo => Box::new(S3Fifo::new(capacity_blocks, blocks)),
            Kind::TinyLfu => Box::new(TinyLfu::new(capacity_blocks, blocks)),
            Kind::Belady => Box::new(Belady::new(capacity_blocks, blocks, accesses.next_uses())),
            Kind::ClockSweep => Box::new(ClockSweep::new(capacity_blocks, blocks)),
            Kind::TwoLists => Box::new(TwoLists::new(capacity_blocks, blocks, block_bytes)),
        }
    }
}

//! Caches, simulated: what a cache of a size and a policy would serve of recorded accesses.
//!
//! | part | rule |
//! |---|---|
//! | [`accesses`] | what is accessed, by numbers without gaps |
//! | [`policy`] | what a cache keeps, one file a policy |
//! | [`page_cache`] | Linux's page cache with its readahead |
//! | [`curve`] | the hits of an LRU cache of every size, exact or from a sample |
//! | [`second_tier`] | a cache device behind memory: what gets there, and when |
//! | [`streams`] | sequential streams, which a cache device leaves to the disks |
//! | [`traced`] | what came of each single access |
//! | [`timed`] | memory, cache device and disk under a load, on a virtual clock |

pub mod accesses;
pub mod curve;
mod lists;
pub mod page_cache;
pub mod policy;
pub mod second_tier;
mod smq;
pub mod streams;
pub mod timed;
pub mod traced;

pub use accesses::{Access, Accesses};
pub use curve::Curve;
pub use policy::{Kind, Outcome, Policy};
pub use second_tier::{Admission, SecondTier};

//! Simulated caches: the hits of a cache of any size and policy on recorded accesses.
//!
//! | part | rule |
//! |---|---|
//! | [`accesses`] | accesses with consecutive block numbers |
//! | [`policy`] | replacement policies, one file each |
//! | [`page_cache`] | Linux's page cache with its readahead |
//! | [`curve`] | the hits of an LRU cache of every size, exact or from a sample |
//! | [`second_tier`] | a cache device behind memory, and its admission policy |
//! | [`streams`] | sequential streams, which bypass a cache device |
//! | [`traced`] | the outcome of each access |
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

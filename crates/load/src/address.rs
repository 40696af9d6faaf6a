//! Where requests go: one plan for a target, one cursor for each worker and access.
//!
//! The plan is what all workers share: the hot set, the ranking of blocks, and the position of
//! accesses that go through the range together. A cursor owns the rest, so that the hot path takes
//! no lock and allocates nothing.

mod grid;
pub mod one_pass;
mod ownership;
mod pattern;
mod permutation;

use rand_xoshiro::Xoshiro256PlusPlus;

pub use self::grid::Grid;
pub(crate) use self::grid::greatest_divisor;
pub use self::ownership::Ownership;
use self::pattern::Pattern;
pub use self::permutation::Permutation;
use crate::rng::stream;
use crate::spec::{AccessSpec, CellSpec, SpecError};

/// The address state that the workers of a cell share.
#[derive(Debug)]
pub struct AddressPlan {
    seed: u64,
    workers: u32,
    /// The grid whose blocks are divided among the workers; `None` if all workers share them.
    owned_grid: Option<Grid>,
    accesses: Vec<PlannedAccess>,
}

#[derive(Debug)]
struct PlannedAccess {
    start_bytes: u64,
    pattern: Pattern,
}

impl AddressPlan {
    /// Plans the addresses of every access of `spec`.
    ///
    /// # Errors
    ///
    /// [`SpecError`] when the range cannot hold the accesses; never for a specification as it was
    /// parsed, but for one whose threads were changed since.
    pub fn new(spec: &CellSpec) -> Result<Self, SpecError> {
        let grid = Grid::of(spec)?;
        let owned_grid = grid.filter(|_| spec.is_verifiable());
        let planner = Planner { spec, grid, owned_grid };
        let accesses = spec.accesses.iter().enumerate();
        let accesses = accesses.map(|(number, access)| planner.plan(number, access));
        Ok(Self {
            seed: spec.seed,
            workers: spec.threads,
            owned_grid,
            accesses: accesses.collect::<Result<_, _>>()?,
        })
    }

    /// Returns the cursors of `worker` (0 to threads - 1), one for each access, in their order.
    #[must_use]
    pub fn cursors(&self, worker: u32) -> Vec<AddressCursor> {
        let ownership = self.owned_grid.map(|grid| Ownership::new(grid, worker, self.workers));
        let accesses = self.accesses.iter().enumerate();
        accesses
            .map(|(number, access)| {
                let index = (number as u64) << 32 | u64::from(worker);
                AddressCursor {
                    rng: stream(self.seed, "address", index),
                    start_bytes: access.start_bytes,
                    pattern: match (&ownership, self.owned_grid) {
                        (Some(own), Some(grid)) => access
                            .pattern
                            .confined(own.own_grains() * grid.grain_bytes, grid.grain_bytes),
                        _ => access.pattern.clone(),
                    },
                    ownership,
                }
            })
            .collect()
    }
}

/// The properties of the cell that planning an access needs.
struct Planner<'a> {
    spec: &'a CellSpec,
    grid: Option<Grid>,
    owned_grid: Option<Grid>,
}

impl Planner<'_> {
    fn plan(&self, number: usize, access: &AccessSpec) -> Result<PlannedAccess, SpecError> {
        let range = self.spec.range;
        let refused = |problem: &str| SpecError::Refused {
            key: format!("accesses[{number}].address"),
            problem: problem.into(),
        };
        let end_bytes = range.start_bytes.saturating_add(range.length_bytes);
        let aligned_bytes = range.start_bytes.checked_next_multiple_of(access.align_bytes);
        let grid = if access.address.is_skewed() { self.grid } else { self.owned_grid };
        let start_bytes = grid.map(|grid| grid.start_bytes).or(aligned_bytes);
        let span = start_bytes.and_then(|start| Some((start, end_bytes.checked_sub(start)?)));
        let (start_bytes, span_bytes) = span.ok_or_else(|| refused("does not fit the range"))?;
        let scatter = grid.map(|grid| self.scatter(grid));
        let pattern = Pattern::new(access, span_bytes, grid, scatter, self.spec.seed)
            .ok_or_else(|| refused("has a share or an exponent that is out of bounds"))?;
        Ok(PlannedAccess { start_bytes, pattern })
    }

    /// The order of the grains by rank, which belongs to the target and the seed alone. Where each
    /// worker keeps to its own grains it orders as many as every one of them has: the hottest
    /// grain of each is then at the same index among its own.
    fn scatter(&self, grid: Grid) -> Permutation {
        let sharers = self.owned_grid.map_or(1, |_| u64::from(self.spec.threads));
        let seed = self.spec.hot_seed.unwrap_or(self.spec.seed);
        Permutation::new(grid.grains / sharers, seed)
    }
}

/// Where the requests of one worker and one access go.
#[derive(Debug)]
pub struct AddressCursor {
    rng: Xoshiro256PlusPlus,
    start_bytes: u64,
    pattern: Pattern,
    ownership: Option<Ownership>,
}

impl AddressCursor {
    /// Returns the offset on the target of the next request, of `length_bytes`, which must be one
    /// of the access's block sizes. The request is wholly within the range. `None` after the end of
    /// a finite pattern.
    #[inline]
    pub fn next(&mut self, length_bytes: u64) -> Option<u64> {
        let position_bytes = self.pattern.next(&mut self.rng, length_bytes)?;
        Some(match &self.ownership {
            None => self.start_bytes + position_bytes,
            Some(ownership) => ownership.offset_bytes(position_bytes, length_bytes),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;

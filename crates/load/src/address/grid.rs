//! The grid: what a block is, where all accesses of a target must agree on it.

use crate::spec::{AccessSpec, CellSpec, SpecError};

/// A range cut into grains of equal length, none of which is left by a single request.
///
/// Accesses of different block sizes have different blocks, so "this block is hot" and "this block
/// is mine" would mean something else to each of them. A grain is as long as the longest of their
/// blocks, rounded up so that each alignment divides it: the smallest unit on which they agree.
/// With one block size, grain and block are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Where the first grain begins.
    pub start_bytes: u64,
    /// Length of a grain.
    pub grain_bytes: u64,
    /// How many whole grains the range has; at least one.
    pub grains: u64,
}

impl Grid {
    /// Returns the grid on which the accesses of `spec` must agree: all of them where the data is
    /// verifiable, else those that prefer some blocks; `None` when there are none of these.
    ///
    /// # Errors
    ///
    /// [`SpecError`] when the range is shorter than a grain, or has fewer of them than there are
    /// threads that must keep to their own.
    pub fn of(spec: &CellSpec) -> Result<Option<Self>, SpecError> {
        let agreeing: Vec<&AccessSpec> = spec
            .accesses
            .iter()
            .filter(|access| spec.is_verifiable() || access.address.is_skewed())
            .collect();
        if agreeing.is_empty() {
            return Ok(None);
        }
        let refused = |problem| SpecError::Refused { key: "range.length_bytes".into(), problem };
        let grid = Self::try_of(spec, &agreeing).filter(|grid| grid.grains > 0);
        let grid = grid.ok_or_else(|| {
            refused(format!(
                "is {}, which is too short for a grain that the sizes and alignments of all \
                 accesses divide; enlarge the range or choose sizes that divide each other",
                spec.range.length_bytes
            ))
        })?;
        if spec.is_verifiable() && grid.grains < u64::from(spec.threads) {
            return Err(refused(format!(
                "has room for {} blocks of {} bytes; verifiable data needs one for each of the {} \
                 threads, as each keeps to its own",
                grid.grains, grid.grain_bytes, spec.threads
            )));
        }
        Ok(Some(grid))
    }

    fn try_of(spec: &CellSpec, agreeing: &[&AccessSpec]) -> Option<Self> {
        let align_bytes =
            agreeing.iter().try_fold(1, |bytes, access| common(bytes, access.align_bytes))?;
        let size_bytes_max = agreeing.iter().map(|access| access.size_bytes_max()).max()?;
        let grain_bytes = size_bytes_max.checked_next_multiple_of(align_bytes)?;
        let start_bytes = spec.range.start_bytes.checked_next_multiple_of(align_bytes)?;
        let end_bytes = spec.range.start_bytes.checked_add(spec.range.length_bytes)?;
        let grains = end_bytes.checked_sub(start_bytes)?.checked_div(grain_bytes)?;
        Some(Self { start_bytes, grain_bytes, grains })
    }
}

/// Returns the least common multiple; `None` when it is past 64 bits or one of them is 0.
fn common(left: u64, right: u64) -> Option<u64> {
    left.checked_div(greatest_divisor(left, right))?.checked_mul(right).filter(|&least| least > 0)
}

/// Returns the greatest common divisor (Euclid); the other one where one is 0.
pub(crate) fn greatest_divisor(mut left: u64, mut right: u64) -> u64 {
    while right > 0 {
        (left, right) = (right, left % right);
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::tests::spec_with;

    fn grid(accesses: &str, range: &str) -> Option<Grid> {
        Grid::of(&spec_with(accesses, range, 1, "random")).unwrap()
    }

    const ZIPF: &str = r#"{"kind": "zipf", "theta": 1}"#;

    fn access(size_bytes: u64, align_bytes: u64, address: &str) -> String {
        format!(
            r#"{{"operation": "read", "sizes": [{{"bytes": {size_bytes}}}],
                "align_bytes": {align_bytes}, "address": {address}}}"#
        )
    }

    #[test]
    fn a_single_size_is_its_own_grain() {
        let range = r#"{"start_bytes": 0, "length_bytes": 1000000}"#;
        let expected = Grid { start_bytes: 0, grain_bytes: 8192, grains: 122 };
        assert_eq!(grid(&access(8192, 8192, ZIPF), range), Some(expected));
        assert_eq!(grid(&access(8192, 512, ZIPF), range), Some(expected));
    }

    #[test]
    fn different_sizes_share_the_longest() {
        let both = format!("{}, {}", access(4096, 4096, ZIPF), access(12288, 2048, ZIPF));
        let range = r#"{"start_bytes": 100, "length_bytes": 1000000}"#;
        let expected = Grid { start_bytes: 4096, grain_bytes: 12288, grains: 81 };
        assert_eq!(grid(&both, range), Some(expected));
    }

    #[test]
    fn only_accesses_that_prefer_blocks_count() {
        let random = access(1 << 20, 4096, r#"{"kind": "random"}"#);
        let range = r#"{"start_bytes": 0, "length_bytes": 1048576}"#;
        assert_eq!(grid(&random, range), None);
        let both = format!("{random}, {}", access(4096, 4096, ZIPF));
        let expected = Grid { start_bytes: 0, grain_bytes: 4096, grains: 256 };
        assert_eq!(grid(&both, range), Some(expected));
    }

    #[test]
    fn a_range_without_a_whole_grain_is_refused_at_the_door() {
        let both = format!("{}, {}", access(12288, 4096, ZIPF), access(8192, 8192, ZIPF));
        let json = crate::address::tests::spec_json(
            &both,
            r#"{"start_bytes": 0, "length_bytes": 12288}"#,
            1,
            "random",
        );
        let error = CellSpec::parse(&json).unwrap_err().to_string();
        assert!(error.starts_with("range.length_bytes is 12288, which is too short"), "{error}");
    }
}

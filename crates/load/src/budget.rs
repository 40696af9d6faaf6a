//! What a cell may still do before one of its limits ends it, shared by its workers.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::spec::LimitSpec;

/// What is left of a cell's limits in operations and bytes.
#[derive(Debug)]
pub struct Budget {
    operations: Option<AtomicI64>,
    bytes: Option<AtomicI64>,
}

impl Budget {
    /// The whole of the limits.
    pub fn new(limit: &LimitSpec) -> Budget {
        let counter = |limit: u64| AtomicI64::new(i64::try_from(limit).unwrap_or(i64::MAX));
        Budget { operations: limit.operations.map(counter), bytes: limit.bytes.map(counter) }
    }

    /// Takes one operation of this length; false when a limit is reached.
    #[inline]
    pub fn take(&self, length_bytes: u32) -> bool {
        take(&self.operations, 1) && take(&self.bytes, i64::from(length_bytes))
    }
}

#[inline]
fn take(left: &Option<AtomicI64>, amount: i64) -> bool {
    left.as_ref().is_none_or(|left| left.fetch_sub(amount, Ordering::Relaxed) >= amount)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whichever_limit_comes_first_ends_it() {
        let budget =
            Budget::new(&LimitSpec { duration_s: 1.0, bytes: Some(1000), operations: Some(3) });
        assert!(budget.take(400) && budget.take(400));
        assert!(!budget.take(400), "the bytes are used up");
        let budget = Budget::new(&LimitSpec { duration_s: 1.0, bytes: None, operations: Some(1) });
        assert!(budget.take(1) && !budget.take(1));
    }
}

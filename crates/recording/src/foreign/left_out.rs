//! Records that a reader left out, counted by reason.

/// Counts by reason, in the order in which reasons appear.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OmissionCounts {
    counts: Vec<(&'static str, u64)>,
}

impl OmissionCounts {
    /// Adds to the count of a reason.
    pub fn count(&mut self, reason: &'static str, count: u64) {
        if count == 0 {
            return;
        }
        match self.counts.iter_mut().find(|(name, _)| *name == reason) {
            Some((_, sum)) => *sum += count,
            None => self.counts.push((reason, count)),
        }
    }

    /// Returns reasons and counts.
    pub fn counts(&self) -> &[(&'static str, u64)] {
        &self.counts
    }
}

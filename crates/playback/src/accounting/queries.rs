//! Statements by fingerprint: counts, times and rows, in bounded memory.
//!
//! Times are of statements that succeeded: an error comes back before the work is done, or long
//! after (`statement_timeout`), and says nothing about the query. The requested number of
//! fingerprints is counted separately; when another one comes, the half that took the least time is
//! dropped, and only counted.

use std::collections::{BTreeMap, HashMap};

use seatrial_pgwire::answer::Answer;
use seatrial_sqltext::lexer::class::Class;

use super::coarse::Coarse;
use super::{SentOutcome, Times};
use crate::divergence::Expectation;
use crate::identity_hash::HashBuilder;
use crate::item::Item;
use crate::played::{Query, QueryCounts};

/// Maximum length of a text that is shown.
pub const TEXT_BYTES_MAX: usize = 1 << 10;

/// Memory for the histograms of all fingerprints together.
const BUDGET_BYTES: usize = 4 << 20;

/// Buckets are never wider than a quarter of their time.
const SHIFT_MAX: u32 = 5;

#[derive(Debug)]
struct QueryStats {
    text: String,
    class: Class,
    expectation: Expectation,
    ok: u64,
    failed: u64,
    rows: u64,
    service_ns_sum: u64,
    captured_ns_sum: u64,
    service: Coarse,
    response: Coarse,
    captured: Coarse,
}

/// The statistics of all fingerprints that were sent.
#[derive(Debug)]
pub struct Queries {
    by_fingerprint: HashMap<u64, QueryStats, HashBuilder>,
    fingerprints_max: usize,
    budget_bytes: usize,
    bytes: usize,
    shift: u32,
    dropped: u64,
}

impl Queries {
    pub fn new(fingerprints_max: usize) -> Queries {
        Queries::with_budget(fingerprints_max, BUDGET_BYTES)
    }

    fn with_budget(fingerprints_max: usize, budget_bytes: usize) -> Queries {
        Queries {
            by_fingerprint: HashMap::default(),
            fingerprints_max: fingerprints_max.max(2),
            budget_bytes,
            bytes: 0,
            shift: 0,
            dropped: 0,
        }
    }

    /// Counts a statement that ended; returns the expectation for its text.
    #[inline]
    pub fn take(&mut self, item: &Item, outcome: SentOutcome<'_>, times: &Times) -> Expectation {
        let stats = match self.by_fingerprint.get_mut(&item.fingerprint) {
            Some(stats) => stats,
            None => {
                let entry = self.new_entry(item);
                self.by_fingerprint.entry(item.fingerprint).or_insert(entry)
            }
        };
        if let Some(answer) = outcome.ok() {
            self.bytes += stats.answered_well(item, answer, times, self.shift);
        } else {
            stats.failed += 1;
        }
        if let Some(duration_us) = item.duration_us {
            let duration_ns = duration_us.saturating_mul(1_000);
            stats.captured_ns_sum = stats.captured_ns_sum.saturating_add(duration_ns);
            self.bytes += stats.captured.record(duration_ns, self.shift);
        }
        let expectation = stats.expectation;
        if self.bytes > self.budget_bytes {
            self.widen_buckets();
        }
        expectation
    }

    #[cold]
    fn new_entry(&mut self, item: &Item) -> QueryStats {
        if self.by_fingerprint.len() >= self.fingerprints_max {
            self.evict();
        }
        let (text, expectation) = Expectation::of(&item.sql);
        QueryStats {
            text: shown(&text),
            class: item.class,
            expectation,
            ok: 0,
            failed: 0,
            rows: 0,
            service_ns_sum: 0,
            captured_ns_sum: 0,
            service: Coarse::default(),
            response: Coarse::default(),
            captured: Coarse::default(),
        }
    }

    /// Evicts the half with the least time, then with the fewest statements.
    fn evict(&mut self) {
        let weight = |stats: &QueryStats| (stats.service_ns_sum, stats.ok + stats.failed);
        let mut ranked: Vec<_> =
            self.by_fingerprint.iter().map(|(&hash, stats)| (weight(stats), hash)).collect();
        ranked.sort_unstable();
        for (_, hash) in &ranked[..ranked.len() / 2] {
            if let Some(stats) = self.by_fingerprint.remove(hash) {
                self.dropped += stats.ok + stats.failed;
                self.bytes -= stats.memory_bytes();
            }
        }
    }

    #[cold]
    fn widen_buckets(&mut self) {
        while self.bytes > self.budget_bytes && self.shift < SHIFT_MAX {
            self.shift += 1;
            for stats in self.by_fingerprint.values_mut() {
                stats.service.halve();
                stats.response.halve();
                stats.captured.halve();
            }
            self.bytes = self.by_fingerprint.values().map(QueryStats::memory_bytes).sum();
        }
    }

    /// Bytes of all counts of times.
    #[cfg(test)]
    pub fn memory_bytes(&self) -> usize {
        self.bytes
    }

    /// Histograms by fingerprint, encoded.
    pub fn counts(&self) -> BTreeMap<String, QueryCounts> {
        let of = |(&hash, stats): (&u64, &QueryStats)| {
            let [service, response, captured] = [&stats.service, &stats.response, &stats.captured]
                .map(|coarse| coarse.histogram(self.shift).encode());
            (named(hash), QueryCounts { service, response, captured })
        };
        self.by_fingerprint.iter().map(of).collect()
    }

    /// Fingerprints by time, the most first, and the number of statements of evicted ones.
    pub fn finish(self) -> (Vec<Query>, u64) {
        let shift = self.shift;
        let mut queries: Vec<Query> = self
            .by_fingerprint
            .into_iter()
            .map(|(hash, stats)| stats.reported(hash, shift))
            .collect();
        let weight = |query: &Query| (query.service_ns_sum, query.ok + query.failed);
        queries.sort_by(|one, other| {
            weight(other).cmp(&weight(one)).then_with(|| one.text.cmp(&other.text))
        });
        (queries, self.dropped)
    }
}

impl QueryStats {
    #[inline]
    fn answered_well(&mut self, item: &Item, answer: &Answer, times: &Times, shift: u32) -> usize {
        debug_assert_eq!(self.class, item.class);
        self.ok += 1;
        self.rows += answer.rows.unwrap_or(0);
        let service_ns = times.service_ns();
        self.service_ns_sum = self.service_ns_sum.saturating_add(service_ns);
        self.service.record(service_ns, shift) + self.response.record(times.response_ns(), shift)
    }

    fn memory_bytes(&self) -> usize {
        [&self.service, &self.response, &self.captured].map(Coarse::memory_bytes).iter().sum()
    }

    fn reported(self, hash: u64, shift: u32) -> Query {
        let service = |percent| self.service.percentile_ns(percent, shift);
        let response = |percent| self.response.percentile_ns(percent, shift);
        let captured = |percent| self.captured.percentile_ns(percent, shift);
        Query {
            fingerprint: named(hash),
            class: self.class.name().to_owned(),
            ok: self.ok,
            failed: self.failed,
            service_ns_sum: self.service_ns_sum,
            service_ns_p50: service(50.0),
            service_ns_p95: service(95.0),
            service_ns_p99: service(99.0),
            service_ns_max: self.service.max_ns(),
            response_ns_p50: response(50.0),
            response_ns_p99: response(99.0),
            captured_known: self.captured.entries(),
            captured_ns_sum: self.captured_ns_sum,
            captured_ns_p50: captured(50.0),
            captured_ns_p95: captured(95.0),
            captured_ns_p99: captured(99.0),
            rows: self.rows,
            text: self.text,
        }
    }
}

/// A fingerprint's hash as reported.
fn named(hash: u64) -> String {
    format!("{hash:016x}")
}

/// The beginning of a text.
pub fn shown(text: &str) -> String {
    if text.len() <= TEXT_BYTES_MAX {
        return text.to_owned();
    }
    let end = (0..=TEXT_BYTES_MAX).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    format!("{} ...", &text[..end])
}

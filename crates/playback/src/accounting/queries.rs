//! Statements by fingerprint: counts, times, rows, in a bounded room.
//!
//! Times are of statements that succeeded: an error comes back before the work is done, or long
//! after (`statement_timeout`), and says nothing about the query. The requested number of
//! fingerprints is counted separately; when another one comes, the half that took the least time is
//! dropped, and only counted.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use seatrial_pgwire::answer::Answer;
use seatrial_sqltext::lexer::class::Class;

use super::coarse::Coarse;
use super::{Times, Verdict};
use crate::divergence::Expectation;
use crate::item::Item;
use crate::played::{Query, QueryCounts};

/// Of a text more is not shown.
pub const TEXT_BYTES_MAX: usize = 1 << 10;

/// Room for the counts of times of all fingerprints together.
const BUDGET_BYTES: usize = 4 << 20;

/// Buckets are never wider than a quarter of their time.
const SHIFT_MAX: u32 = 5;

/// A fingerprint is a hash already.
#[derive(Debug, Default)]
pub struct AsItIs(u64);

impl Hasher for AsItIs {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// What is known of a fingerprint.
#[derive(Debug)]
struct Kept {
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

/// All fingerprints that were sent.
#[derive(Debug)]
pub struct Queries {
    kept: HashMap<u64, Kept, BuildHasherDefault<AsItIs>>,
    kept_max: usize,
    budget_bytes: usize,
    bytes: usize,
    shift: u32,
    dropped: u64,
}

impl Queries {
    /// None yet, and of so many at most.
    pub fn new(kept_max: usize) -> Queries {
        Queries::with_budget(kept_max, BUDGET_BYTES)
    }

    fn with_budget(kept_max: usize, budget_bytes: usize) -> Queries {
        Queries {
            kept: HashMap::default(),
            kept_max: kept_max.max(2),
            budget_bytes,
            bytes: 0,
            shift: 0,
            dropped: 0,
        }
    }

    /// Takes in a statement that ended; gives what its text lets expect.
    #[inline]
    pub fn take(&mut self, item: &Item, verdict: Verdict<'_>, times: &Times) -> Expectation {
        let kept = match self.kept.get_mut(&item.fingerprint) {
            Some(kept) => kept,
            None => {
                let begun = self.begin(item);
                self.kept.entry(item.fingerprint).or_insert(begun)
            }
        };
        if let Some(answer) = verdict.ok() {
            self.bytes += kept.answered_well(item, answer, times, self.shift);
        } else {
            kept.failed += 1;
        }
        if let Some(duration_us) = item.duration_us {
            let duration_ns = duration_us.saturating_mul(1_000);
            kept.captured_ns_sum = kept.captured_ns_sum.saturating_add(duration_ns);
            self.bytes += kept.captured.record(duration_ns, self.shift);
        }
        let expectation = kept.expectation;
        if self.bytes > self.budget_bytes {
            self.widen_buckets();
        }
        expectation
    }

    #[cold]
    fn begin(&mut self, item: &Item) -> Kept {
        if self.kept.len() >= self.kept_max {
            self.evict();
        }
        let (text, expectation) = Expectation::of(&item.sql);
        Kept {
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

    /// Lets the half go that took the least time; of equal time, with the fewest statements.
    fn evict(&mut self) {
        let weight = |kept: &Kept| (kept.service_ns_sum, kept.ok + kept.failed);
        let mut ranked: Vec<_> =
            self.kept.iter().map(|(&hash, kept)| (weight(kept), hash)).collect();
        ranked.sort_unstable();
        for (_, hash) in &ranked[..ranked.len() / 2] {
            if let Some(kept) = self.kept.remove(hash) {
                self.dropped += kept.ok + kept.failed;
                self.bytes -= kept.memory_bytes();
            }
        }
    }

    #[cold]
    fn widen_buckets(&mut self) {
        while self.bytes > self.budget_bytes && self.shift < SHIFT_MAX {
            self.shift += 1;
            for kept in self.kept.values_mut() {
                kept.service.halve();
                kept.response.halve();
                kept.captured.halve();
            }
            self.bytes = self.kept.values().map(Kept::memory_bytes).sum();
        }
    }

    /// Bytes of all counts of times.
    pub fn memory_bytes(&self) -> usize {
        self.bytes
    }

    /// Counts of times by fingerprint, as they are reported.
    pub fn counts(&self) -> BTreeMap<String, QueryCounts> {
        let of = |(&hash, kept): (&u64, &Kept)| {
            let [service, response, captured] = [&kept.service, &kept.response, &kept.captured]
                .map(|coarse| coarse.histogram(self.shift).encode());
            (named(hash), QueryCounts { service, response, captured })
        };
        self.kept.iter().map(of).collect()
    }

    /// Those that took the most time first, and how many statements are of none of them.
    pub fn finish(self) -> (Vec<Query>, u64) {
        let shift = self.shift;
        let mut queries: Vec<Query> =
            self.kept.into_iter().map(|(hash, kept)| kept.reported(hash, shift)).collect();
        let weight = |query: &Query| (query.service_ns_sum, query.ok + query.failed);
        queries.sort_by(|one, other| {
            weight(other).cmp(&weight(one)).then_with(|| one.text.cmp(&other.text))
        });
        (queries, self.dropped)
    }
}

impl Kept {
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

/// A fingerprint's hash as a report has it.
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

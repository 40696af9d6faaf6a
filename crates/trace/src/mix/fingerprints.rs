//! Statements by fingerprint, in bounded memory.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use seatrial_gauge::Histogram;
use seatrial_sqltext::lexer::class::Class;
use serde::Serialize;
use twox_hash::XxHash64;

use super::Sums;
use super::distribution::{Distribution, record_us};
use crate::Traced;

/// Limit of fingerprints counted separately at once. A histogram takes 10 to 40 KiB.
pub const TRACKED_MAX: usize = 2_000;

/// Of a fingerprint's text more is not shown.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// Statements of a fingerprint.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct FingerprintMix {
    /// The hash of the text, as 16 hexadecimal digits.
    pub fingerprint: String,
    /// The text, of which more than 4 KiB are cut off.
    pub text: String,
    pub class: Class,
    #[serde(flatten)]
    pub sums: Sums,
    pub latency: Distribution,
}

/// Statements whose fingerprints were not counted separately to the end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct EvictedStatements {
    /// How often a fingerprint was released; one that comes again may be so several times.
    #[serde(rename = "let_go")]
    pub evicted: u64,
    /// Their statements.
    pub calls: u64,
    pub total_us: u64,
}

/// What is known of each fingerprint.
pub(super) type ByFingerprint<T> = HashMap<u64, T, BuildHasherDefault<XxHash64>>;

/// What is known of a fingerprint while a trace is read.
struct Tracked {
    text: String,
    class: Class,
    sums: Sums,
    latency: Histogram,
}

/// The fingerprints of a trace while it is read.
#[derive(Default)]
pub struct Fingerprints {
    tracked: ByFingerprint<Tracked>,
    others: EvictedStatements,
}

impl Fingerprints {
    pub fn take(&mut self, traced: &Traced<'_>) {
        if self.tracked.len() >= TRACKED_MAX && !self.tracked.contains_key(&traced.fingerprint) {
            let weight = |one: &Tracked| (one.sums.total_us, one.sums.calls);
            evict(&mut self.tracked, &mut self.others, weight);
        }
        let tracked = self.tracked.entry(traced.fingerprint).or_insert_with(|| Tracked {
            text: shown(traced.text),
            class: traced.class,
            sums: Sums::default(),
            latency: Histogram::new(),
        });
        tracked.sums.add(traced);
        if let Some(duration_us) = traced.statement.duration_us {
            record_us(&mut tracked.latency, duration_us);
        }
    }

    /// All that were kept, those with the most time first, and the others.
    pub fn finish(self) -> (Vec<FingerprintMix>, EvictedStatements) {
        let mut kept: Vec<FingerprintMix> = self
            .tracked
            .into_iter()
            .map(|(hash, tracked)| FingerprintMix {
                fingerprint: format!("{hash:016x}"),
                text: tracked.text,
                class: tracked.class,
                sums: tracked.sums,
                latency: Distribution::of(&tracked.latency),
            })
            .collect();
        let weight = |one: &FingerprintMix| (one.sums.total_us, one.sums.calls);
        kept.sort_by(|one, other| weight(other).cmp(&weight(one)).then(one.text.cmp(&other.text)));
        (kept, self.others)
    }
}

/// Puts the half with the least time, and of equal time the fewest statements, to the others.
/// `weight` is a fingerprint's time (us) and its statements.
pub(super) fn evict<T>(
    tracked: &mut ByFingerprint<T>,
    others: &mut EvictedStatements,
    weight: impl Fn(&T) -> (u64, u64),
) {
    let mut ranked: Vec<_> = tracked.iter().map(|(&hash, one)| (weight(one), hash)).collect();
    ranked.sort_unstable();
    for ((total_us, calls), hash) in &ranked[..ranked.len() / 2] {
        tracked.remove(hash);
        others.evicted += 1;
        others.calls += calls;
        others.total_us = others.total_us.saturating_add(*total_us);
    }
}

/// The beginning of a text.
pub(super) fn shown(text: &[u8]) -> String {
    let beginning = &text[..text.len().min(TEXT_BYTES_MAX)];
    let mut shown = String::from_utf8_lossy(beginning).into_owned();
    if beginning.len() < text.len() {
        shown.push_str(" ...");
    }
    shown
}

//! The simulated device: when each request ends, and how. Deterministic from its seed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand_distr::{Distribution, Exp1};
use rand_xoshiro::Xoshiro256PlusPlus;
use seatrial_gauge::Operation;

use super::condition::Condition;
use super::ftl::FlashWork;
use super::model::{DeviceModel, FtlModel, Span};
use crate::engine::Request;
use crate::rng::stream;

const NS_PER_S: f64 = 1e9;
const NS_PER_US: f64 = 1e3;

/// A span in ns of virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanNs {
    /// When it begins.
    pub start_ns: u64,
    /// When it is over.
    pub end_ns: u64,
}

impl SpanNs {
    /// Spans in order of time, from the sample's start on.
    pub fn of(spans: &[Span], origin_ns: u64) -> Vec<SpanNs> {
        let to_ns = |span: &Span| {
            let start_ns = origin_ns + (span.start_s * NS_PER_S) as u64;
            SpanNs { start_ns, end_ns: start_ns + (span.length_s * NS_PER_S) as u64 }
        };
        let mut spans: Vec<SpanNs> = spans.iter().map(to_ns).collect();
        spans.sort_by_key(|span| span.start_ns);
        spans
    }

    /// Returns how much of it is between two times.
    pub fn overlap_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        self.end_ns.min(to_ns).saturating_sub(self.start_ns.max(from_ns))
    }
}

/// A device on virtual time.
#[derive(Debug)]
pub struct Device {
    model: DeviceModel,
    rng: Xoshiro256PlusPlus,
    origin_ns: u64,
    freezes: Vec<SpanNs>,
    channels_free_ns: BinaryHeap<Reverse<u64>>,
    condition: Condition,
    cached_at_ns: u64,
    tokens_at_ns: u64,
}

impl Device {
    /// A device in `condition` that is idle before `origin_ns`.
    pub fn new(model: DeviceModel, condition: Condition, seed: u64, origin_ns: u64) -> Device {
        let channels = (0..model.channels).map(|_| Reverse(origin_ns)).collect();
        Device {
            freezes: SpanNs::of(&model.freezes, origin_ns),
            rng: stream(seed, "device", 0),
            model,
            origin_ns,
            channels_free_ns: channels,
            condition,
            cached_at_ns: origin_ns,
            tokens_at_ns: origin_ns,
        }
    }

    /// Returns the condition of the device at `at_ns`, after the last request.
    pub fn into_condition(mut self, at_ns: u64) -> Condition {
        self.drain_cache(at_ns);
        self.refill_tokens(at_ns);
        self.condition
    }

    /// Serves a request that arrives at `at_ns`: when it ends, and its result.
    pub fn serve(&mut self, request: &Request, at_ns: u64) -> (u64, i32) {
        if self.is_gone(at_ns) {
            return (at_ns + 1_000, -libc::ENODEV);
        }
        let admitted_ns = self.admit(at_ns);
        let work = self.condition.flash_work(request);
        let end_ns = match self.cache_room_ns(request, work, admitted_ns) {
            Some(room_ns) => self.through_freezes(room_ns, self.cache_hit_ns()),
            None => self.through_a_channel(request, work, admitted_ns),
        };
        if self.is_gone(end_ns) {
            return (end_ns, -libc::ENODEV);
        }
        let failed = self.model.error_share > 0.0 && self.uniform() < self.model.error_share;
        (end_ns, if failed { -self.model.errno } else { request.length_bytes as i32 })
    }

    fn is_gone(&self, at_ns: u64) -> bool {
        let gone_at = self.model.vanishes_at_s.map(|at_s| (at_s * NS_PER_S) as u64);
        gone_at.is_some_and(|gone_ns| at_ns >= self.origin_ns + gone_ns)
    }

    /// Waits for a token where the device gives credit.
    fn admit(&mut self, at_ns: u64) -> u64 {
        let Some(burst) = self.model.burst else { return at_ns };
        self.refill_tokens(at_ns);
        self.condition.tokens -= 1.0;
        if self.condition.tokens >= 0.0 {
            return at_ns;
        }
        at_ns + (-self.condition.tokens / burst.refill_per_s * NS_PER_S) as u64
    }

    fn refill_tokens(&mut self, at_ns: u64) {
        let since_s = at_ns.saturating_sub(self.tokens_at_ns) as f64 / NS_PER_S;
        self.condition.refill_tokens(&self.model, since_s);
        self.tokens_at_ns = self.tokens_at_ns.max(at_ns);
    }

    /// When the write cache has room for a request; `None` when it bypasses the cache. What the
    /// flash copies meanwhile goes through the same stream that empties the cache.
    fn cache_room_ns(&mut self, request: &Request, work: FlashWork, at_ns: u64) -> Option<u64> {
        let cache = self.model.write_cache.filter(|_| request.operation == Operation::Write)?;
        self.drain_cache(at_ns);
        let page_bytes = self.model.ftl.map_or(0, |ftl| ftl.page_bytes) as f64;
        self.condition.cached_bytes +=
            f64::from(request.length_bytes) + work.copied_pages * page_bytes;
        let over_bytes = self.condition.cached_bytes - cache.size_bytes as f64;
        let wait_s = (over_bytes / cache.drain_bytes_per_s).max(0.0);
        Some(at_ns + (wait_s * NS_PER_S) as u64)
    }

    fn drain_cache(&mut self, at_ns: u64) {
        let since_s = at_ns.saturating_sub(self.cached_at_ns) as f64 / NS_PER_S;
        self.condition.drain_cache(&self.model, since_s);
        self.cached_at_ns = self.cached_at_ns.max(at_ns);
    }

    fn cache_hit_ns(&self) -> u64 {
        self.model.write_cache.map_or(0, |cache| (cache.hit_us * NS_PER_US) as u64)
    }

    fn through_a_channel(&mut self, request: &Request, work: FlashWork, at_ns: u64) -> u64 {
        let Reverse(free_ns) = self.channels_free_ns.pop().unwrap_or(Reverse(at_ns));
        let service_ns = self.service_ns(request, work);
        let end_ns = self.through_freezes(at_ns.max(free_ns), service_ns);
        self.channels_free_ns.push(Reverse(end_ns));
        end_ns
    }

    fn service_ns(&mut self, request: &Request, work: FlashWork) -> u64 {
        let kib = f64::from(request.length_bytes) / 1024.0;
        let linear = |time: super::model::ServiceTime| time.base_us + time.per_kib_us * kib;
        let base_us = match request.operation {
            Operation::Read => linear(self.model.read),
            Operation::Write => linear(self.model.write),
            Operation::Sync | Operation::Metadata => self.model.sync_us,
            Operation::Commit => linear(self.model.write) + self.model.sync_us,
            Operation::Copy => linear(self.model.read) + linear(self.model.write),
        };
        let base_us = base_us + self.model.ftl.map_or(0.0, |ftl| work_us(&ftl, work));
        let length_bytes = u64::from(request.length_bytes);
        let gap = self
            .model
            .gaps
            .iter()
            .find(|gap| gap.from_bytes <= length_bytes && length_bytes <= gap.to_bytes);
        let slowdown = gap.map_or(1.0, |gap| gap.slowdown_factor);
        let scatter: f64 =
            if self.model.noise_share > 0.0 { Exp1.sample(&mut self.rng) } else { 0.0 };
        (base_us * slowdown * (1.0 + self.model.noise_share * scatter) * NS_PER_US) as u64
    }

    /// Time does not pass for the device while it is frozen.
    fn through_freezes(&self, start_ns: u64, service_ns: u64) -> u64 {
        let (mut at_ns, mut left_ns) = (start_ns, service_ns);
        for freeze in &self.freezes {
            if freeze.end_ns <= at_ns {
                continue;
            }
            let before_ns = freeze.start_ns.saturating_sub(at_ns);
            if before_ns > left_ns {
                break;
            }
            left_ns -= before_ns;
            at_ns = freeze.end_ns;
        }
        at_ns + left_ns
    }

    fn uniform(&mut self) -> f64 {
        let scatter: f64 = Exp1.sample(&mut self.rng);
        (-scatter).exp()
    }
}

/// Time of the flash for a request's own pages and its share of the collection.
fn work_us(ftl: &FtlModel, work: FlashWork) -> f64 {
    let read_pages = work.read_pages as f64 + work.copied_pages;
    let programmed_pages = work.programmed_pages as f64 + work.copied_pages;
    read_pages * ftl.read_us + programmed_pages * ftl.program_us + work.erased_blocks * ftl.erase_us
}

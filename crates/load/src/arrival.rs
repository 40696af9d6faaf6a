//! When requests are due.
//!
//! A schedule is fixed before the first request and never waits for the target: a target that
//! freezes for three seconds owes three seconds of requests, and each of them counts its response
//! time from when it was due.

use std::sync::Arc;

use rand_distr::weighted::WeightedAliasIndex;
use rand_distr::{Distribution, Exp1};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

use crate::listed::{ListCursor, ListEntry};
use crate::rng::stream;
use crate::spec::{ArrivalSpec, BurstSpec, CellSpec};

const NS_PER_S: u128 = 1_000_000_000;
/// Rates are kept in whole millionths of a request per second, so that due times are exact.
const MILLION: u128 = 1_000_000;

/// The times at which the requests of one worker are due.
#[derive(Debug)]
pub struct Arrivals {
    start_ns: u64,
    due_ns: Option<u64>,
    schedule: Schedule,
}

#[derive(Debug)]
enum Schedule {
    Closed,
    EvenGroups(EvenGroups),
    Listed(ListCursor),
    RandomBatches(RandomBatches),
    RandomBursts(RandomBursts),
    ThinkTime(ThinkTime),
}

/// A pause after each request, or after each group of them.
#[derive(Debug)]
struct ThinkTime {
    rng: Xoshiro256PlusPlus,
    pause_ns_mean: f64,
    /// Whether each pause is as long as the mean; else lengths are random (exponential).
    is_even: bool,
    /// Requests of a group, which a pause follows when all have ended.
    burst: u64,
    /// Requests of the group that did not begin, and that did not end.
    to_begin: u64,
    to_end: u64,
    /// Length of the pause that follows the last group.
    drawn_ns: u64,
    /// By how much requests began late; later pauses are shortened by it, so that their mean holds
    /// although a thread wakes late.
    owed_ns: u64,
}

impl ThinkTime {
    fn new(rng: Xoshiro256PlusPlus, pause_s: f64, burst: u64, is_even: bool) -> Self {
        let burst = burst.max(1);
        let pause_ns_mean = pause_s * NS_PER_S as f64;
        let (to_begin, to_end) = (burst, burst);
        Self { rng, pause_ns_mean, is_even, burst, to_begin, to_end, drawn_ns: 0, owed_ns: 0 }
    }

    fn pause_ns(&mut self) -> u64 {
        let length = if self.is_even { 1.0 } else { exponential(&mut self.rng) };
        let pause_ns = (length * self.pause_ns_mean) as u64;
        let shortened_ns = pause_ns.saturating_sub(self.owed_ns);
        self.owed_ns -= pause_ns - shortened_ns;
        shortened_ns
    }
}

/// Batches at random, independent of each other: a compound Poisson process.
#[derive(Debug)]
struct RandomBatches {
    rng: Xoshiro256PlusPlus,
    /// Between two batches.
    gap_ns_mean: f64,
    /// Requests of a batch on average (geometric); 1 where each comes alone.
    batch_mean: f64,
    /// Beginning of the batch.
    elapsed_ns: f64,
    /// Requests of the batch that are still to come.
    left: u64,
}

impl RandomBatches {
    /// Returns the process of one of several workers; their sum is one of the summed rate.
    fn new(rng: Xoshiro256PlusPlus, rate_per_s: f64, burst: u64) -> Self {
        let batch_mean = burst.max(1) as f64;
        let gap_ns_mean = NS_PER_S as f64 * batch_mean / rate_per_s;
        Self { rng, gap_ns_mean, batch_mean, elapsed_ns: 0.0, left: 0 }
    }

    /// Goes on to the next request, and returns its time after the start.
    fn next_ns(&mut self) -> u64 {
        if self.left > 0 {
            self.left -= 1;
        } else {
            // A float, so that rounding affects the returned value but not the sum.
            self.elapsed_ns += exponential(&mut self.rng) * self.gap_ns_mean;
            self.left = self.requests() - 1;
        }
        self.elapsed_ns as u64
    }

    fn requests(&mut self) -> u64 {
        if self.batch_mean <= 1.0 {
            return 1;
        }
        // Geometric from 1: the exponential distribution in whole numbers.
        let scale = -1.0 / (-1.0 / self.batch_mean).ln_1p();
        1 + (exponential(&mut self.rng) * scale) as u64
    }
}

/// Bursts drawn from given ones, at random times.
#[derive(Debug)]
struct RandomBursts {
    rng: Xoshiro256PlusPlus,
    bursts: Vec<BurstSpec>,
    /// Draws one of them; none where all are of no use, which a specification is checked for.
    draws: Option<WeightedAliasIndex<f64>>,
    /// Between the beginnings of two bursts.
    gap_ns_mean: f64,
    /// Beginning of the burst.
    elapsed_ns: f64,
    /// When the request that is due is due.
    due_ns: f64,
    /// Burst, group in it, and number of the next request in that.
    next: (usize, usize, u64),
}

impl RandomBursts {
    /// Returns the process of one of several workers; their sum is one of the summed rate.
    fn new(rng: Xoshiro256PlusPlus, rate_per_s: f64, bursts: &[BurstSpec]) -> Self {
        let shares: Vec<f64> = bursts.iter().map(|burst| burst.share).collect();
        let all: f64 = shares.iter().sum();
        let size = |burst: &BurstSpec| -> u64 { burst.groups.iter().map(|g| g.requests).sum() };
        let mean: f64 =
            bursts.iter().map(|burst| burst.share * size(burst) as f64).sum::<f64>() / all;
        Self {
            rng,
            gap_ns_mean: NS_PER_S as f64 * mean / rate_per_s,
            bursts: bursts.to_vec(),
            draws: WeightedAliasIndex::new(shares).ok(),
            elapsed_ns: 0.0,
            due_ns: 0.0,
            next: (0, usize::MAX, 0),
        }
    }

    /// Goes on to the next request, and returns its time after the start.
    fn next_ns(&mut self) -> u64 {
        let (burst, group, number) = self.next;
        let groups = &self.bursts[burst].groups;
        if let Some(own) = groups.get(group).filter(|own| number < own.requests) {
            self.due_ns += own.spacing_s * NS_PER_S as f64;
            self.next.2 += 1;
        } else if group.checked_add(1).is_some_and(|next| next < groups.len()) {
            self.due_ns += groups[group].pause_s * NS_PER_S as f64;
            self.next = (burst, group + 1, 1);
        } else {
            self.elapsed_ns += exponential(&mut self.rng) * self.gap_ns_mean;
            // A burst that begins before the end of the last one waits for it.
            self.due_ns = self.elapsed_ns.max(self.due_ns);
            self.next = (self.draw(), 0, 1);
        }
        self.due_ns as u64
    }

    fn draw(&mut self) -> usize {
        self.draws.as_ref().map_or(0, |draws| draws.sample(&mut self.rng))
    }
}

/// Groups of requests, evenly spaced; the workers take turns request by request.
#[derive(Debug)]
struct EvenGroups {
    /// The number of the worker's next request among those of all workers.
    index: u64,
    workers: u64,
    /// Requests that are due together: 1 for a fixed rate.
    group: u64,
    /// The rate: requests in a million seconds.
    per_million_s: u128,
}

impl EvenGroups {
    /// Time after the start at which the next request is due. Each is computed from its number, so
    /// that no rounding adds up: it is exact to the ns below after any time.
    fn elapsed_ns(&self) -> u128 {
        let groups_before = u128::from(self.index / self.group);
        groups_before * u128::from(self.group) * (NS_PER_S * MILLION) / self.per_million_s
    }

    /// Goes on to the first request that is not due before this time after the start; returns how
    /// many were.
    fn skip_before(&mut self, elapsed_ns: u64) -> u64 {
        let group_span = u128::from(self.group) * (NS_PER_S * MILLION);
        let groups = (u128::from(elapsed_ns) * self.per_million_s).div_ceil(group_span);
        let end = saturated(groups * u128::from(self.group));
        let skipped = end.saturating_sub(self.index).div_ceil(self.workers);
        self.index += skipped * self.workers;
        skipped
    }
}

impl Arrivals {
    /// Returns the schedule of `worker`, one of `workers` that together fulfil `spec` from
    /// `start_ns` on.
    #[must_use]
    pub fn new(spec: &ArrivalSpec, worker: u32, workers: u32, seed: u64, start_ns: u64) -> Self {
        let even = |rate_per_s: f64, group: u64| {
            let per_million_s = (rate_per_s * MILLION as f64).round() as u128;
            Schedule::EvenGroups(EvenGroups {
                index: u64::from(worker),
                workers: u64::from(workers),
                group: group.max(1),
                per_million_s: per_million_s.max(1),
            })
        };
        let rng = || stream(seed, "arrival", u64::from(worker));
        let random = |rate_per_s: f64, burst: u64| {
            Schedule::RandomBatches(RandomBatches::new(
                rng(),
                rate_per_s / f64::from(workers),
                burst,
            ))
        };
        let schedule = match *spec {
            // The times of a list are not in the specification, nor those of streams: see
            // `of_list` and `of_worker`.
            ArrivalSpec::Closed {} | ArrivalSpec::Listed {} | ArrivalSpec::Streams {} => {
                Schedule::Closed
            }
            ArrivalSpec::Think { pause_s, burst, is_even } => {
                Schedule::ThinkTime(ThinkTime::new(rng(), pause_s, burst, is_even))
            }
            ArrivalSpec::Fixed { rate_per_s } => even(rate_per_s, 1),
            ArrivalSpec::Bursts { rate_per_s, burst } => even(rate_per_s, burst),
            ArrivalSpec::Poisson { rate_per_s } => random(rate_per_s, 1),
            ArrivalSpec::Batches { rate_per_s, burst } => random(rate_per_s, burst),
            ArrivalSpec::PoissonBursts { rate_per_s, ref bursts } => Schedule::RandomBursts(
                RandomBursts::new(rng(), rate_per_s / f64::from(workers), bursts),
            ),
        };
        Self::beginning(schedule, start_ns)
    }

    /// Returns the schedule of a worker of a cell: its stream's where it has streams.
    #[must_use]
    pub fn of_worker(spec: &CellSpec, worker: u32, start_ns: u64) -> Self {
        let (number, own) = spec.place_of(worker);
        match spec.streams.get(number) {
            None => Self::new(&spec.arrival, worker, spec.threads, spec.seed, start_ns),
            Some(found) => {
                let seed = stream(spec.seed, "stream", number as u64).next_u64();
                Self::new(&found.arrival, own, found.threads, seed, start_ns)
            }
        }
    }

    /// Returns the schedule of the requests of a list.
    #[must_use]
    pub fn of_list(list: Arc<[ListEntry]>, start_ns: u64) -> Self {
        Self::beginning(Schedule::Listed(ListCursor::new(list)), start_ns)
    }

    fn beginning(schedule: Schedule, start_ns: u64) -> Self {
        let mut arrivals = Self { start_ns, due_ns: None, schedule };
        arrivals.due_ns = arrivals.first_due_ns();
        arrivals
    }

    /// Returns when the next request is due, in ns of the clock that `start_ns` was of; `None` in a
    /// closed loop, where it is due as soon as there is room for it.
    #[inline]
    #[must_use]
    pub fn peek_ns(&self) -> Option<u64> {
        self.due_ns
    }

    /// Goes on to the request after the next; does nothing in a closed loop.
    #[inline]
    pub fn pop(&mut self) {
        let elapsed_ns = match &mut self.schedule {
            Schedule::Closed => return,
            Schedule::Listed(cursor) => {
                cursor.skip();
                self.due_ns = listed_ns(cursor, self.start_ns);
                return;
            }
            Schedule::EvenGroups(even) => {
                even.index += even.workers;
                saturated(even.elapsed_ns())
            }
            Schedule::RandomBatches(random) => random.next_ns(),
            Schedule::RandomBursts(drawn) => drawn.next_ns(),
            Schedule::ThinkTime(think) => {
                think.to_begin -= 1;
                if think.to_begin > 0 {
                    return;
                }
                // Not before all of this group have ended: see `ended`.
                u64::MAX
            }
        };
        self.due_ns = Some(self.start_ns.saturating_add(elapsed_ns));
    }

    /// Goes on past all requests that are due before `until_ns`; returns how many there were.
    pub fn skip_before(&mut self, until_ns: u64) -> u64 {
        if let Schedule::EvenGroups(even) = &mut self.schedule {
            let skipped = even.skip_before(until_ns.saturating_sub(self.start_ns));
            self.due_ns = Some(self.start_ns.saturating_add(saturated(even.elapsed_ns())));
            return skipped;
        }
        let mut skipped = 0;
        while self.due_ns.is_some_and(|due_ns| due_ns < until_ns) {
            self.pop();
            skipped += 1;
        }
        skipped
    }

    /// Tells that the request that is due begins at `now_ns`.
    #[inline]
    pub fn began(&mut self, now_ns: u64) {
        if let (Schedule::ThinkTime(think), Some(due_ns)) = (&mut self.schedule, self.due_ns) {
            // The rest of a group waits for room, not for its thread.
            if think.to_begin == think.burst {
                think.owed_ns += now_ns.saturating_sub(due_ns);
            }
        }
    }

    /// Tells that a request of the worker ended, at `at_ns` of the clock of `start_ns`: where
    /// pauses follow requests, one begins. A sync that follows a write is not its own request: it
    /// does not count to the group, but the pause after the group begins when it has ended.
    #[inline]
    pub fn ended(&mut self, at_ns: u64, is_own: bool) {
        let Schedule::ThinkTime(think) = &mut self.schedule else { return };
        if is_own {
            think.to_end -= 1;
            if think.to_end > 0 {
                return;
            }
            (think.to_begin, think.to_end) = (think.burst, think.burst);
            think.drawn_ns = think.pause_ns();
        } else if think.to_begin < think.burst || think.to_end < think.burst {
            return;
        }
        self.due_ns = Some(at_ns.saturating_add(think.drawn_ns));
    }

    /// Whether requests are due at times that the target does not decide.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !matches!(self.schedule, Schedule::Closed | Schedule::ThinkTime(_))
    }

    fn first_due_ns(&mut self) -> Option<u64> {
        match &mut self.schedule {
            Schedule::Closed => None,
            Schedule::Listed(cursor) => listed_ns(cursor, self.start_ns),
            Schedule::EvenGroups(even) => {
                Some(self.start_ns.saturating_add(saturated(even.elapsed_ns())))
            }
            Schedule::ThinkTime(think) => Some(self.start_ns.saturating_add(think.pause_ns())),
            // The first request of a random process comes after a gap like every other.
            Schedule::RandomBatches(_) | Schedule::RandomBursts(_) => {
                self.pop();
                self.due_ns
            }
        }
    }
}

/// Returns when the next request of a list is due; `None` behind its end.
fn listed_ns(cursor: &ListCursor, start_ns: u64) -> Option<u64> {
    cursor.peek().map(|next| start_ns.saturating_add(next.due_ns))
}

/// Draws from the exponential distribution of mean 1.
#[inline]
fn exponential(rng: &mut Xoshiro256PlusPlus) -> f64 {
    Exp1.sample(rng)
}

fn saturated(elapsed_ns: u128) -> u64 {
    u64::try_from(elapsed_ns).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::spec::GroupSpec;

    const START_NS: u64 = 1_000_000_007;

    /// All due times of all workers before `end_ns` (after the start), in order.
    fn all_due_ns(spec: ArrivalSpec, workers: u32, end_ns: u64) -> Vec<u64> {
        let mut due: Vec<u64> = (0..workers)
            .flat_map(|worker| {
                let mut arrivals = Arrivals::new(&spec, worker, workers, 7, START_NS);
                std::iter::from_fn(move || {
                    let due_ns = arrivals.peek_ns()? - START_NS;
                    arrivals.pop();
                    (due_ns < end_ns).then_some(due_ns)
                })
            })
            .collect();
        due.sort_unstable();
        due
    }

    #[test]
    fn a_closed_loop_has_no_schedule() {
        let mut arrivals = Arrivals::new(&ArrivalSpec::Closed {}, 0, 1, 7, START_NS);
        assert_eq!(arrivals.peek_ns(), None);
        arrivals.pop();
        assert_eq!(arrivals.peek_ns(), None);
    }

    #[test]
    fn fixed_is_even_over_all_workers() {
        let due = all_due_ns(ArrivalSpec::Fixed { rate_per_s: 1000.0 }, 7, 1_000_000_000);
        assert!(due.into_iter().eq((0..1000).map(|index| index * 1_000_000)));
    }

    #[test]
    fn peek_does_not_move_on() {
        let spec = ArrivalSpec::Fixed { rate_per_s: 10.0 };
        let mut arrivals = Arrivals::new(&spec, 1, 2, 7, START_NS);
        assert_eq!(arrivals.peek_ns(), Some(START_NS + 100_000_000));
        assert_eq!(arrivals.peek_ns(), Some(START_NS + 100_000_000));
        arrivals.pop();
        assert_eq!(arrivals.peek_ns(), Some(START_NS + 300_000_000));
    }

    #[test]
    fn fixed_does_not_drift_in_a_year() {
        // A third of a request per ns is not a whole number of ns at any rate of this kind.
        let spec = ArrivalSpec::Fixed { rate_per_s: 3_000.0 };
        let mut arrivals = Arrivals::new(&spec, 0, 1, 7, 0);
        let Schedule::EvenGroups(even) = &mut arrivals.schedule else { panic!("not even") };
        even.index = 3_000 * 31_536_000 - 1;
        arrivals.pop();
        assert_eq!(arrivals.peek_ns(), Some(31_536_000_000_000_000));
        arrivals.pop();
        assert_eq!(arrivals.peek_ns(), Some(31_536_000_000_333_333));
    }

    proptest! {
        #[test]
        fn fixed_counts_and_spacing_are_exact(
            per_million_s in 1_000_000_u64..100_000_000_000, workers in 1_u32..20,
        ) {
            let rate_per_s = per_million_s as f64 / 1e6;
            let due = all_due_ns(ArrivalSpec::Fixed { rate_per_s }, workers, 100_000_000);
            for (index, due_ns) in due.iter().enumerate() {
                let exact = index as u128 * 1_000_000_000_000_000 / u128::from(per_million_s);
                prop_assert_eq!(u128::from(*due_ns), exact);
            }
            let after = due.len() as u128 * 1_000_000_000_000_000 / u128::from(per_million_s);
            prop_assert!(after >= 100_000_000, "one is missing at {}", after);
        }

        #[test]
        fn bursts_of_all_workers_coincide(burst in 1_u64..200, workers in 1_u32..20) {
            let spec = ArrivalSpec::Bursts { rate_per_s: 10_000.0, burst };
            let due = all_due_ns(spec, workers, 1_000_000_000);
            for (number, together) in due.chunks(burst as usize).enumerate() {
                let due_ns = number as u64 * burst * 100_000;
                prop_assert_eq!(together.len() as u64, burst);
                prop_assert!(together.iter().all(|&due| due == due_ns));
            }
        }
    }

    proptest! {
        #[test]
        fn skipped_are_those_that_would_have_been_due(
            per_million_s in 1_000_000_u64..100_000_000_000, burst in 1_u64..50,
            worker in 0_u32..5, until_ns in 0_u64..20_000_000,
        ) {
            let rate_per_s = per_million_s as f64 / 1e6;
            let spec = ArrivalSpec::Bursts { rate_per_s, burst };
            let mut skipping = Arrivals::new(&spec, worker, 5, 7, START_NS);
            let mut popping = Arrivals::new(&spec, worker, 5, 7, START_NS);
            let until_ns = START_NS + until_ns;
            let mut popped = 0;
            while popping.peek_ns().is_some_and(|due_ns| due_ns < until_ns) {
                popping.pop();
                popped += 1;
            }
            prop_assert_eq!(skipping.skip_before(until_ns), popped);
            prop_assert_eq!(skipping.peek_ns(), popping.peek_ns());
        }
    }

    #[test]
    fn poisson_has_the_rate_and_the_gaps_of_theory() {
        for workers in [1, 8] {
            let spec = ArrivalSpec::Poisson { rate_per_s: 100_000.0 };
            let due = all_due_ns(spec, workers, 1_000_000_000);
            // Six standard deviations of a Poisson count of 100000.
            assert!(due.len().abs_diff(100_000) < 1900, "{} requests", due.len());
            let gaps: Vec<f64> =
                due.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 10_000.0).collect();
            for limit in [0.1, 0.5, 1.0, 2.0, 4.0] {
                let longer = gaps.iter().filter(|&&gap| gap > limit).count() as f64;
                let share = longer / gaps.len() as f64;
                assert!((share - (-limit).exp()).abs() < 0.01, "{share} longer than {limit}");
            }
        }
    }

    /// The index of dispersion of a compound Poisson process is that of its batches: E(n²) / E(n),
    /// of geometric sizes 2 n - 1 (Cox and Lewis, 1966).
    #[test]
    fn batches_have_the_rate_and_the_dispersion_of_theory() {
        for (burst, workers) in [(1, 1), (20, 1), (20, 8)] {
            let spec = ArrivalSpec::Batches { rate_per_s: 1e6, burst };
            let due = all_due_ns(spec, workers, 1_000_000_000);
            let mean = due.len() as f64 / 10_000.0;
            let index = index_of_dispersion(&due, 100_000, 10_000);
            let expected = 2.0 * burst as f64 - 1.0;
            assert!((mean / 100.0 - 1.0).abs() < 0.04, "{mean} of 100 a window");
            assert!((index / expected - 1.0).abs() < 0.12, "{index}, not {expected}");
        }
    }

    #[test]
    fn bursts_are_those_given_as_often_as_given_and_begin_at_random() {
        let group = |requests, spacing_s, pause_s| GroupSpec { requests, spacing_s, pause_s };
        let bursts = vec![
            BurstSpec { share: 3.0, groups: vec![group(30, 1e-6, 5e-5), group(20, 0.0, 0.0)] },
            BurstSpec { share: 1.0, groups: vec![group(50, 2e-6, 0.0)] },
        ];
        let spec = ArrivalSpec::PoissonBursts { rate_per_s: 1e5, bursts };
        let due = all_due_ns(spec, 1, 10_000_000_000);
        assert!((due.len() as f64 / 1e6 - 1.0).abs() < 0.05, "{} requests", due.len());
        let whole = due.chunks_exact(50);
        let of_two = |burst: &&[u64]| burst[1].abs_diff(burst[0]) < 1_500;
        let share = whole.clone().filter(of_two).count() as f64 / whole.len() as f64;
        assert!((share - 0.75).abs() < 0.02, "{share}");
        for burst in whole.clone() {
            let after = |number: u64| match of_two(&burst) {
                true if number < 30 => number * 1_000,
                true => 29_000 + 50_000,
                false => number * 2_000,
            };
            for (number, at_ns) in (0..).zip(burst) {
                assert!(at_ns.abs_diff(burst[0] + after(number)) < 2);
            }
        }
        let begins: Vec<u64> = whole.map(|burst| burst[0]).collect();
        let index = index_of_dispersion(&begins, 10_000_000, 1_000);
        assert!((0.8..1.2).contains(&index), "{index}, not 1 as of Poisson's");
    }

    #[test]
    fn a_pause_follows_a_group_when_all_of_it_have_ended() {
        let spec = ArrivalSpec::Think { pause_s: 0.5, burst: 3, is_even: true };
        let mut arrivals = Arrivals::new(&spec, 0, 1, 7, 0);
        assert_eq!(arrivals.peek_ns(), Some(500_000_000));
        for _ in 0..3 {
            assert_eq!(arrivals.peek_ns(), Some(500_000_000), "at once");
            arrivals.began(500_000_000);
            arrivals.pop();
        }
        for at_ns in [600_000_000, 610_000_000] {
            arrivals.ended(at_ns, true);
            assert_eq!(arrivals.peek_ns(), Some(u64::MAX), "one is in flight");
        }
        arrivals.ended(700_000_000, true);
        assert_eq!(arrivals.peek_ns(), Some(1_200_000_000));
    }

    #[test]
    fn a_sync_is_no_request_of_a_group_and_the_pause_follows_it() {
        let spec = ArrivalSpec::Think { pause_s: 0.5, burst: 2, is_even: true };
        let mut arrivals = Arrivals::new(&spec, 0, 1, 7, 0);
        for end_ns in [600_000_000, 800_000_000] {
            assert_eq!(arrivals.peek_ns(), Some(500_000_000), "each is due with the group");
            arrivals.began(500_000_000);
            arrivals.pop();
            arrivals.ended(end_ns, true);
            arrivals.ended(end_ns + 100_000_000, false);
        }
        assert_eq!(arrivals.peek_ns(), Some(1_400_000_000));
    }

    fn index_of_dispersion(due: &[u64], window_ns: u64, windows: usize) -> f64 {
        let mut counts = vec![0_f64; windows];
        due.iter().for_each(|due_ns| counts[(due_ns / window_ns) as usize] += 1.0);
        let mean = due.len() as f64 / windows as f64;
        counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / windows as f64 / mean
    }

    fn two_streams() -> CellSpec {
        let access = |stream: usize| {
            serde_json::json!({
                "stream": stream, "operation": "read", "align_bytes": 4096,
                "sizes": [{"bytes": 4096}], "address": {"kind": "random"},
            })
        };
        let batches =
            |burst| serde_json::json!({"kind": "batches", "rate_per_s": 1e5, "burst": burst});
        let spec = serde_json::json!({
            "seed": 7, "target": {"kind": "null", "size_bytes": 1 << 20},
            "range": {"start_bytes": 0, "length_bytes": 1 << 20},
            "accesses": [access(0), access(1)], "threads": 3, "depth": 4,
            "arrival": {"kind": "streams"},
            "streams": [
                {"threads": 2, "depth": 4, "arrival": batches(30)},
                {"threads": 1, "arrival": batches(4)},
            ],
            "limit": {"duration_s": 1},
        });
        CellSpec::parse(&spec.to_string()).unwrap()
    }

    #[test]
    fn streams_have_their_own_rates_and_dispersions_and_share_no_times() {
        let spec = two_streams();
        let due_of = |workers: std::ops::Range<u32>| {
            let mut due: Vec<u64> = workers
                .flat_map(|worker| {
                    let mut arrivals = Arrivals::of_worker(&spec, worker, 0);
                    std::iter::from_fn(move || {
                        let due_ns = arrivals.peek_ns()?;
                        arrivals.pop();
                        (due_ns < 10_000_000_000).then_some(due_ns)
                    })
                })
                .collect();
            due.sort_unstable();
            due
        };
        let (large, small) = (due_of(0..2), due_of(2..3));
        for (due, burst) in [(&large, 30.0), (&small, 4.0)] {
            assert!((due.len() as f64 / 1e6 - 1.0).abs() < 0.05, "{} requests", due.len());
            let index = index_of_dispersion(due, 1_000_000, 10_000);
            let expected = 2.0 * burst - 1.0;
            assert!((index / expected - 1.0).abs() < 0.12, "{index}, not {expected}");
        }
        assert!(large.iter().filter(|due_ns| small.binary_search(due_ns).is_ok()).count() < 2000);
    }

    #[test]
    fn a_pause_begins_when_a_request_has_ended() {
        let spec = ArrivalSpec::Think { pause_s: 0.002, burst: 1, is_even: false };
        let mut arrivals = Arrivals::new(&spec, 0, 1, 7, START_NS);
        assert!(!arrivals.is_open());
        let mut now_ns = START_NS;
        let mut paused_ns = 0;
        for _ in 0..20_000 {
            let due_ns = arrivals.peek_ns().unwrap();
            assert!(due_ns >= now_ns);
            paused_ns += due_ns - now_ns;
            arrivals.pop();
            assert_eq!(arrivals.peek_ns(), Some(u64::MAX), "none is due while one is in flight");
            now_ns = due_ns + 500_000;
            arrivals.ended(now_ns, true);
        }
        let mean_ns = paused_ns as f64 / 20_000.0;
        // Six standard deviations of a mean of exponential pauses.
        assert!((mean_ns / 2e6 - 1.0).abs() < 0.043, "{mean_ns}");
    }

    #[test]
    fn pauses_keep_their_mean_although_requests_begin_late() {
        let spec = ArrivalSpec::Think { pause_s: 0.002, burst: 1, is_even: false };
        let mut arrivals = Arrivals::new(&spec, 0, 1, 7, START_NS);
        let (mut ended_ns, mut paused_ns) = (START_NS, 0);
        for _ in 0..20_000 {
            let begin_ns = arrivals.peek_ns().unwrap() + 500_000;
            paused_ns += begin_ns - ended_ns;
            arrivals.began(begin_ns);
            arrivals.pop();
            ended_ns = begin_ns + 300_000;
            arrivals.ended(ended_ns, true);
        }
        let mean_ns = paused_ns as f64 / 20_000.0;
        assert!((mean_ns / 2e6 - 1.0).abs() < 0.043, "{mean_ns}");
    }

    #[test]
    fn poisson_workers_are_independent_and_repeatable() {
        let spec = ArrivalSpec::Poisson { rate_per_s: 1000.0 };
        let first = |worker| Arrivals::new(&spec, worker, 2, 7, START_NS).peek_ns();
        assert_eq!(first(0), first(0));
        assert_ne!(first(0), first(1));
        assert!(first(0) > Some(START_NS));
    }

    #[test]
    fn the_slowest_rate_reaches_past_any_run_without_overflow() {
        let spec = ArrivalSpec::Fixed { rate_per_s: 1e-6 };
        let mut arrivals = Arrivals::new(&spec, 0, 1, 7, START_NS);
        arrivals.pop();
        assert_eq!(arrivals.peek_ns(), Some(START_NS + 1_000_000_000_000_000));
        for _ in 0..100_000 {
            arrivals.pop();
        }
        assert_eq!(arrivals.peek_ns(), Some(u64::MAX));
    }
}

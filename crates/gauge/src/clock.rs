//! One clock for everything: nanoseconds on the time line of `CLOCK_MONOTONIC`.
//!
//! Where the kernel itself trusts the processor's invariant time stamp counter (TSC), reading it
//! directly costs about half of a call through the vDSO. It is calibrated against
//! `CLOCK_MONOTONIC` when the clock is made: over 20 ms the two readings at each end are known to
//! within some 50 ns, so intervals are right to about 5 parts in a million.

use std::time::Duration;

/// Where readings come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockSource {
    /// The processor's invariant time stamp counter.
    Tsc,
    /// `clock_gettime(CLOCK_MONOTONIC)`.
    Monotonic,
}

impl ClockSource {
    /// The word used in results.
    pub fn name(self) -> &'static str {
        match self {
            ClockSource::Tsc => "tsc",
            ClockSource::Monotonic => "monotonic",
        }
    }
}

/// How long the counter is compared with `CLOCK_MONOTONIC`.
const CALIBRATION: Duration = Duration::from_millis(20);

/// Fraction bits of the scale from ticks to nanoseconds.
const SCALE_SHIFT: u32 = 32;

/// A calibrated clock; copied freely into every thread.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    source: ClockSource,
    origin_ticks: u64,
    origin_ns: u64,
    ns_per_tick_scaled: u64,
}

impl Clock {
    /// Makes a clock. `kernel_trusts_tsc` says whether the kernel's own clock source is the TSC
    /// (`/sys/devices/system/clocksource/clocksource0/current_clocksource`); only then is it used.
    pub fn new(kernel_trusts_tsc: bool) -> Clock {
        let monotonic = Clock {
            source: ClockSource::Monotonic,
            origin_ticks: 0,
            origin_ns: 0,
            ns_per_tick_scaled: 0,
        };
        if !kernel_trusts_tsc || !cfg!(target_arch = "x86_64") {
            return monotonic;
        }
        let (ticks_begin, begin_ns) = paired_reading();
        std::thread::sleep(CALIBRATION);
        let (ticks_end, end_ns) = paired_reading();
        if ticks_end <= ticks_begin || end_ns <= begin_ns {
            return monotonic;
        }
        let scaled =
            (u128::from(end_ns - begin_ns) << SCALE_SHIFT) / u128::from(ticks_end - ticks_begin);
        Clock {
            source: ClockSource::Tsc,
            origin_ticks: ticks_end,
            origin_ns: end_ns,
            ns_per_tick_scaled: scaled as u64,
        }
    }

    /// Where readings come from.
    pub fn source(&self) -> ClockSource {
        self.source
    }

    /// Nanoseconds since the origin of `CLOCK_MONOTONIC`.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        match self.source {
            ClockSource::Tsc => {
                // Another core's counter may be a few ticks behind the origin: never go back.
                let ticks = tsc_ticks().saturating_sub(self.origin_ticks);
                let elapsed =
                    (u128::from(ticks) * u128::from(self.ns_per_tick_scaled)) >> SCALE_SHIFT;
                self.origin_ns + elapsed as u64
            }
            ClockSource::Monotonic => monotonic_ns(),
        }
    }
}

/// `CLOCK_MONOTONIC` in nanoseconds.
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec, and CLOCK_MONOTONIC always exists on Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The tightest of several readings of both clocks, so that a preemption in between is discarded.
fn paired_reading() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..16 {
        let before_ticks = tsc_ticks();
        let now_ns = monotonic_ns();
        let after_ticks = tsc_ticks();
        let width_ticks = after_ticks.wrapping_sub(before_ticks);
        if width_ticks < best.0 {
            best = (width_ticks, before_ticks + width_ticks / 2, now_ns);
        }
    }
    (best.1, best.2)
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn tsc_ticks() -> u64 {
    // SAFETY: RDTSC is unprivileged on every kernel that names the TSC as its clock source.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn tsc_ticks() -> u64 {
    monotonic_ns()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both clocks measure the same sleep; a preempted pair is retried, not believed.
    #[test]
    fn both_sources_agree_on_an_interval() {
        let tsc = Clock::new(true);
        if tsc.source() != ClockSource::Tsc {
            return;
        }
        let plain = Clock::new(false);
        let disagreement = (0..10)
            .map(|_| {
                let begin = (tsc.now_ns(), plain.now_ns());
                std::thread::sleep(Duration::from_millis(20));
                let end = (tsc.now_ns(), plain.now_ns());
                (end.0 - begin.0).abs_diff(end.1 - begin.1)
            })
            .min();
        assert!(disagreement < Some(20_000), "clocks differ by {disagreement:?} ns over 20 ms");
    }

    #[test]
    fn readings_never_go_back() {
        for clock in [Clock::new(true), Clock::new(false)] {
            let mut last_ns = clock.now_ns();
            for _ in 0..100_000 {
                let now_ns = clock.now_ns();
                assert!(now_ns >= last_ns);
                last_ns = now_ns;
            }
        }
    }
}

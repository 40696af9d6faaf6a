//! When statements are due.
//!
//! | pace | due |
//! |---|---|
//! | none | at once |
//! | arrivals | when it began, from the first statement of the capture on, divided by the speed |
//! | think times | its client's pause, divided by the speed, after the answer before it |
//!
//! A client's pause is the time from the end of a statement to the start of the next one of its
//! session. Where the log has no durations it is unknown how much of the time between two starts
//! was pause: then the second is due so long after the first *was sent*, divided by the speed, and
//! never before the first was answered. A session's first statement is due by its arrival.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::spec::Pace;

/// How long before its first statement a session connects if its connection is not in the log.
const CONNECTS_AHEAD_NS: u64 = 100_000_000;

/// Converts times of the capture to those of the playback.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    speed: Option<f64>,
    pace: Pace,
    first_us: i64,
}

/// The statement of a session that was sent last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreviousStatement {
    /// When it began in the capture.
    pub start_us: i64,
    /// How long it took in the capture, if that is known.
    pub duration_us: Option<u64>,
    /// When it was sent.
    pub sent_ns: u64,
    /// When it was answered.
    pub ended_ns: u64,
}

impl Schedule {
    /// For a capture whose first statement began at `first_us`; without a speed nothing is due.
    pub fn new(speed: Option<f64>, pace: Pace, first_us: i64) -> Schedule {
        Schedule { speed, pace, first_us }
    }

    /// When a statement is due that began at `start_us`, `previous` being the one that its session
    /// sent last; None without a speed.
    pub fn due_ns(&self, start_us: i64, previous: Option<&PreviousStatement>) -> Option<u64> {
        let speed = self.speed?;
        Some(match (self.pace, previous) {
            (Pace::ThinkTimes, Some(previous)) => {
                let between_us = start_us.saturating_sub(previous.start_us).max(0) as u64;
                match previous.duration_us {
                    Some(duration_us) => {
                        let pause_us = between_us.saturating_sub(duration_us);
                        previous.ended_ns + scaled_ns(pause_us, speed)
                    }
                    None => previous.ended_ns.max(previous.sent_ns + scaled_ns(between_us, speed)),
                }
            }
            _ => self.arrival_ns(start_us, speed),
        })
    }

    /// When a session connects; None without a speed.
    pub fn connects_ns(&self, connected_us: Option<i64>, first_us: i64) -> Option<u64> {
        let speed = self.speed?;
        Some(match connected_us {
            Some(connected_us) => self.arrival_ns(connected_us.min(first_us), speed),
            None => self.arrival_ns(first_us, speed).saturating_sub(CONNECTS_AHEAD_NS),
        })
    }

    /// When a session disconnects, if not before its last answer; None without a speed, or if not
    /// in the log.
    pub fn disconnects_ns(&self, disconnected_us: Option<i64>) -> Option<u64> {
        Some(self.arrival_ns(disconnected_us?, self.speed?))
    }

    fn arrival_ns(&self, at_us: i64, speed: f64) -> u64 {
        scaled_ns(at_us.saturating_sub(self.first_us).max(0) as u64, speed)
    }
}

fn scaled_ns(time_us: u64, speed: f64) -> u64 {
    (time_us as f64 * 1e3 / speed) as u64
}

/// When to wake which session.
#[derive(Debug, Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Timers {
    /// Wakes a session at a time.
    pub fn set(&mut self, at_ns: u64, session: u32) {
        self.heap.push(Reverse((at_ns, session)));
    }

    /// When the next one is to be woken.
    pub fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|&Reverse((at_ns, _))| at_ns)
    }

    /// The next session whose time has come.
    pub fn pop(&mut self, now_ns: u64) -> Option<u32> {
        self.next_ns().filter(|&at_ns| at_ns <= now_ns)?;
        self.heap.pop().map(|Reverse((_, session))| session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn previous(duration_us: Option<u64>) -> PreviousStatement {
        PreviousStatement { start_us: 2_000, duration_us, sent_ns: 9_000_000, ended_ns: 9_500_000 }
    }

    #[test]
    fn arrivals_are_divided_by_the_speed() {
        let schedule = Schedule::new(Some(2.5), Pace::Arrivals, 1_000);
        assert_eq!(schedule.due_ns(6_000, Some(&previous(None))), Some(2_000_000));
        assert_eq!(schedule.due_ns(500, None), Some(0));
        assert_eq!(schedule.connects_ns(Some(3_500), 6_000), Some(1_000_000));
        assert_eq!(schedule.connects_ns(None, 6_000), Some(0));
        assert_eq!(schedule.disconnects_ns(Some(11_000)), Some(4_000_000));
        assert_eq!(schedule.disconnects_ns(None), None);
    }

    #[test]
    fn pauses_are_divided_by_the_speed() {
        let schedule = Schedule::new(Some(2.0), Pace::ThinkTimes, 1_000);
        assert_eq!(schedule.due_ns(3_000, None), Some(1_000_000));
        // 1,000 us between the starts, 400 of them the server's.
        assert_eq!(schedule.due_ns(3_000, Some(&previous(Some(400)))), Some(9_800_000));
        assert_eq!(schedule.due_ns(3_000, Some(&previous(Some(4_000)))), Some(9_500_000));
        // The number is unknown.
        assert_eq!(schedule.due_ns(3_000, Some(&previous(None))), Some(9_500_000));
        assert_eq!(schedule.due_ns(5_000, Some(&previous(None))), Some(10_500_000));
    }

    #[test]
    fn at_maximum_speed_nothing_is_due() {
        let schedule = Schedule::new(None, Pace::ThinkTimes, 1_000);
        assert!(schedule.speed.is_none());
        assert_eq!(schedule.due_ns(3_000, Some(&previous(None))), None);
        assert_eq!(schedule.connects_ns(Some(3_000), 4_000), None);
    }

    #[test]
    fn timers_fire_in_order_and_not_early() {
        let mut timers = Timers::default();
        timers.set(20, 1);
        timers.set(10, 2);
        assert_eq!((timers.next_ns(), timers.pop(9)), (Some(10), None));
        assert_eq!((timers.pop(30), timers.pop(30), timers.pop(30)), (Some(2), Some(1), None));
        assert_eq!(timers.next_ns(), None);
    }
}

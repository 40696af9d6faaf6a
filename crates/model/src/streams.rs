//! Detection of sequential streams, which bypass a cache device.
//!
//! A request that begins where a recent one ended continues its stream. A process that has read
//! long streams is expected to read another one: its mean length counts before that has grown.
//!
//! Source: Linux, `drivers/md/bcache/request.c` (`check_should_bypass`, `add_sequential`). Open-CAS
//! (`ocf_seq_cutoff.c`) keeps its streams by queue and without a mean of processes; both remember
//! about as many.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

/// Streams that are remembered (`RECENT_IO`).
const STREAMS_MAX: usize = 128;
/// Idle time after which a stream has ended.
const EXPIRY_NS: u64 = 5_000_000_000;
/// Of the mean of a process's streams (`ewma_add`).
const WEIGHT: u64 = 8;

/// A request, as a cache device sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Where it begins; devices do not overlap.
    pub begin_bytes: u64,
    /// How long it is.
    pub length_bytes: u64,
    /// When it comes.
    pub at_ns: u64,
    /// The process that sent it; below 0 if unknown.
    pub process: i64,
}

struct Stream {
    bytes: u64,
    at_ns: u64,
    turn: u64,
}

#[derive(Default)]
struct Process {
    last_bytes: u64,
    mean_bytes: u64,
}

/// The current streams, by their ends.
#[derive(Default)]
struct Streams {
    by_end: FxHashMap<u64, Stream>,
    /// Ends in the order of their requests, with those that have gone on meanwhile.
    turns: VecDeque<(u64, u64)>,
    turn: u64,
}

impl Streams {
    /// Returns the length of the stream that a request continues, without it; `None` if it begins
    /// one.
    fn continued(&mut self, request: Request) -> Option<u64> {
        let stream = self.by_end.remove(&request.begin_bytes)?;
        (request.at_ns < stream.at_ns.saturating_add(EXPIRY_NS)).then_some(stream.bytes)
    }

    fn remember(&mut self, request: Request, bytes: u64) {
        let end_bytes = request.begin_bytes + request.length_bytes;
        self.turn += 1;
        self.turns.push_back((self.turn, end_bytes));
        let stream = Stream { bytes, at_ns: request.at_ns, turn: self.turn };
        self.by_end.insert(end_bytes, stream);
        while self.by_end.len() > STREAMS_MAX {
            let Some((turn, end_bytes)) = self.turns.pop_front() else { break };
            if self.by_end.get(&end_bytes).is_some_and(|each| each.turn == turn) {
                self.by_end.remove(&end_bytes);
            }
        }
        if self.turns.len() > 4 * STREAMS_MAX {
            let by_end = &self.by_end;
            self.turns.retain(|(turn, end)| by_end.get(end).is_some_and(|each| each.turn == *turn));
        }
    }
}

/// Returns for each request how long its stream is with it, or how long its process's streams are
/// in the mean if that is more: bytes, at most `u32::MAX`.
pub fn stream_bytes(requests: impl Iterator<Item = Request>) -> Vec<u32> {
    let mut streams = Streams::default();
    let mut processes: FxHashMap<i64, Process> = FxHashMap::default();
    let of_request = |request: Request| {
        let before = streams.continued(request);
        let bytes = before.unwrap_or(0) + request.length_bytes;
        streams.remember(request, bytes);
        let longest = if request.process < 0 {
            bytes
        } else {
            let process = processes.entry(request.process).or_default();
            if before.is_none() {
                process.mean_bytes =
                    (process.mean_bytes * (WEIGHT - 1) + process.last_bytes) / WEIGHT;
            }
            process.last_bytes = bytes;
            bytes.max(process.mean_bytes)
        };
        u32::try_from(longest).unwrap_or(u32::MAX)
    };
    requests.map(of_request).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn request(begin_bytes: u64, length_bytes: u64, at_ns: u64) -> Request {
        Request { begin_bytes, length_bytes, at_ns, process: -1 }
    }

    #[test]
    fn two_streams_between_each_other_grow_and_a_pause_ends_one() {
        let requests = [
            request(0, MIB, 0),
            request(64 * MIB, MIB, 1),
            request(MIB, MIB, 2),
            request(65 * MIB, MIB, 3),
            request(30 * MIB, 8192, 4),
            request(2 * MIB, MIB, 2 + EXPIRY_NS),
            request(66 * MIB, MIB, 2 + EXPIRY_NS),
        ];
        let found = stream_bytes(requests.into_iter()).into_iter();
        let mib = found.map(|bytes| f64::from(bytes) / MIB as f64).collect::<Vec<f64>>();
        assert_eq!(mib, [1.0, 1.0, 2.0, 2.0, 0.0078125, 1.0, 3.0]);
    }

    #[test]
    fn of_more_streams_than_are_remembered_the_oldest_is_forgotten() {
        let begins = |count: usize| (0..count).map(|each| request(each as u64 * MIB, 4096, 0));
        for (others, expected) in [(STREAMS_MAX, 8192), (STREAMS_MAX + 1, 4096)] {
            let found = stream_bytes(begins(others).chain([request(4096, 4096, 1)]));
            assert_eq!(found.last(), Some(&expected), "{others}");
        }
    }

    #[test]
    fn a_stream_that_waits_is_remembered_while_another_goes_on() {
        let busy = (0..2000).map(|each| request(64 * MIB + each * 4096, 4096, each));
        let requests = [request(0, MIB, 0)].into_iter().chain(busy);
        let found = stream_bytes(requests.chain([request(MIB, MIB, 2000)]));
        assert_eq!(found.last(), Some(&(2 * MIB as u32)));
        assert_eq!(found[2000], 2000 * 4096);
    }

    #[test]
    fn a_process_that_read_long_streams_is_expected_to_read_another() {
        let own = |begin_bytes, length_bytes| Request {
            process: 7,
            ..request(begin_bytes, length_bytes, 0)
        };
        let other = Request { process: 8, ..request(900 * MIB, 8192, 0) };
        let requests = [own(0, 80 * MIB), own(500 * MIB, 8192), other, own(700 * MIB, 8192)];
        let found = stream_bytes(requests.into_iter());
        let mean = 10 * MIB as u32;
        assert_eq!(found[1..], [mean, 8192, (mean * 7 + 8192) / 8]);
    }
}

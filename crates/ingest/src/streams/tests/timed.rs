//! Statements with times keep them: as many streams as were active at once.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::streams::timed::TimedStreams;

/// A text, its start and its duration.
type TimedStatement<'a> = (&'a str, i64, u64);

#[derive(Debug, Default)]
struct ReportedStatement(Vec<(u32, i64, u64, u64, String)>, usize);

impl Sink for ReportedStatement {
    type Error = Infallible;

    fn session(&mut self, _: &Session) -> Result<(), Infallible> {
        self.1 += 1;
        Ok(())
    }

    fn session_changed(&mut self, _: SessionId, _: &Session) -> Result<(), Infallible> {
        Ok(())
    }

    fn statement(&mut self, statement: &Statement<'_>) -> Result<(), Infallible> {
        let sql = String::from_utf8_lossy(statement.sql).into_owned();
        let duration_us = statement.duration_us.unwrap_or(0);
        self.0.push((
            statement.session.0,
            statement.start_us,
            duration_us,
            statement.transaction,
            sql,
        ));
        Ok(())
    }
}

impl ReportedStatement {
    fn streams(&self) -> Vec<u32> {
        self.0.iter().map(|one| one.0).collect()
    }

    /// Within a stream nothing overlaps.
    fn check_apart(&self) {
        let mut free: BTreeMap<u32, i64> = BTreeMap::new();
        for (stream, start_us, duration_us, ..) in &self.0 {
            let freed = free.insert(*stream, start_us + *duration_us as i64);
            assert!(freed.is_none_or(|freed| freed <= *start_us), "{stream} at {start_us}");
        }
    }
}

fn measure_to(
    resolution_us: i64,
    streams_max: usize,
    timed: &[TimedStatement<'_>],
) -> (ReportedStatement, Streams) {
    let mut kept = ReportedStatement::default();
    let mut measured = TimedStreams::new(&mut kept, streams_max, resolution_us);
    let Ok(()) = measured.session(&Session::default());
    for (sql, start_us, duration_us) in timed {
        let (start_us, duration_us) = (*start_us, Some(*duration_us));
        let Ok(()) = measured.statement(&Statement { start_us, duration_us, ..statement(sql, 0) });
    }
    let report = measured.finish();
    assert_eq!(kept.0.len(), timed.len());
    assert!(report.is_measured && report.steps.is_none());
    assert_eq!(report.streams, kept.1);
    (kept, report)
}

fn measure(streams_max: usize, timed: &[TimedStatement<'_>]) -> (ReportedStatement, Streams) {
    measure_to(1, streams_max, timed)
}

#[test]
fn a_statement_goes_where_it_was_free_the_shortest_time() {
    let timed =
        [("SELECT 1", 0, 10), ("SELECT 2", 5, 15), ("SELECT 3", 12, 9), ("SELECT 4", 20, 5)];
    let (kept, report) = measure(1_024, &timed);
    assert_eq!(kept.streams(), [0, 1, 0, 1]);
    assert_eq!((report.streams, report.transactions, report.crowded), (2, 4, 0));
}

#[test]
fn blocks_that_interleave_are_distinguished_by_their_times_and_their_begin() {
    let timed = [
        ("BEGIN", 0, 1),
        ("BEGIN", 2, 1),
        ("UPDATE a SET x = 1", 4, 10),
        // While one block is active this can only be of the other.
        ("UPDATE b SET x = 1", 5, 10),
        // While both are it is of none.
        ("SELECT 1", 6, 10),
        ("COMMIT", 16, 1),
        ("COMMIT", 16, 1),
    ];
    let (kept, report) = measure(1_024, &timed);
    assert_eq!(kept.streams(), [0, 1, 1, 0, 2, 0, 1]);
    let transactions: Vec<_> = kept.0.iter().map(|one| one.3).collect();
    assert_eq!(transactions, [1, 1, 1, 1, 0, 1, 1]);
    assert_eq!((report.transactions, report.crowded), (3, 0));
}

#[test]
fn with_fewer_streams_than_needed_statements_keep_their_times_and_are_counted() {
    let timed =
        [("SELECT 1", 0, 10), ("SELECT 2", 1, 12), ("SELECT 3", 2, 13), ("SELECT 4", 30, 1)];
    let (kept, report) = measure(2, &timed);
    assert_eq!(kept.streams(), [0, 1, 0, 0]);
    assert_eq!(kept.0.iter().map(|one| one.1).collect::<Vec<_>>(), [0, 1, 2, 30]);
    assert_eq!((report.streams, report.crowded), (2, 1));
}

#[test]
fn what_is_of_a_session_is_in_the_first_stream() {
    let timed = [("SELECT 1", 0, 9), ("SELECT 2", 1, 9), ("SET x = 1", 11, 2), ("SELECT 3", 20, 1)];
    let (kept, report) = measure(8, &timed);
    assert_eq!(kept.streams(), [0, 1, 0, 0]);
    assert_eq!(report.pinned, 1);
}

#[test]
fn users_are_never_in_one_stream() {
    let mut kept = ReportedStatement::default();
    let mut measured = TimedStreams::new(&mut kept, 8, 1);
    for user in [b"a", b"b", b"a"] {
        let Ok(()) = measured.session(&Session { user: user.to_vec(), ..Session::default() });
        let Ok(()) = measured.statement(&statement("SELECT 1", 0));
    }
    assert_eq!(measured.finish().streams, 2);
    assert_eq!(kept.streams(), [0, 1, 0]);
}

/// One session's statements with timestamps that are truncated to ms, less their durations.
fn cut_off(lengths_us: &[(u64, u64)]) -> Vec<TimedStatement<'static>> {
    let mut now_us = 0;
    let each = lengths_us.iter().map(|(think_us, duration_us)| {
        now_us += (think_us + duration_us) as i64;
        ("SELECT 1", now_us / 1_000 * 1_000 - *duration_us as i64, *duration_us)
    });
    each.collect()
}

/// Statements in the order of their ends, as logs are.
fn by_ends(starts: &[(i64, u64)]) -> Vec<TimedStatement<'static>> {
    let mut timed: Vec<_> =
        starts.iter().map(|(start_us, length_us)| ("SELECT 1", *start_us, *length_us)).collect();
    timed.sort_by_key(|(_, start_us, length_us)| (start_us + *length_us as i64, *start_us));
    timed
}

/// The maximum that was active at once.
fn at_once_max(timed: &[TimedStatement<'_>]) -> usize {
    let at_work = |at_us: i64| {
        timed
            .iter()
            .filter(move |(_, start, length)| *start <= at_us && at_us < start + *length as i64)
    };
    timed.iter().map(|(_, start, _)| at_work(*start).count()).max().unwrap_or(0)
}

fn lengths() -> impl Strategy<Value = Vec<(i64, u64)>> {
    prop::collection::vec((0_i64..300, 1_u64..60), 0..60)
}

proptest! {
    #[test]
    fn streams_are_those_at_work_at_once(starts in lengths()) {
        let timed = by_ends(&starts);
        let (kept, report) = measure(1_024, &timed);
        prop_assert_eq!(report.streams, at_once_max(&timed));
        prop_assert_eq!(report.crowded, 0);
        kept.check_apart();
        let starts: Vec<_> = kept.0.iter().map(|one| one.1).collect();
        prop_assert_eq!(starts, timed.iter().map(|each| each.1).collect::<Vec<_>>());
    }

    #[test]
    fn there_are_never_more_streams_than_requested(starts in lengths(), max in 1_usize..5) {
        let timed = by_ends(&starts);
        let (kept, report) = measure(max, &timed);
        prop_assert!(report.streams <= max);
        prop_assert_eq!(report.crowded > 0, at_once_max(&timed) > max);
        let mut last: BTreeMap<u32, i64> = BTreeMap::new();
        for (stream, start_us, ..) in &kept.0 {
            let before = last.insert(*stream, *start_us);
            prop_assert!(before.is_none_or(|before| before <= *start_us), "in order");
        }
    }

    #[test]
    fn one_session_is_one_stream_though_its_stamps_are_cut(
        lengths in prop::collection::vec((0_u64..3_000, 1_u64..2_500), 1..80),
    ) {
        let (kept, report) = measure_to(1_000, 1_024, &cut_off(&lengths));
        prop_assert_eq!((report.streams, report.crowded), (1, 0));
        kept.check_apart();
    }

    #[test]
    fn blocks_stay_whole_between_long_statements(
        blocks in prop::collection::vec((1_usize..5, 0_i64..4), 1..20),
    ) {
        let (mut timed, mut now_us) = (Vec::new(), 0);
        for (statements, overlapping) in &blocks {
            // These begin before the block and end in it, so they are reported in the midst of it.
            let long: Vec<TimedStatement<'_>> =
                (0..*overlapping).map(|place| ("SELECT 1", now_us - 1 - place, 20)).collect();
            timed.push(("BEGIN", now_us, 5));
            timed.extend(long);
            let starts_us = (0..*statements as i64).map(|n| now_us + 30 + n);
            timed.extend(starts_us.map(|start_us| ("UPDATE a SET x = 1", start_us, 1)));
            now_us += 30 + *statements as i64;
            timed.push(("COMMIT", now_us, 1));
            now_us += 50;
        }
        let (kept, report) = measure(1_024, &timed);
        let overlapping: i64 = blocks.iter().map(|block| block.1).sum();
        prop_assert_eq!(report.transactions, (blocks.len() as i64 + overlapping) as u64);
        kept.check_apart();
        let mut block = (0, 0);
        for (stream, _, _, transaction, sql) in &kept.0 {
            match &sql[..] {
                "SELECT 1" => prop_assert_eq!(*transaction, 0),
                "BEGIN" => block = (*stream, *transaction),
                _ => prop_assert_eq!((*stream, *transaction), block),
            }
        }
    }

    #[test]
    fn without_durations_nothing_is_earlier_than_in_the_log(
        transactions in transactions(), gaps in prop::collection::vec(0_i64..5, 160),
        streams in 1_usize..6,
    ) {
        let mut kept = ReportedStatement::default();
        let mut split = StreamSplitter::new(&mut kept, streams, true);
        let Ok(()) = split.session(&Session::default());
        let (mut now_us, mut times) = (1_000, gaps.iter());
        let mut given = Vec::new();
        for (each, number) in transactions.iter().zip(1..) {
            for sql in each {
                now_us += times.next().unwrap_or(&0);
                given.push(now_us);
                let Ok(()) =
                    split.statement(&Statement { start_us: now_us, ..statement(sql, number) });
            }
        }
        let Ok(report) = split.finish();
        prop_assert!(report.streams <= streams && report.steps.is_none());
        prop_assert_eq!(kept.0.len(), given.len());
        prop_assert!(kept.0.iter().zip(&given).all(|(one, given_us)| one.1 >= *given_us));
        let mut spans = Vec::new();
        let mut rest = &kept.0[..];
        for each in &transactions {
            let (own, others) = rest.split_at(each.len());
            rest = others;
            prop_assert!(own.iter().all(|one| one.0 == own[0].0), "one stream");
            spans.push((own[0].1, own[own.len() - 1].1, each));
        }
        for (place, (start, _, own)) in spans.iter().enumerate() {
            for (_, end, earlier) in &spans[..place] {
                prop_assert!(end < start || !conflict(own, earlier));
            }
        }
    }
}

//! Commits that write, and active statements, by equal slices of time.
//!
//! A log shows statements, not the server's writes. A transaction certainly wrote if a statement of
//! it that succeeded changed rows, as far as their number is known, inserts values or changes the
//! catalogue; it may have written if the rows of another change are unknown, if what a statement
//! does is not in its text (a procedure, a prepared statement, a row lock), or if a savepoint was
//! rolled back to. At COMMIT, the server rolls back a transaction of which a statement failed. A
//! function called by a SELECT counts as reading. Memory is bounded but for a few bytes a session.

use std::collections::VecDeque;

use seatrial_gauge::Histogram;
use seatrial_sqltext::lexer::class::Class;
use seatrial_sqltext::statements::{Control, control};
use serde::Serialize;

use super::distribution::{Distribution, record_us};
use super::end_us;
use crate::{Columns, TraceError, TraceReader, Traced};

/// Slices at most: with more, each becomes twice as long.
const SLICES_MAX: i64 = 4_096;

/// Slices are of a second at least.
const SECOND_US: i64 = 1_000_000;

/// Commits over the time of a trace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct CommitSeries {
    /// When the first slice begins; None without statements.
    pub first_us: Option<i64>,
    /// Length of a slice.
    pub slice_us: i64,
    /// From that of the first statement to that of the end of the last, without gaps.
    pub slices: Vec<CommitSlice>,
    /// Statements.
    pub statements: u64,
    /// Of how many a duration is known.
    pub timed: u64,
    /// How long a COMMIT of a transaction that certainly wrote took.
    pub commit_times: Distribution,
}

/// A slice of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct CommitSlice {
    /// Statements that began in it.
    pub statements: u64,
    /// Commits in it of transactions that certainly wrote.
    pub commits_min: u64,
    /// Commits in it of transactions that may have written.
    pub commits_max: u64,
    /// Time that statements were active in it, summed up over sessions.
    pub busy_us: u64,
}

/// Whether a statement or a transaction writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum WriteCertainty {
    #[default]
    No,
    Maybe,
    Certain,
}

/// The transaction that a session is in; its number is 0 outside of any.
#[derive(Debug, Clone, Copy, Default)]
struct Block {
    number: u64,
    writes: WriteCertainty,
    last_end_us: i64,
    is_settled: bool,
    /// A statement failed, so that the server takes nothing but the end of the block.
    has_failed: bool,
}

/// What is known while a trace is read.
struct CommitSeriesBuilder {
    slice_us: i64,
    /// Number of the first slice, counted from 1970.
    first: i64,
    slices: VecDeque<CommitSlice>,
    blocks: Vec<Block>,
    statements: u64,
    timed: u64,
    commit_times: Histogram,
}

impl CommitSeries {
    /// Reads a trace once.
    ///
    /// # Errors
    ///
    /// When it cannot be read or is damaged.
    pub fn of(trace: &TraceReader) -> Result<CommitSeries, TraceError> {
        let mut builder = CommitSeriesBuilder {
            slice_us: SECOND_US,
            first: 0,
            slices: VecDeque::new(),
            blocks: Vec::new(),
            statements: 0,
            timed: 0,
            commit_times: Histogram::default(),
        };
        let mut statements = trace.statements(Columns::Figures);
        while let Some(traced) = statements.next_statement()? {
            builder.take(&traced);
        }
        Ok(builder.finish())
    }
}

impl CommitSeriesBuilder {
    fn take(&mut self, traced: &Traced<'_>) {
        let statement = &traced.statement;
        let ended_us = end_us(statement.start_us, statement.duration_us);
        self.statements += 1;
        self.timed += u64::from(statement.duration_us.is_some());
        self.slice_of(statement.start_us).statements += 1;
        self.work(statement.start_us, ended_us);
        let index = statement.session.0 as usize;
        if index >= self.blocks.len() {
            self.blocks.resize(index + 1, Block::default());
        }
        let mut block = self.blocks[index];
        if block.number != statement.transaction {
            self.leave(block);
            block = Block { number: statement.transaction, ..Block::default() };
        }
        let writes = writes_of(traced);
        if statement.transaction == 0 {
            self.commit(ended_us, writes);
        } else {
            block.writes = block.writes.max(writes);
            block.last_end_us = ended_us;
            match ending(traced, block.has_failed) {
                Some(BlockEnd::Commits) => {
                    self.commit(ended_us, block.writes);
                    if let (WriteCertainty::Certain, Some(took_us)) =
                        (block.writes, statement.duration_us)
                    {
                        record_us(&mut self.commit_times, took_us);
                    }
                    block.is_settled = true;
                }
                Some(BlockEnd::RollsBack) => block.is_settled = true,
                Some(BlockEnd::ReturnsToSavepoint) => block.lose_part(),
                None if statement.error.is_some() => block.has_failed = true,
                // It succeeded after a failure: a return to a savepoint is not in the log.
                None if block.has_failed => block.lose_part(),
                None => {}
            }
        }
        self.blocks[index] = block;
    }

    /// A block whose end is not in the log may have committed what it wrote.
    fn leave(&mut self, block: Block) {
        if block.number > 0 && !block.is_settled && !block.has_failed {
            self.commit(block.last_end_us, block.writes.min(WriteCertainty::Maybe));
        }
    }

    fn commit(&mut self, at_us: i64, writes: WriteCertainty) {
        if writes > WriteCertainty::No {
            let slice = self.slice_of(at_us);
            slice.commits_min += u64::from(writes == WriteCertainty::Certain);
            slice.commits_max += 1;
        }
    }

    /// Adds the time of a statement to the slices in which it was active.
    fn work(&mut self, start_us: i64, ended_us: i64) {
        if ended_us <= start_us {
            return;
        }
        self.slice_of(ended_us);
        let mut at_us = start_us;
        while at_us < ended_us {
            let slice_end_us = (at_us.div_euclid(self.slice_us) + 1).saturating_mul(self.slice_us);
            let until_us = slice_end_us.min(ended_us);
            let busy_us = until_us.abs_diff(at_us);
            let slice = self.slice_of(at_us);
            slice.busy_us = slice.busy_us.saturating_add(busy_us);
            at_us = until_us;
        }
    }

    /// The slice of a time, after all slices were made so long that there are not too many.
    fn slice_of(&mut self, time_us: i64) -> &mut CommitSlice {
        loop {
            let number = time_us.div_euclid(self.slice_us);
            if self.slices.is_empty() {
                self.first = number;
            }
            let first = self.first.min(number);
            let last = number.max(self.first + self.slices.len() as i64 - 1);
            if last - first >= SLICES_MAX {
                self.lengthen();
                continue;
            }
            while self.first > first {
                self.slices.push_front(CommitSlice::default());
                self.first -= 1;
            }
            let length = (last - first + 1) as usize;
            if self.slices.len() < length {
                self.slices.resize(length, CommitSlice::default());
            }
            return &mut self.slices[(number - first) as usize];
        }
    }

    /// Makes slices twice as long.
    fn lengthen(&mut self) {
        let mut longer = VecDeque::with_capacity(self.slices.len() / 2 + 1);
        for (index, slice) in self.slices.iter().enumerate() {
            if index == 0 || (self.first + index as i64).rem_euclid(2) == 0 {
                longer.push_back(CommitSlice::default());
            }
            if let Some(last) = longer.back_mut() {
                last.add(slice);
            }
        }
        self.first = self.first.div_euclid(2);
        self.slices = longer;
        self.slice_us = self.slice_us.saturating_mul(2);
    }

    fn finish(mut self) -> CommitSeries {
        for index in 0..self.blocks.len() {
            self.leave(self.blocks[index]);
        }
        let first_us = self.first.saturating_mul(self.slice_us);
        CommitSeries {
            first_us: (!self.slices.is_empty()).then_some(first_us),
            slice_us: self.slice_us,
            slices: self.slices.into(),
            statements: self.statements,
            timed: self.timed,
            commit_times: Distribution::of(&self.commit_times),
        }
    }
}

impl Block {
    /// After a return to a savepoint: what it wrote may be undone.
    fn lose_part(&mut self) {
        self.has_failed = false;
        self.writes = self.writes.min(WriteCertainty::Maybe);
    }
}

impl CommitSlice {
    fn add(&mut self, other: &CommitSlice) {
        self.statements += other.statements;
        self.commits_min += other.commits_min;
        self.commits_max += other.commits_max;
        self.busy_us = self.busy_us.saturating_add(other.busy_us);
    }
}

/// How a statement ends its block, or a part of it.
enum BlockEnd {
    Commits,
    RollsBack,
    ReturnsToSavepoint,
}

/// How a statement ends its block; None where it does not, or failed to.
fn ending(traced: &Traced<'_>, has_failed: bool) -> Option<BlockEnd> {
    if traced.class != Class::Transaction || traced.statement.error.is_some() {
        return None;
    }
    let tag = traced.statement.tag;
    match control(traced.text) {
        Control::End { is_undone: true, .. } => Some(BlockEnd::RollsBack),
        Control::End { .. }
            if tag == Some(b"ROLLBACK".as_slice()) || (tag.is_none() && has_failed) =>
        {
            Some(BlockEnd::RollsBack)
        }
        Control::End { .. } => Some(BlockEnd::Commits),
        Control::RollBackTo => Some(BlockEnd::ReturnsToSavepoint),
        _ => None,
    }
}

/// The first words of a text in lower case, without what stands between them.
fn first_words(text: &[u8], count: usize) -> Vec<String> {
    text.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
        .filter(|word| !word.is_empty())
        .take(count)
        .map(|word| String::from_utf8_lossy(word).to_ascii_lowercase())
        .collect()
}

fn writes_of(traced: &Traced<'_>) -> WriteCertainty {
    let statement = &traced.statement;
    if statement.error.is_some() {
        return WriteCertainty::No;
    }
    let found = match traced.class {
        Class::Insert | Class::Update | Class::Delete | Class::Merge => {
            // Of several statements, the rows are those of the last.
            match statement.rows.filter(|_| traced.statements == 1) {
                Some(0) => WriteCertainty::No,
                Some(_) => WriteCertainty::Certain,
                None if inserts_values(traced) => WriteCertainty::Certain,
                None => WriteCertainty::Maybe,
            }
        }
        Class::Ddl => WriteCertainty::Certain,
        Class::Copy if statement.rows == Some(0) => WriteCertainty::No,
        Class::Copy => {
            let words = first_words(traced.text, usize::MAX);
            if words.iter().any(|word| word == "from") && !words.iter().any(|word| word == "to") {
                WriteCertainty::Certain
            } else {
                WriteCertainty::No
            }
        }
        Class::Select if locks_rows(traced.text) && statement.rows != Some(0) => {
            WriteCertainty::Maybe
        }
        Class::Prepared | Class::Procedure | Class::Maintenance | Class::Unknown => {
            WriteCertainty::Maybe
        }
        Class::Transaction if first_words(traced.text, 2) == ["commit", "prepared"] => {
            WriteCertainty::Certain
        }
        _ => WriteCertainty::No,
    };
    if traced.statements > 1 { found.max(WriteCertainty::Maybe) } else { found }
}

/// Whether it inserts rows under no condition: VALUES, without ON CONFLICT DO NOTHING and the like.
fn inserts_values(traced: &Traced<'_>) -> bool {
    let words = first_words(traced.text, usize::MAX);
    let has = |word: &str| words.iter().any(|other| other == word);
    traced.class == Class::Insert
        && has("values")
        && !["select", "where", "nothing", "rollback", "abort"].into_iter().any(has)
}

/// Whether a SELECT ends with a lock of its rows: ``for update``, ``for share`` and their like.
fn locks_rows(text: &[u8]) -> bool {
    let words = first_words(text, usize::MAX);
    words.windows(2).any(|pair| {
        pair[0] == "for" && matches!(pair[1].as_str(), "update" | "share" | "no" | "key")
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tempfile::TempDir;

    use super::*;
    use crate::tests::{Owned, trace_of};

    /// 2026-11-21 08:00:00 UTC.
    const START_US: i64 = 1_795_248_000_000_000;

    fn series_of(statements: &[Owned]) -> CommitSeries {
        let folder = TempDir::new().unwrap();
        CommitSeries::of(&trace_of(&folder, statements, None)).unwrap()
    }

    fn at(session: u32, offset_us: i64, transaction: u64, sql: &str) -> Owned {
        Owned {
            transaction,
            duration_us: Some(500),
            ..Owned::new(session, START_US + offset_us, sql)
        }
    }

    fn commits(series: &CommitSeries) -> (u64, u64) {
        series
            .slices
            .iter()
            .fold((0, 0), |sum, slice| (sum.0 + slice.commits_min, sum.1 + slice.commits_max))
    }

    #[test]
    fn only_transactions_that_write_and_commit_count() {
        let blocks = |middle: &str, end: &str| {
            vec![at(0, 0, 1, "begin"), at(0, 1_000, 1, middle), at(0, 2_000, 1, end)]
        };
        for (middle, end, expected) in [
            ("insert into t values (1)", "commit", (1, 1)),
            ("create table t (a int)", "END;", (1, 1)),
            ("insert into t values (1)", "rollback work", (0, 0)),
            ("insert into t values (1)", "rollback work to s", (0, 1)),
            ("insert into t values (1) on conflict do nothing", "commit", (0, 1)),
            ("insert into t select 1 where false", "commit", (0, 1)),
            ("update t set a = 1", "commit", (0, 1)),
            ("select a from t", "commit", (0, 0)),
            ("select a from t for update", "commit", (0, 1)),
            ("call p()", "commit", (0, 1)),
            ("update t set a = 1", "select 1", (0, 1)),
        ] {
            assert_eq!(commits(&series_of(&blocks(middle, end))), expected, "{middle}; {end}");
        }
        let failed = Owned { error: Some(*b"23505"), ..at(0, 0, 0, "insert into t values (1)") };
        let nothing = Owned { rows: Some(0), ..at(0, 0, 0, "delete from t") };
        let some = Owned { rows: Some(2), ..at(0, 0, 0, "delete from t") };
        for (alone, expected) in [
            (at(0, 0, 0, "insert into t values (1)"), (1, 1)),
            (at(0, 0, 0, "copy t from stdin"), (1, 1)),
            (at(0, 0, 0, "copy t to stdout"), (0, 0)),
            (Owned { rows: Some(0), ..at(0, 0, 0, "copy t from stdin") }, (0, 0)),
            (failed, (0, 0)),
            (nothing, (0, 0)),
            (some, (1, 1)),
        ] {
            assert_eq!(commits(&series_of(std::slice::from_ref(&alone))), expected, "{alone:?}");
        }
    }

    #[test]
    fn a_block_with_a_failure_is_rolled_back_unless_it_returned_to_a_savepoint() {
        let insert = "insert into t values (1)";
        let failed = |offset_us| Owned { error: Some(*b"23505"), ..at(0, offset_us, 1, insert) };
        let tagged = |tag: &[u8]| Owned { tag: Some(tag.to_vec()), ..at(0, 5_000, 1, "commit") };
        let commit = at(0, 5_000, 1, "commit");
        let begin = [at(0, 0, 1, "begin"), at(0, 1_000, 1, insert), failed(2_000)];
        for (rest, expected) in [
            (vec![commit.clone()], (0, 0)),
            (vec![], (0, 0)),
            (vec![tagged(b"ROLLBACK")], (0, 0)),
            (vec![tagged(b"COMMIT")], (1, 1)),
            (vec![at(0, 3_000, 1, "rollback to a"), commit.clone()], (0, 1)),
            (vec![at(0, 3_000, 1, "select 1"), commit.clone()], (0, 1)),
            (vec![at(0, 3_000, 1, "rollback to a"), failed(4_000), commit], (0, 0)),
        ] {
            let series = series_of(&[&begin[..], &rest].concat());
            assert_eq!(commits(&series), expected, "{rest:?}");
            assert_eq!(series.commit_times.entries, expected.0, "{rest:?}");
        }
    }

    #[test]
    fn commit_counts_in_the_slice_of_its_end() {
        let late = Owned { duration_us: Some(2_500_000), ..at(0, 900_000, 1, "commit") };
        let series = series_of(&[at(0, 0, 1, "drop table t"), late]);
        assert_eq!(series.slices.len(), 4);
        assert_eq!(series.slices[3].commits_min, 1);
        assert_eq!(series.slices[0].statements, 2);
        assert_eq!((series.commit_times.entries, series.commit_times.max_ns), (1, 2_500_000_000));
        let busy: Vec<u64> = series.slices.iter().map(|slice| slice.busy_us).collect();
        assert_eq!(busy, [100_500, 1_000_000, 1_000_000, 400_000]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn slices_add_up_after_lengthening(
            rows in proptest::collection::vec(
                (0u32..3, 0i64..90_000_000_000, 0usize..3, proptest::option::of(0u64..9_000_000)),
                1..60),
        ) {
            let texts = ["select 1", "insert into t values (5)", "call p()"];
            let statements: Vec<Owned> = rows
                .iter()
                .map(|&(session, offset_us, text, duration_us)| Owned {
                    duration_us,
                    ..Owned::new(session, START_US + offset_us, texts[text])
                })
                .collect();
            let series = series_of(&statements);
            let of = |text: usize| rows.iter().filter(|row| row.2 == text).count() as u64;
            prop_assert_eq!(commits(&series), (of(1), of(1) + of(2)));
            prop_assert!(series.slices.len() as i64 <= SLICES_MAX);
            prop_assert_eq!(
                series.slices.iter().map(|slice| slice.statements).sum::<u64>(), series.statements);
            prop_assert_eq!(
                series.slices.iter().map(|slice| slice.busy_us).sum::<u64>(),
                rows.iter().filter_map(|row| row.3).sum::<u64>());
            let first_us = series.first_us.unwrap();
            prop_assert!(rows.iter().all(|row| first_us <= START_US + row.1));
        }
    }

    #[test]
    fn a_trace_without_statements_has_no_slices() {
        let series = series_of(&[]);
        assert_eq!((series.first_us, series.slices.len()), (None, 0));
    }
}

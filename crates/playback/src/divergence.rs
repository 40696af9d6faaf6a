//! Compares rows, command tags and commits with the capture and the text.
//!
//! PostgreSQL's own logs hardly ever contain row counts. Without them, an UPDATE or DELETE that
//! affects no row and a SELECT that returns none can still be counted; in a wrong or empty database
//! nearly all of them are such. The command tag of the answer decides whether a statement reads or
//! writes, so that EXECUTE counts as what it executes.
//!
//! A tag is compared with the text (`COMMIT` answered by `ROLLBACK`: the transaction had failed).
//! Where the capture, too, has an error in that transaction, nothing can be said, and the tag is
//! not compared.

use std::collections::{BTreeMap, HashMap};

use seatrial_pgwire::answer::Answer;
use seatrial_sqltext::lexer;
use seatrial_sqltext::lexer::class::Class;
use seatrial_sqltext::lexer::token::{Kind, Token};
use seatrial_sqltext::statements::for_each_statement;
use seatrial_trace::captured::{Protocol, SessionId};

use super::item::Item;
use super::played::{ClassRows, Commits, Rows, RowsExample};
use super::survey::{ends_in_commit, returns_to_savepoint};

/// Queries whose differences are listed separately; others are only counted.
const EXAMPLES_COUNTED_MAX: usize = 256;

/// Differences that are reported.
const EXAMPLES_REPORTED_MAX: usize = 32;

/// What a text determines of its answer; the same for all statements of a fingerprint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expectation {
    /// The beginning of the tag; None if the text does not determine it.
    tag: Option<&'static str>,
    /// Its last command ends a transaction successfully.
    is_commit: bool,
    /// It is a ROLLBACK TO: its transaction has not failed any more.
    returns_to_savepoint: bool,
}

/// First words of statements whose tags begin with the same word.
const SAME: &str = "\
    SELECT INSERT UPDATE DELETE MERGE COPY BEGIN COMMIT ROLLBACK SAVEPOINT RELEASE PREPARE \
    DEALLOCATE FETCH MOVE CALL DO SET RESET SHOW EXPLAIN LISTEN UNLISTEN NOTIFY DISCARD VACUUM \
    ANALYZE ALTER DROP COMMENT GRANT REVOKE REINDEX CHECKPOINT";

/// First words of the others, and what their tags begin with.
const OTHERS: [(&str, &str); 11] = [
    ("values", "SELECT"),
    ("table", "SELECT"),
    ("start", "START TRANSACTION"),
    ("end", "COMMIT"),
    ("abort", "ROLLBACK"),
    ("declare", "DECLARE CURSOR"),
    ("close", "CLOSE CURSOR"),
    ("lock", "LOCK TABLE"),
    ("truncate", "TRUNCATE TABLE"),
    ("analyse", "ANALYZE"),
    ("refresh", "REFRESH MATERIALIZED VIEW"),
];

impl Expectation {
    /// The text of a fingerprint, and the expectation for it.
    pub fn of(sql: &[u8]) -> (String, Expectation) {
        let (fingerprint, _) = lexer::fingerprint(sql);
        let kind = (fingerprint.class, fingerprint.statements);
        let is_commit = ends_in_commit(kind, fingerprint.text.as_bytes());
        let returns_to_savepoint = returns_to_savepoint(fingerprint.text.as_bytes());
        let mut expectation = Expectation { tag: None, is_commit, returns_to_savepoint };
        for_each_statement(sql, |statement| {
            let tokens = lexer::significant(statement);
            if tokens.iter().any(|token| !token.is_sign(";")) {
                expectation.tag = tag(&tokens);
            }
        });
        (fingerprint.text, expectation)
    }

    fn is_met_by(self, words: &[u8]) -> Option<bool> {
        let tag = self.tag.filter(|_| !words.is_empty())?;
        Some(words.starts_with(tag.as_bytes()))
    }
}

/// What the tag of a statement begins with.
fn tag(statement: &[Token<'_>]) -> Option<&'static str> {
    let mut tokens = statement.iter().filter(|token| token.kind != Kind::Hint);
    let first = tokens.find(|token| !token.is_sign("("))?;
    let other = OTHERS.iter().find(|(word, _)| first.is_word(word)).map(|&(_, tag)| tag);
    other.or_else(|| SAME.split(' ').find(|word| first.is_word(word)))
}

/// Which differences of a query are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum DifferenceKind {
    Rows,
    Tag,
}

/// Compares rows, tags and commits, as far as they are known.
#[derive(Debug, Default)]
pub struct Divergence {
    rows: Rows,
    commits: Commits,
    /// The transaction of a session's last error in the capture.
    captured_failed: HashMap<SessionId, u64>,
    examples: HashMap<(DifferenceKind, u64), RowsExample>,
    by_class: BTreeMap<Class, ClassRows>,
}

impl Divergence {
    /// Records that a statement failed in the capture.
    pub fn captured_error(&mut self, item: &Item) {
        self.captured_failed.insert(item.session, item.transaction);
    }

    /// Records that a statement that was sent failed, in the capture, now, or both.
    pub fn errors(&mut self, item: &Item, has_failed: bool) {
        let class = self.by_class.entry(item.class).or_default();
        class.expected_errors += u64::from(item.error.is_some());
        class.observed_errors += u64::from(has_failed);
    }

    /// Records that a statement was answered, now perhaps by an error.
    #[inline]
    pub fn answered(&mut self, item: &Item, expected: Expectation) {
        if expected.returns_to_savepoint && item.error.is_none() {
            self.captured_failed.remove(&item.session);
        }
    }

    /// Counts a COMMIT that was answered by an error, as a serialization failure or a deferred
    /// constraint is: its transaction is rolled back.
    pub fn failed(&mut self, item: &Item, expected: Expectation) {
        if self.committed_in_capture(item, expected) {
            self.commits.failed += 1;
        }
    }

    /// Compares a statement that was answered successfully.
    #[inline]
    pub fn take(&mut self, item: &Item, answer: &Answer, expected: Expectation) {
        if item.protocol != Protocol::Fetch && item.rows.is_none() {
            self.count_empty(item, answer);
        }
        if item.rows.is_some() && item.error.is_none() {
            self.compare_rows(item, answer);
        }
        if self.committed_in_capture(item, expected) {
            self.commits.committed += u64::from(answer.tag.commits());
            self.commits.rolled_back += u64::from(!answer.tag.commits());
        }
        match expected.is_met_by(answer.tag.words()) {
            Some(true) => self.rows.tags_compared += 1,
            Some(false) => self.tag_differs(item, answer),
            None => {}
        }
    }

    #[inline]
    fn count_empty(&mut self, item: &Item, answer: &Answer) {
        let is_empty = u64::from(answer.rows == Some(0));
        match answer.tag.words() {
            b"SELECT" if item.class != Class::Ddl => {
                self.rows.reads += 1;
                self.rows.empty_reads += is_empty;
            }
            b"UPDATE" | b"DELETE" => {
                self.rows.writes += 1;
                self.rows.empty_writes += is_empty;
            }
            _ => {}
        }
    }

    fn compare_rows(&mut self, item: &Item, answer: &Answer) {
        self.rows.compared += 1;
        let class = self.by_class.entry(item.class).or_default();
        class.compared += 1;
        class.expected_rows = class.expected_rows.saturating_add(item.rows.unwrap_or(0));
        class.observed_rows = class.observed_rows.saturating_add(answer.rows.unwrap_or(0));
        class.different += u64::from(item.rows != answer.rows);
        if item.rows == answer.rows {
            self.rows.equal += 1;
        } else {
            self.note(DifferenceKind::Rows, item, answer);
        }
    }

    /// Whether a transaction committed in the capture, as far as known: as the survey counts them.
    #[inline]
    fn committed_in_capture(&self, item: &Item, expected: Expectation) -> bool {
        expected.is_commit && item.error.is_none() && !self.has_failed_in_capture(item)
    }

    /// Whether an earlier statement of the same transaction block failed in the capture. An error
    /// outside of blocks concerns no other statement.
    fn has_failed_in_capture(&self, item: &Item) -> bool {
        item.transaction > 0 && self.captured_failed.get(&item.session) == Some(&item.transaction)
    }

    #[cold]
    fn tag_differs(&mut self, item: &Item, answer: &Answer) {
        if self.has_failed_in_capture(item) {
            return;
        }
        self.rows.tags_compared += 1;
        self.rows.tags_different += 1;
        self.note(DifferenceKind::Tag, item, answer);
    }

    #[cold]
    fn note(&mut self, kind: DifferenceKind, item: &Item, answer: &Answer) {
        let key = (kind, item.fingerprint);
        if let Some(example) = self.examples.get_mut(&key) {
            example.count += 1;
        } else if self.examples.len() < EXAMPLES_COUNTED_MAX {
            let example = RowsExample {
                text: super::accounting::queries::shown(&lexer::fingerprint(&item.sql).0.text),
                captured: item.rows.filter(|_| kind == DifferenceKind::Rows),
                rows: answer.rows,
                tag: String::from_utf8_lossy(answer.tag.words()).into_owned(),
                count: 1,
                number: item.number,
            };
            self.examples.insert(key, example);
        }
    }

    /// The results; `commits_captured` was counted by a pass over the trace.
    pub fn finish(self, commits_captured: u64) -> (Commits, Rows) {
        let mut examples: Vec<RowsExample> = self.examples.into_values().collect();
        examples.sort_by_key(|example| (std::cmp::Reverse(example.count), example.number));
        examples.truncate(EXAMPLES_REPORTED_MAX);
        let commits = Commits { captured: commits_captured, ..self.commits };
        let named = self.by_class.into_iter();
        let by_class = named.map(|(class, rows)| (class.name().to_owned(), rows)).collect();
        (commits, Rows { examples, by_class, ..self.rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seatrial_pgwire::answer::Tag;

    fn item(sql: &str) -> Item {
        let (fingerprint, _) = lexer::fingerprint(sql.as_bytes());
        Item {
            number: 3,
            session: SessionId(1),
            sql: sql.as_bytes().to_vec(),
            transaction: 5,
            class: fingerprint.class,
            fingerprint: fingerprint.hash,
            statements: fingerprint.statements,
            ..Item::default()
        }
    }

    fn take(divergence: &mut Divergence, item: &Item, tag: &str, rows: Option<u64>) {
        let answer = Answer { tag: Tag::of(tag.as_bytes()), rows, ..Answer::default() };
        let expected = Expectation::of(&item.sql).1;
        divergence.answered(item, expected);
        divergence.take(item, &answer, expected);
    }

    #[test]
    fn empty_reads_and_writes_are_counted() {
        let mut divergence = Divergence::default();
        let mut all = |sql, tag, rows| take(&mut divergence, &item(sql), tag, Some(rows));
        all("update t set a = 1", "UPDATE 0", 0);
        all("delete from t", "DELETE 3", 3);
        all("execute change(1)", "UPDATE 0", 0);
        all("select 1", "SELECT 0", 0);
        all("values (1)", "SELECT 1", 1);
        all("insert into t select 1 where false", "INSERT 0 0", 0);
        all("create table t as select 1", "SELECT 0", 0);
        all("fetch c", "FETCH 0", 0);
        let (_, rows) = divergence.finish(0);
        assert_eq!((rows.writes, rows.empty_writes), (3, 2));
        assert_eq!((rows.reads, rows.empty_reads), (2, 1));
        assert_eq!((rows.tags_different, rows.compared), (0, 0));
        // Where rows were captured, they are compared, and say more.
        let mut divergence = Divergence::default();
        take(&mut divergence, &Item { rows: Some(0), ..item("select 1") }, "SELECT 0", Some(0));
        let (_, rows) = divergence.finish(0);
        assert_eq!((rows.reads, rows.empty_reads, rows.equal), (0, 0, 1));
    }

    #[test]
    fn rows_are_compared_if_captured() {
        let mut divergence = Divergence::default();
        for (captured, rows) in [(Some(2), 2), (Some(2), 0), (Some(1), 5), (None, 9)] {
            let item = Item { rows: captured, ..item("update t set a = 7") };
            take(&mut divergence, &item, "UPDATE 2", Some(rows));
        }
        let failed = Item { rows: Some(0), error: Some(*b"23505"), ..item("update t set a = 7") };
        take(&mut divergence, &failed, "UPDATE 2", Some(2));
        let (_, rows) = divergence.finish(0);
        assert_eq!((rows.compared, rows.equal, rows.empty_writes), (3, 1, 0));
        let [example] = &rows.examples[..] else { panic!("one query") };
        assert_eq!((example.captured, example.rows, example.count), (Some(2), Some(0), 2));
        assert_eq!(example.text, "update t set a = $1");
        let expected = ClassRows {
            compared: 3,
            expected_rows: 5,
            observed_rows: 7,
            different: 2,
            ..ClassRows::default()
        };
        assert_eq!(rows.by_class, [("update".to_owned(), expected)].into());
    }

    #[test]
    fn errors_are_reported_by_class() {
        let mut divergence = Divergence::default();
        let failed = Item { error: Some(*b"23505"), ..item("insert into t values (1)") };
        divergence.errors(&failed, true);
        divergence.errors(&failed, false);
        divergence.errors(&item("insert into t values (2)"), true);
        divergence.errors(&item("select 1"), true);
        let (_, rows) = divergence.finish(0);
        let counts_of = |class: &str| {
            let class = rows.by_class[class];
            (class.expected_errors, class.observed_errors, class.compared)
        };
        assert_eq!((counts_of("insert"), counts_of("select")), ((2, 2, 0), (0, 1, 0)));
    }

    #[test]
    fn commit_answered_by_rollback_is_not_counted() {
        let mut divergence = Divergence::default();
        for (sql, tag) in [
            ("commit", "COMMIT"),
            ("END;", "COMMIT"),
            ("commit", "ROLLBACK"),
            ("rollback", "ROLLBACK"),
            ("insert into t values (1); commit", "COMMIT"),
        ] {
            take(&mut divergence, &item(sql), tag, None);
        }
        let (commits, rows) = divergence.finish(9);
        let counts = (commits.captured, commits.committed, commits.rolled_back);
        assert_eq!(counts, (9, 3, 1));
        assert_eq!((rows.tags_compared, rows.tags_different), (5, 1));
        assert_eq!((rows.examples[0].tag.as_str(), rows.examples[0].count), ("ROLLBACK", 1));
    }

    /// What cannot commit by then fails at COMMIT, without the tag ROLLBACK.
    #[test]
    fn commit_answered_by_an_error_is_counted() {
        let mut divergence = Divergence::default();
        let mut fails = |item: &Item| divergence.failed(item, Expectation::of(&item.sql).1);
        fails(&item("commit"));
        fails(&item("insert into t values (1); commit"));
        fails(&item("insert into t values (1)"));
        fails(&Item { error: Some(*b"40001"), ..item("commit") });
        let (commits, rows) = divergence.finish(2);
        assert_eq!((commits.failed, commits.rolled_back, rows.tags_different), (2, 0, 0));
    }

    /// If the transaction had failed in the capture too, the outcome of its COMMIT is unknown.
    #[test]
    fn a_transaction_that_failed_in_the_capture_may_roll_back() {
        let mut divergence = Divergence::default();
        divergence.captured_error(&item("insert into t values (1)"));
        take(&mut divergence, &item("commit"), "ROLLBACK", None);
        let next = Item { transaction: 6, ..item("commit") };
        take(&mut divergence, &next, "ROLLBACK", None);
        let (commits, rows) = divergence.finish(1);
        assert_eq!((commits.rolled_back, rows.tags_different, rows.tags_compared), (1, 1, 1));
    }

    #[test]
    fn an_error_outside_of_blocks_concerns_no_other_statement() {
        let mut divergence = Divergence::default();
        let outside = |sql| Item { transaction: 0, ..item(sql) };
        divergence.captured_error(&outside("insert into t values (1)"));
        take(&mut divergence, &outside("insert into t values (1); commit"), "ROLLBACK", None);
        let (commits, rows) = divergence.finish(1);
        assert_eq!((commits.rolled_back, rows.tags_different), (1, 1));
    }

    #[test]
    fn a_transaction_that_returned_to_a_savepoint_may_commit() {
        let mut divergence = Divergence::default();
        divergence.captured_error(&item("insert into t values (1)"));
        take(&mut divergence, &item("rollback to savepoint a"), "ROLLBACK", None);
        take(&mut divergence, &item("commit"), "COMMIT", None);
        assert_eq!(divergence.finish(1).0.committed, 1);
        // It returned in the capture; now the transaction has failed.
        let mut divergence = Divergence::default();
        divergence.captured_error(&item("insert into t values (1)"));
        let back = item("rollback to savepoint a");
        divergence.answered(&back, Expectation::of(&back.sql).1);
        take(&mut divergence, &item("commit"), "ROLLBACK", None);
        assert_eq!(divergence.finish(1).0.rolled_back, 1);
    }

    #[test]
    fn a_tag_follows_from_the_text() {
        for (sql, tag) in [
            ("(select 1)", "SELECT"),
            ("start transaction read only", "START TRANSACTION"),
            ("prepare transaction 'x'", "PREPARE TRANSACTION"),
            ("commit prepared 'x'", "COMMIT PREPARED"),
            ("set constraints all deferred", "SET CONSTRAINTS"),
            ("close all", "CLOSE CURSOR ALL"),
            ("select 1; update t set a = 1;;", "UPDATE"),
            ("alter table t add b int", "ALTER TABLE"),
        ] {
            let expected = Expectation::of(sql.as_bytes()).1;
            assert_eq!(expected.is_met_by(tag.as_bytes()), Some(true), "{sql}");
            assert_eq!(expected.is_met_by(b"WRONG"), Some(false), "{sql}");
        }
        // The tag of WITH, CREATE and an empty text does not follow from their first word.
        for sql in ["with a as (select 1) select 2", "create table t as select 1", ";", "nonsense"]
        {
            assert_eq!(Expectation::of(sql.as_bytes()).1.is_met_by(b"SELECT"), None, "{sql}");
        }
        // A portal that has more rows sends no tag.
        assert_eq!(Expectation::of(b"select 1").1.is_met_by(b""), None);
    }
}

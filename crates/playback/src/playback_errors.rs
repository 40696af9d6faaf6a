//! Errors against those of the capture.
//!
//! A server logs the statements of errors from `log_min_error_statement` on, which is `error` by
//! default. A capture without a single error may be of a server without errors, or of a log that
//! omits them: then it is unknown whether an error is new, and all are counted as such.
//!
//! After an error, every further statement of its transaction is rejected with code 25P02. These
//! are counted as such; among the examples they come last, so that the error that caused them is
//! first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use seatrial_sqltext::lexer;
use seatrial_trace::captured::SessionId;

use super::accounting::queries::shown;
use super::item::Item;
use super::played::{CodeErrors, ErrorExample, Errors};
use super::survey::Survey;

/// Errors that are listed separately; further ones are only counted.
const EXAMPLES_COUNTED_MAX: usize = 256;

/// Errors that are reported.
const EXAMPLES_REPORTED_MAX: usize = 32;

/// `in_failed_sql_transaction`.
const FOLLOWING: [u8; 5] = *b"25P02";

/// How an error differs from that of the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kind {
    Same,
    Other,
    New,
    Gone,
    Unanswered,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Same => "same",
            Kind::Other => "other",
            Kind::New => "new",
            Kind::Gone => "gone",
            Kind::Unanswered => "unanswered",
        }
    }
}

/// Key of a group of errors: kind, captured code, current code, fingerprint.
type Key = (Kind, Option<[u8; 5]>, Option<[u8; 5]>, u64);

/// Equal errors.
#[derive(Debug)]
struct ErrorGroup {
    message: String,
    text: String,
    count: u64,
    number: u64,
    session: SessionId,
}

/// All errors of a playback, and those of the capture that did not recur.
#[derive(Debug, Default)]
pub struct PlaybackErrors {
    errors: Errors,
    /// By code: there are few, unlike texts.
    by_code: BTreeMap<[u8; 5], CodeErrors>,
    groups: HashMap<Key, ErrorGroup>,
}

impl PlaybackErrors {
    /// Records a statement that failed.
    #[cold]
    pub fn failed(&mut self, item: &Item, sqlstate: [u8; 5], message: &str) {
        let kind = match item.error {
            Some(captured) if captured == sqlstate => Kind::Same,
            Some(_) => Kind::Other,
            None => Kind::New,
        };
        self.note(kind, item, Some(sqlstate), message);
    }

    /// Records a statement that failed in the capture and succeeded now.
    #[cold]
    pub fn gone(&mut self, item: &Item) {
        self.note(Kind::Gone, item, None, "");
    }

    /// Records a statement that was never answered.
    #[cold]
    pub fn unanswered(&mut self, item: &Item) {
        self.note(Kind::Unanswered, item, None, "");
    }

    fn note(&mut self, kind: Kind, item: &Item, sqlstate: Option<[u8; 5]>, message: &str) {
        let count = match kind {
            Kind::Same => &mut self.errors.same,
            Kind::Other => &mut self.errors.other,
            Kind::New => &mut self.errors.new,
            Kind::Gone => &mut self.errors.gone,
            Kind::Unanswered => &mut self.errors.unanswered,
        };
        *count += 1;
        if kind != Kind::Unanswered {
            if let Some(code) = item.error {
                self.by_code.entry(code).or_default().captured += 1;
            }
            if let Some(code) = sqlstate {
                self.by_code.entry(code).or_default().now += 1;
            }
        }
        let key = (kind, item.error, sqlstate, item.fingerprint);
        if let Some(group) = self.groups.get_mut(&key) {
            group.count += 1;
        } else if self.groups.len() < EXAMPLES_COUNTED_MAX {
            let group = ErrorGroup {
                message: shown(message),
                text: shown(&lexer::fingerprint(&item.sql).0.text),
                count: 1,
                number: item.number,
                session: item.session,
            };
            self.groups.insert(key, group);
        }
    }

    /// The results, including the counts of a pass over the trace.
    pub fn finish(self, survey: &Survey) -> Errors {
        let mut ranked: Vec<(Key, ErrorGroup)> = self.groups.into_iter().collect();
        ranked.sort_by_key(|((kind, _, sqlstate, _), group)| {
            (*sqlstate == Some(FOLLOWING), Reverse(group.count), group.number, *kind)
        });
        ranked.truncate(EXAMPLES_REPORTED_MAX);
        let example = |(key, group): (Key, ErrorGroup)| group.reported(key, survey);
        let examples = ranked.into_iter().map(example).collect();
        let by_code = self.by_code.into_iter().map(|(code, counts)| (text_of(code), counts));
        Errors { captured: survey.errors, by_code: by_code.collect(), examples, ..self.errors }
    }
}

fn text_of(code: [u8; 5]) -> String {
    String::from_utf8_lossy(&code).into_owned()
}

impl ErrorGroup {
    fn reported(self, (kind, captured, now, _): Key, survey: &Survey) -> ErrorExample {
        let code = |code: Option<[u8; 5]>| code.map_or(String::new(), text_of);
        let session = survey.sessions.get(self.session.0 as usize);
        let name = session.map_or(&[][..], |session| &session.name);
        ErrorExample {
            kind: kind.name().to_owned(),
            captured_sqlstate: code(captured),
            sqlstate: code(now),
            message: self.message,
            text: self.text,
            count: self.count,
            number: self.number,
            session: String::from_utf8_lossy(name).into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::survey::SessionSurvey;
    use super::*;
    use seatrial_sqltext::lexer::class::Class;

    fn item(number: u64, error: Option<[u8; 5]>) -> Item {
        Item {
            number,
            sql: b"insert into t values (1)".to_vec(),
            class: Class::Insert,
            fingerprint: number % 2,
            statements: 1,
            error,
            ..Item::default()
        }
    }

    fn survey(errors: u64) -> Survey {
        let session = SessionSurvey { name: b"65.1".to_vec(), ..SessionSurvey::default() };
        Survey { errors, sessions: vec![session], ..Survey::default() }
    }

    #[test]
    fn errors_are_classified_against_the_capture() {
        let mut seen = PlaybackErrors::default();
        let (unique, deadlock) = (*b"23505", *b"40P01");
        seen.failed(&item(0, Some(unique)), unique, "duplicate key");
        seen.failed(&item(1, Some(unique)), deadlock, "deadlock detected");
        seen.failed(&item(2, None), deadlock, "deadlock detected");
        seen.gone(&item(3, Some(unique)));
        seen.unanswered(&item(4, None));
        let errors = seen.finish(&survey(3));
        assert_eq!((errors.same, errors.other, errors.new, errors.gone), (1, 1, 1, 1));
        assert_eq!((errors.unanswered, errors.captured), (1, 3));
        let codes = [("23505", (3, 1)), ("40P01", (0, 2))]
            .map(|(code, (captured, now))| (code.to_owned(), CodeErrors { captured, now }));
        assert_eq!(errors.by_code, codes.into());
        let gone = errors.examples.iter().find(|example| example.kind == "gone").unwrap();
        assert_eq!((gone.captured_sqlstate.as_str(), gone.sqlstate.as_str()), ("23505", ""));
        assert_eq!((gone.session.as_str(), gone.number), ("65.1", 3));
        assert_eq!(gone.text, "insert into t values ($1) /*, ... */");
    }

    #[test]
    fn consequential_errors_are_reported_last() {
        let mut seen = PlaybackErrors::default();
        seen.failed(&item(0, None), *b"42P01", "relation does not exist");
        (1..9).for_each(|number| seen.failed(&item(number, None), FOLLOWING, "aborted"));
        let errors = seen.finish(&survey(0));
        let codes: Vec<&str> = errors.examples.iter().map(|one| one.sqlstate.as_str()).collect();
        assert_eq!(codes, ["42P01", "25P02", "25P02"]);
        assert_eq!(errors.new, 9);
    }

    #[test]
    fn examples_are_bounded_and_errors_are_all_counted() {
        let mut seen = PlaybackErrors::default();
        for number in 0..1_000 {
            let item = Item { fingerprint: number, ..item(number, None) };
            seen.failed(&item, *b"42P01", "no");
        }
        assert_eq!(seen.groups.len(), EXAMPLES_COUNTED_MAX);
        let errors = seen.finish(&survey(0));
        assert_eq!((errors.new, errors.examples.len()), (1_000, EXAMPLES_REPORTED_MAX));
        assert_eq!(errors.by_code["42P01"], CodeErrors { captured: 0, now: 1_000 });
    }
}

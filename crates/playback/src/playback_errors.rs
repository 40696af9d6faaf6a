//! Errors against those of the capture.
//!
//! What the capture knows of errors is what the log has: a server logs the statements of errors
//! from `log_min_error_statement` on, which is `error` unless somebody changed it. A capture
//! without a single error may be one of a server without errors, or a log that leaves them out:
//! then nothing can be said of whether an error is new, and all are counted as such.
//!
//! An error fails its transaction, and every further statement of it up to its end is refused with
//! code 25P02. These are counted as what they are; among the examples they come last, so that the
//! error that caused them is reported first.

use std::cmp::Reverse;
use std::collections::HashMap;

use seatrial_sqltext::lexer;
use seatrial_trace::captured::SessionId;

use super::accounting::queries::shown;
use super::item::Item;
use super::played::{ErrorExample, Errors};
use super::survey::Survey;

/// Errors that are listed separately; further ones are only counted.
const EXAMPLES_HELD_MAX: usize = 256;

/// Errors that are handed out.
const EXAMPLES_REPORTED_MAX: usize = 32;

/// `in_failed_sql_transaction`.
const FOLLOWING: [u8; 5] = *b"25P02";

/// What an error is to that of the capture.
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

/// Errors that are alike: what they are, the code in the capture and now, the fingerprint.
type Key = (Kind, Option<[u8; 5]>, Option<[u8; 5]>, u64);

/// Errors that are alike.
#[derive(Debug)]
struct Alike {
    message: String,
    text: String,
    count: u64,
    number: u64,
    session: SessionId,
}

/// All errors of a playback, and those of the capture that did not come again.
#[derive(Debug, Default)]
pub struct PlaybackErrors {
    errors: Errors,
    alike: HashMap<Key, Alike>,
}

impl PlaybackErrors {
    /// Takes in a statement that was answered by an error.
    #[cold]
    pub fn failed(&mut self, item: &Item, sqlstate: [u8; 5], message: &str) {
        let kind = match item.error {
            Some(captured) if captured == sqlstate => Kind::Same,
            Some(_) => Kind::Other,
            None => Kind::New,
        };
        self.note(kind, item, Some(sqlstate), message);
    }

    /// Takes in a statement that the capture has an error for, and that succeeded.
    #[cold]
    pub fn gone(&mut self, item: &Item) {
        self.note(Kind::Gone, item, None, "");
    }

    /// Takes in a statement that was never answered.
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
        let key = (kind, item.error, sqlstate, item.fingerprint);
        if let Some(alike) = self.alike.get_mut(&key) {
            alike.count += 1;
        } else if self.alike.len() < EXAMPLES_HELD_MAX {
            let alike = Alike {
                message: shown(message),
                text: shown(&lexer::fingerprint(&item.sql).0.text),
                count: 1,
                number: item.number,
                session: item.session,
            };
            self.alike.insert(key, alike);
        }
    }

    /// All of them, together with the counts of a pass over the trace.
    pub fn finish(self, survey: &Survey) -> Errors {
        let mut ranked: Vec<(Key, Alike)> = self.alike.into_iter().collect();
        ranked.sort_by_key(|((kind, _, sqlstate, _), alike)| {
            (*sqlstate == Some(FOLLOWING), Reverse(alike.count), alike.number, *kind)
        });
        ranked.truncate(EXAMPLES_REPORTED_MAX);
        let reported = |(key, alike): (Key, Alike)| alike.reported(key, survey);
        let examples = ranked.into_iter().map(reported).collect();
        Errors { captured: survey.errors, examples, ..self.errors }
    }
}

impl Alike {
    fn reported(self, (kind, captured, now, _): Key, survey: &Survey) -> ErrorExample {
        let code = |code: Option<[u8; 5]>| {
            code.map_or(String::new(), |code| String::from_utf8_lossy(&code).into_owned())
        };
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
    use seatrial_trace::captured::Protocol;

    fn item(number: u64, error: Option<[u8; 5]>) -> Item {
        Item {
            number,
            session: SessionId(0),
            start_us: 0,
            duration_us: None,
            protocol: Protocol::Simple,
            prepared: Vec::new(),
            sql: b"insert into t values (1)".to_vec(),
            parameters: Vec::new(),
            transaction: 0,
            class: Class::Insert,
            fingerprint: number % 2,
            statements: 1,
            rows: None,
            error,
        }
    }

    fn survey(errors: u64) -> Survey {
        let session = SessionSurvey { name: b"65.1".to_vec(), ..SessionSurvey::default() };
        Survey { errors, sessions: vec![session], ..Survey::default() }
    }

    #[test]
    fn errors_are_the_same_others_new_or_gone() {
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
        let gone = errors.examples.iter().find(|example| example.kind == "gone").unwrap();
        assert_eq!((gone.captured_sqlstate.as_str(), gone.sqlstate.as_str()), ("23505", ""));
        assert_eq!((gone.session.as_str(), gone.number), ("65.1", 3));
        assert_eq!(gone.text, "insert into t values ($1) /*, ... */");
    }

    #[test]
    fn what_follows_from_an_error_is_reported_behind_it() {
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
        assert_eq!(seen.alike.len(), EXAMPLES_HELD_MAX);
        let errors = seen.finish(&survey(0));
        assert_eq!((errors.new, errors.examples.len()), (1_000, EXAMPLES_REPORTED_MAX));
    }
}

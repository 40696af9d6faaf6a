//! What came of a capture: it is told, and kept in the trace. It has the form of what comes of
//! reading logs, so that whoever knows the one knows the other.

use std::collections::BTreeMap;

use serde::Serialize;

use super::recorder::Span;
use super::spec::CaptureSpec;
use super::tally::{Seen, Tally};
use crate::intake::origin::{Accounting, File, Origin};
use crate::trace::Counts;

/// What a trace is made of, and what was seen besides.
#[derive(Debug, Clone, Serialize)]
pub struct CaptureOrigin {
    /// As of a log.
    #[serde(flatten)]
    pub origin: Origin,
    /// What was seen besides.
    pub capture: Seen,
}

/// What came of a capture, with the trace that it was written to.
#[derive(Debug, Clone, Serialize)]
pub struct Captured {
    /// The trace.
    pub trace: String,
    /// Its size.
    pub trace_bytes: u64,
    /// How long it took.
    pub took_s: f64,
    /// What it is made of.
    #[serde(flatten)]
    pub origin: CaptureOrigin,
}

impl CaptureOrigin {
    /// What came of a capture that has ended.
    pub fn of(
        spec: &CaptureSpec,
        places: &str,
        tally: &Tally,
        counts: &Counts,
        fault: Option<String>,
    ) -> CaptureOrigin {
        let reasons =
            [("not_understood", tally.not_understood), ("writer_behind", tally.writer_behind)];
        let accounting = Accounting {
            records: tally.records,
            statements: tally.statements,
            joined: tally.joined,
            sessions: tally.sessions,
            others: tally.others,
            unreadable: reasons.into_iter().filter(|(_, count)| *count > 0).collect(),
            executable: tally.executable,
            skipped: counts.skipped.clone(),
        };
        let notes = fault.into_iter().chain(notes(tally)).collect();
        let bytes = tally.seen.to_server_bytes + tally.seen.to_clients_bytes;
        let origin = origin(spec, places, accounting, notes, bytes, counts, tally.span);
        CaptureOrigin { origin, capture: tally.seen.clone() }
    }

    /// What is known of a capture that ended before it was told to.
    pub fn broken_off(
        spec: &CaptureSpec,
        places: &str,
        counts: &Counts,
        span: Span,
        why: &str,
    ) -> CaptureOrigin {
        let note = format!(
            "The proxy ended before it was told to, as {why}: connections were closed, what was \
             under way is missing, and messages are not accounted for."
        );
        let capture = Seen { defects: 1, ..Seen::default() };
        CaptureOrigin { capture, ..CaptureOrigin::noted(spec, places, counts, span, note) }
    }

    /// What is known of a capture of which nobody hears any more.
    pub fn cut_off(spec: &CaptureSpec, places: &str, counts: &Counts, span: Span) -> CaptureOrigin {
        let note = "The capture was cut off: what came after the last time that it was secured, a \
                    minute at most, is missing, and messages are not accounted for.";
        CaptureOrigin::noted(spec, places, counts, span, note.to_owned())
    }

    /// What is known of a capture of which only the statements were counted.
    fn noted(
        spec: &CaptureSpec,
        places: &str,
        counts: &Counts,
        span: Span,
        note: String,
    ) -> CaptureOrigin {
        let accounting = Accounting {
            records: counts.statements,
            statements: counts.statements,
            joined: 0,
            sessions: 0,
            others: 0,
            unreadable: BTreeMap::new(),
            executable: counts.executable,
            skipped: counts.skipped.clone(),
        };
        let origin = origin(spec, places, accounting, vec![note], 0, counts, span);
        CaptureOrigin { origin, capture: Seen::default() }
    }
}

fn origin(
    spec: &CaptureSpec,
    places: &str,
    accounting: Accounting,
    notes: Vec<String>,
    bytes: u64,
    counts: &Counts,
    span: Span,
) -> Origin {
    let seconds = |us: i64| us as f64 / 1e6;
    let file = File {
        path: format!("{places} to {}", spec.server),
        size_bytes: bytes,
        log_bytes: bytes,
        format: "wire",
        prefix: String::new(),
        is_guessed: false,
    };
    Origin {
        is_masked: spec.mask,
        files: vec![file],
        accounting,
        unreadable: Vec::new(),
        notes,
        session_count: counts.sessions,
        started_at: span.map(|(first_us, _)| seconds(first_us)),
        ended_at: span.map(|(_, last_us)| seconds(last_us)),
        split: None,
        system_identifier: spec.system_identifier,
    }
}

/// What a user has to know of it, as sentences.
fn notes(tally: &Tally) -> Vec<String> {
    let seen = &tally.seen;
    let told = [
        (
            tally.writer_behind,
            "were not kept: the trace could not be written as fast as they came, and clients are \
             not made to wait for it. Write it to a faster disk.",
            "statement",
        ),
        (
            seen.encrypted,
            "encrypted, passed on and not captured. Connect to the proxy with sslmode=disable \
             (and gssencmode=disable) to have them in the trace.",
            "connection",
        ),
        (seen.replication, "for replication: passed on and not captured.", "connection"),
        (
            seen.not_understood,
            "not in PostgreSQL's protocol, from some point on: passed on and not captured.",
            "connection",
        ),
        (
            seen.defects,
            "could not be followed to its end, by a defect of ours: please report it. All bytes \
             were passed on.",
            "connection",
        ),
        (seen.no_server, "found no server behind the proxy.", "connection"),
        (
            seen.unanswered,
            "had no answer when their connection, or the capture, ended: what became of them is \
             not known.",
            "statement",
        ),
        (
            seen.out_of_step,
            "fitted no request; what was asked before them is counted among the others.",
            "answer",
        ),
        (
            seen.returned_cut,
            "returned more than is kept of RETURNING: the first 1,000 rows, or 64 KiB.",
            "statement",
        ),
        (
            seen.returned_unread,
            "of RETURNING and sequences came in binary by a client that never asked of which type \
             they are, or in another encoding, and could not be read: ids among them are inferred.",
            "value",
        ),
        (
            seen.returned_unclear,
            "with RETURNING gave several results, whose rows are not kept: ids among them are \
             inferred.",
            "text",
        ),
        (
            seen.rolled_back_kept,
            "were rolled back with a later one of a pipeline that is too long to know it in time: \
             a replay commits them.",
            "statement",
        ),
    ];
    let told = told.into_iter().filter(|(count, ..)| *count > 0);
    let told = told.map(|(count, what, noun)| {
        let ending = if count == 1 { "" } else { "s" };
        format!("{count} {noun}{ending}: {what}")
    });
    told.chain(settings(seen)).collect()
}

fn settings(seen: &Seen) -> Option<String> {
    let each = seen.settings.iter().map(|(name, count)| format!("{name} ({count})"));
    let told = each.collect::<Vec<_>>().join(", ");
    (!told.is_empty()).then(|| {
        format!(
            "What sessions set as they connected is not in the trace, and a replay does not set \
             it: {told}. Where it matters (search_path, TimeZone, DateStyle), set it for the role \
             or database that is played to."
        )
    })
}

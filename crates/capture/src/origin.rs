//! The report of a capture, which is also stored in the trace. It has the same form as the report
//! of reading logs.

use std::collections::BTreeMap;

use seatrial_trace::Counts;
use seatrial_trace::origin::{Accounting, File, Origin};
use serde::Serialize;

use super::message_counts::{MessageCounts, WireCounts};
use super::packets::counts::PacketCounts;
use super::recorder::Span;
use super::spec::CaptureSpec;

/// The contents of a trace, and other observations.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct CaptureOrigin {
    /// As for a log.
    #[serde(flatten)]
    pub origin: Origin,
    /// Other observations.
    pub capture: WireCounts,
}

/// The result of a capture, with its trace.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Captured {
    /// The trace.
    pub trace: String,
    /// Its size.
    pub trace_bytes: u64,
    /// How long it took.
    pub took_s: f64,
    /// Its contents.
    #[serde(flatten)]
    pub origin: CaptureOrigin,
}

impl CaptureOrigin {
    /// The report of a capture that has ended.
    pub fn of(
        spec: &CaptureSpec,
        addresses: &str,
        counted: &MessageCounts,
        counts: &Counts,
        fault: Option<String>,
    ) -> CaptureOrigin {
        let reasons =
            [("not_understood", counted.not_understood), ("writer_behind", counted.writer_behind)];
        let accounting = Accounting {
            records: counted.records,
            statements: counted.statements,
            joined: counted.joined,
            sessions: counted.sessions,
            others: counted.others,
            unreadable: reasons.into_iter().filter(|(_, count)| *count > 0).collect(),
            executable: counted.executable,
            skipped: counts.skipped.clone(),
        };
        let notes = fault.into_iter().chain(notes(spec, counted)).collect();
        let bytes = counted.wire.to_server_bytes + counted.wire.to_clients_bytes;
        let origin = origin(spec, addresses, accounting, notes, bytes, counts, counted.span);
        CaptureOrigin { origin, capture: counted.wire.clone() }
    }

    /// The report of a capture that ended early.
    pub fn broken_off(
        spec: &CaptureSpec,
        addresses: &str,
        counts: &Counts,
        span: Span,
        why: &str,
    ) -> CaptureOrigin {
        let closed = if spec.packets.is_some() { "" } else { "connections were closed, " };
        let note = format!(
            "The capture ended early, as {why}: {closed}what was under way is \
             missing, and messages are not accounted for."
        );
        let capture = WireCounts { defects: 1, ..WireCounts::default() };
        CaptureOrigin { capture, ..CaptureOrigin::noted(spec, addresses, counts, span, note) }
    }

    /// The report of a trace that was recovered after its capture was killed.
    pub fn cut_off(
        spec: &CaptureSpec,
        addresses: &str,
        counts: &Counts,
        span: Span,
    ) -> CaptureOrigin {
        let note = "The capture was cut off: what came after the last time that it was secured, a \
                    minute at most, is missing, and messages are not accounted for.";
        CaptureOrigin::noted(spec, addresses, counts, span, note.to_owned())
    }

    /// The report, given only the counts of statements.
    fn noted(
        spec: &CaptureSpec,
        addresses: &str,
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
        let origin = origin(spec, addresses, accounting, vec![note], 0, counts, span);
        CaptureOrigin { origin, capture: WireCounts::default() }
    }
}

fn origin(
    spec: &CaptureSpec,
    addresses: &str,
    accounting: Accounting,
    notes: Vec<String>,
    bytes: u64,
    counts: &Counts,
    span: Span,
) -> Origin {
    let seconds = |us: i64| us as f64 / 1e6;
    let file = File {
        path: match &spec.packets {
            None => format!("{addresses} to {}", spec.server),
            Some(packets) => format!("{packets} with {}", spec.server),
        },
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

/// Notes for the user, as sentences.
fn notes(spec: &CaptureSpec, counted: &MessageCounts) -> Vec<String> {
    let wire = &counted.wire;
    let is_proxy = spec.packets.is_none();
    let [encrypted, replication, not_understood, defects] = unread(is_proxy);
    let losses = [
        (
            counted.writer_behind,
            "were not kept: the trace could not be written as fast as they came, and clients are \
             not made to wait for it. Write it to a faster disk.",
            "statement",
        ),
        (wire.encrypted, &encrypted, "connection"),
        (wire.replication, &replication, "connection"),
        (wire.not_understood, &not_understood, "connection"),
        (wire.defects, &defects, "connection"),
        (wire.no_server, "found no server behind the proxy.", "connection"),
        (
            wire.unanswered,
            "had no answer when their connection, or the capture, ended: what became of them is \
             not known.",
            "statement",
        ),
        (
            wire.out_of_step,
            "fitted no request; what was requested before them is counted among the others.",
            "answer",
        ),
        (
            wire.returned_cut,
            "returned more than is kept of RETURNING: the first 1,000 rows, or 64 KiB.",
            "statement",
        ),
        (
            wire.returned_unread,
            "of RETURNING and sequences came in binary by a client that never requested their \
             types, or in another encoding, and could not be read: ids among them are inferred.",
            "value",
        ),
        (
            wire.returned_unclear,
            "with RETURNING gave several results, whose rows are not kept: ids among them are \
             inferred.",
            "text",
        ),
        (
            wire.rolled_back_kept,
            "were rolled back with a later one of a pipeline that is too long to know it in time: \
             a replay commits them.",
            "statement",
        ),
    ];
    let losses = losses.into_iter().filter(|(count, ..)| *count > 0);
    let losses = losses.map(|(count, what, noun)| {
        let ending = if count == 1 { "" } else { "s" };
        format!("{count} {noun}{ending}: {what}")
    });
    let packets = wire.packets.iter().flat_map(notes_of_packets);
    losses.chain(packets).chain(settings(wire)).collect()
}

/// Notes on connections that are not read: encrypted, replication, another protocol, or an internal
/// error.
fn unread(is_proxy: bool) -> [String; 4] {
    let passed = if is_proxy { "passed on and not captured" } else { "not captured" };
    let encrypted = if is_proxy {
        "Connect to the proxy with sslmode=disable (and gssencmode=disable) to have them in the \
         trace."
    } else {
        "Connect with sslmode=disable (and gssencmode=disable) to have them in the trace; where \
         they have to be encrypted, use a proxy (--listen)."
    };
    let all = if is_proxy { " All bytes were passed on." } else { "" };
    [
        format!("encrypted, {passed}. {encrypted}"),
        format!("for replication: {passed}."),
        format!("not in PostgreSQL's protocol, from some point on: {passed}."),
        format!("could not be followed to its end, by a defect of ours: please report it.{all}"),
    ]
}

/// Notes on packets.
fn notes_of_packets(counts: &PacketCounts) -> Vec<String> {
    let named = |names: &[String], count: u64| match names {
        [] => String::new(),
        names if (names.len() as u64) < count => format!(" ({} and others)", names.join(", ")),
        names => format!(" ({})", names.join(", ")),
    };
    let encrypted = counts.encrypted.len() as u64;
    let waiting = counts.earlier.saturating_sub(counts.joined);
    [
        (encrypted, format!("Encrypted clients: {}.", counts.encrypted.join(", "))),
        (
            counts.dropped,
            format!(
                "The kernel dropped {} packets, as they came faster than they were looked at: give \
                 the capture more of a processor, or capture less at once.",
                counts.dropped
            ),
        ),
        (
            counts.gaps,
            format!(
                "{} times packets of a connection were missing, with {} bytes{}. Such a session \
                 ends in the trace; {} times it could be read again from a later moment on, as \
                 another session.",
                counts.gaps,
                counts.gap_bytes,
                named(&counts.with_gaps, counts.gaps),
                counts.resumed
            ),
        ),
        (
            counts.earlier,
            format!(
                "{} connections were there before the capture: {} were joined when no transaction \
                 was open, {waiting} not. Of these nobody saw who they are; what they had prepared \
                 is skipped, as unknown text.",
                counts.earlier, counts.joined
            ),
        ),
        (
            counts.left_out,
            format!(
                "{} connections said something and never came to a moment at which they could be \
                 joined: they are not in the trace.",
                counts.left_out
            ),
        ),
        (
            counts.cut,
            format!("{} packets were truncated: capture them with `tcpdump -s 0`.", counts.cut),
        ),
        (
            counts.crowded,
            format!(
                "{} packets were of connections that were too many to be followed.",
                counts.crowded
            ),
        ),
        (u64::from(counts.is_torn), "The file of packets ends in the midst of one.".to_owned()),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(_, note)| note)
    .collect()
}

fn settings(wire: &WireCounts) -> Option<String> {
    let each = wire.settings.iter().map(|(name, count)| format!("{name} ({count})"));
    let names = each.collect::<Vec<_>>().join(", ");
    (!names.is_empty()).then(|| {
        format!(
            "What sessions set as they connected is not in the trace, and a replay does not set \
             it: {names}. Where it matters (search_path, TimeZone, DateStyle), set it for the role \
             or database that is played to."
        )
    })
}

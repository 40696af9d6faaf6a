"""How the ids of a replay were mapped, as the engine tells it and as it is stored.

The fields are those of ``crates/playback/src/rewrite/told.rs``.
"""

from __future__ import annotations

import msgspec


class ReplayIdClass(msgspec.Struct, frozen=True, kw_only=True):
    """A column that the server fills, and all that refer to it.

    Every use is counted once: ``uses = exact + proved + by_pattern + unresolved + not_generated``.

    Attributes:
        column: Such as ``public.orders.id``.
        source: The sequence that gives its values, or ``random``.
        referring: Columns that refer to it by foreign keys.
        draws: Values that the capture drew, as far as is known.
        draws_given_back: Of these, those that clients were given (``RETURNING``, ``nextval``,
            ``lastval``), so that a capture on the wire has them; None where that was not counted.
        drawn_now: Values that the replay drew.
        uses: Values of these columns in statements.
        exact: Of these, traced by what came back when captured.
        proved: That one draw alone can have given.
        by_pattern: Known by what the proved ones of the same two texts have in common.
        unresolved: Left alone, by reason.
        unresolved_given_back: Of these, those that a capture on the wire would have had, as clients
            were given them: by the draws that can have given each; None where that was not counted.
        not_generated: That were there before the capture began; rightly left alone.
        next_value_target: That the target's sequence would give first; None where not known.
        next_value_log: That the capture's must have given first; None where the log does not show.
        rewritten: Values that were sent otherwise than captured.
        gaps: Values that the replay's sequence left out.
    """

    column: str
    source: str = ""
    referring: list[str] = []
    draws: int = 0
    draws_given_back: int | None = None
    drawn_now: int = 0
    uses: int = 0
    exact: int = 0
    proved: int = 0
    by_pattern: int = 0
    unresolved: dict[str, int] = {}
    unresolved_given_back: int | None = None
    not_generated: int = 0
    next_value_target: int | None = None
    next_value_log: int | None = None
    rewritten: int = 0
    gaps: int = 0


class ReplayIdPattern(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the ids that one text draws and another uses.

    Attributes:
        draw_text: The statement that draws.
        use_text: The statement that uses.
        column: Whose value it uses.
        proved_own: Proved to be of the session's own last draw.
        proved_other: Proved to be of another.
        is_trusted: Whether the others are taken to be so as well.
        uses: Ids that were mapped so.
    """

    draw_text: str
    use_text: str
    column: str
    proved_own: int
    proved_other: int
    is_trusted: bool
    uses: int


class ReplayIdExample(msgspec.Struct, frozen=True, kw_only=True):
    """An id that was left alone.

    Attributes:
        reason: Why.
        column: Whose value it is.
        value: As captured.
        text: The statement.
        number: Its place in the trace, from 0.
        session: Its session.
        candidates: Draws that can have given it.
    """

    reason: str
    column: str
    value: str
    text: str
    number: int
    session: str
    candidates: int


class ReplayIds(msgspec.Struct, frozen=True, kw_only=True):
    """How the ids of a replay were mapped.

    Attributes:
        mode: ``off`` or ``infer``.
        classes: By column that the server fills.
        patterns: Of pairs of texts.
        not_followed: Values that may be ids and were left alone as they go where ids are not
            followed, by where: handed to a ``function``, in a statement with an ``unknown_table``,
            in one that is ``not_understood``, or within a ``text`` or JSON.
        doubtful_uses: Values that a draw of the capture gave or may have given, and that were sent
            as captured: their statements may have met or written other rows.
        examples: Of what was left alone, some of each reason.
        tells_both_ends: Whether the trace tells both when statements that draw began and when they
            ended.
        returning_added: Statements that were given a RETURNING, to learn what they drew.
        waited_ns: That statements waited for values, together.
        volatile: Functions that tell something else each time, by ``time``, ``random`` and
            ``last_drawn``.
        forms_not_understood: Kinds of statements that the parser did not understand.
    """

    mode: str = "off"
    classes: list[ReplayIdClass] = []
    patterns: list[ReplayIdPattern] = []
    not_followed: dict[str, int] = {}
    doubtful_uses: int = 0
    examples: list[ReplayIdExample] = []
    tells_both_ends: bool = False
    returning_added: int = 0
    waited_ns: int = 0
    volatile: dict[str, int] = {}
    forms_not_understood: int = 0

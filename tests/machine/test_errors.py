import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial import errors
from seatrial.errors import EXIT_CODES, SeatrialError


def error_classes():
    found = [SeatrialError]
    for kind in found:
        found += kind.__subclasses__()
    return found


def test_every_error_has_a_documented_exit_code_and_no_code_is_undocumented():
    used = {kind.exit_code for kind in error_classes()}
    assert used <= set(EXIT_CODES)
    results = {0, 3, 12}  # success, a breached threshold, transactions lost: no errors
    assert set(EXIT_CODES) - used == results


def test_exit_codes_of_the_issue_are_fixed():
    assert errors.SeatrialError.exit_code == 1
    assert errors.UsageError.exit_code == errors.StudyError.exit_code == 2
    assert errors.PartialResult.exit_code == 4
    assert errors.RefusedError.exit_code == 5
    assert errors.TargetError.exit_code == 6
    assert errors.ResultsFileError.exit_code == 7


def test_each_kind_of_bad_target_and_results_file_has_a_code_of_its_own():
    kinds = [
        errors.TargetError,
        errors.SpaceError,
        errors.AlignmentError,
        errors.DirectError,
        errors.ResultsFileError,
        errors.NewerResultsFileError,
        errors.RefusedError,
        errors.StudyError,
    ]
    assert len({kind.exit_code for kind in kinds}) == len(kinds)


def test_an_error_reads_as_one_paragraph_of_three_sentences():
    error = SeatrialError(seen="A is\n  full", cause="It holds too much.", next_step="Empty `A`")
    assert str(error) == "A is full. It holds too much. Empty `A`."
    assert (error.seen, error.cause, error.next_step) == (
        "A is full.",
        "It holds too much.",
        "Empty `A`.",
    )


@pytest.mark.parametrize("part", ["seen", "cause", "next_step"])
@pytest.mark.parametrize("blank", ["", " \n"])
def test_no_part_may_be_blank(part, blank):
    parts = {"seen": "a", "cause": "b", "next_step": "c"} | {part: blank}
    with pytest.raises(ValueError, match="all three parts"):
        SeatrialError(**parts)


def test_all_parts_are_required_and_named():
    with pytest.raises(TypeError):
        SeatrialError(seen="a", cause="b")
    with pytest.raises(TypeError):
        SeatrialError("a", "b", "c")


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=3, max_size=3))
def test_whatever_the_parts_hold_the_message_is_one_line_and_ends_as_a_sentence(parts):
    if not all(part.split() for part in parts):
        return
    text = str(SeatrialError(seen=parts[0], cause=parts[1], next_step=parts[2]))
    assert text.splitlines() == [text]
    assert re.search(r"[.!?]$", text)

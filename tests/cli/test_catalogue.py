"""``seatrial catalogue``: what is old, what is one's own, and that nothing broken is written."""

from __future__ import annotations

from pathlib import Path

from cli.command import Ended, seatrial
from report.json_schema import assert_published


def called(folder: Path, *words: str) -> Ended:
    return seatrial(
        "catalogue", *words, folder=folder, env={"SEATRIAL_CATALOGUE": str(folder / "own.toml")}
    )


def test_a_check_counts_what_is_old_and_names_what_is_contradicted(tmp_path):
    done = called(tmp_path, "check")
    assert (done.code, done.err) == (0, "")
    assert "rows are well-formed" in done.out
    assert "volumes/aws/gp3: another source says 16,000 IOPS" in done.out
    document = called(tmp_path, "check", "--json").document
    assert_published(document)
    counts = {each["table"]: each for each in document["tables"]}
    assert counts["instances"]["rows"] == 1063
    assert not any(each["typed"] for each in document["tables"])


def test_own_figures_are_set_shown_and_removed(tmp_path):
    row = "prices/aws/gp3/capacity/us-east-1"
    assert called(tmp_path, "set", row, "mid=0.07", "source=our contract").code == 0
    shown = called(tmp_path, "show", row)
    assert "(typed, 20" in shown.out
    assert "mid 0.07" in shown.out
    document = called(tmp_path, "show", row, "--json").document
    assert_published(document)
    assert document["facts"][0]["source"] == "our contract"
    assert called(tmp_path, "set", row, "--remove").code == 0
    assert "mid 0.08" in called(tmp_path, "show", row).out
    again = called(tmp_path, "set", row, "--remove")
    assert (again.code, "no figure of your own" in again.err) == (2, True)


def test_a_row_that_would_be_broken_is_not_written(tmp_path):
    for words, said in (
        (("prices/aws/gp3/capacity/us-east-1", "mdi=1"), "did you mean mid?"),
        (("prices/aws/gp3/capacity/us-east-1", "mid"), "is not a figure"),
        (("prices/aws/gp3/capacity/us-east-1",), "No figure of"),
        (("price/aws/gp3", "mid=1"), "no table 'price'"),
        (("rates/USD/EUR", "ratio=much"), "Expected `float`"),
        (("volumes/aws/gp3", "max_iops=-5"), "max_iops"),
        (("volumes/aws/gp3", "slice_ms=0"), "slice_ms"),
        (("volumes/aws/gp3", "free_mib_s=-5"), "free_mib_s"),
        (("drives/Samsung/PM9A3", "read_iops_4k=1e400"), "read_iops_4k"),
        (("instances/aws/r7i.large", "burst_iops=-1"), "burst_iops"),
    ):
        done = called(tmp_path, "set", *words)
        assert (done.code, said in done.err) == (2, True), done
        assert not (tmp_path / "own.toml").exists()


def test_a_row_that_is_not_there_is_guessed(tmp_path):
    assert "Did you mean 'r7i.large'?" in called(tmp_path, "show", "r7i.largo").err
    done = called(tmp_path, "show", "zzz")
    assert (done.code, "It is not shipped" in done.err) == (2, True)


def test_an_own_file_that_is_broken_is_named(tmp_path):
    (tmp_path / "own.toml").write_text("[prices\n")
    done = called(tmp_path, "check")
    assert (done.code, "own.toml cannot be read" in done.err) == (2, True)
    (tmp_path / "own.toml").write_text('["price/x"]\nmid = 1\n')
    done = called(tmp_path, "check")
    assert (done.code, "it is not a row" in done.err) == (2, True)

"""Profiles grade by the whole interval, and say what was not measured."""

import msgspec
import pytest

from seatrial.errors import UsageError
from seatrial.findings.profile import assess, load_profile
from seatrial.findings.profiles import BUILT_IN
from stats.builders import MS_NS, cell_of, rounds_of, stall_of

STEADY = (2000, 2020, 1980)


def runs_of(read_ms=2.0, commit_ms=2.0, rates=STEADY, **rest):
    read = cell_of(address="random")
    commits = [
        cell_of(workload="commit", operation="commit", threads=n, address="sequential")
        for n in (1, 16)
    ]
    return [
        rounds_of(read, rates, latency_ns=int(read_ms * MS_NS), **rest),
        rounds_of(commits[0], rates, latency_ns=int(commit_ms * MS_NS), **rest),
        rounds_of(commits[1], [4 * r for r in rates], latency_ns=int(4 * commit_ms * MS_NS)),
    ]


def grades_of(assessment):
    return [each.grade for each in assessment.figures]


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_shipped_profile_has_sources_and_limits_that_fit(name):
    profile = load_profile(name)
    assert profile.title
    assert all(len(each.source) > 20 for each in profile.require)


@pytest.mark.parametrize(
    ("read_ms", "commit_ms", "grades"),
    [
        (2, 2, ["good", "good", "good"]),
        (12, 2, ["marginal", "good", "good"]),
        (25, 2, ["poor", "good", "good"]),
        (2, 30, ["good", "poor", "good"]),
    ],
)
def test_figures_are_graded_by_both_limits(read_ms, commit_ms, grades):
    found = assess(load_profile("oltp"), "trial", runs_of(read_ms, commit_ms))
    assert grades_of(found) == grades
    worst = next(grade for grade in ("poor", "marginal", "good") if grade in grades)
    assert found.grade == worst


def test_capacity_is_the_highest_rate_within_the_acceptable_limit():
    profile = load_profile("oltp")
    assert assess(profile, "trial", runs_of(commit_ms=2)).capacity.startswith("8,000 commits/s")
    assert assess(profile, "trial", runs_of(commit_ms=8)).capacity.startswith("2,000 commits/s")
    assert assess(profile, "trial", runs_of(commit_ms=30)).capacity == ""


def test_what_was_not_measured_is_unknown():
    found = assess(load_profile("warehouse"), "trial", runs_of())
    assert grades_of(found) == ["unknown", "unknown", "good"]
    assert found.grade == "unknown"
    assert found.figures[0].reason == "not measured"


def test_too_few_requests_for_a_percentile_still_condemn_a_slow_disk():
    slow = runs_of(read_ms=90, rates=(40, 41, 39))
    found = assess(load_profile("oltp"), "trial", slow).figures[0]
    assert (found.grade, found.reason[:5]) == ("poor", "p50 i")
    fast = runs_of(read_ms=2, rates=(40, 41, 39))
    found = assess(load_profile("oltp"), "trial", fast).figures[0]
    assert (found.grade, found.reason) == ("unknown", "too few requests for p99")


def test_what_a_cache_served_shows_nothing():
    cells = runs_of()
    served = [cells[0].cell.identity()]
    assert grades_of(assess(load_profile("oltp"), "trial", cells, served))[0] == "unknown"


def test_a_long_stall_is_poor():
    found = assess(load_profile("oltp"), "trial", runs_of(stalls=[stall_of(1.5)]))
    assert grades_of(found) == ["good", "good", "poor"]


def test_an_interval_across_the_limit_is_marginal():
    read = rounds_of(cell_of(address="random"), STEADY, latency_ns=int(9.9 * MS_NS))
    rounds = [
        rounds_of(read.cell, [2000], latency_ns=int(ms * MS_NS)).samples[0] for ms in (8, 9.5, 11)
    ]
    from seatrial.findings.summary import summarise_cell

    found = assess(load_profile("oltp"), "trial", [summarise_cell(rounds)])
    assert found.figures[0].figure.value < 10 * MS_NS
    assert found.figures[0].grade == "marginal"


def test_a_profile_of_ones_own(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        'title = "mine"\n[[require]]\nlabel = "reads"\noperation = "read"\nquantity = "iops"\n'
        'good = ">= 900"\nacceptable = ">= 500"\nsource = "our service level objective"\n'
    )
    assert assess(load_profile(str(file)), "trial", runs_of()).grade == "good"
    slow = runs_of(rates=(400, 405, 395))
    assert assess(load_profile(str(file)), "trial", slow).grade == "poor"


@pytest.mark.parametrize(
    "text",
    [
        "title = 3",
        'title = "x"\n[[require]]\nlabel = "a"\noperation = "read"\nquantity = "p99_ms"\n'
        'good = "<= 10"\nacceptable = "<= 5"\nsource = "s"\n',
        'title = "x"\n[[require]]\nlabel = "a"\noperation = "read"\nquantity = "p99"\n'
        'good = "<= 10"\nacceptable = "<= 50"\nsource = "s"\n',
        'title = "x"\n[[require]]\nlabel = "a"\nquantity = "p99_ms"\n'
        'good = "<= 10"\nacceptable = "<= 50"\nsource = "s"\n',
        "title = ",
        'title = "x"\nrequire = []\n',
    ],
)
def test_what_is_no_profile_is_refused(tmp_path, text):
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match="is not a profile"):
        load_profile(str(file))


def test_an_unknown_name_is_refused_with_the_shipped_ones():
    with pytest.raises(UsageError, match="oltp, warehouse, telemetry, log"):
        load_profile("nosuch")


def test_what_did_not_watch_for_stalls_has_no_grade_for_them():
    imported = [
        msgspec.structs.replace(
            each,
            samples=[msgspec.structs.replace(s, engine="imported") for s in each.samples],
        )
        for each in runs_of()
    ]
    found = assess(load_profile("oltp"), "trial", imported)
    assert grades_of(found) == ["good", "good", "unknown"]
    assert found.figures[2].figure is None
    assert found.figures[2].reason.startswith("stalls unknown")


@pytest.mark.parametrize(
    ("stalls", "grade"),
    [
        ([stall_of(1.4, "generator")], "unknown"),
        ([stall_of(1.4, "generator"), stall_of(0.5)], "marginal"),
        ([stall_of(0.09, "generator")], "good"),
        ([stall_of(1.4, "cpu_quota"), stall_of(1.2)], "poor"),
    ],
)
def test_stalls_of_the_load_generator_do_not_condemn_the_target(stalls, grade):
    found = assess(load_profile("oltp"), "trial", runs_of(stalls=stalls))
    assert grades_of(found) == ["good", "good", grade]


@pytest.mark.parametrize(
    ("arrival", "length_s", "cause", "grade"),
    [
        ("fixed", 0.1, "generator", "unknown"),
        ("fixed", 0.1, "device", "poor"),
        ("fixed", 0.005, "generator", "poor"),
        ("closed", 0.1, "generator", "poor"),
    ],
)
def test_requests_that_were_due_while_we_did_not_run_do_not_condemn_it(
    arrival, length_s, cause, grade
):
    cell = cell_of(address="random", arrival={"kind": arrival})
    stalls = [stall_of(length_s, cause)]
    slow = rounds_of(cell, STEADY, latency_ns=25 * MS_NS, stalls=stalls, duration_s=1.0)
    assert assess(load_profile("oltp"), "trial", [slow]).figures[0].grade == grade


def test_no_latency_comes_from_a_test_with_more_requests_in_flight():
    few = rounds_of(cell_of(address="random"), (800,) * 3, latency_ns=MS_NS)
    many = rounds_of(cell_of(threads=10, address="random"), (3000,) * 3, latency_ns=30 * MS_NS)
    found = assess(load_profile("oltp"), "trial", [few, many]).figures[0]
    assert (found.grade, found.reason) == ("unknown", "too few requests for p99")


def test_a_fast_zone_of_an_address_map_does_not_stand_for_the_target():
    read = cell_of(address="sequential", block_size_bytes=1 << 20)
    zone = msgspec.structs.replace(read, kind="map", workload="map", key="zone")
    whole, fast = rounds_of(read, (100, 101, 99)), rounds_of(zone, (3000,) * 3)
    found = assess(load_profile("warehouse"), "trial", [whole, fast]).figures[0]
    assert (found.grade, found.cell) == ("poor", read.key)
    assert assess(load_profile("warehouse"), "trial", [fast]).figures[0].grade == "unknown"


def test_a_figure_is_named_by_the_block_size_that_was_measured():
    read = cell_of(address="random", block_size_bytes=4096)
    found = assess(load_profile("oltp"), "trial", [rounds_of(read, STEADY)])
    assert found.figures[0].label == "4 KiB random read p99"
    assert "read 4 KiB, 1 thread" in found.figures[0].test
    assert [each.label for each in found.figures[1:]] == ["commit p99", "longest stall"]
    assert found.missing == "commit p99 is missing"
    assert assess(load_profile("oltp"), "trial", []).figures[0].label == "random read p99"


def test_a_figure_beyond_a_limit_is_not_rounded_to_it():
    found = assess(load_profile("warehouse"), "trial", runs_of(stalls=[stall_of(10.087)]))
    stalls = found.figures[2]
    assert (stalls.grade, stalls.reason.partition(";")[0]) == ("poor", "10,100 ms")
    below = assess(load_profile("warehouse"), "trial", runs_of(stalls=[stall_of(9.9)]))
    assert below.figures[2].reason.partition(";")[0] == "9.9 s"


@pytest.mark.parametrize("arrival", [{"kind": "fixed", "rate_per_s": 10.0}, {"kind": "think"}])
def test_a_rate_that_the_test_limits_condemns_no_storage(arrival):
    free = cell_of(block_size_bytes=1 << 20, address="sequential")
    limited = cell_of(
        workload="io", block_size_bytes=1 << 20, address="sequential", arrival=arrival
    )

    def grade(*cells):
        found = assess(load_profile("warehouse"), "trial", [rounds_of(*each) for each in cells])
        return found.figures[0].grade

    assert grade((free, [10, 11, 10])) == "poor"
    assert grade((limited, [10, 11, 10])) == "unknown"
    assert grade((limited, [10, 11, 10]), (free, [5, 6, 5])) == "poor"
    assert grade((limited, [9000, 9100, 9000])) == "good"

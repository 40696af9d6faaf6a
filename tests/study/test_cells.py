"""What each kind of workload makes of its keys: cells, keys, and what the engine gets."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from seatrial.study.cell import Cell
from seatrial.study.schema import CLASSIC
from seatrial.units import MIB
from study.builders import plan_of


def cells(body: str, **info: object) -> list[Cell]:
    return plan_of(f"[[workload]]\n{body}", **info).cells


def keys(body: str) -> list[str]:
    return [cell.key for cell in cells(body)]


def test_one_read_is_reported_to_the_engine_in_full() -> None:
    (cell,) = cells('kind = "io"\nblock_sizes = "8k"\nseconds = 0.5')
    assert cell.spec == {
        "seed": 0,
        "target": {
            "kind": "file",
            "file": "trial.dat",
            "size_bytes": 1 << 30,
            "direct": True,
            "dsync": False,
            "copy_to": None,
            "create": False,
        },
        "range": {"start_bytes": 0, "length_bytes": 1 << 30},
        "accesses": [
            {
                "weight": 1.0,
                "operation": "read",
                "sizes": [{"bytes": 8192, "weight": 1.0}],
                "align_bytes": 8192,
                "address": {"kind": "random"},
            }
        ],
        "threads": 1,
        "depth": 1,
        "engine": "auto",
        "arrival": {"kind": "closed"},
        "sync_every": 0,
        "sync_kind": "fdatasync",
        "data": {"kind": "random"},
        "verify": False,
        "ledger_path": None,
        "limit": {"duration_s": 0.5, "bytes": None, "operations": None},
        "slice_ms": 100,
        "stall_threshold_ms": 50,
        "iopoll": False,
    }


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('kind = "io"', ["io/read/8192B/1t/1d"]),
        ('kind = "io"\nname = "wal-reader"', ["wal-reader/read/8192B/1t/1d"]),
        (
            'kind = "matrix"\nblock_sizes = "4k"\nthreads = [1, 10]',
            [
                "matrix/read/4096B/1t/1d",
                "matrix/read/4096B/10t/1d",
                "matrix/write/4096B/1t/1d",
                "matrix/write/4096B/10t/1d",
            ],
        ),
        (
            'kind = "io"\ndepths = [1, 32]\ndirect = [true, false]',
            [
                "io/read/8192B/1t/1d",
                "io/read/8192B/1t/1d/direct=false",
                "io/read/8192B/1t/32d",
                "io/read/8192B/1t/32d/direct=false",
            ],
        ),
        (
            'kind = "io"\npattern = ["random", "zipf"]\ntheta = [0.5, 1]',
            [
                "io/read/8192B/1t/1d",
                "io/read/8192B/1t/1d/pattern=zipf/theta=0.5",
                "io/read/8192B/1t/1d/pattern=zipf/theta=1",
            ],
        ),
        (
            'kind = "io"\narrival = ["closed", "fixed", "bursts"]\nrate = [10, 20]\nburst = 5',
            [
                "io/read/8192B/1t/1d",
                "io/read/8192B/1t/1d/arrival=fixed/rate=10",
                "io/read/8192B/1t/1d/arrival=fixed/rate=20",
                "io/read/8192B/1t/1d/arrival=bursts/rate=10/burst=5",
                "io/read/8192B/1t/1d/arrival=bursts/rate=20/burst=5",
            ],
        ),
        (
            'kind = "io"\noperations = ["write", "mixed"]\nread_share = [0.5, 0.9]',
            [
                "io/write/8192B/1t/1d",
                "io/mixed/8192B/1t/1d/read_share=0.5",
                "io/mixed/8192B/1t/1d/read_share=0.9",
            ],
        ),
        (
            'kind = "sequential"\noperations = "read"\nblock_sizes = "8k"',
            ["sequential/read/8192B/1t/1d/file=big", "sequential/read/8192B/1t/1d/file=small"],
        ),
        (
            'kind = "commit"\ncommitters = 4',
            [
                "commit/commit/8192B/4t/1d/method=fdatasync",
                "commit/commit/8192B/4t/1d/method=o_dsync",
            ],
        ),
        (
            'kind = "four"',
            [
                "four/write/4096B/1t/1d/pattern=sequential",
                "four/read/4096B/1t/1d/pattern=sequential",
                "four/write/4096B/1t/1d/pattern=random",
                "four/read/4096B/1t/1d/pattern=random",
            ],
        ),
        (
            'kind = "map"\nzones = 2\nprobes = "access"',
            [
                "map/read/4096B/1t/1d/pattern=random/zone=0/zones=2",
                "map/read/4096B/1t/1d/pattern=random/zone=1/zones=2",
            ],
        ),
        (
            'kind = "mix"\naccesses = ["database", "web-server"]',
            ["mix/mixed/8192B/1t/1d/access=database", "mix/read/various/1t/1d/access=web-server"],
        ),
        ('kind = "copy"', ["copy/copy/131072B/1t/1d"]),
        ('kind = "fill"', ["fill/write/1048576B/1t/1d"]),
    ],
)
def test_keys(body: str, expected: list[str]) -> None:
    assert keys(body) == expected


def test_a_key_does_not_change_when_its_list_grows() -> None:
    short = keys('kind = "io"\npattern = "zipf"\nthreads = 4\nengine = "psync"')
    long = keys(
        'kind = "io"\npattern = ["random", "zipf"]\nthreads = [1, 4]\nengine = ["auto", "psync"]'
    )
    assert set(short) < set(long)


FACTORS = {
    "operations": ["read", "write", "mixed"],
    "threads": [1, 4, 16],
    "depths": [1, 8],
    "pattern": ["random", "sequential", "zipf", "hot_cold"],
    "direct": [True, False],
    "engine": ["auto", "io_uring", "psync"],
    "data": ["random", "compressible", "verifiable"],
    "sync_every": [0, 16],
}


@given(
    st.fixed_dictionaries(
        {
            name: st.lists(st.sampled_from(values), min_size=1, unique=True)
            for name, values in FACTORS.items()
        }
    )
)
def test_lists_multiply(chosen: dict[str, list[object]]) -> None:
    assume(chosen["operations"] != ["read"] or chosen["sync_every"] == [0])
    text = "\n".join(f"{name} = {values}" for name, values in chosen.items())
    planned = cells(f'kind = "io"\n{text}'.replace("True", "true").replace("False", "false"))
    expected = 1
    for values in chosen.values():
        expected *= len(values)
    assert len(planned) == len({cell.key for cell in planned}) == expected
    identities = {tuple(sorted(cell.identity().items(), key=repr)) for cell in planned}
    assert len(identities) == expected


def test_a_fill_writes_all_of_the_file_and_makes_it() -> None:
    (cell,) = cells('kind = "fill"')
    assert cell.spec["target"]["create"] is True
    assert cell.spec["limit"] == {"duration_s": 3600.0, "bytes": 1 << 30, "operations": None}
    assert cell.spec["accesses"][0]["address"] == {"kind": "sequential"}
    (cell,) = cells('kind = "fill"', kind="device", size_bytes=1 << 30)
    assert cell.spec["target"]["create"] is False


def test_a_one_pass_fill_writes_more_than_the_file_and_ends_by_itself() -> None:
    (cell,) = cells(
        'kind = "fill"\nblock_sizes = "4k"\npattern = "one_pass"\nover_provisioning_share = 0.28'
    )
    assert cell.kind == "fill"
    assert cell.factors == {"pattern": "one_pass", "over_provisioning_share": 0.28}
    assert cell.spec["target"]["create"] is False
    (access,) = cell.spec["accesses"]
    assert access["address"] == {"kind": "one_pass", "over_provisioning_share": 0.28}
    assert access["align_bytes"] == 4096
    assert cell.spec["limit"]["bytes"] == pytest.approx(1.28 * (1 << 30), rel=0.005)
    assert cell.spec["limit"]["bytes"] % 4096 == 0


def test_sequential_parts_are_shares_of_the_file() -> None:
    planned = cells('kind = "sequential"\nblock_sizes = "4k"\nfiles = { all = 1, tenth = 0.1 }')
    lengths = {cell.factors["file"]: cell.spec["range"]["length_bytes"] for cell in planned}
    assert lengths == {"all": 1 << 30, "tenth": (1 << 30) // 10 // 4096 * 4096}
    limits = {(c.operation, c.factors["file"]): c.spec["limit"]["bytes"] for c in planned}
    assert limits["read", "all"] is None
    assert limits["write", "tenth"] == lengths["tenth"]


@given(zones=st.integers(1, 64), megabytes=st.integers(64, 300))
def test_zones_cover_the_file_without_overlap(zones: int, megabytes: int) -> None:
    plan = plan_of(
        f'[[target]]\nsize = "{megabytes}MiB"\n[[workload]]\nkind = "map"\nzones = {zones}\n'
        'probes = "access"'
    )
    ranges = [cell.spec["range"] for cell in plan.cells]
    assert [cell.factors["zone"] for cell in plan.cells] == list(range(zones))
    ends = [0]
    for each in ranges:
        assert each["start_bytes"] == ends[-1]
        assert each["start_bytes"] % 4096 == 0
        ends.append(each["start_bytes"] + each["length_bytes"])
    assert megabytes * MIB - zones * 4096 < ends[-1] <= megabytes * MIB


def test_the_rate_probe_is_sequential_and_the_access_probe_random() -> None:
    planned = cells('kind = "map"\nzones = 3')
    reported = Counter(
        (
            cell.factors["pattern"],
            cell.block_size_bytes,
            cell.spec["accesses"][0]["address"]["kind"],
        )
        for cell in planned
    )
    assert reported == {("sequential", MIB, "sequential"): 3, ("random", 4096, "random"): 3}


def test_commits_go_to_a_log_of_their_own() -> None:
    planned = cells('kind = "commit"\ncommitters = [1, 16]')
    for cell in planned:
        assert cell.spec["target"]["file"] == "wal.dat"
        assert cell.spec["target"]["direct"] is False
        assert cell.spec["target"]["dsync"] is (cell.factors["method"] == "o_dsync")
        assert cell.spec["accesses"][0]["operation"] == "commit"
        assert cell.spec["range"]["length_bytes"] == 64 * MIB
    assert {cell.threads for cell in planned} == {1, 16}


def test_a_copy_ends_when_all_is_copied() -> None:
    (cell,) = cells('kind = "copy"\nblock_sizes = "1MiB"\nlimit_bytes = 10000000')
    assert cell.spec["range"]["length_bytes"] == 9 * MIB
    assert cell.spec["limit"]["bytes"] == 9 * MIB
    assert cell.spec["target"]["copy_to"] == "copy.dat"


def test_mixed_reads_and_writes_are_weighed() -> None:
    (cell,) = cells('kind = "io"\noperations = "mixed"\nread_share = 0.75')
    weights = {each["operation"]: each["weight"] for each in cell.spec["accesses"]}
    assert weights == {"read": 0.75, "write": 0.25}
    (cell,) = cells('kind = "io"\noperations = "mixed"\nread_share = 1.0')
    assert [each["operation"] for each in cell.spec["accesses"]] == ["read"]


@pytest.mark.parametrize(
    ("pattern", "extra", "address"),
    [
        ("random", "", {"kind": "random"}),
        ("sequential", "", {"kind": "sequential"}),
        ("strided", 'stride = "64k"', {"kind": "strided", "stride_bytes": 65536}),
        ("zipf", "theta = 1.1", {"kind": "zipf", "theta": 1.1}),
        (
            "hot_cold",
            "hot_share = 0.2\nhot_access_share = 0.8",
            {"kind": "hot_cold", "hot_share": 0.2, "hot_access_share": 0.8},
        ),
    ],
)
def test_patterns(pattern: str, extra: str, address: dict[str, object]) -> None:
    (cell,) = cells(f'kind = "io"\npattern = "{pattern}"\n{extra}')
    assert cell.spec["accesses"][0]["address"] == address
    assert cell.factors["pattern"] == pattern


def test_driving_keys_reach_the_engine() -> None:
    (cell,) = cells(
        'kind = "io"\noperations = "write"\nengine = "io_uring"\ndepths = 8\narrival = "bursts"\n'
        'rate = 500\nburst = 20\nsync_every = 4\nsync_kind = "fsync"\ndata = "compressible"\n'
        "compressible_share = 0.3\nslice_ms = 10\nstall_threshold_ms = 200\niopoll = true"
    )
    spec = cell.spec
    assert spec["engine"] == "io_uring"
    assert spec["arrival"] == {"kind": "bursts", "rate_per_s": 500.0, "burst": 20}
    assert (spec["sync_every"], spec["sync_kind"]) == (4, "fsync")
    assert spec["data"] == {"kind": "compressible", "share": 0.3}
    assert (spec["slice_ms"], spec["stall_threshold_ms"], spec["iopoll"]) == (10, 200, True)


# ---- access specifications -------------------------------------------------------------------


def shares(cell: Cell, part: str) -> dict[object, float]:
    """The share of requests by operation, address or size."""
    found: Counter[object] = Counter()
    for access in cell.spec["accesses"]:
        total = sum(size["weight"] for size in access["sizes"])
        for size in access["sizes"]:
            names = {
                "operation": access["operation"],
                "address": access["address"]["kind"],
                "size": size["bytes"],
            }
            found[names[part]] += access["weight"] * size["weight"] / total
    whole = sum(found.values())
    return {name: share / whole for name, share in found.items()}


@pytest.mark.parametrize(
    ("name", "read", "random"),
    [
        ("database", 0.67, 1.0),
        ("file-server", 0.8, 1.0),
        ("web-server", 1.0, 1.0),
        ("workstation", 0.8, 0.8),
    ],
)
def test_classic_mixes_have_their_published_shares(name: str, read: float, random: float) -> None:
    (cell,) = cells(f'kind = "mix"\naccesses = "{name}"')
    assert shares(cell, "operation").get("read", 0) == pytest.approx(read)
    assert shares(cell, "address").get("random", 0) == pytest.approx(random)


def test_the_file_server_has_its_published_sizes() -> None:
    (cell,) = cells('kind = "mix"\naccesses = "file-server"')
    percent = {size: round(100 * share, 6) for size, share in shares(cell, "size").items()}
    assert percent == {
        512: 10,
        1024: 5,
        2048: 5,
        4096: 60,
        8192: 2,
        16384: 4,
        32768: 4,
        65536: 10,
    }
    assert sum(size.share for size in CLASSIC["web-server"].lines[0].distribution()) == 100


def test_requests_of_a_mix_are_aligned_to_their_size() -> None:
    (cell,) = cells('kind = "mix"\naccesses = "file-server"')
    for access in cell.spec["accesses"]:
        assert [size["bytes"] for size in access["sizes"]] == [access["align_bytes"]]


def test_own_specifications() -> None:
    (cell,) = plan_of(
        '[[workload]]\nkind = "mix"\naccesses = "own"\nthreads = 2\n[[access]]\nname = "own"\n'
        '[[access.lines]]\nshare = 3\nsize = "8k"\nread = 0.5\nalign = "4k"\n'
        "[[access.lines]]\nshare = 1\nread = 0\nrandom = 0\n"
        'sizes = [{ size = "64k", share = 1 }, { size = "128k", share = 3 }]'
    ).cells
    assert shares(cell, "operation") == pytest.approx({"read": 3 / 8, "write": 5 / 8})
    assert shares(cell, "size") == pytest.approx({8192: 3 / 4, 65536: 1 / 16, 131072: 3 / 16})
    by_kind = {access["address"]["kind"]: access for access in cell.spec["accesses"]}
    assert by_kind["random"]["align_bytes"] == 4096
    assert [size["bytes"] for size in by_kind["sequential"]["sizes"]] == [65536, 131072]
    assert (cell.operation, cell.block_size_bytes, cell.key) == (
        "mixed",
        0,
        "mix/mixed/various/2t/1d/access=own",
    )


@pytest.mark.parametrize("kind", ["pgbench", "telemetry"])
def test_a_stall_of_a_database_is_longer_than_a_few_commits_of_a_disk(kind: str) -> None:
    (cell,) = cells(f'kind = "{kind}"')
    assert cell.spec["stall_threshold_ms"] == 500
    (reported,) = cells(f'kind = "{kind}"\nstall_threshold_ms = 80')
    assert reported.spec["stall_threshold_ms"] == 80

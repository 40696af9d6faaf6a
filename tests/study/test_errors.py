"""Every mistake in a study file is reported with file, line, key, what is there and what fits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from seatrial.errors import StudyError
from seatrial.study.load import (
    find_study,
    load_model,
    load_study,
    parse_study,
    shipped_studies,
    study_from_mapping,
    study_from_options,
)

HEAD = 'name = "s"\n'
MATRIX = HEAD + '[[workload]]\nkind = "matrix"\n'
WORKLOAD = '[[workload]]\nkind = "io"\n'
COMMIT = HEAD + '[[workload]]\nkind = "commit"\n'


def said(text: str) -> str:
    """What is said of a study that cannot be read."""
    with pytest.raises(StudyError) as caught:
        parse_study(text, "my.toml")
    assert caught.value.exit_code == 2
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        (
            MATRIX + 'block_size = ["4k"]',
            "my.toml, line 4: workload[0].block_size ",
            "is not a key of a matrix workload. Did you mean 'block_sizes'?",
        ),
        (HEAD + "[round]\nmin = 3", "my.toml, line 2: round ", "Did you mean 'rounds'?"),
        (
            HEAD + '[[workload]]\nkind = "fill"\nover_provisioning_share = 0.2',
            "my.toml, line 4: workload[0].over_provisioning_share ",
            "has no effect here. It applies only with pattern = 'one_pass'",
        ),
        (
            HEAD + '[[workload]]\nkind = "fill"\npattern = "one_pass"\ndata = "verifiable"',
            "my.toml, line 5: workload[0].data ",
            "is 'verifiable'. A one-pass fill keeps no ledger; fill sequentially",
        ),
        (HEAD + "[rounds]\nmni = 3", "my.toml, line 3: rounds.mni ", "Did you mean 'min'?"),
        (
            HEAD + '[[workload]]\nkind = "matrx"',
            "my.toml, line 3: workload[0].kind ",
            "is 'matrx'. Did you mean 'matrix'?",
        ),
        (
            HEAD + '[[workload]]\nkind = "zzz"',
            "my.toml, line 3: workload[0].kind ",
            "Valid values: loadline, fill, matrix, sequential, copy, map, commit, four, mix, io",
        ),
        (
            HEAD + '[[workload]]\nname = "a"',
            "my.toml, line 2: workload[0] ",
            "has no 'kind'",
        ),
        (
            MATRIX + 'pattern = ["random", "seqential"]',
            "my.toml, line 4: workload[0].pattern[1] ",
            "is 'seqential'. Did you mean 'sequential'?",
        ),
        (
            MATRIX + "pattern = 3",
            "my.toml, line 4: workload[0].pattern ",
            "is 3. Expected text or a list",
        ),
        (
            MATRIX + 'threads = "ten"',
            "my.toml, line 4: workload[0].threads ",
            "is 'ten'. Expected a whole number or a list",
        ),
        (
            MATRIX + "threads = [1, 0]",
            "my.toml, line 4: workload[0].threads[1] ",
            "is 0. Expected a whole number of at least 1",
        ),
        (
            MATRIX + "threads = [\n  1,\n  10,\n  5000,\n]",
            "my.toml, line 7: workload[0].threads[2] ",
            "is 5000. Expected a whole number of at most 1024",
        ),
        (
            MATRIX + "threads = []",
            "my.toml, line 4: workload[0].threads ",
            "is an empty list. Expected a list with at least one item",
        ),
        (
            MATRIX + "threads = [1, 1]",
            "my.toml, line 4: workload[0].threads ",
            "holds 1 twice",
        ),
        (
            MATRIX + 'direct = "yes"',
            "my.toml, line 4: workload[0].direct ",
            "is 'yes'. Expected true or false or a list",
        ),
        (
            MATRIX + "seconds = 0",
            "my.toml, line 4: workload[0].seconds ",
            "is 0. Expected a number above 0.0",
        ),
        (
            MATRIX + 'block_sizes = [\n  "4k",\n  "4GB",\n]',
            "my.toml, line 6: workload[0].block_sizes[1] ",
            "'4GB' is ambiguous (powers of 1000 or of 1024); write '4GiB'",
        ),
        (
            MATRIX + 'block_sizes = "2GiB"',
            "my.toml, line 4: workload[0].block_sizes ",
            "at most 1 GiB",
        ),
        (
            MATRIX + 'block_sizes = { from = "512", to = "3KiB" }',
            "my.toml, line 4: workload[0].block_sizes.to ",
            "which is not reached by doubling '512'",
        ),
        (
            MATRIX + 'block_sizes = { from = "8KiB", to = "4KiB" }',
            "my.toml, line 4: workload[0].block_sizes.to ",
            "not reached by",
        ),
        (
            MATRIX + 'block_sizes = { from = "512", till = "4KiB" }',
            "my.toml, line 4: workload[0].block_sizes.till ",
            "is not a key of a range. Valid values: from, to",
        ),
        (
            MATRIX + 'block_sizes = { from = "512" }',
            "my.toml, line 4: workload[0].block_sizes ",
            "has no 'to'",
        ),
        (MATRIX + "block_sizes = []", "my.toml, line 4: workload[0].block_sizes ", "an empty list"),
        (
            HEAD + '[[target]]\nsize = "big"\n[[workload]]\nkind = "fill"',
            "my.toml, line 3: target[0].size ",
            "'big' is not a size",
        ),
        (
            HEAD + '[rounds]\nmin = 11\n[[workload]]\nkind = "fill"',
            "my.toml, line 3: rounds.min ",
            "is 11, larger than rounds.max (10)",
        ),
        (
            MATRIX + '[[workload]]\nkind = "matrix"\n',
            "my.toml, line 4: workload[1].name ",
            "is 'matrix'; workload[0] has the same name",
        ),
        (MATRIX + 'name = "a.b"', "my.toml, line 4: workload[0].name ", "is 'a.b'. A name has"),
        (
            MATRIX + 'targets = ["trail"]',
            "my.toml, line 4: workload[0].targets[0] ",
            "is 'trail', which is not the label of a target. Did you mean 'trial'?",
        ),
        (
            HEAD + '[[target]]\nlabel = "a"\n[[target]]\nlabel = "a"\n[[workload]]\nkind = "fill"',
            "my.toml, line 5: target[1].label ",
            "is 'a'; target[0] has the same label",
        ),
        (
            HEAD + '[[target]]\nmodel = { channels = 2 }\n[[workload]]\nkind = "io"',
            "my.toml, line 3: target[0].model ",
            "Only a simulated target has a model",
        ),
        (
            HEAD + '[[target]]\nkind = "simulated"\n[target.model]\nchanels = 2\n' + WORKLOAD,
            "my.toml, line 5: target[0].model.chanels ",
            "is not a key. Did you mean 'channels'?",
        ),
        (
            HEAD + '[[target]]\nkind = "simulated"\nmodel.channels = 0\n' + WORKLOAD,
            "my.toml, line 4: target[0].model.channels ",
            "is 0. Expected a whole number of at least 1",
        ),
        (
            HEAD + '[[target]]\nkind = "simulated"\nmodel.freezes = [{ start_s = 1 }]\n' + WORKLOAD,
            "my.toml, line 4: target[0].model.freezes[0] ",
            "has no 'length_s'",
        ),
        (
            MATRIX + 'stride = "64KiB"',
            "my.toml, line 4: workload[0].stride ",
            "has no effect here. It applies only with pattern = 'strided'",
        ),
        (
            MATRIX + 'operations = "read"\nsync_every = 4',
            "my.toml, line 5: workload[0].sync_every ",
            "has no effect here. It applies only with operations = 'write' or operations = 'mixed'",
        ),
        (MATRIX + "theta = 1.2", "my.toml, line 4: workload[0].theta ", "pattern = 'zipf'"),
        (
            MATRIX + 'pattern = "strided"',
            "my.toml, line 2: workload[0] ",
            "has no 'stride'. pattern = 'strided' requires the key 'stride'",
        ),
        (
            MATRIX + 'arrival = "poisson"',
            "my.toml, line 2: workload[0] ",
            "arrival = 'poisson' requires the key 'rate'",
        ),
        (
            MATRIX + "rate = 100",
            "my.toml, line 4: workload[0].rate ",
            "arrival = 'fixed' or arrival = 'poisson' or arrival = 'bursts'",
        ),
        (
            MATRIX + "verify = true",
            "my.toml, line 4: workload[0].verify ",
            "verify needs data = 'verifiable'",
        ),
        (
            MATRIX + 'verify = true\ndata = "verifiable"\n[[workload]]\nkind = "fill"',
            "my.toml, line 6: workload[1].data ",
            "but workload 'matrix' verifies the same file",
        ),
        (
            HEAD + '[[target]]\nkind = "simulated"\n[[workload]]\nkind = "io"\ndata = "verifiable"',
            "my.toml, line 6: workload[0].data ",
            "A simulated target keeps no data",
        ),
        (
            HEAD + '[[workload]]\nkind = "sequential"\nfiles = { big = 2.0 }',
            "my.toml, line 4: workload[0].files ",
            "Expected a number of at most 1.0",
        ),
        (
            HEAD + '[[workload]]\nkind = "mix"\naccesses = ["databse"]',
            "my.toml, line 4: workload[0].accesses[0] ",
            "is 'databse', no access specification. Did you mean 'database'?",
        ),
        (
            HEAD
            + '[[workload]]\nkind = "mix"\n[[access]]\nname = "own"\n[[access.lines]]\nread = 1',
            "my.toml, line 6: access[0].lines[0] ",
            "has no 'size'",
        ),
        (
            HEAD + '[[workload]]\nkind = "mix"\n[[access]]\nname = "database"\n'
            'lines = [{ size = "8KiB" }]',
            "my.toml, line 5: access[0].name ",
            "which seatrial defines itself",
        ),
        (
            HEAD + '[[workload]]\nkind = "mix"\n[[access]]\nname = "own"\n[[access.lines]]\n'
            'size = "6k"\nalign = "4k"',
            "my.toml, line 8: access[0].lines[0].align ",
            "is 4096 bytes, which does not divide the size 6144",
        ),
        (
            COMMIT + '[thresholds]\ncommt.p99_ms = "< 5"',
            "my.toml, line 5: thresholds.commt.p99_ms ",
            "Did you mean 'commit'?",
        ),
        (
            COMMIT + '[thresholds]\n"commit.p98_ms" = "< 5"',
            "my.toml, line 5: thresholds.commit.p98_ms ",
            "'p98_ms' is not a quantity",
        ),
        (
            COMMIT + '[thresholds]\n"commit.p99_ms" = "5"',
            "my.toml, line 5: thresholds.commit.p99_ms ",
            "'5' is not a comparison with a number, such as '< 5'",
        ),
        (
            COMMIT + "[thresholds]\ncommit.p99_ms = 5",
            "my.toml, line 5: thresholds.commit.p99_ms ",
            "is not a string",
        ),
        (HEAD + "workload = 3", "my.toml, line 2: workload ", "is 3. Expected a list"),
        (HEAD, "my.toml: ", "The key 'workload' is required"),
        ("", "my.toml: ", "The key 'name' is required"),
        (HEAD + "workload = []", "my.toml, line 2: workload ", "an empty list"),
        ("name =", "my.toml, line 1: ", "invalid TOML"),
        (HEAD + "[rounds\n", "my.toml, line 2: ", "invalid TOML"),
    ],
)
def test_mistakes_are_reported(text: str, place: str, says: str) -> None:
    message = said(text)
    assert message.startswith(place), message
    assert says in message
    assert "docs/study-file.md" in message


def test_a_path_of_the_command_is_reported_as_it_was_given() -> None:
    with pytest.raises(StudyError, match=r"seatrial study my\.toml --plan"):
        parse_study(HEAD + "[rounds]\nx = 1", "my.toml")


def test_a_mapping_has_no_lines() -> None:
    with pytest.raises(StudyError) as caught:
        study_from_mapping({"name": "s", "workload": [{"kind": "io", "depth": 3}]}, "the command")
    assert str(caught.value).startswith("the command: workload[0].depth is not a key of a io")
    assert "Did you mean 'depths'?" in str(caught.value)
    assert "--plan" not in str(caught.value)


def test_an_unknown_study_names_the_nearest() -> None:
    with pytest.raises(StudyError) as caught:
        find_study("qick")
    assert "Did you mean 'quick'?" in str(caught.value)
    assert "one-dvd-per-second, quick" in str(caught.value)


@pytest.mark.parametrize("name", ["qick", "nosuch"])
def test_an_unknown_study_names_each_shipped_one_once(name: str) -> None:
    with pytest.raises(StudyError) as caught:
        find_study(name)
    words = re.findall(r"[\w-]+", caught.value.next_step)
    assert [words.count(each) for each in shipped_studies()] == [1] * len(shipped_studies())
    assert "raid-sweep-tiny" not in caught.value.cause


def test_a_name_cannot_climb_out_of_the_shipped_folder() -> None:
    with pytest.raises(StudyError, match="nor the name of a shipped study"):
        find_study("../builtin/quick")


def test_a_file_goes_before_a_shipped_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("quick").write_text(MATRIX)
    assert load_study("quick").name == "s"


def test_a_file_that_is_no_text_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_bytes(b"name = '\xff\xfe'")
    with pytest.raises(StudyError, match="cannot be read"):
        load_study(path)


def test_a_byte_order_mark_is_no_part_of_a_study(tmp_path: Path) -> None:
    path = tmp_path / "marked.toml"
    path.write_bytes(b"\xef\xbb\xbf" + COMMIT.encode())
    assert load_study(path).name == "s"


def test_a_model_file_that_is_no_toml_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "slow.toml"
    path.write_text("channels = 2\nread = = 3\n")
    with pytest.raises(StudyError, match=r"slow\.toml, line 2: invalid TOML"):
        load_model(path)
    path.write_text("channels = 2\n")
    assert load_model(path) == {"channels": 2}


@pytest.mark.parametrize(
    ("workload", "says"),
    [
        ({"threads": 0}, "--threads is 0. Expected a whole number of at least 1."),
        ({"block_sizes": "4kB"}, "--block-size is invalid: '4kB' is ambiguous"),
        ({"operations": ["reed"]}, "--operation is 'reed'. Did you mean 'read'?"),
        ({"theta": 2.0}, "--theta has no effect here. It applies only with pattern = 'zipf'."),
        ({"pattern": "strided"}, "the command line has no 'stride'."),
    ],
)
def test_a_wrong_option_is_named_as_an_option(workload: dict[str, object], says: str) -> None:
    with pytest.raises(StudyError) as caught:
        study_from_options({"name": "io", "workload": [{"kind": "io"} | workload]})
    assert str(caught.value).startswith(says)
    assert "--help" in caught.value.next_step
    model = {"kind": "simulated", "model": {"chanels": 2}}
    with pytest.raises(StudyError, match=r"^--model: chanels is not a key\. Did you mean"):
        study_from_options({"name": "io", "target": [model], "workload": [{"kind": "io"}]})

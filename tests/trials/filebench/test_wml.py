"""Workload files: what the engine gets of them, and errors with their line."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.trials.filebench.cells import _growing_sets
from seatrial.trials.filebench.wml.evaluate import mean_of
from seatrial.trials.filebench.wml.parse import parse
from seatrial.trials.filebench.wml.source import personalities, text_of
from seatrial.trials.filebench.wml.words import WorkloadFileError
from seatrial.trials.filebench.wml.workload import workload_of

HEAD = "define fileset name=s,size=4k,entries=10,prealloc=100\n"


def workload(flowops: str, head: str = HEAD, **changed):
    text = f"{head}define process name=p {{ thread name=t {{ {flowops} }} }}"
    return workload_of("mine.f", text, changed)


def flowops_of(program):
    return msgspec.to_builtins(program.engine)["threads"][0]["steps"]


def file_error(text: str) -> str:
    with pytest.raises(WorkloadFileError) as caught:
        workload_of("mine.f", text)
    return str(caught.value)


def test_shipped_personalities() -> None:
    assert personalities() == ("fileserver", "oltp", "randomread", "varmail", "webserver")


@pytest.mark.parametrize(
    ("name", "threads", "entries", "made_bytes"),
    [
        ("oltp", {"logwriter": 1, "pagewriter": 10, "reader": 200}, 11, 11 * 10 << 20),
        ("fileserver", {"server": 50}, 10_000, 8_000 * 131_072),
        ("varmail", {"mailserver": 16}, 1_000, 800 * 16_384),
        ("webserver", {"webserver": 100}, 1_001, 1_001 * 16_384),
        ("randomread", {"reader": 1}, 1, 5 << 30),
    ],
)
def test_a_personality_has_its_documented_parameters(name, threads, entries, made_bytes) -> None:
    program = workload_of(name, text_of(name))
    assert {
        each["name"]: each["instances"] for each in msgspec.to_builtins(program.engine)["threads"]
    } == threads
    assert (program.entries, program.made_bytes) == (entries, made_bytes)
    assert (program.run_s, program.notes) == (60.0, [])


def test_oltp_writes_its_log_in_256_kib_and_pages_by_the_hundred() -> None:
    program = workload_of("oltp", text_of("oltp"))
    log, pages, readers = (each["steps"] for each in msgspec.to_builtins(program.engine)["threads"])
    assert (log[0]["io_bytes"], log[0]["dsync"], log[2]["value"]) == (256 << 10, True, 3200)
    assert (pages[0]["io_bytes"], pages[0]["iters"], pages[0]["rotates"]) == (2048, 100, 10)
    names = [each["name"] for each in msgspec.to_builtins(program.engine)["kinds"]]
    assert [names[target] for target in readers[2]["targets"]] == ["log-wait"]


def test_a_variable_can_be_overridden_and_an_unknown_one_is_an_error() -> None:
    program = workload_of("varmail", text_of("varmail"), {"nfiles": 50, "nthreads": 2})
    assert (program.threads, program.entries) == (2, 50)
    with pytest.raises(WorkloadFileError, match=r"no variable \$nfile.* Did you mean 'nfiles'"):
        workload_of("varmail", text_of("varmail"), {"nfile": 50})
    with pytest.raises(WorkloadFileError, match="out of range"):
        workload_of("varmail", text_of("varmail"), {"nfiles": 10**400})


def test_a_composite_is_repeated_with_its_parameters() -> None:
    text = """
    set $n = 2 * 3
    define fileset name=a,entries=10,prealloc
    define flowop name=visit, $where, $times {
      flowop openfile name=o,filesetname=$where,fd=1
      flowop closefile name=c,fd=1,iters=1
    }
    define process name=p { thread name=t { flowop visit name=v, iters=$n, $where=a, $times=5 } }
    """
    steps = flowops_of(workload_of("mine.f", text))
    assert steps[0]["repeat"] == 6
    assert [step["verb"] for step in steps[0]["steps"]] == ["openfile", "closefile"]


def test_distributions_have_the_mean_of_the_file() -> None:
    text = """
    define randvar name=$table, type=tabular, min=1k, randtable = {{ 80, 1k, 3k}, {20, 4k, 16k}}
    set $gamma = randvar(type=gamma, min=1k, mean=5632, gamma=1500)
    set $cvar = cvar(type=cvar-uniform,parameters=lower:4096;upper:8192)
    define fileset name=a,entries=1,size=$table
    define fileset name=b,entries=1,size=$gamma
    define fileset name=c,entries=1,size=$cvar
    define process name=p { thread name=t { flowop statfile name=x,filesetname=a } }
    """
    sizes = [each.size for each in workload_of("mine.f", text).engine.sets]
    assert [mean_of(size) for size in sizes] == [0.8 * 2048 + 0.2 * 10240, 5632, 6144]


def test_a_flowop_without_fd_uses_its_file() -> None:
    program = workload(
        "flowop read name=a,filesetname=s,iosize=1k flowop read name=b,filesetname=u,iosize=1k "
        "flowop write name=c,filesetname=s,iosize=1k flowop fsync name=d",
        HEAD + "define file name=u,prealloc\n",
    )
    first, second, third, sync = [step["slot"] for step in flowops_of(program)]
    assert first == third == sync != second


def test_run_psrun_and_mode_count() -> None:
    text = HEAD + "define process name=p { thread name=t { flowop delay name=d,value=1 } }\n"
    assert workload_of("x", text + "psrun -10 70\n").run_s == 70
    assert workload_of("x", text + "run\n").run_s is None
    assert workload_of("x", text + "set mode quit firstdone").engine.end == "first_done"
    assert workload_of("x", text + "quit nonsense {{{").threads == 1


PROCESS = "define process name=p { thread name=t { flowop delay name=d,value=1 } }"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "mine.f: it defines no process"),
        ("\n\nsystem \"rm -rf /\"", "line 3: 'system' is not supported"),
        ("enable multi master=a", "line 1: enable multi is not supported"),
        ("defin file name=a", "line 1: 'defin' is not a statement. Did you mean 'define'?"),
        ("define fileset name=a,entrys=3", "'entrys' is not an attribute of fileset. Did you mean"),
        ('define fileset name="../a",entries=3\n' + PROCESS, "the name '../a'"),
        ("define fileset name=a\n" + PROCESS, "a fileset of 0 files"),
        ("define fileset name=a,entries=$n\n" + PROCESS, "the variable $n. It has no value"),
        ("set $a=$b\nset $b=$a\ndefine file name=x,size=$a\n" + PROCESS, "refers to itself"),
        ("define file name=x,size=1k\ndefine file name=x\n" + PROCESS, "a second fileset 'x'"),
        ("set $x=\"open", "line 1: '\"' begins no word. A text without its second"),
        ("set mode quit never", "mode quit never"),
        ("define process name=p { thread name=t {", "the file ends. Expected a flowop"),
        ("define process name=p,instances=5000 { thread name=t { flowop hog name=h } }", "5000 th"),
    ],
)  # fmt: skip
def test_an_unsupported_statement_is_reported(text, message) -> None:
    assert message in file_error(text)


@pytest.mark.parametrize(
    ("flowops", "message"),
    [
        ("flowop reed name=x", "line 2: no flowop 'reed'. Did you mean 'read'?"),
        ("flowop print name=x,value=hi", "the flowop 'print' is not supported"),
        ("flowop read name=x,filesetname=s", "read without iosize"),
        ("flowop openfile name=x,fd=1", "openfile without filesetname"),
        ("flowop openfile name=x,filesetname=none,fd=1", "no fileset 'none'"),
        ("flowop openfile name=x,filesetname=s,fd=1", "openfile with fd 1. A file is open there"),
        ("flowop closefile name=x,fd=1", "closefile with fd 1. No file is open there"),
        ("flowop fsync name=x", "fsync has no open file"),
        ("flowop readwholefile name=x,fd=3", "readwholefile with fd 3. No file is open there"),
        ("flowop wakeup name=x", "wakeup without target"),
        ("flowop wakeup name=x,target=y", "no flowop is called 'y'"),
        ("flowop delay name=y,value=1 flowop wakeup name=x,target=y", "is not a block"),
        ("flowop makedir name=x,filesetname=s", "which has no leafdirs"),
        ("flowop read name=x,filesetname=s,iosize=1g", "At most 64 MiB"),
        ("flowop hog name=x,value=1,$a=2", "hog takes no $a"),
        ("flowop read name=x,filesetname=s,iosize=1k,fd=200", "fd 200"),
    ],
)
def test_an_impossible_flowop_is_an_error(flowops, message) -> None:
    with pytest.raises(WorkloadFileError) as caught:
        workload(flowops)
    assert message in str(caught.value)


WORDS = [
    *("define", "fileset", "file", "process", "thread", "flowop", "set", "run", "eventgen", "rate"),
    *("name", "entries", "size", "instances", "iters", "filesetname", "fd", "iosize", "random"),
    *("read", "write", "openfile", "closefile", "createfile", "delay", "value", "target", "cvar"),
    *("randvar", "type", "cvar-gamma", "gamma", "parameters", "mean:1;gamma:2", "randtable"),
    *("{", "}", "(", ")", ",", "=", "*", "/", "+", "-", "$a", "$b", "1", "2k", "0", "true", "s"),
    *('"text"', "\n", "mode", "quit", "firstdone", "prealloc", "dirwidth", "leafdirs", "psrun"),
]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=60))
def test_any_words_are_read_or_refused(words) -> None:
    read_or_refused(" ".join(words))


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text) -> None:
    read_or_refused(text)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(personalities()), st.integers(0, 1 << 30))
def test_a_damaged_personality_is_read_or_refused(name, seed) -> None:
    """Words of a file that is right are lost, doubled or replaced."""
    rng, words = random.Random(seed), text_of(name).split(" ")
    for _ in range(rng.randint(1, 4)):
        file_name = rng.randrange(len(words))
        words[file_name : file_name + 1] = rng.choice(
            [[], [words[file_name]] * 2, [rng.choice(WORDS)]]
        )
    read_or_refused(" ".join(words))


def read_or_refused(text: str) -> None:
    message = ""
    try:
        message = f"mine.f: {workload_of('mine.f', text).threads} threads"
    except WorkloadFileError as error:
        message = str(error)
    assert "mine.f" in message


def test_deep_nesting_is_refused() -> None:
    assert "nested a hundred times" in file_error("set $a=" + "(" * 5000 + "1" + ")" * 5000)
    with pytest.raises(WorkloadFileError, match="characters"):
        parse("mine.f", "#" * (5 << 20))


@pytest.mark.parametrize(
    ("flowops", "growing"),
    [
        ("flowop appendfile name=x,filesetname=b,iosize=8k", 1),
        (
            """flowop openfile name=o,filesetname=a,fd=1
            flowop appendfile name=x,fd=1,iosize=8k
            flowop closefile name=c,fd=1
            flowop appendfile name=y,filesetname=b,iosize=8k""",
            2,
        ),
        (
            """flowop openfile name=o,filesetname=b,fd=2
            flowop appendfile name=x,fd=2,iosize=8k
            flowop closefile name=c,fd=2
            flowop read name=r,filesetname=a,iosize=1k""",
            1,
        ),
    ],
)
def test_the_space_for_growth_is_that_of_the_sets_that_grow(flowops, growing) -> None:
    sets = "".join(f"define fileset name={name},size=1k,entries=9,prealloc\n" for name in "abc")
    assert _growing_sets(workload(flowops, sets)) == growing

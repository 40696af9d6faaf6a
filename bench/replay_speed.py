"""The cost of replaying: `seatrial sql replay` against pgbench, and pgreplay if installed.

    bench/replay_speed.py          the figures of bench/RESULTS.md: 10 rounds, about seven minutes
    bench/replay_speed.py --quick  one round of short loads, printed and not written: does it run?

pgbench does its loads on a PostgreSQL that logs all: reads only (simple, prepared, and at a given
rate), and a mix of its three scripts. The traces of these logs are then played to that server,
logging no more. In each round pgbench repeats the very statements that it did while it was logged
(the same seed), twice, so that its ratio to itself is the noise; the driver plays them, and
plays the paced log at half of the rate that it has just reached. What a command takes to start,
connect and end is measured in the same round by one of a few statements, and subtracted from its
processor time; rates are those from the first connection to the last answer.

pgreplay plays the same log, once, where it is on the PATH or named by SEATRIAL_PGREPLAY.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from command import at_least, parsed_options, run_bench
from own_cluster import own_cluster
from replay_page import AGAIN, MODES, PGBENCH, SEATRIAL, BenchResult, section
from replay_parts import counted, sampled
from replay_server import (
    MIX,
    SESSIONS,
    SETTINGS,
    STATEMENTS_OF_MIX,
    LoadedServer,
    Logs,
    NotPlayedError,
    ResourceUse,
)

from seatrial.errors import SeatrialError

SECTION: Final = "replay"
PACED_PER_S: Final = 5_000
PACED, MIXED, FEW = "paced", "mixed", "few"
PGREPLAY: Final = "pgreplay"


@dataclass
class Measurements:
    """Measurements of the rounds so far.

    Attributes:
        spent: By mode and contender, one a round.
        lags: Of the paced replays, one a round.
        loads: Load averages, one a round.
    """

    spent: dict[tuple[str, str], list[ResourceUse]] = field(default_factory=dict)
    lags: list[dict[str, Any]] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    return parsed_options(
        arguments,
        __doc__,
        rounds=10,
        rounds_help="how often each program replays",
        quick_help="one round of short loads",
        quick={"statements": 8_000, "mixed": 8_000},
        own={
            "--statements": {"type": at_least(1_000), "default": 100_000, "help": "of reads only"},
            "--mixed": {
                "type": at_least(1_000),
                "default": 1_000_000,
                "help": "statements of the mix",
            },
        },
    )


def measure(options: argparse.Namespace) -> BenchResult:
    """Create a server, capture the loads, run the rounds, remove everything.

    Raises:
        SeatrialError: When there is no PostgreSQL, or it does not run here.
        NotPlayedError: When somebody did not do what it was to do.
    """
    with own_cluster("replay") as own:
        logs = Logs(own.cluster, own.folder)
        with own.cluster.start(SETTINGS) as server:
            LoadedServer(server, own.cluster).fill()
        counts = captured(logs, options)
        with own.cluster.start(SETTINGS) as server:
            return played(LoadedServer(server, own.cluster), logs, counts, own.conditions, options)


def captured(logs: Logs, options: argparse.Namespace) -> dict[str, int]:
    """Capture every load; the statements of each log."""
    loads = {mode: reads(mode, options.statements) for mode in MODES}
    loads[PACED] = [*reads("prepared", options.statements), f"--rate={PACED_PER_S}"]
    loads[FEW] = reads("prepared", SESSIONS)
    transactions = int(options.mixed / STATEMENTS_OF_MIX / SESSIONS) + 1
    scripts = [f"--builtin={script}" for script in MIX]
    loads[MIXED] = ["--protocol=prepared", f"--transactions={transactions}", *scripts]
    counts = {}
    for name, load in loads.items():
        counts[name] = logs.capture(name, *load, "--random-seed=1")
        print(f"captured {name}: {counts[name]} statements", file=sys.stderr)
    return counts


def reads(mode: str, statements: int) -> list[str]:
    """Return the options of pgbench for so many reads."""
    transactions = max(1, statements // SESSIONS)
    return ["--select-only", f"--protocol={mode}", f"--transactions={transactions}"]


def played(
    playing: LoadedServer,
    logs: Logs,
    counts: dict[str, int],
    conditions: list[str],
    options: argparse.Namespace,
) -> BenchResult:
    """Run the rounds, then what is measured once."""
    taken = Measurements()
    rng = random.Random(options.seed)
    playing.pgbench(*reads("prepared", options.statements))
    for number in range(1, options.rounds + 1):
        one_round(playing, logs, taken, rng, options.statements)
        taken.loads.append(os.getloadavg()[0])
        print(f"round {number} of {options.rounds}", file=sys.stderr)
    command = playing.seatrial_command(logs.trace("prepared"))
    watched: dict[str, Callable[[Sequence[str]], ResourceUse]] = {
        PGBENCH: lambda by: playing.under(by).pgbench(*reads("prepared", options.statements)),
        SEATRIAL: lambda by: playing.under(by).seatrial(logs.trace("prepared")),
    }
    return BenchResult(
        conditions=conditions,
        counts=counts,
        spent=taken.spent,
        lags=taken.lags,
        mixed=playing.seatrial(logs.trace(MIXED)),
        command_s=command.real_s,
        pgreplay=by_pgreplay(playing, logs, counts),
        parts={name: sampled(play, logs.folder) for name, play in watched.items()},
        calls={name: counted(play, logs.folder) for name, play in watched.items()},
        seed=options.seed,
        loads=taken.loads,
    )


def one_round(
    playing: LoadedServer, logs: Logs, taken: Measurements, rng: random.Random, statements: int
) -> None:
    """Run every program with every load of reads once, in a new random order."""
    few = {
        PGBENCH: playing.pgbench(*reads("prepared", SESSIONS)),
        SEATRIAL: playing.seatrial(logs.trace(FEW)),
    }
    few[AGAIN] = few[PGBENCH]

    def by_pgbench(mode: str) -> ResourceUse:
        return playing.pgbench(*reads(mode, statements), "--random-seed=1")

    contenders: dict[str, Callable[[str], ResourceUse]] = {
        PGBENCH: by_pgbench,
        AGAIN: by_pgbench,
        SEATRIAL: lambda mode: playing.seatrial(logs.trace(mode)),
    }
    for mode in rng.sample(MODES, len(MODES)):
        for name in rng.sample(list(contenders), len(contenders)):
            spent = contenders[name](mode)
            taken.spent.setdefault((mode, name), []).append(spent.beyond(few[name]))
    half_per_s = taken.spent["prepared", SEATRIAL][-1].per_s / 2
    paced = playing.seatrial(logs.trace(PACED), speed=half_per_s / PACED_PER_S)
    taken.lags.append(paced.reported["record"]["lag"])


def by_pgreplay(
    playing: LoadedServer, logs: Logs, counts: dict[str, int]
) -> dict[str, ResourceUse | str]:
    """Let pgreplay play both logs of reads; return its time or its error, by mode."""
    program = os.environ.get("SEATRIAL_PGREPLAY") or shutil.which(PGREPLAY)
    if program is None:
        return {}
    results: dict[str, ResourceUse | str] = {}
    for mode in MODES:
        try:
            results[mode] = playing.pgreplay(program, logs.log(mode), counts[mode])
        except subprocess.TimeoutExpired as error:
            results[mode] = f"not ended after {error.timeout:g} s"
        except NotPlayedError as error:
            results[mode] = str(error).replace("\n", " ")
    return results


if __name__ == "__main__":
    run_bench(
        SECTION,
        options_of(sys.argv[1:]),
        lambda options: section(measure(options)),
        (NotPlayedError, SeatrialError),
    )

"""Where a statement's processor time goes: samples of one play, by what was under way in each.

``perf`` takes the samples, ``strace`` counts the system calls; where one of them is missing or is
not permitted, its part is left out. Both slow down what they watch, ``perf`` above all each change
of the running thread: what is published are shares of the samples, times what a statement took in
the rounds, unwatched.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from replay_server import ResourceUse

SAMPLES_PER_S: Final = 5_000
WATCHED: Final = ("sendto", "recvfrom", "epoll_pwait", "epoll_wait", "ppoll", "futex")
"""System calls that are worth a row."""
COUNTED: Final = re.compile(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$")
"""Calls and name in a row of ``strace -c``, whose errors may be missing."""
STARTING: Final = "python"
"""The thread that starts a playback, and waits."""
READER: Final = "playback-reader"
CLIENT, READING, OTHER = "the client itself", "the trace read ahead", "other work of the kernel"
WAKE, SEND = "to send: the server is woken", "to send: all else"
RECEIVE, SLEEP, LOOK = "to receive", "to wait: sleep", "to wait: all else"
TURN: Final = "another thread's turn"
PARTS: Final = (CLIENT, READING, SEND, WAKE, RECEIVE, LOOK, SLEEP, TURN, OTHER)


def part_of(thread: str, symbols: Sequence[str], is_kernel: bool) -> str:
    """Return what a sample counts to, by the thread's name and the functions under way."""
    under_way = " ".join(symbols)
    if not is_kernel:
        return READING if thread == READER else CLIENT
    if "sys_sendto" in under_way:
        return WAKE if "sock_def_readable" in under_way else SEND
    if "sys_recvfrom" in under_way:
        return RECEIVE
    if "sys_epoll" in under_way or "sys_ppoll" in under_way:
        return SLEEP if "schedule" in symbols else LOOK
    return TURN if "schedule" in symbols else OTHER


def parts_of(printed: str) -> dict[str, float]:
    """Return the share of each part in what ``perf script -F comm,ip,sym`` prints."""
    counts: Counter[str] = Counter()
    for sample in printed.split("\n\n"):
        head, *frames = sample.strip().splitlines() or [""]
        found = [frame.split(None, 1) for frame in frames if frame.strip()]
        if not found or head.strip() == STARTING:
            continue
        symbols = [frame[1].strip() for frame in found if len(frame) > 1]
        # The kernel has the upper half of the addresses, all 16 digits of them.
        is_kernel = len(found[0][0]) == 16 and found[0][0].startswith("ffff")
        counts[part_of(head.strip(), symbols, is_kernel)] += 1
    return {part: count / counts.total() for part, count in counts.items()}


def sampled(play: Callable[[Sequence[str]], ResourceUse], folder: Path) -> Mapping[str, float]:
    """Let a contender play under ``perf``; the share of each part, empty where that cannot be."""
    samples = folder / "perf.data"
    record = ["perf", "record", "-q", "-g", "-e", "cpu-clock", "-F", str(SAMPLES_PER_S)]
    is_there = shutil.which("perf") is not None
    if not is_there or not _runs([*record, "-o", str(samples), "--", "true"]):
        return {}
    play([*record, "-o", str(samples), "--"])
    script = ["perf", "script", "-F", "comm,ip,sym", "-i", str(samples)]
    printed = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    return parts_of(printed)


def calls_of(printed: Iterable[str], statements: int) -> dict[str, float]:
    """Return the system calls a statement, by name, in what ``strace -c`` prints."""
    calls = {row[2]: int(row[1]) / statements for row in map(COUNTED.match, printed) if row}
    return {name: calls[name] for name in WATCHED if name in calls}


def counted(play: Callable[[Sequence[str]], ResourceUse], folder: Path) -> Mapping[str, float]:
    """Let a contender play under ``strace``; its system calls, empty where that cannot be."""
    summary = folder / "strace.txt"
    command = ["strace", "-f", "-c", "-o", str(summary)]
    if shutil.which("strace") is None or not _runs([*command, "true"]):
        return {}
    statements = play(command).statements
    return calls_of(summary.read_text().splitlines(), statements)


def _runs(command: Sequence[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0

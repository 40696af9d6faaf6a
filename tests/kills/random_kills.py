"""Kills real commands at random moments, has them cleaned, and looks for what is left.

    python tests/kills/random_kills.py --kills 1000 --seed 7

Each kill draws from the seed: the command, the moment (from its start to a little after its usual
end), the signal (HUP, TERM, INT, INT twice, KILL) and whether the process or its process group gets
it. Then `seatrial clean` runs once, and nothing may be left: no process, mount, loop device, shared
memory, file, journal, and no run that `seatrial list` calls running.

As root it runs in namespaces of its own, so that other work on the machine is not mistaken for a
leftover, nor disturbed. Exit code: 0 when nothing was left, else 1.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from kills.commands import SEATRIAL, Trial, trials
from kills.leftovers import Machine

INSIDE = "SEATRIAL_KILLS_INSIDE"
SIGNALS = ("HUP", "TERM", "INT", "INT INT", "KILL")
SECOND_S_MAX = 0.5
"""A second Ctrl-C comes within so many seconds after the first."""
END_TIMEOUT_S = 90.0
USUAL_TIMEOUT_S = 180.0
EVERY = 50
"""After so many kills, a line says how many left something."""
AFTER_SHARE = 1.05
"""Of a command's usual time, so much passes at most before it is killed."""


@dataclass(frozen=True)
class Kill:
    """One kill, all drawn from the seed."""

    trial: Trial
    signals: str
    to_group: bool
    after_s: float
    second_s: float

    def __str__(self) -> str:
        whom = "group" if self.to_group else "process"
        second = f", again after {self.second_s:.3f} s" if self.signals == "INT INT" else ""
        return f"{self.trial.name}: {self.signals} to the {whom} after {self.after_s:.3f} s{second}"


class Killer:
    """Kills commands in one folder."""

    def __init__(self, folder: Path, *, is_private: bool) -> None:
        self.folder = folder
        for name in ("target", "tmp", "state", "runtime"):
            (folder / name).mkdir()
        # A server that steps down to another account must reach its data.
        folder.chmod(0o755)
        (folder / "tmp").chmod(0o1777)
        self.environment = os.environ | {
            "SEATRIAL_STATE_DIR": str(folder / "state"),
            "SEATRIAL_RESULTS": str(folder / "results.seatrial"),
            "TMPDIR": str(folder / "tmp"),
            "XDG_RUNTIME_DIR": str(folder / "runtime"),
        }
        self.machine = Machine(folder, is_private=is_private)
        self._is_private = is_private

    def usual_s(self, trial: Trial) -> float:
        """How long a command takes that nobody kills; it must leave nothing, too."""
        began_s = time.monotonic()
        process = self._start(trial)
        code = process.wait(USUAL_TIMEOUT_S)
        elapsed_s = time.monotonic() - began_s
        self._bury()
        left = self.machine.leftovers()
        if code != 0 or left:
            reported = (self.folder / "stderr").read_text()
            raise SystemExit(
                f"{trial.name}, which nobody killed, ended with {code}: {reported} {left}"
            )
        return elapsed_s

    def kill(self, kill: Kill) -> list[str]:
        """Carry out one kill, and clean; return what is left."""
        for each in self.folder.glob("*.seatrial*"):
            each.unlink()
        process = self._start(kill.trial)
        try:
            process.wait(kill.after_s)
        except subprocess.TimeoutExpired:
            self.machine.note_runs()
            self._send(process, kill)
        left = []
        try:
            process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            left.append(f"it did not end within {END_TIMEOUT_S} s")
            process.kill()
            process.wait()
        said = (self.folder / "stderr").read_text(errors="replace")
        if "Traceback" in said or "internal error" in said:
            left.append(f"it said: {said[-1500:]}")
        self._bury()
        self.machine.note_runs()
        cleaned = self._seatrial("clean")
        if cleaned.returncode != 0:
            left.append(f"clean ended with {cleaned.returncode}: {cleaned.stdout}{cleaned.stderr}")
        self._bury()
        left += self.machine.leftovers()
        return left + self._running()

    def clear(self) -> None:
        """Have the next kill begin without what this one left, as far as clean does it now."""
        for pid in self.machine.processes() if self._is_private else ():
            os.kill(pid, signal.SIGKILL)
        self._seatrial("clean")
        self.machine = Machine(self.folder, is_private=self._is_private)

    def _start(self, trial: Trial) -> subprocess.Popen[bytes]:
        with (self.folder / "stderr").open("wb") as reported:
            return subprocess.Popen(
                [SEATRIAL, *trial.arguments],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=reported,
                start_new_session=True,
            )

    def _send(self, process: subprocess.Popen[bytes], kill: Kill) -> None:
        for number, name in enumerate(kill.signals.split()):
            if number and _ends(process, kill.second_s):
                return
            send = os.killpg if kill.to_group else os.kill
            send(process.pid, signal.Signals[f"SIG{name}"])

    def _seatrial(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [SEATRIAL, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=END_TIMEOUT_S,
        )

    def _running(self) -> list[str]:
        if not (self.folder / "results.seatrial").exists():
            return []
        listed = self._seatrial("list", "--json")
        if listed.returncode != 0:
            return [f"list ended with {listed.returncode}: {listed.stdout}{listed.stderr}"]
        runs = json.loads(listed.stdout)["runs"]
        return [f"list calls {run['id']} running" for run in runs if run["status"] == "running"]

    def _bury(self) -> None:
        """Take in orphans that have ended, where there is no other init to do so."""
        if os.getpid() != 1:
            return
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    return
            except ChildProcessError:
                return


def _ends(process: subprocess.Popen[bytes], within_s: float) -> bool:
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def drawn(source: random.Random, usual_s: dict[Trial, float]) -> Kill:
    """Draw one kill."""
    # What takes long is killed less often, for the sake of all others.
    weights = [seconds**-0.5 for seconds in usual_s.values()]
    (trial,) = source.choices(list(usual_s), weights)
    return Kill(
        trial=trial,
        signals=source.choice(SIGNALS),
        to_group=source.random() < 0.5,
        after_s=source.random() * usual_s[trial] * AFTER_SHARE,
        second_s=source.random() * SECOND_S_MAX,
    )


def kill_all(folder: Path, wanted: argparse.Namespace, *, is_private: bool) -> int:
    """Carry out the kills; return how many left something."""
    killer = Killer(folder, is_private=is_private)
    chosen = [
        trial for trial in trials(folder) if not wanted.only or trial.name in wanted.only.split(",")
    ]
    usual_s = {trial: killer.usual_s(trial) for trial in chosen}
    reported = ", ".join(f"{trial.name} {seconds:.1f} s" for trial, seconds in usual_s.items())
    say(f"seed {wanted.seed}; unharmed: {reported}")
    source = random.Random(wanted.seed)
    kills: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for number in range(wanted.kills):
        if number and number % EVERY == 0:
            say(f"{number} kills so far, {sum(failed[name] for name in SIGNALS)} left something")
        kill = drawn(source, usual_s)
        kills[kill.signals] += 1
        kills[kill.trial.name] += 1
        left = killer.kill(kill)
        if left:
            failed[kill.signals] += 1
            failed[kill.trial.name] += 1
            say(f"{number}: {kill}\n    " + "\n    ".join(left))
            killer.clear()
        elif wanted.verbose:
            say(f"{number}: {kill}")
    reported = ", ".join(f"{name} {failed[name]} of {count}" for name, count in kills.most_common())
    bad = sum(failed[name] for name in SIGNALS)
    say(f"{wanted.kills} kills, {bad} left something ({reported})")
    return bad


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="names of commands, with commas between")
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args()


def enter_namespaces(folder: Path) -> None:
    """Start this script anew, as the first process of namespaces of its own."""
    command = ["unshare", "--mount", "--ipc", "--pid", "--fork", "--mount-proc", "--kill-child"]
    environment = os.environ | {INSIDE: str(folder)}
    os.execvpe("unshare", [*command, sys.executable, *sys.argv], environment)


def private_folder(above: Path) -> Path:
    """Have /tmp and /dev/shm be our own, and return the folder that commands are to use."""
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], check=True)
    subprocess.run(["mount", "--bind", str(above), "/tmp"], check=True)
    Path("/tmp").chmod(0o1777)
    return Path(tempfile.mkdtemp(prefix="kills-", dir="/tmp"))


def main() -> int:
    """Run in namespaces where that can be had, otherwise with everything else."""
    wanted = options()
    above = os.environ.get(INSIDE)
    if above:
        return 1 if kill_all(private_folder(Path(above)), wanted, is_private=True) else 0
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        if os.geteuid() != 0:
            place = Path(folder, "kills")
            place.mkdir()
            return 1 if kill_all(place, wanted, is_private=False) else 0
        if (child := os.fork()) == 0:
            enter_namespaces(Path(folder))
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    sys.exit(main())

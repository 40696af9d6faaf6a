"""What is done otherwise than by fio, told once for all jobs that it concerns."""

from __future__ import annotations

from typing import Final

NAMED_MAX: Final = 3


class JobNotes:
    """Notes on the jobs of a file, in the order in which they arose."""

    def __init__(self) -> None:
        self._jobs_by_text: dict[str, list[str]] = {}

    def add(self, job: str, text: str) -> None:
        """Keep a note on one job; an empty name is for all of them."""
        jobs = self._jobs_by_text.setdefault(text, [])
        if job and job not in jobs:
            jobs.append(job)

    def sentences(self) -> list[str]:
        """Return the notes without a full stop, as those of a plan are."""
        return [f"{_named(jobs)}{text}" for text, jobs in self._jobs_by_text.items()]


def _named(jobs: list[str]) -> str:
    if not jobs:
        return ""
    if len(jobs) == 1:
        return f"job {jobs[0]}: "
    if len(jobs) > NAMED_MAX:
        return f"jobs {jobs[0]}, {jobs[1]} and {len(jobs) - 2} others: "
    return f"jobs {', '.join(jobs[:-1])} and {jobs[-1]}: "

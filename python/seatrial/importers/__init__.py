"""Foreign results in: each reader turns a file into a run and samples, as if it had been measured.

What a source does not tell stays absent: no histogram is made of a mean, no blank cell of a table
becomes a zero. An imported run says so in its study: ``study["imported"]`` (see results/origin.py).
"""

from seatrial.importers.model import Imported
from seatrial.importers.recognise import read_jobs, read_results

__all__ = ["Imported", "read_jobs", "read_results"]

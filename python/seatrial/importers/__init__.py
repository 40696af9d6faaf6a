"""Imports results of other tools: each reader turns a file into a run and samples.

What a source lacks stays absent: no histogram is made from a mean, and a blank cell of a table does
not become a zero. ``study["imported"]`` marks an imported run (see results/model.py).
"""

from seatrial.importers.document import Imported
from seatrial.importers.recognise import read_jobs, read_results

__all__ = ["Imported", "read_jobs", "read_results"]

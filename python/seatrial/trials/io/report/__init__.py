"""Block I/O: charts on the page."""

"""Block I/O: how a cell is measured."""

"""Load lines: the highest rate at which a percentile keeps within a limit."""

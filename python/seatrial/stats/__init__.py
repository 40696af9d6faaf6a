"""Estimates with intervals, change points, comparison: pure functions over stored samples."""

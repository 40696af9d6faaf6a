"""Sums of block requests by device, operation, process or relation."""

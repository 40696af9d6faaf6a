"""Observation of a machine's block requests by device, process and database relation."""

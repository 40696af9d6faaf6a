"""Workloads of files, as Filebench's workload files describe them."""

"""The workload ``filebench`` of a study: its keys and its cells."""

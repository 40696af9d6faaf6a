"""The load line: latency against offered load."""

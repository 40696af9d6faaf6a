"""A PostgreSQL server for a trial: its programs, its account, its data, and the way to it."""

"""A PostgreSQL server for a trial: its programs, account, data, and connections."""

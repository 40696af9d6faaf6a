"""Studies: schema, checking, planning."""

"""Cache devices in front of arrays: each module is one kind, found by its name in a study."""

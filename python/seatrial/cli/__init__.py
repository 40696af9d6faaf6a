"""Commands: one small file each; parses, calls, prints."""

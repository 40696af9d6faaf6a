"""Block requests as tables and JSON."""

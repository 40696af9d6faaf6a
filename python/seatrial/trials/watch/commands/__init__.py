"""Commands of watching."""

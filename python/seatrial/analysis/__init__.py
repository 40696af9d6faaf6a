"""Pure functions over stored samples."""

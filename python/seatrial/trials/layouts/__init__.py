"""Arrays on trial: built, measured, broken, taken apart."""

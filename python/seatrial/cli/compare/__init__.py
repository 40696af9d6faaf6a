"""``seatrial compare``."""

"""``seatrial precondition``."""

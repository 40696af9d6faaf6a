"""``seatrial import``."""

"""``seatrial check``."""

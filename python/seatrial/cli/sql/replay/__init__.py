"""``seatrial sql replay``."""

"""``seatrial sql compare``."""

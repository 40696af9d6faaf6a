"""``seatrial io`` and ``seatrial precondition``."""

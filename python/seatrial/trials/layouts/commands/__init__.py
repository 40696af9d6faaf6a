"""``seatrial layout`` and ``seatrial lab``."""

"""The characteristics of a recorded load; each module computes one of them."""

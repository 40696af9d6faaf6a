"""What kind of load a recording is: each module computes one property of it."""

"""What samples of a replay say: its pace against the capture's, and who was the bottleneck."""

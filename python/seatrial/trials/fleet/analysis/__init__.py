"""What is concluded of the hosts of a cluster."""

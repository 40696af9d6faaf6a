"""Looking at the hosts of a cluster, and measuring with them."""

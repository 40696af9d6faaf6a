"""Many hosts: a Ray cluster, its clocks and network, and the merging of what its hosts measured."""

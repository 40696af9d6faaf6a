"""The fingerprint: machine, block devices, file system."""

"""The lab: a study inside a kernel of its own, without root and without hardware."""

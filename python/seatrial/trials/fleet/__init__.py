"""Many hosts as a topic: what they are like, and studies that several of them measure."""

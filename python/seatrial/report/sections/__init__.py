"""The parts of the page that are readable without scripts, in its order."""

"""From what the detectors say to one verdict."""

"""Controlled runs and what they prove: arms, order, settings that are put back, ratios with intervals, gates."""

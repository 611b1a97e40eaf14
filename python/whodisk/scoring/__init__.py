"""Verdicts against known truths."""

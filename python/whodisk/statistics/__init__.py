"""Tests, intervals and quantiles over plain arrays: no files, no queries."""

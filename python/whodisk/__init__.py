"""whodisk finds what makes storage slow, and proves it.

Everything here reads a case directory (Parquet, `case.json`, `system.json`); what writes one is the binary
`whodisk-agent`.
"""

__version__ = "0.1.0"

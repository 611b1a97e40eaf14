"""A copy is a workload: by read and write, by one call of the kernel, or by one of three ways of an SMB server.

Each operation is logged with its place, size, status, and what was really transferred. Needs nothing but Python itself for copies
within a file system, and the package `smbprotocol` for those on a server.
"""

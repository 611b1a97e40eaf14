"""Conformance of an SMB server's copy offload (ODX) and server-side copy: MS-FSCC 2.3.41 to 2.3.44, MS-FSA 2.1.5.10.22 and 23, MS-SMB2 3.3.5.15.6.

Needs only `smbprotocol`. Run it with `python -m odx_conformance HOST SHARE`.
"""

"""An SMB server with copy offload (ODX) and server-side copy, for tests: impacket's server, extended by four FSCTLs."""

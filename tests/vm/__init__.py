"""A machine with Debian 12's kernel under QEMU's emulation, and faults that are recorded inside."""

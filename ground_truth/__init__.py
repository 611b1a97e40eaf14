"""Cases with known culprits, and cases that look like one and are none."""

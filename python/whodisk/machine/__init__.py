"""What the host is: which devices are alike, which are made of others, who serves them, which threads are the kernel's."""

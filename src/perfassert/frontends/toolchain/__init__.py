"""Kernel sources and binaries → one kernel's machine code with the facts of its binary."""

"""Compilers: targets, flags, the search for tools, runs, and logs."""

"""Compilers: for which target, with which flags, found where, run how, and what they say."""

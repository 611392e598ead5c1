"""Adds what a source needs to the stand-ins for torch's C++ headers, and decides whether they are enough for it."""

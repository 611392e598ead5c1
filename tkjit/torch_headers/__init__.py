"""Completes the stand-ins for torch's C++ headers for each source, and decides whether they suffice for it."""

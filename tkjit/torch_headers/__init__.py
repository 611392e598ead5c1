"""The stand-ins for torch's C++ headers: what is generated for a source, and whether they are enough for it."""

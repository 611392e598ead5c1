"""Builds Python modules from sources written for torch's C++ API; see ``tkjit.cpp_extension``."""

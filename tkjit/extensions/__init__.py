"""Sources that were written for torch's C++ API, as Python modules; see ``tkjit.cpp_extension``."""

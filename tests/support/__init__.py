"""Shared by the tests of several rooms: processes, caches, stand-ins for compilers, libraries, programs to compare."""

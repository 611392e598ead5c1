"""A header library for the tests, and kernels that are written on it."""

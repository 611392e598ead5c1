"""A header library for the tests, and kernels that use it."""

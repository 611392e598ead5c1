"""Finds compilers, makes their command lines, runs them, and reads their logs."""

"""Verifies kernels: calls them with inputs generated from their specs, and compares the results with references."""

from tkjit.verify.call import Outcome
from tkjit.verify.verifier import Options, verify

__all__ = ["Options", "Outcome", "verify"]

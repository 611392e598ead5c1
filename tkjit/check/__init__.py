"""The checker: runs a kernel in the simulator and reports errors that correct results can hide."""

from tkjit.check.checker import MODES, VOLATILE, Options, Report, check
from tkjit.check.findings import Finding

__all__ = ["MODES", "VOLATILE", "Finding", "Options", "Report", "check"]

"""The checker: runs a kernel in the simulator, and says what is wrong with it that its results may not show."""

from tkjit.check.checker import MODES, Options, Report, check
from tkjit.check.findings import Finding

__all__ = ["MODES", "Finding", "Options", "Report", "check"]

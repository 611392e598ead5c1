"""Declares ``PreparedLaunch``, the type that ``Kernel.prepare`` returns, for type checkers. The class is in C++."""

from __future__ import annotations

from typing import Any, Protocol


class PreparedLaunch(Protocol):
    """A call whose arguments have been parsed and checked, ready to be launched many times."""

    @property
    def kernel(self) -> Any:
        """The loaded kernel."""

    @property
    def result(self) -> Any:
        """The result of every launch: the outputs are the same tensors each time."""

    @property
    def launches(self) -> tuple[tuple[int, int, int, int], ...]:
        """Each launch, for use from C (``tkjit/arg.h``): the addresses of a ``TkjitLauncher`` and of its arguments,
        the device's number, and the stream. All are valid as long as this object lives."""

    def __call__(self, **numbers: float) -> Any:
        """Launch the kernel. Numbers passed by name replace the prepared ones for this launch only.

        Raises
        ------
        ArgumentError
            If a tensor was freed, resized or moved, or if a number cannot be replaced because it determines
            shapes, the variant or the size of scratch memory.
        LaunchError
            If the launch fails.
        """

"""``PreparedLaunch``: what ``Kernel.prepare`` returns, as type checkers know it; the runtime has the class."""

from __future__ import annotations

from typing import Any, Protocol


class PreparedLaunch(Protocol):
    """A call whose arguments were parsed and checked once."""

    @property
    def kernel(self) -> Any:
        """The loaded kernel."""

    @property
    def result(self) -> Any:
        """What each launch returns: the outputs are the same ones each time."""

    @property
    def launches(self) -> tuple[tuple[int, int, int, int], ...]:
        """Each launch as a program in C makes it (``tkjit/arg.h``): the addresses of a ``TkjitLaunch`` and of its
        arguments, the device's number, the stream. They hold as long as this object lives."""

    def __call__(self, **numbers: float) -> Any:
        """Launch, with other numbers for those that are given by name; they hold for this launch.

        Raises
        ------
        ArgumentError
            If a tensor was freed, resized or moved, or a number cannot be given anew: one that decides shapes, a
            variant or memory.
        LaunchError
            If the launch fails.
        """

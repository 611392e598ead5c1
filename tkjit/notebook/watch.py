"""Notices that a file is newer than the kernel that was loaded from it."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from tkjit.kernel import Kernel
from tkjit.registry import full_name

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


class Watch:
    """Looks at the kernels of a shell's variables before each cell."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._said: weakref.WeakKeyDictionary[Kernel, tuple[Any, ...]] = weakref.WeakKeyDictionary()

    def look(self, *_: object) -> None:
        """Say once of each kernel which of its files have changed."""
        for name, value in list(self._shell.user_ns.items()):
            if name.startswith("_") or not issubclass(type(value), Kernel):  # _ and _12 are the shell's
                continue
            changed = value.changed_files()
            if changed and self._said.get(value) != changed:
                files = ", ".join(path.name for path in changed)
                print(f"tkjit: {files} has changed since {name} was loaded; load it again: {name} = {_again(value)}")
            self._said[value] = changed


def _again(kernel: Kernel) -> str:
    spec = kernel.specs[0]
    known = full_name(kernel.name, spec.module)
    return f"tkjit.load({known!r})" if known else f"tkjit.load({kernel.name})"

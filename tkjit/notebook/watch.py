"""Notices when a loaded kernel's files have changed."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from tkjit.kernel_objects import Kernel
from tkjit.registry import full_name

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


class Watch:
    """Checks the kernels among a shell's variables before each cell."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._reported: weakref.WeakKeyDictionary[Kernel, tuple[Any, ...]] = weakref.WeakKeyDictionary()

    def look(self, *_: object) -> None:
        """Print the changed files of each kernel, once per change."""
        for name, value in list(self._shell.user_ns.items()):
            if name.startswith("_") or not issubclass(type(value), Kernel):  # _ and _12 belong to the shell
                continue
            changed = value._changed_files()
            if changed and self._reported.get(value) != changed:
                files = ", ".join(path.name for path in changed)
                print(f"tkjit: {files} has changed since {name} was loaded; load it again: {name} = {_again(value)}")
            self._reported[value] = changed


def _again(kernel: Kernel) -> str:
    spec = kernel.specs[0]
    known = full_name(kernel.name, spec.module)
    return f"tkjit.load({known!r})" if known else f"tkjit.load({kernel.name})"

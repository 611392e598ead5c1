"""Runs the command line: ``python -m tkjit``."""

import sys
from contextlib import suppress
from pathlib import Path

# `python -m` puts the working directory first in `sys.path`, so a stranger's file there could replace a module
with suppress(OSError):  # the working directory was removed
    if sys.path[:1] == [str(Path.cwd())] and not getattr(sys.flags, "safe_path", False):
        del sys.path[0]

try:
    from tkjit.cli import main

    status = main()
except KeyboardInterrupt:  # during the import of torch
    status = 130
sys.exit(status)

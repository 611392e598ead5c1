"""Runs the command line: ``python -m tkjit``."""

import sys
from contextlib import suppress
from pathlib import Path

# `python -m` looks for modules in the working directory first: there a file of records could have any code imported
with suppress(OSError):  # a working directory that is gone
    if sys.path[:1] == [str(Path.cwd())] and not getattr(sys.flags, "safe_path", False):
        del sys.path[0]

try:
    from tkjit.cli import main

    status = main()
except KeyboardInterrupt:  # while torch was being imported
    status = 130
sys.exit(status)

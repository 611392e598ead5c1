"""``debug``: runs a program under gdb, with kernels on the CPU compiled for a debugger."""

from __future__ import annotations

import argparse
import os
import shutil
from typing import Any

from tkjit.compile.flags import SIMULATOR
from tkjit.config import environment_with
from tkjit.errors import SpecError, ToolchainError
from tkjit.system.install import system_install


def register(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("debug", help="run a command under gdb, with commands for a kernel's threads")
    parser.add_argument(
        "--batch", action="append", default=[], metavar="COMMAND", help="commands for gdb, which then ends"
    )
    parser.add_argument("command", nargs="*", metavar="-- COMMAND", help="python program.py")
    parser.set_defaults(run=_debug)


def _debug(arguments: argparse.Namespace) -> int:
    if not arguments.command:
        raise SpecError("debug runs a command: python -m tkjit debug -- python program.py")
    gdb = shutil.which("gdb")
    if gdb is None:
        raise ToolchainError(f"no gdb; install it: {system_install('gdb')}")
    batch = [word for command in arguments.batch for word in ("-ex", command)]
    # a launcher is loaded when its kernel is first called
    options = ["-q", "-ex", "set breakpoint pending on", "-x", str(SIMULATOR / "tkjit.gdb")]
    words = [gdb, *options, *(["-batch", *batch] if batch else []), "--args", *arguments.command]
    os.execve(gdb, words, environment_with(TKJIT_SIM_DEBUG="1"))

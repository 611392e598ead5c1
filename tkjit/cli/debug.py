"""``debug``: runs a program under gdb. Kernels on the CPU are compiled without optimization."""

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
    parser = commands.add_parser(
        "debug", help="run a command under gdb, with extra gdb commands for a kernel's threads"
    )
    parser.add_argument(
        "--batch",
        action="append",
        default=[],
        metavar="COMMAND",
        help="gdb command to run before gdb exits; may be repeated",
    )
    parser.add_argument("command", nargs="*", metavar="-- COMMAND", help="command to debug, such as: python program.py")
    parser.set_defaults(run=_debug)


def _debug(arguments: argparse.Namespace) -> int:
    if not arguments.command:
        raise SpecError("debug runs a command: python -m tkjit debug -- python program.py")
    gdb = shutil.which("gdb")
    if gdb is None:
        raise ToolchainError(f"gdb was not found; install it: {system_install('gdb')}")
    batch = [word for command in arguments.batch for word in ("-ex", command)]
    # a breakpoint stays pending until its launcher is loaded, at the first call of the kernel
    options = ["-q", "-ex", "set breakpoint pending on", "-x", str(SIMULATOR / "tkjit.gdb")]
    words = [gdb, *options, *(["-batch", *batch] if batch else []), "--args", *arguments.command]
    os.execve(gdb, words, environment_with(TKJIT_SIM_DEBUG="1"))

"""``run``: compiles a CUDA program for the CPU and runs it."""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path
from typing import Any

from tkjit.cli.output import add_model_arch
from tkjit.config import Settings
from tkjit.errors import SpecError
from tkjit.loader import loader_for
from tkjit.system.die_with_parent import dying_with_parent


def register(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("run", help="compile a CUDA program for the CPU and run it")
    parser.add_argument(
        "sources", nargs="+", type=Path, metavar="FILE.cu", help="sources of the program; one of them defines main"
    )
    parser.add_argument("-D", dest="defines", action="append", default=[], metavar="NAME=VALUE", help="macro to define")
    parser.add_argument(
        "-I", dest="directories", action="append", default=[], metavar="DIR", help="directory to search for headers"
    )
    parser.add_argument("-l", dest="libraries", action="append", default=[], metavar="NAME", help="library to link")
    parser.add_argument(
        "-L", dest="searched", action="append", default=[], metavar="DIR", help="directory to search for libraries"
    )
    parser.add_argument("--openmp", action="store_true", help="compile host code with OpenMP")
    parser.add_argument("--std", default="c++20", choices=("c++20", "c++23"), help="C++ standard (default: c++20)")
    parser.add_argument("--build", action="store_true", help="only compile, and print the path of the program")
    parser.add_argument(
        "--args",
        nargs=argparse.REMAINDER,
        default=[],
        help="pass all further arguments to the program; -- is short for --args",
    )
    add_model_arch(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from tkjit.loader.programs import ProgramPlan

    for path in arguments.sources:
        if not path.is_file():
            raise SpecError(f"{path}: no such file")
        if path.suffix == ".py":
            raise SpecError(
                f"{path} is a Python file, but run takes CUDA sources; "
                f"use python {path}, or python -m tkjit check {path}"
            )
    flags = [f"-D{name}" for name in arguments.defines]
    flags += [f"-L{Path(directory).resolve()}" for directory in arguments.searched]
    flags += [f"-l{name}" for name in arguments.libraries] + ["-fopenmp"] * arguments.openmp
    loader = loader_for(Settings.from_environment())
    sources = [path.resolve() for path in arguments.sources]
    include_dirs = [Path(directory).resolve() for directory in arguments.directories]
    plan = ProgramPlan(loader.env, sources, loader.target("cpu"), flags, include_dirs, arguments.std)
    program: Path = loader.open(plan).loaded
    if arguments.build:
        print(program)
        return 0
    done = subprocess.run(dying_with_parent([program, *arguments.args]), check=False)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode

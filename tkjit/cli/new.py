"""``new``: writes a package of kernels, or a copy of a kernel, that passes its tests at once."""

from __future__ import annotations

import argparse
import keyword
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tkjit
from tkjit.cli.new_kernel import files_of
from tkjit.errors import SpecError

EXAMPLE = "my_kernels"  # the template package's own name


def register(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("new", help="write a package of kernels, or one kernel, to start from")
    parser.add_argument("name", metavar="NAME", help="name of the package or kernel in Python, such as my_kernels")
    parser.add_argument(
        "--like", metavar="KERNEL", help="write a copy of this kernel, with its sources and a test, not a package"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="directory to write (default: NAME)")
    parser.set_defaults(run=_new)


def _new(arguments: argparse.Namespace) -> int:
    name = arguments.name
    _check_name(name)
    texts = files_of(arguments.like, name) if arguments.like else _package(name)
    output = arguments.output or Path(name)
    try:
        output = output.absolute()
        if output.exists():
            raise SpecError(f"{output} already exists; choose another directory with -o")
        _write(texts, output)
    except OSError as error:
        raise SpecError(f"cannot write {error.filename or output}: {error.strerror}") from None
    for path in sorted(output.rglob("*")):
        if path.is_file():
            print(path)
    if arguments.like:
        print(f"next: cd {output}, and then tkjit watch {name}.py, or pytest", file=sys.stderr)
    else:
        print(f"next: pip install -e {output}, and then tkjit verify {name}", file=sys.stderr)
    return 0


def _check_name(name: str) -> None:
    if not (name.isidentifier() and name.isascii()) or keyword.iskeyword(name):
        wanted = name.replace("-", "_")
        hint = f"; did you mean {wanted}?" if wanted != name and wanted.isidentifier() else ""
        raise SpecError(f"{name!r} is not a valid name, because Python cannot import it{hint}")
    if not name.strip("_"):
        raise SpecError(f"{name!r} is not a valid name; it needs a letter or a digit")
    if name == "tests":
        raise SpecError("'tests' is the name of the package's test directory; choose another name")
    if name in sys.stdlib_module_names or name in ("tkjit", "torch"):
        raise SpecError(f"{name} is the name of another module; choose another name")


def _package(name: str) -> dict[str, str]:
    """Return the files of a package, which differ from the template's in the package's name."""
    texts = {}
    for path in _files():
        relative = str(path.relative_to(example_directory())).replace(EXAMPLE, name)
        text = path.read_text(encoding="utf-8").replace(EXAMPLE, name)
        texts[relative] = text.replace(EXAMPLE.replace("_", "-"), name.strip("_").replace("_", "-"))
    return texts


def _write(texts: Mapping[str, str], output: Path) -> None:
    """Write all files, or none if an error occurs."""
    staging = output.with_name(f".{output.name}.{os.getpid()}")
    staging.mkdir(parents=True)
    try:
        for relative, text in texts.items():
            target = staging / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        staging.rename(output)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise


def example_directory() -> Path:
    """Return the template's directory: ``cli/package`` in an installed tkjit, ``examples/package`` in a checkout."""
    inside = Path(tkjit.__file__).parent / "cli/package"
    return inside if inside.is_dir() else Path(tkjit.__file__).parents[1] / "examples/package"


def _files() -> list[Path]:
    """Return the template's files, without the output that a build leaves in ``build`` and ``dist``."""
    kinds = (".toml", ".md", ".py", ".cu")
    built = ("build", "dist")
    paths = sorted(example_directory().rglob("*"))
    return [path for path in paths if path.suffix in kinds and not set(built) & set(path.parts[-4:-1])]

"""``bind``: writes a module of bindings that you can read, edit and ship."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tkjit.errors import SpecError


def register(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("bind", help="write a Python module that binds C++ headers, and its type stub")
    parser.add_argument(
        "headers",
        nargs="*",
        metavar="HEADER",
        help="header as an #include names it, a header file, or a directory of headers",
    )
    parser.add_argument(
        "--namespace", "-n", action="append", default=[], metavar="NAME", help="namespace to bind; may be repeated"
    )
    parser.add_argument(
        "--backend",
        choices=("cpp", "omp", "cuda"),
        default="cpp",
        help="compile with the C++ compiler (cpp, the default), with OpenMP (omp) or with nvcc (cuda)",
    )
    parser.add_argument(
        "-I", action="append", default=[], dest="include_dirs", metavar="DIR", help="directory to search for headers"
    )
    parser.add_argument(
        "-l", action="append", default=[], dest="libraries", metavar="LIBRARY", help="library to link, a name or a file"
    )
    parser.add_argument(
        "-D", action="append", default=[], dest="defines", metavar="NAME[=VALUE]", help="macro to define"
    )
    parser.add_argument(
        "--flag", action="append", default=[], dest="flags", metavar="FLAG", help="flag for the compiler"
    )
    parser.add_argument(
        "--std", choices=("c++14", "c++17", "c++20"), default="c++17", help="C++ standard (default: c++17)"
    )
    parser.add_argument("--source", type=Path, metavar="FILE", help="C++ file to compile after the headers")
    parser.add_argument("--start", default="", metavar="FUNCTION", help="C++ function to run before the first call")
    parser.add_argument("--stop", default="", metavar="FUNCTION", help="C++ function to run at exit")
    parser.add_argument(
        "--used",
        type=Path,
        metavar="FILE",
        help="record of a run (warmup --record): declare only what it used, and ship it with a package",
    )
    where = "module to write: NAME.py, or the directory of a package"
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help=where)
    parser.set_defaults(run=_bind)


def _bind(arguments: argparse.Namespace) -> int:
    import tkjit
    from tkjit.bindings.library import engine_of
    from tkjit.bindings.recorded_calls import names_in, read_calls
    from tkjit.bindings.render_module import render_module, render_stub
    from tkjit.system import files

    output: Path = arguments.output
    name = output.stem
    if not name.isidentifier():
        raise SpecError(f"-o {output}: {name!r} is not a valid Python module name")
    options = {
        "namespaces": tuple(arguments.namespace),
        "backend": arguments.backend if arguments.backend != "cpp" else "",
        "include_dirs": tuple(arguments.include_dirs),
        "libraries": tuple(arguments.libraries),
        "defines": dict(_define(text) for text in arguments.defines),
        "flags": tuple(arguments.flags),
        "std": arguments.std if arguments.std != "c++17" else "",
        "source": _read(arguments.source) if arguments.source else "",
        "start": arguments.start,
        "stop": arguments.stop,
    }
    given = {option: value for option, value in options.items() if value}
    engine = engine_of(tkjit.bind(*arguments.headers, **given))
    used = names_in(read_calls(arguments.used)) if arguments.used else ()
    title = ", ".join([*arguments.namespace, *([] if arguments.namespace else arguments.headers)])
    stub = render_stub(engine.declarations, engine.headers.namespaces, used)
    module = render_module(arguments.headers, given, title, output.parent if output.suffix == ".py" else output)
    if output.suffix == ".py":
        written = {output: module, output.with_suffix(".pyi"): stub}
    else:
        written = {output / "__init__.py": module, output / "__init__.pyi": stub, output / "py.typed": ""}
        if arguments.used:
            written[output / "calls.json"] = _read(arguments.used)
    try:
        for path, text in written.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            files.write(path, text)
    except OSError as error:
        raise SpecError(f"cannot write {error.filename}: {error.strerror}") from None
    for path in written:
        print(path)
    return 0


def _define(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value or "1"


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None

"""The command line: ``python -m tkjit COMMAND``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from tkjit.config import model_chosen
from tkjit.errors import TkjitError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 only if all of it worked, 1 if some did not, 2 if it was not understood."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["run"] and "--" in words:  # what is behind it is the program's, options too
        words[words.index("--")] = "--args"
    arguments = _parser().parse_args(words)
    try:
        with model_chosen(getattr(arguments, "model_arch", "")):
            status = int(arguments.run(arguments))
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader has seen enough: tkjit show gemm | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except TkjitError as error:
        print(f"tkjit: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    from tkjit.cli import (
        bind,
        cache,
        check,
        debug,
        demo,
        doctor,
        export,
        headers,
        importer,
        inspection,
        run,
        stubs,
        verify,
        warmup,
        why,
    )

    parser = argparse.ArgumentParser(prog="python -m tkjit", description="Compile and look after tkjit's kernels.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in (
        inspection,
        stubs,
        bind,
        check,
        verify,
        warmup,
        export,
        cache,
        why,
        headers,
        importer,
        run,
        debug,
        doctor,
        demo,
    ):
        command.register(commands)
    return parser

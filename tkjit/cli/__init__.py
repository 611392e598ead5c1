"""The command line: ``tkjit COMMAND``, or ``python -m tkjit COMMAND``."""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Sequence
from pathlib import Path

from tkjit import __version__
from tkjit.cli import completion
from tkjit.cli.output import claim_standard_streams, give_up_output, print_in_any_encoding
from tkjit.cli.parser import Parser
from tkjit.config import model_chosen
from tkjit.errors import TkjitError

UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return 0 on success, 1 if any part of it failed, 2 if the command line is invalid."""
    claim_standard_streams()
    print_in_any_encoding()
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["run"] and "--" in words:  # everything after "--" belongs to the program, even options
        words[words.index("--")] = "--args"
    parser = make_parser()
    completion.answer(parser)
    arguments = parser.parse_args(words)
    try:
        with model_chosen(getattr(arguments, "model_arch", "")):
            status = int(arguments.run(arguments))
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader has closed the pipe, as in: tkjit show gemm | head
        give_up_output()
        return 1
    except OSError as error:
        if isinstance(error, FileNotFoundError) and error.filename is None:  # raised by os.getcwd()
            print("tkjit: the working directory no longer exists", file=sys.stderr)
            return 1
        if error.filename is not None or error.errno not in UNWRITABLE:  # a full cache disk raises a CacheError
            raise
        give_up_output()
        print(f"tkjit: cannot write to standard output: {error.strerror}", file=sys.stderr)
        return 1
    except TkjitError as error:
        print(f"tkjit: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    from tkjit.cli import (
        bench,
        bind,
        cache,
        check,
        debug,
        demo,
        doctor,
        editor,
        export,
        headers,
        importer,
        inspection,
        new,
        report,
        run,
        stubs,
        verify,
        warmup,
        watch,
        why,
    )

    program = "tkjit" if Path(sys.argv[0]).name == "tkjit" else "python -m tkjit"
    parser = Parser(prog=program, description="Compile, test and manage tkjit kernels.")
    parser.add_argument("--version", action="version", version=f"tkjit {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in (
        inspection,
        stubs,
        bind,
        check,
        verify,
        bench,
        report,
        warmup,
        export,
        cache,
        why,
        headers,
        importer,
        new,
        watch,
        editor,
        run,
        debug,
        doctor,
        demo,
        completion,
    ):
        command.register(commands)
    return parser

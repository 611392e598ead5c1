"""``completion``: lets a shell complete commands, options and the names of kernels, through argcomplete."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from tkjit.config import is_completing

SHELLS = ("bash", "zsh", "fish")


def register(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "completion", help='the lines for a shell\'s configuration: eval "$(tkjit completion bash)"'
    )
    parser.add_argument("shell", choices=SHELLS, help="which shell")
    parser.set_defaults(run=_completion)


def answer(parser: argparse.ArgumentParser) -> None:
    """Answer a shell that asks what a word may become, and end the process; nothing if none asks."""
    if not is_completing():
        return
    import argcomplete

    _complete_kernels(parser)
    argcomplete.autocomplete(parser)


def _complete_kernels(parser: argparse.ArgumentParser) -> None:
    """Say of every argument that is a kernel's name, of all commands, that it is."""
    from tkjit import packages
    from tkjit.kernel import kernels

    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in dict.fromkeys(action.choices.values()):
                _complete_kernels(command)
        elif action.dest in ("name", "names") and not action.option_strings and not action.choices:
            action.completer = lambda **_: (*kernels(), *packages.packages())  # type: ignore[attr-defined]


def _completion(arguments: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode

    sys.stdout.write(shellcode(["tkjit"], shell=arguments.shell))
    return 0

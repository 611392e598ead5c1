"""``completion``: lets a shell complete commands, options and kernel names, using argcomplete."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from tkjit.config import is_completing

SHELLS = ("bash", "zsh", "fish")


def register(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("completion", help="print the shell code that completes tkjit's commands")
    parser.add_argument("shell", choices=SHELLS, help='shell to set up, as in: eval "$(tkjit completion bash)"')
    parser.set_defaults(run=_completion)


def answer(parser: argparse.ArgumentParser) -> None:
    """If a shell asks for completions, print them and exit."""
    if not is_completing():
        return
    import argcomplete

    _complete_kernels(parser)
    argcomplete.autocomplete(parser)


def _complete_kernels(parser: argparse.ArgumentParser) -> None:
    """Set the completer of every argument that takes kernel names, in all commands."""
    from tkjit import packages
    from tkjit.kernel_objects import kernels

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

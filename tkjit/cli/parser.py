"""The parser of the command line: its errors name what is near to a word that there is not."""

from __future__ import annotations

import argparse
import difflib
import re
from typing import NoReturn

_CHOICE = re.compile(r"invalid choice: '(?P<given>[^']*)' \(choose from (?P<known>.*)\)")
_UNKNOWN = re.compile(r"unrecognized arguments: (?P<given>--[\w-]+)")


class Parser(argparse.ArgumentParser):
    """As argparse's, with ``did you mean warmup?`` for a command or an option that is nearly one.

    The parsers of commands are of this class too, since argparse makes them of the class of the first.
    """

    def error(self, message: str) -> NoReturn:
        """End the process with status 2, as argparse does."""
        if (choice := _CHOICE.search(message)) is not None:
            message = _near(choice["given"], re.findall(r"[\w-]+", choice["known"]), message)
        elif (unknown := _UNKNOWN.search(message)) is not None:
            message = _near(unknown["given"], self._options_of_all(), message)
        super().error(message)

    def _options_of_all(self) -> list[str]:
        """The long options of this parser and of its commands: argparse does not say here which command it was."""
        options = [*self._option_string_actions]
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                options += [option for one in action.choices.values() for option in one._option_string_actions]
        return [option for option in dict.fromkeys(options) if option.startswith("--")]


def _near(given: str, known: list[str], message: str) -> str:
    if given in known:
        return f"{message}; another command has it"
    near = difflib.get_close_matches(given, known, 1)
    return f"{message}; did you mean {near[0]}?" if near else message

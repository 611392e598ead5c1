"""Parses the command line. For an unknown command or option, the error suggests the nearest one."""

from __future__ import annotations

import argparse
import difflib
import re
from typing import NoReturn

_CHOICE = re.compile(r"invalid choice: '(?P<given>[^']*)' \(choose from (?P<known>.*)\)")
_UNKNOWN = re.compile(r"unrecognized arguments: (?P<given>--[\w-]+)")


class Parser(argparse.ArgumentParser):
    """An ``ArgumentParser`` that adds ``did you mean warmup?`` to the error for a misspelled command or option.

    The commands' own parsers are of this class as well, because argparse makes them with the main parser's class.
    """

    def error(self, message: str) -> NoReturn:
        """Print the error with a suggestion, and exit with status 2 like argparse."""
        if (choice := _CHOICE.search(message)) is not None:
            message = _near(choice["given"], re.findall(r"[\w-]+", choice["known"]), message)
        elif (unknown := _UNKNOWN.search(message)) is not None:
            message = _near(unknown["given"], self._options_of_all(), message)
        super().error(message)

    def _options_of_all(self) -> list[str]:
        """Return the long options of all commands, because ``error`` cannot know which command argparse was parsing."""
        options = [*self._option_string_actions]
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                options += [option for one in action.choices.values() for option in one._option_string_actions]
        return [option for option in dict.fromkeys(options) if option.startswith("--")]


def _near(given: str, known: list[str], message: str) -> str:
    if given in known:
        return f"{message}; it is an option of another command"
    near = difflib.get_close_matches(given, known, 1)
    return f"{message}; did you mean {near[0]}?" if near else message

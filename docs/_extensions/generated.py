"""Replaces ``<!-- generated: NAME -->`` in a page with tables that are made from tkjit itself."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from inspect import cleandoc
from pathlib import Path

from device_headers import device_functions, public_names
from sphinx.application import Sphinx

from tkjit.cli import make_parser
from tkjit.compile.flags import INCLUDE
from tkjit.config import RemoteSettings, Settings

_MARKER = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)
_DEVICE_API = Path(__file__).parents[1] / "reference/device-api.md"
_SETTING = re.compile(r"^(\w+) : .+\n((?: {4}.+\n?)+)", re.MULTILINE)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", _fill)
    app.connect("env-get-outdated", lambda app, *_: [page for page in app.env.found_docs if _is_generated(app, page)])
    return {"parallel_read_safe": True}


def _fill(app: Sphinx, page: str, source: list[str]) -> None:
    source[0] = _MARKER.sub(lambda marker: "\n".join(GENERATED[marker[1]]()), source[0])


def _is_generated(app: Sphinx, page: str) -> bool:
    """Return whether a page depends on tkjit as well as on its own file."""
    return _MARKER.search(Path(app.env.doc2path(page)).read_text()) is not None


def commands() -> Iterator[str]:
    """Yield a section for each command of the command line."""
    for name, help_text, parser in _commands_of(make_parser()):
        yield from _section(f"tkjit {name}", help_text, parser, 2)
        for inner, inner_help, inner_parser in _commands_of(parser):
            yield from _section(f"tkjit {name} {inner}", inner_help, inner_parser, 3)


def _commands_of(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                yield choice.dest, choice.help or "", action.choices[choice.dest]


def _section(title: str, help_text: str, parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    yield from (f"{'#' * level} {title}", "", _sentence(help_text), "")
    parser.prog = title
    yield from ("```text", parser.format_usage().removeprefix("usage: ").strip(), "```", "")
    options = [
        action
        for action in parser._actions
        if action.help and not isinstance(action, (argparse._HelpAction, argparse._SubParsersAction))
    ]
    if options:
        yield from ("| argument | meaning |", "|---|---|")
        yield from (f"| {_arguments(option)} | {_sentence(_cell(option.help or ''))} |" for option in options)
        yield ""


def _arguments(option: argparse.Action) -> str:
    value = option.metavar or (option.dest.upper() if option.option_strings else option.dest)
    shown = value if isinstance(value, str) else " ".join(value)
    if option.choices is not None and option.metavar is None:
        shown = "{" + ",".join(map(str, option.choices)) + "}"
    if not option.option_strings:
        return f"`{shown}`"
    takes = "" if option.nargs == 0 else f" {shown}"
    return ", ".join(f"`{flag}{takes}`" for flag in option.option_strings).replace("|", "\\|")


def settings() -> Iterator[str]:
    """Yield a table of the environment variables."""
    yield from ("| variable | meaning |", "|---|---|")
    for settings in (Settings, RemoteSettings):
        for _, text in _SETTING.findall(cleandoc(settings.__doc__ or "") + "\n"):
            meaning = _cell(text)
            variables, colon, rest = meaning.partition(": ")
            if colon and variables.startswith("`") and not variables.startswith("`PATH`"):
                yield f"| {variables.replace('``', '`')} | {_sentence(rest)} |"


def _cell(text: str) -> str:
    """Return text for a cell of a table, on one line."""
    return " ".join(text.split()).replace("``", "`").replace("|", "\\|").replace("%%", "%")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "." if text else ""


def device_functions_of_headers() -> Iterator[str]:
    """Yield a section for each header for kernels."""
    return device_functions(INCLUDE / "tkjit", public_names(_DEVICE_API.read_text()))


GENERATED: dict[str, Callable[[], Iterator[str]]] = {
    "commands": commands,
    "settings": settings,
    "device_functions": device_functions_of_headers,
}

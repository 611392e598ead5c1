"""Formats pieces of a spec file's text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from tkjit.render.text import repr_text

WIDTH = 120


def comments(notes: Sequence[str], indent: int) -> list[str]:
    lines = []
    for note in notes:
        first, following = " " * indent + "# TODO: ", " " * indent + "#   "
        lines += textwrap.wrap(
            note,
            WIDTH,
            initial_indent=first,
            subsequent_indent=following,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines


def join_names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def tuple_text(options: Sequence[str | int]) -> str:
    listed = ", ".join(repr_text(option) if isinstance(option, str) else str(option) for option in options)
    return f"({listed},)" if len(options) == 1 else f"({listed})"


def list_text(texts: Sequence[str]) -> str:
    return repr_text(texts[0]) if len(texts) == 1 else f"[{', '.join(map(repr_text, texts))}]"


def dict_text(pairs: Iterable[tuple[str, str]]) -> str:
    return f"{{{', '.join(f'{repr_text(key)}: {value}' for key, value in pairs)}}}"

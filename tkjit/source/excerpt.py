"""Shows the source line of a compiler's error, with a caret."""

from __future__ import annotations

import re

_PLACE = re.compile(r"(?P<file>[^\n]+?):(?P<line>\d+):(?P<column>\d+): (?P<text>[^\n]*)\Z")
_LONGEST = 400  # longer lines are generated, and showing them would not help
_QUOTED = re.compile(r"['\u2018](?P<name>[^'\u2019]+)['\u2019]")


def with_excerpt(summary: str, text: str, names: tuple[str, ...]) -> str:
    """Add the source line to an error, unless it shows a line already or is about another file.

    Parameters
    ----------
    summary : str
        The error as g++ or clang prints it: ``a.cu:2:5: error: 'z' was not declared``.
    text : str
        The source.
    names : tuple of str
        The names by which an error may refer to the source.

    Examples
    --------
    >>> print(with_excerpt("a.cu:1:7: error: 'z' was not declared", "x = y + z;", ("a.cu",)))
    a.cu:1:7: error: 'z' was not declared
      x = y + z;
              ^
    """
    match = _PLACE.match(summary)
    lines = text.split("\n")  # not splitlines(): compilers count only these line breaks
    if match is None or match["file"] not in names or not 0 < int(match["line"]) <= len(lines):
        return summary
    line = lines[int(match["line"]) - 1].rstrip("\r").expandtabs()
    if len(line) > _LONGEST:
        return summary
    return f"{summary}\n  {line}\n  {' ' * _column(line, match)}^"


def _column(line: str, match: re.Match[str]) -> int:
    """Return the caret's column.

    The caret points to the name that the error quotes, because the compiler may have seen an adapted line.
    """
    column = min(int(match["column"]) - 1, max(0, len(line) - 1))
    for quoted in _QUOTED.finditer(match["text"]):
        if not re.search(r"\w", quoted["name"]):
            continue  # the quotation is punctuation, as in "expected ',' or ';' before 'if'"
        places = [occurrence.start() for occurrence in re.finditer(rf"(?<!\w){re.escape(quoted['name'])}(?!\w)", line)]
        if places:
            return min(places, key=lambda place: abs(place - column))
    return column

"""Searches rendered C++ text for declarations and ``#line`` directives."""

from __future__ import annotations

import re
from collections import Counter

_TYPES = r"(?:const )?(?:tkjit::)?(?:int64_t|int|bool|double|TensorView|Object|Shape|Leading|Int|TkjitLaunch)"


def declared_twice(text: str) -> list[str]:
    """Find variables that a function declares more than once at one level of indentation."""
    found = []
    for body in re.split(r"^\S.*\{$", text, flags=re.MULTILINE):
        names: Counter[str] = Counter()
        for indentation in ("    ", "        "):
            pattern = rf"^{indentation}{_TYPES} (\w+(?: = \w+)?(?:, \w+ = \w+)*)(?: =|;|\{{)"
            for line in re.findall(pattern, body, re.MULTILINE):
                names.update(part.split(" = ")[0] for part in line.split(", "))
        found += [name for name, count in names.items() if count > 1]
    return found


def line_directives(text: str) -> list[tuple[int, int, str]]:
    """Return each ``#line`` as (actual number of the next line, number in the directive, file in the directive)."""
    return [
        (i + 1, int(match[1]), match[2])
        for i, line in enumerate(text.split("\n"), 1)
        if (match := re.fullmatch(r'#line (\d+) "(.*)"', line))
    ]

"""Looks at rendered C++ as text: what a function declares, where its ``#line`` directives point."""

from __future__ import annotations

import re
from collections import Counter

_TYPES = r"(?:const )?(?:tkjit::)?(?:int64_t|int|bool|double|TensorView|Object|Shape|Leading|Int|TkjitLaunch)"


def declared_twice(text: str) -> list[str]:
    """Variables that one function declares more than once; rendered bodies declare at one level of indentation."""
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
    """Each ``#line``: the real number of the line after it, the number that it says, the file that it says."""
    return [
        (i + 1, int(match[1]), match[2])
        for i, line in enumerate(text.split("\n"), 1)
        if (match := re.fullmatch(r'#line (\d+) "(.*)"', line))
    ]

"""A function and the decorator's options as a spec, with the decorator's own words for what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tkjit.errors import SpecError
from tkjit.spec import Spec, spec_of_function


def read_spec(function: Callable[..., Any], source: str | Path | None, options: dict[str, Any]) -> Spec:
    """Read a spec.

    Raises
    ------
    SpecError
        If an option is unknown or missing, or the parts contradict each other.
    """
    known = ["entry", *(spec_of_function.__kwdefaults__ or ())]
    for option in options:
        if option not in known:
            raise SpecError(f"{function.__name__}: tkjit.kernel has no option {option!r}; it has {', '.join(known)}")
    if "entry" not in options:
        raise SpecError(f"{function.__name__}: entry= is missing; expected the name of a __global__ function")
    return spec_of_function(function, source, **options)

"""A program that loads a shared object and, if its operators cannot be registered, prints the reason."""

from __future__ import annotations

import sys
from pathlib import Path

from tkjit.extensions.registrations import registration_problem


def main() -> None:
    name, path = sys.argv[1:]
    try:
        problem = registration_problem(name, Path(path))
    except OSError as error:
        if "cannot open shared object file" in str(error):  # a build machine may lack a library
            return
        problem = str(error)
    if problem:
        print(problem)
        sys.exit(1)


if __name__ == "__main__":
    main()

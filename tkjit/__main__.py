"""Runs the command line: ``python -m tkjit``."""

import sys

from tkjit.cli import main

sys.exit(main())

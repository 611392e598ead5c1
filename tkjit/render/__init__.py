"""From a spec and a variant to C++ text: pure functions, no file, no torch."""

from tkjit.render.glue import render_glue
from tkjit.render.launcher import render_launcher

__all__ = ["render_glue", "render_launcher"]

"""Renders a spec and a variant as C++ text: pure functions, without files and without torch."""

from tkjit.render.glue import render_glue
from tkjit.render.launcher import render_launcher

__all__ = ["render_glue", "render_launcher"]

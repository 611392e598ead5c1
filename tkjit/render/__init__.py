"""Renders a spec and a variant as C++ text. All functions are pure, and need neither files nor torch."""

from tkjit.render.glue import render_glue
from tkjit.render.launcher import render_launcher

__all__ = ["render_glue", "render_launcher"]

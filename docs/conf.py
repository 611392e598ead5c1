"""Configures Sphinx for the documentation site: ``make docs``."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_extensions"), str(HERE.parent)]

import tkjit  # noqa: E402

project = "tkjit"
author = "the tkjit developers"
release = tkjit.__version__
html_title = f"tkjit {release}"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinxcontrib.svgbob",
    "generated",
]
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
exclude_patterns = ["_extensions"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
# single backticks in docstrings are code, as in Markdown
default_role = "code"
smartquotes = False  # -- begins an option
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings give the types, with shapes and units
napoleon_google_docstring = False
napoleon_use_rtype = False

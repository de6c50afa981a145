"""Sphinx: the settings of the site, equations as MathML, and docstrings as the docs are written."""

import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert

sys.path.insert(0, str(Path(__file__).parent))
from docstrings import as_rst
from signatures import described, written

from tutelage import __version__

project, author, release, language = "Tutelage", "The Tutelage developers", __version__, "en"
project_copyright = "The Tutelage developers, MIT licence"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_dmath_double_inline = True
myst_heading_anchors = 4
nitpicky = False  # signatures name types of NumPy, which are not here
default_role = "literal"
smartquotes_action = "q"  # quotes only: two dashes begin an option
highlight_language = "text"
pygments_style = "friendly"

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
add_module_names = False
maximum_signature_line_length = 80
python_use_unqualified_type_names = True

html_theme = "pydata_sphinx_theme"
html_title = "Tutelage"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_math_renderer = "mathml"
html_theme_options = {
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "friendly",
    "pygments_dark_style": "github-dark",
}
# Pages without neighbours in the contents need no list of them.
html_sidebars = {page: [] for page in ("index", "install", "command-line", "scale", "coming-from", "troubleshooting")}
copybutton_selector = "div.highlight-python pre"


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_display, None))
    app.connect("autodoc-process-docstring", _process)
    app.connect("autodoc-process-signature", _sign)


def _process(_app: Any, _kind: str, name: str, obj: Any, _options: Any, lines: list[str]) -> None:
    lines[:] = as_rst(lines, described(obj))


def _sign(_app: Any, _kind: str, _name: str, obj: Any, _options: Any, *given: str | None) -> tuple[str | None, ...]:
    return written(obj) or given


def _inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(_typeset(node.astext(), "inline"))
    raise nodes.SkipNode


def _display(translator: Any, node: nodes.math_block) -> None:
    made = _typeset(node.astext(), "block")
    # What max and min are taken over stands below them.
    made = re.sub(r"<msub>(<mo[^>]*>(?:max|min)</mo>.*?)</msub>", r"<munder>\1</munder>", made, flags=re.DOTALL)
    translator.body.append(f'<div class="equation">{made}</div>')
    raise nodes.SkipNode


def _typeset(latex: str, display: str) -> str:
    """MathML. Chromium would stretch the second bar of a norm, and draw it below the line."""
    return convert(latex, display=display).replace("<mo>&#x02016;</mo>", '<mo stretchy="false">&#x02016;</mo>')

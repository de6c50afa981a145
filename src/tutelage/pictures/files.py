"""Pictures as files and as SVG text: written completely or not at all, with the same bytes for the same picture."""

import io
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from tutelage.data.files import AnyPath, write_whole
from tutelage.outcomes import InvalidInput

SVG_METADATA = {"Date": None, "Creator": "Tutelage"}
PNG_METADATA = {"Software": None}


def save_picture(figure: Figure, stem: AnyPath) -> list[Path]:
    """Write stem.png and stem.svg, and return their paths; the layout of the figure is fixed from then on."""
    place = Path(stem)
    if not place.name:
        raise InvalidInput(f"a picture needs a file name, such as {place / 'picture'}, got {str(stem)!r}")
    contents = {"png": _rendered(figure, "png", dpi=150, metadata=PNG_METADATA), "svg": as_svg(figure).encode()}
    # A dot in the stem does not start a suffix.
    paths = {suffix: place.with_name(f"{place.name}.{suffix}") for suffix in contents}
    place.parent.mkdir(parents=True, exist_ok=True)
    for suffix, path in paths.items():
        write_whole(path, contents[suffix])
    return list(paths.values())


def as_svg(figure: Figure) -> str:
    """The picture as an SVG text; letters are paths, so that it needs no font."""
    # Without a salt the identifiers in an SVG are random.
    with rc_context({"svg.hashsalt": "tutelage", "svg.fonttype": "path"}):
        return _rendered(figure, "svg", metadata=SVG_METADATA).decode()


def _rendered(figure: Figure, kind: str, **options: Any) -> bytes:
    # A layout engine starts from its last result, and would move the artists a little in every drawing.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, **options)
    return buffer.getvalue()

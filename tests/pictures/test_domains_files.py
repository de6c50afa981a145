"""A picture is written completely or not at all, with the same bytes for the same picture."""

import pytest
from matplotlib.figure import Figure

from tutelage.environments.object_world import object_world
from tutelage.pictures.domains import as_svg, save_picture
from tutelage.pictures.plots import Curve, Panel, draw_curves
from tutelage.pictures.world import draw_world, reward_scale


def drawn(**options):
    figure = Figure(figsize=(3, 3))
    draw_world(figure.subplots(), object_world(10, 0), **options)
    return figure


def laid_out():
    """A figure whose layout is computed when it is drawn."""
    figure = Figure(layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_curves(left, Panel("L2", [Curve("A", [1.0, 2.0], [4.0, 3.0])], {"known": 3.5}))
    draw_world(right, object_world(10, 0))
    figure.colorbar(reward_scale(1.0), ax=right)
    return figure


@pytest.mark.parametrize("picture", [lambda: drawn(avoided="L3"), laid_out])
def test_a_saved_picture_is_the_same_twice_and_leaves_nothing_else(tmp_path, picture):
    figure = picture()
    first = save_picture(figure, tmp_path / "size.10")
    assert [path.name for path in first] == ["size.10.png", "size.10.svg"]
    again = save_picture(figure, tmp_path / "again")
    anew = save_picture(picture(), tmp_path / "anew")
    for one, two, three in zip(first, again, anew, strict=True):
        assert one.read_bytes() == two.read_bytes() == three.read_bytes()
    assert first[1].read_text() == as_svg(figure)
    assert len(list(tmp_path.iterdir())) == 6


def test_a_picture_that_cannot_be_drawn_leaves_the_old_one(tmp_path):
    (old,) = save_picture(drawn(), tmp_path / "picture")[:1]
    before = old.read_bytes()
    broken = Figure()
    broken.text(0.5, 0.5, "$\\nosuchsymbol$")
    with pytest.raises(ValueError):
        save_picture(broken, tmp_path / "picture")
    assert old.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2

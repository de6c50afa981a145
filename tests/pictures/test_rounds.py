"""Curves show the rounds from the first, with whole rounds as ticks."""

import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_array_equal

from tutelage.pictures.rounds import Curve, Panel, draw_curves, round_ticks


def test_curves_show_the_rounds_from_the_first():
    panel = Panel("L2", [Curve("A", [1, 2, 3], [5, 4, 3], [0.1, 0.2, 0.1]), Curve("B", [2.0], [2.0])], {"known": 3.5})
    axes = Figure().subplots()
    draw_curves(axes, panel)
    by_label = {line.get_label(): line for line in axes.lines}
    assert_array_equal(by_label["A: learner"].get_xydata(), [[1, 1], [2, 2], [3, 3]])
    assert_array_equal(by_label["A: teacher"].get_ydata(), [5, 4, 3])
    assert by_label["A: learner"].get_linestyle() == "-" and by_label["A: teacher"].get_linestyle() == ":"
    assert by_label["A: learner"].get_marker() != by_label["B: learner"].get_marker()
    assert set(by_label["known"].get_ydata()) == {3.5}


@pytest.mark.parametrize("n_rounds", [1, 2, 12, 13, 60, 61, 500, 12345])
def test_ticks_are_whole_rounds_from_one_and_few(n_rounds):
    ticks = round_ticks(n_rounds)
    assert ticks[0] == 1 and ticks == sorted(set(ticks)) and ticks[-1] <= n_rounds
    assert len(ticks) <= 13 and all(isinstance(tick, int) for tick in ticks)

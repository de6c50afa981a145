"""Why a mean of ours is lower than the paper's: by the headings of docs/reproduction.md that explain it."""

from collections.abc import Callable

from tutelage.experiments.settings import N_WORLDS
from tutelage.experiments.tables import Cell

FEW_WORLDS = "Fewer worlds"
LOCAL_OPTIMUM = "Another local optimum"
UNCONVERGED = "A learner that had not converged"
OUT_OF_REACH = "Worlds where objects are out of reach"
THIRD_ROUND = "The third round of line search"
UNKNOWN = "Not explained"

# The first that holds is the reason.
RULES: tuple[tuple[str, Callable[[Cell], bool]], ...] = (
    (FEW_WORLDS, lambda cell: len(cell.rewards) < N_WORLDS),
    (LOCAL_OPTIMUM, lambda cell: cell.teacher == "bilevel_frank_wolfe"),
    (UNCONVERGED, lambda cell: cell.teacher == "agnostic" and cell.where.get("model") in ("hard", "footnote")),
    (OUT_OF_REACH, lambda cell: cell.learner == "L3" and cell.where.get("worlds") == "seeds"),
    (OUT_OF_REACH, lambda cell: cell.teacher == "conservative" and cell.where.get("worlds") == "seeds"),
    (THIRD_ROUND, lambda cell: cell.teacher == "line_search_round_3"),
)


def reason(cell: Cell) -> str:
    """The heading under which a lower mean is explained."""
    return next((heading for heading, applies in RULES if applies(cell)), UNKNOWN)

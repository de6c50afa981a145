"""Why a cell of ours is lower than the paper's: a heading of docs/reproduction.md for each."""

from dataclasses import dataclass

from tutelage.experiments.tables import Cell


@dataclass(frozen=True, slots=True)
class Reason:
    """A heading in docs/reproduction.md."""

    heading: str


def reason(cell: Cell) -> Reason:
    """The heading under which a lower mean is explained."""
    return Reason("To be written")

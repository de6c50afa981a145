"""The paper's printed numbers: means and deviations over ten worlds, of Tables 1 and 2 and Figures 3, 4 and 5."""

import json
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from tutelage.outcomes import InvalidInput


class Printed(NamedTuple):
    """A printed entry: a mean and the deviation after its plus-minus sign.

    In Table 1 the deviation is std / 10 of ten worlds, not std / sqrt(10).
    """

    mean: float
    deviation: float


@cache
def _printed() -> dict[str, Any]:
    text = files("tutelage.experiments").joinpath("printed.json").read_text(encoding="utf-8")
    tables: dict[str, Any] = json.loads(text)
    return tables


def printed_known(mismatch_penalty: float, violation_penalty: float, teacher: str, learner: str) -> Printed:
    """An entry of Table 1 or Table 2 (App. B.1); teacher: "agnostic" or "bilevel"."""
    for block in _printed()["known"]:
        if (block["C_r"], block["C_c"]) == (mismatch_penalty, violation_penalty):
            return Printed(*block[teacher][learner])
    raise InvalidInput(f"the paper has no table for C_r = {mismatch_penalty}, C_c = {violation_penalty}")


def printed_unknown(learner: str, teacher: str, size: int) -> Printed:
    """An entry of the table inside Figure 3, 4 or 5; teacher: such as "aware_cmdp" or "line_search_end"."""
    return Printed(*_printed()["unknown"][learner][teacher][str(size)])

"""Why, in the user's units: what a transcript of rounds means in true reward, as text and as data."""

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tutelage.arrays import finite_or_none
from tutelage.outcomes import InfeasibleConstraints
from tutelage.roles import Learner
from tutelage.solvers.half_spaces import no_limits
from tutelage.solvers.occupancy_polytope import best_policy
from tutelage.teachers.costs import PreferenceCosts, preference_costs

if TYPE_CHECKING:
    from tutelage.teachers.base import KnownLearner
    from tutelage.transcripts import Transcript

# Numbers below this, relative to the largest of the same kind, are zero within the accuracy of the solvers.
NEGLIGIBLE = 1e-7


def costs_of(transcript: "Transcript", learner: Learner | None) -> PreferenceCosts | InfeasibleConstraints | None:
    """The costs of the preferences, where they are known; the refusal where no policy keeps them."""
    if learner is None or not hasattr(learner, "preference") or not hasattr(learner, "domain"):
        return None
    try:
        known = cast("KnownLearner", learner)
        return preference_costs(known.domain, transcript.true_weights, known)
    except InfeasibleConstraints as error:
        return error


def explain(transcript: "Transcript", learner: Learner | None) -> str:
    """The rewards, and for each preference its limit, its use and its cost, as lines."""
    final, costs = transcript.final, costs_of(transcript, learner)
    domain = final.lesson.domain or getattr(learner, "domain", None)
    rows = [("shown", final.lesson_reward), ("the learner does", final.response_reward)]
    if isinstance(costs, PreferenceCosts):
        rows = [("best without preferences", costs.unconstrained), ("best within the preferences", costs.best), *rows]
    elif domain is not None:
        best = best_policy(domain, transcript.true_weights, no_limits(domain)).value
        rows = [("best without preferences", best), *rows]
    if np.isfinite(final.bound):
        rows.append(("no lesson gets more than", final.bound))
    largest = max((abs(value) for _, value in rows), default=0.0)
    lines = ["In true reward:", *(f"  {name}: {tidy(value, largest)}" for name, value in rows)]
    return "\n".join([*lines, *_preference_lines(costs, transcript, largest)])


def _preference_lines(
    costs: PreferenceCosts | InfeasibleConstraints | None, transcript: "Transcript", largest: float
) -> list[str]:
    if costs is None:
        return []
    if isinstance(costs, InfeasibleConstraints):
        return [f"What the preferences cost: {costs}"]
    if not costs.names:
        return []
    lines = ["What the preferences cost, in true reward:"]
    used = _used(costs, transcript)
    for j, name in enumerate(costs.names):
        limit, loss, gain, size = costs.limits[j], costs.losses[j], costs.gains[j], costs.sizes[j]
        spent = "" if used[j] is None else f", used {tidy(float(used[j] or 0.0), size)}"
        worth = "costs nothing" if loss == 0 else f"costs {tidy(loss, largest)} in all"
        more = "one unit more gains nothing" if gain == 0 else f"one unit more gains {tidy(gain, gain)}"
        lines.append(f"  {name}: limit {limit:.4g}{spent}; {worth}; {more}")
    return lines


def _used(costs: PreferenceCosts, transcript: "Transcript") -> list[float | None]:
    """How much of each limit the learner uses, where the constraints are its preference features."""
    done = transcript.final.response.expectation.preference
    if len(done) != len(costs.names):
        return [None] * len(costs.names)
    return [
        0.0 if abs(used) <= NEGLIGIBLE * size else used for used, size in zip(done.tolist(), costs.sizes, strict=True)
    ]


def as_data(transcript: "Transcript", learner: Learner | None) -> dict[str, Any]:
    """The same for JSON."""
    costs = costs_of(transcript, learner)
    if not isinstance(costs, PreferenceCosts):
        return {} if costs is None else {"costs": str(costs)}
    table = [
        {"name": name, "limit": limit, "used": used, "gain_per_unit": gain, "loss": loss}
        for name, limit, used, gain, loss in zip(
            costs.names,
            costs.limits.tolist(),
            _used(costs, transcript),
            costs.gains.tolist(),
            costs.losses.tolist(),
            strict=True,
        )
    ]
    best = {"best_without_preferences": finite_or_none(costs.unconstrained), "best_within": finite_or_none(costs.best)}
    return best | {"costs": table}


def tidy(value: float, largest: float) -> str:
    """A number with four digits; zero if it is negligible beside the largest."""
    return "0" if abs(value) <= NEGLIGIBLE * abs(largest) else f"{value:.4g}"

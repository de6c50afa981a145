"""`tutelage infer`: what responses or behaviour say about a learner."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tutelage.cli.printing import say, show_json
from tutelage.cli.subject import WORLD_HELP, read_subject, read_weights
from tutelage.outcomes import InvalidInput

if TYPE_CHECKING:
    from tutelage.inference.avoidance import PreferenceEstimate
    from tutelage.inference.learner_estimate import LearnerEstimate
    from tutelage.model.mdp import Domain

ROUNDS_HELP = "Rounds that teach --save wrote: infer the soft learner that gave these responses."
BEHAVIOUR_HELP = "Demonstrations that tutelage.save_demonstrations wrote: infer what is avoided, and how strongly."
WEIGHTS_HELP = "The reward weights of the behaviour, such as 1,0.9,0.2, where they are known."


def infer(
    world: Annotated[str, typer.Option(help=WORLD_HELP)] = "",
    domain: Annotated[Path | None, typer.Option(help="Instead of a world: a file that tutelage.save wrote.")] = None,
    rounds: Annotated[Path | None, typer.Option(help=ROUNDS_HELP)] = None,
    demonstrations: Annotated[Path | None, typer.Option(help=BEHAVIOUR_HELP)] = None,
    observed: Annotated[str, typer.Option(help="expectation: all of mu was seen. reward: mu_r alone.")] = "expectation",
    n_trajectories: Annotated[int, typer.Option(min=0, help="Trajectories of each response; 0 if exact.")] = 0,
    weights: Annotated[str, typer.Option(help=WEIGHTS_HELP)] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Infer a soft learner from its responses, or preferences from behaviour alone.

    The domain must have every preference feature that the learner might have: do not give --learner to teach.

    [bold]tutelage teach --world published:0:6 --teacher adaptive-bilevel --save rounds.npz[/bold]

    [bold]tutelage infer --world published:0:6 --rounds rounds.npz[/bold]

    [bold]tutelage infer --world published:0:6 --demonstrations walks.npz --weights 1,0.9,0.2[/bold]
    """
    if (rounds is None) == (demonstrations is None):
        raise InvalidInput("give either --rounds or --demonstrations")
    known = read_subject(world, domain, "", "", "").whole
    if rounds is not None:
        _from_rounds(known, rounds, observed, n_trajectories, as_json)
    elif demonstrations is not None:
        _from_behaviour(known, demonstrations, weights, as_json)


def _from_rounds(domain: "Domain", path: Path, observed: Any, n_trajectories: int, as_json: bool) -> None:
    from tutelage.inference.learner_estimate import infer_learner
    from tutelage.transcripts import load_transcript

    found = infer_learner(
        domain, load_transcript(path, domain).rounds, observed=observed, n_trajectories=n_trajectories
    )
    if as_json:
        show_json(learner_data(found))
    else:
        say(str(found))


def _from_behaviour(domain: "Domain", path: Path, weights: str, as_json: bool) -> None:
    from tutelage.data.files import load_demonstrations
    from tutelage.inference.avoidance import infer_preferences

    known = read_weights(weights, domain.reward_names) if weights else None
    found = infer_preferences(domain, load_demonstrations(path, domain.mdp), reward_weights=known)
    if as_json:
        show_json(preference_data(found))
    else:
        say(str(found))


def learner_data(found: "LearnerEstimate") -> dict[str, Any]:
    """The estimate for JSON; infinite ends are null."""
    from tutelage.arrays import finite_or_none

    def ends(interval: tuple[float, float]) -> list[float | None]:
        return [finite_or_none(interval[0]), finite_or_none(interval[1])]

    names = found.domain.preference_names
    return {
        "mismatch_penalty": ends(found.mismatch_penalty),
        "violation_penalty": ends(found.violation_penalty),
        "violation_allowance": {name: ends(one) for name, one in zip(names, found.violation_allowance, strict=True)},
        "preferences": dict(zip(names, found.preferences, strict=True)),
        "residual": finite_or_none(found.residual),
        "contradiction": found.contradiction,
    }


def preference_data(found: "PreferenceEstimate") -> dict[str, Any]:
    """The estimate for JSON; what is not determined is null."""
    from tutelage.arrays import finite_or_none

    columns = ("strength", "standard_error", "low", "high", "p_value")
    preferences = {
        name: {column: finite_or_none(float(getattr(found, column)[j])) for column in columns}
        for j, name in enumerate(found.domain.preference_names)
    }
    rewards = dict(zip(found.domain.reward_names, found.reward_weights.tolist(), strict=True))
    return {"n": found.n, "preferences": preferences, "reward_weights": rewards, "bias": found.bias}

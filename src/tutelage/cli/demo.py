"""`tutelage demo`: one world, five learners, a table and a picture."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tutelage.cli.printing import AsJson, progress, say, show_json, show_table


def demo(
    seed: Annotated[int, typer.Option(help="The seed of the published object world.")] = 0,
    size: Annotated[int, typer.Option(help="Cells along one side of the grid.")] = 10,
    allowance: Annotated[float, typer.Option(help="Discounted visits of L2 to each kind of cell it avoids.")] = 2.5,
    picture: Annotated[Path, typer.Option(help="Path of the picture; .png and .svg are added.")] = Path("demo"),
    as_json: AsJson = False,
) -> None:
    """Teach learners L1 to L5 in one world: by a teacher that ignores their preferences, and by one that knows them.

    Then teach L2 with hard limits by every teacher, the two adaptive ones included. Prints tables and draws a picture.

    [bold]tutelage demo --seed 3 --picture out/demo[/bold]

    [bold]tutelage demo --size 7 --json[/bold]
    """
    from tutelage.experiments.demo import Demo
    from tutelage.experiments.run import compute_row
    from tutelage.experiments.worlds import WorldName
    from tutelage.pictures.files import save_picture

    story, outcomes = Demo(WorldName("published", seed, size), allowance), {}
    # A seed or a size that is not possible is refused here; a refused task would be a row.
    story.world.make()
    with progress("teaching", len(story.tasks())) as done:
        for task in story.tasks():
            outcomes[task] = compute_row(task).outcome
            done.step(f"{task.learner}, {task.teacher.name}")
    rows, rounds = story.rows(outcomes), story.rounds(outcomes)
    drawn = save_picture(story.picture(outcomes), picture)
    if as_json:
        shown = {"world": str(story.world), "allowance": allowance, "rows": rows, "rounds": rounds}
        show_json(shown | {"pictures": [str(path) for path in drawn]})
        return
    _show_known(str(story.world), rows)
    _show_rounds(allowance, rounds)
    say(f"Picture: {', '.join(str(path) for path in drawn)}")


def _show_known(world: str, rows: list[dict[str, Any]]) -> None:
    header = ("learner", "optimal policy", "agnostic lesson", "aware lesson", "bound on any lesson")
    keys = ("optimal", "agnostic", "aware", "bound")
    body = [(row["learner"], *(f"{row[key]:.3f}" for key in keys)) for row in rows]
    show_table(f"World {world}", header, body, "Expected discounted reward of a soft learner (C_r = 5, C_c = 10).")


def _show_rounds(allowance: float, rounds: dict[str, dict[str, Any]]) -> None:
    from tutelage.experiments.targets import column_label

    body = []
    for name, result in rounds.items():
        if "refused" in result:
            say(f"L2: {result['refused']}")
            return
        rewards = result["learner_rewards"]
        shown = (f"{reward:.3f}" for reward in (rewards[0], rewards[:3][-1], rewards[-1]))
        body.append((column_label(name), *shown, str(len(rewards))))
    header = ("teacher", "first round", "third", "last", "rounds")
    title = f"L2 with hard limits of {allowance:g} discounted visits to each kind of cell"
    show_table(title, header, body, "Reward of the learner. The last two teachers know only its responses.")

"""The answers of other packages on small problems, beside ours: the figures of docs/coming-from.md.

    pip install . pymdptoolbox quantecon irl-maxent stormpy mo-gymnasium msdm 'minari[create]' gymnasium
    python -m benchmarks.coming_from [NAME ...]

A package that is not installed is named and left out. `imitation` needs older versions of NumPy and Gymnasium, so it
runs in the environment that `make peers` builds in .venv-peers; TUTELAGE_PEERS names another.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import tutelage as tl
from benchmarks.peers import SCRIPT, NoAnswer, peer_python
from tutelage.arrays import Matrix

Finding = tuple[str, float]
MOVES = {"right": (1, 0), "left": (-1, 0), "up": (0, 1), "down": (0, -1)}
# The horizon of the grid that `imitation` learns.
STEPS = 12


def random_mdp(n_states: int, n_actions: int, discount: float) -> tuple[tl.MDP, Matrix]:
    """An MDP of dense random rows, and rewards (S, A)."""
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.ones(n_states), size=(n_states, n_actions))
    return tl.MDP.from_arrays(rows, initial=np.eye(n_states)[0], discount=discount), rng.normal(size=rows.shape[:2])


def dense(mdp: tl.MDP, n_actions: int) -> Any:
    """(S, A, S)."""
    return mdp.transition.toarray().reshape(mdp.n_states, n_actions, mdp.n_states)


def largest(ours: Any, theirs: Any) -> float:
    return float(np.abs(np.asarray(ours) - np.asarray(theirs)).max())


def pymdptoolbox() -> Iterator[Finding]:
    mdp, reward = random_mdp(50, 4, 0.95)
    solved = import_module("mdptoolbox.mdp").PolicyIteration(dense(mdp, 4).transpose(1, 0, 2), reward, 0.95)
    solved.run()
    yield "values of 50 states, policy iteration", largest(tl.solve_hard(mdp, reward.ravel()).value, solved.V)


def quantecon() -> Iterator[Finding]:
    """Pairs of states and actions, of which every third is not available."""
    mdp, reward = random_mdp(50, 4, 0.95)
    is_there = np.arange(200) % 3 != 1
    states, actions = np.repeat(np.arange(50), 4)[is_there], np.tile(np.arange(4), 50)[is_there]
    rows, rewards = mdp.transition.toarray()[is_there], reward.ravel()[is_there]
    found = import_module("quantecon.markov").DiscreteDP(rewards, rows, 0.95, states, actions).solve("policy_iteration")
    first_choice = np.searchsorted(states, np.arange(51))
    ours = tl.MDP.from_choices(rows, first_choice, initial=mdp.initial, discount=0.95)
    yield "values of 50 states with different actions", largest(tl.solve_hard(ours, rewards).value, found.v)


def msdm() -> Iterator[Finding]:
    """Its planner has a prior over actions; without one, its value lacks the logarithm of the number of actions."""
    mdp, reward = random_mdp(20, 3, 0.9)
    torch = import_module("torch")
    plan = import_module("msdm.algorithms.entregpolicyiteration").entropy_regularized_policy_iteration
    tensors = [torch.tensor(array) for array in (dense(mdp, 3), np.repeat(reward[:, :, None], 20, axis=2))]
    found = plan(*tensors, discount_rate=0.9, entropy_weight=torch.tensor([1.0]), n_planning_iters=1000)
    ours = tl.solve_soft(mdp, reward.ravel())
    yield "soft policy of 20 states", largest(ours.policy.reshape(20, 3), found.policy.numpy())


def irl_maxent() -> Iterator[Finding]:
    """A 5x5 grid with two terminal states and negative rewards; at a terminal state one may end or go on."""
    vars(np)["float"] = float  # which it still uses
    solve = import_module("irl_maxent.maxent").local_causal_action_probabilities
    cells, terminals = [(x, y) for y in range(5) for x in range(5)], [4, 20]
    rows, rewards = np.zeros((25, 25, 4)), np.where(np.isin(np.arange(25), [11, 12, 13]), -3.0, -0.5)
    for number, (x, y) in enumerate(cells):
        for action, (dx, dy) in enumerate(MOVES.values()):
            there = min(max(x + dx, 0), 4), min(max(y + dy, 0), 4)
            rows[number, cells.index(there), action] += 0.8
            rows[number, number, action] += 0.2
    theirs = solve(rows, terminals, rewards, 0.9, eps=1e-10)
    domain = tl.explore(
        0,
        lambda state: () if state == "end" else (*range(4), "end") if state in terminals else tuple(range(4)),
        lambda state, action: (
            [(1.0, "end")] if action == "end" else [(p, n) for n, p in enumerate(rows[state, :, action]) if p > 0]
        ),
        discount=0.9,
        reward=lambda state, action: {"reward": 0.0 if action == "end" else float(rewards[state])},
    )
    policy = tl.solve_soft(domain.mdp, domain.reward_features[:, 0]).policy
    ours = [[policy[domain.choice(state, action)] for action in range(4)] for state in range(25)]
    yield "soft policy, two terminal states, rewards of -0.5 and -3", largest(ours, theirs)


STORM_MODEL = """mdp
module walker
    x : [0..4] init 0;
    y : [0..4] init 0;
    [right] x < 4 -> 0.8 : (x' = x + 1) + 0.2 : true;
    [up] y < 4 -> 0.8 : (y' = y + 1) + 0.2 : true;
    [climb] y < 4 & x >= 2 -> (y' = y + 1);
endmodule
rewards "time"
    [right] true : 1;
    [up] true : 1;
    [climb] true : 0.5;
endrewards
rewards "risk"
    [climb] true : 1;
endrewards
label "goal" = x = 4 & y = 4;
"""


def walker() -> tl.Domain:
    """The model of `STORM_MODEL`, as functions."""

    def actions(state: Any) -> tuple[str, ...]:
        x, y = state
        possible = {"right": x < 4, "up": y < 4, "climb": y < 4 and x >= 2}
        return tuple(action for action, is_possible in possible.items() if is_possible)

    def outcomes(state: Any, action: Any) -> list[tuple[float, Any]]:
        x, y = state
        there = (x + 1, y) if action == "right" else (x, y + 1)
        return [(1.0, there)] if action == "climb" else [(0.8, there), (0.2, state)]

    return tl.explore(
        (0, 0),
        actions,
        outcomes,
        discount=1,
        reward=lambda state, action: {"time": 0.5 if action == "climb" else 1.0},
        preference=lambda state, action: {"risk": float(action == "climb")},
    )


def storm() -> Iterator[Finding]:
    """The least time to a goal, and the least time with a limit on another expectation."""
    stormpy = import_module("stormpy")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "walker.nm"
        path.write_text(STORM_MODEL, encoding="utf-8")
        program = stormpy.parse_prism_program(str(path))
    domain = walker()
    for what, asked, limits in (
        ("least time to a goal", 'R{"time"}min=? [F "goal"]', tl.no_limits(domain)),
        (
            "the same with a limit on risk",
            'multi(R{"time"}min=? [F "goal"], R{"risk"}<=1.5 [F "goal"])',
            tl.preference_limits(domain, 1.5),
        ),
    ):
        properties = stormpy.parse_properties(asked, program)
        model = stormpy.build_model(program, properties)
        answer = stormpy.model_checking(model, properties[0], only_initial_states=True)
        ours = tl.best_policy(domain, [-1.0], limits).value
        yield what, largest(-ours, answer.get_value(model.initial_states[0]))


def mo_gymnasium() -> Iterator[Finding]:
    """The most reward for a thousand weights: over our vertices, and over the known front."""
    mo = import_module("mo_gymnasium")
    weights = np.random.default_rng(0).random((1000, 2))
    for name in ("deep-sea-treasure-v0", "deep-sea-treasure-concave-v0"):
        env = mo.make(name)
        for discount in (0.9, 0.99):
            sea = tl.explore_gymnasium(
                env,
                key=lambda inner: tuple(map(int, inner.current_state)),
                discount=discount,
                reward_features=lambda before, action, after: {
                    "treasure": max(float(after.sea_map[tuple(after.current_state)]), 0.0),
                    "time": -1.0,
                },
            )
            corners = tl.vertices(sea, tl.no_limits(sea))
            front = np.array(env.unwrapped.pareto_front(discount))
            yield f"{name}, discount {discount}", largest((weights @ corners.T).max(1), (weights @ front.T).max(1))


def minari() -> Iterator[Finding]:
    """Ten recorded episodes of FrozenLake, stored and read again: the discounted arrivals in each cell."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MINARI_DATASETS_PATH"] = folder
        gymnasium, store = import_module("gymnasium"), import_module("minari")
        env = store.DataCollector(gymnasium.make("FrozenLake-v1", is_slippery=False))
        arrivals, rng = np.zeros(16), np.random.default_rng(0)
        for episode in range(10):
            env.reset(seed=episode)
            is_over, n_steps = False, 0
            while not is_over:
                cell, _, terminated, truncated, _ = env.step(int(rng.integers(4)))
                arrivals[cell] += 0.95**n_steps / 10
                is_over, n_steps = terminated or truncated, n_steps + 1
        dataset = env.create_dataset("docs/lake-v0", algorithm_name="random", author="docs", code_permalink="none")
        lake = tl.from_gymnasium(
            gymnasium.make("FrozenLake-v1", is_slippery=False), discount=0.95, reward_features=np.eye(16)
        )
        ours = tl.empirical_expectation(lake, tl.from_minari(lake, dataset)).reward
        yield "arrivals in the 16 cells of ten episodes", largest(ours, arrivals)


def imitation() -> Iterator[Finding]:
    """Its MCE-IRL on the 5x5 grid of the page, with 12 steps. It counts the state after the last step, too."""
    cells = [(x, y) for y in range(5) for x in range(5)]
    domain, rows = clocked(), np.zeros((25, 4, 25))
    names: Any = domain.state_names
    for number, cell in enumerate(cells):
        for action, move in enumerate(MOVES):
            for probability, (x, y, _) in slippery((*cell, 0), move):
                rows[number, action, cells.index((x, y))] += probability
    expert = tl.solve_soft(domain.mdp, domain.reward_features @ np.array([2.0, -1.0])).policy
    ours = tl.StandardLearner(domain).respond(tl.Lesson.from_policy(domain, expert)).policy
    is_moving = np.array([time < STEPS for _, _, time in names], dtype=float)[domain.mdp.state_of_choice]
    moves = tl.occupancy(domain.mdp, expert) * is_moving
    visits = np.zeros(25)
    for (x, y, _), n in zip(names, domain.mdp.initial + domain.mdp.transition.T @ moves, strict=True):
        visits[cells.index((x, y))] += n
    features = [[float(cell == (4, 4)), float(max(map(abs, (cell[0] - 2, cell[1] - 2))) <= 1)] for cell in cells]
    problem = {"transition": rows, "features": np.array(features), "initial": np.eye(25)[0], "occupancy": visits}
    policy, n_steps = trained(problem | {"horizon": STEPS, "max_steps": 20_000, "learning_rate": 0.02})
    states = [(*cell, time) for time in range(STEPS) for cell in cells]
    here = [number for number, state in enumerate(states) if state in set(names)]
    mine = [[ours[domain.choice(states[number], move)] for move in MOVES] for number in here]
    yield f"policy on a 5x5 grid after {n_steps} steps", largest(mine, policy.reshape(-1, 4)[here])


def trained(problem: dict[str, Any]) -> tuple[Matrix, int]:
    """The policy (horizon, S, A) of `imitation`, and its number of steps."""
    python = peer_python(Path(os.environ["TUTELAGE_PEERS"]) if "TUTELAGE_PEERS" in os.environ else None)
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder) / "problem.npz", Path(folder) / "answer.npz"
        np.savez(asked, **problem)
        ended = subprocess.run(
            [str(python), "-I", str(SCRIPT), str(asked), str(answered)], capture_output=True, text=True
        )
        if ended.returncode:
            raise NoAnswer((ended.stderr.strip().splitlines() or ["no reason given"])[-1])
        found = np.load(answered)
        return found["policy"], int(found["n_steps"])


def slippery(state: Any, action: Any) -> list[tuple[float, Any]]:
    """A move on the grid that fails in one of ten steps; the clock goes on."""
    (x, y, time), (dx, dy) = state, MOVES[action]
    there = min(max(x + dx, 0), 4), min(max(y + dy, 0), 4)
    return [(0.9, (*there, time + 1)), (0.1, (x, y, time + 1))]


def clocked() -> tl.Domain:
    """The domain of the section "imitation" of docs/coming-from.md."""
    return tl.explore(
        (0, 0, 0),
        lambda state: tuple(MOVES) if state[2] < STEPS else (),
        slippery,
        discount=1,
        reward=lambda state, action: {
            "corner": float(state[:2] == (4, 4)),
            "middle": float(1 <= state[0] < 4 and 1 <= state[1] < 4),
        },
    )


COMPARED: dict[str, Callable[[], Iterator[Finding]]] = {
    "pymdptoolbox": pymdptoolbox,
    "quantecon": quantecon,
    "irl-maxent": irl_maxent,
    "stormpy": storm,
    "mo-gymnasium": mo_gymnasium,
    "msdm": msdm,
    "minari": minari,
    "imitation": imitation,
}


def main(names: list[str]) -> None:
    for name in names or COMPARED:
        try:
            installed = "in .venv-peers" if name == "imitation" else version(name)
            for what, difference in COMPARED[name]():
                print(f"{name} {installed}: {what}: they differ by {difference:.1e} at most", flush=True)
        except (PackageNotFoundError, NoAnswer) as missing:
            print(f"{name}: not compared ({missing})")


if __name__ == "__main__":
    main(sys.argv[1:])

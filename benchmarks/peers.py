"""Peers in a separate environment: `imitation`, which needs PyTorch and an old Gymnasium; HiGHS, OR-tools, QuantEcon.

`imitation`'s tabular MCE-IRL:

It plans over a finite horizon, drops the caller's discount in training (mce_occupancy_measures), and accepts only
features of states. It therefore gets an equivalent MDP with discount one: each step ends the game with probability
1 - discount, in a state without features. Visits then count as if discounted, and the entropy after the end adds the
same constant to every choice.
"""

import os
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.imitation_peer import NOT_INSTALLED
from benchmarks.program_peer import NO_ANSWER
from tutelage.arrays import Matrix, Vector
from tutelage.model.mdp import MDP, Domain

FOLDER, SCRIPT = Path(".venv-peers"), Path(__file__).with_name("imitation_peer.py")
PROGRAM_SCRIPT = Path(__file__).with_name("program_peer.py")
MISSING = "imitation is not installed; `make peers` installs it"
NO_PEERS = "the peers are not installed; `make peers` installs them"


class NoAnswer(Exception):
    """The peer is not installed or fails; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Effort:
    """The horizon of the peer, the limit of its Adam steps, and their learning rate."""

    horizon: int
    max_steps: int
    learning_rate: float


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """The policy (horizon, C) of the peer, and the seconds and steps of its training."""

    policy: Matrix
    seconds: float
    n_steps: int


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """The value that a peer found, and the seconds of its solution."""

    value: Vector
    seconds: float


def solve_program(python: Path, method: str, problem: dict[str, Any], limit: float) -> Solved:
    """One method of `program_peer` on a problem; raises `NoAnswer` if it is missing, fails or takes too long."""
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder) / "problem.npz", Path(folder) / "answer.npz"
        np.savez(asked, **problem)
        command = [str(python), "-I", str(PROGRAM_SCRIPT), method, str(asked), str(answered), str(limit)]
        free = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
        try:
            ended = subprocess.run(
                command, capture_output=True, text=True, check=False, env=free, timeout=1.5 * limit + 30
            )
        except subprocess.TimeoutExpired as error:
            raise NoAnswer(f"{method} has no answer after {1.5 * limit + 30:g} s") from error
        if ended.returncode == NOT_INSTALLED:
            raise NoAnswer(f"{method} is not installed; `make peers` installs it")
        if ended.returncode == NO_ANSWER:
            raise NoAnswer(f"{method} has no answer after {limit:g} s")
        if ended.returncode:
            raise NoAnswer(f"{method} failed: {(ended.stderr.strip().splitlines() or ['no reason given'])[-1]}")
        found = np.load(answered)
        return Solved(found["value"], float(found["seconds"]))


def peer_python(folder: Path | None, reason: str = MISSING) -> Path:
    """The Python of the environment in this folder, by default .venv-peers. reason: what to say without it."""
    home = folder or FOLDER
    for path in (home / "bin" / "python", home / "Scripts" / "python.exe"):
        if path.exists():
            return path
    raise NoAnswer(reason)


def train_imitation(python: Path, domain: Domain, visits: Vector, effort: Effort) -> Trained:
    """MCE-IRL from visits (S,) at steps 0 .. horizon; raises `NoAnswer` if `imitation` fails or is missing.

    Every state must have the same number of choices, and features must be on states.
    """
    mdp = domain.mdp
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder) / "problem.npz", Path(folder) / "answer.npz"
        np.savez(
            asked,
            transition=ending(mdp),
            features=np.vstack([domain.reward_features, np.zeros(domain.n_reward)]),
            initial=np.append(mdp.initial, 0.0),
            occupancy=np.append(visits, effort.horizon + 1 - visits.sum()),
            **asdict(effort),
        )
        # -I isolates: neither this folder's modules nor PYTHONPATH are imported.
        command = [str(python), "-I", str(SCRIPT), str(asked), str(answered)]
        # No limit on threads: its dense products use them well.
        free = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
        ended = subprocess.run(command, capture_output=True, text=True, check=False, env=free)
        if ended.returncode == NOT_INSTALLED:
            raise NoAnswer(MISSING)
        if ended.returncode:
            raise NoAnswer(f"imitation failed: {(ended.stderr.strip().splitlines() or ['no reason given'])[-1]}")
        found = np.load(answered)
        policy = found["policy"][:, :-1].reshape(effort.horizon, mdp.n_choices)
        return Trained(policy, float(found["seconds"]), int(found["n_steps"]))


def ending(mdp: MDP) -> NDArray[np.float64]:
    """(S+1, A, S+1): transitions that end with probability 1 - discount at each step, in the last state."""
    n_states, n_actions = mdp.n_states, mdp.n_choices // mdp.n_states
    whole = np.zeros((n_states + 1, n_actions, n_states + 1))
    whole[:-1, :, :-1] = mdp.discount * mdp.transition.toarray().reshape(n_states, n_actions, n_states)
    whole[:, :, -1] = 1 - whole[:, :, :-1].sum(axis=2)
    return whole


def truncated_visits(mdp: MDP, policy: Matrix) -> Vector:
    """(S,), discounted visits at steps 0 .. horizon of a policy (horizon, C), one row for each step."""
    now = np.asarray(mdp.initial, dtype=float)
    visits = now.copy()
    for row in policy:
        now = mdp.discount * (mdp.transition.T @ (np.repeat(now, mdp.choices_per_state) * row))
        visits += now
    return visits

"""`imitation`'s tabular MCE-IRL, which needs PyTorch and an old Gymnasium, and so an environment of its own.

It plans over a finite horizon, forgets the caller's discount while it trains (mce_occupancy_measures plans without it),
and knows features of states only. So it gets the same MDP in a form in which that does not hurt: every step ends the
game with probability 1 - discount, in a state without features. Then visits count as if they were discounted, what
entropy accrues after the end adds the same to every choice, and its discount is one.
"""

import os
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.imitation_peer import NOT_INSTALLED
from tutelage.arrays import Matrix, Vector
from tutelage.mdp.model import MDP, Domain

FOLDER, SCRIPT = Path(".venv-peers"), Path(__file__).with_name("imitation_peer.py")
MISSING = "imitation is not installed; `make peers` installs it"


class NoAnswer(Exception):
    """A peer that is not there, or fails, and why."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How far the peer looks ahead, and how many steps of Adam it takes at most, of what size."""

    horizon: int
    max_steps: int
    learning_rate: float


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """What the peer found: its policy (horizon, C), and the seconds and the steps that training took."""

    policy: Matrix
    seconds: float
    n_steps: int


def peer_python(folder: Path | None) -> Path:
    """The Python of the peers' environment: in this folder, or in .venv-peers."""
    home = folder or FOLDER
    for path in (home / "bin" / "python", home / "Scripts" / "python.exe"):
        if path.exists():
            return path
    raise NoAnswer(MISSING)


def train_imitation(python: Path, domain: Domain, visits: Vector, effort: Effort) -> Trained:
    """MCE-IRL from visits (S,) at steps 0 .. horizon; raises `NoAnswer` where it fails or is not installed.

    Every state must offer the same number of choices, and features must be on states.
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
    """(S+1, A, S+1): the MDP that ends at every step with probability 1 - discount, in a state of its own."""
    n_states, n_actions = mdp.n_states, mdp.n_choices // mdp.n_states
    whole = np.zeros((n_states + 1, n_actions, n_states + 1))
    whole[:-1, :, :-1] = mdp.discount * mdp.transition.toarray().reshape(n_states, n_actions, n_states)
    whole[:, :, -1] = 1 - whole[:, :, :-1].sum(axis=2)
    return whole


def truncated_visits(mdp: MDP, policy: Matrix) -> Vector:
    """(S,), discounted visits at steps 0 .. horizon of a policy (horizon, C) that has a row for each step."""
    now = np.asarray(mdp.initial, dtype=float)
    visits = now.copy()
    for row in policy:
        now = mdp.discount * (mdp.transition.T @ (np.repeat(now, mdp.choices_per_state) * row))
        visits += now
    return visits

"""A domain as a Gymnasium environment. Only this module imports Gymnasium, so it is imported only when used."""

from functools import cached_property
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from numpy.typing import NDArray

from tutelage.arrays import ArrayLike, Vector, vector
from tutelage.model.inputs import choice_of_entry
from tutelage.model.mdp import Domain, absorbing_states, choice_reward
from tutelage.model.policy import max_by_state
from tutelage.outcomes import InvalidInput

Table = dict[int, dict[int, list[tuple[float, int, float, bool]]]]


class DomainEnv(gymnasium.Env[Any, Any]):
    """An environment that steps through the MDP of a domain; the reward of a step is <weights, phi_r> of its choice,
    and of its next state where features are on arrival.

    An episode terminates on arrival in an absorbing state with zero reward. An absorbing state with a reward, like the
    goal of a road map, does not end the episode, because its later rewards count. Where a state offers only k choices,
    action a means choice a mod k, and `info["action_mask"]` marks actions 0 .. k - 1. `info["state_name"]` is the name
    of the state, if the domain has names; after a step, `info["discount"]` is the discount of its choice.
    """

    def __init__(self, domain: Domain, weights: ArrayLike | None = None, render_mode: str | None = None) -> None:
        mdp = domain.mdp
        self.domain, self.render_mode = domain, render_mode
        given = np.ones(domain.n_reward) if weights is None else weights
        self.weights = vector(given, "weights", domain.n_reward, "reward features")
        self.observation_space = spaces.Discrete(mdp.n_states)
        self.n_actions = int(mdp.choices_per_state.max())
        self.action_space = spaces.Discrete(self.n_actions)
        self.initial_state_distrib = mdp.initial
        rewards = choice_reward(mdp, domain.reward_features @ self.weights)
        self._gains = rewards[choice_of_entry(mdp.transition)]
        for column, apart in domain.deviations("reward"):
            self._gains += self.weights[column] * apart.data
        self._is_end = absorbing_states(mdp) & (max_by_state(mdp, np.abs(rewards)) == 0)
        self._state: int | None = None
        # Gymnasium needs a specification to make copies, as for a vector of environments.
        kwargs = {"domain": domain, "weights": self.weights}
        self.spec = EnvSpec("tutelage/Domain-v0", f"{__name__}:DomainEnv", kwargs=kwargs)

    @cached_property
    def P(self) -> Table:  # noqa: N802 (the name that Gymnasium's own tables have)
        """The table of Gymnasium's toy environments: state -> action -> [(probability, next, reward, terminated)]."""
        mdp = self.domain.mdp
        table: Table = {state: {} for state in range(mdp.n_states)}
        for choice, state in enumerate(mdp.state_of_choice.tolist()):
            chances, after, gains = self._row(choice)
            columns = (chances.tolist(), after.tolist(), gains.tolist(), self._is_end[after].tolist())
            table[state][len(table[state])] = list(zip(*columns, strict=True))
        return table

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Draw the first state from the initial distribution."""
        super().reset(seed=seed, options=options)
        mdp = self.domain.mdp
        self._state = int(self.np_random.choice(mdp.n_states, p=mdp.initial))
        return self._state, self._info(self._state, float(mdp.initial[self._state]))

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """The next state, the reward, whether the episode terminated, whether it was truncated (never), and info."""
        if self._state is None:
            raise gymnasium.error.ResetNeeded("call reset before the first step")
        if not self.action_space.contains(action):
            raise InvalidInput(f"there is no action {action!r}; the actions are 0 to {self.n_actions - 1}")
        mdp = self.domain.mdp
        choice = int(mdp.first_choice[self._state] + action % mdp.choices_per_state[self._state])
        probabilities, next_states, gains = self._row(choice)
        drawn = int(self.np_random.choice(len(probabilities), p=probabilities))
        self._state = int(next_states[drawn])
        info = self._info(self._state, float(probabilities[drawn]))
        info["discount"] = mdp.discount if isinstance(mdp.discount, float) else float(mdp.discount[choice])
        return self._state, float(gains[drawn]), bool(self._is_end[self._state]), False, info

    def _info(self, state: int, probability: float) -> dict[str, Any]:
        is_choice = np.arange(self.n_actions) < self.domain.mdp.choices_per_state[state]
        info = {"prob": probability, "action_mask": is_choice.astype(np.int8)}
        return info if self.domain.state_names is None else info | {"state_name": self.domain.state_name(state)}

    def _row(self, choice: int) -> tuple[Vector, NDArray[np.integer[Any]], Vector]:
        """The probabilities of the possible next states of a choice, these states, and the rewards of the steps."""
        rows = self.domain.mdp.transition
        part = slice(rows.indptr[choice], rows.indptr[choice + 1])
        return rows.data[part], rows.indices[part], self._gains[part]

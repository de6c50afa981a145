"""Apprenticeship learning by projection (Abbeel and Ng 2004): policies are mixed until they match what was shown.

With m the mixture's expectation, each step takes the best policy for the reward mu_hat - m and moves m to the point of
the segment towards that policy's expectation that is nearest to mu_hat. It is the Frank-Wolfe method for the projection
of mu_hat onto what policies can do, so m converges to the response of a `HardLearner` without limits.
"""

from dataclasses import dataclass

from tutelage.arrays import Readable, check_numbers
from tutelage.bellman.equations import solve_hard
from tutelage.chains.expectations import expectation_of_occupancy, occupancy
from tutelage.model.mdp import Domain
from tutelage.model.policy import policy_from_occupancy, uniform_policy
from tutelage.roles import Lesson, Response, check_lesson


@dataclass(frozen=True, eq=False)
class ApprenticeLearner(Readable):
    """max_steps: policies mixed at most. tolerance: ends where no policy reduces the distance to the lesson by more
    than this, relative to |mu_hat| and what the uniform policy does.
    """

    domain: Domain
    max_steps: int = 200
    tolerance: float = 1e-6

    def __post_init__(self) -> None:
        check_numbers(self, "max_steps", least=1, is_whole=True)
        check_numbers(self, "tolerance", least=0.0)

    def respond(self, lesson: Lesson, after: Response | None = None) -> Response:
        """The mixture; the response to a lesson does not depend on earlier ones."""
        domain = check_lesson(self.domain, lesson).seen_in(self.domain)
        mdp, shown = domain.mdp, lesson.expectation
        visits = occupancy(mdp, uniform_policy(mdp))
        mixed = expectation_of_occupancy(domain, visits).reward
        enough = self.tolerance**2 * float(shown @ shown + mixed @ mixed)
        for _ in range(self.max_steps):
            missing = shown - mixed
            best = occupancy(mdp, solve_hard(mdp, domain.reward_features @ missing).policy)
            towards = expectation_of_occupancy(domain, best).reward - mixed
            gain = float(missing @ towards)
            if gain <= enough:
                break
            share = min(gain / float(towards @ towards), 1.0)
            visits, mixed = visits + share * (best - visits), mixed + share * towards
        return Response.of(self.domain, lesson, policy_from_occupancy(mdp, visits), weights=shown - mixed)

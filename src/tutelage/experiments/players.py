"""Learners and teachers by name: what settings, the command line and the playground speak of."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tutelage.arrays import Matrix, Vector
from tutelage.environments.preferences import preference_names
from tutelage.experiments.settings import LearnerSetting
from tutelage.learners.entropy import ApproximateHardLearner, SoftLearner, StandardLearner
from tutelage.learners.projection import HardLearner
from tutelage.learners.published import PublishedHardLearner, PublishedLearner
from tutelage.mdp.model import Domain
from tutelage.outcomes import InvalidModel
from tutelage.roles import Advice, Learner, Lesson, Round, Teacher
from tutelage.teachers.bilevel import BilevelTeacher
from tutelage.teachers.fixed import AgnosticTeacher, AwareCmdpTeacher, ConservativeTeacher
from tutelage.teachers.line_search import LineSearchTeacher
from tutelage.teachers.volume_search import VolumeSearchTeacher

MakeLearner = Callable[[Domain, LearnerSetting], Learner]

LEARNER_MODELS: Mapping[str, MakeLearner] = {
    "soft": lambda d, s: SoftLearner(d, s.mismatch_penalty, s.violation_penalty, s.allowance),
    "hard": lambda d, s: HardLearner(d, s.allowance),
    "footnote": lambda d, s: ApproximateHardLearner(d, s.allowance, s.mismatch_penalty),
    "published": lambda d, s: PublishedLearner(d, s.mismatch_penalty, s.violation_penalty, s.allowance, s.max_steps),
    "footnote_published": lambda d, s: PublishedHardLearner(d, s.allowance, s.mismatch_penalty, s.max_steps),
    "standard": lambda d, s: StandardLearner(d),
}


def make_learner(domain: Domain, setting: LearnerSetting) -> Learner:
    """The learner of a model, in a domain."""
    if setting.model not in LEARNER_MODELS:
        raise InvalidModel(
            f"there is no learner model {setting.model!r}; it must be one of {', '.join(LEARNER_MODELS)}"
        )
    return LEARNER_MODELS[setting.model](domain, setting)


# Each takes the domain, the true weights, the learner, and options by name.
TEACHERS: Mapping[str, Callable[..., Any]] = {
    "agnostic": lambda d, w, _, **options: AgnosticTeacher(d, w, **options),
    "conservative": lambda d, w, _, **options: ConservativeTeacher(d, w, **options),
    "aware_cmdp": AwareCmdpTeacher,
    "bilevel": BilevelTeacher,
    "bilevel_frank_wolfe": lambda d, w, x, **options: BilevelTeacher(d, w, x, method="frank-wolfe", **options),
    "volume_search": lambda d, w, _, **options: VolumeSearchTeacher(d, w, **options),
    "line_search": lambda d, w, _, **options: LineSearchTeacher(d, w, **options),
}


def make_teacher(
    name: str, domain: Domain, true_weights: Vector, learner: Learner, options: Mapping[str, Any]
) -> Teacher:
    """The teacher of a name. options: its own parameters; for the conservative one `preference_features` it fears."""
    if name not in TEACHERS:
        raise InvalidModel(f"there is no teacher {name!r}; it must be one of {', '.join(TEACHERS)}")
    teacher: Teacher = TEACHERS[name](domain, true_weights, learner, **options)
    return teacher


@dataclass(frozen=True, slots=True, eq=False)
class PlannedTeacher:
    """One lesson, planned already, and the reward that no lesson exceeds, by the same plan."""

    domain: Domain
    true_weights: Vector
    lesson: Lesson
    bound: float

    def open(self) -> Lesson:
        """The lesson."""
        return self.lesson

    def adapt(self, rounds: Sequence[Round]) -> Advice:
        """Nothing more, and what is certified."""
        return Advice(None, "this teacher has one lesson, and it was taught", self.bound)


def planned(teacher: Teacher) -> Teacher:
    """The same lesson with the bound of its plan, where the teacher has one that holds for its learner."""
    if isinstance(teacher, BilevelTeacher):
        plan = teacher.plan()
        return PlannedTeacher(teacher.domain, teacher.true_weights, plan.lesson, plan.bound)
    if isinstance(teacher, AwareCmdpTeacher) and teacher.learner.preference.is_hard:
        best = teacher.plan()
        lesson = Lesson.from_policy(teacher.domain, best.policy)
        return PlannedTeacher(teacher.domain, teacher.true_weights, lesson, best.bound)
    return teacher


def first_preferences(domain: Domain, learner: str) -> Domain:
    """The same domain for a learner that notices only the first so many preference features, as L1 .. L5 do."""
    n = len(preference_names(learner))
    if n > domain.n_preference:
        raise InvalidModel(f"{learner} minds {n} preference features, but the domain has {domain.n_preference}")
    features: Matrix = domain.preference_features[:, :n]
    return Domain(domain.mdp, domain.reward_features, features, domain.reward_names, domain.preference_names[:n])

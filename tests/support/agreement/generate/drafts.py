"""What all generators share: chances, pod templates and happenings."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, TypeVar

import msgspec

from agreement.cases import Case, Happening, Step
from windlass.model.base import Json

T = TypeVar("T")

PERMANENT: Final = (1, 2, 42, 127)
RETRYABLE: Final = (130, 137, 143, 255)

HAPPENINGS: Final = (
    "success",
    "failure with code 1 to 127",
    "failure with code 128 to 255",
    "eviction",
    "preemption",
    "node loss",
    "deletion",
    "forced deletion",
)
ATTEMPTS: Final = 500
"""Some combinations exclude a feature: then the case is drawn again."""
_WITHOUT_CODE: Final = {
    "eviction": Happening.EVICT,
    "preemption": Happening.PREEMPT,
    "node loss": Happening.LOSE_NODE,
    "deletion": Happening.DELETE,
    "forced deletion": Happening.VANISH,
}


class Draft:
    """A case in the making. `has` decides by chance whether it has a feature, unless it must have it."""

    def __init__(self, seed: str, feature: str) -> None:
        self.random = Random(seed)
        self.features: set[str] = set()
        self.steps: list[Step] = []
        self.wanted = feature
        """The feature that the case must have."""

    def has(self, feature: str, chance: float) -> bool:
        rolled = self.random.random() < chance
        if feature == self.wanted or rolled:
            self.features.add(feature)
            return True
        return False

    def one_of(self, kind: str, values: Sequence[str]) -> str:
        """Return one value; the feature is `kind: value`."""
        wanted = [value for value in values if f"{kind}: {value}" == self.wanted]
        chosen = self.random.choice(values)
        value = wanted[0] if wanted else chosen
        self.features.add(f"{kind}: {value}")
        return value

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def pick(self, values: Sequence[T]) -> T:
        return self.random.choice(values)

    def happen(self, role: str, index: int, happenings: Sequence[str] = HAPPENINGS) -> None:
        """Add something that happens to a pod, preferably what the case has to cover."""
        chosen = self.pick(happenings)
        if self.wanted in happenings and self.wanted not in self.features:
            chosen = self.wanted
        self.features.add(chosen)
        what = _WITHOUT_CODE.get(chosen, Happening.EXIT)
        code = 0
        if what is Happening.EXIT and chosen != "success":
            code = self.pick(RETRYABLE if "128" in chosen else PERMANENT)
        self.steps.append(Step(role, index, what, code))

    def exit(self, role: str, index: int, code: int) -> None:
        self.steps.append(Step(role, index, Happening.EXIT, code))


class Generator(msgspec.Struct, frozen=True):
    kind: str
    api_version: str
    features: tuple[str, ...]
    draw: Callable[[Draft], "Drawn"]

    def case(self, number: int, seed: int) -> Case:
        feature = self.features[number % len(self.features)]
        for attempt in range(ATTEMPTS):
            draft = Draft(f"{self.kind} {seed} {number} {attempt}", feature)
            drawn = self.draw(draft)
            if feature in draft.features:
                return self._case(number, draft, drawn)
        raise AssertionError(f"the generator of {self.kind} cannot draw {feature!r}")

    def _case(self, number: int, draft: Draft, drawn: "Drawn") -> Case:
        job = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": {"name": f"{self.kind.lower()}-{number}", **drawn.metadata},
            "spec": drawn.spec,
        }
        return Case(
            name=f"{self.kind.lower()}-{number}",
            kind=self.kind,
            objects=(job,),
            steps=tuple(draft.steps),
            finishes=not drawn.waits_for_deadline,
            # Not the same for all cases of a feature, which repeat after as many numbers as there are features.
            ends_last_first=(number + number // len(self.features)) % 2 == 1,
            is_removed=drawn.is_removed,
            features=tuple(sorted(draft.features)),
        )


class Drawn(msgspec.Struct, frozen=True):
    spec: dict[str, Any]
    metadata: dict[str, Any] = {}
    waits_for_deadline: bool = False
    is_removed: bool = False


def template(container: str, restart_policy: str = "", **more: Any) -> Json:
    spec: Json = {
        "containers": [{"name": container, "image": "example.org/train:1", "command": ["train"], **more}]
    }
    if restart_policy:
        spec["restartPolicy"] = restart_policy
    return {"spec": spec}

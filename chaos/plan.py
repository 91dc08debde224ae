"""From a seed to a plan: the place, the workloads, the faults and their times. No I/O, no clock."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chaos.faults import FAULTS, Lane
from chaos.site import Place
from chaos.workloads import WORKLOADS

__all__ = ["Plan", "Step"]

#: Seconds from the start of one fault to the next.
_APART = (0.5, 4.0)
_BRIEFLY_APART = 0.4
#: In a cell of everything workloads write and read more slowly: all of them share one process.
_SLOW = 4.0


@dataclass(frozen=True)
class Step:
    """A fault, after so many seconds and for so many."""

    at: float
    fault: str
    seconds: float


@dataclass(frozen=True)
class Plan:
    """What happens in a cell."""

    seed: int
    place: Place
    workloads: tuple[str, ...]
    steps: tuple[Step, ...]
    #: A factor on the pauses of the workloads.
    pace: float = 1.0
    #: The arguments that repeat it.
    arguments: str = ""

    @classmethod
    def random(
        cls, seed: int, *, only_workloads: Sequence[str] = (), only_faults: Sequence[str] = ()
    ) -> Plan:
        """One to three writers, an ordered reader and some other workloads, under three to eight faults.

        To look closer: only these workloads, all of them, and only these faults.
        """
        chance = random.Random(seed)
        place = chance.choice([place for place in Place if _possible(place, only_faults or FAULTS)])
        writers = [name for name, workload in WORKLOADS.items() if workload.writes]
        others = [name for name, workload in WORKLOADS.items() if not workload.writes]
        ordered = [name for name in others if name.startswith("ordered")]
        chosen = {chance.choice(ordered), *chance.sample(writers, k=chance.randint(1, 3))}
        chosen.update(chance.sample(others, k=chance.randint(4, 9)))
        chosen = set(only_workloads) or chosen
        faults = _possible(place, only_faults or FAULTS)
        steps, at = [], 0.0
        for _ in range(chance.randint(3, 8)):
            at += chance.uniform(*_APART)
            fault = chance.choice(faults)
            steps.append(Step(at, fault, chance.uniform(*FAULTS[fault].seconds)))
        workloads = tuple(name for name in WORKLOADS if name in chosen)
        arguments = f"--cell {seed}"
        arguments += f" --workloads {','.join(only_workloads)}" if only_workloads else ""
        arguments += f" --faults {','.join(only_faults)}" if only_faults else ""
        return cls(seed, place, workloads, tuple(steps), arguments=arguments)

    @classmethod
    def everything(cls, seed: int, place: Place) -> Plan:
        """Every workload, and every fault of the place once, as briefly as possible."""
        faults = _possible(place, FAULTS)
        random.Random(seed).shuffle(faults)
        steps = tuple(
            Step(_BRIEFLY_APART * number, name, FAULTS[name].seconds[0]) for number, name in enumerate(faults)
        )
        return cls(seed, place, tuple(WORKLOADS), steps, _SLOW, f"--everything {place} --seed {seed}")

    @property
    def forgetful(self) -> bool:
        """Whether a server may forget what consumers have delivered."""
        return any(FAULTS[step.fault].forgetful for step in self.steps)

    @property
    def undecided(self) -> bool:
        """Whether a cluster may be without a majority, and take back that it deleted a consumer."""
        lanes = {FAULTS[step.fault].lane for step in self.steps}
        return self.place is Place.CLUSTER and Lane.SERVERS in lanes

    @property
    def gentle(self) -> bool:
        """Whether servers and connections are up all the time."""
        return all(FAULTS[step.fault].lane is Lane.LEADERS for step in self.steps)


def _possible(place: Place, faults: Iterable[str]) -> list[str]:
    return [name for name in faults if place in FAULTS[name].places]

"""What an experiment is: tasks that measure, independent of each other, and a section that tells what came out."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from whenmask.lab.results import Measured, Results, Setting

Effort: TypeAlias = Literal["full", "quick", "tiny"]
Verdict: TypeAlias = Literal["holds", "holds in part", "does not hold", "beyond the paper"]
EPSILONS = tuple(range(1, 9))


@dataclass(frozen=True)
class Scope:
    """What is to be run, and on what.

    Attributes:
        folder: Where the data are; None for generated twins.
        effort: "full" for the published figures, "quick" for a look, "tiny" for tests.
    """

    folder: Path | None = None
    effort: Effort = "full"

    def pick(self, full: Any, quick: Any, tiny: Any) -> Any:
        """Return what suits the effort."""
        return {"full": full, "quick": quick, "tiny": tiny}[self.effort]

    @property
    def epsilons(self) -> tuple[int, ...]:
        """The budgets of the paper's figures."""
        epsilons: tuple[int, ...] = self.pick(EPSILONS, EPSILONS, (1, 4, 8))
        return epsilons


@dataclass(frozen=True)
class Task:
    """A piece of an experiment: a function of a module, so that a process of its own can run it."""

    run: Callable[..., list[Measured]]
    scope: Scope
    arguments: tuple[Any, ...] = ()

    def __call__(self) -> list[Measured]:
        """Measure."""
        return self.run(self.scope, *self.arguments)


@dataclass(frozen=True)
class Table:
    """Rows of text under a caption; the first column names the row."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Figure:
    """A drawing as SVG, and what it shows."""

    svg: str
    caption: str


@dataclass(frozen=True)
class Finding:
    """A statement of the paper beside what was measured, or one of ours where the paper has none."""

    said: str
    verdict: Verdict
    found: str


@dataclass(frozen=True)
class Section:
    """What is told of an experiment."""

    title: str
    intro: str
    findings: Sequence[Finding] = ()
    blocks: Sequence[Table | Figure] = ()
    notes: Sequence[str] = ()
    # Where the data come from, and with which settings it was measured.
    basis: str = ""


@dataclass(frozen=True)
class Experiment:
    """An experiment: its name on the command line, its tasks, the data it uses, and its section."""

    name: str
    purpose: str
    data: Sequence[str]
    tasks: Callable[[Scope], list[Task]]
    section: Callable[[Results], Section]
    needs: Sequence[str] = field(default=())


def computed(setting: Setting, value: float) -> Measured:
    """Return what was computed and not drawn, as a measurement without an error."""
    return Measured(setting, -1, value)


def verdict(cases: Iterable[bool]) -> Verdict:
    """Return whether a statement holds in all cases, some or none."""
    listed = list(cases)
    if listed and all(listed):
        return "holds"
    return "holds in part" if any(listed) else "does not hold"


def compared(
    results: Results, lower: dict[str, Any], upper: dict[str, Any], *, among: Sequence[str]
) -> list[tuple[tuple[Any, ...], float, float]]:
    """Return (what is varied, one mean, other mean) wherever both were measured.

    Args:
        results: Where to look.
        lower: Fields that pick the one.
        upper: Fields that pick the other.
        among: The fields that must agree between the two.
    """
    ones = {tuple(getattr(setting, name) for name in among): mean for setting, mean in results.where(**lower)}
    others = {tuple(getattr(setting, name) for name in among): mean for setting, mean in results.where(**upper)}
    return [(place, ones[place].mean, others[place].mean) for place in ones if place in others]

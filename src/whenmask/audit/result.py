"""What an audit found, for people and for programs."""

from dataclasses import asdict, dataclass
from typing import Any

from whenmask.audit.intervals import Interval


@dataclass(frozen=True)
class PairResult:
    """What was measured of one pair of timestamps.

    Attributes:
        i: The earlier of the two timestamps that are exchanged, counted from 0.
        j: The later one.
        infinite: The interval for Pr[loss = ∞]: how likely a release is that the neighbour cannot produce.
        delta: The interval for δ(ε).
        unsettled: The share of losses that had not settled when the draws stopped; the upper end counts them in.
    """

    i: int
    j: int
    infinite: Interval
    delta: Interval
    unsettled: float

    @property
    def distance(self) -> int:
        """The number of timestamps between the two."""
        return self.j - self.i


@dataclass(frozen=True)
class Check:
    """One of the other instruments.

    Attributes:
        name: What it is called in the documentation.
        passed: Whether it found nothing; None if it could not be made.
        detail: What it looked at, or what it found, or why it could not be made.
    """

    name: str
    passed: bool | None
    detail: str


@dataclass(frozen=True)
class AuditResult:
    """What an audit measured, what it held that against, and what is wrong.

    Attributes:
        mechanism: The mechanism's name and parameters.
        window: The number of timestamps that may trade places.
        epsilon: Where δ(ε) was measured.
        delta: What it was held against.
        against: Where that comes from.
        confidence: How sure it is that nothing said here is wrong: all intervals and checks together.
        trials: How many plans were drawn for the intervals.
        steps: How many slots of each were looked at.
        seed: The draws are the same for the same seed.
        pairs: What was measured, by distance and place.
        checks: The other instruments.
        findings: What is wrong; empty if nothing is.
    """

    mechanism: str
    window: int
    epsilon: float
    delta: float
    against: str
    confidence: float
    trials: int
    steps: int
    seed: int
    pairs: tuple[PairResult, ...]
    checks: tuple[Check, ...]
    findings: tuple[str, ...]

    @property
    def violates(self) -> bool:
        """Whether something is proved wrong, at the stated confidence."""
        return bool(self.findings)

    @property
    def interval(self) -> Interval:
        """The interval for the largest δ(ε) of all pairs measured."""
        return max(pair.delta[0] for pair in self.pairs), max(pair.delta[1] for pair in self.pairs)

    @property
    def worst(self) -> tuple[PairResult, ...]:
        """At each distance, the pair with the largest lower end."""
        distances = sorted({pair.distance for pair in self.pairs})
        at = {d: [pair for pair in self.pairs if pair.distance == d] for d in distances}
        return tuple(max(at[d], key=lambda pair: pair.delta) for d in distances)

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        if self.findings:
            return "violates: " + "; ".join(self.findings)
        return f"no violation found at confidence {sure(self.confidence)}; that is evidence, not a proof"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as numbers, text, lists and dictionaries, fit for JSON."""
        plain = asdict(self)
        for name in ("pairs", "checks"):
            plain[name] = [{key: _plain(value) for key, value in part.items()} for part in plain[name]]
        plain["findings"] = list(self.findings)
        return {**plain, "violates": self.violates, "interval": list(self.interval), "verdict": self.verdict}

    def __str__(self) -> str:
        lines = [
            f"Audit of {self.mechanism}",
            f"held against δ = {self.delta:.6g} at ε = {self.epsilon:.6g} ({self.against})",
            f"{self.trials:,} plans of {self.steps:,} slots, seed {self.seed}, confidence {sure(self.confidence)}",
            "",
            f"{'distance':>8}  {'Pr[loss = ∞]':^19}  {'δ(ε)':^19}  worst at",
        ]
        for pair in self.worst:
            mark = "  above" if pair.delta[0] > self.delta else ""
            place = f"{f'{pair.i}, {pair.j}':<8}"
            lines.append(
                f"{pair.distance:>8}  {_ends(pair.infinite)}  {_ends(pair.delta)}  {place}{mark}".rstrip()
            )
        lines.append("")
        for check in self.checks:
            state = {True: "passed", False: "FAILED", None: "not made"}[check.passed]
            lines.append(f"{check.name:<12}{state:<10}{check.detail}")
        return "\n".join([*lines, "", self.verdict])


def sure(confidence: float) -> str:
    """Return a confidence with all its nines."""
    return f"{confidence:.12f}".rstrip("0").rstrip(".")


def _ends(interval: Interval) -> str:
    return f"{interval[0]:.6f} … {interval[1]:.6f}"


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value

"""Mechanisms that are wrong in one way each, for the audit to catch.

To add one, write a small subclass of an honest mechanism and put it into `SABOTEURS`, with the words that a
finding must contain: the audit has to see what is wrong, not just something.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from whenmask import RanSwitch, StaSwitch
from whenmask.guarantee import Guarantee
from whenmask.keystream import Keystream
from whenmask.mechanisms.pureswitch import PureSwitch
from whenmask.mechanisms.switch import SwitchDraw


class Words(Keystream):
    """A keystream that is spoilt on its way to the mechanism."""

    def __init__(self, words: Keystream) -> None:
        """Take the words to spoil."""
        self.inner = words


class BiasedWords(Words):
    """One word in eight is zero, which always chooses to stay."""

    def words(self, first: int, count: int):
        """Return the words asked for, some of them spoilt."""
        words = self.inner.words(first, count)
        return np.where(words % np.uint64(8) == 0, np.uint64(0), words)


class WornWords(Words):
    """The words begin again after 4096."""

    def words(self, first: int, count: int):
        """Return the words asked for, modulo 4096."""
        return self.inner.words(0, 4096)[np.arange(first, first + count) % 4096]


class SameWords(Words):
    """The secret and the context are forgotten: every series gets the same words."""

    def words(self, first: int, count: int):
        """Return words that depend on nothing but their place."""
        places = np.arange(first, first + count, dtype=np.uint64) + np.uint64(1)
        mixed = places * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))


class Biased(RanSwitch):
    """Draws from biased words."""

    def draw(self, words):
        """Start a release from spoilt words."""
        return SwitchDraw(self, BiasedWords(words))


class BiasedSta(StaSwitch):
    """Draws from biased words."""

    def draw(self, words):
        """Start a release from spoilt words."""
        return SwitchDraw(self, BiasedWords(words))


class Worn(RanSwitch):
    """Uses randomness again in the same series."""

    def draw(self, words):
        """Start a release from spoilt words."""
        return SwitchDraw(self, WornWords(words))


class Same(RanSwitch):
    """Uses the same randomness for every series, and even under every key."""

    def draw(self, words):
        """Start a release from spoilt words."""
        return SwitchDraw(self, SameWords(words))


class Unended(RanSwitch):
    """Skips the end rule: what is left at the end comes out as it lies."""

    def draw(self, words):
        """Start a release with another end."""
        return UnendedDraw(self, words)


class UnendedDraw(SwitchDraw):
    """Switches no more once the values end."""

    def finish(self):
        """Return the rest of the slots."""
        return self._carry


class Clamped(StaSwitch):
    """Clamps offsets to the end of the series in place of going on beyond it."""

    def draw(self, words):
        """Start a release with another end."""
        return ClampedDraw(self, words)


class ClampedDraw(SwitchDraw):
    """Switches the last slots among themselves."""

    def finish(self):
        """Return the rest of the slots."""
        work = self._carry.copy()
        offsets = np.empty(work.size, dtype=np.int32)
        self._kernels.choose(self._words.halves(self._slot, work.size), self._law, offsets)
        offsets = np.minimum(offsets, np.arange(work.size, dtype=np.int32)[::-1])
        self._kernels.step_all(work, offsets, self._law.reach, self._law.reach - self._slot)
        return work


class Losing(RanSwitch):
    """Loses the last value, and shows the first one twice."""

    def draw(self, words):
        """Start a release with another end."""
        return LosingDraw(self, words)


class LosingDraw(SwitchDraw):
    """Ends as it should, but for one value."""

    def finish(self):
        """Return the rest of the slots."""
        last = self._arrived - 1
        rest = super().finish()
        return np.where(rest == last, 0, rest)


class Dropping(RanSwitch):
    """Drops what is left at the end, so that plans are too short."""

    def draw(self, words):
        """Start a release with another end."""
        return DroppingDraw(self, words)


class DroppingDraw(SwitchDraw):
    """Has nothing left at the end."""

    def finish(self):
        """Return no slots."""
        return np.empty(0, dtype=np.int64)


class Narrow(RanSwitch):
    """Draws within a window that is one too small, and says the law of the right one."""

    def draw(self, words):
        """Start a release in which the largest offset counts as staying."""
        draw = SwitchDraw(self, words)
        draw._law = draw._law.of(self.stay + self.unit, self.unit, self.window, self.reach)
        return draw


class Wide(RanSwitch):
    """Draws within a window that is one too large, and says the law of the right one."""

    def draw(self, words):
        """Start a release in a wider window."""
        return WideDraw(RanSwitch.from_units(self.unit, window=self.window + 1), words)


class WideDraw(SwitchDraw):
    """Is one value ahead of those that have arrived."""

    def __init__(self, mechanism, words):
        """Start with a value ahead."""
        super().__init__(mechanism, words)
        self.push(1)

    def push_into(self, count, room):
        """Work elsewhere: there is no place for the value ahead."""
        released = super().push_into(count, np.empty(self._carry.size + count, dtype=np.int64))
        room[: released.size] = released
        return room[: released.size]

    def finish(self):
        """Return the rest of the slots."""
        last = self._arrived - 1
        rest = super().finish()
        return rest[rest < last]


@dataclass(frozen=True)
class Boastful:
    """An honest mechanism that states what it does not give. Known to the audit by the protocol alone."""

    inner: Any
    window: int
    guarantee: Guarantee

    def prefixes(self, trials, steps, *, key):
        """Draw plans."""
        return self.inner.prefixes(trials, steps, key=key)

    def log_probabilities(self, prefixes):
        """Say how likely they are."""
        return self.inner.log_probabilities(prefixes)


class Unnormalised(RanSwitch):
    """States probabilities that are a little too small each."""

    def log_probabilities(self, prefixes):
        """Return log-probabilities, less a thousandth for each slot."""
        return super().log_probabilities(prefixes) - 1e-3 * prefixes.shape[1]


class Forgetful(StaSwitch):
    """Ignores how long a value has waited, and says otherwise."""

    def draw(self, words):
        """Start a release without a limit to waiting."""
        return SwitchDraw(RanSwitch.from_units(self.unit, window=self.window), words)


class Careless(PureSwitch):
    """Draws with a weight that is a fifth too heavy, and says the law of the right one."""

    @property
    def heavier(self) -> PureSwitch:
        """What is drawn from."""
        return PureSwitch.from_parameters(theta=1.2 * self.theta, a=self.a, window=self.window)

    def draw(self, words):
        """Start a release with another weight."""
        return self.heavier.draw(words)

    def prefixes(self, trials, steps, *, key):
        """Draw plans with another weight."""
        return self.heavier.prefixes(trials, steps, key=key)


def heavy_boast() -> Boastful:
    """Return PureSwitch for a tenth more epsilon than it states, the same in all else."""
    return Boastful(PureSwitch(2.2, window=10), 10, PureSwitch(2, window=10).guarantee)


def narrow_boast() -> Boastful:
    """Return a mechanism for window 9 that states its guarantee for window 10."""
    inner = RanSwitch.from_probabilities(q=0.05, window=9)
    stated = RanSwitch.from_probabilities(q=0.05, window=10).guarantee
    return Boastful(inner, 10, stated)


def made(kind: Any) -> Any:
    """Return one of these mechanisms, in the parameters that all share."""
    return kind.from_probabilities(q=0.05, window=10)


# The mechanism, and the words.
SABOTEURS: dict[str, tuple[Any, str]] = {
    "biased generator": (made(Biased), "fit:"),
    "biased generator, StaSwitch": (made(BiasedSta), "fit:"),
    "keystream repeats in a series": (made(Worn), "stretches:"),
    "keystream forgets its context": (made(Same), "repeats:"),
    "no end rule": (made(Unended), "ends:"),
    "clamps at the end": (made(Clamped), "ends:"),
    "loses a value": (made(Losing), "do not release every value once"),
    "drops values at the end": (made(Dropping), "do not release every value once"),
    "window one too small": (made(Narrow), "fit:"),
    "window one too large": (made(Wide), "impossible:"),
    "window one too small, consistently": (narrow_boast(), "(its guarantee, proved)"),
    "wrong weight": (heavy_boast(), "(its guarantee, proved)"),
    "wrong weight, drawn only": (Careless(2, window=10), "fit:"),
    "law does not add up": (made(Unnormalised), "exact:"),
    "forgets how long values wait": (made(Forgetful), "impossible:"),
}

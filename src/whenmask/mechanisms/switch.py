"""What RanSwitch and StaSwitch share: at each slot, choose an offset, exchange two slots, release the first.

A word below `stay` chooses offset 0, and each further `unit` of words the next offset, so that the law is a law
of integers over 2^64: Pr[l] = unit / 2^64 for 1 ≤ l < window, and the rest is Pr[0]. StaSwitch differs only in
its `reach`: the number of slots that a value may wait in all.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from whenmask.errors import ParameterError, positive_number, whole_number
from whenmask.keystream import SPARE, Key, Keystream, Keystreams, Series, as_halves
from whenmask.law import WINDOW_HINT, Latency
from whenmask.mechanisms.calibration import smallest
from whenmask.mechanisms.temporal import Temporal
from whenmask.mechanisms.together import Way, draw_together
from whenmask.sampler import checked_room

ONE = 1 << 64
# Steps whose words a draw reads ahead.
AHEAD = 256
# Steps whose words a walk reads ahead: few at first, since many walks are short, and ever more in a long one.
FIRST_AHEAD, MOST_AHEAD = 32, 1024
# From this half of the keystream on stand the lower halves of the words of all steps, which hardly ever decide.
SPARE_HALF = 2 * SPARE
# A block of the keystream has two words, and a step reads half of one.
STEPS_PER_BLOCK = 4
# Placeholder values that a draw adds at a time at the end of a series, beside two windows.
TAIL = 64
# Slots that a walk keeps behind it before it drops them.
BEHIND = 1024


@dataclass(frozen=True, init=False, repr=False)
class Offsets(Temporal):
    """A mechanism that chooses offsets: a window, and the probability `unit` / 2^64 of each other slot in it."""

    window: int
    unit: int

    @classmethod
    def from_units(cls, unit: int, *, window: int) -> Self:
        """Make the mechanism from q in units of 2^-64, exactly."""
        window = whole_number("window", window, least=2, hint=WINDOW_HINT)
        unit = whole_number("unit", unit, least=1, hint="it is q in units of 2^-64")
        if unit * window > ONE:
            hint = f"a value must be at least as likely to stay as to go to any one other slot: q ≤ 1/{window}"
            raise ParameterError("`q` must be at most 1/window", f"q={unit / ONE:g}", hint)
        mechanism = cls.__new__(cls)
        object.__setattr__(mechanism, "window", window)
        object.__setattr__(mechanism, "unit", unit)
        return mechanism

    @classmethod
    def from_probabilities(cls, *, q: float | Fraction | Decimal, window: int) -> Self:
        """Make the mechanism from the probability q of each other slot in the window, 0 < q ≤ 1/window."""
        window = whole_number("window", window, least=2, hint=WINDOW_HINT)
        hint = f"it is the probability of each other slot in the window: above 0 and at most 1/{window}"
        if positive_number("q", q, hint=hint) * window > 1 + 1e-15:
            raise ParameterError("`q` must be at most 1/window", f"q={float(q):g}", hint)
        unit = min(max(round(Fraction(q) * ONE), 1), ONE // window)
        return cls.from_units(unit, window=window)

    def _calibrate(self, epsilon: float, window: int, promised: Callable[[int, int], float]) -> None:
        """Set the smallest unit whose promise, a falling function of unit and window, is at most epsilon."""
        window = whole_number("window", window, least=2, hint=WINDOW_HINT)
        unit = smallest(1, ONE // window, lambda unit: promised(unit, window) <= epsilon)
        if (least := promised(unit, window)) > epsilon:
            hint = f"the least that probabilities of 64 bits can give at this window is epsilon={least!r}"
            raise ParameterError("`epsilon` is too small for the window", f"epsilon={epsilon:g}", hint)
        object.__setattr__(self, "window", window)
        object.__setattr__(self, "unit", unit)

    @property
    def q(self) -> float:
        """The probability of each other slot in the window."""
        return self.unit / ONE

    @property
    def p(self) -> float:
        """The probability of offset 0."""
        return self.stay / ONE

    @property
    def stay(self) -> int:
        """The probability of offset 0, in units of 2^-64."""
        return ONE - (self.window - 1) * self.unit

    @property
    def parameters(self) -> dict[str, float]:
        """The probabilities in use."""
        return {"p": self.p, "q": self.q}

    @property
    def identity(self) -> str:
        """The mechanism's name and exact parameters."""
        return f"{type(self).__name__}(window={self.window}, unit={self.unit})"

    def __repr__(self) -> str:
        return f"{type(self).__name__}.from_units({self.unit}, window={self.window})"


class Switch(Offsets):
    """A mechanism that exchanges each slot with the one at the offset chosen."""

    @property
    @abstractmethod
    def reach(self) -> int:
        """How many slots a value may wait in all, −1 for no limit."""

    @property
    def latency(self) -> Latency:
        """A slot is decided when the last value that it may take has come."""
        return Latency.fixed(self.window - 1)

    def draw(self, words: Keystream) -> "SwitchDraw":
        """Start a release for many values at a time (compiled)."""
        return SwitchDraw(self, words)

    def walk(self, words: Keystream) -> "SwitchWalk":
        """Start a release for one value at a time (plain Python)."""
        return SwitchWalk(self, words)

    def draw_together(
        self, run: Keystreams, series: Sequence[Series], lengths: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Draw whole series at once; see `sampler.Together`."""
        from whenmask.kernels import switch

        law = switch.Law.of(self.stay, self.unit, self.window, self.reach)

        def attempt(
            words: NDArray[np.uint64], columns: NDArray[np.int64], out: NDArray[np.int64]
        ) -> NDArray[np.bool_]:
            work = np.empty(int(columns[0].max()) + self.window - 1, dtype=np.int64)
            done: NDArray[np.bool_] = switch.switch_series(as_halves(words), columns, law, work, out)
            return done

        return draw_together(
            run,
            series,
            lengths,
            Way(self.draw, attempt, self.window if self.reach >= 0 else 2 * self.window, STEPS_PER_BLOCK),
        )

    def prefixes(self, trials: int, steps: int, *, key: Key) -> NDArray[np.int64]:
        """Return the sources of the first `steps` slots of independent plans, for an audit.

        Each is drawn as any release is, under a context of its own, so that it is the sampler in use that is
        audited.
        """
        rows = np.empty((trials, steps), dtype=np.int64)
        run = Keystreams(key, self.identity, "audit")
        for trial in range(trials):
            rows[trial] = self.draw(run.of(trial)).push(steps + self.window - 1)
        return rows

    def log_probabilities(self, prefixes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the log-probability that a plan begins with the given sources, −∞ where none does."""
        from whenmask.kernels import switch

        # What the reach forbids goes to offset 0: for StaSwitch, one unit for each slot waited.
        forbidden = np.arange(self.window) if self.reach >= 0 else np.zeros(self.window, dtype=np.int64)
        moving = (self.window - 1 - forbidden) * self.q
        logs: NDArray[np.float64] = switch.log_probabilities(
            np.ascontiguousarray(prefixes), self.reach, np.log1p(-moving), math.log(self.q)
        )
        return logs


class SwitchDraw:
    """The compiled form: a stretch of slots at a time, carrying over the slots that are not decided yet."""

    def __init__(self, mechanism: Switch, words: Keystream) -> None:
        # Here, not above: only a batch is worth numba's 0.4 s.
        from whenmask.kernels import switch

        self._kernels = switch
        self._words = words
        self._window = mechanism.window
        self._law = switch.Law.of(mechanism.stay, mechanism.unit, mechanism.window, mechanism.reach)
        self._arrived = 0
        self._slot = 0
        # The sources of the slots from `_slot` on.
        self._carry = np.empty(0, dtype=np.int64)
        # Upper halves of the next words.
        self._ahead = np.empty(0, dtype=np.uint32)

    def push(self, count: int) -> NDArray[np.int64]:
        """Take `count` more values; return the sources of the slots that are decided now."""
        return self.push_into(count, np.empty(self._carry.size + count, dtype=np.int64))

    def push_into(self, count: int, room: NDArray[np.int64]) -> NDArray[np.int64]:
        """Take `count` more values; put the sources of the slots that are decided now into `room`."""
        carried = self._carry.size
        work = checked_room(room, carried + count)
        work[:carried] = self._carry
        if carried < self._window - 1:
            self._kernels.lay(work[carried : self._window - 1], self._arrived)
        self._arrived += count
        due = max(0, work.size - (self._window - 1))
        self._switch(work, due)
        self._carry = work[due:].copy()
        return work[:due]

    def _switch(self, work: NDArray[np.int64], due: int) -> None:
        """Decide the next slots; read the lower halves of words only where a stretch needs them."""
        switch = self._kernels.switch
        halves, spares = self._upper_halves(due), np.empty(0, dtype=np.uint32)
        done = 0
        while done < due:
            end = done + self._kernels.BLOCK if spares.size else due
            taken = switch(halves[done:end], spares, work[done:], self._law, self._slot)
            done += taken
            self._slot += taken
            spares = self._words.halves(SPARE_HALF + self._slot, self._kernels.BLOCK) if not taken else spares[:0]

    def _upper_halves(self, count: int) -> NDArray[np.uint32]:
        """Return halves for the next steps, and read ahead: words are cheap, starting to read them is not."""
        if self._ahead.size < count:
            self._ahead = self._words.halves(self._slot, count + AHEAD)
        halves, self._ahead = self._ahead[:count], self._ahead[count:]
        return halves

    def finish(self) -> NDArray[np.int64]:
        """Go on with placeholders until every value is out, then drop the placeholders and close up."""
        length, owed = self._arrived, self._arrived - self._slot
        pieces = [np.empty(0, dtype=np.int64)]
        while owed:
            piece = self.push(2 * self._window + TAIL)
            pieces.append(piece[piece < length])
            owed -= pieces[-1].size
        return np.concatenate(pieces)


class SwitchWalk:
    """The plain form: one slot at a time."""

    memory: int | None = None

    def __init__(self, mechanism: Switch, words: Keystream) -> None:
        self._words = words
        self._wait = mechanism.window - 1
        self._reach = mechanism.reach
        self._stay = np.uint64(mechanism.stay)
        self._unit = np.uint64(mechanism.unit)
        self._arrived = 0
        # The sources of the slots that are not decided, behind `_head` slots that are gone.
        self._work: list[int] = []
        self._head = 0
        # Offsets of the next slots, the last one first, and how many are read next.
        self._ahead: list[int] = []
        self._reading = FIRST_AHEAD

    def push(self) -> tuple[int, ...]:
        """Take one more value; return the source of the slot that is decided now, if any."""
        # Written for CPython: one attribute read each, no calls; this is the cost of a stream.
        work, arrived = self._work, self._arrived
        work.append(arrived)
        self._arrived = arrived + 1
        slot = arrived - self._wait
        if slot < 0:
            return ()
        ahead = self._ahead
        offset = ahead.pop() if ahead else self._read_ahead(slot)
        head = self._head
        self._head = head + 1
        released = work[head]
        if offset and not 0 <= self._reach < offset + slot - released:
            waiting, released = released, work[head + offset]
            work[head + offset] = waiting
        return (released,)

    def _read_ahead(self, slot: int) -> int:
        """Turn the next words into offsets, the last one first, and return the first; drop slots that are gone."""
        if self._head > BEHIND:
            del self._work[: self._head]
            self._head = 0
        count, self._reading = self._reading, min(2 * self._reading, MOST_AHEAD)
        upper = self._words.halves(slot, count).astype(np.uint64)
        words = upper << np.uint64(32) | self._words.halves(SPARE_HALF + slot, count)
        offsets = np.where(words < self._stay, 0, 1 + (words - self._stay) // self._unit)
        self._ahead = offsets[::-1].tolist()
        return self._ahead.pop()

    def finish(self) -> list[int]:
        """Go on with placeholders until every value is out, then drop the placeholders and close up."""
        length, owed = self._arrived, len(self._work) - self._head
        released: list[int] = []
        while len(released) < owed:
            released += [source for source in self.push() if source < length]
        return released

    def state(self) -> tuple[int, list[int]]:
        """Return what `restore` needs."""
        return self._arrived, self._work[self._head :]

    def restore(self, state: Any) -> None:
        """Go on from a state."""
        self._arrived, work = state
        self._work = list(work)
        self._head = 0
        self._ahead = []
        self._reading = FIRST_AHEAD

"""What a column of values tells about the order of its rows, counted while the rows pass by.

A column keeps its last rows, as many as the window has, and counts: nothing here grows with the table, and no
finding shows what is in a cell.
"""

import math
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from whenmask.columns import holds_numbers, is_text, text_numbers, time_numbers
from whenmask.finding import Finding, Severity

Flags: TypeAlias = NDArray[np.bool_]

# Rows of a stretch that are looked at closely: patterns of text, and the same times in other series.
SAMPLE = 1 << 12
# From these shares on, changes in one direction give the order away for good, or to a good part.
ONE_WAY = 0.95
MOSTLY = 0.8
# The chance of taking fair ups and downs for a direction.
ERROR = 1e-6
# So many changes without one in the other direction are worth a word, even if they may be chance.
FEW = 8

_ISO = r"\d{4}-\d{1,2}-\d{1,2}"
_CLOCK = r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[AaPp]\.?[Mm]\.?)?"
_ZONE = r"( ?(Z|UTC|[+-]\d{2}:?(\d{2})?))?"
_DAY = r"(\d{4}[/.]\d{1,2}[/.]\d{1,2}|\d{1,2}[/.]\d{1,2}[/.]\d{4}|\d{1,2}/\d{1,2}/\d{2})"
_COMPACT = r"(19|20)\d{2}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(T?\d{4}(\d{2})?)?"
_MONTH = r"(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_NAMED = rf"([A-Z][a-z]+,? )?(\d{{1,2}}[ -]{_MONTH}[ -,]+\d{{2,4}}|{_MONTH}\.? \d{{1,2}},? \d{{4}})"
TIME_TEXT = rf"^\s*(({_ISO}|{_DAY}|{_NAMED})([T ,]+{_CLOCK})?|{_CLOCK}|{_COMPACT}){_ZONE}\s*$"
ROW_ID_TEXT = r"^\{?[0-9A-Fa-f]{8}-([0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}\}?$"


class Others:
    """Where the first series stands at the same times, to find columns that are the same in every series.

    Attributes:
        here: Places within the stretch that are compared.
        there: Their places within the sample of the first series.
        sampled: How many rows of the stretch begin the sample; 0 if the sample stands.
    """

    def __init__(self) -> None:
        self._times: NDArray[Any] | None = None
        self._order = np.empty(0, dtype=np.int64)
        self.sampled = 0
        self.here = self.there = np.empty(0, dtype=np.int64)

    def extend(self, times: NDArray[Any], runs: NDArray[np.int64]) -> None:
        """Look for the times of further rows in the sample."""
        self.sampled = 0
        if self._times is None:
            self.sampled = int(np.count_nonzero(runs == runs[0]))
            self._times = times[: self.sampled]
        places = np.searchsorted(self._times, times).clip(max=self._times.size - 1)
        found = (self._times[places] == times) & (runs > 0)
        self.here = np.flatnonzero(found)
        self.there = places[self.here]


@dataclass
class Direction:
    """Ups, downs and ties among values of one series that stand a number of rows apart."""

    ups: int = 0
    downs: int = 0
    ties: int = 0

    def count(self, earlier: NDArray[Any], later: NDArray[Any], pairs: Flags) -> None:
        """Count further pairs."""
        ups = int(np.count_nonzero((later > earlier) & pairs))
        downs = int(np.count_nonzero((later < earlier) & pairs))
        ties = int(np.count_nonzero(pairs)) - ups - downs
        self.ups, self.downs, self.ties = self.ups + ups, self.downs + downs, self.ties + ties

    @property
    def changes(self) -> int:
        """The pairs that differ."""
        return self.ups + self.downs

    @property
    def pairs(self) -> int:
        """All pairs."""
        return self.changes + self.ties

    @property
    def share(self) -> float:
        """The share of changes in the direction that most go; a half if there are none."""
        return max(self.ups, self.downs) / self.changes if self.changes else 0.5

    def sure(self, apart: int = 1) -> bool:
        """Return whether fair ups and downs would almost never be so one-sided.

        Pairs that overlap say less: where they stand several rows apart, only one in as many is counted.
        """
        return _far_from(0.5, self.share, self.changes / apart)

    def told(self) -> str:
        """Return the counts in words."""
        word = "rises" if self.ups >= self.downs else "falls"
        return f"{word} in {max(self.ups, self.downs):,} of {self.changes:,} changes ({_percent(self.share)})"


@dataclass
class Column:
    """What one column of values tells about the order of its rows."""

    name: str
    kind: pa.DataType
    window: int | None
    # The last rows: their values and the number of their series.
    tail: pa.Array | None = None
    tail_runs: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    near: Direction = field(default_factory=Direction)
    far: Direction = field(default_factory=Direction)
    # Pairs of neighbouring differences, and those that are equal and not zero.
    steps: int = 0
    even_steps: int = 0
    # Rows in the run of equal values that is open, in the longest one, and in all as long as the window.
    streak: int = 0
    longest: int = 0
    frozen: int = 0
    # Texts looked at, those that look like times, and those that look like row ids.
    texts: int = 0
    time_texts: int = 0
    row_ids: int = 0
    # A sample of the first series, rows of others at the same times, and those equal there and a row further on.
    sample: pa.Array | None = None
    compared: int = 0
    equal_there: int = 0
    equal_elsewhere: int = 0
    unread: bool = False
    # Whether text is numbers as they were written, once that is known.
    numeric: bool | None = None

    def extend(self, values: pa.Array, runs: NDArray[np.int64], others: Others) -> None:
        """Look at further rows."""
        values = _comparable(values)
        if values is None:
            self.unread = True
            return
        if is_text(values.type):
            self._match(values.slice(0, SAMPLE).drop_null())
            values = self._ordered_text(values)
        held = 0 if self.tail is None else len(self.tail)
        joined = values if self.tail is None else pa.concat_arrays([self.tail, values])
        runs = np.concatenate([self.tail_runs, runs])
        numbers, valid = _numbers(joined)
        far = (self.window or 2) - 1
        self._count(self.near, numbers, valid, runs, (1, held))
        if far > 1:
            self._count(self.far, numbers, valid, runs, (far, held))
        if not _is_ranked(values.type):
            self._count_steps(numbers, valid, runs, held)
        self._count_runs(numbers, valid, runs, held)
        self._compare(values, others)
        keep = max(0, len(joined) - max(far, 2))
        self.tail, self.tail_runs = joined.slice(keep), runs[keep:]

    def _count(
        self,
        direction: Direction,
        numbers: NDArray[Any],
        valid: Flags,
        runs: NDArray[np.int64],
        lag: tuple[int, int],
    ) -> None:
        apart, held = lag
        start = max(held - apart, 0)  # earlier pairs have been counted
        later, earlier = slice(start + apart, None), slice(start, max(numbers.size - apart, 0))
        pairs = valid[later] & valid[earlier] & (runs[later] == runs[earlier])
        direction.count(numbers[earlier], numbers[later], pairs)

    def _count_steps(self, numbers: NDArray[Any], valid: Flags, runs: NDArray[np.int64], held: int) -> None:
        if numbers.size < 3:
            return
        start = max(held - 2, 0)
        numbers, valid, runs = numbers[start:], valid[start:], runs[start:]
        with np.errstate(all="ignore"):
            steps = numbers[1:] - numbers[:-1]
        triples = valid[2:] & valid[1:-1] & valid[:-2] & (runs[2:] == runs[:-2])
        self.steps += int(np.count_nonzero(triples))
        # Decimals and fractions of seconds are not exact as floats.
        slack = 1e-9 * np.abs(numbers[2:]) if numbers.dtype.kind == "f" else 0
        with np.errstate(all="ignore"):
            even = (np.abs(steps[1:] - steps[:-1]) <= slack) if np.any(slack) else steps[1:] == steps[:-1]
        self.even_steps += int(np.count_nonzero(triples & even & (steps[1:] != 0)))

    def _count_runs(self, numbers: NDArray[Any], valid: Flags, runs: NDArray[np.int64], held: int) -> None:
        same = (numbers[1:] == numbers[:-1]) & (valid[1:] == valid[:-1]) & (runs[1:] == runs[:-1])
        breaks = np.flatnonzero(~(same[held - 1 :] if held else np.append(False, same)))
        rows = numbers.size - held
        if not breaks.size:
            self.streak += rows
            return
        lengths = np.append(self.streak + breaks[0], np.diff(breaks))
        self.longest = max(self.longest, int(lengths.max()))
        self.frozen += int(lengths[lengths >= (self.window or math.inf)].sum())
        self.streak = rows - int(breaks[-1])

    def _ordered_text(self, texts: pa.Array) -> pa.Array:
        """Return text as it sorts: by its numbers, if that is what it holds."""
        if self.numeric is None and texts.null_count < len(texts):
            self.numeric = holds_numbers(texts.slice(0, SAMPLE))
            if not self.numeric and self.tail is not None:
                self.tail = self.tail.cast(texts.type)  # only nulls have come until now
        return texts if self.numeric is False else text_numbers(texts)

    def _match(self, texts: pa.Array) -> None:
        self.texts += len(texts)
        for name, pattern in (("time_texts", TIME_TEXT), ("row_ids", ROW_ID_TEXT)):
            hits = pc.sum(pc.match_substring_regex(texts, pattern)).as_py() or 0
            setattr(self, name, getattr(self, name) + hits)

    def _compare(self, values: pa.Array, others: Others) -> None:
        if others.sampled:
            self.sample = values.slice(0, others.sampled)
        if self.sample is None or not others.here.size:
            return
        here = values.take(pa.array(others.here))
        there = pc.equal(here, self.sample.take(pa.array(others.there)))
        elsewhere = pc.equal(here, self.sample.take(pa.array((others.there + 1) % len(self.sample))))
        self.compared += len(there) - there.null_count
        self.equal_there += pc.sum(there).as_py() or 0
        self.equal_elsewhere += pc.sum(elsewhere).as_py() or 0

    def findings(self) -> list[Finding]:
        """Return what is to know of the column."""
        if self.unread:
            what = "its type has no order"
            meaning = "Columns of this type are not looked into; they may hold times or counters all the same."
            return [Finding("unread", self.name, "note", what, meaning, "Look yourself at what it holds.")]
        telling = self._clock() or self._row_id() or self._counter() or self._shared() or self._trend()
        return [finding for finding in (telling, self._equal()) if finding is not None]

    def _often(self) -> bool:
        """Return whether the column changes at least once in two windows (of 20, if not known), on average."""
        return 2 * self.near.changes * (self.window or 20) >= self.near.pairs

    def _clock(self) -> Finding | None:
        temporal = pa.types.is_temporal(self.kind) and not pa.types.is_duration(self.kind)
        text = bool(self.texts) and self.time_texts >= ONE_WAY * self.texts
        if not (temporal or text) or not self.near.changes:
            return None
        what = (
            f"{_percent(self.time_texts / self.texts)} of the texts looked at are dates or times"
            if text
            else f"it holds dates or times (type {self.kind})"
        )
        return Finding(
            "clock text" if text else "timestamp",
            self.name,
            "useless" if self._often() else "warning",
            f"{what}, and {self.near.changes:,} of {self.near.pairs:,} neighbouring rows differ",
            "It moves with its row and says when the row was recorded.",
            "Leave it out (--leave-out), or keep of it only what does not tell the moment.",
        )

    def _row_id(self) -> Finding | None:
        if not self.texts or self.row_ids < ONE_WAY * self.texts or not self.near.changes:
            return None
        return Finding(
            "row id",
            self.name,
            "useless",
            f"{_percent(self.row_ids / self.texts)} of the texts looked at are unique identifiers (UUID)",
            "Whoever knows the row by its identifier, or has it in another table, knows its time; some tell it.",
            "Leave it out (--leave-out).",
        )

    def _counter(self) -> Finding | None:
        near, severity = self.near, self._one_sided(self.near)
        if severity is None:
            return None
        if severity == "useless" and self.steps and self.even_steps >= ONE_WAY * self.steps:
            what = f"it {near.told()}, by the same step in {_percent(self.even_steps / self.steps)}"
            meaning = "It numbers the rows in order of time, so every row can be put back into its place."
            return Finding("sequence", self.name, severity, what, meaning, "Leave it out (--leave-out).")
        meaning = (
            "The order of such values is their order in time, so it can be read off and undoes the release."
            if severity == "useless"
            else "Where such values differ, their order in time can be guessed better than by chance."
        )
        advice = (
            "If it is a meter reading that adds up, release the differences between readings; if it is a clock or "
            "a row number, leave it out (--leave-out)."
        )
        return Finding("counter", self.name, severity, f"it {near.told()}", meaning, advice)

    def _one_sided(self, direction: Direction, apart: int = 1) -> Severity | None:
        """Return how bad the share of changes in one direction is."""
        if not direction.sure(apart):
            return "warning" if apart == 1 and direction.changes >= FEW and direction.share == 1 else None
        if direction.share >= ONE_WAY:
            return "useless" if self._often() else "warning"
        return "warning" if direction.share >= MOSTLY else None

    def _shared(self) -> Finding | None:
        same, chance = (equal / max(self.compared, 1) for equal in (self.equal_there, self.equal_elsewhere))
        if same < ONE_WAY or not _far_from(chance, same, self.compared):
            return None
        what = (
            f"{_percent(same)} of {self.compared:,} values looked at equal that of the first series at the same "
            f"time, but {_percent(chance)} that of its next row"
        )
        meaning = "What is the same everywhere at one time, such as the weather or a price, tells the time."
        advice = "Leave it out, or let it stay with its slot (`keep`): what everybody knows need not be hidden."
        return Finding("shared", self.name, "useless" if chance <= 0.5 else "warning", what, meaning, advice)

    def _trend(self) -> Finding | None:
        apart = (self.window or 2) - 1
        severity = self._one_sided(self.far, apart) if apart > 1 else None
        if severity is None:
            return None
        return Finding(
            "trend",
            self.name,
            severity,
            f"over {apart:,} rows it {self.far.told()}",
            "Within a window the values follow time, so each can be put back roughly where it came from.",
            "Release what is left after taking out the trend, or choose a smaller window.",
        )

    def _equal(self) -> Finding | None:
        ties, pairs = self.near.ties, self.near.pairs
        if not pairs or ties < 0.5 * pairs:
            return None
        if ties == pairs:
            what = f"all of {pairs:,} neighbouring values are equal"
            meaning = (
                "It is the same for the whole of a series, so that a release neither changes it nor hides it."
            )
            return Finding(
                "equal", self.name, "note", what, meaning, "It could as well be named in `by` or `keep`."
            )
        long_enough = self.window is not None and self.streak >= self.window
        frozen = self.frozen + (self.streak if long_enough else 0)
        what = f"{_percent(ties / pairs)} of {pairs:,} neighbouring values are equal"
        what += f", and the longest run of equal ones has {max(self.longest, self.streak):,} rows"
        if self.window is not None:
            what += f"; {frozen:,} rows are in runs of at least the window of {self.window:,}"
        return Finding(
            "equal",
            self.name,
            "note" if 2 * frozen < pairs else "warning",
            what,
            "Equal values that trade places change nothing. Inside a run longer than the window there is nothing "
            "to hide in: what is released there is what was there.",
            "Read the guarantee with this in mind; a wider window covers longer runs.",
        )


def _far_from(expected: float, share: float, count: float) -> bool:
    """Return whether a share in so many cases would almost never be found by chance (Hoeffding's inequality)."""
    return 2 * math.exp(-2 * count * (share - expected) ** 2) <= ERROR


def _percent(share: float) -> str:
    """Return a share as a percentage that is 100% only if all of it is meant."""
    return "100%" if share == 1 else f"{min(100 * share, 99.9):.1f}%"


def _is_ranked(kind: pa.DataType) -> bool:
    """Return whether values of a type are compared by their rank: how far apart they are means nothing."""
    return bool(pa.types.is_large_string(kind) or pa.types.is_large_binary(kind))


def _comparable(values: pa.Array) -> pa.Array | None:
    """Return the values in a type that has an order, or None."""
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    kind = _ordered(values.type)
    return None if kind is None else values.cast(kind)


def _ordered(kind: pa.DataType) -> pa.DataType | None:
    """Return the type in which values of a type are put in order, or None."""
    types = pa.types
    simple = types.is_integer(kind) or types.is_floating(kind) or types.is_temporal(kind)
    if types.is_decimal(kind) or types.is_float16(kind) or types.is_null(kind):
        return pa.float64()
    if types.is_boolean(kind):
        return pa.uint8()
    if is_text(kind):
        return pa.large_string()
    if simple and not types.is_interval(kind):
        return kind
    binary = types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    return pa.large_binary() if binary or types.is_binary_view(kind) else None


def _numbers(values: pa.Array) -> tuple[NDArray[Any], Flags]:
    """Return numbers that sort as the values do, and which rows have one."""
    valid: Flags = pc.invert(values.is_null(nan_is_null=True)).to_numpy(zero_copy_only=False)
    there = values.filter(pa.array(valid))
    if _is_ranked(values.type):
        ranks = pc.rank(there, tiebreaker="dense").to_numpy().astype(np.int64)
    else:
        ranks = time_numbers(there)
    numbers = np.zeros(len(values), dtype=ranks.dtype)
    numbers[valid] = ranks
    return numbers, valid

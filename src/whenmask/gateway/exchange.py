"""Readings in, releases out: a batch of messages is taken in one transaction, or not at all.

What is held in memory is a copy of what the state holds. So whatever goes wrong on the way to the commit, the copy
is thrown away, nothing has been acknowledged or sent, and the same messages can be taken again: they are given the
same places, and places alone decide what is drawn.
"""

import time
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from whenmask.gateway.reading import Reader, RefusedError, compose, stored_time
from whenmask.gateway.series import BETWEEN, Course, Progress
from whenmask.gateway.state import State, damaged
from whenmask.keystream import Series

# What the totals of a state begin with: how much there is, before what happened.
GAUGES = ("series", "pending", "outbox")
# Series whose walks are held in memory; the others are walked again from their checkpoints when they are due.
MOST_HELD = 4096
# Readings of a series among which one that comes again is looked for.
REMEMBERED = 64
# Outgoing messages held in memory; the others wait in the state.
MOST_WAITING = 10_000


class Outgoing(msgspec.Struct, array_like=True):
    """A message to be sent, as it lies in the outbox."""

    topic: str
    payload: bytes


@dataclass(frozen=True)
class Inlet:
    """Where readings of one topic go.

    Attributes:
        reader: Takes them apart.
        topic: The topic, if there are topics; it is the first part of the name of a series.
        target: The topic of their releases.
        patience: After how many silent seconds a series is ended; 0 for never.
    """

    reader: Reader
    topic: str = ""
    target: str = ""
    patience: float = 0.0

    def series(self, ids: tuple[str | int, ...]) -> Series:
        """Return the name of a series: its only part, or all of them."""
        parts = (self.topic, *ids) if self.topic else ids
        return parts if len(parts) > 1 else parts[0] if parts else None


@dataclass(frozen=True)
class Limits:
    """How much is taken on.

    Attributes:
        series: How many series.
        remembered: Among how many readings of a series one that comes again is looked for.
        dead_letters: The topic that gets the reasons of refusals, if any.
    """

    series: int = 10_000
    remembered: int = REMEMBERED
    dead_letters: str | None = None


@dataclass
class Batch:
    """What a transaction is about to write."""

    readings: dict[tuple[int, int], bytes] = field(default_factory=dict)
    touched: dict[int, Progress] = field(default_factory=dict)
    outgoing: list[Outgoing] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    added: int = 0


class Exchange:
    """Takes readings and holds what is to be sent.

    Attributes:
        series: How many series there are.
        pending: How many slots have not left.
        outbox: How many messages are not acknowledged.
        counts: What happened since the start.
        active: When each series was last heard of.
    """

    def __init__(self, course: Course, state: State, limits: Limits) -> None:
        self._course, self._state, self._limits = course, state, limits
        self._held: OrderedDict[Series, Progress] = OrderedDict()
        self._encode, self._decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(Outgoing).decode
        self._waiting: deque[tuple[int, Outgoing]] = deque()
        # Up to which number messages of the outbox were put into `_waiting`.
        self._loaded = 0
        self._before = state.totals()
        self.series, self.pending, self.outbox = (self._before.pop(name) for name in GAUGES)
        self.counts: Counter[str] = Counter()
        self.active: dict[Series, float] = {}

    def take(self, messages: Iterable[tuple[Inlet, bytes]], sent: Sequence[int] = ()) -> None:
        """Take messages, each with its inlet, and forget outgoing ones that were acknowledged.

        Raises:
            NoRoomError: Nothing was taken or forgotten; it can be tried again.
            StateError: The state is damaged.
        """
        batch = Batch()
        try:
            with self._state.transaction():
                for inlet, payload in messages:
                    self._accept(batch, inlet, payload)
                self._state.remove_outgoing(sent)
                first = self._write(batch)
        except BaseException:
            self._held.clear()
            raise
        self.outbox -= len(sent)
        self._settle(batch, first)

    def end(self, names: Iterable[tuple[Inlet, Series]]) -> None:
        """End series, so that all that waits is released; what comes later begins them anew."""
        batch = Batch()
        try:
            with self._state.transaction():
                for inlet, name in names:
                    self._end(batch, inlet, name)
                first = self._write(batch)
        except BaseException:
            self._held.clear()
            raise
        self._settle(batch, first)

    def next_outgoing(self) -> tuple[int, Outgoing] | None:
        """Return the next message to be sent and its number, or None if there is none."""
        waiting = self._waiting
        if not waiting and self._loaded < self._state.newest_outgoing:
            rows = self._state.outgoing(self._loaded, MOST_WAITING)
            waiting.extend((number, self._decode(content)) for number, content in rows)
            self._loaded = rows[-1][0] if rows else self._state.newest_outgoing
        return waiting.popleft() if waiting else None

    def send_again(self) -> None:
        """Begin anew with the oldest message that was not acknowledged."""
        self._waiting.clear()
        self._loaded = 0

    def totals(self) -> dict[str, int]:
        """Return what happened since the state was made."""
        return dict(Counter(self._before) + self.counts)

    def names(self) -> list[Series]:
        """Return the names of all series."""
        return [_named(msgspec.msgpack.decode(encoded)) for encoded in self._state.names()]

    def _accept(self, batch: Batch, inlet: Inlet, payload: bytes) -> None:
        """Take one message."""
        batch.counts["inputs"] += 1
        try:
            reading = inlet.reader.read(payload)
            progress = self._progress(batch, inlet.series(reading.ids))
            stored = reading.encode()
            if progress.newest is not None and reading.time <= progress.newest:
                if self._is_repeated(batch, progress, reading.time, stored):
                    batch.counts["duplicates"] += 1
                    return
                inlet.reader.admit_late()
                batch.counts["late"] += 1
            else:
                progress.newest = reading.time
        except RefusedError as error:
            self._refuse(batch, inlet.topic, str(error))
            return
        batch.readings[progress.number, progress.arrived] = stored
        batch.touched[progress.number] = progress
        leaving = progress.advance()
        if leaving:
            self._release(batch, inlet, progress, leaving)

    def _refuse(self, batch: Batch, topic: str, reason: str) -> None:
        """Count a message that is refused, and say why to those who want to know."""
        batch.counts["refused " + reason] += 1
        if self._limits.dead_letters is not None:
            letter = msgspec.json.encode({"reason": reason, "topic": topic})
            batch.outgoing.append(Outgoing(self._limits.dead_letters, letter))

    def _is_repeated(self, batch: Batch, progress: Progress, moment: int, stored: bytes) -> bool:
        """Return whether a reading came before; refuse another one of the same time."""
        last = progress.arrived - 1
        for place in range(last, max(-1, last - self._limits.remembered), -1):
            known = self._stored(batch, progress.number, place)
            if known is None:
                return False
            if known == stored:
                return True
            if stored_time(known) == moment:
                raise RefusedError("conflict")
        return False

    def _release(self, batch: Batch, inlet: Inlet, progress: Progress, leaving: Iterable[tuple[int, int]]) -> None:
        """Compose the messages of slots that leave."""
        for slot, source in leaving:
            staying = self._needed(batch, progress.number, slot)
            moving = staying if source == slot else None
            if source >= 0 and moving is None:
                moving = self._needed(batch, progress.number, source)
            batch.outgoing.append(Outgoing(inlet.target, compose(staying, moving, inlet.reader.empty)))
            batch.counts["released"] += 1

    def _stored(self, batch: Batch, series: int, place: int) -> bytes | None:
        return batch.readings.get((series, place)) or self._state.reading(series, place)

    def _needed(self, batch: Batch, series: int, place: int) -> bytes:
        stored = self._stored(batch, series, place)
        if stored is None:
            raise damaged()
        return stored

    def _progress(self, batch: Batch, name: Series) -> Progress:
        """Return how far a series is; take it on if it is new."""
        progress = self._held.get(name)
        if progress is not None:
            return progress
        encoded = self._encode(name)
        found = self._state.find_series(encoded)
        if found is None:
            if self.series + batch.added >= self._limits.series:
                raise RefusedError("too-many-series")
            found = self._state.add_series(encoded), 0, 0, 0
            batch.added += 1
        number, episode, arrived, shown = found
        progress = Progress(self._course, number, name, episode)
        checkpoint = self._state.checkpoint(number)
        if checkpoint is not None:
            progress.restore(checkpoint)
        latest = [stored_time(stored) for stored in self._state.latest_readings(number, arrived - progress.saved)]
        progress.walk_to(arrived)
        if progress.newest is not None:
            latest.append(progress.newest)
        progress.newest = max(latest, default=None)
        if progress.shown != shown:
            raise damaged()
        self._held[name] = progress
        return progress

    def _end(self, batch: Batch, inlet: Inlet, name: Series) -> None:
        """Release all that waits of a series, and begin it anew."""
        progress = self._progress(batch, name)
        if not progress.arrived:
            return
        self._release(batch, inlet, progress, progress.end())
        batch.counts["ended"] += 1
        anew = Progress(self._course, progress.number, name, progress.episode + 1)
        anew.newest = progress.newest
        self._held[name] = batch.touched[anew.number] = anew
        self._state.save_checkpoint(anew.number, anew.checkpoint(), progress.arrived)

    def _write(self, batch: Batch) -> int:
        """Write what a transaction is to change; return the number of the first outgoing message."""
        state, touched = self._state, batch.touched.values()
        state.add_readings(batch.readings)
        for progress in touched:
            if progress.arrived - progress.saved >= BETWEEN:
                kept = max(0, progress.arrived - self._limits.remembered)
                content = progress.checkpoint()
                state.save_checkpoint(progress.number, content, min(progress.needed, kept))
            batch.counts["overdue"] += progress.overdue
            progress.overdue = 0
        state.save_heads((one.episode, one.arrived, one.shown, one.number) for one in touched)
        state.count(batch.counts.items())
        return state.add_outgoing(self._encode(message) for message in batch.outgoing)

    def _settle(self, batch: Batch, first: int) -> None:
        """Take note of what was committed."""
        self.series += batch.added
        self.outbox += len(batch.outgoing)
        self.pending += len(batch.readings) - batch.counts["released"]
        self.counts.update(batch.counts)
        now = time.monotonic()
        for progress in batch.touched.values():
            if progress.arrived:
                self.active[progress.name] = now
            else:
                self.active.pop(progress.name, None)
        waiting = self._waiting
        if self._loaded == first - 1 and len(waiting) + len(batch.outgoing) <= MOST_WAITING:
            waiting.extend(enumerate(batch.outgoing, first))
            self._loaded += len(batch.outgoing)
        while len(self._held) > MOST_HELD:
            self._held.popitem(last=False)


def _named(decoded: list[str | int] | str | int | None) -> Series:
    """Return the name of a series as it was encoded."""
    return tuple(decoded) if isinstance(decoded, list) else decoded

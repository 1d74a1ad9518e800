"""What a message says: the time and id of a slot, and the values that move, as the very bytes they came in.

Values are cut out of the message and never decoded, so that 0.10 stays 0.10 and no digit of a large number is
lost. A message that says nothing usable is refused with a reason; the reasons are all here.
"""

import re
import struct
import time
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

import msgspec

from whenmask.gateway.configuration import Fields

# Why a message is refused. The words are part of the interface: counters and dead letters carry them.
REASONS = {
    "too-long": "the message is longer than `max_bytes`",
    "not-json": "the message is not one JSON object in UTF-8",
    "unknown-field": "there is a field that has no part, and `rest` is 'refuse'",
    "missing-field": "a field that must be there is missing",
    "bad-time": "the time is not of the `time_format`",
    "bad-id": "an id is neither a text nor a whole number of 64 bits",
    "ahead": "the time is further ahead of the gateway's clock than `max_ahead_seconds`",
    "late": "the time is before the last of its series, and `late` is 'refuse'",
    "conflict": "another reading of the series has the same time: two devices with one id, or a clock set back",
    "too-many-series": "the series is new, and there are `max_series` already",
}
NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
FRACTION = re.compile(r"[.,](\d+)")
HEAD = struct.Struct("<qI")
EARLIEST, LATEST = -(1 << 63), (1 << 63) - 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A clock that shows an earlier moment than 2025 has not been set yet, and judges nobody.
CLOCK_SET = 1_735_689_600 * 10**9


class RefusedError(Exception):
    """A message is refused; the only argument is one of `REASONS`."""


class Reading(NamedTuple):
    """A message, taken apart.

    Attributes:
        time: Nanoseconds from 1970 on.
        ids: What names the series within its topic.
        slot: The fields that stay, as JSON without braces.
        moving: The fields that move, as JSON without braces.
    """

    time: int
    ids: tuple[str | int, ...]
    slot: bytes
    moving: bytes

    def encode(self) -> bytes:
        """Return the reading as it is stored."""
        return HEAD.pack(self.time, len(self.slot)) + self.slot + self.moving


def stored_time(stored: bytes) -> int:
    """Return the time of a stored reading."""
    nanoseconds: int = HEAD.unpack_from(stored)[0]
    return nanoseconds


def compose(slot: bytes, source: bytes | None, empty: bytes) -> bytes:
    """Return the message of a slot: the fields that stay of one stored reading, those that move of another.

    Args:
        slot: The stored reading of the slot.
        source: The stored reading whose values the slot shows, if any.
        empty: What an empty slot shows.
    """
    start = HEAD.size
    staying = slot[start : start + HEAD.unpack_from(slot)[1]]
    moving = empty if source is None else source[start + HEAD.unpack_from(source)[1] :]
    return b"{" + staying + (b"," if moving else b"") + moving + b"}"


class Reader:
    """Reads the messages of a stream."""

    def __init__(self, fields: Fields, clock: Callable[[], int] = time.time_ns) -> None:
        self._decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
        self.longest = fields.max_bytes
        self._time, self._ids = fields.time, fields.id
        self._parse = _parse_iso if fields.time_format == "iso" else _parser(NANOSECONDS[fields.time_format])
        self._ahead = round(fields.max_ahead_seconds * 10**9)
        self._clock = clock
        self._staying = [(name, _label(name), name in fields.keep) for name in (*fields.id, *fields.keep)]
        self._moving = [(name, _label(name), name in fields.optional) for name in fields.move]
        self._rest = fields.rest
        self._time_label = _label(fields.time)
        self._accepts_late = fields.late == "accept"
        # What the slots of mechanisms that leave some empty show.
        self.empty = b",".join(label + b"null" for _, label, optional in self._moving if not optional)

    def read(self, payload: bytes) -> Reading:
        """Take a message apart.

        Raises:
            RefusedError: It is refused.
        """
        if len(payload) > self.longest:
            raise RefusedError("too-long")
        try:
            # msgspec does not look into the texts that it passes over.
            fields = self._decode(payload if payload.isascii() else payload.decode())
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise RefusedError("not-json") from None
        moment, when = self._moment(fields)
        staying = _taken(fields, self._staying)
        slot = [self._time_label + when, *(label + value for label, value in staying if value is not None)]
        ids = tuple(_identify(value) for _, value in staying[: len(self._ids)])
        moving = [label + value for label, value in _taken(fields, self._moving) if value is not None]
        if fields:
            self._take_rest(fields, slot, moving)
        return Reading(moment, ids, b",".join(slot), b",".join(moving))

    def _moment(self, fields: dict[str, msgspec.Raw]) -> tuple[int, bytes]:
        """Take the time out of the fields; return it as nanoseconds and as it is written."""
        raw = fields.pop(self._time, None)
        if raw is None:
            raise RefusedError("missing-field")
        when = bytes(raw)
        moment = self._parse(when)
        if self._ahead and moment > (now := self._clock()) + self._ahead and now > CLOCK_SET:
            raise RefusedError("ahead")
        return moment, when

    def admit_late(self) -> None:
        """Refuse a reading that is out of order, unless the stream accepts those.

        Raises:
            RefusedError: It does not.
        """
        if not self._accepts_late:
            raise RefusedError("late")

    def _take_rest(self, fields: dict[str, msgspec.Raw], slot: list[bytes], moving: list[bytes]) -> None:
        """Do with the other fields what is configured."""
        if self._rest == "refuse":
            raise RefusedError("unknown-field")
        if self._rest != "drop":
            part = moving if self._rest == "move" else slot
            part += [_label(name) + value for name, value in fields.items()]


def _taken(
    fields: dict[str, msgspec.Raw], parts: list[tuple[str, bytes, bool]]
) -> list[tuple[bytes, msgspec.Raw | None]]:
    """Take fields out, given their names, labels and whether they may be missing."""
    found = [(label, fields.pop(name, None), optional) for name, label, optional in parts]
    if any(value is None and not optional for _, value, optional in found):
        raise RefusedError("missing-field")
    return [(label, value) for label, value, _ in found]


def _label(name: str) -> bytes:
    return msgspec.json.encode(name) + b":"


def _identify(raw: msgspec.Raw | None) -> str | int:
    """Return an id from its JSON."""
    try:
        value = msgspec.json.decode(raw or b"null")
    except msgspec.DecodeError:
        value = None
    # Truth values and numbers are the same to a dictionary, and 64 bits are what the state keeps.
    if isinstance(value, str) or (type(value) is int and EARLIEST <= value <= LATEST):
        return value
    raise RefusedError("bad-id")


def _parse_iso(raw: bytes) -> int:
    """Return the nanoseconds of a time such as "2026-01-31T12:00:00.5Z"; without an offset it is UTC."""
    try:
        text = str(msgspec.json.decode(raw, type=str))
        fraction = FRACTION.search(text)
        digits = fraction[1] if fraction else ""
        # datetime would cut what is beyond microseconds.
        moment = datetime.fromisoformat(text if fraction is None else text.replace(fraction[0], "", 1))
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        past = moment - EPOCH
    except (msgspec.DecodeError, ValueError, OverflowError):
        raise RefusedError("bad-time") from None
    seconds = past.days * 86_400 + past.seconds
    nanoseconds = seconds * 10**9 + past.microseconds * 1000 + int(f"{digits:0<9}"[:9])
    if not EARLIEST <= nanoseconds <= LATEST:
        raise RefusedError("bad-time")
    return nanoseconds


def _parser(unit: int) -> Callable[[bytes], int]:
    """Return a reader of times that are numbers of so many nanoseconds."""

    def parse(raw: bytes) -> int:
        if raw.isdigit() and len(raw) < 20:
            nanoseconds = int(raw) * unit
        else:
            try:
                number = Decimal(raw.decode())  # a text in quotes is none
                nanoseconds = int(number * unit) if abs(number) < LATEST else LATEST + 1
            except (InvalidOperation, UnicodeDecodeError):
                raise RefusedError("bad-time") from None
        if not EARLIEST <= nanoseconds <= LATEST:
            raise RefusedError("bad-time")
        return nanoseconds

    return parse

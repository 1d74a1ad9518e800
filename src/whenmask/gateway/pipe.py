"""Readings as JSON lines on one end of a pipe, releases as JSON lines on the other.

Whatever has come is one batch: its releases are written when it is committed, and forgotten by the state with the
next one. Where writing fails, they are written again at the next start.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from whenmask.gateway.exchange import Exchange, Inlet
from whenmask.gateway.journal import note
from whenmask.gateway.state import NoRoomError
from whenmask.keystream import Series

CHUNK_BYTES = 1 << 16
PAUSE = 1.0


class Stopped(Exception):  # noqa: N818 - a signal, not an error
    """The process was asked to stop."""


def pipe(exchange: Exchange, inlet: Inlet, longest: int, *, source: int = 0, sink: int = 1) -> None:
    """Release the lines of one file descriptor on another, until they end or the process is asked to stop.

    Args:
        exchange: Takes the readings.
        inlet: Where they go.
        longest: Of longer lines no more is held than that, and they are refused.
        source: The file descriptor to read.
        sink: The file descriptor to write.
    """
    stopper = Stopper()
    sent = _write_all(exchange, sink)
    try:
        with stopper.listening():
            for lines in read_lines(source, longest):
                with stopper.calmly():
                    take_patiently(exchange, [(inlet, line) for line in lines], sent, waiting=stopper.check)
                    sent = _write_all(exchange, sink)
            take_patiently(exchange, [], sent, waiting=stopper.check)
            return
    except Stopped:
        pass
    with suppress(NoRoomError):  # what was written is then written again at the next start
        exchange.take([], sent)


def finish(exchange: Exchange, ends: Iterable[tuple[Inlet, Series]], *, sink: int = 1) -> None:
    """End series, and write what waited."""
    exchange.end(ends)
    take_patiently(exchange, [], _write_all(exchange, sink))


def read_lines(source: int, longest: int) -> Iterator[list[bytes]]:
    """Yield the lines that have come, as they come; a line that is too long, cut after one byte too many."""
    rest = b""
    while chunk := os.read(source, CHUNK_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        rest = rest[: longest + 1]
        lines = [line for line in lines if line.strip()]
        if lines:
            yield lines
    if rest.strip():
        yield [rest]


def take_patiently(
    exchange: Exchange,
    messages: list[tuple[Inlet, bytes]],
    sent: list[int],
    *,
    waiting: Callable[[], None] = lambda: None,
) -> None:
    """Take messages; where there is no room for the state, wait until there is."""
    noted = False
    while True:
        try:
            return exchange.take(messages, sent)
        except NoRoomError as error:
            if not noted:
                note("no room for the state, waiting", level="error", reason=error.got)
                noted = True
        waiting()
        time.sleep(PAUSE)


def _write_all(exchange: Exchange, sink: int) -> list[int]:
    """Write all that is to be sent; return the numbers."""
    numbers, lines = [], []
    while (message := exchange.next_outgoing()) is not None:
        numbers.append(message[0])
        lines.append(message[1].payload + b"\n")
    left = memoryview(b"".join(lines))
    while left:
        left = left[os.write(sink, left) :]
    return numbers


class Stopper:
    """Lets SIGTERM and SIGINT stop the wait for input at once, and a batch under way when it is done."""

    def __init__(self) -> None:
        self._busy = self._asked = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take the signals meanwhile."""
        before = {number: signal.signal(number, self._stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, *_: object) -> None:
        self._asked = True
        if not self._busy:
            raise Stopped

    @contextmanager
    def calmly(self) -> Iterator[None]:
        """Put off a stop until this is done."""
        self._busy = True
        yield
        self._busy = False
        self.check()

    def check(self) -> None:
        """Stop if that was asked for."""
        if self._asked:
            raise Stopped

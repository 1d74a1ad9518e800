"""Readings as JSON lines on one end of a pipe, releases as JSON lines on the other.

Whatever has come is one batch: its releases are written when it is committed, and forgotten by the state with the
next one. Where writing fails, they are written again at the next start.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager

from whenmask.gateway.exchange import Exchange, Inlet
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
    sent = _write_all(exchange, sink)
    try:
        with _interruptible() as calmly:
            for lines in read_lines(source, longest):
                with calmly():
                    take_patiently(exchange, [(inlet, line) for line in lines], sent)
                    sent = _write_all(exchange, sink)
    except Stopped:
        pass
    take_patiently(exchange, [], sent)


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
    waiting: Callable[[NoRoomError], None] = lambda _: None,
) -> None:
    """Take messages; where there is no room for the state, wait until there is."""
    while True:
        try:
            return exchange.take(messages, sent)
        except NoRoomError as error:
            waiting(error)
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


@contextmanager
def _interruptible() -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Let SIGTERM and SIGINT stop the wait for input at once, and a batch under way when it is done."""
    state = {"busy": False, "asked": False}

    def stop(*_: object) -> None:
        state["asked"] = True
        if not state["busy"]:
            raise Stopped

    @contextmanager
    def calmly() -> Iterator[None]:
        state["busy"] = True
        yield
        state["busy"] = False
        if state["asked"]:
            raise Stopped

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield calmly
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

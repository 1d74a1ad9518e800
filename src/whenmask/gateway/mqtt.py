"""The gateway between brokers: one thread that reads, commits, acknowledges and sends.

In this order: what has come is one batch; its transaction is committed; only then are its messages acknowledged
and its releases sent; and a release is forgotten, with a later batch, when the broker has acknowledged it. A
crash anywhere in between leads back to a place where the same is done again.
"""

import select
import signal
import socket
import time

from paho.mqtt.client import MQTTMessage

from whenmask.gateway.configuration import Configuration, Route
from whenmask.gateway.exchange import Exchange, Inlet
from whenmask.gateway.journal import note
from whenmask.gateway.link import Link
from whenmask.gateway.reading import Reader
from whenmask.gateway.state import NoRoomError
from whenmask.gateway.topics import fill, matcher
from whenmask.keystream import Key, Series

# Seconds between looks at clocks: keepalive, silent series, acknowledgements that wait to be written.
TICK = 1.0
# Seconds between lines about how things go, and how long a stop may take.
REPORT, GOODBYE = 60.0, 3.0


class Router:
    """Finds the inlet of a topic."""

    def __init__(self, routes: list[Route], most: int) -> None:
        """Take the routes; hold the inlets of at most so many topics."""
        self._routes = [(route, matcher(route.source), Reader(route)) for route in routes]
        self._most = most
        self._inlets: dict[str, Inlet | None] = {}

    def inlet(self, topic: str) -> Inlet | None:
        """Return where readings of a topic go, if anywhere."""
        try:
            return self._inlets[topic]
        except KeyError:
            if len(self._inlets) >= self._most:
                self._inlets.clear()
            found = self._inlets[topic] = self._find(topic)
            return found

    def _find(self, topic: str) -> Inlet | None:
        for route, pattern, reader in self._routes:
            if matched := pattern.fullmatch(topic):
                return Inlet(reader, topic, fill(route.target, matched), route.end_after_seconds)
        return None

    def inlet_of(self, series: Series) -> Inlet | None:
        """Return the inlet of a series, whose name begins with its topic."""
        topic = series[0] if isinstance(series, tuple) else series
        return self.inlet(str(topic))


class Gateway:
    """A gateway between brokers.

    Attributes:
        exchange: Takes the readings and holds what is to be sent.
        links: The connections, that for inputs first.
        lost: Messages at QoS 0 that came while no more could be taken.
        redelivered: Messages that the broker marked as sent again.
        resent: Releases that were sent again after a connection was lost.
    """

    def __init__(self, configuration: Configuration, exchange: Exchange, key: Key) -> None:
        """Prepare the connections; nothing is sent before `serve`."""
        self.exchange = exchange
        self.lost = self.redelivered = self.resent = 0
        self._most_outbox, self._most_inbox = configuration.state.max_outbox, configuration.mqtt.in_flight
        self._router = Router(configuration.stream, 2 * configuration.state.max_series)
        filters = [route.source for route in configuration.stream]
        # Of the key and not of the state, so that the broker knows a gateway that lost its state.
        client_id = f"whenmask-{key.derive(b'gateway client').hex()[:12]}"
        self._input = Link("input", configuration.mqtt, client_id, filters, self._receive)
        self._output = self._input
        if configuration.output is not None:
            self._output = Link("output", configuration.output, f"{client_id}-out", [], self._receive)
        self.links = [self._input] if self._output is self._input else [self._input, self._output]
        self._inbox: list[tuple[Inlet, bytes]] = []
        # The acknowledgements that the inbox is owed: connection and message id.
        self._owed: list[tuple[int, int]] = []
        # The connection that the outbox was last sent on.
        self._sending = -1
        self._stopping = self._full = False
        self._retry = self._ticked = self._reported = 0.0
        self._idle_since = time.monotonic()
        if any(route.end_after_seconds for route in configuration.stream):
            exchange.active = dict.fromkeys(exchange.names(), self._idle_since)

    def serve(self) -> None:
        """Run until SIGTERM or SIGINT."""
        waker, alarm = socket.socketpair()
        waker.setblocking(False)
        alarm.setblocking(False)
        signal.set_wakeup_fd(alarm.fileno())
        before = {number: signal.signal(number, self._stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            while not self._stopping:
                self._turn(waker)
            self._say_goodbye(waker)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(-1)
            waker.close()
            alarm.close()

    def _stop(self, *_: object) -> None:
        self._stopping = True

    @property
    def lag(self) -> float:
        """Seconds since everything released was acknowledged for the last time."""
        return time.monotonic() - self._idle_since if self._is_waiting else 0.0

    @property
    def _is_waiting(self) -> bool:
        """Whether something released is not acknowledged."""
        return self.exchange.outbox > len(self._output.sent)

    def _turn(self, waker: socket.socket) -> None:
        """Wait for something to do, and do it."""
        for link in self.links:
            link.connect()
        self._await(waker)
        for link in self.links:
            if not self._is_overrun(link):
                link.read(self._most_inbox)
        now = time.monotonic()
        ticked = now - self._ticked >= TICK
        self._commit(now, flush=ticked)
        self._send()
        for link in self.links:
            link.write()
        if ticked:
            self._ticked = now
            self._tick(now)

    def _await(self, waker: socket.socket) -> None:
        """Wait until a socket is ready or the clock must be looked at."""
        readers: list[socket.socket | int] = [waker]
        writers = []
        for link in self.links:
            descriptor = link.fileno()
            if descriptor is not None:
                readers.append(descriptor)
                writers += [descriptor] if link.wants_write else []
        ready, _, _ = select.select(readers, writers, [], 0.0 if any(link.more for link in self.links) else TICK)
        if waker in ready:
            waker.recv(1024)

    def _is_overrun(self, link: Link) -> bool:
        """Whether a broker sends more than was asked for, while nothing more can be taken."""
        if link is not self._input or len(self._inbox) < 4 * self._most_inbox:
            return False
        # Where releases go to the same broker, its acknowledgements must be read to make room.
        return self._full or link is not self._output

    def _receive(self, link: Link, message: MQTTMessage) -> None:
        """Put a message into the inbox."""
        self.redelivered += message.dup
        if message.qos == 0 and len(self._inbox) >= 2 * self._most_inbox:
            self.lost += 1  # more at QoS 1 than `in_flight` the broker does not send
            return
        try:
            inlet = self._router.inlet(message.topic)
        except UnicodeDecodeError:  # no broker should let it through, and it must not come again
            inlet = None
        if inlet is not None:
            # Of what is too long only so much is held as tells that it is.
            self._inbox.append((inlet, bytes(message.payload[: inlet.reader.longest + 1])))
        if message.qos:
            self._owed.append((link.generation, message.mid))

    def _commit(self, now: float, *, flush: bool, last: bool = False) -> None:
        """Take what is in the inbox, acknowledge it, and forget what was acknowledged to us."""
        sent = self._output.settled(now, all_of_them=last)
        held_back = self.exchange.outbox >= self._most_outbox
        inbox = [] if held_back else self._inbox
        # Acknowledgements alone are no hurry: each commit is a write to the disk.
        if now < self._retry or not (inbox or len(sent) >= self._most_inbox or (sent and flush)):
            return
        try:
            self.exchange.take(inbox, sent)
        except NoRoomError as error:
            self._retry = now + TICK
            if not self._full:
                note("no room for the state, waiting", level="error", reason=error.got)
            self._full = True
            return
        if self._full:
            self._full = False
            note("room for the state again")
        self._output.forget(len(sent))
        if not self._is_waiting:
            self._idle_since = now
        if not held_back:
            for generation, mid in self._owed:
                self._input.acknowledge(generation, mid)
            self._owed.clear()
            self._inbox = []

    def _send(self) -> None:
        """Send what the outbox holds, as much as the broker takes."""
        output = self._output
        if output.up and self._sending != output.generation:
            self.resent += output.take_back()
            self.exchange.send_again()
            self._sending = output.generation
        for _ in range(output.room):
            message = self.exchange.next_outgoing()
            if message is None:
                break
            output.publish(message[0], message[1].topic, message[1].payload)

    def _tick(self, now: float) -> None:
        """Do what the clock asks for."""
        for link in self.links:
            link.tend()
        if self._input.up and not self._full:
            self._end_silent(now)
        if now - self._reported >= REPORT:
            self._reported = now
            note("so far", numbers=self.numbers())

    def _end_silent(self, now: float) -> None:
        """End series that were silent for long, while the broker could have told us of them."""
        ends = []
        for name, seen in self.exchange.active.items():
            inlet = self._router.inlet_of(name)
            if inlet and inlet.patience and now - max(seen, self._input.since) > inlet.patience:
                ends.append((inlet, name))
        if ends:
            try:
                self.exchange.end(ends)
            except NoRoomError:
                self._retry = now + TICK

    def end_all(self) -> int:
        """End all series that belong to a stream; return how many do not."""
        names = self.exchange.names()
        ends = [(inlet, name) for name in names if (inlet := self._router.inlet_of(name)) is not None]
        self.exchange.end(ends)
        return len(names) - len(ends)

    def numbers(self) -> dict[str, int]:
        """Return what happened so far and what waits, as numbers."""
        exchange = self.exchange
        own = {"redelivered": self.redelivered, "resent": self.resent, "lost at QoS 0": self.lost}
        waits = {"series": exchange.series, "pending": exchange.pending, "outbox": exchange.outbox}
        return {**exchange.totals(), **own, **waits}

    def numbers_and_lag(self) -> dict[str, float]:
        """Return the numbers, and how long releases have been waiting for their acknowledgement."""
        return {**self.numbers(), "lag": self.lag, "connected": sum(link.up for link in self.links)}

    def _say_goodbye(self, waker: socket.socket) -> None:
        """Commit what has come, wait a little for acknowledgements, and leave."""
        note("stopping")
        until = time.monotonic() + GOODBYE
        self._commit(time.monotonic(), flush=True)
        # What is not acknowledged by then is sent again at the next start.
        while self._output.up and (self._output.unsent or self._owed) and time.monotonic() < until:
            self._send()
            self._output.write()
            self._await(waker)
            self._output.read(self._most_inbox)
        self._commit(time.monotonic(), flush=True, last=True)
        for link in self.links:
            link.close()
        note("stopped", numbers=self.numbers())

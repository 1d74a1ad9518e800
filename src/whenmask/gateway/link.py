"""A connection to a broker, for one thread that waits for sockets itself (paho-mqtt without its loop).

A client lives as long as its connection. After a loss a new one is made, the broker sends again what was not
acknowledged, and the outbox is sent again from its oldest message on: nothing is kept here that could be lost.
"""

import ssl
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from whenmask.errors import DependencyError, FileError
from whenmask.gateway.configuration import Broker, Tls
from whenmask.gateway.journal import note

try:
    from paho.mqtt.client import Client, MQTTMessage
    from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties
    from paho.mqtt.subscribeoptions import SubscribeOptions
except ImportError:
    raise DependencyError("MQTT needs paho-mqtt", hint="pip install whenmask[mqtt]") from None

CONNECT_SECONDS = 5.0
# Seconds before the next attempt to connect: doubled each time, up to the most; kept if a connection is short.
FIRST_PAUSE, LONGEST_PAUSE, STABLE = 1.0, 60.0, 10.0
DO_NOT_SEND_RETAINED = 2
FAILURE = 0x80
Receive = Callable[["Link", MQTTMessage], None]


class Link:
    """One broker: connected, or about to be.

    Attributes:
        name: "input" or "output", for the log.
        up: Whether messages can be exchanged.
        unsent: The numbers of messages sent and not yet acknowledged, by message id.
        sent: The numbers of those that were acknowledged, and when, until they are forgotten for good.
        seen: How many messages and acknowledgements came.
        since: When it was last connected.
        more: Whether there may be more to read.
        generation: How many connections were lost.
        connections: How many there were.
    """

    def __init__(self, name: str, broker: Broker, client_id: str, filters: list[str], receive: Receive) -> None:
        """Prepare a link; `receive` gets the link and each message."""
        self.name = name
        self._broker, self._filters, self._receive = broker, filters, receive
        self._client_id = broker.client_id or client_id
        self.up = False
        self.generation = 0
        self.unsent: dict[int, int] = {}
        self.sent: deque[tuple[float, int]] = deque()
        self.seen = 0
        self.since = 0.0
        self.more = False
        self.connections = 0
        self._room = 0
        self._client: Client | None = None
        self._pause, self._next = FIRST_PAUSE, 0.0

    @property
    def room(self) -> int:
        """How many more messages may be sent now."""
        return self._room - len(self.unsent) if self.up else 0

    @property
    def wait(self) -> float:
        """Seconds until the next attempt to connect; 0 when it is due."""
        return 0.0 if self._client else max(0.0, self._next - time.monotonic())

    def fileno(self) -> int | None:
        """Return the descriptor to wait for, if there is a connection."""
        socket = self._client.socket() if self._client else None
        return None if socket is None else socket.fileno()

    @property
    def wants_write(self) -> bool:
        """Whether something is to be written."""
        return self._client is not None and self._client.want_write()

    def connect(self) -> None:
        """Try to connect if it is due; the broker's answer comes later."""
        if self._client is not None or self.wait:
            return
        broker = self._broker
        client = Client(
            CallbackAPIVersion.VERSION2, self._client_id, protocol=MQTTProtocolVersion.MQTTv5, manual_ack=True
        )
        client.on_connect, client.on_message = self._on_connect, self._on_message
        client.on_publish, client.on_disconnect = self._on_publish, self._on_disconnect
        client.on_subscribe = self._on_subscribe
        # Nothing is written before `write`: one call for a whole batch, and not in the middle of a callback.
        client.on_socket_register_write = lambda *_: None
        client.max_inflight_messages = 0  # the outbox and `room` see to that
        client.connect_timeout = CONNECT_SECONDS
        if broker.user is not None:
            client.username_pw_set(broker.user, read_password(broker.password_file))
        if broker.tls is not None:
            client.tls_set_context(tls_context(broker.tls))
        wishes = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho has no types here
        wishes.SessionExpiryInterval = broker.session_seconds
        wishes.ReceiveMaximum = broker.in_flight
        self._client = client
        try:
            client.connect(*broker.address, broker.keepalive, clean_start=False, properties=wishes)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            self._lost(reason or type(error).__name__)

    def _on_connect(self, client: Client, _data: Any, _flags: Any, reason: Any, properties: Any) -> None:
        if reason.is_failure:
            self._lost(f"refused: {reason}")
            return
        self._room = min(self._broker.in_flight, getattr(properties, "ReceiveMaximum", 65_535))
        self.since = time.monotonic()
        self.connections += 1
        self.up = True
        if self._filters:
            options = SubscribeOptions(qos=1, retainHandling=DO_NOT_SEND_RETAINED)
            client.subscribe([(wanted, options) for wanted in self._filters])
        note("connected", link=self.name, room=self._room)

    def _on_subscribe(self, _client: Client, _data: Any, _mid: int, reasons: list[Any], _properties: Any) -> None:
        if refused := [str(reason) for reason in reasons if reason.is_failure]:
            self._lost(f"does not let us subscribe: {refused[0]}")

    def _on_message(self, _client: Client, _data: Any, message: MQTTMessage) -> None:
        self.seen += 1
        self._receive(self, message)

    def _on_publish(self, _client: Client, _data: Any, mid: int, reason: Any, _properties: Any) -> None:
        self.seen += 1
        if reason.value >= FAILURE:
            # It stays in the outbox: what the broker does not take now it may take later.
            self._lost(f"does not take what is released: {reason}")
        elif (number := self.unsent.pop(mid, None)) is not None:
            self.sent.append((time.monotonic(), number))

    def _on_disconnect(self, client: Client, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        if client is self._client:
            self._lost(str(reason))

    def _lost(self, reason: str) -> None:
        """Give up the connection, and try again after a pause."""
        client, self._client = self._client, None
        now = time.monotonic()
        if self.up and now - self.since > STABLE:
            self._pause = FIRST_PAUSE
        self.up = False
        self.generation += 1
        self._next, self._pause = now + self._pause, min(2 * self._pause, LONGEST_PAUSE)
        note("not connected", level="warning", link=self.name, reason=reason, again_in=round(self._next - now))
        socket = client.socket() if client else None
        if socket is not None:
            socket.close()

    def read(self, most: int) -> None:
        """Take what has come; stop soon after so many messages."""
        enough = self.seen + most
        before = -1
        while self._client is not None and before < self.seen < enough:
            before = self.seen
            self._client.loop_read()
        self.more = self._client is not None and self.seen >= enough

    def write(self) -> None:
        """Write what can be written."""
        if self._client is not None and self._client.want_write():
            self._client.loop_write()

    def tend(self) -> None:
        """Keep the connection alive."""
        if self._client is not None:
            self._client.loop_misc()

    def acknowledge(self, generation: int, mid: int) -> None:
        """Acknowledge a message, unless the connection that it came by is gone."""
        if self._client is not None and generation == self.generation:
            self._client.ack(mid, 1)

    def publish(self, number: int, topic: str, payload: bytes) -> None:
        """Send a message of the outbox."""
        if self._client is not None:
            self.unsent[self._client.publish(topic, payload, qos=1).mid] = number

    def take_back(self) -> int:
        """Forget what was sent on a connection that is gone; return how many messages are to be sent again."""
        lost = len(self.unsent) + len(self.sent)
        self.unsent.clear()
        self.sent.clear()
        return lost

    def settled(self, now: float, *, all_of_them: bool = False) -> list[int]:
        """Return the numbers of the messages that were acknowledged long enough ago."""
        numbers = []
        for acknowledged, number in self.sent:
            if acknowledged + self._broker.linger_seconds > now and not all_of_them:
                break
            numbers.append(number)
        return numbers

    def forget(self, count: int) -> None:
        """Forget the first acknowledgements."""
        for _ in range(count):
            self.sent.popleft()

    def close(self) -> None:
        """Say goodbye; the broker goes on collecting messages for us."""
        if self._client is not None:
            self._client.disconnect()
            self.write()
            self._client = None
            self.up = False


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Return what TLS needs to know.

    Raises:
        FileError: A certificate or key cannot be read.
    """
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
        if tls.cert_file is not None:
            context.load_cert_chain(tls.cert_file, tls.key_file)
    except (OSError, ssl.SSLError) as error:
        raise FileError("a certificate or its key cannot be used", error.strerror, "check [mqtt.tls]") from None
    return context


def read_password(path: str | None) -> str | None:
    """Return the first line of a file, if one is named.

    Raises:
        FileError: It cannot be read.
    """
    if path is None:
        return None
    try:
        return Path(path).read_text(encoding="utf-8").split("\n", 1)[0]
    except (OSError, UnicodeDecodeError):
        raise FileError("the password file cannot be read", hint="check `password_file` and its owner") from None

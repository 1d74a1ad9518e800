"""The settings of a gateway, a class for each table of its file, and what they must be together.

Types and unknown settings are msgspec's to find. A check raises ValueError with the setting at its end, in the
form in which msgspec says where something is; `loading` turns that into a line.
"""

import re
from itertools import combinations
from typing import Literal

import msgspec

from whenmask.description import mechanism_named
from whenmask.gateway.topics import check_filter, check_target, check_topic, overlap
from whenmask.mechanisms import MECHANISMS, Temporal

# The delta that watching the clock may add by default, where slots have no natural delay.
TIMING_DELTA = 1e-6
QOS_HINT = (
    "QoS 1 is what survives a crash of the gateway: unacknowledged messages come again, and are recognised. "
    "At QoS 2 a client that is killed loses those that it has received and not finished"
)


class Section(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A table of the file, in which every setting must be known."""


class Privacy(Section, frozen=True, kw_only=True):
    """Which mechanism hides when.

    Attributes:
        epsilon: The privacy budget.
        window: How many readings of a series may trade places.
        mechanism: One of `MECHANISMS`.
        calibrate: What epsilon bounds; by default the guarantee, or the claim where nothing is proved.
        delay: Slot t leaves when reading t + delay has come; by default the least that `timing_delta` allows.
        timing_delta: What an observer of the clock may add to delta.
    """

    epsilon: float
    window: int
    mechanism: str = next(iter(MECHANISMS))
    calibrate: Literal["guarantee", "claim"] | None = None
    delay: int | None = None
    timing_delta: float = TIMING_DELTA

    def chosen(self) -> Temporal:
        """Return the mechanism."""
        return mechanism_named(self.mechanism, self.epsilon, self.window, calibrate=self.calibrate)


class Storage(Section, frozen=True, kw_only=True):
    """Where the state and the key lie.

    Attributes:
        file: The SQLite file of the state.
        key_file: The key; by default a file beside the state, made at the first start.
        encrypt: Whether readings, times and names of series are sealed at rest.
        max_outbox: Released messages that may wait for their acknowledgement before inputs have to wait.
        max_series: How many series are taken on.
    """

    file: str
    key_file: str | None = None
    encrypt: bool = True
    max_outbox: int = 100_000
    max_series: int = 10_000

    def __post_init__(self) -> None:
        _at_least_one("max_outbox", self.max_outbox)
        _at_least_one("max_series", self.max_series)


class Tls(Section, frozen=True, kw_only=True):
    """Certificates.

    Attributes:
        ca_file: Who signs the broker's certificate; by default those whom the system trusts.
        cert_file: The gateway's own certificate, if the broker asks for one.
        key_file: Its key.
    """

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


class Broker(Section, frozen=True, kw_only=True):
    """A broker and how to get in.

    Attributes:
        host: Its name or address.
        port: Its port; by default 1883, or 8883 with TLS.
        user: A user name.
        password_file: A file whose first line is the password.
        client_id: By default one that the state keeps.
        qos: Must be 1.
        in_flight: How many messages may be unacknowledged in each direction: the size of a group commit.
        keepalive: Seconds.
        session_seconds: How long the broker keeps messages for a gateway that is away.
        linger_seconds: How long a release is kept after it was acknowledged, to be sent again if the connection
            is lost meanwhile: a broker may be killed between its acknowledgement and its own disk.
        tls: Certificates; without this table the connection is in the clear.
    """

    host: str = "localhost"
    port: int | None = None
    user: str | None = None
    password_file: str | None = None
    client_id: str | None = None
    qos: int = 1
    in_flight: int = 500
    keepalive: int = 60
    session_seconds: int = 7 * 24 * 3600
    linger_seconds: float = 2.0
    tls: Tls | None = None

    def __post_init__(self) -> None:
        if self.qos != 1:
            raise ValueError(f"`qos` must be 1; got {self.qos}. Hint: {QOS_HINT} - at `$.qos`")
        for name, most in (("in_flight", 65_535), ("keepalive", 65_535), ("session_seconds", 4_294_967_295)):
            value = getattr(self, name)
            if not 1 <= value <= most:
                raise ValueError(f"`{name}` must be from 1 to {most}; got {value} - at `$.{name}`")
        if self.port is not None and not 1 <= self.port <= 65_535:
            raise ValueError(f"`port` must be from 1 to 65535; got {self.port} - at `$.port`")
        if self.linger_seconds < 0:
            raise ValueError("`linger_seconds` must be 0 or more - at `$.linger_seconds`")
        if self.password_file is not None and self.user is None:
            raise ValueError("`password_file` needs `user` - at `$.password_file`")

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self.host, self.port or (8883 if self.tls else 1883)


class Fields(Section, frozen=True, kw_only=True):
    """What the fields of a reading are.

    Attributes:
        time: The field that orders a series and recognises a reading that comes again.
        time_format: How it is written: ISO 8601 text, or a number of seconds, or of parts of one.
        id: The fields that name the series, within its topic.
        move: The fields whose values move together.
        optional: Those of them that a reading may lack.
        keep: Further fields that stay with their slot, in the clear.
        rest: What happens to a reading with other fields, or to those: refuse the reading, or let them move, stay
            or be dropped.
        late: What happens to a reading before the last of its series: it is refused, or accepted in the order of
            arrival.
        max_ahead_seconds: How far a time may be ahead of the gateway's clock; 0 for no limit.
        max_bytes: The longest reading.
    """

    time: str
    time_format: Literal["iso", "s", "ms", "us", "ns"] = "iso"
    id: list[str] = []
    move: list[str] = []
    optional: list[str] = []
    keep: list[str] = []
    rest: Literal["refuse", "move", "keep", "drop"] = "refuse"
    late: Literal["refuse", "accept"] = "refuse"
    max_ahead_seconds: float = 24 * 3600
    max_bytes: int = 65_536

    def __post_init__(self) -> None:
        roles = [self.time, *self.id, *self.move, *self.keep]
        if twice := {name for name in roles if roles.count(name) > 1}:
            raise ValueError(f"a field has one part: it stays or it moves; got {sorted(twice)[0]!r} in two")
        if not self.move and self.rest != "move":
            raise ValueError("`move` must name a field, or `rest` be 'move': otherwise nothing is hidden")
        if unknown := set(self.optional) - set(self.move):
            raise ValueError(f"`optional` names fields of `move`; got {sorted(unknown)[0]!r} - at `$.optional`")
        if self.max_ahead_seconds < 0:
            raise ValueError("`max_ahead_seconds` must be 0 or more - at `$.max_ahead_seconds`")
        _at_least_one("max_bytes", self.max_bytes)


class Route(Fields, frozen=True, kw_only=True):
    """Readings of some topics, and where they are released.

    Attributes:
        source: A topic filter (`from` in the file).
        target: The topic of what is released (`to` in the file); {1} is what the first wildcard stands for.
        end_after_seconds: A series that is silent for so long is ended, and all that waits released; 0 for never.
    """

    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    end_after_seconds: float = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if wrong := check_filter(self.source):
            raise ValueError(f"`from` must be a topic filter: {wrong}; got {self.source!r} - at `$.from`")
        if wrong := check_target(self.target, self.source):
            raise ValueError(f"`to` must be a topic: {wrong}; got {self.target!r} - at `$.to`")
        if self.end_after_seconds < 0:
            raise ValueError("`end_after_seconds` must be 0 or more - at `$.end_after_seconds`")


class Metrics(Section, frozen=True, kw_only=True):
    """Where Prometheus may ask.

    Attributes:
        port: The port.
        address: The address to listen on.
    """

    port: int
    address: str = "127.0.0.1"


class Configuration(Section, frozen=True, kw_only=True):
    """The whole file.

    Attributes:
        privacy: Which mechanism.
        state: Where the state and the key lie.
        mqtt: The broker that readings come from.
        output: The broker that gets the releases; by default the same.
        stream: Which topics, a table each.
        dead_letters: The topic that gets the reasons of refusals, if any.
        metrics: Where Prometheus may ask, if anywhere.
    """

    privacy: Privacy
    state: Storage
    stream: list[Route]
    mqtt: Broker = Broker()
    output: Broker | None = None
    dead_letters: str | None = None
    metrics: Metrics | None = None

    def __post_init__(self) -> None:
        if not self.stream:
            raise ValueError("there must be a [[stream]]: which topics, and which of their fields move")
        sources = [route.source for route in self.stream]
        for (_, one), (place, other) in combinations(enumerate(sources), 2):
            if overlap(one, other):
                raise ValueError(
                    f"a topic must belong to one stream; got {one!r} and {other!r} - at `$.stream[{place}].from`"
                )
        if self.dead_letters is not None and (wrong := check_topic(self.dead_letters)):
            raise ValueError(f"`dead_letters` must be a topic: {wrong} - at `$.dead_letters`")
        if self.output is None:
            self._check_loops(sources)

    def _check_loops(self, sources: list[str]) -> None:
        """Refuse targets that would come back as readings."""
        targets = {f"stream[{place}].to": route.target for place, route in enumerate(self.stream)}
        if self.dead_letters is not None:
            targets["dead_letters"] = self.dead_letters
        for name, target in targets.items():
            # A wildcard's place may hold any text, and that of # several levels.
            anything = re.sub(r"[^/]*\{\d+\}[^/]*", "+", target)
            if any(overlap(anything, source) for source in sources):
                raise ValueError(
                    f"what is released must not come back as a reading; got {target!r}, which some `from` takes "
                    f"in - at `$.{name}`"
                )


def _at_least_one(name: str, value: int) -> None:
    if value < 1:
        raise ValueError(f"`{name}` must be at least 1; got {value} - at `$.{name}`")

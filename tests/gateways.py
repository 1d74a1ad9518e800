"""A gateway as a process of its own, devices that feed it, and a subscriber that collects what it releases."""

import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from whenmask.gateway.loading import load_configuration
from whenmask.gateway.service import Law
from whenmask.gateway.state import StateError, inspect
from whenmask.keystream import Key, Series

CONFIGURATION = """
dead_letters = "home/refused"
[privacy]
epsilon = 6
window = 6
delay = 10
[state]
file = "{folder}/gateway.db"
[mqtt]
port = {port}
{more}
[[stream]]
from = "home/+/raw"
to = "home/{{1}}/released"
time = "time"
time_format = "s"
move = ["kwh"]
max_ahead_seconds = 0
"""


def reading(moment: int, value: int) -> bytes:
    """Return a reading as a device sends it, and as it is released."""
    return b'{"time":%d,"kwh":%d.50}' % (moment, value)


def client(port: int, name: str, *, user: str | None = None, password: str | None = None) -> Client:
    """Return a connected MQTT 5 client whose loop runs in a thread."""
    made = Client(CallbackAPIVersion.VERSION2, name, protocol=MQTTProtocolVersion.MQTTv5)
    made.reconnect_delay_set(1, 1)
    if user is not None:
        made.username_pw_set(user, password)
    wishes = Properties(PacketTypes.CONNECT)
    wishes.SessionExpiryInterval = 3600
    made.connect("127.0.0.1", port, clean_start=False, properties=wishes)
    return made


class Gateway:
    """A gateway and its folder; `more` are lines of its [mqtt] table."""

    def __init__(self, folder: Path, port: int, more: str = "", text: str = CONFIGURATION) -> None:
        self.folder, self.file = folder, folder / "gateway.toml"
        self.file.write_text(text.format(folder=folder, port=port, more=more))
        self.process: subprocess.Popen | None = None

    def start(self) -> "Gateway":
        """Start it; its log goes to a file."""
        with (self.folder / "gateway.log").open("a") as log:
            self.process = subprocess.Popen([*self.command("run")], stdout=log, stderr=log)
        return self

    def command(self, *arguments: str) -> list[str]:
        """Return a command for this gateway."""
        return [sys.executable, "-m", "whenmask", "gateway", *arguments, "--config", str(self.file)]

    def kill(self) -> None:
        """End it at once."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Ask it to stop; return its exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(20)

    def end(self) -> None:
        """End its series; the next start sends what they release."""
        subprocess.run(self.command("end"), check=True, capture_output=True)

    def log(self) -> list[dict]:
        """Return what it noted."""
        lines = (self.folder / "gateway.log").read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def events(self) -> list[str]:
        """Return what happened, without details."""
        return [line["event"] for line in self.log()]

    def totals(self) -> dict[str, int]:
        """Return the numbers in its state; none before there is one."""
        try:
            return inspect(self.folder / "gateway.db")["totals"]
        except StateError:
            return defaultdict(int)

    def taken(self) -> int:
        """Return how many readings it has taken."""
        totals = self.totals()
        return totals["pending"] + totals.get("released", 0)

    def law(self) -> Law:
        """Return its mechanism and timing."""
        return Law.of(load_configuration(self.file).privacy)

    def expected(self, series: Series, values: list[int], episode: int = 0) -> list[bytes]:
        """Return what a series must release, by the plan of the same key."""
        key = Key.from_file(self.folder / "gateway.db.key")
        run = inspect(self.folder / "gateway.db")["binding"]["run"]
        name = series if not episode else (series, episode)
        plan = self.law().mechanism.plan(len(values), key=key, series=name, run=run)
        return [reading(slot, values[source]) for slot, source in enumerate(plan.source.tolist())]


class Subscriber:
    """Collects all that is released, in the order in which it comes."""

    def __init__(
        self, port: int, topic: str = "home/+/released", *, name: str = "subscriber", **credentials: str
    ) -> None:
        self.received: dict[str, list[bytes]] = defaultdict(list)
        self.unique: set[tuple[str, bytes]] = set()
        self._client = client(port, name, **credentials)
        self._client.on_message = self._take
        self._client.on_connect = lambda client, *_: client.subscribe(topic, 1)
        self._client.loop_start()
        await_true(self._client.is_connected)
        time.sleep(0.1)

    def _take(self, _client: Client, _data: object, message) -> None:
        self.received[message.topic].append(message.payload)
        self.unique.add((message.topic, message.payload))

    def close(self) -> None:
        """Go away."""
        self._client.disconnect()
        self._client.loop_stop()


class Devices:
    """Sends readings in order, each until it is acknowledged; begins anew some way back after a broken connection.

    A broker that is killed may have acknowledged what it had not written, so that devices send again what they
    sent last. Only so much may be on the way at once.
    """

    BACK, ON_THE_WAY = 500, 200

    def __init__(self, port: int, messages: Iterable[tuple[str, bytes]], *credentials: str) -> None:
        self._port, self._messages, self._credentials = port, list(messages), credentials
        self.acknowledged = 0

    def send(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Send all."""
        while self.acknowledged < len(self._messages):
            try:
                self._send_from(max(0, self.acknowledged - self.BACK), meanwhile)
            except OSError:
                time.sleep(0.2)

    def _send_from(self, start: int, meanwhile: Callable[[], None]) -> None:
        acknowledged: set[int] = set()
        places: dict[int, int] = {}
        one = Client(CallbackAPIVersion.VERSION2, "devices", protocol=MQTTProtocolVersion.MQTTv5)
        one.max_inflight_messages_set(0)
        if self._credentials:
            one.username_pw_set(*self._credentials)
        one.on_publish = lambda _client, _data, number, *_: acknowledged.add(places.pop(number, -1))
        broken: list[object] = []
        one.on_disconnect = lambda *_: broken.append(None)
        one.connect("127.0.0.1", self._port)
        following, done = start, start
        while done < len(self._messages):
            if broken or one.loop(0.001):
                one.on_disconnect = None
                raise OSError
            while following < min(len(self._messages), done + self.ON_THE_WAY):
                topic, payload = self._messages[following]
                places[one.publish(topic, payload, qos=1).mid] = following
                following += 1
            while done in acknowledged:
                acknowledged.discard(done)
                done += 1
            self.acknowledged = max(self.acknowledged, done)
            meanwhile()
        one.disconnect()


def await_true(condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait until a condition holds."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.05)

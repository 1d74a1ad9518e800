"""The gateway between a thousand devices and a subscriber, beside a bridge that only copies their messages."""

import contextlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.timing import Row
from tests.brokers import Broker

DEVICES, WINDOW = 1000, 48
# Rounds of readings while time is taken.
TIMED = 40
CONFIGURATION = """
[privacy]
epsilon = 4
window = {window}
mechanism = "{mechanism}"
[state]
file = "{folder}/gateway.db"
[mqtt]
port = {port}
[[stream]]
from = "home/+/raw"
to = "home/{{1}}/released"
time = "time"
time_format = "s"
move = ["kwh"]
"""
# What a person would write who wants no privacy: acknowledged once the copy is acknowledged.
COPY = """
import sys
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
bridge = Client(CallbackAPIVersion.VERSION2, "bridge", protocol=MQTTProtocolVersion.MQTTv5, manual_ack=True)
bridge.max_inflight_messages_set(0)
owed = {}
def copy(client, data, message):
    sent = client.publish(message.topic.replace("raw", "released"), message.payload, qos=1)
    owed[sent.mid] = message.mid
bridge.on_message = copy
bridge.on_publish = lambda client, data, mid, *_: client.ack(owed.pop(mid), 1)
bridge.on_connect = lambda client, *_: client.subscribe("home/+/raw", 1)
bridge.connect("127.0.0.1", int(sys.argv[1]))
bridge.loop_forever()
"""
# Sends so many rounds, and prints the seconds until so many messages have come out.
LOAD = """
import sys, time
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
port, devices, first, last, expected = map(int, sys.argv[1:])
came, sent, taken = 0, 0, 0
def client(name):
    made = Client(CallbackAPIVersion.VERSION2, name, protocol=MQTTProtocolVersion.MQTTv5)
    made.max_inflight_messages_set(0)
    made.connect("127.0.0.1", port)
    made.loop_start()
    return made
def take(*_):
    global came
    came += 1
def count(*_):
    global taken
    taken += 1
subscriber = client("subscriber")
subscriber.on_message = take
subscriber.subscribe("home/+/released", 0)
load = client("load")
load.on_publish = count
time.sleep(0.5)
start = time.perf_counter()
for moment in range(first, last):
    for device in range(devices):
        load.publish(f"home/{device}/raw", b'{"time":%d,"kwh":%d.50}' % (moment, moment), qos=1)
        sent += 1
        while sent - taken > 1000:
            time.sleep(0.001)
while came < expected or taken < sent:
    time.sleep(0.001)
print(time.perf_counter() - start)
"""


def measure() -> list[Row]:
    """Time rounds of a thousand readings from end to end, and see how much memory the gateway takes."""
    if shutil.which("mosquitto") is None:
        return []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Broker(folder / "broker", "persistence false") as broker:
            with running([sys.executable, "-c", COPY, str(broker.port)]):
                time.sleep(1)
                copied = min(load(broker.port, 0, 30, 30 * DEVICES) / 30 for _ in range(2))
            rows = [Row("copy: a bridge without privacy", copied / DEVICES * 1e6, "µs/reading")]
            for mechanism in ("RanSwitch", "PureSwitch"):
                (folder / mechanism).mkdir()
                rows += gateway(folder / mechanism, broker.port, mechanism, copied)
    return rows


def gateway(folder: Path, port: int, mechanism: str, copied: float) -> list[Row]:
    """Measure a gateway with this mechanism at window 48, once its outputs are as many as its inputs."""
    file = folder / "gateway.toml"
    file.write_text(CONFIGURATION.format(folder=folder, port=port, mechanism=mechanism, window=WINDOW))
    command = [sys.executable, "-m", "whenmask", "gateway", "--config", str(file)]
    delay = WINDOW - 1 if mechanism == "RanSwitch" else 355
    with running(command) as process:
        time.sleep(1.5)
        load(port, 0, delay, 0)
        best = min(
            load(port, start, start + TIMED, TIMED * DEVICES) / TIMED
            for start in (delay + n * TIMED for n in range(2))
        )
        memory = resident(process.pid)
    # From nothing: the load's own start is within it.
    start = time.perf_counter()
    with running(command):
        load(port, delay + 2 * TIMED, delay + 2 * TIMED + 1, 1)
        started = time.perf_counter() - start
    name = mechanism
    return [
        Row(name, best / DEVICES * 1e6, "µs/reading", 1e6 / 7000),
        Row(f"{name} / copy", best / copied, "ratio", 3.0),
        Row(f"{name}, start to release", started, "s", 2.0),
        Row(f"{name}, resident", memory, "MB", 120.0),
    ]


@contextlib.contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen]:
    """Run a process meanwhile."""
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(20)


def load(port: int, first: int, last: int, expected: int) -> float:
    """Send rounds of readings; return the seconds until as many messages as expected came out."""
    arguments = [str(number) for number in (port, DEVICES, first, last, expected)]
    ran = subprocess.run([sys.executable, "-c", LOAD, *arguments], check=True, capture_output=True, text=True)
    return float(ran.stdout)


def resident(process: int) -> float:
    """Return the peak resident memory of a process, in MB."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 / 1e6

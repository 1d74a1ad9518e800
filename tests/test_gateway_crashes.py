"""A gateway and its broker are killed again and again: every reading is released, once, as the plan says.

By default a small load, for every day. The full one, a thousand devices and 100,000 readings with fifty kills:

    WHENMASK_CRASHES="1000 100 50 5" pytest tests/test_gateway_crashes.py -s
"""

import os
import random
import time
from pathlib import Path

import pytest

from tests.brokers import Broker, needs_mosquitto
from tests.gateways import Devices, Gateway, Subscriber, await_true, reading

DEVICES, READINGS, KILLS, BROKER_KILLS = map(int, os.environ.get("WHENMASK_CRASHES", "50 40 5 2").split())
PATIENCE = 60 + DEVICES * READINGS / 100


@needs_mosquitto
def test_crashes_lose_nothing_and_draw_nothing_twice(tmp_path: Path) -> None:
    """Gateway and broker are killed at random moments; what arrives is what the plan of the key prescribes."""
    random.seed(8)  # of the test's own moments; the package has its own randomness
    folder = tmp_path / "broker"
    disk = ["persistence true", f"persistence_location {folder}/", "autosave_on_changes true"]
    broker = Broker(folder, *disk, "autosave_interval 20").start()
    gateway = Gateway(tmp_path, broker.port).start()
    subscriber = Subscriber(broker.port)
    values = {n: [1000 * n + t for t in range(READINGS)] for n in range(DEVICES)}
    devices = Devices(
        broker.port, ((f"home/{n}/raw", reading(t, values[n][t])) for t in range(READINGS) for n in range(DEVICES))
    )
    total = DEVICES * READINGS
    # The kills are spread over the load, and each waits for the gateway to have taken something since the last.
    when = sorted(random.sample(range(total // 20, total), KILLS + BROKER_KILLS))
    victims = random.sample(["gateway"] * KILLS + ["broker"] * BROKER_KILLS, KILLS + BROKER_KILLS)
    await_true(lambda: "connected" in gateway.events())

    def meanwhile() -> None:
        if not when or devices.acknowledged < when[0]:
            return
        when.pop(0)
        if victims.pop() == "gateway":
            time.sleep(random.random() * 0.2)
            gateway.kill()
            gateway.start()
            await_true(lambda: gateway.events().count("connected") > meanwhile.connected, 60)  # type: ignore[attr-defined]
            meanwhile.connected = gateway.events().count("connected")  # type: ignore[attr-defined]
        else:
            broker.kill()
            broker.start()

    meanwhile.connected = 1  # type: ignore[attr-defined]
    try:
        devices.send(meanwhile)
        assert not when, "every kill took place"
        await_true(lambda: _taken(gateway) == total, PATIENCE)
        assert gateway.stop() == 0
        gateway.end()
        gateway.start()
        await_true(lambda: len(subscriber.unique) >= total, PATIENCE)
        assert gateway.stop() == 0
    finally:
        subscriber.close()
        gateway.kill()
        broker.kill()
    for n in range(DEVICES):
        received = subscriber.received[f"home/{n}/released"]
        # What came twice is byte for byte the same: once it is dropped, the plan is left.
        assert list(dict.fromkeys(received)) == sorted(set(received), key=lambda r: int(r[8:].split(b",")[0]))
        assert list(dict.fromkeys(received)) == gateway.expected(f"home/{n}/raw", values[n])
    again = sum(map(len, subscriber.received.values())) - total
    print(f"{total} readings, {KILLS} + {BROKER_KILLS} kills, {again} messages twice; {gateway.totals()}")


def _taken(gateway: Gateway) -> int:
    totals = gateway.totals()
    return totals["pending"] + totals.get("released", 0)

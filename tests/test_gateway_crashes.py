"""A gateway and its broker are killed again and again: every reading is released, once, as the plan says.

By default a small load, for every day. The full one, a thousand devices and 100,000 readings with fifty kills:

    WHENMASK_CRASHES="1000 100 50 5" pytest tests/test_gateway_crashes.py -s
"""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.brokers import Broker, needs_mosquitto
from tests.gateways import Devices, Gateway, Subscriber, await_true, reading

DEVICES, READINGS, KILLS, BROKER_KILLS = map(int, os.environ.get("WHENMASK_CRASHES", "50 40 5 2").split())
TOTAL = DEVICES * READINGS
PATIENCE = 60 + DEVICES * READINGS / 100


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker that keeps its promises, but for the last twenty changes before a kill."""
    folder = tmp_path / "broker"
    disk = ["persistence true", f"persistence_location {folder}/", "autosave_on_changes true"]
    one = Broker(folder, *disk, "autosave_interval 20").start()
    yield one
    one.kill()


class Saboteur:
    """Kills the gateway or its broker whenever so many readings were sent."""

    def __init__(self, gateway: Gateway, broker: Broker, devices: Devices) -> None:
        self._gateway, self._broker, self._devices = gateway, broker, devices
        self._chance = np.random.default_rng(8)
        kills = KILLS + BROKER_KILLS
        moments = self._chance.choice(np.arange(TOTAL // 20, TOTAL), kills, replace=False)
        victims = self._chance.permutation(["gateway"] * KILLS + ["broker"] * BROKER_KILLS)
        self.plans = sorted(zip(moments.tolist(), victims.tolist(), strict=True))
        self._connected = 1

    def strike(self) -> None:
        """Kill who is due, and start it again."""
        if not self.plans or self._devices.acknowledged < self.plans[0][0]:
            return
        _, victim = self.plans.pop(0)
        if victim == "broker":
            self._broker.kill()
            self._broker.start()
            return
        time.sleep(self._chance.random() * 0.2)
        self._gateway.kill()
        self._gateway.start()
        # So that it is killed at work, and not each time while it starts.
        await_true(lambda: self._gateway.events().count("connected") > self._connected, 60)
        self._connected = self._gateway.events().count("connected")


@needs_mosquitto
def test_crashes_lose_nothing_and_draw_nothing_twice(tmp_path: Path, broker: Broker) -> None:
    """Gateway and broker are killed at random moments; what arrives is what the plan of the key prescribes."""
    gateway = Gateway(tmp_path, broker.port).start()
    subscriber = Subscriber(broker.port)
    values = {n: [1000 * n + t for t in range(READINGS)] for n in range(DEVICES)}
    messages = [(f"home/{n}/raw", reading(t, values[n][t])) for t in range(READINGS) for n in range(DEVICES)]
    devices = Devices(broker.port, messages)
    saboteur = Saboteur(gateway, broker, devices)
    await_true(lambda: "connected" in gateway.events())
    try:
        devices.send(saboteur.strike)
        assert not saboteur.plans, "every kill took place"
        await_true(lambda: gateway.taken() == TOTAL, PATIENCE)
        assert gateway.stop() == 0
        gateway.end()
        gateway.start()
        await_true(lambda: len(subscriber.unique) >= TOTAL, PATIENCE)
        assert gateway.stop() == 0
    finally:
        subscriber.close()
        gateway.kill()
    for n in range(DEVICES):
        # What came twice is byte for byte the same: once it is dropped, the plan is left.
        assert sorted(set(subscriber.received[f"home/{n}/released"])) == sorted(
            gateway.expected(f"home/{n}/raw", values[n])
        )
    twice = sum(map(len, subscriber.received.values())) - TOTAL
    sys.stdout.write(f"{TOTAL} readings, {KILLS} + {BROKER_KILLS} kills, {twice} again; {gateway.totals()}\n")

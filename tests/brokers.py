"""A real Mosquitto on a free loopback port, started and killed by the tests that need one."""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

needs_mosquitto = pytest.mark.skipif(
    shutil.which("mosquitto") is None, reason="needs mosquitto: apt-get install mosquitto"
)


def free_port() -> int:
    """Return a port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Broker:
    """One Mosquitto; `settings` are further lines of its configuration."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self.port = free_port()
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        lines = [
            f"listener {self.port} 127.0.0.1",
            "max_inflight_messages 2000",
            "max_queued_messages 0",
            *settings,
        ]
        if os.geteuid() == 0:  # else Mosquitto becomes a user that cannot write here
            lines.append("user root")
        if not any("allow_anonymous" in line for line in settings):
            lines.append("allow_anonymous true")
        (folder / "mosquitto.conf").write_text("\n".join(lines) + "\n")
        self._process: subprocess.Popen | None = None

    def start(self) -> "Broker":
        """Start it, and wait until it listens."""
        with (self._folder / "mosquitto.log").open("a") as log:
            self._process = subprocess.Popen(
                ["mosquitto", "-c", str(self._folder / "mosquitto.conf")], stdout=log, stderr=log
            )
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return self
            time.sleep(0.02)
        raise RuntimeError((self._folder / "mosquitto.log").read_text())

    def kill(self, number: int = signal.SIGKILL) -> None:
        """End it with a signal."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(10)
            self._process = None

    def __enter__(self) -> "Broker":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill(signal.SIGTERM)

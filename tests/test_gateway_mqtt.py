"""The gateway between devices and subscribers, with a real broker."""

import datetime
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from threading import Thread

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.brokers import Broker, free_port, needs_mosquitto
from tests.gateways import CONFIGURATION, Devices, Gateway, Subscriber, await_true, reading
from whenmask.cli import run
from whenmask.gateway.exchange import Exchange
from whenmask.gateway.state import NoRoomError

pytestmark = needs_mosquitto
COUNT = 30


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker that anybody may use."""
    with Broker(tmp_path / "broker") as one:
        yield one


def through(gateway: Gateway, port: int, subscriber: Subscriber, *, series: tuple[str, ...] = ("a",)) -> None:
    """Send readings of each series, end them, and expect their plans."""
    messages = [(f"home/{name}/raw", reading(t, t)) for t in range(COUNT) for name in series]
    Devices(port, messages).send()
    await_true(lambda: gateway.taken() == COUNT * len(series))
    assert gateway.stop() == 0
    gateway.end()
    gateway.start()
    await_true(lambda: len(subscriber.unique) >= COUNT * len(series))
    assert gateway.stop() == 0
    for name in series:
        assert subscriber.received[f"home/{name}/released"] == gateway.expected(
            f"home/{name}/raw", list(range(COUNT))
        )


def test_readings_come_out_as_planned_and_the_bad_ones_as_reasons(tmp_path: Path, broker: Broker) -> None:
    """Bad messages of all kinds between good ones of three devices; dead letters hold reasons and no values."""
    gateway = Gateway(tmp_path, broker.port).start()
    subscriber = Subscriber(broker.port)
    letters = Subscriber(broker.port, "home/refused", name="letters")
    await_true(lambda: "connected" in gateway.events())
    bad = [b"", b"secret", b'{"time":"secret","kwh":1}', b'{"time":1,"kwh":1,"secret":2}', b"secret" * 1_700_000]
    Devices(broker.port, [("home/a/raw", message) for message in bad]).send()
    through(gateway, broker.port, subscriber, series=("a", "b", "c"))
    received = letters.received["home/refused"]
    assert sorted(json.loads(letter)["reason"] for letter in received) == [
        "bad-time", "not-json", "not-json", "too-long", "unknown-field",
    ]  # fmt: skip
    assert all(json.loads(letter)["topic"] == "home/a/raw" for letter in received)
    assert b"secret" not in b"".join(received)
    log = (tmp_path / "gateway.log").read_text()
    assert "Traceback" not in log
    assert "home" not in log
    subscriber.close()
    letters.close()


def test_a_full_disk_makes_readings_wait(tmp_path: Path, broker: Broker, capsys, monkeypatch) -> None:
    """Nothing is acknowledged while the state cannot be written; when it can, the same readings are taken."""
    metrics = free_port()
    gateway = Gateway(tmp_path, broker.port, text=f"{CONFIGURATION}\n[metrics]\nport = {metrics}\n")
    failures = [NoRoomError("the state cannot be written", "SQLITE_FULL")] * 2
    take = Exchange.take
    shown: list[str] = []

    def full_at_first(one: Exchange, messages: list, sent: list) -> None:
        if failures:
            shown.append(asked(metrics))
            raise failures.pop()
        take(one, messages, sent)

    def feed() -> None:
        subscriber = Subscriber(broker.port)
        await_true(lambda: "whenmask_connected 1.0" in asked(metrics))
        messages = [b"nonsense", *(reading(t, t) for t in range(COUNT))]
        Devices(broker.port, [("home/a/raw", message) for message in messages]).send()
        await_true(lambda: len(subscriber.unique) == COUNT - 10)
        shown.append(asked(metrics))
        subscriber.close()
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Exchange, "take", full_at_first)
    feeding = Thread(target=feed)
    feeding.start()
    assert run(["gateway", "-c", str(gateway.file)]) == 0
    feeding.join()
    notes = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    events = [line["event"] for line in notes]
    assert events.count("no room for the state, waiting") == events.count("room for the state again") == 1
    assert notes[-1]["numbers"]["pending"] == 10
    assert notes[-1]["numbers"]["outbox"] == 0
    assert "whenmask_inputs_total 0.0" in shown[0]
    assert f"whenmask_released_total {COUNT - 10}.0" in shown[-1]
    assert 'whenmask_refused_total{reason="not-json"} 1.0' in shown[-1]


def asked(port: int) -> str:
    """Return what Prometheus would be told, nothing while there is nobody to ask."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def test_a_broker_that_is_away_is_waited_for(tmp_path: Path, broker: Broker) -> None:
    """The gateway starts without a broker, connects when there is one, and again when it was gone."""
    broker.kill(signal.SIGTERM)
    gateway = Gateway(tmp_path, broker.port).start()
    await_true(lambda: "not connected" in gateway.events())
    broker.start()
    await_true(lambda: "connected" in gateway.events())
    broker.kill(signal.SIGTERM)
    await_true(lambda: gateway.events().count("not connected") >= 2)
    broker.start()
    subscriber = Subscriber(broker.port)
    await_true(lambda: gateway.events().count("connected") == 2)
    through(gateway, broker.port, subscriber)
    subscriber.close()


def test_status_metrics_and_a_second_gateway(tmp_path: Path, broker: Broker, capsys) -> None:
    """How it is can be asked for while it runs, by people and by Prometheus; its state is not shared."""
    metrics = free_port()
    gateway = Gateway(tmp_path, broker.port, text=f"{CONFIGURATION}\n[metrics]\nport = {metrics}\n").start()
    await_true(lambda: "connected" in gateway.events())
    Devices(broker.port, [("home/a/raw", reading(t, t)) for t in (1, 2, 2, 3)]).send()
    await_true(lambda: gateway.taken() == 3)
    shown = asked(metrics)
    for line in ("whenmask_inputs_total 4.0", "whenmask_pending 3.0", "whenmask_duplicates_total 1.0",
                 "whenmask_outbox 0.0", "whenmask_lag_seconds 0.0", "whenmask_connected 1.0"):  # fmt: skip
        assert line in shown
    second = subprocess.run(gateway.command("run"), capture_output=True, text=True, check=False)
    assert second.returncode == 2
    assert "in use by another gateway" in second.stderr
    assert run(["gateway", "status", "--config", str(gateway.file), "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["running"]
    assert (status["pending"], status["duplicates"]) == (3, 1)
    assert gateway.stop() == 0
    assert run(["gateway", "status", "-c", str(gateway.file)]) == 0
    shown = capsys.readouterr().out
    assert "a slot leaves 10 readings later" in shown
    assert "PureSwitch, window 6" in shown
    assert "no" in shown


def test_silent_series_are_ended(tmp_path: Path, broker: Broker) -> None:
    """After the silence that is configured all that waits is released."""
    text = CONFIGURATION + "end_after_seconds = 2\n"
    gateway = Gateway(tmp_path, broker.port, text=text).start()
    subscriber = Subscriber(broker.port)
    await_true(lambda: "connected" in gateway.events())
    Devices(broker.port, [("home/a/raw", reading(t, t)) for t in range(COUNT)]).send()
    await_true(lambda: len(subscriber.unique) == COUNT)
    assert gateway.stop() == 0
    assert subscriber.received["home/a/released"] == gateway.expected("home/a/raw", list(range(COUNT)))
    subscriber.close()


def test_two_brokers(tmp_path: Path, broker: Broker) -> None:
    """Readings may come from one broker and go to another."""
    with Broker(tmp_path / "outside") as outside:
        more = f"[output]\nport = {outside.port}"
        gateway = Gateway(tmp_path, broker.port, more).start()
        subscriber = Subscriber(outside.port)
        await_true(lambda: gateway.events().count("connected") == 2)
        through(gateway, broker.port, subscriber)
        subscriber.close()


def happened(gateway: Gateway, event: str) -> bool:
    """Return whether a gateway noted an event."""
    return event in gateway.events()


def certificates(folder: Path) -> tuple[Path, Path]:
    """Write a certificate for this machine, which signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(1))
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    builder = builder.add_extension(address, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    certificate, secret = folder / "test.crt", folder / "test.pem"
    certificate.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return certificate, secret


def test_tls_and_passwords(tmp_path: Path) -> None:
    """With certificate and password it works; without either it gets nowhere, says so and tries again."""
    certificate, secret = certificates(tmp_path)
    passwords = tmp_path / "passwords"
    subprocess.run(["mosquitto_passwd", "-b", "-c", str(passwords), "gateway", "right"], check=True)
    passwords.chmod(0o600)
    (tmp_path / "right").write_text("right\n")
    (tmp_path / "wrong").write_text("wrong\n")
    open_port = free_port()
    settings = [
        f"certfile {certificate}", f"keyfile {secret}", "allow_anonymous false", f"password_file {passwords}",
        f"listener {open_port} 127.0.0.1",
    ]  # fmt: skip
    with Broker(tmp_path / "broker", *settings) as broker:
        tls = f'[mqtt.tls]\nca_file = "{certificate}"\n'
        user = f'host = "127.0.0.1"\nuser = "gateway"\npassword_file = "{tmp_path}/'
        # No password, a wrong one, no certificate that vouches for the broker, and none at all.
        for more in (tls, f'{user}wrong"\n{tls}', f'{user}right"\n[mqtt.tls]\n', f'{user}right"\n'):
            gateway = Gateway(tmp_path, broker.port, more).start()
            await_true(partial(happened, gateway, "not connected"))
            assert gateway.stop() == 0
            assert "connected" not in gateway.events()
            (tmp_path / "gateway.log").unlink()
        gateway = Gateway(tmp_path, broker.port, f'{user}right"\n{tls}').start()
        subscriber = Subscriber(open_port, user="gateway", password="right")  # noqa: S106
        await_true(lambda: "connected" in gateway.events())
        Devices(open_port, [("home/a/raw", reading(t, t)) for t in range(COUNT)], "gateway", "right").send()
        await_true(lambda: len(subscriber.unique) == COUNT - 10)
        assert gateway.stop() == 0
        subscriber.close()


def test_releases_that_a_broker_refuses_wait(tmp_path: Path) -> None:
    """What its access list forbids to publish stays in the outbox, and the log says why."""
    (tmp_path / "acl").write_text("topic readwrite home/+/raw\n")
    with Broker(tmp_path / "broker", f"acl_file {tmp_path}/acl", "allow_anonymous true") as broker:
        gateway = Gateway(tmp_path, broker.port).start()
        await_true(partial(happened, gateway, "connected"))
        Devices(broker.port, [("home/a/raw", reading(t, t)) for t in range(20)]).send()
        await_true(partial(happened, gateway, "not connected"))
        assert gateway.stop() == 0
    assert any(line.get("reason") == "does not take what is released: Not authorized" for line in gateway.log())
    assert gateway.totals()["outbox"] == gateway.totals()["pending"] == 10


def test_what_is_named_must_be_there(tmp_path: Path, capsys) -> None:
    """Certificates and passwords are looked for before anything starts."""
    for more, message in (
        ('[mqtt.tls]\nca_file = "nowhere"', "a certificate or its key cannot be used"),
        ('user = "x"\npassword_file = "nowhere"', "the password file cannot be read"),
    ):
        gateway = Gateway(tmp_path, 1, more)
        assert run(["gateway", "--check", "-c", str(gateway.file)]) == 2
        assert message in capsys.readouterr().err
    assert run(["gateway", "--check", "-c", str(Gateway(tmp_path, 1).file), "--json"]) == 0
    checked = json.loads(capsys.readouterr().out)
    assert checked["watching the clock"].startswith("adds 0.")
    busy = socket.create_server(("127.0.0.1", 0))
    gateway = Gateway(tmp_path, 1, text=f"{CONFIGURATION}\n[metrics]\nport = {busy.getsockname()[1]}\n")
    assert run(["gateway", "-c", str(gateway.file)]) == 2
    assert "metrics cannot be offered" in capsys.readouterr().err
    busy.close()


def test_a_held_back_outbox_holds_back_inputs(tmp_path: Path, broker: Broker) -> None:
    """While the other broker is away, inputs are taken until the outbox is full, and not one is lost."""
    outside = Broker(tmp_path / "outside")
    more = f"[output]\nport = {outside.port}"
    text = CONFIGURATION.replace("[mqtt]", "max_outbox = 20\n[mqtt]\nin_flight = 5")
    gateway = Gateway(tmp_path, broker.port, more, text=text).start()
    await_true(lambda: "connected" in gateway.events())
    Devices(broker.port, [("home/a/raw", reading(t, t)) for t in range(200)]).send()
    await_true(lambda: gateway.totals()["outbox"] >= 20)
    assert gateway.totals()["outbox"] <= 30
    outside.start()
    subscriber = Subscriber(outside.port)
    await_true(lambda: len(subscriber.unique) == 190, 60)
    assert gateway.stop() == 0
    outside.kill()
    subscriber.close()


def test_gateways_import_nothing_heavy() -> None:
    """Small machines pay neither for numba nor for what reads tables and files."""
    code = (
        "import sys, whenmask.gateway.mqtt, whenmask.gateway.service, whenmask.cli.gateway\n"
        "from whenmask.gateway.configuration import Privacy\n"
        "whenmask.gateway.service.Law.of(Privacy(epsilon=4, window=48))\n"
        "heavy = {'numba', 'scipy', 'pyarrow', 'narwhals', 'pandas', 'polars', 'duckdb'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

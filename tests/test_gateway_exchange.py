"""The exchange and its state: the plan's release, through any batches, restarts, rollbacks and bad readings."""

import json
import os
import sqlite3
import subprocess
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gateways import reading
from whenmask.errors import SecretError
from whenmask.gateway.configuration import Fields, Privacy, Storage
from whenmask.gateway.exchange import Exchange, Inlet, Limits
from whenmask.gateway.reading import Reader
from whenmask.gateway.service import Law, choose_timing, opened_key
from whenmask.gateway.state import MEMORY, NoRoomError, State, StateError, inspect
from whenmask.keystream import Key
from whenmask.mechanisms import MECHANISMS

KEY = Key.for_testing(3)
FIELDS = Fields(time="time", time_format="s", move=["kwh"], max_ahead_seconds=0)
INLET = Inlet(Reader(FIELDS), "home/a/raw", "home/a/released")
PURE = Law.of(Privacy(epsilon=6, window=6, delay=10))


def opened(path: Path | str, law: Law = PURE, key: Key = KEY, *, encrypt: bool = True) -> State:
    """Return the state at a path."""
    return law.open_state(str(path), key, encrypt=encrypt)


def exchange(state: State, law: Law = PURE, limits: Limits = Limits(), key: Key = KEY) -> Exchange:  # noqa: B008
    """Return an exchange on a state."""
    return Exchange(law.course(key, state), state, limits)


def sent(one: Exchange) -> list[bytes]:
    """Return all that is to be sent."""
    return [message[1].payload for message in iter(one.next_outgoing, None)]


def take(one: Exchange, *payloads: bytes, inlet: Inlet = INLET) -> list[bytes]:
    """Take payloads as one batch; return what is to be sent."""
    one.take([(inlet, payload) for payload in payloads])
    return sent(one)


def planned(law: Law, state: State, count: int, series: object = "home/a/raw") -> list[bytes]:
    """Return what the plan of the same key releases, slot by slot."""
    plan = law.mechanism.plan(count, key=KEY, series=series, run=state.run)  # type: ignore[arg-type]
    empty = b'{"time":%d,"kwh":null}'
    return [reading(t, s) if s >= 0 else empty % t for t, s in enumerate(plan.source.tolist())]


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_releases_as_its_plan(name: str, tmp_path: Path) -> None:
    """Values missing, repeated and empty slots included; a restart after every batch changes nothing."""
    law = Law.of(Privacy(epsilon=4, window=6, mechanism=name, timing_delta=1e-2))
    released: list[bytes] = []
    for start in range(0, 400, 40):
        with opened(tmp_path / "s.db", law) as state:
            one = exchange(state, law)
            released += take(one, *(reading(t, t) for t in range(start, start + 40)))
            one.take([], range(1, state.newest_outgoing + 1))
    with opened(tmp_path / "s.db", law) as state:
        one = exchange(state, law)
        one.end([(INLET, name) for name in one.names()])
        assert released + sent(one) == planned(law, state, 400)
        assert one.pending == 0


def test_output_is_steady() -> None:
    """After the delay one slot leaves for each reading that comes, but for those that are not decided by then."""
    law = Law.of(Privacy(epsilon=6, window=6))
    with opened(MEMORY, law) as state:
        one = exchange(state, law)
        counts = [len(take(one, reading(t, t))) for t in range(500)]
    assert counts == [0] * law.timing.delay + [1] * (500 - law.timing.delay)
    assert one.counts["overdue"] == 0


def test_slots_that_are_not_decided_in_time_are_counted() -> None:
    """With a short delay some slots leave late, together with those that waited behind them."""
    law = Law.of(Privacy(epsilon=3, window=6, delay=0))
    with opened(MEMORY, law) as state:
        one = exchange(state, law)
        counts = [len(take(one, reading(t, t))) for t in range(300)]
    late = sum(counts[t] > 0 and sum(counts[:t]) < t for t in range(300))
    assert one.counts["overdue"] >= late > 10


def test_delays_are_natural_or_safe() -> None:
    """RanSwitch needs no more than its window, PureSwitch as much as the delta allows, and no less is accepted."""
    assert Law.of(Privacy(epsilon=4, window=9, mechanism="RanSwitch")).timing.delay == 8
    privacy = Privacy(epsilon=4, window=9, timing_delta=1e-4)
    timing = choose_timing(privacy, privacy.chosen())
    assert 0 < timing.delta <= 1e-4
    with pytest.raises(ValueError, match="`delay` must be at least 8"):
        Law.of(Privacy(epsilon=4, window=9, delay=7, mechanism="RanSwitch"))


@settings(max_examples=30)
@given(
    events=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30), st.sampled_from("-cr")), max_size=80),
)
def test_any_batches_and_restarts_release_the_same(events, tmp_path_factory) -> None:
    """Several series, readings that come again or late, cuts and restarts anywhere: one and the same release."""
    inlets = [Inlet(Reader(FIELDS), f"home/{n}/raw", f"home/{n}/released") for n in range(4)]
    folder = tmp_path_factory.mktemp("any")
    whole = opened(folder / "whole.db")
    reference = exchange(whole)
    messages = [(inlets[n], reading(t, 100 * n + t)) for n, t, _ in events]
    reference.take(messages)
    expected = [message[1] for message in iter(reference.next_outgoing, None)]
    parts = PURE.open_state(str(folder / "parts.db"), KEY, encrypt=True, run=whole.run)
    one, got, batch = exchange(parts), [], []
    for message, (_, _, after) in zip(messages, events, strict=True):
        batch.append(message)
        if after == "-":
            continue
        one.take(batch)
        got += [message[1] for message in iter(one.next_outgoing, None)]
        batch = []
        if after == "r":
            one.take([], range(1, parts.newest_outgoing + 1))
            parts.close()
            parts = opened(folder / "parts.db")
            one = exchange(parts)
    one.take(batch)
    got += [message[1] for message in iter(one.next_outgoing, None)]
    assert got == expected
    assert {k: v for k, v in one.totals().items() if v} == {k: v for k, v in reference.totals().items() if v}
    whole.close()
    parts.close()


def test_repeated_conflicting_and_late_readings() -> None:
    """The same reading again is dropped, another of the same time and an earlier one are refused."""
    with opened(MEMORY) as state:
        one = exchange(state, limits=Limits(dead_letters="refused"))
        take(one, *(reading(t, t) for t in (1, 2, 3, 5)))
        letters = take(one, reading(3, 3), reading(5, 5), reading(3, 4), reading(4, 4), reading(6, 6))
    assert one.counts["duplicates"] == 2
    assert {name: n for name, n in one.counts.items() if "refused" in name} == {
        "refused conflict": 1,
        "refused late": 1,
    }
    assert [json.loads(letter) for letter in letters] == [
        {"reason": "conflict", "topic": "home/a/raw"},
        {"reason": "late", "topic": "home/a/raw"},
    ]


def test_late_readings_may_be_accepted() -> None:
    """They take the next slot; that they came is remembered as of any other."""
    late = Inlet(Reader(Fields(time="time", time_format="s", move=["kwh"], late="accept", max_ahead_seconds=0)))
    times = [5, 3, 9, 1, 7]
    with opened(MEMORY) as state:
        one = exchange(state)
        take(one, *(reading(t, t) for t in times), reading(3, 3), reading(1, 1), inlet=late)
        assert one.counts["duplicates"] == 2
        assert one.counts["late"] == 3
        one.end([(late, None)])
        assert Counter(json.loads(m)["kwh"] for m in sent(one)) == Counter(t + 0.5 for t in times)


def test_bad_readings_stop_nobody(tmp_path: Path) -> None:
    """Between bad readings of all kinds the good ones of all series are released as planned."""
    bad = [b"", b"\xff" * 9, b"[" * 99_999, b'{"time":"x","kwh":1}', b'{"time":1}', b"x" * 10_000_000, b"null"]
    with opened(tmp_path / "s.db") as state:
        one = exchange(state)
        released = []
        for t in range(50):
            released += take(one, bad[t % len(bad)], reading(t, t), bad[(t + 3) % len(bad)])
        one.end([(INLET, "home/a/raw")])
        assert released + sent(one) == planned(PURE, state, 50)
        assert sum(n for name, n in one.counts.items() if name.startswith("refused")) == 100


def test_series_that_end_begin_anew_with_another_plan(tmp_path: Path) -> None:
    """After an end the series draws from a context of its own, and still knows what was late before."""
    with opened(tmp_path / "s.db") as state:
        one = exchange(state)
        first = take(one, *(reading(t, t) for t in range(30)))
        one.end([(INLET, "home/a/raw"), (INLET, "never heard of")])
        first += sent(one)
    with opened(tmp_path / "s.db") as state:
        one = exchange(state)
        one.take([], range(1, state.newest_outgoing + 1))
        second = take(one, reading(29, 29), *(reading(t, t) for t in range(30, 60)))
        one.end([(INLET, "home/a/raw")])
        second += sent(one)
        assert one.counts["refused late"] == 1
        again = PURE.mechanism.plan(30, key=KEY, series=("home/a/raw", 1), run=state.run).source.tolist()
        assert first == planned(PURE, state, 30)
    assert second == [reading(30 + t, 30 + s) for t, s in enumerate(again)]


def test_no_more_series_than_allowed() -> None:
    """Devices that make up ids fill no disk; known series go on."""
    inlet = Inlet(Reader(Fields(time="time", time_format="s", id=["m"], move=["kwh"], max_ahead_seconds=0)))
    with opened(MEMORY) as state:
        one = exchange(state, limits=Limits(series=2))
        take(one, *(b'{"time":1,"kwh":1,"m":%d}' % m for m in (1, 2, 3, 1)), inlet=inlet)
        take(one, b'{"time":2,"kwh":1,"m":1}', inlet=inlet)
    assert one.counts["refused too-many-series"] == 1
    assert one.series == 2


def test_many_series_are_walked_again_when_they_are_due(monkeypatch) -> None:
    """Only so many walks are held in memory; the others lose nothing."""
    monkeypatch.setattr("whenmask.gateway.exchange.MOST_HELD", 3)
    inlets = [Inlet(Reader(FIELDS), f"home/{n}/raw", f"{n}") for n in range(10)]
    with opened(MEMORY) as state:
        one = exchange(state)
        for t in range(40):
            one.take([(inlet, reading(t, t)) for inlet in inlets])
        one.end([(inlet, inlet.topic) for inlet in inlets])
        messages = [message[1] for message in iter(one.next_outgoing, None)]
        for n in range(10):
            got = [message.payload for message in messages if message.topic == f"{n}"]
            assert got == planned(PURE, state, 40, f"home/{n}/raw")


def test_a_long_outbox_waits_on_disk(monkeypatch) -> None:
    """Only so many messages are held in memory, and they come in order; sending again begins with the oldest."""
    monkeypatch.setattr("whenmask.gateway.exchange.MOST_WAITING", 7)
    with opened(MEMORY) as state:
        one = exchange(state)
        for start in range(0, 60, 5):
            one.take([(INLET, reading(t, t)) for t in range(start, start + 5)])
        everything = sent(one)
        assert len(everything) == one.outbox == 50
        one.take([], [1, 2, 3])
        one.send_again()
        assert sent(one) == everything[3:]


def test_at_rest_nothing_is_in_the_clear(tmp_path: Path) -> None:
    """Neither values, nor times, nor topics, nor the key; and all files are open to their owner only."""
    with opened(tmp_path / "s.db") as state:
        one = exchange(state, limits=Limits(dead_letters="refused"))
        take(one, *(b'{"time":%d,"kwh":"secret value"}' % (1_700_000_000 + t) for t in range(200)))
        files = sorted(tmp_path.iterdir())
        assert [oct(file.stat().st_mode & 0o777) for file in files] == ["0o600"] * 4
        held = b"".join(file.read_bytes() for file in files)
    for hidden in (b"secret", b"1700000", b"home/a", KEY.expose()[1:], KEY.expose()[1:].hex().encode()):
        assert hidden not in held
    with opened(tmp_path / "clear.db", encrypt=False) as state:
        take(exchange(state), b'{"time":1,"kwh":"secret value"}')
    assert b"secret" in (tmp_path / "clear.db").read_bytes()


def test_no_nonce_is_used_twice(tmp_path: Path) -> None:
    """Over restarts and rolled back transactions all sealed bytes have nonces of their own."""
    nonces: list[bytes] = []
    for start in range(3):
        with opened(tmp_path / "s.db") as state:
            one = exchange(state)
            take(one, *(reading(t, t) for t in range(start * 9, start * 9 + 9)))
            connection = sqlite3.connect(tmp_path / "s.db")
            for table in ("readings", "outbox", "series"):
                nonces += {row[0][:12] for row in connection.execute(f"SELECT content FROM {table}")}  # noqa: S608
            connection.close()
    assert len(set(nonces)) == len({*nonces})
    assert len({nonce[:4] for nonce in nonces}) == 3


def test_damaged_states_are_refused_with_how_to_recover(tmp_path: Path) -> None:
    """Wherever a file is damaged, it is refused at the start or when the damage is met, or it does no harm."""
    path = tmp_path / "s.db"

    def go_on() -> list[bytes]:
        with opened(path) as state:
            return take(exchange(state), *(reading(t, t) for t in range(300, 360)))

    with opened(path) as state:
        take(exchange(state), *(reading(t, t) for t in range(300)))
    whole = path.read_bytes()
    expected = go_on()
    refused: list[str] = []
    for where in range(0, len(whole), len(whole) // 40):
        path.write_bytes(whole[:where] + b"damaged " * 8 + whole[where + 64 :])
        try:
            assert go_on() == expected
        except StateError as error:
            refused.append(str(error))
    assert len(refused) > 10
    assert all("Hint: move the file away" in message for message in refused[1:])
    path.write_bytes(whole[:5000])
    with pytest.raises(StateError, match="the state is damaged. Hint: move the file away.*Never put back"):
        opened(path)


def test_foreign_states_are_refused(tmp_path: Path) -> None:
    """A state belongs to its key, mechanism, delay and form, and to one gateway; other SQLite files are none."""
    path = tmp_path / "s.db"
    with opened(path), pytest.raises(StateError, match="in use by another gateway. Hint: one gateway at a time"):
        opened(path)
    with pytest.raises(StateError, match="made with another key. Hint"):
        opened(path, key=Key.for_testing(4))
    with pytest.raises(StateError, match="made with another mechanism; got PureSwitch\\(window=6.*RanSwitch"):
        opened(path, Law.of(Privacy(epsilon=6, window=6, mechanism="RanSwitch")))
    with pytest.raises(StateError, match="made with another delay; got 10 in the state and 11 in the conf"):
        opened(path, Law.of(Privacy(epsilon=6, window=6, delay=11)))
    with pytest.raises(StateError, match="made with another encrypted"):
        opened(path, encrypt=False)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE binding SET value = 2 WHERE name = 'version'")
    connection.commit()
    connection.close()
    with pytest.raises(StateError, match="must be of version 1; got version 2"):
        opened(path)
    path.chmod(0o644)
    with pytest.raises(StateError, match="open to its owner only. Hint: run chmod 600"):
        opened(path)
    other = tmp_path / "other.db"
    sqlite3.connect(other).execute("CREATE TABLE t (x)").connection.close()
    other.chmod(0o600)
    with pytest.raises(StateError, match="not the state of a gateway"):
        opened(other)
    with pytest.raises(StateError, match="not the state of a gateway"):
        inspect(other)
    with pytest.raises(StateError, match="there is no state"):
        inspect(tmp_path / "nowhere.db")
    with pytest.raises(StateError, match="cannot be locked"):
        opened(tmp_path / "nowhere" / "s.db")


def test_a_state_that_is_lost_begins_a_new_run(tmp_path: Path) -> None:
    """The same key never draws the same for other readings: each state has a fresh run id."""
    runs = set()
    for name in ("a.db", "b.db"):
        with opened(tmp_path / name) as state:
            runs.add(state.run)
    assert len(runs) == 2
    assert inspect(tmp_path / "a.db")["binding"]["run"] in runs


def test_keys_are_made_once(tmp_path: Path) -> None:
    """Beside a new state a key is made; a state whose key is gone is refused rather than given another."""
    storage = Storage(file=str(tmp_path / "s.db"))
    key = opened_key(storage)
    assert oct((tmp_path / "s.db.key").stat().st_mode & 0o777) == "0o600"
    assert opened_key(storage).expose() == key.expose()
    opened(tmp_path / "s.db", key=key).close()
    (tmp_path / "s.db.key").unlink()
    with pytest.raises(SecretError, match="the key of the state is missing. Hint: put it back"):
        opened_key(storage)


@pytest.fixture
def small_disk(tmp_path: Path):
    """A file system with room for very little."""
    folder = tmp_path / "small"
    folder.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("needs root and mount, for a file system that can be filled")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill_up(ballast: Path) -> None:
    """Leave no room on a file system."""
    with ballast.open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 1024)


def test_a_full_disk_takes_nothing_and_loses_nothing(small_disk: Path) -> None:
    """Where there is no room, nothing is taken or sent; when there is, the same readings go the same way."""
    path = small_disk / "s.db"
    ballast = small_disk / "ballast"
    with opened(path) as state:
        one = exchange(state)
        released = take(one, *(reading(t, t) for t in range(20)))
        fill_up(ballast)
        batches = [[reading(t, t) for t in range(start, start + 40)] for start in range(20, 420, 40)]
        error = None
        while error is None:  # SQLite may have some room left
            before = one.totals(), one.pending, one.outbox, state.totals()
            try:
                released += take(one, *batches[0])
                batches.pop(0)
            except NoRoomError as no_room:
                error = no_room
        assert "the state cannot be written; got SQLITE_" in str(error)
        assert (one.totals(), one.pending, one.outbox, state.totals()) == before
        assert sent(one) == []
        ballast.unlink()
        for batch in batches:
            released += take(one, *batch)
        one.end([(INLET, "home/a/raw")])
        assert released + sent(one) == planned(PURE, state, 420)


def test_numbers_of_the_state_add_up(tmp_path: Path) -> None:
    """What is held in memory and what a stranger reads from the file agree."""
    generator = np.random.default_rng(1)
    with opened(tmp_path / "s.db") as state:
        one = exchange(state)
        inlets = [Inlet(Reader(FIELDS), f"home/{n}/raw", f"{n}") for n in range(5)]
        for t in range(100):
            one.take([(inlet, reading(t, t)) for inlet in inlets if generator.random() < 0.8])
        seen = inspect(tmp_path / "s.db")
        assert seen["running"]
        assert seen["totals"] | {"overdue": 0} == {
            **one.totals(), "series": 5, "pending": one.pending, "outbox": one.outbox, "overdue": 0,
        }  # fmt: skip
    assert not inspect(tmp_path / "s.db")["running"]

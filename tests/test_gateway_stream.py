"""`whenmask stream`, as a person would use it: a pipe in, a pipe out."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from threading import Timer

import pyarrow as pa
import pytest

from whenmask import Key, PureSwitch
from whenmask.gateway.configuration import Privacy
from whenmask.gateway.exchange import Exchange, Inlet, Limits
from whenmask.gateway.loading import parse_fields
from whenmask.gateway.pipe import finish, pipe, read_lines
from whenmask.gateway.reading import Reader
from whenmask.gateway.service import Law
from whenmask.gateway.state import NoRoomError

KEY = Key.for_testing(9)
LINES = [{"meter": meter, "time": t, "kwh": t + ord(meter) / 1000} for t in range(60) for meter in "ab"]
PLAIN = ["--time", "time", "--time-format", "s", "--by", "meter", "--epsilon", "6", "--window", "6"]


def stream(lines: list[dict] | bytes, *options: str, expect: int = 0) -> tuple[list[dict], str]:
    """Run the command; return what came out and what was said."""
    content = lines if isinstance(lines, bytes) else "".join(json.dumps(line) + "\n" for line in lines).encode()
    ran = subprocess.run(
        [sys.executable, "-m", "whenmask", "stream", *options], input=content, capture_output=True, check=False
    )
    assert ran.returncode == expect, ran.stderr.decode()
    assert b"Traceback" not in ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()], ran.stderr.decode()


def test_a_pipe_releases_what_a_table_releases(tmp_path: Path) -> None:
    """The same key and run give the same release, whether of a table or line by line."""
    key = Key.fresh()
    key.save(tmp_path / "key")
    released, said = stream(LINES, *PLAIN, "--key-file", str(tmp_path / "key"), "--run-id", "once")
    table = PureSwitch(6, window=6).release(
        pa.Table.from_pylist(LINES), by="meter", time="time", key=key, run="once"
    )
    by_slot = sorted(released, key=lambda line: (line["time"], line["meter"]))
    assert by_slot == sorted(table.to_pylist(), key=lambda line: (line["time"], line["meter"]))
    assert by_slot != LINES
    assert "120 lines in, 120 out, 0 waiting" in said


def test_a_state_goes_on_where_the_last_run_stopped(tmp_path: Path) -> None:
    """What waits is kept, what comes again is recognised, and all of it together is one release."""
    Key.fresh().save(tmp_path / "key")
    options = [*PLAIN, "--key-file", str(tmp_path / "key"), "--state", str(tmp_path / "state.db"), "--delay", "9"]
    first, said = stream(LINES[:70], *options)
    assert f"{len(first)} out, {70 - len(first)} waiting" in said
    second, said = stream(LINES[60:], *options)
    assert "10 came again" in said
    third, said = stream([], *options, "--end", "--quiet")
    assert said == ""
    released = [*first, *second, *third]
    assert Counter(line["kwh"] for line in released) == Counter(line["kwh"] for line in LINES)
    assert Counter((line["meter"], line["time"]) for line in released) == Counter(
        (line["meter"], line["time"]) for line in LINES
    )


def test_values_leave_as_they_come_in() -> None:
    """A line comes out while others are still to come: nothing waits for the end of the input."""
    command = [sys.executable, "-m", "whenmask", "stream", *PLAIN, "--mechanism", "RanSwitch"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ran:
        assert ran.stdin is not None
        assert ran.stdout is not None
        for t in range(6):
            ran.stdin.write(b'{"meter":1,"time":%d,"kwh":0.10}\n' % t)
            ran.stdin.flush()
        assert ran.stdout.readline() == b'{"time":0,"meter":1,"kwh":0.10}\n'
        ran.terminate()
        assert len(ran.stdout.read().splitlines()) == 5
        assert ran.wait() == 0


def test_a_stop_and_a_full_disk_lose_nothing(tmp_path: Path, monkeypatch) -> None:
    """SIGTERM stops the wait for input; a batch waits for room, and is then taken as a whole."""
    monkeypatch.setattr("whenmask.gateway.pipe.PAUSE", 0.01)
    law = Law.of(Privacy(epsilon=6, window=6, delay=9))
    inlet = Inlet(
        Reader(parse_fields({"time": "time", "time_format": "s", "move": ["kwh"], "max_ahead_seconds": 0}))
    )
    source, feed = os.pipe()
    read, sink = os.pipe()
    os.write(feed, b"".join(b'{"time":%d,"kwh":%d}\n' % (t, t) for t in range(40)))
    with law.open_state(str(tmp_path / "s.db"), KEY, encrypt=True) as state:
        exchange = Exchange(law.course(KEY, state), state, Limits())
        failures = [NoRoomError("the state cannot be written")] * 2
        take = exchange.take

        def full_at_first(messages: list, sent: list) -> None:
            if failures:
                raise failures.pop()
            take(messages, sent)

        monkeypatch.setattr(exchange, "take", full_at_first)
        Timer(1.0, os.kill, (os.getpid(), signal.SIGTERM)).start()
        pipe(exchange, inlet, 1000, source=source, sink=sink)
        assert exchange.pending == 9
        finish(exchange, [(inlet, None)], sink=sink)
        assert exchange.outbox == 0
        plan = law.mechanism.plan(40, key=KEY, run=state.run).source.tolist()
    os.close(sink)
    with os.fdopen(read, "rb") as released:
        assert [json.loads(line)["kwh"] for line in released] == plan
    os.close(source)
    os.close(feed)


def test_a_full_disk_does_not_hold_up_a_stop(tmp_path: Path, monkeypatch, capsys) -> None:
    """Who waits for room can still be stopped; nothing was taken, and the log says what was waited for."""
    monkeypatch.setattr("whenmask.gateway.pipe.PAUSE", 0.05)
    law = Law.of(Privacy(epsilon=6, window=6, delay=9))
    inlet = Inlet(Reader(parse_fields({"time": "time", "move": ["kwh"]})))
    source, feed = os.pipe()
    os.write(feed, b'{"time":"2025-01-01","kwh":1}\n')
    with law.open_state(str(tmp_path / "s.db"), KEY, encrypt=True) as state:
        exchange = Exchange(law.course(KEY, state), state, Limits())

        def full(*_: object) -> None:
            raise NoRoomError("the state cannot be written", "SQLITE_FULL")

        monkeypatch.setattr(exchange, "take", full)
        Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
        pipe(exchange, inlet, 1000, source=source, sink=-1)
        assert state.totals() == {"series": 0, "pending": 0, "outbox": 0}
    assert capsys.readouterr().err.count("no room for the state, waiting") == 1
    os.close(source)
    os.close(feed)


def test_long_lines_are_cut_as_they_come() -> None:
    """However long a line is, no more of it is held than tells that it is too long; blank lines are nothing."""
    source, feed = os.pipe()
    os.write(feed, b"one\n\n" + b"x" * 50 + b"\ntwo")
    os.close(feed)
    assert [line for lines in read_lines(source, 10) for line in lines] == [b"one", b"x" * 50, b"two"]
    os.close(source)


def test_lines_that_cannot_be_used_are_counted() -> None:
    """The others are released; then the reasons, a hint for the most frequent, and exit code 2."""
    long = b'{"meter":1,"time":7,"kwh":"' + b"x" * 300_000 + b'"}\n'
    content = b'{"meter":1,"time":1,"kwh":1}\n\nnonsense\n' + long + b'{"meter":1,"time":2,"kwh":2}'
    released, said = stream(content, *PLAIN, expect=2)
    assert {line["kwh"] for line in released} == {1, 2}
    assert "lines were left out; got 1 not-json, 1 too-long. Hint:" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--state", "s.db"], "`--state` needs `--key-file`"),
        (["--state", "s.db", "--run-id", "x"], "`--run-id` and `--state` exclude each other"),
        (["--values", "time"], "a field has one part"),
        (["--delay", "-1"], "`delay` must be at least 0"),
    ],
)
def test_options_that_do_not_go_together(options: list[str], message: str, tmp_path: Path, monkeypatch) -> None:
    """Each with what is wrong, before anything is read."""
    monkeypatch.chdir(tmp_path)
    assert message in stream(b"", *PLAIN, *options, expect=2)[1]
    assert list(tmp_path.iterdir()) == []

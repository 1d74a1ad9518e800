"""The configuration of a gateway: whatever is wrong is named, with its line and what is allowed."""

from pathlib import Path

import pytest
from msgspec.structs import fields

from whenmask.errors import FileError, ParameterError
from whenmask.gateway.configuration import (
    Broker,
    Configuration,
    Metrics,
    Privacy,
    Route,
    Storage,
)
from whenmask.gateway.lines import find_line
from whenmask.gateway.loading import load_configuration, parse_configuration
from whenmask.gateway.topics import check_filter, check_target, check_topic, fill, matcher, overlap

TEXT = """
dead_letters = "home/refused"
[privacy]
epsilon = 4
window = 48
[state]
file = "gateway.db"
[mqtt]
port = 1883
[[stream]]
from = "home/+/power/raw"
to = "home/{1}/power/released"
time = "time"
move = ["power"]
"""
ALLOWED_HERE = "the settings here are"


def test_a_small_file_is_enough() -> None:
    """What is not said has a default, the safest or the usual one."""
    read = parse_configuration(TEXT)
    assert read.privacy.mechanism == "PureSwitch"
    assert read.state.encrypt
    assert read.mqtt.address == ("localhost", 1883)
    assert read.stream[0].rest == "refuse"
    assert read.stream[0].late == "refuse"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("epsilon = 4", "epsilon = ", "is not TOML: Invalid value \\(at line 4"),
        ("epsilon = 4", "epsilon = -4", "line 4: `epsilon` must be finite and above zero; got epsilon=-4"),
        ("epsilon = 4", "", "line 3: the setting `epsilon` is missing"),
        ("window = 48", "window = '24h'", "line 5: `window` cannot be this; got `str`. Hint: allowed are whole n"),
        ("window = 48", "window = 1", "line 5: `window` must be at least 2"),
        ("window = 48", "windows = 48", f"line 5: there is no setting `windows` here. Hint: {ALLOWED_HERE} cal"),
        ("window = 48", "window = 48\nmechanism = 'Foo'", "line 6: `mechanism` names no mechanism; got 'Foo'. Hi"),
        ("file =", "encrypt = 'yes'\nfile =", "line 7: `encrypt` cannot be this; got `str`. Hint: allowed are tr"),
        ("file =", "max_outbox = 0\nfile =", "line 7: `max_outbox` must be at least 1; got 0"),
        ("port = 1883", "qos = 2", "line 9: `qos` must be 1; got 2. Hint: QoS 1 is what survives a crash"),
        ("port = 1883", "port = 0", "line 9: `port` must be from 1 to 65535; got 0"),
        ("port = 1883", "in_flight = 0", "line 9: `in_flight` must be from 1 to 65535; got 0"),
        ("port = 1883", "linger_seconds = -1", "line 9: `linger_seconds` must be 0 or more"),
        ("port = 1883", "password_file = 'x'", "line 9: `password_file` needs `user`"),
        ("port = 1883", "[mqtt.tls]\nca = 1", "line 10: there is no setting `ca` here. Hint: the settings here a"),
        ("[[stream]]", "[[streams]]", "line 10: there is no setting `streams` here"),
        ("+/power/raw", "a+/raw", "line 11: `from` must be a topic filter: \\+ stands for a whole level; got 'ho"),
        ("{1}", "{2}", "line 12: `to` must be a topic: the filter has 1 wildcards"),
        ("{1}/power/released", "{1}/power/raw", "line 12: what is released must not come back as a reading"),
        ('"home/refused"', '"home/x/power/raw"', "line 2: what is released must not come back as a reading"),
        ('"home/refused"', '"home/#"', "line 2: `dead_letters` must be a topic"),
        ('time = "time"', 'time = "time"\nlate = "no"', 'line 14: `late` cannot be this; got \'no\'. Hint: allow'),
        ('move = ["power"]', 'move = "power"', "line 14: `move` cannot be this; got `str`. Hint: allowed are lis"),
        ('move = ["power"]', 'move = ["power", "time"]', "line 10: a field has one part.*got 'time' in two"),
        ('move = ["power"]', "", "line 10: `move` must name a field, or `rest` be 'move'"),
        ('move = ["power"]', 'move = ["power"]\noptional = ["x"]', "line 15: `optional` names fields of `move`;"),
        ('move = ["power"]', 'move = ["power"]\nmax_bytes = 0', "line 15: `max_bytes` must be at least 1"),
        ('move = ["power"]', 'move = ["power"]\nmax_ahead_seconds = -1', "line 15: `max_ahead_seconds` must be 0"),
        ('move = ["power"]', 'move = ["power"]\nend_after_seconds = -1', "line 15: `end_after_seconds` must be 0"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_line(old: str, new: str, message: str) -> None:
    """The line, what is wrong there, what was got, and what is allowed."""
    assert old in TEXT
    with pytest.raises(ParameterError, match=message):
        parse_configuration(TEXT.replace(old, new, 1), "gateway.toml")


def test_the_example_shows_every_setting() -> None:
    """It is valid, and there is no setting that it does not name."""
    folder = Path(__file__).parent.parent / "examples" / "gateway"
    text = (folder / "gateway.toml").read_text(encoding="utf-8")
    assert load_configuration(folder / "gateway.toml").privacy.window == 48
    silent = {"calibrate", "client_id", "qos", "keepalive", "cert_file"}
    for section in (Privacy, Storage, Broker, Route, Metrics, Configuration):
        for field in fields(section):
            assert field.encode_name in text or field.encode_name in silent, field.encode_name


def test_topics_belong_to_one_stream() -> None:
    """Two streams must not take in the same topic; the second is named."""
    second = TEXT[TEXT.index("[[stream]]") :].replace("home/+/power/raw", "home/kitchen/+/raw")
    with pytest.raises(ParameterError, match="line 16: a topic must belong to one stream"):
        parse_configuration(TEXT + second, "gateway.toml")


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    """A missing file and one that is no text."""
    with pytest.raises(FileError, match="the configuration cannot be read; got No such file"):
        load_configuration(tmp_path / "nowhere.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(FileError, match="got no UTF-8 text"):
        load_configuration(tmp_path / "binary.toml")


def test_lines_are_found_in_nested_tables() -> None:
    """Tables, arrays of tables, tables within those, dotted and quoted keys."""
    text = 'a = 1\n[t]\nb.c = 2\n"d e" = 3\n[[x]]\n[x.y]\nf = 4\n[[x]]\n[x.y]\nf = 5\n'
    assert find_line(text, ("a",)) == 1
    assert find_line(text, ("t", "b", "c")) == 3
    assert find_line(text, ("t", "d e")) == 4
    assert find_line(text, ("x", 0, "y", "f")) == 7
    assert find_line(text, ("x", 1, "y", "f")) == 10
    assert find_line(text, ("x", 1, "z")) == 8
    assert find_line(text, ("nowhere",)) is None


@pytest.mark.parametrize(
    ("pattern", "topic", "filled"),
    [
        ("home/+/raw", "home/kitchen/raw", "out/kitchen"),
        ("home/+/raw", "home/kitchen/a/raw", None),
        ("home/+/raw", "home//raw", "out/"),
        ("home/#", "home/a/b", "out/a/b"),
        ("home/#", "home", "out/"),
        ("#", "a/b", "out/a/b"),
        ("+/a", "$SYS/a", None),
        ("a.b/+", "axb/c", None),
    ],
)
def test_wildcards_stand_for_what_they_match(pattern: str, topic: str, filled: str | None) -> None:
    """+ is one level, # the rest and the level above, and neither is a topic of the broker's own."""
    found = matcher(pattern).fullmatch(topic)
    assert (found and fill("out/{1}", found)) == filled


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ("a/+", "+/b", True),
        ("a/+", "b/+", False),
        ("a/#", "a", True),
        ("a/#", "a/b/c", True),
        ("a/+", "a/b/c", False),
        ("a/b", "a/b", True),
        ("#", "x/y", True),
    ],
)
def test_overlaps_are_seen(one: str, other: str, shared: bool) -> None:
    """Whether some topic matches both, in either order."""
    assert overlap(one, other) == shared
    assert overlap(other, one) == shared


@pytest.mark.parametrize("topic", ["", "a/+", "a/#", "$SYS/x", "a\0b", "x" * 70_000])
def test_topics_that_cannot_be_published_to(topic: str) -> None:
    """Wildcards, the broker's own, and what MQTT has no room for."""
    assert check_topic(topic)


@pytest.mark.parametrize("pattern", ["", "a/#/b", "a#", "a+/b", "$SYS/#", "a\0"])
def test_filters_that_mean_nothing(pattern: str) -> None:
    """Wildcards in the wrong place."""
    assert check_filter(pattern)
    assert check_filter("a/+/#") is None


def test_targets_name_wildcards_that_are_there() -> None:
    """{1} to {n}, and numbers only."""
    assert check_target("x/{1}/{2}", "+/#") is None
    for wrong in ("x/{0}", "x/{3}", "x/{}", "x/{a}", "x/{1}/+"):
        assert check_target(wrong, "+/#")

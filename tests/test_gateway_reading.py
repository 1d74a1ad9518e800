"""What messages say: values byte for byte, times to the nanosecond, and a reason for whatever is refused."""

import json
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whenmask.gateway.configuration import Fields
from whenmask.gateway.reading import REASONS, Reader, RefusedError, compose, stored_time

NOW = 1_767_225_600 * 10**9  # 2026-01-01


def reader(clock: int = NOW, **fields) -> Reader:
    """Return a reader whose clock stands still."""
    return Reader(Fields(**{"time": "time", "move": ["kwh"], **fields}), clock=lambda: clock)


def reason(payload: bytes, **fields) -> str:
    """Return why a message is refused."""
    with pytest.raises(RefusedError) as refused:
        reader(**fields).read(payload)
    return str(refused.value)


def test_values_pass_byte_for_byte() -> None:
    """Trailing zeros, large numbers, nested values and escapes are passed on as they came."""
    values = [
        b"0.10",
        b"12345678901234567890.123456789",
        b"1E400",
        b'{"a": [1,  2]}',
        b'"\\u00e9"',
        b"null",
        b"true",
    ]
    for value in values:
        stored = reader().read(b'{"kwh":%s,"time":"2025-12-31T00:00:00Z"}' % value).encode()
        assert compose(stored, stored, b"") == b'{"time":"2025-12-31T00:00:00Z","kwh":%s}' % value


def test_slots_keep_what_stays_and_show_what_moves() -> None:
    """Time, ids and kept fields are the slot's; the moving fields are the source's, all of them together."""
    one = reader(id=["meter"], keep=["unit"], move=["kwh", "volt"], optional=["volt"])
    first = one.read(b'{"meter":"m","time":"2025-12-31","kwh":1,"unit":"kWh","volt":230}').encode()
    second = one.read(b'{"meter":"m","kwh":2,"time":"2025-12-31T01:00"}').encode()
    assert compose(first, second, one.empty) == b'{"time":"2025-12-31","meter":"m","unit":"kWh","kwh":2}'
    assert compose(second, first, one.empty) == b'{"time":"2025-12-31T01:00","meter":"m","kwh":1,"volt":230}'
    assert compose(second, None, one.empty) == b'{"time":"2025-12-31T01:00","meter":"m","kwh":null}'


@pytest.mark.parametrize(
    ("rest", "released"),
    [
        ("move", b'{"time":1,"kwh":2,"more":3}'),
        ("keep", b'{"time":1,"more":3,"kwh":2}'),
        ("drop", b'{"time":1,"kwh":2}'),
    ],
)
def test_the_rest_has_the_part_that_is_chosen(rest: str, released: bytes) -> None:
    """Fields that nobody named move, stay or are dropped, where that is chosen."""
    stored = reader(rest=rest, time_format="s").read(b'{"time":1,"kwh":2,"more":3}').encode()
    assert compose(stored, stored, b"") == released


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b"", "not-json"),
        (b"hello", "not-json"),
        (b"[1]", "not-json"),
        (b'{"time":1,"kwh":NaN}', "not-json"),
        (b'{"time":1,"kwh":2}{}', "not-json"),
        (b'{"time":1,"kwh":"\xff"}', "not-json"),
        (b'{"time":1,"kwh":' + b"[" * 9999 + b"]" * 9999 + b"}", "not-json"),
        (b'{"time":1,"kwh":2,"more":3}', "unknown-field"),
        (b'{"time":1}', "missing-field"),
        (b'{"kwh":1}', "missing-field"),
        (b'{"time":null,"kwh":1}', "bad-time"),
        (b'{"time":"1","kwh":1}', "bad-time"),
        (b'{"time":1e30,"kwh":1}', "bad-time"),
        (b'{"time":true,"kwh":1}', "bad-time"),
        (b'{"time":9999999999999999999,"kwh":1}', "bad-time"),
        (b'{"time":1,"kwh":"' + b"x" * 70_000 + b'"}', "too-long"),
    ],
)
def test_unusable_messages_have_a_reason(payload: bytes, expected: str) -> None:
    """Each kind of unusable message has its own."""
    assert reason(payload, time_format="s") == expected


@pytest.mark.parametrize("time", ["", "noon", "2025-13-01", "0001-01-01T00:00:00+23:59", "9999-01-01", 7, None])
def test_times_that_are_none(time) -> None:
    """Texts that are no moment, and moments that 64 bits of nanoseconds do not reach."""
    assert reason(json.dumps({"time": time, "kwh": 1}).encode()) == "bad-time"


@pytest.mark.parametrize("meter", [None, True, 1.5, [1], {}, 1 << 64])
def test_ids_are_texts_or_whole_numbers(meter) -> None:
    """Whatever else could be mistaken for another id."""
    assert reason(json.dumps({"time": 1, "kwh": 1, "m": meter}).encode(), id=["m"], time_format="s") == "bad-id"


@given(
    st.datetimes(datetime(1700, 1, 1), datetime(2250, 1, 1)),
    st.integers(0, 999),
    st.none() | st.integers(-720, 720),
)
def test_iso_times_are_exact_to_the_nanosecond(moment: datetime, beyond: int, offset: int | None) -> None:
    """Any offset, none for UTC, and digits that datetime would drop."""
    zone = timezone.utc if offset is None else timezone(timedelta(minutes=offset))  # noqa: UP017
    moment = moment.replace(tzinfo=zone)
    written = f"{moment:%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + f".{moment.microsecond:06}{beyond:03}"
    written += "" if offset is None else moment.isoformat()[-6:]
    past = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017
    expected = (past // timedelta(microseconds=1)) * 1000 + beyond
    reading = reader(max_ahead_seconds=0).read(json.dumps({"time": written, "kwh": 1}).encode())
    assert reading.time == expected == stored_time(reading.encode())


@pytest.mark.parametrize(
    ("unit", "time", "nanoseconds"),
    [
        ("s", b"1.5", 1_500_000_000),
        ("s", b"-2", -2_000_000_000),
        ("ms", b"1700000000123", 1_700_000_000_123_000_000),
        ("us", b"1e3", 1_000_000),
        ("ns", b"1700000000123456789", 1_700_000_000_123_456_789),
    ],
)
def test_numbers_are_times_in_their_unit(unit: str, time: bytes, nanoseconds: int) -> None:
    """Without a detour through floats."""
    assert reader(time_format=unit).read(b'{"time":%s,"kwh":1}' % time).time == nanoseconds


def test_clocks_that_run_ahead_are_refused_by_a_clock_that_is_set() -> None:
    """A reading of the year 2099 would make all later ones late; a gateway that lost its clock judges nobody."""
    future = b'{"time":"2099-01-01T00:00:00Z","kwh":1}'
    assert reason(future) == "ahead"
    assert reader(clock=0).read(future)
    assert reader(max_ahead_seconds=0).read(future)
    assert reader().read(b'{"time":"2026-01-01T23:59:59Z","kwh":1}')


FIELD = st.sampled_from(["time", "kwh", "meter", "unit", "more", ""])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("2025-01-01"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | FIELD, inner, max_size=4),
    max_leaves=6,
)
OBJECTS = st.dictionaries(FIELD, JSON, max_size=6)
JUNK = st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()) | OBJECTS.map(
    lambda value: json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
)  # fmt: skip


@given(JUNK, st.sampled_from(["refuse", "move", "keep", "drop"]), st.sampled_from(["iso", "s"]))
def test_any_message_is_read_or_refused(payload: bytes, rest: str, unit: str) -> None:
    """Never another exception; and what is read composes to the same JSON object."""
    one = reader(id=["meter"], keep=["unit"], rest=rest, time_format=unit, max_ahead_seconds=0)
    refused = ""
    try:
        stored = one.read(payload).encode()
    except RefusedError as error:
        refused = str(error)
    if refused:
        assert refused in REASONS
        return
    released, came = json.loads(compose(stored, stored, one.empty)), json.loads(payload)
    if rest == "drop":
        came = {name: came[name] for name in released}
    assert repr(sorted(released.items())) == repr(sorted(came.items()))

"""The benchmarks: kernels take no more instructions than those on record, and what the page says is true."""

import json
import math
from importlib.metadata import version

import pytest

from benchmarks import instructions, page, utility
from benchmarks.timing import Row, slope
from whenmask import PureSwitch, RanSwitch


def test_kernels_take_the_instructions_on_record() -> None:
    """No kernel takes over 5% more or fewer instructions per value than those on record, with the same numba."""
    if reason := instructions.missing():
        pytest.skip(reason)
    record = json.loads(instructions.RECORD.read_text())
    if record["numba"] != version("numba"):
        pytest.skip("the record is of another numba: python -m benchmarks.instructions --record makes a new one")
    assert not instructions.changed(instructions.count(), record["instructions per value"])


def test_changes_of_instructions_are_noticed() -> None:
    """More and fewer by over 5%, and kernels that came or went, are named; smaller changes are not."""
    assert not instructions.changed({"a": 10.4}, {"a": 10.0})
    assert instructions.changed({"a": 10.6, "c": 1.0}, {"a": 10.0, "b": 2.0}) == [
        "a: 10.0 instructions per value on record; got 10.6 (+6%)",
        "b: 2.0 instructions per value on record; got None",
        "c: None instructions per value on record; got 1.0",
    ]


def test_the_lower_bound_is_one() -> None:
    """No mechanism is below the bound at its own epsilon and delta, and the cut only ever lowers it."""
    bounds = [utility.lower_bound(2, 5, reach=reach) for reach in (8, 16, 32)]
    assert bounds == sorted(bounds)
    assert math.isclose(bounds[1], bounds[2], rel_tol=1e-2)
    for epsilon in (1.0, 4.0):
        pure, random = PureSwitch(epsilon, window=6), RanSwitch(epsilon, window=6)
        bound = utility.lower_bound(epsilon, 6)
        assert bound < pure.expected_cost() < 4 * bound
        delta = random.guarantee.delta
        assert utility.lower_bound(epsilon, 6, delta=delta) < random.expected_cost()


def test_the_bound_of_the_smallest_case_is_known() -> None:
    """At window 2 neighbours differ by e^ε at most, so the best law falls by that factor from slot to slot."""
    fall = math.exp(-1.5)
    expected = 2 * fall / (1 - fall) ** 2 / (1 + 2 * fall / (1 - fall))
    # The solver keeps constraints to 1e-7 each.
    assert utility.lower_bound(1.5, 2, reach=40) == pytest.approx(expected, rel=1e-4)
    assert utility.lower_bound(1.6, 2, reach=40) != pytest.approx(expected, rel=1e-2)


def test_slopes_and_figures() -> None:
    """A line has its slope; a figure has a curve for each name."""
    assert slope([(1, 3), (10, 30), (100, 300)]) == pytest.approx(1)
    rows = [
        Row(f"{name}, values {n}", n * 1e-9, "s", 1e-3, None, f"{name} by values", n)
        for name in "ab"
        for n in (10, 1e7)
    ]
    assert page.drawn(rows).count("<polyline") == 2
    assert list(page.groups(rows)) == ["values"]


def test_a_section_shows_missed_targets_and_ratios() -> None:
    """A missed target is bold; where peers are compared, a row says how many times the first it is."""
    where = {"date": "2026-01-01", "commit": "abc", "machine": "one", "disturbance": ""}
    rows = [
        Row("keystream", 2.0, "ns", None, 2.5),
        Row("fast", 3.0, "ns", 4.0, 3.1),
        Row("slow", 5.0, "ns", 4.0, 5.1),
        Row("other", 7.0, "s"),
    ]
    lines = page.section("peers", rows, where).splitlines()
    assert "| fast | 3 | 3.1 | ns | 4 | 1.5 |" in lines
    assert "| slow | **5** | 5.1 | ns | 4 | 2.5 |" in lines
    assert "| other | 7 |  | s |  |  |" in lines
    assert "| slow | **5** | 5.1 | ns | 4 |" in page.section("tables", rows, where).splitlines()

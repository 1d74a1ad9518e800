"""explain, compare, choose and audit: the same figures as the library's, for people and for machines."""

import json
import math

import pytest

from whenmask import PureSwitch, RanSwitch, choose
from whenmask.choice import least_epsilon
from whenmask.cli import run
from whenmask.cli.show import bar, law_table, number
from whenmask.description import cost_parts, describe, mechanism_named
from whenmask.errors import ParameterError
from whenmask.mechanisms import MECHANISMS


def printed(arguments: list[str], capsys) -> str:
    """Run a command that must succeed; return what it printed."""
    assert run(arguments) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", MECHANISMS)
def test_explain_says_everything(name: str, capsys) -> None:
    """Parameters, law, cost by kind of damage, claim, guarantee and latency, as tables and as JSON."""
    arguments = ["explain", "--mechanism", name.lower(), "--epsilon", "4", "--window", "6"]
    shown = printed(arguments, capsys)
    for part in (name, "guarantee", "claim", "displacement", "missing", "repeated", "empty", "latency", "Law"):
        assert part in shown
    described = json.loads(printed([*arguments, "--json"], capsys))
    assert described["mechanism"] == name
    law = described["law"]
    once = sum(law["probabilities"]) + law["rest"] + law["missing"] - law["repeated"]
    assert math.isclose(once, 1, abs_tol=1e-9)
    assert math.isclose(sum(described["cost"].values()), 2 * described["cost"]["total"], rel_tol=1e-9)
    assert described["guarantee"]["basis"] == ("audited" if name in ("StaSwitch", "Forward") else "proved")
    assert (described["claim"] is None) == (name == "PureSwitch")
    if described["claim"]:
        assert described["claim"]["basis"] == "claimed by its paper"


def test_explain_calibrates_as_told(capsys) -> None:
    """Epsilon bounds the guarantee where there is one, or the claim if that is asked for."""
    arguments = ["explain", "--mechanism", "RanSwitch", "--epsilon", "3", "--window", "6", "--json"]
    proved = json.loads(printed(arguments, capsys))
    claimed = json.loads(printed([*arguments, "--calibrate", "claim"], capsys))
    assert math.isclose(proved["guarantee"]["epsilon"], 3, rel_tol=1e-9)
    assert math.isclose(claimed["claim"]["epsilon"], 3, rel_tol=1e-9)
    assert claimed["guarantee"]["epsilon"] < 3
    assert run([*arguments[:-1], "--calibrate", "hope"]) == 2
    assert "Choose from" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain", "--epsilon", "0", "--window", "6"], "`epsilon` must be finite and above zero; got epsilon=0"),
        (["explain", "--epsilon", "1", "--window", "1"], "`window` must be at least 2; got window=1"),
        (
            ["explain", "--epsilon", "1", "--window", "6", "--mechanism", "Shuffle"],
            "from PureSwitch, RanSwitch",
        ),
        (
            ["explain", "--mechanism", "StaSwitch", "--epsilon", "1", "--window", "6", "--calibrate", "guarantee"],
            "PureSw",
        ),
        (["explain", "--epsilon", "one", "--window", "6"], "one"),
        (["explain", "--window", "6"], "--epsilon"),
        (["choose", "--epsilon", "1", "--window", "6", "--max-latency", "0"], "no mechanism guarantees this"),
    ],
)
def test_bad_input_is_refused(arguments: list[str], message: str, capsys) -> None:
    """Exit code 2, the reason and a hint on standard error, and nothing else."""
    assert run(arguments) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert "Hint:" in shown.err
    assert shown.out == ""


def test_compare_lists_every_mechanism_at_every_epsilon(capsys) -> None:
    """A row each, the same as a table and as JSON; what cannot be had is named, not left out."""
    arguments = ["compare", "--window", "5", "--epsilon", "2", "4"]
    rows = json.loads(printed([*arguments, "--json"], capsys))
    assert [(row["epsilon"], row["mechanism"]) for row in rows] == [(e, m) for e in (2, 4) for m in MECHANISMS]
    table = printed(arguments, capsys)
    for name in MECHANISMS:
        assert table.count(name) >= 2
    assert "audited" in table
    assert "proved" in table
    assert "[SS] Theorem 2" not in table.partition("cost:")[2]


def test_choose_takes_the_cheapest_proof(capsys) -> None:
    """PureSwitch for delta 0; what was rejected is listed with its reason."""
    shown = printed(["choose", "--epsilon", "4", "--window", "10"], capsys)
    assert "chosen" in shown
    for reason in ("its delta is", "no guarantee is proved", "proved to be 1"):
        assert reason in shown
    listed = json.loads(printed(["choose", "--epsilon", "4", "--window", "10", "--json"], capsys))
    assert listed[0]["mechanism"] == "PureSwitch"
    assert listed[0]["rejected"] is None
    assert all(candidate["rejected"] for candidate in listed[1:])


def test_choose_weighs_delta_and_latency() -> None:
    """A generous delta lets RanSwitch in where it costs less; a latency keeps PureSwitch out."""
    generous = choose(1, window=10, delta=0.9)
    assert isinstance(generous.mechanism, RanSwitch)
    assert generous.mechanism.guarantee.delta <= 0.9
    assert isinstance(choose(6, window=10).mechanism, PureSwitch)
    assert isinstance(choose(2, window=10, delta=0.9, max_latency=9).mechanism, RanSwitch)
    # 1 in 100 slots waits for 18 values, though the mean is 1.8.
    assert choose(6, window=10, max_latency=18).mechanism.latency.p99 == 18
    with pytest.raises(ParameterError, match="PureSwitch: 1 in 100 slots waits for 18 values or more"):
        choose(6, window=10, max_latency=17)
    costs = [each.cost or 0.0 for each in generous.candidates if each.rejected in (None, "it costs more")]
    assert costs == sorted(costs)


def test_choose_says_why_nothing_fits() -> None:
    """The hint names every mechanism that was considered, and what would work for it."""
    with pytest.raises(
        ParameterError, match=r"PureSwitch: `epsilon` is too small for the window \(at window=10, 8"
    ):
        choose(1e-9, window=10)
    with pytest.raises(ParameterError, match="`delta` must be at most 1; got delta=2"):
        choose(4, window=10, delta=2)


def test_the_least_epsilon_reaches_its_delta() -> None:
    """The hint's epsilon really gives the delta, and a smaller one does not."""
    for delta in (0.01, 0.3, 0.6):
        least = least_epsilon(delta, 10)
        assert least
        assert RanSwitch(least, window=10).guarantee.delta <= delta
        assert RanSwitch(least * 0.999, window=10).guarantee.delta > delta
    assert least_epsilon(0, 10) is None
    assert least_epsilon(1, 10) == 0
    assert least_epsilon(1e-19, 10_000) is None
    with pytest.raises(ParameterError, match="the smallest epsilon that reaches delta=1e-06 is"):
        choose(1, window=10, delta=1e-6, max_latency=9)


def test_audit_finds_the_claim_wanting(capsys) -> None:
    """StaSwitch violates its claim; PureSwitch stands by its guarantee."""
    arguments = ["audit", "--epsilon", "4", "--window", "4", "--trials", "20000", "--mechanism"]
    assert "violates" in printed([*arguments, "StaSwitch", "--against", "claim"], capsys)
    result = json.loads(printed([*arguments, "PureSwitch", "--json"], capsys))
    assert result["violates"] is False
    assert "evidence" in result["verdict"]


def test_described_costs_are_the_laws() -> None:
    """The parts of the cost add up to the expected cost, and a described mechanism is plain data."""
    mechanism = mechanism_named("threshold", 1, 10)
    parts = cost_parts(mechanism.expected_cost)
    assert parts == cost_parts(mechanism.law().expected_cost)
    assert math.isclose(parts["missing"], 10 * mechanism.law().missing)
    assert math.isclose(parts["displacement"] + parts["missing"] + parts["empty"], parts["total"])
    json.dumps(describe(mechanism))


def test_a_law_too_wide_to_list_hides_nothing_else(capsys) -> None:
    """Cost, latency and guarantee do not need it."""
    arguments = ["explain", "--epsilon", "0.05", "--window", "10000"]
    assert "too wide" in printed(arguments, capsys)
    found = json.loads(printed([*arguments, "--json"], capsys))
    assert found["law"] is None
    assert found["cost"]["total"] == pytest.approx(PureSwitch(0.05, window=10_000).expected_cost())
    assert found["guarantee"]["epsilon"] <= 0.05 < found["latency"]["mean"]


def test_figures_are_short_and_bars_are_to_scale() -> None:
    """Four digits, a dash for what is not there, and eighths of a character."""
    assert [number(None), number(7), number(0.123456), number(1e-30)] == ["–", "7", "0.1235", "1e-30"]
    assert len(bar(1)) == 40
    assert bar(0) == ""
    assert len(bar(0.5)) == 20
    wide = law_table(describe(mechanism_named("RanSwitch", 4, 300))["law"], 300)
    assert wide.row_count <= 52


def test_proved_lower_bounds_stand_under_what_is_measured() -> None:
    """A delta below `least_delta` never holds, so it lies below what an audit measures."""
    for mechanism in (mechanism_named(name, 4, 6) for name in MECHANISMS):
        assert 0 <= mechanism.least_delta <= mechanism.guarantee.delta
    threshold = mechanism_named("Threshold", 8, 6)
    assert threshold.least_delta == threshold.guarantee.delta == 1
    assert threshold.guarantee.basis == "proved"
    assert mechanism_named("Forward", 4, 6).least_delta > 0.5

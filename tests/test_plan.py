"""Plans: applied to anything, counted exactly."""

import copy
import math
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from whenmask import Key, Plan, PureSwitch, RanSwitch, StaSwitch, UnitCosts, ideal_law
from whenmask.errors import DataError, ParameterError, SecretError
from whenmask.keystream import Context, Keystream
from whenmask.law import Costs
from whenmask.sampler import InPlace

MECHANISM = RanSwitch.from_probabilities(q=0.1, window=5)
KEY = Key.for_testing(3)


def plan_of(*source: int) -> Plan:
    """A plan with chosen sources."""
    return Plan(np.array(source, dtype=np.int64), 4, "chosen", None, "run", "testing")


def test_costs_are_counted_by_hand() -> None:
    """Displacement, missing, repeated and empty of a small plan, and their weighted sum."""
    costs = plan_of(1, 0, 0, -1, 4, 2).costs()
    assert costs == Costs(displacement=1 + 1 + 2 + 0 + 3, missing=2, repeated=1, empty=1, slots=6, window=4)
    assert costs.total() == 7 + 4 * (2 + 1 + 1)
    assert costs.total(UnitCosts(displacement=2, missing=10, repeated=100, empty=1000)) == 14 + 20 + 100 + 1000
    assert costs.per_slot() == costs.total() / 6
    assert plan_of().costs().per_slot() == 0


@pytest.mark.parametrize("name", ["displacement", "missing", "repeated", "empty"])
@pytest.mark.parametrize("cost", [math.nan, math.inf, -1, "1"])
def test_unit_costs_must_be_finite(name: str, cost) -> None:
    """A NaN price would silently poison every comparison."""
    with pytest.raises(ParameterError, match=f"`{name}` must be"):
        UnitCosts(**{name: cost})


def test_unit_costs_know_what_may_default() -> None:
    """Displacement has a price of its own; the others default to the window."""
    with pytest.raises(ParameterError, match="`displacement` must be a number"):
        UnitCosts(displacement=None)  # type: ignore[arg-type]
    assert UnitCosts(missing=0, repeated=0, empty=0).weigh(9, 1, 1, 1, 1) == 1


def test_plans_are_repeatable_and_distinct() -> None:
    """The same key, series and run give the same plan; any other gives another."""
    one, same = (MECHANISM.plan(300, key=KEY, series="a", run="r").source for _ in range(2))
    assert np.array_equal(one, same)
    others = [
        MECHANISM.plan(300, key=Key.for_testing(4), series="a", run="r"),
        MECHANISM.plan(300, key=KEY, series="b", run="r"),
        MECHANISM.plan(300, key=KEY, series="a", run="s"),
        MECHANISM.plan(300, key=KEY, series="a"),
        MECHANISM.plan(300, series="a", run="r"),
        RanSwitch.from_units(MECHANISM.unit + 1, window=5).plan(300, key=KEY, series="a", run="r"),
        StaSwitch.from_units(MECHANISM.unit, window=5).plan(300, key=KEY, series="a", run="r"),
    ]
    assert len({plan.source.tobytes() for plan in others} | {one.tobytes()}) == len(others) + 1


def test_plans_do_not_show_their_series() -> None:
    """A series id may be a person's; repr shows the length, the mechanism and the kind of key."""
    plan = MECHANISM.plan(3, key=KEY, series="Jane Doe")
    assert repr(plan) == f"<Plan: 3 slots, {MECHANISM.identity}, testing key>"
    assert plan.series == "Jane Doe"
    assert not plan.source.flags.writeable
    assert len(plan) == 3


@pytest.mark.parametrize("n", [-1, 1.5, "3", None])
def test_lengths_are_checked(n) -> None:
    """A length is a whole number, zero or more."""
    with pytest.raises(ParameterError, match="`n` must be"):
        MECHANISM.plan(n)


def test_release_is_plan_and_apply() -> None:
    """`release` draws a plan of the right length and applies it."""
    values = np.arange(50) / 7
    released = MECHANISM.release(values, key=KEY, series=1, run="r")
    assert np.array_equal(released, MECHANISM.plan(50, key=KEY, series=1, run="r").apply(values))
    assert MECHANISM.release([]) == []


def test_values_of_the_wrong_length_are_refused() -> None:
    """A plan serves one series of its own length, and the error shows no value."""
    with pytest.raises(DataError, match="differ in length; got 5 and 4"):
        MECHANISM.plan(5).apply([1, 2, 3, 4])


def test_the_ideal_law_is_even() -> None:
    """P_0 as given, the rest spread over the other displacements."""
    law = ideal_law(0.4, 4)
    assert law.probability(0) == 0.4
    assert law.probability(-3) == law.probability(2) == pytest.approx(0.1)
    assert law.probability(4) == 0
    for p0 in (-0.1, 1.1, math.nan):
        with pytest.raises(ParameterError, match="`p0` must be"):
            ideal_law(p0, 4)


@pytest.mark.parametrize("key", ["0" * 32, b"", bytes(32), 7])
def test_what_is_no_key_is_refused(key) -> None:
    """Nothing is taken for a key, or for its absence, but a key and None; and the error does not show it."""
    for use in (lambda: MECHANISM.plan(5, key=key), lambda: MECHANISM.stream(key=key)):
        with pytest.raises(SecretError, match="`key` must be a Key; got a (str|bytes|int)"):
            use()


def sent(plan: Plan) -> Plan:
    """Return a plan as it arrives in another process."""
    return pickle.loads(pickle.dumps(plan))  # noqa: S301 - our own


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, sent])
def test_copies_of_a_plan_are_as_read_only_as_it_is(again) -> None:
    """A plan can be sent to another process; what arrives is the same plan, and cannot be written to."""
    plan = MECHANISM.plan(20, key=KEY, series="meter", run="sent")
    other = again(plan)
    assert (other.source.tolist(), other.series, other.run) == (plan.source.tolist(), "meter", "sent")
    assert not other.source.flags.writeable
    assert repr(other) == repr(plan)


DRAWN = """
import warnings; warnings.simplefilter("ignore", RuntimeWarning)  # plain Python warns where words wrap around
from whenmask import *
key, drawn = Key.for_testing(4), []
for make in RanSwitch, StaSwitch, Threshold, Backward, Forward, PureSwitch:
    options = {} if make in (PureSwitch, Threshold) else {"calibrate": "claim"}
    for epsilon, window in (0.5, 7), (3, 4):
        mechanism = make(epsilon, window=window, **options)
        prefixes = mechanism.prefixes(5, 9, key=key)
        logs = mechanism.log_probabilities(prefixes).round(9).tolist()
        drawn.append((mechanism.plan(300, key=key, run="jit").source.tolist(), prefixes.tolist(), logs))
drawn.append(Piecewise(1, lower=0, upper=1).perturb([0.3] * 50, key=key, run="jit").values.tolist())
"""


def test_without_a_compiler_the_same_is_drawn() -> None:
    """With numba's compiler switched off every mechanism draws the same, and says the same of it."""
    compiled: dict[str, list] = {}
    exec(DRAWN, compiled)  # noqa: S102 - our own text
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-c", DRAWN + "print(drawn)"]
    plain = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert plain.stdout.strip() == str(compiled["drawn"])
    assert len(compiled["drawn"]) == 13


@pytest.mark.parametrize(
    "mechanism", [MECHANISM, StaSwitch(4, window=40, calibrate="claim"), PureSwitch(1, window=9)], ids=repr
)
def test_a_draw_works_where_its_result_is_wanted(mechanism) -> None:
    """In place it draws what it draws elsewhere; room that is too small is refused before anything is written."""
    plan = mechanism.plan(500, key=KEY, run="room").source
    draw = mechanism.draw(Keystream(KEY, Context(mechanism.identity, None, "room")))
    assert isinstance(draw, InPlace)
    source, filled = np.full(500, -7), 0
    for count in (0, 1, 99, 100, 300):
        released = draw.push_into(count, source[filled:])
        assert released.base is source
        filled += released.size
    source[filled:] = draw.finish()
    assert source.tolist() == plan.tolist()
    draw = mechanism.draw(Keystream(KEY, Context(mechanism.identity, None, "room")))
    source[:] = -7
    given = draw.push_into(100, source).size
    before = source.copy()
    with pytest.raises(ParameterError, match=f"got {99 - given + 10} places for {100 - given + 10} values"):
        draw.push_into(10, source[given:109])
    assert source.tolist() == before.tolist()

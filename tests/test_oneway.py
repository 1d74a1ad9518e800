"""Backward (BPM) and Forward (FPM): their laws, claims, draws, what they refuse."""

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import naive_dispatch
from tests.chisquare import ERROR_LEVEL, p_value
from tests.parity import check_late_law, drawn_in_chunks, walked_with_a_restart
from whenmask.errors import ParameterError
from whenmask.kernels import dispatch as kernels
from whenmask.keystream import Context, Key, Keystream
from whenmask.mechanisms.oneway import Backward, Forward, OneWay
from whenmask.stream import Stream

ONE = 1 << 64
BOTH = [Backward, Forward]
TWINS = {Backward: naive_dispatch.backward, Forward: naive_dispatch.forward}

mechanisms = st.builds(
    lambda kind, window, part: kind.from_units(
        max(1, int(part * (1 << 52)) * (ONE // window) >> 52), window=window
    ),
    st.sampled_from(BOTH),
    st.integers(2, 9),
    st.sampled_from([0.0, 0.3, 1.0]),
)


def keystream(mechanism: OneWay, number: int = 7) -> Keystream:
    """Return the keystream of a test."""
    return Keystream(Key.for_testing(number), Context(mechanism.identity, None, "test"))


def naive(mechanism: OneWay, words: Keystream, n: int) -> list[int]:
    """Return the sources that the naive twin draws."""
    return TWINS[type(mechanism)](words.words(0, n).tolist(), mechanism.window, mechanism.unit)


# ------------------------------------------------------------------------------------------- choosing parameters


@given(st.sampled_from(BOTH), st.floats(1e-6, 40), st.integers(2, 5000))
def test_claim_is_at_most_epsilon(kind, epsilon, window):
    """The odds are e^(ε/2), as published, and the claim never exceeds the epsilon asked for."""
    mechanism = kind(epsilon, window=window, calibrate="claim")
    assert mechanism.claim.epsilon <= epsilon
    # Not much less either: one unit more or less of q decides.
    assert math.isclose(mechanism.claim.epsilon, epsilon, rel_tol=1e-6)
    assert mechanism.claim.delta == 0
    odds = math.exp(epsilon / 2)
    assert math.isclose(mechanism.p, odds / (window - 1 + odds), rel_tol=1e-6)


@given(st.floats(1e-6, 20), st.integers(2, 500))
def test_guarantee_of_backward(epsilon, window):
    """Calibrated to the guarantee, Backward's odds are e^ε; delta is that of the theorem, and above p."""
    mechanism = Backward(epsilon, window=window)
    guarantee = mechanism.guarantee
    assert guarantee.epsilon <= epsilon
    assert math.isclose(guarantee.epsilon, epsilon, rel_tol=1e-6)
    assert guarantee.delta >= mechanism.p
    exact = 1 - (1 - mechanism.p) * (1 - mechanism.q) ** (2 * window - 3)
    assert math.isclose(guarantee.delta, exact, rel_tol=1e-9)
    assert guarantee.basis == "proved"
    assert math.isclose(mechanism.claim.epsilon, 2 * guarantee.epsilon)


@pytest.mark.parametrize("distance", [1, 2])
def test_guarantee_of_backward_by_enumeration(distance):
    """Window 3: no pair of neighbours needs more than the stated delta, and the farthest needs just that."""
    mechanism = Backward.from_probabilities(q=0.2, window=3)
    steps, i = 7, 1
    rows = naive_dispatch.offset_rows("backward", 3, 0.2, steps)
    swap = {i: i + distance, i + distance: i}
    epsilon = math.log(mechanism.p / mechanism.q)
    for at in (epsilon, epsilon / 2):
        delta = sum(
            max(0.0, chance - math.exp(at) * rows.get(tuple(swap.get(v, v) for v in row), 0.0))
            for row, chance in rows.items()
        )
        assert delta <= mechanism.guarantee.delta_at(at) + 1e-12
        if distance == 2 and at == epsilon:
            assert math.isclose(delta, mechanism.guarantee.delta, rel_tol=1e-9)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0, "window": 5}, "`epsilon` must be finite and above zero"),
        ({"epsilon": "1", "window": 5}, "`epsilon` must be a number"),
        ({"epsilon": 1, "window": 1}, "`window` must be at least 2; got window=1"),
        ({"epsilon": 1, "window": 5.0}, "`window` must be a whole number"),
        ({"epsilon": 1e-30, "window": 5}, "`epsilon` is too small for the window; got epsilon=1e-30"),
    ],
)
def test_bad_input(kind, arguments, message):
    """Each wrong parameter gets an error that says what would work."""
    with pytest.raises(ParameterError) as error:
        kind(**arguments, calibrate="claim")
    assert str(error.value).startswith(message)


def test_calibrations_that_there_are():
    """Forward has no guarantee to calibrate to, and says what has; neither takes a made-up calibration."""
    with pytest.raises(ParameterError, match=r"no guarantee is proved for Forward; .* Hint: PureSwitch"):
        Forward(1, window=5)
    with pytest.raises(ParameterError, match="`calibrate` names no calibration"):
        Forward(1, window=5, calibrate="hope")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="`calibrate` names no calibration"):
        Backward(1, window=5, calibrate="hope")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("window", [3, 10, 77])
def test_least_epsilon_works(kind, window):
    """The error for an epsilon that is too small names one that works."""
    with pytest.raises(ParameterError, match="epsilon=") as error:
        kind(1e-30, window=window, calibrate="claim")
    assert error.value.hint is not None
    least = float(error.value.hint.rpartition("epsilon=")[2])
    assert kind(least, window=window, calibrate="claim").claim.epsilon <= least


@pytest.mark.parametrize("kind", BOTH)
def test_identity_and_repr(kind):
    """The representation makes the mechanism again, and the kinds have different identities."""
    mechanism = kind.from_units(5, window=4)
    assert eval(repr(mechanism)) == mechanism  # noqa: S307 - our own text
    assert mechanism.identity == f"{kind.__name__}(window=4, unit=5)"


# ------------------------------------------------------------------------------------------------------- the law


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(("window", "q"), [(2, 0.5), (2, 0.1), (3, 0.2), (4, 0.15)])
def test_law_by_enumeration(kind, window, q):
    """P_d, missing, repeated and empty agree with the enumeration of all choices around one value or slot."""
    steps, middle = 2 * window - 1, window - 1
    rows = naive_dispatch.offset_rows(kind.__name__.lower(), window, q, steps)
    released = np.zeros(window)
    missing = repeated = empty = 0.0
    for row, chance in rows.items():
        slots = [slot for slot, value in enumerate(row) if value == middle]
        for slot in slots:
            released[slot - middle] += chance
        # Forward: all writers to the slots middle … 2·window−2 that count come no later than those slots.
        missing += chance * (not slots)
        repeated += chance * max(0, len(slots) - 1)
        empty += chance * (row[middle] < 0)
    law = kind.from_probabilities(q=q, window=window).law()
    np.testing.assert_allclose(law.probabilities, released, rtol=1e-9)
    assert math.isclose(law.missing, missing, rel_tol=1e-9)
    assert math.isclose(law.repeated, repeated, rel_tol=1e-9, abs_tol=1e-15)
    assert math.isclose(law.empty, empty, rel_tol=1e-9, abs_tol=1e-15)
    assert math.isclose(law.probabilities.sum(), 1 - law.missing + law.repeated)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("epsilon", [1, 4, 8])
def test_expected_cost_by_simulation(kind, epsilon):
    """The cost of a plan of 10^6 slots is within 1% of the law's."""
    mechanism = kind(epsilon, window=10, calibrate="claim")
    costs = mechanism.plan(1_000_000, key=Key.for_testing(epsilon), run="costs").costs()
    assert math.isclose(costs.per_slot(), mechanism.expected_cost(), rel_tol=0.01)
    law = mechanism.law()
    for counted, expected in (
        (costs.missing, law.missing),
        (costs.repeated, law.repeated),
        (costs.empty, law.empty),
    ):
        assert math.isclose(counted / 1e6, expected, rel_tol=0.03, abs_tol=1e-4)


@pytest.mark.parametrize("kind", BOTH)
def test_draws_follow_the_law(kind):
    """Displacements of far-apart slots fit the law; error level 1e-6. A law 10% off in P_0 is refused."""
    window = 6
    mechanism = kind.from_probabilities(q=0.1, window=window)
    source = mechanism.plan(4 * window * 40_000, key=Key.for_testing(5), run="law").source
    slots = np.arange(2 * window, source.size, 4 * window)
    check_late_law(source, mechanism.law(), window, slots)


# -------------------------------------------------------------------------------------------------------- parity


@given(mechanisms, st.lists(st.integers(0, 30), max_size=6), st.integers(0, 5))
def test_chunks_are_naive(mechanism, chunks, number):
    """Drawn in any chunks, the plan is the naive twin's; nothing is left at the end."""
    words = keystream(mechanism, number)
    assert drawn_in_chunks(mechanism, words, chunks) == naive(mechanism, words, sum(chunks))


@given(mechanisms, st.integers(0, 60), st.integers(0, 60))
def test_walk_is_naive_with_a_restart_anywhere(mechanism, before, after):
    """Walked one by one, with the state handed to a new walk anywhere, the plan is the naive twin's."""
    words = keystream(mechanism)
    walked = walked_with_a_restart(mechanism, words, before, after)
    assert walked == naive(mechanism, words, before + after)


@given(mechanisms, st.data())
def test_words_at_the_bounds(mechanism, data):
    """Words at the bounds between offsets fall on the side that integers say, in all three forms."""
    bounds = {0, ONE} | {ONE - count * mechanism.unit for count in range(1, mechanism.window)}
    words = sorted({word for bound in bounds for word in (bound - 1, bound) if 0 <= word < ONE})
    script = data.draw(st.lists(st.sampled_from(words), min_size=1, max_size=60))
    expected = TWINS[type(mechanism)](script, mechanism.window, mechanism.unit)
    stream = naive_dispatch.Script(script)
    assert mechanism.draw(stream).push(len(script)).tolist() == expected
    walk = mechanism.walk(stream)
    assert [source for _ in script for source in walk.push()] == expected


@given(mechanisms, st.integers(0, 60), st.integers(0, 60))
def test_stream_is_the_plan_with_a_snapshot_anywhere(mechanism, before, after):
    """A stream, restored from a snapshot made anywhere, releases what the plan says; memory is the window's."""
    key, n = Key.for_testing(3), before + after
    expected = [None if s < 0 else f"value {s}" for s in mechanism.plan(n, key=key, series="a", run="r").source]
    stream = mechanism.stream(key=key, series="a", run="r")
    values = [f"value {i}" for i in range(n)]
    released = stream.push_many(values[:before])
    again = Stream(mechanism, key=key).restore(stream.snapshot())
    released += again.push_many(values[before:])
    assert again.pending <= mechanism.window - 1
    assert released + again.flush() == expected


def test_kernel_in_plain_python():
    """The kernel's lines, run as Python, do what they do compiled."""
    offsets = np.array([2, 0, 1, 1, 0, 2, 2, 0])
    results = []
    for kernel in (kernels.forward, kernels.forward.py_func):
        ring = np.full(3, -1)
        results.append((kernel(offsets, 4, ring).tolist(), ring.tolist()))
    assert results[0] == results[1]
    assert results[0][0] == [-1, 5, 4, 6, 8, -1, -1, 11]


def test_streams_need_no_numba():
    """A stream never imports numba."""
    code = (
        "import sys; from whenmask.mechanisms.oneway import Backward, Forward;"
        "[kind.from_probabilities(q=.1, window=5).stream().push_many(range(50)) for kind in (Backward, Forward)];"
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --------------------------------------------------------------------------------------------------- for an audit


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(("window", "q", "steps"), [(2, 0.3, 7), (3, 0.2, 6), (4, 0.1, 5), (5, 0.15, 4)])
def test_log_probabilities_are_exact(kind, window, q, steps):
    """Every row has the probability that enumeration gives it: they sum to one, and nothing else is possible."""
    mechanism = kind.from_probabilities(q=q, window=window)
    rows = naive_dispatch.offset_rows(kind.__name__.lower(), window, q, steps)
    logs = mechanism.log_probabilities(np.array(list(rows)))
    np.testing.assert_allclose(np.exp(logs), list(rows.values()), rtol=1e-9)
    assert math.isclose(np.exp(logs).sum(), 1, rel_tol=1e-9)
    for row in list(rows)[::7]:
        others = {(*row[:i], value, *row[i + 1 :]) for i in range(len(row)) for value in range(-2, steps + 1)}
        for a in range(steps):
            for b in range(a):
                others.add(tuple(a if v == b else b if v == a else v for v in row))
        logs = mechanism.log_probabilities(np.array(list(others)))
        np.testing.assert_allclose(np.exp(logs), [rows.get(other, 0.0) for other in others], rtol=1e-9)


@pytest.mark.parametrize("kind", BOTH)
def test_prefixes_follow_their_probabilities(kind):
    """Prefixes of independent series fit their stated probabilities; error level 1e-6, 10% more q is refused."""
    mechanism = kind.from_probabilities(q=0.2, window=3)
    rows = mechanism.prefixes(20_000, 5, key=Key.for_testing(11))
    assert rows.shape == (20_000, 5)
    assert np.array_equal(rows[:100], mechanism.prefixes(100, 5, key=Key.for_testing(11)))
    drawn, counts = np.unique(rows, axis=0, return_counts=True)
    assert {tuple(row) for row in drawn.tolist()} <= set(
        naive_dispatch.offset_rows(kind.__name__.lower(), 3, 0.2, 5)
    )
    for q, refused in ((0.2, False), (0.22, True)):
        stated = kind.from_probabilities(q=q, window=3)
        chances = np.exp(stated.log_probabilities(drawn))
        # The last cell is for all that was not drawn.
        p = p_value(np.append(counts, 0), np.append(chances, 1 - chances.sum()))
        assert (p < ERROR_LEVEL) == refused


def test_replay_in_plain_python():
    """The replay's lines, run as Python, give what they give compiled."""
    mechanism = Forward.from_probabilities(q=0.2, window=4)
    rows = mechanism.prefixes(50, 8, key=Key.for_testing(1)).copy()
    rows[::5] = rows[::5, ::-1]
    logs = kernels.log_forward.py_func(rows, 4, mechanism.p, mechanism.q)
    np.testing.assert_allclose(logs, mechanism.log_probabilities(rows))
    assert np.isneginf(logs).any()


@pytest.mark.parametrize(("trials", "steps"), [(-1, 5), (5, -1), (2.5, 5)])
def test_prefixes_need_whole_numbers(trials, steps):
    """Trials and steps are counts."""
    with pytest.raises(ParameterError, match=r"`(trials|steps)` must be"):
        Forward.from_probabilities(q=0.2, window=4).prefixes(trials, steps, key=Key.for_testing(1))

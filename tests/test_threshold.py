"""Threshold (TM, ETM): its law, its claim, its draws, what it refuses."""

import math
import subprocess
import sys
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import naive_dispatch
from tests.chisquare import ERROR_LEVEL, p_value
from tests.parity import check_late_law, drawn_in_chunks, walked_with_a_restart
from whenmask.audit.exact import enumerated, exact_deltas
from whenmask.errors import ParameterError
from whenmask.kernels import dispatch as kernels
from whenmask.keystream import Context, Key, Keystream
from whenmask.mechanisms.threshold import Threshold, claimed_epsilon, dispatches, fitting
from whenmask.stream import Stream

ONE = 1 << 64
# Window 10: cost per timestamp by claimed epsilon, as printed in the paper.
PRINTED = [13.1, 7.6, 5.1, 4.0, 3.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
EXACTLY = [13.09, 7.59, 5.07, 4.0, 3.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]

mechanisms = st.integers(3, 9).flatmap(
    lambda window: st.builds(
        Threshold.from_units,
        st.sampled_from([1, ONE // 3, ONE - 1, ONE]),
        threshold=st.integers(2, window - 1),
        window=st.just(window),
    )
)


def keystream(mechanism: Threshold, number: int = 7) -> Keystream:
    """Return the keystream of a test."""
    return Keystream(Key.for_testing(number), Context(mechanism.identity, None, "test"))


def naive(mechanism: Threshold, words: Keystream, n: int) -> list[int]:
    """Return the sources that the naive twin draws."""
    return naive_dispatch.threshold(
        words.words(0, n).tolist(), mechanism.window, mechanism.threshold, mechanism.unit
    )


# ------------------------------------------------------------------------------------------- choosing parameters


@pytest.mark.parametrize("epsilon", range(1, 15))
def test_costs_of_the_paper(epsilon):
    """Window 10: the expected cost is the paper's, and a simulation of 10^6 slots is within 1% of the law."""
    mechanism = Threshold(epsilon, window=10, calibrate="claim")
    cost = mechanism.expected_cost()
    assert round(cost, 1) == PRINTED[epsilon - 1]
    assert round(cost, 2) == EXACTLY[epsilon - 1]
    start, n = 10_000, 1_000_000
    source = mechanism.plan(start + n, key=Key.for_testing(epsilon), run="costs").source[start:]
    slots = np.arange(start, start + n)
    filled = source >= 0
    # In the steady state a value is missing just where its own slot is empty.
    lost = 2 * mechanism.window * (~filled).mean()
    late = (slots - source)[filled].sum() / n
    assert math.isclose(late + lost, cost, rel_tol=0.01)


@pytest.mark.parametrize(("epsilon", "threshold", "rho"), [(1, 31, 0.023), (2, 25, 0.075), (4, 18, 0.376)])
def test_parameters_at_window_40(epsilon, threshold, rho):
    """Window 40: threshold and ρ are the published ones."""
    mechanism = Threshold(epsilon, window=40, calibrate="claim")
    assert (mechanism.threshold, round(mechanism.rho, 3)) == (threshold, rho)


def test_largest_claim_at_window_4():
    """Window 4, threshold 3 claims 2·ln 3 = 2.197, whatever larger epsilon is asked for."""
    assert round(Threshold(window=4, threshold=3).claim.epsilon, 3) == 2.197
    assert Threshold(9, window=4, calibrate="claim") == Threshold(window=4, threshold=3)


@given(st.floats(0.001, 20), st.integers(3, 40))
def test_claim_is_at_most_epsilon(epsilon, window):
    """The claim never exceeds the epsilon asked for, and is the ratio of the law's extremes."""
    mechanism = Threshold(epsilon, window=window, calibrate="claim")
    assert mechanism.claim.epsilon <= epsilon
    law = mechanism.law().probabilities
    assert math.isclose(mechanism.claim.epsilon, 2 * math.log(law.max() / law.min()), abs_tol=1e-12)
    if mechanism.unit < ONE:
        # One more unit of ρ would claim too much.
        assert claimed_epsilon(mechanism.threshold, mechanism.unit + 1, window) > epsilon


@given(st.floats(0.01, 15), st.integers(3, 24))
def test_choice_of_threshold_by_its_definition(epsilon, window):
    """The threshold is the largest that claims enough, or the smallest whose last P_d is not too large."""
    laws = {c: Threshold(window=window, threshold=c).law().probabilities for c in range(2, window)}
    enough = [c for c, law in laws.items() if 2 * math.log(law.max() / law.min()) <= epsilon]
    flat = [c for c, law in laws.items() if 2 * math.log(law[-1] / law[1]) <= epsilon]
    threshold, unit = fitting(epsilon, window)
    assert threshold == (max(enough) if enough else min(flat))
    assert (unit == ONE) == bool(enough)


def test_claim_is_never_rounded_down():
    """The claim as a float is at least the exact ratio's logarithm: e^claim covers the ratio of the integers."""
    for window in (4, 10, 33):
        for threshold in range(2, window):
            mechanism = Threshold.from_units(ONE // 3, threshold=threshold, window=window)
            own, *rest = dispatches(window, threshold)
            weights = [Fraction(mechanism.unit, ONE) * own, *map(Fraction, rest)]
            ratio = max(weights) / min(weights)
            with localcontext(prec=80):
                exact = 2 * (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()
            claim = mechanism.claim.epsilon
            assert claim >= exact
            assert math.nextafter(claim, 0) < exact


# ------------------------------------------------------------------------------------------------------- the law


@pytest.mark.parametrize("window", range(3, 9))
@pytest.mark.parametrize("rho", [1.0, 0.3])
def test_law_is_that_of_the_chain(window, rho):
    """P_d, missing and empty agree with the stationary law of the enumerated chain."""
    for threshold in range(2, window):
        law = Threshold.from_probabilities(rho=rho, threshold=threshold, window=window).law()
        chain, missing = naive_dispatch.threshold_law(window, threshold, rho)
        np.testing.assert_allclose(law.probabilities, chain, rtol=1e-9)
        assert math.isclose(law.missing, missing, abs_tol=1e-12)
        assert law.empty == law.missing
        assert law.repeated == 0


@pytest.mark.parametrize("window", [3, 10, 80, 200])
def test_law_in_integers(window):
    """At every size the weights sum to a Stirling number, and the mean delay is window − threshold."""
    for threshold in {2, 3, window // 2, window - 1} & set(range(2, window)):
        weights = dispatches(window, threshold)
        signed = sum((-1) ** (threshold - m) * math.comb(threshold, m) * m**window for m in range(threshold + 1))
        assert sum(weights) * math.factorial(threshold) == signed
        assert sum(d * weight for d, weight in enumerate(weights)) == (window - threshold) * sum(weights)
        law = Threshold(window=window, threshold=threshold).law()
        assert math.isclose(law.mean_displacement, window - threshold)
        assert math.isclose(law.probabilities.sum(), 1)


def test_closed_form_of_the_law():
    """P_d is Σ C(d−1, m)·{window−2−m, threshold−1} over the total, as documented."""

    def stirling(n: int, m: int) -> int:
        total = sum((-1) ** (m - j) * math.comb(m, j) * j**n for j in range(m + 1))
        return total // math.factorial(m)

    window, threshold = 17, 6
    expected = [stirling(window - 1, threshold - 1)] + [
        sum(math.comb(d - 1, m) * stirling(window - 2 - m, threshold - 1) for m in range(d))
        for d in range(1, window)
    ]
    assert dispatches(window, threshold) == tuple(expected)


def test_etm_has_the_same_mean_delay_of_its_chain():
    """ρ scales P_0 only: what is lost is (1−ρ)·P_0 of TM, and the rest of the law is TM's."""
    tm = Threshold(window=12, threshold=5).law()
    etm = Threshold.from_probabilities(rho=0.25, threshold=5, window=12).law()
    np.testing.assert_allclose(etm.probabilities[1:], tm.probabilities[1:], rtol=1e-15)
    assert math.isclose(etm.probabilities[0], tm.probabilities[0] / 4)
    assert math.isclose(etm.missing, tm.probabilities[0] * 3 / 4)


@pytest.mark.parametrize(("threshold", "rho"), [(4, 1.0), (6, 0.3)])
def test_draws_follow_the_law(threshold, rho):
    """Displacements of far-apart slots fit the law; error level 1e-6. A law 10% off in P_0 is refused."""
    window = 8
    mechanism = Threshold.from_probabilities(rho=rho, threshold=threshold, window=window)
    gap = 40 * window
    source = mechanism.plan(gap * 40_000, key=Key.for_testing(5), run="law").source
    slots = np.arange(gap - 1, source.size, gap)
    check_late_law(source, mechanism.law(), window, slots)


# ------------------------------------------------------------------------------------------------------- parity


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
    """Words at the bounds of a choice fall on the side that integers say, in all three forms."""
    bounds = {0, mechanism.unit, ONE}
    for count in range(mechanism.threshold, mechanism.window + 1):
        bounds |= {-(-chosen * ONE // count) for chosen in range(count + 1)}
    words = sorted({word for bound in bounds for word in (bound - 1, bound) if 0 <= word < ONE})
    script = data.draw(st.lists(st.sampled_from(words), min_size=1, max_size=60))
    expected = naive_dispatch.threshold(script, mechanism.window, mechanism.threshold, mechanism.unit)
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
    """The kernel's lines, run as Python, do what they do compiled; the largest word and window do not overflow."""
    words = keystream(Threshold(window=5, threshold=2)).words(0, 200)
    for unit in (ONE // 2, ONE):
        results = []
        for kernel in (kernels.threshold, kernels.threshold.py_func):
            ring, empties = np.full(5, -1), np.arange(5)
            results.append(kernel(words, 0, ring, empties, 2, np.uint64(unit - 1))[0].tolist())
        assert results[0] == results[1]
    window = 1 << 20
    ring, empties = np.full(window, -1), np.arange(window)
    last = np.array([ONE - 1], np.uint64)
    kernels.threshold(last, 0, ring, empties, 2, np.uint64(ONE - 1))
    assert ring[-1] == 0


def test_a_long_window_draws_at_once():
    """At window 10,000 the mechanism draws, whatever its law would take: no value is lost, and none is early."""
    mechanism = Threshold(window=10_000, threshold=4000)
    source = mechanism.plan(200_000, key=Key.for_testing(1), run="r").source
    slots = np.flatnonzero(source >= 0)
    late = slots - source[slots]
    assert 0 <= late.min() < late.max() < 10_000
    assert np.unique(source[slots]).size == slots.size
    assert (source < 0).sum() == 6000
    assert naive(mechanism, Keystream(Key.for_testing(1), Context(mechanism.identity, None, "r")), 300) == (
        source[:300].tolist()
    )


def test_stream_needs_no_numba():
    """A stream never imports numba."""
    code = (
        "import sys; from whenmask.mechanisms.threshold import Threshold;"
        "Threshold(window=5, threshold=2).stream().push_many(range(50)); assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ------------------------------------------------------------------------------------- plans and what they cost


def test_tm_loses_nothing_after_the_warm_up():
    """TM leaves window − threshold slots empty at the start, then none; what is on its way at the end is lost."""
    mechanism = Threshold(window=9, threshold=4)
    for number in range(20):
        plan = mechanism.plan(3000, key=Key.for_testing(number), run="r")
        empty = np.flatnonzero(plan.source < 0)
        assert empty.size == 5
        assert empty.max() < 1000
        assert plan.costs().missing == 5
        assert plan.costs().repeated == 0


def test_empty_slots_come_out_as_such():
    """Apply puts NaN into empty slots and a stream its `empty`."""
    mechanism = Threshold.from_probabilities(rho=0.1, threshold=3, window=4)
    key = Key.for_testing(2)
    plan = mechanism.plan(100, key=key, run="r")
    released = plan.apply(np.arange(100.0))
    assert np.array_equal(np.isnan(released), plan.source < 0)
    assert np.isnan(released).sum() > 10
    streamed = mechanism.stream(key=key, run="r", empty="nothing").push_many(range(100))
    assert [x == "nothing" for x in streamed] == (plan.source < 0).tolist()


# --------------------------------------------------------------------------------------------------- for an audit

TINY = [(3, 2, 1.0, 6), (3, 2, 0.5, 6), (4, 2, 0.3, 5), (4, 3, 1.0, 5), (5, 3, 0.7, 4)]


@pytest.mark.parametrize(("window", "threshold", "rho", "steps"), TINY)
def test_log_probabilities_are_exact(window, threshold, rho, steps):
    """Every row has the probability that enumeration gives it: they sum to one, and nothing else is possible."""
    mechanism = Threshold.from_probabilities(rho=rho, threshold=threshold, window=window)
    rows = naive_dispatch.threshold_rows(window, threshold, rho, steps)
    logs = mechanism.log_probabilities(np.array(list(rows)))
    np.testing.assert_allclose(np.exp(logs), list(rows.values()), rtol=1e-12)
    assert math.isclose(np.exp(logs).sum(), 1, rel_tol=1e-9)
    # Any change of one entry, or exchange of two values, is a row of the enumeration or impossible.
    for row in list(rows)[::7]:
        others = {(*row[:i], value, *row[i + 1 :]) for i in range(len(row)) for value in range(-2, steps + 1)}
        for a in range(steps):
            for b in range(a):
                others.add(tuple(a if v == b else b if v == a else v for v in row))
        logs = mechanism.log_probabilities(np.array(list(others)))
        np.testing.assert_allclose(np.exp(logs), [rows.get(other, 0.0) for other in others], rtol=1e-12)


def test_prefixes_follow_their_probabilities():
    """Prefixes of independent series fit their stated probabilities; error level 1e-6, 10% more ρ is refused."""
    mechanism = Threshold.from_probabilities(rho=0.5, threshold=2, window=3)
    rows = mechanism.prefixes(20_000, 5, key=Key.for_testing(11))
    assert np.array_equal(rows[:100], mechanism.prefixes(100, 5, key=Key.for_testing(11)))
    drawn, counts = np.unique(rows, axis=0, return_counts=True)
    law = naive_dispatch.threshold_rows(3, 2, 0.5, 5)
    assert {tuple(row) for row in drawn.tolist()} <= set(law)
    for rho, refused in ((0.5, False), (0.55, True)):
        stated = Threshold.from_probabilities(rho=rho, threshold=2, window=3)
        chances = np.exp(stated.log_probabilities(drawn))
        # The last cell is for all that was not drawn.
        p = p_value(np.append(counts, 0), np.append(chances, 1 - chances.sum()))
        assert (p < ERROR_LEVEL) == refused


def test_replay_in_plain_python():
    """The replay's lines, run as Python, give what they give compiled."""
    mechanism = Threshold.from_probabilities(rho=0.5, threshold=2, window=4)
    rows = mechanism.prefixes(50, 8, key=Key.for_testing(1))
    rows[::5] = rows[::5, ::-1]
    logs = kernels.log_threshold.py_func(rows, 4, 2, math.log(0.5), math.log(0.5))
    np.testing.assert_allclose(logs, mechanism.log_probabilities(rows))
    assert np.isneginf(logs).any()


# -------------------------------------------------------------------------------------------------------- surface


def test_identity_and_repr():
    """The representation makes the mechanism again, and different laws have different identities."""
    mechanism = Threshold.from_units(5, threshold=2, window=4)
    assert eval(repr(mechanism)) == mechanism  # noqa: S307 - our own text
    others = [Threshold(window=4, threshold=2), Threshold(window=5, threshold=2), Threshold(window=5, threshold=3)]
    assert len({m.identity for m in [mechanism, *others]}) == 4
    assert mechanism.claim.basis == "claimed by its paper"
    assert mechanism.claim.delta == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"window": 10, "threshold": 1},
            "`threshold` must be at least 2; got threshold=1. Hint: at window=10 it is be",
        ),
        (
            {"window": 10, "threshold": 10},
            "`threshold` must be below `window`; got threshold=10. Hint: at window=10 it",
        ),
        ({"window": 10, "threshold": 2.5}, "`threshold` must be a whole number"),
        ({"window": 2, "threshold": 2}, "`window` must be at least 3; got window=2"),
        ({"window": 1 << 33, "threshold": 2}, "`window` must be at most 2^32"),
        ({"window": 10}, "give one of `epsilon` and `threshold`; got neither"),
        ({"epsilon": 1, "window": 10, "threshold": 2}, "give one of `epsilon` and `threshold`; got both"),
        (
            {"epsilon": 1, "window": 10, "calibrate": "guarantee"},
            'no guarantee is proved for Threshold; got calibrate="guarantee". Hint: Pu',
        ),
        ({"epsilon": 1, "window": 10, "calibrate": "hope"}, "`calibrate` names no calibration"),
        ({"epsilon": 0, "window": 10, "calibrate": "claim"}, "`epsilon` must be finite and above zero"),
        ({"epsilon": math.nan, "window": 10, "calibrate": "claim"}, "`epsilon` must be finite and above zero"),
        ({"epsilon": 1, "window": 2, "calibrate": "claim"}, "`window` must be at least 3"),
        ({"epsilon": 1e-20, "window": 10, "calibrate": "claim"}, "`epsilon` is too small for the window"),
    ],
)
def test_bad_input(arguments, message):
    """Each wrong parameter gets an error that says what would work."""
    with pytest.raises(ParameterError) as error:
        Threshold(**arguments)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("window", [4, 10, 33])
def test_least_epsilon_works(window):
    """The error for an epsilon that is too small names one that works."""
    with pytest.raises(ParameterError, match="epsilon=") as error:
        Threshold(1e-30, window=window, calibrate="claim")
    assert error.value.hint is not None
    least = float(error.value.hint.rpartition("epsilon=")[2])
    assert Threshold(least, window=window, calibrate="claim").claim.epsilon <= least


@pytest.mark.parametrize("rho", [0, -0.5, 1.5, math.nan, "1"])
def test_bad_rho(rho):
    """ρ must be a number above 0 and at most 1."""
    with pytest.raises(ParameterError, match="`rho` must be"):
        Threshold.from_probabilities(rho=rho, threshold=2, window=4)


@pytest.mark.parametrize("unit", [0, ONE + 1])
def test_bad_unit(unit):
    """ρ in units is between 1 and 2^64."""
    with pytest.raises(ParameterError, match="`unit` must be"):
        Threshold.from_units(unit, threshold=2, window=4)


def test_epsilon_chooses_by_the_claim():
    """Without a word on calibration epsilon is the paper's, as a threshold has no other."""
    assert Threshold(epsilon=2, window=40) == Threshold(epsilon=2, window=40, calibrate="claim")
    assert Threshold(epsilon=2, window=40).guarantee.delta == 1


@pytest.mark.parametrize(("window", "threshold", "rho"), [(3, 2, 0.5), (4, 3, 0.6), (4, 2, 0.3), (4, 3, 1)])
def test_nothing_is_guaranteed(window, threshold, rho):
    """δ = 1 at every ε, by enumeration: timestamps 0 and window − 1 show in no release of both worlds."""
    mechanism = Threshold.from_probabilities(rho=rho, threshold=threshold, window=window)
    plans = enumerated(mechanism, 2 * window)
    assert (plans.gap < 1e-12, mechanism.guarantee.basis) == (True, "proved")
    deltas = exact_deltas(mechanism, 30.0, plans=plans)
    assert deltas[0, window - 1] == pytest.approx((1, 1), abs=1e-12)
    assert mechanism.guarantee.delta == mechanism.least_delta == 1
    # Away from the start values can be lost, which helps a little, but not below the bound of the steady state.
    assert 1 - mechanism.law().missing <= min(deltas[1, window]) + 1e-12
    assert (min(deltas[1, window]) < 1 - 1e-9) == (rho < 1 and window - threshold == 1)


def test_window_3_claims_nothing():
    """At window 3 all P_d are equal, so that every epsilon fits."""
    assert Threshold(1e-300, window=3, calibrate="claim") == Threshold(window=3, threshold=2)
    assert Threshold(window=3, threshold=2).claim.epsilon == 0

"""The audit: its bounds, its instruments against slow and exact figures, and saboteurs that it must catch.

Statistical tests state their error level; the keys are fixed.
"""

import io
import json
import math
import sys
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from tests.naive_audit import delta, hockey_stick, ranswitch_losses, switch_plans
from tests.saboteurs import SABOTEURS
from whenmask import Backward, Forward, Key, RanSwitch, StaSwitch, Threshold
from whenmask.audit import AuditResult, Settings, audit, exact_deltas, measured_guarantee
from whenmask.audit.exact import Enumeration, enumerated
from whenmask.audit.intervals import clopper_pearson, empirical_bernstein, imbalance, surprise
from whenmask.audit.losses import added, designed, pair_results, tallied
from whenmask.audit.subject import UNDECIDED, View, exchanged
from whenmask.errors import ParameterError
from whenmask.mechanisms.pureswitch import PureSwitch

ALONE = Settings(workers=1)
BOTH = Settings(workers=2)


# ---------------------------------------------------------------------------------------------------------- bounds


@pytest.mark.parametrize(
    ("count", "trials", "low", "high"),
    # The first two are tabulated in many places, such as R's binom.test; none and all have closed forms.
    [
        (8, 10, 0.4439045, 0.9747893),
        (1, 20, 0.0012651, 0.2487328),
        (0, 30, 0.0, 1 - 0.025 ** (1 / 30)),
        (30, 30, 0.025 ** (1 / 30), 1.0),
    ],
)
def test_clopper_pearson_gives_known_intervals(count, trials, low, high) -> None:
    """At level 0.05 the intervals are the tabulated ones."""
    assert clopper_pearson(count, trials, 0.05) == pytest.approx((low, high), abs=1e-6)


def test_clopper_pearson_is_the_inverted_binomial_test() -> None:
    """At both ends the tail is exactly half the level, also at levels as small as an audit uses."""
    for count, trials, level in [(3, 50, 1e-3), (700, 1000, 1e-8), (1, 100_000, 1e-9), (99_999, 100_000, 1e-9)]:
        low, high = clopper_pearson(count, trials, level)
        assert stats.binom.sf(count - 1, trials, low) == pytest.approx(level / 2, rel=1e-6)
        assert stats.binom.cdf(count, trials, high) == pytest.approx(level / 2, rel=1e-6)


def test_empirical_bernstein_is_the_published_formula() -> None:
    """Maurer and Pontil's Theorem 4 on each side, at half the level each, worked out by hand."""
    low, high = empirical_bernstein(0.3, 0.1, 1000, 0.01)
    width = math.sqrt(2 * 0.1 * math.log(2 / 0.005) / 1000) + 7 * math.log(2 / 0.005) / (3 * 999)
    assert (low, high) == pytest.approx((0.3 - width, 0.3 + width), rel=1e-12)
    assert empirical_bernstein(0.001, 0.0, 100, 0.01)[0] == 0.0


def test_surprise_bounds_the_binomial_tail_and_is_not_far_from_it() -> None:
    """It is never below the exact two-sided tail of a count, and its exponent is more than half the exact one."""
    for trials, p, observed in [(1000, 0.5, 600), (10_000, 0.01, 180), (100_000, 1e-5, 20), (500, 0.3, 90)]:
        bound = surprise(np.array([float(observed)]), np.array([trials * p]), np.array([trials * p * (1 - p)]))
        mean = trials * p
        exact = (
            stats.binom.sf(observed - 1, trials, p) if observed > mean else stats.binom.cdf(observed, trials, p)
        )
        assert exact <= bound
        assert math.log(bound) < 0.6 * math.log(exact)
    assert surprise(np.array([5.0]), np.array([5.0 + 1e-12]), np.array([0.0])) == 1.0
    assert surprise(np.array([1.0]), np.array([0.0]), np.array([0.0])) < 1e-10


def test_imbalance_is_the_sign_test() -> None:
    """Two counts are compared like heads and tails, times the number of cells."""
    assert imbalance(np.array([0, 3]), np.array([20, 3])) == pytest.approx(2 * 2 * 0.5**20)
    assert imbalance(np.array([10, 0]), np.array([10, 0])) == 1.0


# ---------------------------------------------------------------------------------------------- Theorem A, exactly


@pytest.mark.parametrize("window", [2, 3, 4])
@pytest.mark.parametrize("q", [Fraction(1, 100), Fraction(1, 20), Fraction(1, 5), None])
def test_ranswitch_loses_exactly_what_is_proved(window, q) -> None:
    """Every pair, near the start and away from it, followed choice by choice: δ(ε) to 1e-12."""
    mechanism = RanSwitch.from_probabilities(q=q or Fraction(1, window), window=window)
    p, q = mechanism.p, mechanism.q
    unit = math.log(p / q)
    worst = dict.fromkeys(at := [0.0, unit / 3, unit * 0.9, unit + 1e-9, unit + 3], 0.0)
    for i in range(window + 1):
        for distance in range(1, window):
            losses = ranswitch_losses(q, window, i, i + distance)
            dangerous = min(distance, max(0, i + distance + 1 - window))
            for epsilon in at:
                kept = (1 - q) ** dangerous * (1 - p / (p + q) * max(0.0, 1 - math.exp(epsilon - unit)))
                assert delta(losses, unit, epsilon) == pytest.approx(1 - kept, abs=1e-12)
                worst[epsilon] = max(worst[epsilon], delta(losses, unit, epsilon))
    for epsilon in at:
        assert mechanism.guarantee.delta_at(epsilon) == pytest.approx(worst[epsilon], abs=1e-12)


@pytest.mark.parametrize(
    ("kind", "window", "q", "steps"),
    [(RanSwitch, 2, 0.2, 7), (RanSwitch, 3, 0.3, 6), (StaSwitch, 3, 0.1, 6), (StaSwitch, 4, 0.25, 5)],
)
def test_exact_instrument_finds_what_enumeration_finds(kind, window, q, steps) -> None:
    """All plans, their probabilities, and δ(ε) of all pairs in both directions, to 1e-12."""
    mechanism = kind.from_probabilities(q=q, window=window)
    naive = switch_plans(mechanism.p, mechanism.q, window, steps, window - 1 if kind is StaSwitch else None)
    plans = enumerated(mechanism, steps)
    assert plans.gap < 1e-12
    found = dict(zip(map(tuple, plans.rows.tolist()), np.exp(plans.logs), strict=True))
    assert found == pytest.approx(naive, abs=1e-15)
    for epsilon in (0.0, 0.7, 3.0):
        for (i, j), both in exact_deltas(mechanism, epsilon, plans=plans).items():
            assert both == pytest.approx(hockey_stick(naive, i, j, epsilon), abs=1e-12)


def test_the_two_directions_are_told_apart() -> None:
    """A world that cannot produce what the other can is worse to be mistaken for; counted by hand."""
    plans = Enumeration(np.array([[0, 1], [1, 0]]), np.log([0.5, 0.5]), 0.0)
    # Only 0.3 of the other world's releases are among these.
    other = np.log([0.2, 0.1])
    assert plans.delta(other, 0.0) == pytest.approx((0.7, 0.7))
    assert plans.delta(other, math.log(2)) == pytest.approx((0.1 + 0.3, 0.7))
    assert plans.delta(np.log([0.9, 0.1]), math.log(2)) == pytest.approx((0.3, 0.0))


def test_exact_instrument_agrees_with_theorem_a() -> None:
    """At ε₀ nothing but infinite losses counts, and these are seen at once: no need to wait."""
    for window in (2, 3, 4):
        mechanism = RanSwitch.from_probabilities(q=0.1, window=window)
        deltas = exact_deltas(mechanism, mechanism.guarantee.epsilon)
        assert max(max(both) for both in deltas.values()) == pytest.approx(mechanism.guarantee.delta, abs=1e-12)


# ----------------------------------------------------------------------------------------------- log-probabilities


@pytest.mark.parametrize("kind", [RanSwitch, StaSwitch])
def test_log_probabilities_compiled_and_plain_agree(kind) -> None:
    """The loop says the same as machine code and in plain Python, for rows that can be drawn or not."""
    from whenmask.kernels import switch

    mechanism = kind.from_probabilities(q=0.07, window=5)
    rows = mechanism.prefixes(40, 30, key=Key.for_testing(2))
    rows = np.concatenate([rows, exchanged(rows, 3, 6), rows - 7, rows + 100, np.full((1, 30), UNDECIDED)])
    stays = np.log1p(-(4 - np.arange(5) * (kind is StaSwitch)) * mechanism.q)
    plain = switch.log_probabilities.py_func(rows, mechanism.reach, stays, math.log(mechanism.q))
    np.testing.assert_array_equal(mechanism.log_probabilities(rows), plain)
    assert np.isfinite(plain[:40]).all()
    assert np.isneginf(plain[80:]).all()


@pytest.mark.parametrize("kind", [RanSwitch, StaSwitch])
def test_prefixes_are_the_beginnings_of_plans(kind) -> None:
    """What is audited is what is released: the sampler in use, in the contexts that it is used with."""
    mechanism = kind.from_probabilities(q=0.05, window=10)
    key = Key.for_testing(3)
    rows = mechanism.prefixes(20, 50, key=key)
    for trial, row in enumerate(rows):
        plan = mechanism.plan(100, key=key, series=trial, run="audit").source
        assert (plan[:50] == row).all()


# ------------------------------------------------------------------------------------------ the sampled instrument


def measured(mechanism, epsilon, distances, trials):
    """Return what the sampled instrument measures, at the error level 1e-6."""
    design = designed(mechanism, epsilon, distances, 5)
    tally = added([tallied(mechanism, design, i, size) for i, size in enumerate(design.chunks(trials))])
    return pair_results(tally, design, 1e-6)


@pytest.mark.parametrize("part", [0.25, 0.9, 1.0])
def test_sampled_instrument_finds_theorem_a_at_window_10(part) -> None:
    """At every distance and place the interval holds the exact δ(ε) (error level 1e-6), and is narrow."""
    mechanism = RanSwitch.from_probabilities(q=0.03, window=10)
    p, q = mechanism.p, mechanism.q
    epsilon = part * math.log(p / q)
    pairs = measured(mechanism, epsilon, tuple(range(1, 10)), 20_000)
    assert {pair.distance for pair in pairs} == set(range(1, 10))
    assert {pair.i for pair in pairs} >= {0, 9, 10, 30}
    for pair in pairs:
        dangerous = min(pair.distance, max(0, pair.j + 1 - 10))
        infinite = 1 - (1 - q) ** dangerous
        exact = 1 - (1 - infinite) * (1 - p / (p + q) * (1 - math.exp(epsilon - math.log(p / q))))
        assert pair.infinite[0] <= infinite <= pair.infinite[1]
        assert pair.delta[0] - 1e-12 <= exact <= pair.delta[1]
        assert pair.delta[1] - pair.delta[0] < 0.06
        # Power: a tenth off is outside, wherever there is something to be seen.
        assert exact < 0.3 or not pair.delta[0] <= 1.1 * exact <= pair.delta[1]


@pytest.mark.parametrize(("claimed", "known"), [(2, 0.65), (4, 0.57), (8, 0.225), (10, 0.104)])
def test_staswitch_is_as_far_from_its_claim_as_is_known(claimed, known) -> None:
    """In the steady state, at distance 9, δ at the claimed ε is the figure computed independently (level 1e-6).

    That figure has an error of its own, of about half a unit of its last digit or, if larger, two of its standard
    errors at 20,000 trials.
    """
    mechanism = StaSwitch(claimed, window=10, calibrate="claim")
    steady = max(measured(mechanism, claimed, (9,), 20_000), key=lambda pair: pair.i)
    error = max(0.005 if known > 0.3 else 0.0005, 2 * math.sqrt(known * (1 - known) / 20_000))
    assert steady.delta[0] - error <= known <= steady.delta[1] + error
    assert steady.delta[1] - steady.delta[0] < 0.05
    assert steady.delta[0] > 5 * mechanism.claim.delta


def test_staswitch_is_at_its_worst_near_the_start() -> None:
    """Exactly, for window 3: the worst pair is (2, 4), not a later one; so the start must be measured."""
    mechanism = StaSwitch(1, window=3, calibrate="claim")
    deltas = {pair: max(both) for pair, both in exact_deltas(mechanism, 1.0).items()}
    assert max(deltas, key=lambda pair: deltas[pair]) == (2, 4)
    assert deltas[2, 4] > 1.05 * max(deltas[i, i + 2] for i in range(3, 8))
    guarantee = mechanism.guarantee
    assert guarantee.interval is not None
    assert guarantee.interval[0] <= deltas[2, 4] <= guarantee.delta


def test_losses_that_have_not_settled_widen_the_interval() -> None:
    """A design that stops too early says so and raises the upper end, never the lower one."""
    mechanism = RanSwitch(0.5, window=10)
    design = designed(mechanism, 0.1, (9,), 0)
    short = type(design)(**{**vars(design), "steps": 42, "settled": 38})
    early = pair_results(tallied(mechanism, short, 0, 4000), short, 1e-6)[-1]
    late = pair_results(tallied(mechanism, design, 0, 4000), design, 1e-6)[-1]
    assert early.unsettled > 0.05
    assert early.delta[1] > late.delta[1] - 0.02
    assert early.delta[0] <= late.delta[1]


def test_the_error_level_is_shared_by_all_intervals() -> None:
    """Each pair has six intervals; all of them together may err with the level stated, not each of them."""
    mechanism = RanSwitch.from_probabilities(q=0.1, window=4)
    for distances in ((3,), (1, 2, 3)):
        design = designed(mechanism, 1.0, distances, 0)
        tally = tallied(mechanism, design, 0, 500)
        share = 1e-3 / (len(design.pairs) * 6)
        for at, pair in enumerate(pair_results(tally, design, 1e-3)):
            low, _ = clopper_pearson(int(tally.reached[0, at]), 500, share)
            assert pair.infinite[0] == low
    result = audit(mechanism, trials=500, settings=Settings(confidence=0.99, workers=1))
    (pair,) = [each for each in result.pairs if (each.i, each.j) == (0, 3)]
    again = designed(mechanism, result.epsilon, (1, 2, 3), 0)
    counted = tallied(mechanism, again, 0, 500)
    # Half of it is for the intervals, half for the other checks.
    assert pair == pair_results(counted, again, (1 - 0.99) / 2)[again.pairs.index((0, 3))]


# -------------------------------------------------------------------------------------------- the audit as a whole


@pytest.mark.parametrize("name", SABOTEURS)
def test_saboteurs_are_caught(name) -> None:
    """Each for what is wrong with it, at confidence 1 − 1e-6."""
    saboteur, word = SABOTEURS[name]
    result = audit(saboteur, trials=10_000, settings=BOTH)
    assert result.violates
    assert any(word in finding for finding in result.findings), result.verdict


HONEST = [
    RanSwitch(2, window=2),
    RanSwitch(1, window=3),
    RanSwitch(2, window=10),
    RanSwitch(9, window=10),
    StaSwitch(4, window=10, calibrate="claim"),
    StaSwitch(12, window=5, calibrate="claim"),
    PureSwitch(1, window=3),
    PureSwitch(6, window=10),
    Backward(4, window=10),
    Forward(4, window=5, calibrate="claim"),
    Threshold(4, window=10, calibrate="claim"),
]


@pytest.mark.parametrize("mechanism", HONEST, ids=lambda mechanism: mechanism.identity)
def test_honest_mechanisms_pass(mechanism) -> None:
    """No violation is found of a guarantee that holds (error level 1e-6)."""
    result = audit(mechanism, trials=10_000, seed=1, settings=BOTH)
    assert not result.violates, result.verdict
    assert all(check.passed for check in result.checks)
    assert "no violation found at confidence 0.999999" in result.verdict


def test_claims_are_refuted() -> None:
    """The published δ of both switch mechanisms is wrong in the standard reading, and the audit proves it."""
    for kind in (RanSwitch, StaSwitch):
        result = audit(kind(4, window=10, calibrate="claim"), against="claim", trials=5000, settings=ALONE)
        assert result.violates
        assert "claim of [SS]" in result.findings[0]
        assert result.interval[0] > 5 * result.delta


def test_result_does_not_depend_on_the_number_of_processes() -> None:
    """One process, two, and a mechanism that cannot be sent to others: the same numbers."""

    class Local(RanSwitch):
        """Cannot be pickled, since it is not at the top of a module."""

    results = []
    for kind, workers in ((RanSwitch, 1), (RanSwitch, 2), (Local, 2)):
        mechanism = kind.from_probabilities(q=0.1, window=3)
        results.append(audit(mechanism, trials=5000, settings=Settings(workers=workers)))
    assert results[0] == results[1]
    # The identity of Local is another, so it draws other plans; but it was audited.
    assert not results[2].violates


def test_seeds_give_draws_of_their_own() -> None:
    """The same seed repeats an audit, another one does not."""
    mechanism = RanSwitch.from_probabilities(q=0.1, window=3)
    first, again, other = (audit(mechanism, trials=1000, seed=seed, settings=ALONE) for seed in (1, 1, 2))
    assert first == again
    assert first.pairs != other.pairs


def test_every_pair_is_measured() -> None:
    """By default all distances within the window, each with an interval of its own."""
    result = audit(StaSwitch(4, window=10, calibrate="claim"), against="claim", trials=4000, settings=BOTH)
    assert {pair.distance for pair in result.pairs} == set(range(1, 10))


def test_progress_is_told() -> None:
    """The callback hears of every part, in order, up to the last."""
    heard: list[tuple[int, int]] = []
    settings = Settings(workers=1, progress=lambda done, total: heard.append((done, total)))
    audit(RanSwitch.from_probabilities(q=0.1, window=3), trials=5000, settings=settings)
    total = heard[0][1]
    assert heard == [(done, total) for done in range(1, total + 1)]


def test_a_bar_is_shown_on_a_terminal_only(monkeypatch) -> None:
    """Nothing is written where standard error is no terminal."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    mechanism = RanSwitch.from_probabilities(q=0.1, window=2)
    for stream, shown in ((io.StringIO(), False), (Terminal(), True)):
        monkeypatch.setattr(sys, "stderr", stream)
        audit(mechanism, trials=100, settings=ALONE)
        assert bool(stream.getvalue()) == shown


def test_result_reads_well() -> None:
    """As text it has a line for each distance and check; as a dictionary it is fit for JSON."""
    result = audit(RanSwitch(2, window=4), trials=2000, settings=ALONE)
    text = str(result)
    assert isinstance(result, AuditResult)
    assert all(f"\n{distance:>8}  " in text for distance in (1, 2, 3))
    assert all(check.name in text for check in result.checks)
    assert text.endswith(result.verdict)
    plain = json.loads(json.dumps(result.to_dict()))
    assert plain["verdict"] == result.verdict
    assert plain["violates"] is False
    assert plain["interval"] == list(result.interval)
    assert len(plain["pairs"]) == len(result.pairs)
    assert plain["pairs"][0]["delta"] == list(result.pairs[0].delta)


@dataclass(frozen=True)
class Bare:
    """The least that can be audited: two methods and a window. It flips a coin for every two slots."""

    chance: float
    window: int = 2

    def prefixes(self, trials, steps, *, key):
        """Draw plans, with bits of the key."""
        rows = np.tile(np.arange(steps + steps % 2), (trials, 1))
        seed = int.from_bytes(key.derive(b"bare"), "big")
        swaps = np.random.default_rng(seed).random((trials, rows.shape[1] // 2)) < self.chance
        rows[:, 0::2] += swaps
        rows[:, 1::2] -= swaps
        return rows[:, :steps]

    def log_probabilities(self, prefixes):
        """Replay them, two slots at a time."""
        steps = prefixes.shape[1]
        moved = prefixes - np.arange(steps)
        first, second = moved[:, 0::2], moved[:, 1::2]
        logs = np.where(first == 0, np.log(1 - self.chance), np.where(first == 1, np.log(self.chance), -np.inf))
        logs = logs.sum(axis=1)
        return np.where((second == -first[:, : second.shape[1]]).all(axis=1), logs, -np.inf)


def test_anything_with_two_methods_can_be_audited() -> None:
    """A mechanism from elsewhere: what cannot be looked at is said, and what is wrong is found.

    Exchanging 0 and 1 exchanges the two outcomes of a coin, so the loss is ln((1−c)/c); exchanging 1 and 2
    cannot be explained at all.
    """
    result = audit(Bare(0.25), epsilon=2.0, against=0.5, trials=2000, settings=ALONE)
    assert result.findings[0].startswith("δ(2) ≥ 0.99")
    states = {check.name: check.passed for check in result.checks}
    assert states["ends"] is None
    assert states["counting"] is None
    assert states["fit"]
    assert not states["exact"]
    fine = audit(Bare(0.25), epsilon=2.0, against=1.0, trials=2000, settings=ALONE)
    assert not fine.violates


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"against": 0.1}, "`epsilon` is needed"),
        ({"against": "promise"}, "does not state this"),
        ({"epsilon": 2}, "does not state this"),
        ({"epsilon": -1, "against": 0.1}, "`epsilon`"),
        ({"epsilon": 1, "against": 0.1, "trials": 1}, "`trials`"),
        ({"epsilon": 1, "against": 0.1, "seed": -1}, "`seed`"),
        ({"epsilon": 1, "against": 0.1, "settings": Settings(confidence=1.0)}, "`confidence`"),
        ({"epsilon": 1, "against": 0.1, "settings": Settings(distances=(2,))}, "`distances`"),
        ({"epsilon": 1, "against": 0.1, "settings": Settings(distances=())}, "`distances`"),
    ],
)
def test_bad_arguments_are_named(arguments, word) -> None:
    """Each wrong argument gets its error, before anything is drawn."""
    with pytest.raises(ParameterError, match=word):
        audit(Bare(0.25), **arguments)


def test_a_claim_says_nothing_below_its_epsilon() -> None:
    """At a smaller epsilon there is nothing to hold the mechanism against."""
    mechanism = StaSwitch(4, window=3, calibrate="claim")
    with pytest.raises(ParameterError, match="says nothing"):
        audit(mechanism, epsilon=3, against="claim")


# --------------------------------------------------------------------------------------------- measured guarantees


def test_measured_guarantee_says_what_it_is() -> None:
    """It carries the upper end, its interval, trials, confidence and distances; and it is the same every time."""
    mechanism = StaSwitch(4, window=10, calibrate="claim")
    guarantee = mechanism.guarantee
    assert guarantee is mechanism.guarantee
    assert guarantee.basis == "audited"
    assert guarantee.epsilon == mechanism.claim.epsilon
    assert guarantee.interval is not None
    assert guarantee.interval[0] < guarantee.delta == guarantee.interval[1]
    assert guarantee.delta > 10 * mechanism.claim.delta
    assert guarantee.distances == tuple(range(1, 10))
    assert guarantee.trials == 20_000
    assert guarantee.confidence == 1 - 1e-6
    measured_guarantee.cache_clear()
    assert mechanism.guarantee == guarantee


def test_measured_guarantee_of_a_wide_window_says_what_was_left_out() -> None:
    """Some distances, the largest among them, within seconds."""
    guarantee = StaSwitch(8, window=100, calibrate="claim").guarantee
    assert guarantee.distances is not None
    assert guarantee.trials is not None
    assert guarantee.distances[0] == 1
    assert guarantee.distances[-1] == 99
    assert len(guarantee.distances) < 20
    assert guarantee.trials < 20_000


@pytest.mark.parametrize("window", [2, 3, 10])
@pytest.mark.parametrize("claimed", [1, 4, 8])
def test_proved_lower_bound_of_staswitch_is_below_what_is_measured(window, claimed) -> None:
    """No upper end lies below it (level 1e-6); for window 2 it is the truth at a large ε, so it is inside."""
    mechanism = StaSwitch(claimed, window=window, calibrate="claim")
    assert 0 < mechanism.least_delta <= mechanism.guarantee.delta
    low, _ = mechanism.guarantee.interval or (1.0, 1.0)
    assert window != 2 or claimed != 8 or low <= mechanism.least_delta
    q = mechanism.q
    early = q * sum((1 - q) ** m * (1 - 2 * q) ** (window - 1 - m) for m in range(1, window))
    late = (window - 1) * q * (1 - q) ** (window - 1)
    assert mechanism.least_delta == pytest.approx(1 - (1 - early) * (1 - late), rel=1e-12)


def test_rows_begin_and_continue() -> None:
    """What was known earlier is cut out of a row, and every way on is listed, for both kinds of rows."""
    decided = View(2, 0, False)
    row = np.array([[1, 0, 2]])
    assert decided.begun(row, 2).tolist() == [[1, 0]]
    ways, parent = decided.continued(row)
    assert ways[:, :3].tolist() == [[1, 0, 2]] * 8
    assert ways[:, 3].tolist() == [-1, 0, 1, 2, 3, 4, 5, 6]
    assert (parent == 0).all()
    undecided = View(2, 0, True)
    row = np.array([[1, 3, 0, 2]])
    assert undecided.begun(row, 3).tolist() == [[1, UNDECIDED, 0]]
    ways, _ = undecided.continued(np.array([[1, UNDECIDED]]))
    assert sorted(ways.tolist()) == sorted(
        [[1, 2, -2], [1, 2, -1], [1, 2, 0], [1, -2, 2], [1, -2, -2], [1, -2, -1], [1, -2, 0]]
    )
    ahead = View(3, 2, True)
    row = np.array([[-1, 0, 1, -2]])
    assert ahead.begun(row, 1).tolist() == [[-1, 0, -2]]

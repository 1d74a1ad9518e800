"""Each measure of the lab against a small case worked out by hand."""

import math

import numpy as np
import pytest

from whenmask import RandomizedResponse
from whenmask.lab import bills, clusters, cost, future
from whenmask.lab.chance import laplaces, normals, uniforms
from whenmask.lab.experiment import verdict
from whenmask.lab.mechanisms import CARRIED, GUARANTEE, Contender, Draw
from whenmask.lab.metrics import (
    carried_forward,
    corrected_counts,
    moving_averages,
    paper_error,
    recall,
    root_mean_square,
    running_counts,
)
from whenmask.lab.results import Mean, Measured, Results, Setting, mean_of
from whenmask.lab.words import figure, told


def test_the_papers_error_has_the_root_inside_and_the_length_outside() -> None:
    """√(1² + 2² + 2²)/3 = 1; the ordinary error is √(9/3)."""
    one, other = np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 1.0])
    assert paper_error(one, other) == 1.0
    assert root_mean_square(one, other) == pytest.approx(math.sqrt(3))
    assert root_mean_square(one, other) == pytest.approx(paper_error(one, other) * math.sqrt(3))


def test_moving_averages_are_those_of_the_definition() -> None:
    """m_i is the mean of values i … i+r−1, and there are n−r+1 of them."""
    values = np.array([2.0, 4.0, 9.0, 1.0, 0.0])
    assert moving_averages(values, 3).tolist() == pytest.approx([5.0, 14 / 3, 10 / 3])
    assert moving_averages(values, 1).tolist() == values.tolist()
    assert moving_averages(values, 5).tolist() == [3.2]


def test_counts_run_and_are_corrected_as_the_package_corrects_them() -> None:
    """The last corrected count is what `estimate_counts` says of all answers."""
    ups = np.array([True, False, True, True])
    assert running_counts(ups).tolist() == [1, 1, 2, 3]
    # (c − n(1 − p))/(2p − 1) with p = 0.75: (1 − 0.25)/0.5, (1 − 0.5)/0.5, (2 − 0.75)/0.5, (3 − 1)/0.5.
    assert corrected_counts(running_counts(ups), 0.75).tolist() == [1.5, 1.0, 2.5, 4.0]
    answers, keep = Contender("RandomizedResponse", 1.0, 10).answer(np.tile(ups, 50), Draw("test", 0))
    ours = corrected_counts(running_counts(answers), keep)[-1]
    assert ours == pytest.approx(RandomizedResponse(1.0).estimate_counts(answers)[1])


def test_empty_slots_take_the_last_value_or_the_first() -> None:
    """Before the first value there is only that to take."""
    assert carried_forward(np.array([-1, -1, 4, -1, 2, -1, -1])).tolist() == [4, 4, 4, 4, 2, 2, 2]
    assert carried_forward(np.array([1, 0])).tolist() == [1, 0]
    assert carried_forward(np.full(3, -1)).tolist() == [0, 0, 0]


def test_recall_counts_the_places_that_have_one_near() -> None:
    """Two of four within one slot; what is found beyond those does not matter."""
    wanted, found = np.array([5, 20, 40, 60]), np.array([6, 19, 42, 100, 101])
    assert recall(found, wanted, 1) == 0.5
    assert recall(found, wanted, 2) == 0.75
    assert recall(wanted, wanted, 0) == 1.0


def test_mean_and_standard_error() -> None:
    """2, 4, 9: the mean is 5, the deviations −3, −1, 4, so √(26/2)/√3."""
    found = mean_of([2.0, 4.0, 9.0])
    assert (found.mean, found.repeats) == (5.0, 3)
    assert found.error == pytest.approx(math.sqrt(13 / 3))
    assert math.isnan(mean_of([2.0]).error)


def test_results_are_gathered_over_repeats_only() -> None:
    """Settings that differ in anything stay apart; what is computed has no error."""
    one = Setting("e", "StaSwitch", "claim", 10, 1.0, "cost")
    other = Setting("e", "StaSwitch", "claim", 10, 2.0, "cost")
    rows = [Measured(one, 0, 1.0), Measured(other, 0, 7.0), Measured(one, 1, 3.0), Measured(other, -1, 7.0)]
    results = Results.gathered(rows[:3])
    assert results.one(epsilon=1.0) == Mean(2.0, 1.0, 2)
    assert [x for x, _ in results.curve(metric="cost")] == [1.0, 2.0]
    assert Results.gathered(rows[3:]).one(epsilon=2.0) == Mean(7.0, 0.0, 0)
    assert results.one(epsilon=3.0) is None
    with pytest.raises(LookupError):
        results.one(metric="cost")


def test_the_distance_of_trips_is_the_root_mean_square_of_that_of_positions() -> None:
    """Positions 3 and 4 apart, so √((9 + 16)/2)."""
    trips = np.array([[[0.0, 0.0], [0.0, 0.0]], [[3.0, 0.0], [0.0, 4.0]]])
    assert clusters.pairwise(trips)[0, 1] == pytest.approx(math.sqrt(12.5))
    many = np.random.default_rng(3).normal(size=(clusters.BLOCK + 9, 4, 2))
    naive = [math.sqrt(((many[-1] - each) ** 2).sum() / 4) for each in many]
    assert clusters.pairwise(many)[-1] == pytest.approx(naive, abs=1e-4)


def test_the_initial_medoids_are_park_and_juns() -> None:
    """v_j = Σ_i d_ij/Σ_l d_il, smallest first, worked out one by one."""
    places = np.array([0.0, 1.0, 4.0, 6.0, 20.0])
    distances = np.abs(places[:, None] - places[None, :]).astype(np.float32)
    weights = []
    for j in range(5):
        weights.append(sum(distances[i, j] / distances[i].sum() for i in range(5)))
    expected = sorted(range(5), key=lambda j: weights[j])[:3]
    assert clusters.central_medoids(distances, 3).tolist() == expected


def test_nmi_of_a_case_worked_out_by_hand() -> None:
    """Groups AABB against ABAB know nothing of each other; AABB against AAAB share 0.3437 after normalising.

    For the latter: H = ln 2 and 0.5623; I = H(AAAB) − ½·H(½, ½) = 0.5623 − 0.3466 = 0.2158; 2I/(0.6931 + 0.5623).
    """
    sklearn = pytest.importorskip("sklearn.metrics")
    nmi = sklearn.normalized_mutual_info_score
    assert nmi([0, 0, 1, 1], [0, 1, 0, 1]) == pytest.approx(0)
    assert nmi([0, 0, 1, 1], [5, 5, 3, 3]) == pytest.approx(1)
    own = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    shared = own - 0.5 * math.log(2)
    assert nmi([0, 0, 1, 1], [0, 0, 0, 1]) == pytest.approx(2 * shared / (own + math.log(2)))


def test_an_autoregression_finds_the_rule_of_a_series() -> None:
    """x_t = 0.5·x_{t−1} + 3 goes on as the rule says, with the lag learnt beside useless ones."""
    series = [1.0]
    for number in range(60):
        series.append(0.5 * series[-1] + 3 + math.sin(number))
    history = np.array(series)
    forecast = future.autoregression(history, 3, order=4)
    lags = np.lib.stride_tricks.sliding_window_view(history, 4)[:-1]
    weights = np.linalg.lstsq(np.column_stack([lags, np.ones(len(lags))]), history[4:], rcond=None)[0]
    assert forecast[0] == pytest.approx(weights @ np.append(history[-4:], 1.0))
    assert forecast[1] == pytest.approx(weights @ np.append([*history[-3:], forecast[0]], 1.0))
    assert future.seasonal(np.arange(10.0), 5, season=3).tolist() == [7, 8, 9, 7, 8]


def test_extremes_keep_their_distance() -> None:
    """The second largest is too near to the largest."""
    profile = np.array([1.0, 9.0, 8.0, np.inf, 2.0, 7.0])
    assert future.extremes(profile, 2, 2, largest=True).tolist() == [1, 5]
    assert future.extremes(profile, 3, 2, largest=False).tolist() == [0, 4, 2]


def test_bills_profiles_and_peaks() -> None:
    """Two days of two months: totals 6 and 15, peaks where they are."""
    wh = np.concatenate([np.zeros(40), [6.0], np.zeros(7), np.zeros(10), [15.0], np.zeros(37)])
    month, half_hour = np.repeat([1, 2], 48), np.tile(np.arange(48), 2)
    assert bills.monthly(wh, month).tolist() == [6.0, 15.0]
    profile = bills.profile(wh, half_hour)
    assert (profile[40], profile[10], profile.sum()) == (3.0, 7.5, 10.5)
    assert bills.peak_hour(profile) == 5
    assert bills.daily_peaks(wh).tolist() == [40, 10]


def test_deviations_respect_what_is_printed() -> None:
    """13.1 stands for 13.05 to 13.15."""
    assert cost.deviation("13.1", 13.14) == 0.0
    assert cost.deviation("13.1", 13.25) == pytest.approx(0.10)
    assert cost.deviation("0.08", 0.07) == pytest.approx(-0.005)


def test_a_verdict_needs_cases() -> None:
    """All, some, none; and nothing measured is nothing shown."""
    assert verdict([True, True]) == "holds"
    assert verdict([True, False]) == "holds in part"
    assert verdict([False]) == "does not hold"
    assert verdict([]) == "does not hold"


def test_numbers_in_words() -> None:
    """Significant digits stay, and an error is shown only where there is one."""
    assert [figure(value) for value in (0.0, 2.0, 0.1234, 1234.5)] == ["0", "2.00", "0.123", "1,234"]
    assert told(Mean(1.0, math.nan, 1)) == "1.00"
    assert told(Mean(2.5, 0.125, 4)) == "2.50 ± 0.12"


def test_an_equal_guarantee_halves_the_budget_of_values() -> None:
    """An exchange changes two values; a claim is spent as it is."""
    assert Contender("Piecewise", 4.0, 10, GUARANTEE).budget == 2.0
    assert Contender("Piecewise", 4.0, 10).budget == 4.0
    assert Contender("RanSwitch", 4.0, 10, GUARANTEE).mechanism.guarantee.epsilon <= 4.0
    assert Contender("RanSwitch", 4.0, 10).mechanism.guarantee.epsilon < 4.0
    assert Contender("PureSwitch", 4.0, 10).promised == "guarantee"


def test_a_release_fills_empty_slots_in_both_ways() -> None:
    """TM/ETM at a small epsilon leaves slots empty: 0 in one reading, the value before in the other."""
    values = np.arange(1.0, 501.0)
    draw = Draw("test", 1)
    zeros = Contender("Threshold", 1.0, 10).release(values, draw)
    source = Contender("Threshold", 1.0, 10).plan(values.size, draw).source
    assert ((zeros == 0) == (source < 0)).all()
    assert 20 < (zeros == 0).sum() < 400
    carried = Contender(CARRIED, 1.0, 10).release(values, draw)
    assert (carried[source >= 0] == zeros[source >= 0]).all()
    assert (carried > 0).all()


def test_what_is_drawn_has_the_law_it_should_have() -> None:
    """Means and variances within six standard errors (error level below 1e-6 for all six), and always the same."""
    count = 100_000
    uniform, normal, laplace = uniforms("t", count), normals("t", count), laplaces("t", count, 2.0)
    # (mean, variance, fourth central moment) of each law.
    for drawn, mean, variance, fourth in (
        (uniform, 0.5, 1 / 12, 1 / 80),
        (normal, 0.0, 1.0, 3.0),
        (laplace, 0.0, 8.0, 24 * 16.0),
    ):
        spread = 6 * math.sqrt((fourth - variance**2) / count)
        assert abs(drawn.mean() - mean) < 6 * math.sqrt(variance / count)
        assert abs(drawn.var() - variance) < spread
        assert abs(drawn.var() * 1.1 - variance) > spread  # a law that is a tenth off would be noticed
    assert (laplaces("t", 10, 2.0) == laplace[:10]).all()
    assert (uniforms("t", 10, series=1) != uniform[:10]).any()

"""Numbers behind PureSwitch: eigenvalues against LAPACK, integers against their form, the choice of (θ, a)."""

import hashlib
import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import eigh_tridiagonal

from whenmask.errors import ParameterError
from whenmask.guarantee import precise
from whenmask.mechanisms import gibbs
from whenmask.mechanisms.gibbs import Weights, choose_parameters, enough_heights, powers, shrink, solve
from whenmask.mechanisms.heights import tabulate

# epsilon, window, share of epsilon that goes to θ: dense, sparse, between, large, small.
CASES = [
    (2.0, 10, 1.0),
    (5.0, 10, 0.4),
    (6.0, 48, 0.65),
    (7.5, 100, 0.27),
    (50.0, 10, 0.04),
    (0.05, 2, 1.0),
    (14.0, 10_000, 0.1),
    (2.0, 1000, 0.5),
]


def weights_of(epsilon: float, window: int, share: float) -> Weights:
    """Return the weights at a point of the budget line."""
    x, c = shrink(share * epsilon / (window - 1)), shrink((1 - share) * epsilon)
    return Weights.of(x, c, enough_heights(x))


@pytest.mark.parametrize("case", CASES)
def test_eigenvalue_and_mean_height_agree_with_lapack(case) -> None:
    """λ, E[h] and the mass at the peak are those of the largest eigenpair of the symmetrised matrix."""
    weights = weights_of(*case)
    beside, last = np.sqrt(weights.up[:-1] * weights.down[1:]), weights.same.size - 1
    values, vectors = eigh_tridiagonal(weights.same, beside, select="i", select_range=(last, last))
    stationary = vectors[:, 0] ** 2
    solution = solve(weights)
    assert solution.eigenvalue == pytest.approx(values[0], rel=1e-13)
    mean = stationary @ np.arange(last + 1)
    assert solution.mean == pytest.approx(mean, rel=1e-9, abs=1e-13)
    assert 1 / solution.mass == pytest.approx(stationary[solution.peak], rel=1e-8)


@pytest.mark.parametrize(("x", "size"), [(0.5, 300), (1 - 2.0**-20, 5000), (math.exp(-7), 50)])
def test_powers_are_precise(x: float, size: int) -> None:
    """Each power is within three roundings, where a running product would collect thousands."""
    with precise():
        for height, power in enumerate(powers(x, size)):
            assert abs(Decimal(float(power)) / Decimal(x) ** height - 1) < Decimal(3.01 * 2.0**-53)


def stored(table) -> list[list[int]]:
    """Return the integers of the six kinds at each height."""
    words = [[[int(word) for word in row] for row in part.tolist()] for part in table.stacked]
    bounds = [[(u << 64) | v for u, v in zip(*rows, strict=True)] for rows in zip(*words, strict=True)]
    return [[b - a for a, b in zip([0, *row], [*row, 1 << 128], strict=True)] for row in bounds]


@pytest.mark.parametrize("case", CASES)
def test_integers_have_the_exact_form_within_the_stated_error(case) -> None:
    """ln(stored probability / exact form) varies by less than the error that goes into epsilon (Theorem 6).

    Computed with 60 digits. The reference ψ is the one for which "new" is exact; every row adds up to 2^128.
    """
    epsilon, window, share = case
    table = tabulate(share * epsilon / (2 * (window - 1)), (1 - share) * epsilon, window)
    rows = stored(table)
    etas = [Decimal(0)]
    with precise():
        x, c, eigenvalue = Decimal(table.x), Decimal(table.c), Decimal(table.eigenvalue)
        power, rise = 1 / x, Decimal(1)
        for h, (new, fill, merge, close, take, stay) in enumerate(rows):
            assert min(new, fill, merge, close, take, stay) >= 0
            assert new + fill + merge + close + take + stay == 1 << 128
            below, power = power, power * x
            forms = [(stay, power), (fill, h * c * power), (take, h * c * power)]
            forms += [(close, h * below / rise), (merge, h * (h - 1) * c * below / rise)]
            for integer, form in forms:
                assert (integer == 0) == (form == 0)
                if integer:
                    etas.append((Decimal(integer) / (1 << 128) * eigenvalue / form).ln())
            rise = Decimal(new) / (1 << 128) * eigenvalue / (c * power * x)
    assert len(rows) == table.top + 1
    assert rows[-1][0] == 0  # nothing leads beyond the table
    assert max(etas) - min(etas) <= 2 * table.error
    assert table.error < 1e-12


@pytest.mark.parametrize(("epsilon", "window"), [(2.0, 10), (6.0, 3), (20.0, 10)])
def test_delta_is_that_of_the_last_height(epsilon: float, window: int) -> None:
    """Theorem 6: δ is (window − 1)·π(H), from what is stored, by detailed balance; and not below it."""
    table = tabulate(*choose_parameters(epsilon, window), window)
    new, _, merge, close, _, _ = table.probabilities
    with precise():
        masses = [Decimal(1)]
        for h in range(table.top):
            masses.append(masses[-1] * Decimal(new[h]) / (Decimal(close[h + 1]) + Decimal(merge[h + 1])))
        exact = (window - 1) * masses[-1] / sum(masses)
        assert exact <= Decimal(table.delta(window)) <= exact * Decimal("1.00001")
    assert table.delta(window) <= 1e-30


def test_integers_are_the_same_on_every_machine() -> None:
    """The integers are pinned: a machine on which one differs would release something else from the same key."""
    digest = hashlib.sha256()
    for epsilon, window in [(2.0, 10), (6.0, 48), (0.1, 2), (50.0, 3), (1.0, 1000), (14.0, 10_000)]:
        theta, a = choose_parameters(epsilon, window)
        digest.update(f"{theta.hex()} {a.hex()} ".encode())
        digest.update(tabulate(theta, a, window).stacked.astype("<u8").tobytes())
    assert digest.hexdigest() == PINNED


PINNED = "83f87e21066e9f4d4b3873a5834e2b36d35f4ed5a8ea8692fb00be691a14969c"


@given(epsilon=st.floats(0.01, 60), window=st.integers(2, 200))
def test_the_choice_keeps_the_budget_and_uses_it(epsilon: float, window: int) -> None:
    """What is guaranteed is at most what was asked for, and less by rounding only; delta is negligible."""
    theta, a = choose_parameters(epsilon, window)
    table = tabulate(theta, a, window)
    assert theta > 0
    assert a >= 0
    assert min(epsilon, 50) - 1e-9 < table.epsilon(window) <= epsilon
    assert 0 < table.delta(window) <= 1.1e-30


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 50.0])
def test_the_widest_window_keeps_the_budget(epsilon: float) -> None:
    """Window 10,000 keeps to epsilon without losing its precision, with up to a million values waiting."""
    theta, a = choose_parameters(epsilon, 10_000)
    table = tabulate(theta, a, 10_000)
    assert epsilon * (1 - 1e-5) < table.epsilon(10_000) <= epsilon
    assert table.delta(10_000) <= 1.1e-30


@pytest.mark.parametrize("epsilon", [1.0, 1.6, 3.0, 4.4, 4.5, 6.6, 7.5, 9.0, 12.0, 30.0])
@pytest.mark.parametrize("window", [2, 3, 10, 48, 300])
def test_no_other_point_of_the_budget_costs_less(epsilon: float, window: int) -> None:
    """Over 100 ways of dividing epsilon between θ and a, none is better by more than 0.2%."""
    theta, a = choose_parameters(epsilon, window)
    chosen = tabulate(theta, a, window).mean
    others = [solve(weights_of(epsilon, window, share / 100)).mean for share in range(2, 101)]
    assert chosen <= 1.002 * min(others)


@pytest.mark.parametrize(
    ("epsilon", "window", "most"), [(0.01, 100, 4), (4.0, 100, 2), (20.0, 100, 2), (1.0, 10_000, 10)]
)
def test_calibration_takes_few_steps(monkeypatch, epsilon: float, window: int, most: int) -> None:
    """Choice and table take so many steps of the recursion, in units of 10,000 (some 4 ms), not more.

    How long that is in seconds is measured in benchmarks/pure.py.
    """
    rows: list[int] = []
    approach = gibbs._approach

    def counted(eigenvalue: float, *arrays: list[float]):
        rows.append(len(arrays[0]))
        return approach(eigenvalue, *arrays)

    monkeypatch.setattr(gibbs, "_approach", counted)
    choose_parameters.cache_clear()
    tabulate.cache_clear()
    tabulate(*choose_parameters(epsilon, window), window)
    assert 0 < sum(rows) <= 10_000 * most, sum(rows)


@pytest.mark.parametrize(("theta", "a"), [(30.0, 0.0), (1.0, 54.0), (1e-7, 1.0), (1e-300, 0.0)])
def test_parameters_beyond_the_tables_are_refused(theta: float, a: float) -> None:
    """Parameters with which nothing would ever move, or millions of values would wait, get an error."""
    with pytest.raises(ParameterError, match="no value would ever move|typical height"):
        tabulate(theta, a, 10)


@pytest.mark.parametrize("window", [2, 3, 10, 1000, 10_000])
@pytest.mark.parametrize("epsilon", [1e-300, 1e-12])
def test_a_budget_too_small_is_refused_with_one_that_works(epsilon: float, window: int) -> None:
    """Rounding, or millions of waiting values, would use it up; the error names an epsilon that can be had."""
    with pytest.raises(ParameterError, match="too small for the window") as error:
        choose_parameters(epsilon, window)
    assert error.value.hint is not None
    least = float(error.value.hint.partition(", ")[2].partition(" works")[0])
    theta, a = choose_parameters(least, window)
    enough_heights(shrink(2 * theta))
    assert 0 < a + 2 * theta * (window - 1) <= least < 1e-6 * window

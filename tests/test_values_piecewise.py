"""Piecewise: its exact law on the grid, its twin, its means, repeats, bad input."""

import math
import re
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chisquare import ERROR_LEVEL, p_value
from tests.naive_values import TWO64, naive_piecewise, piecewise_law
from tests.unbiased import is_unbiased
from whenmask import Key
from whenmask.errors import DataError, ParameterError
from whenmask.guarantee import precise
from whenmask.kernels import values as kernels
from whenmask.keystream import Context, Keystream
from whenmask.mechanisms.values import Piecewise
from whenmask.mechanisms.values.grid import STEPS
from whenmask.mechanisms.values.perturbed import CHUNK

KEY = Key.for_testing(37)
WORDS = st.integers(0, TWO64 - 1) | st.sampled_from([0, 1, TWO64 - 1])


@st.composite
def mechanisms(draw, most_steps: int = STEPS):
    """Any mechanism on [−1, 1]."""
    epsilon = draw(st.floats(1e-6, 8) | st.floats(8, 200))
    return Piecewise(epsilon, lower=-1, upper=1, steps=draw(st.integers(1, most_steps)))


def law(mechanism, start: int):
    """Return the exact law of the outputs for one input, from the twin."""
    return piecewise_law(mechanism.grid.steps, mechanism.width, mechanism.high, start)


def numbers(mechanism):
    """Return the number that each output stands for, in whole and broken numbers: no float."""
    steps, width = mechanism.grid.steps, mechanism.width
    near = Fraction(mechanism.high, TWO64)
    unit = Fraction(2) / (steps * (near - (1 - near) * width / steps))
    return [(output - Fraction(steps + width - 1, 2)) * unit for output in range(steps + width)]


def first_words(mechanism, start: int, first: int):
    """Return, for each output that can follow the first word, the smallest second word that leads to it."""

    def output(second: int) -> int:
        return int(mechanism.transmit(np.array([start]), np.array([first, second], np.uint64))[0])

    found, low = {output(0): 0}, 0
    while output(low) != output(TWO64 - 1):
        here, high = output(low), TWO64 - 1
        while low + 1 < high:
            middle = (low + high) // 2
            low, high = (middle, high) if output(middle) == here else (low, middle)
        low = high
        found[output(low)] = low
    return found


@pytest.mark.parametrize(("epsilon", "steps"), [(0.3, 5), (1.0, 6), (2.0, 1), (3.0, 4)])
def test_the_law_is_exactly_the_one_accounted(epsilon: float, steps: int) -> None:
    """Counting the words that lead to each output gives the twin's law, for every input."""
    mechanism = Piecewise(epsilon, lower=0, upper=1, steps=steps)
    edge = mechanism.high
    inputs = np.arange(steps + 1)
    for start in inputs.tolist():
        counted = [Fraction(0)] * (steps + mechanism.width)
        for first, share in ((0, edge), (TWO64 - 1, TWO64 - edge)):
            # The first word matters only by whether it lies below `high`.
            last = edge - 1 if first == 0 else edge
            found = first_words(mechanism, start, first)
            assert found == first_words(mechanism, start, last)
            ends = [*sorted(found.values())[1:], TWO64]
            for (output, word), end in zip(sorted(found.items(), key=lambda item: item[1]), ends, strict=True):
                counted[output] += Fraction(share * (end - word), TWO64**2)
        assert counted == law(mechanism, start)


@given(mechanisms(most_steps=12))
def test_the_guarantee_holds_exactly_and_nothing_is_impossible(mechanism) -> None:
    """Every law sums to one; no output is impossible; the largest ratio is what the guarantee says."""
    laws = [law(mechanism, start) for start in range(mechanism.grid.steps + 1)]
    assert all(sum(each) == 1 and min(each) > 0 for each in laws)
    ratio = max(max(column) / min(column) for column in zip(*laws, strict=True))
    with precise():
        loss = (Decimal(ratio.numerator) / ratio.denominator).ln()
    assert loss <= mechanism.guarantee.epsilon
    # Attained, but for what the ⌊⌋ and ⌈⌉ of 2^64 words differ.
    assert mechanism.guarantee.epsilon <= float(loss) * (1 + 1e-15) + 1e-17
    assert (mechanism.guarantee.delta, mechanism.guarantee.basis) == (0, "proved")


@given(epsilon=st.floats(1e-6, 80), steps=st.integers(1, STEPS))
def test_epsilon_is_used_up_and_never_exceeded(epsilon: float, steps: int) -> None:
    """The guarantee is at most epsilon, and with h one larger it would be above."""
    mechanism = Piecewise(epsilon, lower=0, upper=1, steps=steps)
    assert mechanism.guarantee.epsilon <= epsilon
    near, far = -(-TWO64 // mechanism.width), TWO64 // steps
    with precise():
        largest = Decimal((mechanism.high + 1) * near) / max(
            Decimal((TWO64 - mechanism.high - 1) * far), Decimal(1)
        )
        assert largest.ln() > epsilon


@given(mechanisms(most_steps=12))
def test_the_mean_is_the_input(mechanism) -> None:
    """In exact fractions the mean of what is released is the input, but for the proved 2^-64·(M+W) outputs."""
    stand_for = numbers(mechanism)
    steps = mechanism.grid.steps
    for start in range(steps + 1):
        mean = sum(p * number for p, number in zip(law(mechanism, start), stand_for, strict=True))
        assert (
            abs(mean - (Fraction(2 * start, steps) - 1)) <= (stand_for[1] - stand_for[0]) * len(stand_for) / TWO64
        )
    floats = mechanism._numbers(np.arange(len(stand_for)), np.empty(len(stand_for)))
    assert np.allclose(floats, [float(number) for number in stand_for], rtol=1e-12, atol=1e-12)


@given(mechanism=mechanisms(most_steps=40), first=WORDS, second=WORDS, data=st.data())
def test_any_words_do_what_the_twin_says(mechanism, first: int, second: int, data) -> None:
    """Small grids, any words, those at the edges too."""
    start = data.draw(st.integers(0, mechanism.grid.steps))
    first = data.draw(st.sampled_from([first, mechanism.high - 1, mechanism.high]))
    expected = naive_piecewise(mechanism.grid.steps, mechanism.width, mechanism.high, start, first, second)
    words = np.array([first, second], np.uint64)
    assert mechanism.transmit(np.array([start]), words).tolist() == [expected]
    parameters = (np.uint64(number) for number in (mechanism.high, mechanism.width, mechanism.grid.steps))
    assert kernels.piecewise.py_func(words, np.array([start]), *parameters).tolist() == [expected]


@given(epsilon=st.floats(1e-3, 40), second=WORDS, start=st.integers(0, STEPS), near=st.booleans())
def test_the_product_of_words_is_exact_on_the_finest_grid(epsilon: float, second: int, start: int, near) -> None:
    """Two halves of a product give what Python's whole numbers give."""
    mechanism = Piecewise(epsilon, lower=0, upper=1)
    place = second * (mechanism.width if near else STEPS) // TWO64
    expected = place + start if near else place + mechanism.width * (place >= start)
    words = np.array([0 if near else TWO64 - 1, second], np.uint64)
    assert mechanism.transmit(np.array([start]), words).tolist() == [expected]


@pytest.mark.parametrize(("steps", "start"), [(8, 0), (8, 5), (1, 1)])
def test_draws_follow_the_law(steps: int, start: int) -> None:
    """Chi-square over 200,000 draws, error level 1e-6; the law of an epsilon 10% larger is refused."""
    mechanism = Piecewise(2.0, lower=0, upper=steps, steps=steps)
    released = mechanism.perturb(np.full(200_000, start), key=KEY, run="law").values
    outputs = np.rint((released - mechanism.released_range[0]) / mechanism.granularity).astype(int)
    observed = np.bincount(outputs, minlength=steps + mechanism.width)
    probabilities = [float(p) for p in law(mechanism, start)]
    assert p_value(observed, probabilities) > ERROR_LEVEL
    wrong = piecewise_law(steps, mechanism.width, Piecewise(2.2, lower=0, upper=1, steps=steps).high, start)
    assert p_value(observed, [float(p) for p in wrong]) < ERROR_LEVEL


@pytest.mark.parametrize("x", [-1.0, -0.37, 0.0, 0.8])
def test_the_finest_grid_follows_the_published_law(x: float) -> None:
    """Uniform in and out of [l, r]: chi-square, 200,000 draws, error level 1e-6; epsilon 10% off is refused."""
    epsilon = 1.3
    mechanism = Piecewise(epsilon, lower=-1, upper=1)
    released = mechanism.perturb(np.full(200_000, x), key=KEY, run="published").values

    def cells(epsilon):
        """Return the edges and the probabilities of [−C, l], [l, r] and [r, C], each cut in four."""
        half = math.exp(epsilon / 2)
        c = (half + 1) / (half - 1)
        left = (c + 1) / 2 * x - (c - 1) / 2
        edges = np.array([-c, left, left + c - 1, c])
        near = half / (half + 1)
        density = np.array([(1 - near) / (c + 1), near / (c - 1), (1 - near) / (c + 1)])
        fine = np.concatenate([np.linspace(*pair, 4, endpoint=False) for pair in pairwise(edges)])
        return np.append(fine, c), np.repeat(density * np.diff(edges) / 4, 4)

    def fits(epsilon):
        edges, probabilities = cells(epsilon)
        kept = np.diff(edges) > 1e-9
        places = np.searchsorted(edges[1:-1], released)
        return p_value(np.bincount(places, minlength=12)[kept], probabilities[kept]) > ERROR_LEVEL

    assert fits(epsilon)
    assert not fits(1.1 * epsilon)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0, 12.0])
@pytest.mark.parametrize("x", [-1.0, 0.3, 1.0])
def test_means_are_estimated_without_bias(epsilon: float, x: float) -> None:
    """The mean of 200,000 draws is the value, error level 1e-6, at the published variance; 10% off is refused."""
    mechanism = Piecewise(epsilon, lower=-1, upper=1)
    released = mechanism.perturb(np.full(200_000, x), key=KEY, run="mean")
    half = math.exp(epsilon / 2)
    deviation = math.sqrt(x * x / (half - 1) + (half + 3) / (3 * (half - 1) ** 2))
    assert is_unbiased(mechanism.estimate_mean(released), x, deviation / math.sqrt(200_000))
    assert is_unbiased(released.values, x, deviation)
    assert not is_unbiased(released.values * 1.1 if abs(x) == 1 else released.values + 0.1, x, deviation)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("x", [-1.0, 0.3, 1.0])
def test_the_variance_is_the_published_one(epsilon: float, x: float) -> None:
    """Of 200,000 draws, within six standard errors (error level below 1e-6); one 10% larger is refused."""
    released = Piecewise(epsilon, lower=-1, upper=1).perturb(np.full(200_000, x), key=KEY, run="variance").values
    half = math.exp(epsilon / 2)
    variance = x * x / (half - 1) + (half + 3) / (3 * (half - 1) ** 2)
    squares = (released - x) ** 2
    allowed = 6 * squares.std() / math.sqrt(squares.size)
    assert abs(squares.mean() - variance) <= allowed
    assert abs(squares.mean() - 1.1 * variance) > allowed


@given(
    mechanism=mechanisms(),
    values=st.lists(st.floats(-3, 3, width=16), min_size=6, max_size=6),
    kind=st.sampled_from(["float64", "float32", "float16", "int8", "uint64"]),
    shape=st.sampled_from([(6,), (2, 3), (6, 1, 1)]),
)
def test_type_shape_and_range(mechanism, values, kind: str, shape) -> None:
    """Shape and 32-bit floats are kept, all else becomes 64-bit floats, and all lies in the released range."""
    array = (np.abs(values) if kind[0] == "u" else np.array(values)).astype(kind).reshape(shape)
    released = mechanism.perturb(array, key=KEY)
    assert released.values.shape == shape
    assert released.values.dtype == ("float32" if kind == "float32" else "float64")
    low, high = (released.values.dtype.type(end) for end in mechanism.released_range)
    assert low <= released.values.min() <= released.values.max() <= high
    assert released.clipped == np.count_nonzero(np.abs(array.astype(float)) > 1)


def test_the_released_range_is_the_published_one() -> None:
    """On [lower, upper] it is the middle plus and minus C half ranges."""
    low, high = Piecewise(1.0, lower=10, upper=30).released_range
    c = (math.exp(0.5) + 1) / (math.exp(0.5) - 1)
    assert [low, high] == pytest.approx([20 - 10 * c, 20 + 10 * c], rel=1e-9)


@given(x=st.floats(0, 1), steps=st.integers(1, 50))
def test_values_are_rounded_to_the_nearest_step(x: float, steps: int) -> None:
    """On a coarse grid a value goes to a step at most half a step away: the documented error."""
    codes, clipped = Piecewise(1.0, lower=0, upper=1, steps=steps).grid.codes(np.array([x]))
    assert abs(Fraction(x) * steps - int(codes[0])) <= Fraction(1, 2) + Fraction(1, 10**12)
    assert clipped == 0


def test_values_outside_are_clipped_and_counted() -> None:
    """What lies outside is perturbed as if it lay on the bound; infinities too."""
    mechanism = Piecewise(1.0, lower=0, upper=1)
    outside = mechanism.perturb([-5.0, 0.5, 1.5, math.inf, -math.inf], key=KEY, run="clip")
    inside = mechanism.perturb([0.0, 0.5, 1.0, 1.0, 0.0], key=KEY, run="clip")
    assert (outside.clipped, inside.clipped) == (4, 0)
    assert outside.values.tolist() == inside.values.tolist()
    assert "4" not in repr(outside)


def test_a_draw_repeats_and_is_fresh_by_default() -> None:
    """Key, series and run fix the draw, of a part of a series too; change one, or leave it out, and it changes."""
    mechanism = Piecewise(1.0, lower=0, upper=1)
    values = np.linspace(0, 1, CHUNK + 100)
    first = mechanism.perturb(values, key=KEY, series=1, run="1")
    assert (first.run, first.series, first.key_kind, first.mechanism) == ("1", 1, "testing", mechanism.identity)
    words = Keystream(KEY, Context(mechanism.identity, 1, "1")).words(2 * CHUNK, 2)
    place = mechanism.transmit(np.array([round(values[CHUNK] * STEPS)]), words)
    assert mechanism._numbers(place, values[:1]) == first.values[CHUNK]
    for again in (values, values[: CHUNK + 3]):
        repeated = Piecewise(1.0, lower=0, upper=1).perturb(again, key=KEY, series=1, run="1").values
        assert np.array_equal(first.values[: again.size], repeated)
    others = [
        mechanism.perturb(values, key=KEY, series=1),
        mechanism.perturb(values, key=KEY, series=1),
        mechanism.perturb(values, key=KEY, series=2, run="1"),
        mechanism.perturb(values, key=KEY, series=1, run="2"),
        mechanism.perturb(values, series=1, run="1"),
    ]
    assert len({each.values.tobytes() for each in [first, *others]}) == 6
    assert len({other.run for other in others[:2]}) == 2


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([0.25, np.nan]), "the values must not be NaN. Hint: drop or fill them first"),
        (np.array([True, False]), "must be real numbers; got dtype bool. Hint: give an array"),
        (np.array([0.25 + 1j]), "must be real numbers; got dtype complex128. Hint: give an array"),
        (["0.25"], "must be real numbers; got dtype <U4. Hint: give an array"),
        ([0.25, None], "must be real numbers; got dtype object. Hint: give an array"),
        (np.array(["2024-01-01"], "M8[D]"), "must be real numbers; got dtype datetime64[D]. Hint: give an array"),
        ([[0.25], [0.25, 0.5]], "do not form an array; got a list. Hint: give an array"),
        (np.ma.masked_array([0.25], [True]), "must not be masked; got a masked array. Hint: give an array"),
    ],
)
def test_bad_values_are_refused(values, message: str) -> None:
    """Each gets its own error, which never shows a value."""
    with pytest.raises(DataError, match=re.escape(message)) as error:
        Piecewise(1.0, lower=0, upper=1).perturb(values)
    assert "0.25" not in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0}, "`epsilon` must be finite and above zero; got epsilon=0"),
        ({"epsilon": -1}, "`epsilon` must be finite and above zero; got epsilon=-1"),
        ({"epsilon": math.nan}, "`epsilon` must be finite and above zero; got epsilon=nan"),
        ({"epsilon": math.inf}, "`epsilon` must be finite and above zero; got epsilon=inf"),
        ({"lower": None}, "`lower` is needed; got none"),
        ({"upper": None}, "`upper` is needed; got none"),
        ({"lower": 2}, "`lower` must be below `upper`; got lower=2, upper=1"),
        ({"lower": 1}, "`lower` must be below `upper`; got lower=1, upper=1"),
        ({"lower": math.nan}, "`lower` must lie within ±1e+290; got lower=nan"),
        ({"upper": math.inf}, "`upper` must lie within ±1e+290; got upper=inf"),
        ({"upper": 1e300}, "`upper` must lie within ±1e+290; got upper=1e+300"),
        ({"upper": "1"}, "`upper` must be a number; got upper of type str"),
        ({"upper": [1]}, "`upper` must be a number; got upper of type list"),
        ({"steps": 0}, "`steps` must be at least 1; got steps=0"),
        ({"steps": 2.5}, "`steps` must be a whole number; got steps of type float"),
        ({"steps": STEPS + 1}, "`steps` must be at most 2^32; got steps=4294967297"),
    ],
)
def test_bad_parameters_are_refused(arguments, message: str) -> None:
    """Each wrong parameter gets its own error, with a hint."""
    with pytest.raises(ParameterError, match=re.escape(message) + r".*Hint: ."):
        Piecewise(**{"epsilon": 1.0, "lower": 0, "upper": 1, **arguments})


@pytest.mark.parametrize("steps", [1, 7, 1000, STEPS - 1, STEPS])
def test_an_epsilon_too_small_for_the_grid_is_refused_with_one_that_works(steps: int) -> None:
    """The hint names an epsilon that works."""
    with pytest.raises(ParameterError, match="too small for any probabilities") as error:
        Piecewise(1e-20, lower=0, upper=1, steps=steps)
    works = float(str(error.value).split("steps, ")[1].split()[0])
    mechanism = Piecewise(works, lower=0, upper=1, steps=steps)
    assert mechanism.guarantee.epsilon <= works
    assert all(map(math.isfinite, mechanism.released_range))


def test_extreme_bounds_stay_finite() -> None:
    """The widest bounds, and 32-bit floats where their range would burst, still give numbers."""
    wide = Piecewise(1e-3, lower=-1e290, upper=1e290)
    assert np.isfinite(wide.perturb([0.0, 1e290], key=KEY).values).all()
    single = Piecewise(1e-3, lower=0, upper=3e38).perturb(np.array([1e38], np.float32), key=KEY).values
    assert np.isfinite(single).all()
    assert single.dtype == np.float64


@pytest.mark.parametrize(("released", "error"), [([], "no mean of no values"), (["a"], "must be real numbers")])
def test_means_of_nothing_are_refused(released, error: str) -> None:
    """An empty release has no mean, and texts neither."""
    with pytest.raises(DataError, match=error):
        Piecewise(1.0, lower=0, upper=1).estimate_mean(np.array(released, "float64" if not released else None))

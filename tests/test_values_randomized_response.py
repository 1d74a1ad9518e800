"""Randomised response: its law against twin, simulation and OpenDP, its estimator, repeats, bad input."""

import math
import re
import subprocess
import sys
from decimal import Decimal

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chisquare import ERROR_LEVEL, p_value
from tests.naive_values import naive_randomized_response
from tests.unbiased import is_unbiased
from whenmask import Key
from whenmask.errors import DataError, ParameterError
from whenmask.guarantee import precise
from whenmask.keystream import Context, Keystream
from whenmask.mechanisms.switch import ONE
from whenmask.mechanisms.values import RandomizedResponse
from whenmask.mechanisms.values.perturbed import CHUNK

KEY = Key.for_testing(31)
LETTERS = [*"abcdefghij"]
EPSILONS = st.floats(1e-9, 60)
dp.enable_features("contrib")


@given(epsilon=EPSILONS, size=st.integers(2, 10))
def test_the_guarantee_is_exact_and_as_large_as_epsilon_allows(epsilon: float, size: int) -> None:
    """ln(p/q) of the integers in use is at most epsilon, and with one unit less for the others it is above."""
    mechanism = RandomizedResponse(epsilon, categories=LETTERS[:size])
    assert mechanism.keep + (size - 1) * mechanism.unit == ONE
    with precise():
        assert (Decimal(mechanism.keep) / mechanism.unit).ln() <= mechanism.guarantee.epsilon <= epsilon
        less = mechanism.unit - 1
        assert not less or (Decimal(mechanism.keep + size - 1) / less).ln() > epsilon


@given(
    epsilon=EPSILONS,
    values=st.lists(st.sampled_from("abcde"), max_size=40),
    size=st.integers(5, 10),
    run=st.text(min_size=1),
)
def test_it_answers_as_its_twin_does(epsilon: float, values, size: int, run: str) -> None:
    """The same words give the same answers as the definition in plain Python."""
    mechanism = RandomizedResponse(epsilon, categories=LETTERS[:size])
    words = Keystream(KEY, Context(mechanism.identity, "s", run)).words(0, len(values)).tolist()
    pairs = zip(values, words, strict=True)
    expected = [naive_randomized_response(LETTERS[:size], mechanism.unit, *pair) for pair in pairs]
    assert mechanism.perturb(np.array(values, "U1"), key=KEY, series="s", run=run).values.tolist() == expected


@pytest.mark.parametrize("size", [2, 3, 7])
def test_each_answer_has_exactly_its_number_of_words(size: int) -> None:
    """The answer changes exactly at p, p + q, p + 2q, …, so the law is that of the integers accounted."""
    mechanism = RandomizedResponse(1.5, categories=LETTERS[:size])
    edges = np.array([mechanism.keep + i * mechanism.unit for i in range(size - 1)], dtype=np.uint64)
    before, after = (mechanism.transmit(np.zeros(size - 1, np.int64), edges - np.uint64(i)) for i in (1, 0))
    assert before.tolist() == list(range(size - 1))
    assert after.tolist() == list(range(1, size))
    ends = mechanism.transmit(np.zeros(2, np.int64), np.array([0, ONE - 1], np.uint64))
    assert ends.tolist() == [0, size - 1]


@pytest.mark.parametrize("size", [2, 5])
def test_draws_follow_the_law(size: int) -> None:
    """Chi-square over 200,000 draws, error level 1e-6; a q that is 10% off is refused at the same level."""
    mechanism = RandomizedResponse(2.0, categories=range(size))
    answers = mechanism.perturb(np.ones(200_000, int), key=KEY, run="law").values
    observed = np.bincount(answers, minlength=size)

    def law(q):
        return [1 - (size - 1) * q if i == 1 else q for i in range(size)]

    assert p_value(observed, law(mechanism.unit / ONE)) > ERROR_LEVEL
    assert p_value(observed, law(1.1 * mechanism.unit / ONE)) < ERROR_LEVEL


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_opendp_agrees(epsilon: float) -> None:
    """OpenDP's privacy map at our probability gives our guarantee, for bits and for categories."""
    bits = RandomizedResponse(epsilon)
    theirs = dp.m.make_randomized_response_bool(bits.keep / ONE)
    assert theirs.map(1) == pytest.approx(bits.guarantee.epsilon, rel=1e-12)
    letters = RandomizedResponse(epsilon, categories=LETTERS[:4])
    theirs = dp.m.make_randomized_response(LETTERS[:4], letters.keep / ONE)
    assert theirs.map(1) == pytest.approx(letters.guarantee.epsilon, rel=1e-12)


def test_opendp_draws_from_the_same_law() -> None:
    """5,000 of OpenDP's own, unseeded, answers fit our law, error level 1e-6; a q that is 20% off does not fit."""
    mechanism = RandomizedResponse(1.0, categories=LETTERS[:3])
    theirs = dp.m.make_randomized_response(LETTERS[:3], mechanism.keep / ONE)
    drawn = [theirs("b") for _ in range(5_000)]
    observed = [drawn.count(category) for category in "abc"]
    q = mechanism.unit / ONE
    assert p_value(observed, [q, 1 - 2 * q, q]) > ERROR_LEVEL
    # The statistic's mean is then 160, so this fails for less than one run in a million too.
    assert p_value(observed, [0.8 * q, 1 - 1.6 * q, 0.8 * q]) < ERROR_LEVEL


@pytest.mark.parametrize("size", [2, 4])
def test_counts_are_estimated_without_bias(size: int) -> None:
    """Mean estimates over 400 series of 500 values are right, error level 1e-6; with p − q 10% off, not."""
    mechanism = RandomizedResponse(1.0, categories=range(size))
    truth = np.where(np.arange(500) % 10, 0, np.arange(500) // 10 % size)
    counts = np.bincount(truth, minlength=size)
    released = [mechanism.perturb(truth, key=KEY, series=i, run="counts") for i in range(400)]
    estimates = np.array([mechanism.estimate_counts(each) for each in released])
    assert np.allclose(estimates.sum(axis=1), truth.size)
    p, q = mechanism.keep / ONE, mechanism.unit / ONE
    deviations = np.sqrt(counts * p * (1 - p) + (truth.size - counts) * q * (1 - q)) / (p - q)
    for category in range(size):
        assert is_unbiased(estimates[:, category], counts[category], deviations[category])
    even = truth.size / size
    assert not is_unbiased(even + (estimates[:, 0] - even) / 1.1, counts[0], deviations[0])


def test_a_draw_repeats_and_is_fresh_by_default() -> None:
    """Key, series and run fix the draw, of a part of a series too; change one, or leave it out, and it changes."""
    mechanism = RandomizedResponse(0.5)
    bits = np.arange(CHUNK + 100) % 3 == 0
    first = mechanism.perturb(bits, key=KEY, series="a", run="1")
    assert (first.run, first.series, first.key_kind, first.clipped) == ("1", "a", "testing", 0)
    again = RandomizedResponse(0.5).perturb(bits, key=KEY, series="a", run="1")
    assert np.array_equal(first.values, again.values)
    part = mechanism.perturb(bits[: CHUNK + 3], key=KEY, series="a", run="1").values
    assert np.array_equal(first.values[: CHUNK + 3], part)
    others = [
        mechanism.perturb(bits, key=KEY, series="a"),
        mechanism.perturb(bits, key=KEY, series="a"),
        mechanism.perturb(bits, key=KEY, series="b", run="1"),
        mechanism.perturb(bits, series="a", run="1"),
        mechanism.perturb(bits, key=KEY, series="a", run="2"),
    ]
    released = [each.values.tobytes() for each in [first, *others]]
    assert len(set(released)) == len(released)
    assert others[3].key_kind == "secure"


@given(
    values=st.lists(st.sampled_from([0, 1]), min_size=6, max_size=6),
    kind=st.sampled_from(["bool", "int8", "uint64", "float32", "object"]),
    shape=st.sampled_from([(6,), (2, 3), (6, 1, 1)]),
)
def test_type_and_shape_are_kept(values, kind: str, shape) -> None:
    """What comes out has the type and shape of what went in, and only declared categories."""
    array = np.array(values, kind).reshape(shape)
    released = RandomizedResponse(1.0).perturb(array, key=KEY).values
    assert (released.dtype, released.shape) == (array.dtype, array.shape)
    assert set(released.ravel().tolist()) <= {0, 1}


def test_a_type_too_narrow_for_the_categories_is_widened() -> None:
    """No category is cut short or wrapped around because the values given happen to be short."""
    words = RandomizedResponse(0.01, categories=["a", "long", "longest"])
    assert set(words.perturb(np.array(["a"] * 100), key=KEY, run="w").values) == {"a", "long", "longest"}
    numbers = RandomizedResponse(0.01, categories=np.array([1, 300]))
    assert set(numbers.perturb(np.ones(100, np.int8), key=KEY, run="w").values) == {1, 300}
    assert set(numbers.perturb(np.ones(100, bool), key=KEY, run="w").values) == {1, 300}
    assert words.perturb([], key=KEY).values.size == 0


def test_nothing_shows_the_values() -> None:
    """Neither the repr nor the text of the result holds a value."""
    released = RandomizedResponse(1.0, categories=["rich", "poor"]).perturb(["rich", "poor"])
    assert repr(released) == str(released) == "<Perturbed: 2 values, RandomizedResponse, secure key>"


@pytest.mark.parametrize(
    ("values", "categories"),
    [
        (np.array(["yes", "secret"]), ["yes", "no"]),
        ([0, 1, 2], (0, 1)),
        (np.array([0.0, np.nan]), (0, 1)),
        (np.array([True, None]), (False, True)),
        (np.array(["yes", None, 3], object), ["yes", "no"]),
        (np.array([["yes"], {}, None], object), ["yes", "no"]),
        (["1", "0"], (0, 1)),
    ],
)
def test_undeclared_values_are_refused(values, categories) -> None:
    """A value that was not declared is refused with a hint, and not shown."""
    mechanism = RandomizedResponse(1.0, categories=categories)
    for use in (mechanism.perturb, mechanism.estimate_counts):
        with pytest.raises(DataError, match=r"not declared; got dtype .*Hint: declare every category") as error:
            use(values)
        assert "secret" not in str(error.value)


@pytest.mark.parametrize("values", [np.ma.masked_array([0, 1], [False, True]), [[0, 1], [1]]])
def test_what_is_no_plain_array_is_refused(values) -> None:
    """Masked values would be laid bare, and ragged lists have no shape."""
    with pytest.raises(DataError, match="Hint: give an array or a list"):
        RandomizedResponse(1.0).perturb(values)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0}, "`epsilon` must be finite and above zero; got epsilon=0"),
        ({"epsilon": -1.0}, "`epsilon` must be finite and above zero; got epsilon=-1"),
        ({"epsilon": math.nan}, "`epsilon` must be finite and above zero; got epsilon=nan"),
        ({"epsilon": math.inf}, "`epsilon` must be finite and above zero; got epsilon=inf"),
        ({"epsilon": "1"}, "`epsilon` must be a number; got epsilon of type str"),
        ({"categories": "yes"}, "`categories` must be a list; got a str"),
        ({"categories": 3}, "`categories` must be a list; got a int"),
        ({"categories": [1]}, "there must be at least two categories, all different; got 1, 1 of them different"),
        ({"categories": []}, "there must be at least two categories, all different; got 0, 0 of them different"),
        ({"categories": [*"aba"]}, "at least two categories, all different; got 3, 2 of them different"),
        ({"categories": ["a", 1]}, "all texts, all whole numbers or all booleans; got int, str"),
        ({"categories": [0.5, 1.5]}, "all texts, all whole numbers or all booleans; got float"),
    ],
)
def test_bad_parameters_are_refused(arguments, message: str) -> None:
    """Each wrong parameter gets its own error, with a hint."""
    with pytest.raises(ParameterError, match=re.escape(message) + r".*Hint: ."):
        RandomizedResponse(**{"epsilon": 1.0, **arguments})


@pytest.mark.parametrize("size", [2, 3, 1000])
def test_an_epsilon_too_small_for_64_bits_is_refused_with_one_that_works(size: int) -> None:
    """The hint names an epsilon that works."""
    with pytest.raises(ParameterError, match="too small for any probabilities") as error:
        RandomizedResponse(1e-20, categories=range(size))
    works = float(str(error.value).split("categories, ")[1].split()[0])
    mechanism = RandomizedResponse(works, categories=range(size))
    assert 0 < mechanism.guarantee.epsilon <= works
    assert mechanism.keep > mechanism.unit


def test_values_need_neither_numba_nor_opendp() -> None:
    """Importing our own mechanisms, and using randomised response, loads no optional or slow package."""
    code = (
        "import sys; from whenmask.mechanisms.values import *; RandomizedResponse(1.0).perturb([True]);"
        "Piecewise(1.0, lower=0, upper=1).guarantee; print({'numba', 'opendp'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"

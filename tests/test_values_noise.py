"""Laplace and Gaussian: OpenDP's noise and its map, as OpenDP itself and the closed formulas have them; bad input.

OpenDP cannot be seeded, so these draws differ from run to run: the statistical tests fail for a correct mechanism
once in a million runs, and their power checks, which have several standard errors to spare, more rarely still.
"""

import math
import re
import sys

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.chisquare import ERROR_LEVEL
from tests.unbiased import is_unbiased
from whenmask import Key
from whenmask.errors import DataError, DependencyError, ParameterError
from whenmask.mechanisms.values import Gaussian, Laplace
from whenmask.mechanisms.values.grid import STEPS

dp.enable_features("contrib")
DRAWS = 20_000
BOUNDS = {"lower": -2.0, "upper": 3.0}


def make(kind: str, epsilon: float = 1.0, **bounds):
    """Return a mechanism with bounds that span 5, unless others are given."""
    bounds = bounds or BOUNDS
    return Laplace(epsilon, **bounds) if kind == "Laplace" else Gaussian(epsilon, 1e-6, **bounds)


def shape(mechanism):
    """Return the law of the noise in the unit of the values, and its standard deviation."""
    law = stats.laplace if isinstance(mechanism, Laplace) else stats.norm
    return law(scale=mechanism.scale), law.std(scale=mechanism.scale)


@pytest.mark.parametrize("epsilon", [1e-3, 0.3, 1.0, 7.0])
def test_laplace_spends_exactly_epsilon(epsilon: float) -> None:
    """The scale is range/epsilon, and OpenDP's own mechanism on floats, of that scale, has the same guarantee."""
    mechanism = Laplace(epsilon, **BOUNDS)
    assert mechanism.scale == pytest.approx(5 / epsilon, rel=1e-9)
    assert epsilon * (1 - 1e-9) <= mechanism.guarantee.epsilon <= epsilon
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    assert dp.m.make_laplace(*space, scale=mechanism.scale).map(5.0) == pytest.approx(epsilon, rel=1e-9)
    assert (mechanism.guarantee.delta, mechanism.guarantee.basis) == (0.0, "proved")


@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 1e-9), (1.0, 1e-6), (1.0, 0.1), (20.0, 1e-12)])
def test_gaussian_keeps_epsilon_and_delta(epsilon: float, delta: float) -> None:
    """The guarantee fits, the closed formula for Gaussian noise agrees, and a step less of scale would not fit."""
    mechanism = Gaussian(epsilon, delta, **BOUNDS)
    assert mechanism.guarantee.epsilon <= epsilon
    assert mechanism.guarantee.delta == delta
    scale = mechanism.scale / 5
    high, low = (stats.norm.logcdf(sign / (2 * scale) - epsilon * scale) for sign in (1, -1))
    assert 0.1 * delta < math.exp(high) - math.exp(epsilon + low) <= delta
    tighter = dp.m.make_gaussian(
        dp.vector_domain(dp.atom_domain(T=dp.i64)),
        dp.l2_distance(T=dp.f64),
        scale=float(mechanism.scale_in_steps - 1),
    )
    fixed = dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(tighter), delta)
    assert fixed.map(float(STEPS))[0] > epsilon


@pytest.mark.parametrize("kind", ["Laplace", "Gaussian"])
def test_the_noise_has_its_law(kind: str) -> None:
    """Kolmogorov–Smirnov over 20,000 draws, error level 1e-6; a scale that is 15% off is refused."""
    mechanism = make(kind)
    law, _ = shape(mechanism)
    noise = mechanism.perturb(np.full(DRAWS, 1.25)).values - 1.25
    assert stats.kstest(noise, law.cdf).pvalue > ERROR_LEVEL
    assert stats.kstest(noise / 1.15, law.cdf).pvalue < ERROR_LEVEL


def test_opendp_on_floats_draws_the_same() -> None:
    """OpenDP's own Laplace noise on floats has the law of ours: two samples of 5,000, error level 1e-6."""
    mechanism = make("Laplace")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
    theirs = np.array(dp.m.make_laplace(*space, scale=mechanism.scale)([1.25] * 5_000))
    ours = mechanism.perturb([1.25] * 5_000).values
    assert stats.ks_2samp(ours, theirs).pvalue > ERROR_LEVEL
    assert stats.ks_2samp(ours, 1.25 + 1.4 * (theirs - 1.25)).pvalue < ERROR_LEVEL


@pytest.mark.parametrize("kind", ["Laplace", "Gaussian"])
@pytest.mark.parametrize("x", [-2.0, 0.7, 3.0])
def test_means_are_estimated_without_bias(kind: str, x: float) -> None:
    """20,000 draws have the mean of the value, error level 1e-6; off by 10% of the noise is refused."""
    mechanism = make(kind)
    _, deviation = shape(mechanism)
    released = mechanism.perturb(np.full(DRAWS, x))
    assert is_unbiased(mechanism.estimate_mean(released), x, deviation / math.sqrt(DRAWS))
    assert not is_unbiased(released.values + 0.1 * deviation, x, deviation)


@pytest.mark.parametrize("kind", ["Laplace", "Gaussian"])
def test_no_bits_give_the_input_away(kind: str) -> None:
    """Whatever the input, what comes out lies on one grid: of whole numbers where the range is 2^32."""
    mechanism = make(kind, lower=0, upper=STEPS)
    assert mechanism.granularity == 1
    released = mechanism.perturb(np.linspace(0.1, 1e6, 1_000) * math.pi).values
    assert np.array_equal(released, np.rint(released))
    assert len(set(released % 2)) == 2


@given(
    values=st.lists(st.floats(-5, 5, width=16), min_size=6, max_size=6),
    dtype=st.sampled_from(["float64", "float32", "float16", "int8"]),
    size=st.sampled_from([(6,), (2, 3), (6, 1, 1)]),
    kind=st.sampled_from(["Laplace", "Gaussian"]),
)
@settings(max_examples=40)
def test_type_and_shape(values, dtype: str, size, kind: str) -> None:
    """Shape and 32-bit floats are kept, all else becomes 64-bit floats; clipping is counted; nothing repeats."""
    array = np.array(values).astype(dtype).reshape(size)
    released = make(kind).perturb(array, series="s")
    assert released.values.shape == size
    assert released.values.dtype == ("float32" if dtype == "float32" else "float64")
    assert released.clipped == np.count_nonzero((array < -2.0) | (array > 3.0))
    assert (released.series, released.run, released.key_kind) == ("s", None, "secure")
    assert repr(released) == f"<Perturbed: 6 values, {kind}, secure key>"


@pytest.mark.parametrize("kind", ["Laplace", "Gaussian"])
def test_every_call_draws_anew_and_a_key_is_refused(kind: str) -> None:
    """OpenDP cannot repeat a draw, so a key or a run is refused rather than ignored."""
    mechanism = make(kind)
    assert mechanism.perturb([0.5] * 10).values.tolist() != mechanism.perturb([0.5] * 10).values.tolist()
    for name, given_value in (("key", Key.for_testing(1)), ("run", "secret run")):
        with pytest.raises(
            ParameterError, match=f"`{name}` cannot repeat what OpenDP draws.*Hint: leave"
        ) as error:
            mechanism.perturb([0.5], **{name: given_value})
        assert "secret run" not in str(error.value)


def test_no_values_are_no_trouble() -> None:
    """An empty series comes out empty."""
    assert make("Laplace").perturb([]).values.tolist() == []


@pytest.mark.parametrize("kind", ["Laplace", "Gaussian"])
def test_nan_is_refused(kind: str) -> None:
    """NaN is refused, with a hint, without showing the values beside it."""
    with pytest.raises(DataError, match="must not be NaN. Hint: drop or fill") as error:
        make(kind).perturb([0.25, math.nan])
    assert "0.25" not in str(error.value)


def test_without_opendp_the_error_says_what_to_install(monkeypatch) -> None:
    """Only these two mechanisms need it."""
    monkeypatch.setitem(sys.modules, "opendp", None)
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(DependencyError, match=r"need OpenDP.*Hint: run pip install 'whenmask\[values\]'"):
        Laplace(0.123, **BOUNDS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0}, "`epsilon` must be finite and above zero; got epsilon=0"),
        ({"epsilon": -1}, "`epsilon` must be finite and above zero; got epsilon=-1"),
        ({"epsilon": math.nan}, "`epsilon` must be finite and above zero; got epsilon=nan"),
        ({"epsilon": math.inf}, "`epsilon` must be finite and above zero; got epsilon=inf"),
        ({"delta": 0}, "`delta` must be finite and above zero; got delta=0"),
        ({"delta": 1}, "`delta` must be below 1; got delta=1"),
        ({"delta": math.nan}, "`delta` must be finite and above zero; got delta=nan"),
        ({"lower": None}, "`lower` is needed; got none"),
        ({"upper": None}, "`upper` is needed; got none"),
        ({"lower": 4}, "`lower` must be below `upper`; got lower=4, upper=3"),
    ],
)
def test_bad_parameters_are_refused(arguments, message: str) -> None:
    """Each wrong parameter gets its own error, with a hint."""
    given_arguments = {"epsilon": 1.0, "delta": 1e-6, **BOUNDS, **arguments}
    with pytest.raises(ParameterError, match=re.escape(message) + r".*Hint: ."):
        Gaussian(**given_arguments)
    if "delta" not in arguments:
        del given_arguments["delta"]
        with pytest.raises(ParameterError, match=re.escape(message) + r".*Hint: ."):
            Laplace(**given_arguments)


def test_an_epsilon_too_small_for_64_bits_is_refused_with_one_that_works() -> None:
    """The hint names an epsilon that works; a huge epsilon is no trouble."""
    with pytest.raises(ParameterError, match="too small for 64-bit noise") as error:
        Laplace(1e-12, **BOUNDS)
    works = float(str(error.value).split("bits; ")[1].split()[0])
    assert Laplace(works, **BOUNDS).guarantee.epsilon <= works
    with pytest.raises(ParameterError, match="too small for 64-bit noise"):
        Gaussian(1e-12, 1e-12, **BOUNDS)
    assert Laplace(1e300, **BOUNDS).scale_in_steps == 1
    assert Gaussian(1e300, 1e-9, **BOUNDS).guarantee.epsilon <= 1e300

"""Guarantees: the curve, composition, groups, and that all rounding goes against us."""

import math
import sys
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product

import pytest

from whenmask import RanSwitch, Threshold
from whenmask.errors import DependencyError, ParameterError
from whenmask.guarantee import Guarantee

METER = Guarantee(2.0, 0.01, 10, "proved")
PURE = Guarantee(0.5, 0.0, 48, "proved")
AUDITED = Guarantee(1.0, 0.2, 12, "audited", 1000, 1 - 1e-6, (0.1, 0.2), (1, 5, 11))


def composed_delta(guarantees, epsilon):
    """Return the exact δ(ε) of independent losses: each ∞ with probability δ, else ±ε with odds e^ε."""
    with localcontext() as context:
        context.prec = 50
        finite = math.prod((1 - Decimal(each.delta) for each in guarantees), start=Decimal(1))
        total = Decimal(0)
        for signs in product((1, -1), repeat=len(guarantees)):
            loss, chance = Decimal(0), finite
            for sign, each in zip(signs, guarantees, strict=True):
                loss += sign * Decimal(each.epsilon)
                chance /= 1 + (-sign * Decimal(each.epsilon)).exp()
            total += chance * max(Decimal(0), 1 - (Decimal(epsilon) - loss).exp())
        return float(1 - finite + total)


# -------------------------------------------------------------------------------------------------- the curve


@pytest.mark.parametrize("window", [2, 3, 10, 1000])
@pytest.mark.parametrize("unit", [1, 12345, 1 << 40, (1 << 64) // 1000])
def test_ranswitch_guarantee_is_rounded_up(window, unit) -> None:
    """ε₀ and δ₀ from the integers are never below the truth, and at most one float above it."""
    mechanism = RanSwitch.from_units(min(unit, (1 << 64) // window), window=window)
    guarantee = mechanism.guarantee
    kept = 1 - Fraction(mechanism.unit, 1 << 64)
    delta = 1 - kept ** (window - 1)
    assert delta <= Fraction(guarantee.delta)
    assert Fraction(math.nextafter(guarantee.delta, 0)) < delta
    with localcontext() as context:
        context.prec = 100
        epsilon = (Decimal(mechanism.stay) / mechanism.unit).ln()
    assert epsilon <= Decimal(guarantee.epsilon)
    assert Decimal(math.nextafter(guarantee.epsilon, -1)) < epsilon or epsilon == 0
    assert guarantee.basis == "proved"


def test_delta_at_is_the_dominating_loss_and_never_rises() -> None:
    """It is the δ of a loss of ∞, ε or −ε; constant from ε on."""
    before = 1.0
    for step in range(60):
        epsilon = step / 20
        now = METER.delta_at(epsilon)
        assert now == pytest.approx(composed_delta([METER], epsilon), abs=1e-15)
        assert now <= before
        before = now
    assert METER.delta_at(2) == METER.delta_at(99) == 0.01
    with pytest.raises(ParameterError, match="`epsilon`"):
        METER.delta_at(-1)


# ------------------------------------------------------------------------------------------------ composition


def test_adding() -> None:
    """Epsilons add, deltas add; the narrowest window counts; δ is never above 1."""
    both = METER.compose(PURE)
    assert (both.epsilon, both.delta, both.window, both.basis) == (2.5, 0.01, 10, "proved")
    assert METER.compose(METER, METER).epsilon == 6.0
    assert METER.compose() == METER
    assert Guarantee(1, 0.7, 3, "proved").compose(Guarantee(1, 0.7, 3, "proved")).delta == 1.0


def test_adding_is_rounded_up() -> None:
    """0.1 three times is more than 0.3, as floats go; the sum is above the exact one."""
    tenth = Guarantee(0.1, 0.1, 3, "proved")
    three = tenth.compose(tenth, tenth)
    assert Fraction(three.epsilon) >= 3 * Fraction(0.1)
    assert Fraction(three.delta) >= 3 * Fraction(0.1)
    many = tenth.compose(*[tenth] * 9)
    assert Fraction(many.epsilon) >= 10 * Fraction(0.1) > Fraction(math.nextafter(many.epsilon, 0))


def test_audits_make_the_whole_audited() -> None:
    """What rests on one audit rests on it altogether: its distances, and the doubts of all."""
    both = METER.compose(AUDITED)
    assert both.basis == "audited"
    assert both.distances == (1, 5)
    assert both.trials == 1000
    assert both.confidence == pytest.approx(1 - 1e-6)
    assert both.interval is None
    twice = AUDITED.compose(AUDITED)
    assert twice.confidence is not None
    assert twice.confidence <= 1 - 2e-6
    assert twice.distances == (1, 5, 11)
    assert AUDITED.for_group(2).basis == "audited"


MIXED = [
    [METER],
    [METER, METER, METER],
    [METER, Guarantee(0.3, 0.001, 10, "proved")],
    [RanSwitch.from_probabilities(q=0.01, window=10).guarantee] * 5,
    [PURE] * 6,
    [Guarantee(0.0, 0.1, 4, "proved")] * 2,
]


@pytest.mark.parametrize("every", MIXED, ids=lambda every: f"{len(every)} of {every[0].epsilon:.2g}")
def test_losses_compose_as_a_whole(every) -> None:
    """δ at any ε is never below the exact one (Theorem 14), and above it by what the grid of losses explains."""
    pytest.importorskip("dp_accounting")
    first, *others = every
    total = sum(each.epsilon for each in every)
    for epsilon in (0.0, 0.3 * total, 0.7 * total, 0.999 * total, total, total + 1):
        exact = composed_delta(every, epsilon)
        found = first.compose(*others, epsilon=epsilon)
        assert found.epsilon == epsilon
        assert exact <= found.delta <= exact + 1e-4 * len(every) + 2e-10


@pytest.mark.parametrize("every", MIXED[1:5], ids=lambda every: f"{len(every)} of {every[0].epsilon:.2g}")
def test_epsilon_at_a_delta_is_the_way_back(every) -> None:
    """At the epsilon found for a delta, the exact δ is no larger; and it is tighter than adding."""
    pytest.importorskip("dp_accounting")
    first, *others = every
    least = 1 - math.prod(1 - each.delta for each in every)
    wanted = least + 0.02
    found = first.compose(*others, delta=wanted)
    assert found.delta == wanted
    assert composed_delta(every, found.epsilon) <= wanted
    assert found.epsilon < sum(each.epsilon for each in every)
    assert composed_delta(every, found.epsilon - 0.01) > wanted


def test_adding_is_the_fallback() -> None:
    """Where the grid of losses would lose to plain adding, plain adding counts."""
    pytest.importorskip("dp_accounting")
    assert PURE.compose(PURE, delta=0).epsilon == 1.0
    assert METER.compose(METER, epsilon=4.0).delta <= 0.02


def test_an_unreachable_delta_is_refused() -> None:
    """Losses are infinite with probability 1 − 0.99², and no epsilon helps."""
    pytest.importorskip("dp_accounting")
    with pytest.raises(ParameterError, match=r"0\.0199"):
        METER.compose(METER, delta=0.005)
    with pytest.raises(ParameterError, match="both"):
        METER.compose(METER, delta=0.5, epsilon=1.0)


def test_what_guarantees_nothing_composes_to_nothing() -> None:
    """A delta of 1 stays one, whatever epsilon; and only guarantees compose."""
    pytest.importorskip("dp_accounting")
    nothing = Threshold(4, window=10).guarantee
    assert METER.compose(nothing, epsilon=1.0).delta == 1.0
    assert METER.compose(nothing, delta=1.0).epsilon == 0.0
    with pytest.raises(ParameterError, match="infinite with probability 1"):
        METER.compose(nothing, delta=0.5)
    with pytest.raises(ParameterError, match="only guarantees compose; got a float"):
        METER.compose(2.0)  # type: ignore[arg-type]


def test_without_dp_accounting_adding_still_works(monkeypatch) -> None:
    """The extra is needed for composing losses as a whole only, and the error names it."""
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    assert METER.compose(METER).epsilon == 4.0
    with pytest.raises(DependencyError, match=r"whenmask\[accounting\]"):
        METER.compose(METER, epsilon=3.0)


# ------------------------------------------------------------------------------------------------------ groups


@pytest.mark.parametrize(
    "guarantee", [METER, PURE, Guarantee(1e-12, 1e-9, 5, "proved"), Guarantee(0, 0.01, 5, "proved")]
)
@pytest.mark.parametrize("size", [1, 2, 7])
def test_groups_cost_what_the_theorem_says(guarantee, size) -> None:
    """size·ε and δ·Σ e^(r·ε), rounded up, by at most a few floats."""
    group = guarantee.for_group(size)
    assert Fraction(group.epsilon) >= size * Fraction(guarantee.epsilon)
    with localcontext() as context:
        context.prec = 80
        factor = sum((r * Decimal(guarantee.epsilon)).exp() for r in range(size))
        exact = min(Decimal(1), Decimal(guarantee.delta) * factor)
    assert exact <= Decimal(group.delta)
    assert group.delta == pytest.approx(float(exact), rel=1e-15)
    assert (group.window, group.basis) == (guarantee.window, guarantee.basis)


def test_large_groups_end_at_one() -> None:
    """δ stops at 1, whatever the size, and a pure guarantee stays pure."""
    assert METER.for_group(10**6).delta == 1.0
    assert Guarantee(50.0, 5e-324, 5, "proved").for_group(10**6).delta == 1.0
    assert PURE.for_group(1000).delta == 0.0
    assert PURE.for_group(1000).epsilon == 500.0
    with pytest.raises(ParameterError, match="`size`"):
        METER.for_group(0)


def test_ranswitch_group_is_sound() -> None:
    """Exchanging two disjoint blocks of two: the exact δ, by following both worlds, is below what is stated."""
    from tests.naive_audit import switch_plans

    mechanism = RanSwitch.from_probabilities(q=0.1, window=3)
    plans = switch_plans(mechanism.p, mechanism.q, 3, 8)
    swap = {2: 4, 4: 2, 3: 5, 5: 3}
    moved = {tuple(swap.get(source, source) for source in plan): chance for plan, chance in plans.items()}
    group = mechanism.guarantee.for_group(2)
    for epsilon in (0.0, mechanism.guarantee.epsilon, group.epsilon):
        exact = math.fsum(max(0.0, plans[plan] - math.exp(epsilon) * moved.get(plan, 0.0)) for plan in plans)
        assert exact <= group.delta_at(epsilon)
    assert exact > mechanism.guarantee.delta

"""Slow twins of the value mechanisms: the definitions in plain Python, sharing no code with the package."""

from fractions import Fraction

TWO64 = 2**64


def naive_randomized_response(categories, unit, value, word):
    """Return the category that one word releases: the true one, or the next, the one after it, … in a circle."""
    others = len(categories) - 1
    number = categories.index(value)
    move = 0
    word -= TWO64 - others * unit
    while word >= 0:
        move += 1
        word -= unit
    return categories[(number + move) % len(categories)]


def naive_piecewise(steps, width, high, start, first, second):
    """Return the output (0 … steps+width−1) for the input `start`, from two words."""
    near = list(range(start, start + width))
    far = [output for output in range(steps + width) if output not in near]
    places = near if first < high else far
    return places[second * len(places) // TWO64]


def piecewise_law(steps, width, high, start):
    """Return the exact probability of each output for the input `start`, as fractions."""
    near = Fraction(high, TWO64)
    law = []
    for output in range(steps + width):
        inside = start <= output < start + width
        place = output - start if inside else output - width * (output >= start + width)
        law.append((near if inside else 1 - near) * _share(place, width if inside else steps))
    return law


def _share(place, places):
    """Return the share of words whose product with `places` has this high half."""
    first, last = -(-place * TWO64 // places), -(-(place + 1) * TWO64 // places)
    return Fraction(last - first, TWO64)

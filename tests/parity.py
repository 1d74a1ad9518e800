"""The forms in which a plan can be drawn, and the check of a law against draws, shared by several tests."""

import json

import numpy as np

from tests.chisquare import ERROR_LEVEL, p_value


def drawn_in_chunks(mechanism, words, chunks: list[int]) -> list[int]:
    """Return the plan that the compiled form draws in chunks of the given sizes."""
    draw = mechanism.draw(words)
    return [source for count in chunks for source in draw.push(count).tolist()] + draw.finish().tolist()


def walked_with_a_restart(mechanism, words, before: int, after: int) -> list[int]:
    """Return the plan that the plain form walks, with its state handed to a new one in between, as JSON."""
    first, second = mechanism.walk(words), mechanism.walk(words)
    walked = [source for _ in range(before) for source in first.push()]
    second.restore(json.loads(json.dumps(first.state())))
    walked += [source for _ in range(after) for source in second.push()]
    return walked + list(second.finish())


def check_late_law(source, law, window: int, slots) -> None:
    """Accept the law of delays at far-apart slots at the error level; refuse it with P_0 10% off."""
    late = np.where(source[slots] >= 0, slots - source[slots], window)
    counts = np.bincount(late, minlength=window + 1)
    chances = np.append(law.probabilities, law.empty)
    assert counts[chances == 0].sum() == 0
    assert p_value(counts, chances) > ERROR_LEVEL
    wrong = chances * (1 - 1.1 * chances[0]) / (1 - chances[0])
    wrong[0] = 1.1 * chances[0]
    assert p_value(counts, wrong) < ERROR_LEVEL

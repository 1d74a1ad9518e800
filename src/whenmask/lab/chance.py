"""Numbers drawn for experiments: uniform, normal and Laplace, from the keystream, so that a re-run draws the same.

For experiments only: floats drawn this way must never protect anything.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from whenmask.keystream import Context, Key, Keystream

# All results of the lab can be repeated by anybody: its key is no secret.
KEY = Key.for_testing(2023)


def uniforms(purpose: str, count: int, *, series: int = 0) -> NDArray[np.float64]:
    """Return numbers above 0 and below 1, in steps of 2^-52."""
    words = Keystream(KEY, Context("lab", series, purpose)).words(0, count)
    return ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def normals(purpose: str, count: int, *, series: int = 0) -> NDArray[np.float64]:
    """Return standard normal numbers."""
    drawn: NDArray[np.float64] = ndtri(uniforms(purpose, count, series=series))
    return drawn


def laplaces(purpose: str, count: int, scale: float, *, series: int = 0) -> NDArray[np.float64]:
    """Return Laplace noise of a scale."""
    centred = uniforms(purpose, count, series=series) - 0.5
    noise: NDArray[np.float64] = -scale * np.sign(centred) * np.log1p(-2 * np.abs(centred))
    return noise

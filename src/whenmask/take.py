"""Putting values where a plan says: `take` for whatever holds them.

One function serves arrays, lists, Arrow data and data frames, because a release never looks at values: it only
says which row goes where. What has a natural empty value (NaN, NaT, None, null) gets it in empty slots; other
types must be told.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from whenmask.errors import DataError

EMPTY: Any = object()


def take(values: Any, source: NDArray[np.int64], empty: Any = EMPTY) -> Any:
    """Return `values` with row `source[t]` at slot t, in a container of the same type.

    Args:
        values: A numpy array (along axis 0), list, tuple, Arrow array or table, pandas or Polars series or frame.
        source: A row number per slot, −1 for an empty slot.
        empty: What to put into empty slots; by default what suits the type.

    Raises:
        DataError: The lengths differ, the type is unknown, or it cannot hold an empty value.
    """
    if not hasattr(values, "__len__") or (isinstance(values, np.ndarray) and values.ndim == 0):
        hint = "give an array, a list, Arrow data, or a pandas or Polars series or frame"
        raise DataError("the values must have a length", f"a {type(values).__name__}", hint)
    if len(values) != source.size:
        hint = "a plan serves one series of exactly its own length"
        raise DataError("the plan and the values differ in length", f"{source.size} and {len(values)}", hint)
    empties = source < 0
    holes = empties if empties.any() else None
    if isinstance(values, np.ndarray):
        return _take_array(values, source, holes, empty)
    library = type(values).__module__.partition(".")[0]
    if library == "pyarrow":
        return _take_arrow(values, source, holes, empty)
    if library == "pandas":
        return _take_pandas(values, source, holes, empty)
    if library == "polars":
        return _take_polars(values, source, holes, empty)
    if isinstance(values, Sequence) and not isinstance(values, str | bytes | bytearray):
        blank = None if empty is EMPTY else empty
        taken = [values[i] if i >= 0 else blank for i in source.tolist()]
        return tuple(taken) if isinstance(values, tuple) else taken
    hint = "give an array, a list, Arrow data, or a pandas or Polars series or frame"
    raise DataError("values of this type cannot be released", f"a {type(values).__name__}", hint)


Holes: TypeAlias = NDArray[np.bool_] | None


def _take_array(values: NDArray[Any], source: NDArray[np.int64], holes: Holes, empty: Any) -> NDArray[Any]:
    taken = np.take(values, source, axis=0)
    if holes is not None:
        taken[holes] = _natural_empty(values.dtype) if empty is EMPTY else empty
    return taken


def _natural_empty(dtype: np.dtype[Any]) -> Any:
    """Return the value that means "no value" in arrays of this type."""
    match dtype.kind:
        case "f" | "c":
            return np.nan
        case "M" | "m":
            return np.array("NaT", dtype)
        case "O":
            return None
    hint = "say what an empty slot holds, as in apply(x, empty=-1), or use a type that has NaN or null"
    raise DataError("this type of array has no empty value", f"dtype {dtype}", hint)


def _take_arrow(values: Any, source: NDArray[np.int64], holes: Holes, empty: Any) -> Any:
    import pyarrow as pa  # only where the caller's values are Arrow's

    taken = values.take(pa.array(source, mask=holes))
    if holes is None or empty is EMPTY:
        return taken
    mask = pa.array(holes)

    def filled(column: Any) -> Any:
        return pa.compute.if_else(mask, pa.scalar(empty, column.type), column)

    if isinstance(taken, pa.Array | pa.ChunkedArray):
        return filled(taken)
    return type(taken).from_arrays([filled(column) for column in taken.columns], schema=taken.schema)


def _take_pandas(values: Any, source: NDArray[np.int64], holes: Holes, empty: Any) -> Any:
    # The index names the slots, so it stays where it is.
    taken = values.take(source.clip(min=0)).set_axis(values.index) if len(values) else values.copy()
    if holes is None:
        return taken
    return taken.mask(holes) if empty is EMPTY else taken.mask(holes, empty)


def _take_polars(values: Any, source: NDArray[np.int64], holes: Holes, empty: Any) -> Any:
    import polars as pl  # only where the caller's values are Polars'

    index = pl.Series(source)
    if holes is not None:
        index = index.set(pl.Series(holes), None)
    frame = values.to_frame("x") if isinstance(values, pl.Series) else values
    taken = frame.select(pl.all().gather(index))
    if holes is not None and empty is not EMPTY:
        filled = pl.when(pl.Series(holes)).then(pl.lit(empty)).otherwise(pl.all())
        taken = taken.with_columns(filled.name.keep())
    return taken["x"].alias(values.name) if isinstance(values, pl.Series) else taken

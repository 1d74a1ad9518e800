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
# Which slots are empty; None where none is.
Holes: TypeAlias = NDArray[np.bool_] | None
TYPES_HINT = "give an array, a list, Arrow data, or a pandas or Polars series or frame"


def take(values: Any, source: NDArray[np.int64], empty: Any = EMPTY) -> Any:
    """Return `values` with row `source[t]` at slot t, in a container of the same type.

    Whole numbers and truth values of pandas become its nullable ones where there are empty slots and no `empty`
    is given: floats would not keep every whole number.

    Args:
        values: A numpy array (along axis 0), list, tuple, Arrow array or table, pandas or Polars series or frame.
        source: A row number per slot, −1 for an empty slot.
        empty: What to put into empty slots; by default what suits the type.

    Raises:
        DataError: The lengths differ, the type is unknown, or it cannot hold an empty value, or not the one given.
    """
    if not hasattr(values, "__len__") or (isinstance(values, np.ndarray) and values.ndim == 0):
        raise DataError("the values must have a length", f"a {type(values).__name__}", TYPES_HINT)
    if len(values) != source.size:
        hint = "a plan serves one series of exactly its own length"
        raise DataError("the plan and the values differ in length", f"{source.size} and {len(values)}", hint)
    empties = source < 0
    holes = empties if empties.any() else None
    if isinstance(values, np.ndarray):
        return _take_array(values, source, holes, empty)
    libraries = {base.__module__.partition(".")[0] for base in type(values).__mro__}
    if "pyarrow" in libraries and hasattr(values, "take"):
        return _take_arrow(values, source, holes, empty)
    if "pandas" in libraries and hasattr(values, "set_axis"):
        return _take_pandas(values, source, holes, empty)
    if "polars" in libraries:
        return _take_polars(values, source, holes, empty)
    if isinstance(values, Sequence) and not isinstance(values, str | bytes | bytearray):
        blank = None if empty is EMPTY else empty
        taken = [values[i] if i >= 0 else blank for i in source.tolist()]
        return tuple(taken) if isinstance(values, tuple) else taken
    raise DataError("values of this type cannot be released", f"a {type(values).__name__}", TYPES_HINT)


def _unfit(empty: Any, kind: object) -> DataError:
    """Return the error for an `empty` that data of a type cannot hold as it is."""
    hint = "give one of the type of the data, or leave it out for NaN or null where the type has that"
    return DataError("the data cannot hold this `empty`", f"a {type(empty).__name__} for {kind}", hint)


def _take_array(values: NDArray[Any], source: NDArray[np.int64], holes: Holes, empty: Any) -> NDArray[Any]:
    taken = np.take(values, source, axis=0)
    if holes is not None:
        cell = _natural_empty(values.dtype) if empty is EMPTY else _cell(empty, values.dtype)
        try:
            taken[holes] = cell
        except ValueError:
            raise _unfit(empty, f"rows of shape {values.shape[1:]}") from None
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


def _cell(empty: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return `empty` as an array of the type, unless that would change it (1.5 to 1, 7 to a date, a text cut)."""
    cell = np.empty((), dtype)
    if dtype.kind == "O":
        cell[()] = empty
        return cell
    try:
        cell = np.array(empty, dtype)
    except (TypeError, ValueError, OverflowError):
        raise _unfit(empty, f"dtype {dtype}") from None
    changed = dtype.kind in "biuSU" and not np.array_equal(cell, np.array(empty))
    if changed or (dtype.kind == "M" and isinstance(empty, int)):
        raise _unfit(empty, f"dtype {dtype}")
    return cell


def _take_arrow(values: Any, source: NDArray[np.int64], holes: Holes, empty: Any) -> Any:
    # Only where the caller's values are Arrow's.
    import pyarrow as pa
    import pyarrow.compute as pc

    taken = values.take(pa.array(source, mask=holes))
    if holes is None:
        return taken
    null = empty is EMPTY or empty is None
    if isinstance(taken, pa.Table | pa.RecordBatch) and null and not all(f.nullable for f in taken.schema):
        hint = "say what an empty slot holds, as in apply(x, empty=0), or make the columns nullable"
        raise DataError("a column of the table has no empty value", "a field that is not null", hint)
    if null:
        return taken
    mask = pa.array(holes)

    def filled(column: Any) -> Any:
        try:
            cell = pa.scalar(empty, column.type)
            kept = not pa.types.is_integer(column.type) or cell.as_py() == empty
            column = pc.if_else(mask, cell, column)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            kept = False
        if not kept:
            raise _unfit(empty, column.type)
        return column

    if isinstance(taken, pa.Array | pa.ChunkedArray):
        return filled(taken)
    return type(taken).from_arrays([filled(column) for column in taken.columns], schema=taken.schema)


def _take_pandas(values: Any, source: NDArray[np.int64], holes: Holes, empty: Any) -> Any:
    # The index names the slots, so it stays where it is.
    if holes is None:
        return values.take(source).set_axis(values.index)
    numbered = values.set_axis(range(len(values)))
    if empty is EMPTY or empty is None:
        nullable = _nullable(numbered) if numbered.ndim == 1 else numbered.apply(_nullable)
        return nullable.reindex(source).set_axis(values.index)
    for dtype in [values.dtype] if values.ndim == 1 else set(values.dtypes):
        if isinstance(dtype, np.dtype):
            _cell(empty, dtype)  # pandas would warn, and change the type
    try:
        taken = numbered.reindex(source, fill_value=empty).set_axis(values.index)
    except (TypeError, ValueError):
        raise _unfit(empty, "these columns") from None
    if not np.all(taken.dtypes == values.dtypes):
        raise _unfit(empty, "these columns")
    return taken


def _nullable(column: Any) -> Any:
    """Return a pandas column of whole numbers or truth values in the type that has null, others as they are."""
    dtype = column.dtype
    if not isinstance(dtype, np.dtype) or dtype.kind not in "biu":
        return column
    # int64 to Int64, uint8 to UInt8.
    return column.astype("boolean" if dtype.kind == "b" else dtype.name.replace("int", "Int").replace("u", "U"))


def _take_polars(values: Any, source: NDArray[np.int64], holes: Holes, empty: Any) -> Any:
    import polars as pl  # only where the caller's values are Polars'

    index = pl.Series(source)
    if holes is not None:
        index = index.set(pl.Series(holes), None)
    frame = values.to_frame("x") if isinstance(values, pl.Series) else values
    taken = frame.select(pl.all().gather(index))
    if holes is not None and empty is not EMPTY:
        filled = pl.when(pl.Series(holes)).then(pl.lit(empty)).otherwise(pl.all())
        try:
            taken = taken.with_columns(filled.name.keep())
        except pl.exceptions.PolarsError:
            raise _unfit(empty, "these columns") from None
        if taken.schema != frame.schema:
            raise _unfit(empty, "these columns")
    return taken["x"].alias(values.name) if isinstance(values, pl.Series) else taken

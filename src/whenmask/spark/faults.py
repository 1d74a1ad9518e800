"""What went wrong in a worker, told in our own words: short, and without data.

Spark sends a worker's error to the driver as text, amid the traces of two languages. Workers therefore raise only
errors that may be shown, and `plain_errors` finds them again in what Spark raises.
"""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.errors import PySparkException

from whenmask import errors
from whenmask.errors import DataError, WhenmaskError

SENT = re.compile(r"^whenmask\.errors\.(\w+): (.*)$", re.MULTILINE)
ROW = "(counted from 0)"


@contextmanager
def plain_errors() -> Iterator[None]:
    """Raise what went wrong in the workers as the error that it was, without Spark's traces.

    Around whatever starts a job that uses released rows: `write`, `count`, `collect`, `awaitTermination`. Errors
    of Spark itself come through as they are.

    Raises:
        WhenmaskError: The rows cannot be released.

    Example:
        >>> with plain_errors():
        ...     pass  # released.write.parquet("released")
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        found = SENT.search(str(error))
        if found is None:
            raise
        kind, message = found.groups()
        raise _rebuilt(kind, message) from None


@contextmanager
def unwarned() -> Iterator[None]:
    """Leave out a warning about pandas, which whenmask hands nothing but numbers and bytes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


def _rebuilt(kind: str, message: str) -> WhenmaskError:
    """Return the error that has this text."""
    known = getattr(errors, kind, WhenmaskError)
    rest, _, hint = message.partition(" Hint: ")
    problem, _, got = rest.partition("; got ")
    rebuilt: WhenmaskError = known(problem, got.removesuffix(".") or None, hint or None)
    return rebuilt


@contextmanager
def fit_to_show() -> Iterator[None]:
    """Let only errors out of a worker that show no data; rows are named by the partition that holds them."""
    try:
        yield
    except WhenmaskError as error:
        raise type(error)(error.problem, _placed(error.got), error.hint) from None
    except (PySparkException, OSError, MemoryError):
        raise  # of Spark, or of the machine
    except Exception as error:  # noqa: BLE001 - its text may show data
        hint = "this is a fault of whenmask or of a column's type: please report it with the types of the columns"
        raise DataError("the rows could not be released", type(error).__name__, hint) from None


def _placed(got: str | None) -> str | None:
    context = TaskContext.get()
    if got is None or context is None or ROW not in got:
        return got
    return f"{got.replace(ROW, f'of partition {context.partitionId()}')}, both counted from 0"

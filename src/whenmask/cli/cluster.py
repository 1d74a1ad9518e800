"""The command line on Spark: a session that is quiet, and gone when the command is done."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from whenmask.columns import Columns
from whenmask.errors import DependencyError
from whenmask.files import Job
from whenmask.mechanisms import Temporal
from whenmask.receipt import Receipt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def release_on_spark(
    sources: Sequence[str],
    columns: Columns,
    job: Job,
    *,
    master: str,
    window: str,
    chosen: Callable[[int], Temporal],
) -> Receipt:
    """Release Parquet files to a folder of such; return the receipt.

    Args:
        sources: Files, folders or globs.
        columns: The roles of the columns.
        job: Where to, and how.
        master: Where Spark runs.
        window: The window, as it was asked for.
        chosen: Returns the mechanism of a window.

    Raises:
        WhenmaskError: The rows cannot be released.
    """
    with started(master) as session:
        from whenmask.spark.folders import Inputs, check_output, release_folder

        inputs = Inputs(session, sources, columns)
        check_output(job, inputs.files)
        return release_folder(inputs, chosen(inputs.window(window)), job)


@contextmanager
def started(master: str) -> Iterator["SparkSession"]:
    """Give a session.

    Raises:
        DependencyError: Spark or Java is missing, or the master cannot be reached.
    """
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        hint = "on Debian or Ubuntu, apt-get install openjdk-17-jre-headless"
        raise DependencyError("Spark needs Java 17", "no java", hint)
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    import whenmask.spark  # noqa: F401 - says what is missing

    if master.startswith("local"):  # workers run on this machine: in this Python, not the first there is
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("whenmask release")
    settings = {"spark.ui.showConsoleProgress": "false", "spark.sql.session.timeZone": "UTC"}
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        with silenced():
            session = builder.getOrCreate()
    except (PySparkException, OSError) as error:
        hint = "check --master, and that `java -version` says 17 or later"
        raise DependencyError("Spark cannot be started", type(error).__name__, hint) from None
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def silenced() -> Iterator[None]:
    """Let what is started meanwhile write its errors nowhere: Spark's logs would bury what is said here."""
    before, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(nowhere)

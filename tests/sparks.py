"""The real Spark, started once for all tests of a process, and the search for what it must never write down."""

import gc
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from whenmask import Key

ROOT = Path(__file__).parent.parent
# pyspark leaves sockets to the garbage collector, and says what it thinks of the tested pandas.
# A Java that does not live long enough to be worth compiling well.
SHORT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
FILTERS = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


@cache
def why_not() -> str | None:
    """Return why there is no Spark here, None if there is."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "Spark is not installed"
    java = shutil.which("java")
    if java is None:
        return "Java 17 is not installed"
    version = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    number = version.partition('"')[2].partition(".")[0].partition('"')[0]
    return None if number.isdigit() and int(number) >= 17 else "Java is older than 17"


def needs_spark() -> list[pytest.MarkDecorator]:
    """Return the marks of tests that start Spark."""
    return [pytest.mark.skipif(why_not() is not None, reason=why_not() or ""), *FILTERS]


@cache
def events() -> Path:
    """Return the folder of the event logs, of one process."""
    return Path(tempfile.mkdtemp(prefix="whenmask-events-"))


@cache
def session() -> Any:
    """Return a session that tries each task three times."""
    from pyspark.sql import SparkSession

    # Workers must find the helpers of these tests.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable  # not the first python3 there is, which may lack everything
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "Europe/Zurich",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.warehouse.dir": str(events() / "warehouse"),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events().as_uri(),
        "spark.eventLog.compress": "false",
        "spark.sql.maxPlanStringLength": str(1 << 24),
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": SHORT,
    }
    builder = SparkSession.builder.master("local[2, 3]").appName("whenmask tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        made = builder.getOrCreate()
        made.sparkContext.setLogLevel("OFF")
    return made


def collect() -> None:
    """Let go of sockets here, where nobody minds that they were open."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def forms(key: Key) -> dict[str, bytes]:
    """Return what a key looks like in texts and files: raw, in digits, and as it would be printed."""
    import base64

    secret = key.expose()[1:]
    listed = ", ".join(str(octet) for octet in secret)
    signed = ", ".join(str(octet - 256 if octet > 127 else octet) for octet in secret)
    return {
        "raw": secret,
        "hex": secret.hex().encode(),
        "HEX": secret.hex().upper().encode(),
        # Aligned in one of three ways; what the neighbours make of the ends is cut off.
        **{f"base64 {skip}": base64.b64encode(bytes(skip) + secret)[4:40] for skip in range(3)},
        "repr": repr(secret)[2:-1].encode(),
        "list": listed.encode(),
        "signed list": signed.encode(),
        "bare list": listed.replace(" ", "").encode(),
        "bare signed list": signed.replace(" ", "").encode(),
    }


def leaks(key: Key, *places: Path) -> list[str]:
    """Return where the key can be found in the files of these folders, packed ones unpacked."""
    import gzip
    import zlib

    found = []
    for place in places:
        for path in sorted(file for file in place.rglob("*") if file.is_file()):
            content = path.read_bytes()
            if content[:2] == b"\x1f\x8b":
                content += gzip.decompress(content)
            else:
                with suppress(zlib.error):
                    content += zlib.decompress(content)
            found += [f"{form} in {path.name}" for form, octets in forms(key).items() if octets in content]
    return found

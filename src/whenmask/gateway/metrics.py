"""Numbers for Prometheus, gathered when it asks, so that they cost the gateway nothing."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from whenmask.errors import DependencyError, FileError
from whenmask.gateway.configuration import Metrics

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

# What there is now; all else only grows.
GAUGES = {
    "series": "Series that are under way.",
    "pending": "Readings whose slot has not left.",
    "outbox": "Messages that the broker has not acknowledged.",
    "lag": "Seconds since nothing was waiting for an acknowledgement.",
    "connected": "Connections to brokers.",
}
COUNTERS = {
    "inputs": "Messages taken.",
    "released": "Slots released.",
    "duplicates": "Readings that came again, and were recognised.",
    "late": "Readings accepted out of order.",
    "overdue": "Slots that left later than the configured delay, since they were not decided.",
    "ended": "Series that were ended.",
    "redelivered": "Messages that the broker marked as sent again.",
    "resent": "Releases sent again after a connection was lost.",
    "lost at QoS 0": "Messages at QoS 0 that came while no more could be taken.",
}
REFUSED = "refused "


class Collector:
    """Turns the gateway's numbers into metrics."""

    def __init__(self, numbers: Callable[[], Mapping[str, float]]) -> None:
        self._numbers = numbers

    def collect(self) -> Iterator["Metric"]:
        """Yield all metrics."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        numbers = self._numbers()
        for name, text in GAUGES.items():
            unit = "_seconds" if name == "lag" else ""
            yield GaugeMetricFamily(f"whenmask_{name}{unit}", text, value=numbers.get(name, 0))
        for name, text in COUNTERS.items():
            known = name.lower().replace(" ", "_")
            yield CounterMetricFamily(f"whenmask_{known}", text, value=numbers.get(name, 0))
        refused = CounterMetricFamily("whenmask_refused", "Messages refused, by reason.", labels=["reason"])
        for name, value in numbers.items():
            if name.startswith(REFUSED):
                refused.add_metric([name.removeprefix(REFUSED)], value)
        yield refused


@contextmanager
def offered(metrics: Metrics | None, numbers: Callable[[], Mapping[str, float]]) -> Iterator[int | None]:
    """Answer Prometheus meanwhile, if that is configured; yield the port.

    Raises:
        DependencyError: prometheus-client is not installed.
        FileError: The port cannot be listened on.
    """
    if metrics is None:
        yield None
        return
    try:
        from prometheus_client import CollectorRegistry, start_http_server
    except ImportError:
        raise DependencyError("metrics need prometheus-client", hint="pip install whenmask[mqtt]") from None
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector(numbers))
    try:
        server, thread = start_http_server(metrics.port, metrics.address, registry)
    except OSError as error:
        raise FileError("metrics cannot be offered", error.strerror, "choose another port") from None
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

"""What every gateway is made of, whichever way its messages come and go."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from whenmask.errors import ParameterError, SecretError, whole_number
from whenmask.gateway.configuration import Configuration, Privacy, Storage
from whenmask.gateway.exchange import REMEMBERED, Exchange, Limits
from whenmask.gateway.metrics import offered
from whenmask.gateway.series import Course
from whenmask.gateway.state import Binding, State
from whenmask.keystream import Key
from whenmask.mechanisms import PureSwitch, Temporal

if TYPE_CHECKING:
    from whenmask.gateway.mqtt import Gateway

DELAY_HINT = "slot t leaves when reading t + delay has come"


@dataclass(frozen=True)
class Timing:
    """When slots leave, and what that tells.

    Attributes:
        delay: Slot t leaves when reading t + delay has come.
        delta: What an observer of the clock adds to the delta of the guarantee.
    """

    delay: int
    delta: float


@dataclass(frozen=True)
class Law:
    """A mechanism and when its slots leave."""

    mechanism: Temporal
    timing: Timing

    @classmethod
    def of(cls, privacy: Privacy) -> Self:
        """Return what is configured."""
        mechanism = privacy.chosen()
        return cls(mechanism, choose_timing(privacy, mechanism))

    def open_state(self, path: str, key: Key, *, encrypt: bool, run: str | None = None) -> State:
        """Open the state of a gateway that draws by this law."""
        binding = Binding.of(self.mechanism.identity, self.timing.delay, key, encrypt=encrypt)
        return State(path, binding, key, run)

    def course(self, key: Key, state: State) -> Course:
        """Return what all series of the gateway share."""
        return Course(self.mechanism, self.timing.delay, key, state.run)


def choose_timing(privacy: Privacy, mechanism: Temporal) -> Timing:
    """Return the delay that is configured, or the least that adds no more to delta than is configured.

    A mechanism that decides each slot after a fixed number of readings needs no further delay, and its clock tells
    nothing. One whose slots are decided sooner or later would tell by that where their values come from.
    """
    natural = mechanism.latency.most
    if privacy.delay is not None:
        delay = whole_number("delay", privacy.delay, least=natural or 0, hint=DELAY_HINT)
    elif natural is not None:
        delay = natural
    else:
        delay = _pure(mechanism).safe_delay(privacy.timing_delta)
    return Timing(delay, 0.0 if natural is not None else _pure(mechanism).timing_delta(delay))


def opened_key(storage: Storage) -> Key:
    """Return the gateway's key; make one where neither it nor a state is there yet.

    Raises:
        SecretError: The key is missing or unsafe.
    """
    path = Path(storage.key_file or f"{storage.file}.key")
    if not path.exists():
        if Path(storage.file).exists():
            hint = "put it back; without it the state is of no use, and would have to be moved away as well"
            raise SecretError("the key of the state is missing", hint=hint)
        Key.fresh().save(path)
    return Key.from_file(path)


@contextmanager
def opened_gateway(configuration: Configuration, law: Law) -> Iterator["Gateway"]:
    """Open the state of a gateway and prepare its connections.

    Raises:
        DependencyError: The extra `mqtt` is not installed.
        SecretError: The key is missing or unsafe.
        StateError: The state is damaged, of another gateway or in use.
    """
    from whenmask.gateway.mqtt import Gateway  # an extra, which pipes do without

    storage = configuration.state
    key = opened_key(storage)
    with law.open_state(storage.file, key, encrypt=storage.encrypt) as state:
        remembered = max(REMEMBERED, configuration.mqtt.in_flight if accepts_late(configuration) else 0)
        limits = Limits(storage.max_series, remembered, configuration.dead_letters)
        yield Gateway(configuration, Exchange(law.course(key, state), state, limits), key)


def run_gateway(configuration: Configuration, law: Law) -> None:
    """Run a gateway until it is asked to stop."""
    check_surroundings(configuration)
    with opened_gateway(configuration, law) as gateway, offered(configuration.metrics, gateway.numbers_and_lag):
        gateway.serve()


def end_series(configuration: Configuration, law: Law) -> int:
    """End all series of a gateway that is stopped; return how many belong to no stream."""
    with opened_gateway(configuration, law) as gateway:
        return gateway.end_all()


def check_surroundings(configuration: Configuration) -> None:
    """Refuse what a configuration names and cannot be used.

    Raises:
        FileError: A certificate, its key or a password cannot be read.
    """
    from whenmask.gateway.link import read_password, tls_context  # an extra, which pipes do without

    for broker in (configuration.mqtt, configuration.output):
        if broker is not None:
            read_password(broker.password_file)
            if broker.tls is not None:
                tls_context(broker.tls)


def accepts_late(configuration: Configuration) -> bool:
    """Return whether some stream accepts readings out of order."""
    return any(route.late == "accept" for route in configuration.stream)


def _pure(mechanism: Temporal) -> PureSwitch:
    if not isinstance(mechanism, PureSwitch):
        raise ParameterError("the timing of this mechanism is not known", type(mechanism).__name__)
    return mechanism

"""What every gateway is made of, whichever way its messages come and go."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from whenmask.errors import ParameterError, SecretError, whole_number
from whenmask.gateway.configuration import Privacy, Storage
from whenmask.gateway.series import Course
from whenmask.gateway.state import Binding, State
from whenmask.keystream import Key
from whenmask.mechanisms import PureSwitch, Temporal

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


def _pure(mechanism: Temporal) -> PureSwitch:
    if not isinstance(mechanism, PureSwitch):
        raise ParameterError("the timing of this mechanism is not known", type(mechanism).__name__)
    return mechanism

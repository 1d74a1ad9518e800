"""What all temporal mechanisms have in common: plan, stream, release and expected cost, made of two samplers."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray

from whenmask.errors import ParameterError
from whenmask.guarantee import Claim, Guarantee
from whenmask.keystream import Key, Keystream, Series
from whenmask.law import Latency, Law, UnitCosts
from whenmask.plan import Plan, draw_plan
from whenmask.sampler import Draw, Walk
from whenmask.stream import Stream
from whenmask.take import EMPTY

if TYPE_CHECKING:
    from whenmask.columns import ColumnNames


class Temporal(ABC):
    """A mechanism that permutes timestamps and never looks at values.

    A new mechanism is a frozen dataclass that says what it is (`window`, `identity`), how it draws (`draw`,
    `walk`), what its law and published claim are, and what an audit needs (`prefixes`, `log_probabilities`); the
    rest is here.
    """

    # A frozen dataclass field or a property in each mechanism.
    window: int

    # Whether `calibrate="guarantee"` is possible; where it is not, epsilon calibrates the paper's claim.
    provable: ClassVar[bool] = True

    @property
    @abstractmethod
    def identity(self) -> str:
        """The mechanism's name and exact parameters: different for different laws."""

    @abstractmethod
    def draw(self, words: Keystream) -> Draw:
        """Start a release for many values at a time (compiled)."""

    @abstractmethod
    def walk(self, words: Keystream) -> Walk:
        """Start a release for one value at a time (plain Python)."""

    @property
    @abstractmethod
    def parameters(self) -> dict[str, float]:
        """The probabilities and other parameters in use, by name."""

    @property
    @abstractmethod
    def latency(self) -> Latency:
        """How many further values come before a slot is released."""

    @abstractmethod
    def law(self) -> Law:
        """Return how far values are displaced, and how often."""

    @property
    @abstractmethod
    def claim(self) -> Claim | None:
        """What the mechanism's paper says of it, if there is one. Not a guarantee."""

    @abstractmethod
    def prefixes(self, trials: int, steps: int, *, key: Key) -> NDArray[np.int64]:
        """Return the first slots of independent plans, a row each, for an audit (see `audit.Auditable`)."""

    @abstractmethod
    def log_probabilities(self, prefixes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the log-probability of each such row, −∞ where it cannot be drawn."""

    @property
    def guarantee(self) -> Guarantee:
        """What holds in the standard reading of differential privacy.

        Where nothing is proved, as here, it is measured at the epsilon that the paper claims, the first time it
        is asked for, which takes seconds; its basis then says "audited". That is evidence and no proof. A
        mechanism with a proof states that instead.
        """
        # Here, not above: few need it, and it is a tenth of what the package takes to import.
        from whenmask.audit import measured_guarantee

        if self.claim is None:
            raise NotImplementedError(f"{type(self).__name__} has neither a claim nor a guarantee")
        return measured_guarantee(self, self.claim.epsilon)

    @property
    def least_delta(self) -> float:
        """A proved lower bound: no delta below it holds, at any epsilon. 0 where none is known."""
        return 0.0

    def plan(self, n: int, *, key: Key | None = None, series: Series = None, run: str | None = None) -> Plan:
        """Draw a plan for a series of `n` values.

        Args:
            n: The length of the series.
            key: The secret; a fresh one by default.
            series: What the series is called; each series of a run gets a plan of its own.
            run: Only to repeat a run on the very same input; a fresh run id by default.
        """
        return draw_plan(self, n, key=key, series=series, run=run)

    def stream(
        self,
        *,
        key: Key | None = None,
        series: Series = None,
        run: str | None = None,
        empty: Any = None,
    ) -> Stream:
        """Start a release value by value; arguments as for `plan`. Empty slots come out as `empty`."""
        return Stream(self, key=key, series=series, run=run, empty=empty)

    def release(
        self,
        data: Any,
        /,
        *,
        key: Key | None = None,
        series: Series = None,
        run: str | None = None,
        empty: Any = EMPTY,
        **columns: "Unpack[ColumnNames]",
    ) -> Any:
        """Return a series or a table released, in the type it came in.

        A series (array, list, Arrow array, pandas or Polars series) is `plan(len(data), …).apply(data)`. In a
        table (pandas, Polars eager or lazy, Arrow) each series has its own plan, in the order of its times: the
        columns `by`, `time` and `keep` stay, and the values move. Rows may stand in any order, and keep it.

        Args:
            data: A series of values, or a table.
            key: The secret; a fresh one by default.
            series: What the series is called where no column says so; the rest as for `plan`.
            run: Only to repeat a run on the very same input; a fresh run id by default.
            empty: What empty slots hold; by default NaN, NaT, None or null, as suits the type.
            **columns: The roles of a table's columns, each a name or a list of names: `by` names the series,
                `time` orders their slots (the rows as they stand, if left out), `values` move together (all
                other columns, if left out), and `keep` stay with their slot, in the clear.

        Raises:
            ParameterError: The columns do not fit the table.
            DataError: A time is repeated within a series, an id or time is null, or a type cannot be released.

        Example:
            >>> import pyarrow as pa
            >>> from whenmask import Key, RanSwitch
            >>> table = pa.table({"meter": ["a", "b"] * 3, "hour": [0, 0, 1, 1, 2, 2], "kwh": [1, 4, 2, 5, 3, 6]})
            >>> mechanism = RanSwitch.from_probabilities(q=0.3, window=3)
            >>> released = mechanism.release(table, by="meter", time="hour", key=Key.for_testing(7), run="example")
            >>> released["hour"].to_pylist(), sorted(released["kwh"].to_pylist()[::2])
            ([0, 0, 1, 1, 2, 2], [1, 2, 3])
        """
        if not isinstance(data, np.ndarray | list | tuple):
            # Only where there may be a table: a stream on a small machine needs neither Arrow nor narwhals.
            from whenmask import frames
            from whenmask.columns import Columns

            if frames.is_frame(data):
                roles = Columns.named(series, **columns)
                return frames.release_frame(data, self, roles, key=key, run=run, empty=empty)
        if columns:
            hint = "only a table has columns: a pandas or Polars frame, or an Arrow table"
            got = f"{', '.join(columns)} with a {type(data).__name__}"
            raise ParameterError("columns can be named only in a table", got, hint)
        length = len(data) if hasattr(data, "__len__") else 0  # what has no length, `take` refuses
        return self.plan(length, key=key, series=series, run=run).apply(data, empty)

    def expected_cost(self, units: UnitCosts | None = None) -> float:
        """Return the expected cost per timestamp, from the law."""
        return self.law().expected_cost(units)

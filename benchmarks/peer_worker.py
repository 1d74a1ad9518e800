"""The peers, in their own environment: reads the names of jobs, answers with the seconds each took."""

import sys
import time
from collections.abc import Callable

import numpy as np

# Each peer's number of values: about a tenth of a second's worth.
SIZES = {
    "OpenDP, vector Laplace": 2_000,
    "OpenDP, randomised response": 1_000,
    "diffprivlib, Laplace": 5_000,
    "pure-ldp, GRR": 50_000,
    "multi-freq-ldpy, GRR": 50_000,
}


def jobs() -> dict[str, Callable[[], object]]:
    """Return what to run for each peer that can be imported."""
    values = np.random.default_rng(1).uniform(-1, 1, max(SIZES.values()))
    categories = ((values + 1) * 2.5).astype(int).tolist()
    made: dict[str, Callable[[], object]] = {}

    def opendp() -> None:
        import opendp.prelude as dp

        dp.enable_features("contrib")
        domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
        laplace = dp.m.make_laplace(domain, dp.l1_distance(T=float), scale=2.0)
        respond = dp.m.make_randomized_response_bool(prob=0.73)
        some, bits = values[: SIZES["OpenDP, vector Laplace"]], (values > 0).tolist()
        made["OpenDP, vector Laplace"] = lambda: laplace(some)
        count = SIZES["OpenDP, randomised response"]
        made["OpenDP, randomised response"] = lambda: [respond(bit) for bit in bits[:count]]

    def diffprivlib() -> None:
        from diffprivlib.mechanisms import Laplace

        laplace = Laplace(epsilon=1.0, sensitivity=2.0)
        numbers = values[: SIZES["diffprivlib, Laplace"]].tolist()
        made["diffprivlib, Laplace"] = lambda: [laplace.randomise(number) for number in numbers]

    def pure_ldp() -> None:
        from pure_ldp.frequency_oracles.direct_encoding import DEClient

        client = DEClient(epsilon=1.0, d=5)
        some = [category + 1 for category in categories[: SIZES["pure-ldp, GRR"]]]
        made["pure-ldp, GRR"] = lambda: [client.privatise(category) for category in some]

    def multi_freq() -> None:
        from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Client

        some = categories[: SIZES["multi-freq-ldpy, GRR"]]
        made["multi-freq-ldpy, GRR"] = lambda: [GRR_Client(category, 5, 1.0) for category in some]

    for peer in (opendp, diffprivlib, pure_ldp, multi_freq):
        try:
            peer()
        except Exception as error:  # noqa: BLE001 - one peer that cannot be had must not hide the others
            print(f"{peer.__name__} cannot be had: {error!r}", file=sys.stderr)
    return made


def main() -> None:
    """Answer until there is nothing more to do."""
    found = jobs()
    answers = sys.stdout
    sys.stdout = sys.stderr  # peers that print do not disturb
    print("|".join(found), file=answers, flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        found[line.strip()]()
        print(time.perf_counter() - start, file=answers, flush=True)


if __name__ == "__main__":
    main()

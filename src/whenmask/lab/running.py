"""Running tasks on all cores: in processes of their own, started anew, so that it is the same everywhere."""

import importlib.util
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager

from whenmask.errors import DependencyError
from whenmask.lab.experiment import Experiment, Task
from whenmask.lab.results import Measured

# One thread in each process: there are as many processes as cores.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS")


def check_packages(experiments: Sequence[Experiment]) -> None:
    """Refuse to start where a package is missing that would be needed in the end.

    Raises:
        DependencyError: A package of the extra `lab` is missing.
    """
    for name in sorted({package for each in experiments for package in each.needs}):
        if importlib.util.find_spec(name) is None:
            hint = "run pip install 'whenmask[lab]'"
            raise DependencyError(f"the lab needs {name}, which is not installed", hint=hint)


def run_tasks(
    groups: Sequence[Sequence[Task]], *, workers: int, advance: Callable[[], None]
) -> Iterator[list[Measured]]:
    """Run all tasks; yield what each group measured, in the order of its tasks, whichever ends first.

    Args:
        groups: What to run. All cores work on the next groups while the last tasks of one go on.
        workers: How many processes; 1 runs all here.
        advance: Called after each task.
    """
    if workers == 1:
        for tasks in groups:
            done = []
            for task in tasks:
                done.append(task())
                advance()
            yield _flat(done)
        return
    with one_thread_each():
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(max_workers=workers, mp_context=context) as pool:
            submitted = [[pool.submit(task) for task in tasks] for tasks in groups]
            try:
                for futures in submitted:
                    for future in as_completed(futures):
                        future.result()
                        advance()
                    yield _flat(future.result() for future in futures)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def _flat(done: Iterable[list[Measured]]) -> list[Measured]:
    return [measured for each in done for measured in each]


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Let processes that are started meanwhile use one thread each."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

"""Where work runs: in this process, on this machine's cores, on a running Dask scheduler, or on a Slurm cluster."""

from __future__ import annotations

import asyncio
import functools
import logging
import shutil
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from types import FrameType
from typing import Any

from simulst.errors import SimulstError, first_line

logger = logging.getLogger(__name__)

CONNECT_SECONDS = 20
ANSWER_SECONDS = 5
RENEW_SECONDS = 30  # after which what Slurm has ended is looked for
REPLACE_SECONDS = 2  # after which processes of this machine that Dask has lost are looked for
# Dask makes its workers return every freed 64 KiB to the system. Encoders then spend half their time on page faults.
# Both thresholds must be set; otherwise large blocks are still returned at once.
MALLOC = {"MALLOC_TRIM_THRESHOLD_": 1 << 30, "MALLOC_MMAP_THRESHOLD_": 1 << 30}
ALLOWED_FAILURES = {"distributed.scheduler.allowed-failures": 1}  # workers that a job may kill before Dask gives it up
# Workers log errors, and warnings that memory is short. If they are closed during a job, as after Ctrl-C, they would
# also warn of the job and of lost connections. The error of a failed job is returned as its result.
QUIET = (
    "import logging; logging.getLogger('distributed').setLevel(logging.ERROR); "
    "logging.getLogger('distributed.worker').setLevel(logging.CRITICAL); "  # after Ctrl-C, its scheduler is gone
    "logging.getLogger('distributed.worker.memory').setLevel(logging.WARNING)"
)

Map = Callable[[Callable[[Any], Any], list[Any]], Iterable[Any]]
"""Like `map`, but yields each result when it is ready."""


@dataclass(frozen=True)
class Cluster:
    """Where jobs run.

    jobs: number of processes on this machine, or on a Slurm cluster.
    scheduler: address of a running Dask scheduler to use instead.
    slurm: start the processes on a Slurm cluster.
    """

    jobs: int = 1
    scheduler: str | None = None
    slurm: bool = False

    @property
    def is_here(self) -> bool:
        """Whether all processes run on this machine and share its cores."""
        return self.scheduler is None and not self.slurm


HERE = Cluster()
"""This process alone."""


@contextmanager
def mapper(cluster: Cluster) -> Iterator[Map]:
    """Yield a function that distributes jobs over the cluster.

    A job is a tuple that begins with a number. If it kills every process that tries it, its result is its number and
    an error message.
    Raises SimulstError: no scheduler answers; there is no Slurm, or it refuses the jobs.
    """
    if cluster.slurm and cluster.scheduler is not None:
        raise SimulstError("--slurm and --scheduler: give one of them.")
    if cluster.is_here and cluster.jobs <= 1:
        yield map
        return
    _prepare_dask()
    if cluster.slurm:
        workers = _slurm_workers(cluster.jobs)
    elif cluster.scheduler is not None:
        workers = _workers_of(cluster.scheduler)
    else:
        workers = _own_workers(cluster.jobs)
    with _quietly_interrupted(), workers as client:
        yield functools.partial(_run_all, client)


def _prepare_dask() -> None:
    """Import Dask and silence its log."""
    import distributed  # noqa: F401 - it makes Dask log every connection

    logging.getLogger("distributed").setLevel(logging.getLogger().level)
    for name in ("utils", "client", "core", "comm", "batched"):  # they log what they raise
        logging.getLogger(f"distributed.{name}").setLevel(logging.CRITICAL)


@contextmanager
def _own_workers(jobs: int) -> Iterator[Any]:
    """A client of `jobs` processes on this machine."""
    import dask
    from dask.distributed import Client, LocalCluster

    settings: dict[str, Any] = {f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in MALLOC.items()}
    settings["distributed.worker.preload"] = [*dask.config.get("distributed.worker.preload"), QUIET]
    with ExitStack() as stack:
        with dask.config.set(ALLOWED_FAILURES | settings), interrupts_blocked():
            own = LocalCluster(n_workers=jobs, threads_per_worker=1, dashboard_address="127.0.0.1:0")
            stack.callback(_close, own)
        ended = threading.Event()
        threading.Thread(target=_renew, args=(own, jobs, ended, REPLACE_SECONDS, _closed), daemon=True).start()
        stack.callback(ended.set)
        yield stack.enter_context(closing(Client(own, timeout=CONNECT_SECONDS)))


def _close(own: Any) -> None:
    """Close a cluster, also if a process of it is just beginning: tornado would log that it can't begin any more."""
    log = logging.getLogger("tornado.application")
    before, log.disabled = log.disabled, True
    try:
        own.close()
    finally:
        log.disabled = before


def _closed(own: Any) -> list[str]:
    """The processes that died while they began, by Dask's names. Dask itself removes those that take long to begin."""
    from distributed import Status

    return [name for name, one in list(own.workers.items()) if one.status in (Status.closed, Status.failed)]


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Block Ctrl-C in this thread, and for good in processes and threads that start in this block.

    A terminal sends Ctrl-C to all processes. Workers would print stack traces. The main process ends them instead.
    """
    resource_tracker.ensure_running()  # otherwise it starts with the first process, and unblocks the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _quietly_interrupted() -> Iterator[None]:
    """After Ctrl-C, do not log failing callbacks and lost connections.

    If Dask's client has just begun to wait for an answer (distributed.utils.sync), Ctrl-C makes one of its callbacks
    fail with a NameError.
    """
    log, handler = logging.getLogger("tornado.application"), signal.getsignal(signal.SIGINT)
    # Ctrl-C is ignored, or goes to another thread.
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        log.disabled = True
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # never reset: connections may end with the process
        handler(number, frame)

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        log.disabled = False


@contextmanager
def _workers_of(scheduler: str) -> Iterator[Any]:
    """A client of the running scheduler at this address. Raises SimulstError: there is no scheduler."""
    from dask.distributed import Client

    _check_scheduler(scheduler)
    try:
        client = Client(scheduler, timeout=CONNECT_SECONDS)
    except (OSError, TimeoutError, ValueError) as error:
        raise _no_scheduler(scheduler, error) from error
    with closing(client):
        if not client.nthreads():
            logger.warning("the scheduler at %s has no workers; waiting for some.", scheduler)
        yield client


def _check_scheduler(address: str) -> None:
    """Raise SimulstError unless a Dask scheduler answers at this address in time.

    Dask's client has no time limit for the first answer. If a port accepts connections but never answers, the client
    would wait forever.
    """
    from distributed.comm.addressing import parse_address
    from distributed.comm.registry import get_backend
    from distributed.core import rpc

    async def ask() -> str:
        async with rpc(address, timeout=CONNECT_SECONDS) as scheduler:
            return str((await scheduler.identity())["type"])

    try:
        get_backend(parse_address(address)[0])  # a busy machine may run out of time before connecting tells of it
        with ThreadPoolExecutor(1) as thread:  # as an event loop may run in this one: Jupyter's
            kind = thread.submit(asyncio.run, asyncio.wait_for(ask(), CONNECT_SECONDS + ANSWER_SECONDS)).result()
    except Exception as error:  # Dask raises many kinds of errors for answers of other programs
        raise _no_scheduler(address, error) from error
    if kind in ("Worker", "Nanny"):
        raise SimulstError(f"at {address} is a Dask {kind.lower()}; give --scheduler the address of its scheduler.")


def _no_scheduler(address: str, error: Exception) -> SimulstError:
    return SimulstError(
        f"no Dask scheduler answers at {address} ({first_line(error)}); start one, check host and port (the dashboard "
        "has a port of its own), or drop --scheduler."
    )


@contextmanager
def _slurm_workers(jobs: int) -> Iterator[Any]:
    """A client of `jobs` processes in jobs of a Slurm cluster. Waits until the first one has started."""
    import dask
    from dask.distributed import Client

    with dask.config.set(ALLOWED_FAILURES):
        own = slurm_cluster()
    ended = threading.Event()
    try:
        _submit(own, jobs)
        with closing(Client(own, timeout=CONNECT_SECONDS)) as client:
            _wait_for_worker(own, client)
            lost = "%d of Slurm's jobs ended; submitted again."
            threading.Thread(target=_renew, args=(own, jobs, ended, RENEW_SECONDS, _ended, lost), daemon=True).start()
            yield client
    finally:
        ended.set()
        with suppress(AssertionError):  # Dask raises it for a job that Slurm refused
            own.close()


def worker_threads() -> int:
    """The number of threads of the Dask worker that runs this function."""
    from dask.distributed import get_worker

    return int(get_worker().state.nthreads)


def slurm_cluster() -> Any:
    """A dask_jobqueue.SLURMCluster without jobs yet, as Dask's configuration (`jobqueue.slurm`) describes them.

    Raises SimulstError: there is no Slurm here; the configuration lacks cores or memory, or is not valid.
    """
    import dask
    from dask_jobqueue import SLURMCluster

    if shutil.which("sbatch") is None:
        raise SimulstError(
            "--slurm needs the program sbatch, which is not on this machine's PATH; "
            "run this on a login node of the cluster, or use --jobs or --scheduler."
        )
    prologue = [f"export {name}={value}" for name, value in MALLOC.items()]
    prologue += dask.config.get("jobqueue.slurm.job-script-prologue", None) or []
    options = {"dashboard_address": ":0"} | (dask.config.get("jobqueue.slurm.scheduler-options", None) or {})
    try:
        return SLURMCluster(job_script_prologue=prologue, scheduler_options=options)
    except ValueError as error:
        if dask.config.get("jobqueue.slurm.cores", None) and dask.config.get("jobqueue.slurm.memory", None):
            raise SimulstError(f"--slurm: {error}; see jobqueue.slurm in Dask's configuration.") from error
        raise SimulstError(
            "--slurm must be told the cores and memory of a job: set cores and memory under jobqueue: slurm: in "
            "~/.config/dask/jobqueue.yaml (docs/clusters.md)."
        ) from error


def _submit(own: Any, jobs: int) -> None:
    """Submit the Slurm jobs of `jobs` workers. Raises SimulstError: Slurm refuses the job."""
    trial = subprocess.run(["sbatch", "--test-only"], input=own.job_script(), capture_output=True, text=True)
    if trial.returncode:
        said = " ".join(trial.stderr.split())
        raise SimulstError(f"--slurm: sbatch refused the job: {said}; fix jobqueue.slurm in Dask's configuration.")
    own.scale(jobs)
    with suppress(RuntimeError):  # Slurm refused the job after all; Dask has logged it
        own.sync(own._correct_state)  # scale() submits in the background: wait for it


def _wait_for_worker(own: Any, client: Any) -> None:
    logger.warning("%d jobs are in Slurm's queue (see squeue); waiting for the first to start.", len(own.workers))
    while True:
        try:
            return client.wait_for_workers(1, timeout=RENEW_SECONDS)
        except TimeoutError:
            if len(_ended(own)) == len(own.workers):
                raise SimulstError(
                    "--slurm: no job is left in Slurm's queue, and none has reached this process; their slurm-*.out "
                    "files (or those in jobqueue.slurm.log-directory), or what sbatch said above, tell why."
                ) from None


def _renew(
    own: Any,
    jobs: int,
    ended: threading.Event,
    seconds: float,
    gone: Callable[[Any], list[str]],
    warning: str = "",
) -> None:
    """Start again what ends before the work is done, such as a Slurm job at its time limit: else nobody does the rest.

    gone: the workers that have ended, by Dask's names. Dask itself also removes one that disappeared.
    warning: of how many were lost; empty: none.
    """
    count = len(own.workers)
    while not ended.wait(seconds):
        for name in gone(own):
            own.workers.pop(name, None)
        if lost := count - len(own.workers):
            if warning:
                logger.warning(warning, lost)
            own.scale(jobs)


def _ended(own: Any) -> list[str]:
    """The jobs that are not in Slurm's queue, or no longer, by Dask's names."""
    jobs = {name: job.job_id for name, job in own.workers.items()}
    queue = subprocess.run(["squeue", "--me", "--noheader", "--format=%A"], capture_output=True, text=True)
    queued = queue.stdout.split()
    return [name for name, job in jobs.items() if job not in queued] if queue.returncode == 0 else []


def _run_all(client: Any, work: Callable[[Any], Any], jobs: list[Any]) -> Iterator[Any]:
    """`map` over Dask's workers; yields results in the order in which jobs end.

    When a worker dies, Dask tries all its jobs again, and finally gives all of them up (KilledWorker). So workers hold
    only one job per thread. Jobs that were given up are tried again one by one, to find the job that kills workers.
    """
    from dask.distributed import KilledWorker, as_completed

    waiting, suspects = deque(jobs), list[Any]()
    held: dict[Any, Any] = {}  # the key of a future → its job
    ready = as_completed()

    def submit(job: Any) -> Any:
        # pure=False: Dask must run two tasks with equal arguments as two tasks.
        return client.submit(work, job, pure=False)

    def fill() -> None:
        while waiting and len(held) < max(1, sum(client.nthreads().values())):
            future = submit(job := waiting.popleft())
            held[future.key] = job
            ready.add(future)

    with _scheduler_needed():
        fill()
        for future in ready:
            job = held.pop(future.key)
            try:
                yield future.result()
            except KilledWorker:
                suspects.append(job)
            future.release()
            fill()
        for job in suspects:
            try:
                yield submit(job).result()
            except KilledWorker:
                yield job[0], "the worker process died each time (out of memory?)"


@contextmanager
def _scheduler_needed() -> Iterator[None]:
    """Raise SimulstError if the scheduler goes away, and let Dask log nothing more of it: its client raises, or says
    that jobs are cancelled or that it is closed, as the connection breaks here or there."""
    from distributed import CancelledError
    from distributed.client import ClosedClientError
    from distributed.comm import CommClosedError

    try:
        yield
    except (CancelledError, ClosedClientError, CommClosedError) as error:
        for name in ("distributed", "tornado.application", "asyncio"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # never reset: the process ends
        raise SimulstError(
            f"the Dask scheduler went away ({first_line(error)}); run the same command again to go on."
        ) from error

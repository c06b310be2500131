"""Makes what tests share, and recipes' modules, importable here and in worker processes; fixtures of several tests."""

import gc
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from simulst.machine.light_import import UNUSED, leave_out_unused, skip_type_checks

SLOW = (
    *("recipes/test_mini.py", "handin/test_verify.py", "models/huggingface/test_model.py", "models/test_whisper.py"),
    *("recipes/test_whisper.py", "recipes/test_options.py", "recipes/test_new_pair.py", "models/test_streams.py"),
    *("measure/test_comet.py", "models/espnet/test_model.py", "docs/test_pages.py", "runs/test_resume.py"),
    *("egs/voices/test_prepare_voices.py", "models/espnet/test_blockwise_search.py", "recipes/test_must_c.py"),
    *("recipes/test_paper_a.py", "handin/test_pack.py", "runs/test_places.py", "training/test_finetune.py"),
    *("search/test_blockwise.py", "prefix/test_training.py", "show/test_curve.py", "egs/mini/test_make_mini.py"),
    *("prefix/test_extract.py", "serve/test_page.py", "serve/test_server.py"),
)
"""Files whose tests take long, the slowest first: begun last, they would keep the other workers waiting."""
_MODELS = (
    *("huggingface/test_model.py", "huggingface/test_context.py", "huggingface/test_causal.py", "test_streams.py"),
    *("huggingface/test_decoder.py", "huggingface/test_attention.py", "huggingface/test_both_families.py"),
    *("huggingface/test_relative.py", "cascade/test_text_model.py", "cascade/test_ctranslate2.py", "test_draft.py"),
    *("espnet/test_model.py", "espnet/test_blockwise_encoder.py", "espnet/test_full_context_encoder.py"),
    *("espnet/test_decoder.py", "espnet/test_lagging.py", "espnet/test_packing.py", "test_heads.py", "test_guide.py"),
    *("espnet/test_recurrent.py", "espnet/test_wait_k.py", "espnet/test_wait_token.py"),
    *("test_same_words.py", "speech_llm/test_speech_llm.py", "cascade/test_llm_attention.py"),
)
_OTHERS = ("serve/test_page.py", "serve/test_simulstream.py", "serve/test_openai.py", "machine/test_light_import.py")
LONG = {*(f"models/{name}" for name in _MODELS), *_OTHERS}
"""Files that `./test.sh core` leaves out: many kinds of networks beside other libraries', a browser, other programs."""

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))
import tracked  # noqa: E402
import warm  # noqa: E402

RECIPES = sorted({path.parent for path in tracked.files("egs/*/local/*.py")})
SHARED = {path.parent for path in tracked.files("tests/*/**/*.py") if path.name[:5] != "test_"}
SHARED -= {HERE / "warm_start"}  # which Python itself would import
PATHS = [str(path) for path in (HERE, *sorted(SHARED), ROOT, ROOT / "local", *RECIPES)]
sys.path[:0] = PATHS
if os.environ.pop("WARM", None) is None:  # or else a worker of pytest-xdist, which has the paths of who started it
    os.environ["PYTHONPATH"] = os.pathsep.join([*PATHS, os.environ.get("PYTHONPATH", "")]).rstrip(":")
else:
    os.environ["PYTHONPATH"] = os.environ["PYTHONPATH"].partition(os.pathsep)[2]  # without that of the warm start
# Hundreds of programs run from here: let the first keep what Python compiles.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# What a shell or nohup starts in the background ignores Ctrl-C, and so would all that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
logging.raiseExceptions = False  # of handlers whose stream was that of an earlier test
# Several workers test at once (pytest-xdist); threads that wait for each other would only take processors from them.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Every worker imports ESPnet.
skip_type_checks()
leave_out_unused(keep=UNUSED)


def pytest_configure(config: pytest.Config) -> None:
    """One warm process for all workers."""
    if not hasattr(config, "workerinput"):
        here = ExitStack()
        here.enter_context(warm.listening())
        config.add_cleanup(here.close)


@pytest.hookimpl(wrapper=True)
def pytest_sessionstart() -> Iterator[None]:
    """Workers begin in the warm process, as each would import for many seconds."""
    with pytest.MonkeyPatch.context() as changed:
        if "PYTEST_XDIST_WORKER" not in os.environ:
            for name, value in warm.environment().items():
                changed.setenv(name, value)
        yield


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What is left out is not even imported."""
    return (config.option.markexpr == "not long" and collection_path.relative_to(HERE).as_posix() in LONG) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the slow files."""
    order = {name: place for place, name in enumerate(SLOW)}
    items.sort(key=lambda item: order.get(item.path.relative_to(HERE).as_posix(), len(SLOW)))


def pytest_collection_finish() -> None:
    """Python looks for garbage again and again, and would go through all modules and tests."""
    gc.freeze()


# A busy machine is no fault of what is tested. Each run of the suite draws other examples.
settings.register_profile("suite", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """No log goes to the stderr of an earlier test: on a busy machine, runs warn of it.

    pytest adds its handlers to loggers that don't propagate, too, such as Dask's. Of a cluster that can't begin, Dask
    leaves them silenced, and tests after it would find no warning.
    """
    plugin: Any = item.config.pluginmanager.get_plugin("logging-plugin")
    for handler in (plugin.caplog_handler, plugin.report_handler):
        handler.setLevel(logging.NOTSET)
    root = logging.getLogger()
    for handler in [one for one in root.handlers if type(one) is logging.StreamHandler]:
        root.removeHandler(handler)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB, where mounting is allowed."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("mount is not allowed")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[tuple[str, list[tuple[int, subprocess.Popen[bytes]]]]]:
    """The address of a scheduler in a process of its own, and two workers in theirs, without nannies to revive them.

    A worker: its number in the warm process, and what waits for its end.
    """
    import waiting

    file = tmp_path / "scheduler.json"
    dask = [sys.executable, "-m", "dask"]
    commands = [[*dask, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]]
    worker = [*dask, "worker", "--nthreads", "1", "--no-nanny", "--no-dashboard", "--name"]
    commands += [[*worker, "one"], [*worker, "two"]]
    started = [
        subprocess.Popen(
            [*command, "--scheduler-file", str(file)], stderr=subprocess.DEVNULL, cwd=tmp_path, env=warm.environment()
        )
        for command in commands
    ]
    try:
        # Until it is written whole.
        waiting.until(lambda: file.is_file() and file.read_text().rstrip().endswith("}"), tmp_path, *started)
        address = json.loads(file.read_text())["address"]
        from dask.distributed import Client

        with Client(address, timeout=waiting.HANGS) as client:
            client.wait_for_workers(2, timeout=waiting.HANGS)
            numbers = client.run(os.getpid)
            names = {one["name"]: where for where, one in client.scheduler_info()["workers"].items()}
        yield (
            address,
            [(numbers[names[name]], process) for name, process in zip(("one", "two"), started[1:], strict=True)],
        )
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.fixture
def warm_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test starts in Python runs in the warm process, also what is spawned by multiprocessing."""
    for name, value in warm.environment().items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock of streams that stands still: only `sleep`, also that of the fake model, and `now += seconds` move it."""
    import fake

    from simulst import meter

    def sleep(seconds: float) -> None:
        clock.now += seconds

    clock = SimpleNamespace(now=100.0, sleep=sleep, perf_counter=lambda: clock.now, monotonic=lambda: clock.now)
    for module in (meter, fake):
        monkeypatch.setattr(module, "time", clock)
    return clock

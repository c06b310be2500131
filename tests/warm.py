"""A process that has imported what the stages of recipes import, and forks for each of their programs and each worker.

Imports of torch, transformers and ESPnet take most of the time of a small stage. A program runs here in a process of
its own, with its own arguments, folder, environment and open files. What differs from a new Python: the libraries are
there already, and so is simulst, if it is this checkout's; each library runs one thread, and all programs have the same
seed of hashes. Processes that a program spawns by multiprocessing run here, too.
"""

from __future__ import annotations

import atexit
import builtins
import fcntl
import gc
import importlib
import json
import os
import random
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

HERE = Path(__file__).parent
MOST_FILES = 200  # that a program may have open when it begins; their numbers are below this, too
ADDRESS = "WARM_PROCESS"  # where it listens, in the environment of all tests
LIBRARIES = """
click distributed langcodes multiprocessing.managers multiprocessing.pool
pydantic.dataclasses pydantic.json_schema pydantic.plugin._loader pydantic.type_adapter tqdm yaml
av cffi librosa.filters numba.core.typing.templates numba.np.arraymath numba.typed scipy.signal scipy.stats soundfile
jiwer omnisteval rapidfuzz sacrebleu.significance sacrebleu.tokenizers.tokenizer_13a sacremoses sentencepiece
matplotlib.backends.backend_agg matplotlib.backends.backend_svg matplotlib.figure
torch torch.utils.serialization.config torch.utils.tensorboard ctranslate2
transformers.models.mbart.modeling_mbart transformers.models.speech_encoder_decoder.modeling_speech_encoder_decoder
transformers.models.wav2vec2.feature_extraction_wav2vec2 transformers.models.wav2vec2.modeling_wav2vec2
transformers.models.whisper.feature_extraction_whisper transformers.models.whisper.modeling_whisper
simulst.commands.main simulst.models.cascade.settings simulst.models.espnet.model
simulst.models.huggingface.model simulst.models.whisper simulst.prefix.pairs simulst.show.report.content
simulst.training.average simulst.training.configuration
espnet2.bin.asr_train espnet2.bin.st_train
"""


def environment(checkout: Path | None = None) -> dict[str, str]:
    """The environment with which programs in Python run in the warm process. checkout: another one's modules."""
    modules = os.environ.get("PYTHONPATH", "") if checkout is None else str(checkout)
    path = os.pathsep.join([str(HERE / "warm_start"), modules])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "WARM": os.environ[ADDRESS]}


@contextmanager
def listening() -> Iterator[None]:
    """The warm process; it ends with this one at the latest. It imports nothing before it is first needed."""
    folder = Path(tempfile.mkdtemp(prefix="warm"))
    os.environ[ADDRESS] = str(folder / "socket")
    command = [sys.executable, str(Path(__file__)), os.environ[ADDRESS]]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdout.readline()  # it listens
    try:
        yield
    finally:
        process.stdin.close()
        process.wait()
        shutil.rmtree(folder)


def serve(address: str) -> None:
    """Fork for each connection, until stdin is closed."""
    poll = select.poll()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        print(flush=True)
        running: dict[int, tuple[int, socket.socket]] = {}  # by the file that tells of the end
        for file in (sys.stdin, listener):
            poll.register(file, select.POLLIN)
        while True:
            for ready, _ in poll.poll():
                if ready == sys.stdin.fileno():
                    return
                if ready == listener.fileno():
                    connection, _ = listener.accept()
                    load()
                    try:
                        program = start(connection)
                    except EOFError:
                        connection.close()
                        continue
                    end = os.pidfd_open(program)
                    running[end] = program, connection
                    poll.register(connection, select.POLLIN)
                    poll.register(end, select.POLLIN)
                elif ready in running:
                    program, connection = running.pop(ready)
                    status = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
                    poll.unregister(ready)
                    os.close(ready)
                    with suppress(KeyError):
                        poll.unregister(connection)
                    with connection, suppress(BrokenPipeError):
                        connection.sendall(status.to_bytes(2, "big", signed=True))
                else:  # a signal, or the end of the process that waits
                    found = [(program, one) for program, one in running.values() if one.fileno() == ready]
                    for program, connection in found:
                        number = connection.recv(1)
                        os.kill(program, number[0] if number else signal.SIGKILL)
                        if not number:
                            poll.unregister(connection)


def start(connection: socket.socket) -> int:
    """Fork for the program that is asked for. Returns its process. Raises EOFError: who asked has ended."""
    size, files, _, _ = socket.recv_fds(connection, 8, MOST_FILES)
    with connection.makefile("rb") as file:
        message = file.read(int.from_bytes(size, "big"))
    if not message or len(message) < int.from_bytes(size, "big"):
        raise EOFError
    process = os.fork()
    if process == 0:
        run(json.loads(message), files)
    for file in files:
        os.close(file)
    return process


def run(call: dict[str, Any], files: list[int]) -> NoReturn:
    """Be the program, and end as Python does."""
    from numba.np.ufunc import parallel

    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    kept = [fcntl.fcntl(file, fcntl.F_DUPFD, MOST_FILES) for file in files]
    os.closerange(3, MOST_FILES)
    for number, file in zip(call["files"], kept, strict=True):
        os.dup2(file, number)
    os.closerange(MOST_FILES, os.sysconf("SC_OPEN_MAX"))  # a connection of another must end with its process
    os.chdir(call["folder"])
    os.environ.clear()
    os.environ.update(call["environment"])
    sys.stdout.reconfigure(write_through=bool(os.environ.get("PYTHONUNBUFFERED")))  # type: ignore[attr-defined]
    random.seed()
    # numba ends a process that uses the threads of the one it was forked from. None ran there.
    parallel._is_initialized = False
    parallel._launch_threads()
    first, *arguments = call["program"]
    status: Any = 0
    try:
        forget_another_checkout(call["path"])
        if first == "-c":
            code, *arguments = arguments
            sys.path[:] = ["", *call["path"]]
            sys.argv[:] = [first, *arguments]
            sys.modules["__main__"] = main = ModuleType("__main__")
            main.__dict__["__builtins__"] = builtins
            exec(compile(code, "<string>", "exec"), main.__dict__)
        elif first == "-m":
            first, *arguments = arguments
            sys.path[:] = [os.getcwd(), *call["path"]]
            sys.argv[:] = [first, *arguments]
            runpy.run_module(first, run_name="__main__", alter_sys=True)
        else:
            sys.path[:] = [str(Path(first).resolve().parent), *call["path"]]
            sys.argv[:] = [first, *arguments]
            runpy.run_path(first, run_name="__main__")
    except SystemExit as error:
        status = error.code or 0
        if not isinstance(status, int):
            print(status, file=sys.stderr)
            status = 1
    except BaseException:
        traceback.print_exc()
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(status & 0xFF)


def load() -> None:
    """Import the libraries, once."""
    if LIBRARIES.split()[-1] in sys.modules:
        return
    from simulst.machine.light_import import UNUSED, leave_out_unused, skip_type_checks

    skip_type_checks()
    leave_out_unused(keep=UNUSED)
    for name in LIBRARIES.split():
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def forget_another_checkout(path: list[str]) -> None:
    """Let a program import simulst anew, if it has another one on its path."""
    import simulst

    found = PathFinder.find_spec("simulst", path)
    if found is None or found.origin != simulst.__file__:
        for name in [name for name in sys.modules if name.partition(".")[0] == "simulst"]:
            del sys.modules[name]


if __name__ == "__main__":
    serve(sys.argv[1])

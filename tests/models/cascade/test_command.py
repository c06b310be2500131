"""Commands that stay open, good ones and bad ones."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import speaker

from simulst.config import parse_decoding
from simulst.errors import SimulstError
from simulst.models import load_model
from simulst.models.cascade.command import KEPT_OPEN, Command
from simulst.models.cascade.open_command import OpenCommand, run_once
from simulst.opening import Opening
from simulst.streams import open_stream
from simulst.streams.driver import Driver

LOUD = "echo started >> {log}; while IFS= read -r line; do echo $line | tr a-z A-Z; done"
ROOT = Path(__file__).parents[3]
MODE = Path("/usr/share/apertium/modes/eng-spa.mode")


def command(folder: Path, code: str, timeout: float = 300.0) -> OpenCommand:
    program = folder / "program.sh"
    program.write_text(code.replace("{log}", str(folder / "log")))
    return OpenCommand(["bash", str(program)], timeout)


def starts(folder: Path) -> int:
    return len((folder / "log").read_text().splitlines())


def test_one_process_answers_all(tmp_path: Path) -> None:
    asked = command(tmp_path, LOUD)
    long = "word " * 40000  # more than a pipe holds
    for text in ("the cat", "é 你", long.strip(), "x"):
        assert (
            asked.ask(text).strip()
            == subprocess.run(["tr", "a-z", "A-Z"], input=text, capture_output=True, text=True).stdout.strip()
        )
    assert starts(tmp_path) == 1


def test_it_is_started_again(tmp_path: Path) -> None:
    """A command that ends after each answer answers all the same."""
    asked = command(tmp_path, "echo started >> {log}; read line; echo $line")
    assert [asked.ask(text) for text in ("a", "b", "c")] == ["a", "b", "c"]
    assert starts(tmp_path) == 3


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("echo model loaded; while read text; do echo $text $text; done", id="a greeting"),
        pytest.param("echo model loaded; sleep 0.2; while read text; do sleep 0.05; echo $text $text; done",
                     id="a greeting of a slow program"),
        pytest.param("while read text; do echo $text; echo more of $text; done", id="a second line"),
        pytest.param("while read text; do echo $text; sleep 0.05; echo more of $text; done",
                     id="a second line that comes late"),
        pytest.param("read text; echo $text; cat /dev/zero", id="a flood"),
    ],
)  # fmt: skip
def test_more_answers_than_texts(tmp_path: Path, code: str) -> None:
    """Each answer that is given is that of its text, up to the error."""
    asked = command(tmp_path, code)
    texts = iter("abcdefgh")
    with pytest.raises(SimulstError, match="writes more answers than it gets texts"):
        for text in texts:
            assert asked.ask(text).split()[0] == text
    assert text < "e"


def test_a_translator_that_answers_differently_each_time(tmp_path: Path) -> None:
    asked = command(tmp_path, "n=0; while read text; do n=$((n+1)); echo $text $n; done")
    assert [asked.ask(text).split()[0] for text in "abc"] == ["a", "b", "c"]


def test_all_of_a_pipeline_ends_with_it(tmp_path: Path) -> None:
    mark = 7000 + os.getpid() / 1e6  # seconds: tells this test's process from others
    with pytest.raises(SimulstError, match=r"no translation within 0\.2 s"):
        run_once(["bash", "-c", f"sleep {mark} | cat"], "a", 0.2)
    assert not [p for p in psutil.process_iter(["cmdline"]) if str(mark) in " ".join(p.info["cmdline"] or [])]


def test_bad_commands(tmp_path: Path) -> None:
    for code, words in (
        (
            "echo no such pair >&2; exit 3",
            r"ended with status 3 before it answered \(no such pair\); try it in a shell",
        ),
        ("exec sleep 9", "gave no translation within 0.2 s; give it a longer 'timeout'"),
        ("while read line; do echo; done", "answered with nothing"),
    ):
        with pytest.raises(SimulstError, match=words) as caught:
            command(tmp_path, code, timeout=0.2 if "sleep" in code else 300).ask("the cat")
        assert "\n" not in str(caught.value)
    with pytest.raises(SimulstError, match=r"cannot be run \(No such file"):
        OpenCommand([str(tmp_path / "gone")], 1).ask("a")


def test_a_late_answer_is_not_taken_for_the_next(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    code = f'while read line; do if [ "$line" = slow ]; then cat {gate}; fi; echo "$line"; done'
    asked = command(tmp_path, code, timeout=0.3)
    with pytest.raises(SimulstError, match="no translation within"):
        asked.ask("slow")
    with suppress(OSError):  # nobody waits there any more
        os.close(os.open(gate, os.O_WRONLY | os.O_NONBLOCK))
    asked._timeout = 300.0  # on a busy machine, a program may take long to start
    assert asked.ask("quick") == "quick"


def test_it_ends_with_its_owner(tmp_path: Path) -> None:
    asked = command(tmp_path, "echo started >> {log}; cat | cat")
    asked.ask("a")
    process = asked._process
    assert process is not None and process.poll() is None
    del asked
    assert process.poll() is not None


def test_streams_of_a_pair_share_it(tmp_path: Path) -> None:
    (tmp_path / "program.sh").write_text(LOUD.replace("{log}", str(tmp_path / "log")))
    translator = {"type": "command", "command": f"bash {tmp_path / 'program.sh'}", "answers": "line"}
    say = "The cat sat down. It was on the mat."
    model = load_model(speaker.write(tmp_path, translator, say))
    decoding = parse_decoding({"read": {"type": "chunk", "ms": 400}, "commit": {"type": "hold", "n": 2}}, "test")
    for _ in range(2):
        stream = open_stream(model, decoding, "en", "es")
        stream.push(speaker.audio(say), finished=True)
        assert "".join(e.text for e in stream.emissions) == say.upper()
    assert starts(tmp_path) == 1


@pytest.mark.parametrize("answers", ["once", "line"])
def test_a_command_that_hangs_stops_no_other_stream(answers: str, tmp_path: Path) -> None:
    """It answers only after the other stream has ended."""
    gate, say = tmp_path / "gate", "The cat sat down. It was on the mat."
    (tmp_path / "program.sh").write_text("while read -r line; do echo ${line^^}; done")
    (tmp_path / "slow.sh").write_text(f"while [ ! -e {gate} ]; do sleep 0.02; done; . {tmp_path / 'program.sh'}")
    decoding = parse_decoding({"read": {"type": "chunk", "ms": 400}, "commit": {"type": "hold", "n": 2}}, "test")
    streams = []
    for name in ("slow", "program"):
        (tmp_path / name).mkdir()
        command = f"bash {tmp_path / name}.sh"
        path = speaker.write(tmp_path / name, {"type": "command", "command": command, "answers": answers}, say)
        streams.append(open_stream(load_model(path), decoding, "en", "es"))
    driver = Driver()
    slow, quick = (driver.push(stream, speaker.audio(say), finished=True) for stream in streams)
    quick.add_done_callback(lambda _: gate.touch())
    driver.finish()
    assert ["".join(word.text for word in one.result()) for one in (slow, quick)] == [say.upper()] * 2


@pytest.mark.parametrize("ask", ["OpenCommand(words, 300.0).ask('a')", "run_once(words, 'a', 300.0)"])
def test_commands_end_with_python(ask: str, tmp_path: Path) -> None:
    """Also if a thread waits for it."""
    mark = 8000 + os.getpid() / 1e6  # seconds: tells this test's process from others
    (tmp_path / "main.py").write_text(
        "import threading, time, weakref\n"
        "from simulst.models.cascade.open_command import OpenCommand, run_once\n"
        f"words = ['sleep', '{mark}']\n"
        "for _ in range(2):\n"
        f"    threading.Thread(target=lambda: {ask}, daemon=True).start()\n"
        "while sum('_end' in repr(one.peek()) for one in [*weakref.finalize._registry]) < 2:\n"
        "    time.sleep(0.02)\n"
    )
    subprocess.run([sys.executable, tmp_path / "main.py"], check=True)
    assert not [p for p in psutil.process_iter(["cmdline"]) if str(mark) in " ".join(p.info["cmdline"] or [])]


def test_processes_that_no_stream_uses_end(tmp_path: Path) -> None:
    """Clients of a server may name any number of languages."""
    (tmp_path / "program.sh").write_text("while read -r line; do echo $line; done")
    options = Command(f"bash {tmp_path / 'program.sh'} {{source}} {{target}}", "line")
    opener = options.load(tmp_path, 1)
    used = opener(Opening("en", "de"))
    assert used.translate("a", "")[0] == "a"
    for number in range(20):
        assert opener(Opening("en", f"en-x-a{number}")).translate("a", "")[0] == "a"
    place = str(tmp_path / "program.sh")
    running = [p.info["cmdline"] for p in psutil.process_iter(["cmdline"]) if place in (p.info["cmdline"] or [])]
    assert len(running) == KEPT_OPEN + 1 and ["en", "de"] in [command[-2:] for command in running]
    assert used.translate("b", "")[0] == "b"


@pytest.mark.skipif(not MODE.is_file(), reason="apertium-eng-spa is not installed")
def test_apertium(tmp_path: Path) -> None:
    """local/apertium.sh keeps its programs open; it escapes what they take for signs of their own."""
    ask: Any = Command(f"{ROOT / 'local/apertium.sh'} eng-spa", "line").load(tmp_path, 1)(Opening("en", "es"))
    assert "gato" in ask.translate("the cat is on the table", "")[0]
    assert "perros" in ask.translate("two dogs sleep well.", "")[0]
    assert "3 $ / 2" in ask.translate("two [cats] cost 3 $ / 2 ^", "")[0]
    gone = Command(f"{ROOT / 'local/apertium.sh'} eng-tlh", "line").load(tmp_path, 1)(Opening("en", "tlh"))
    with pytest.raises(SimulstError, match=r"eng-tlh\.mode: no such file; install the language pair"):
        gone.translate("the cat", "")  # type: ignore[attr-defined]

"""Bad runs: folders that hold something else, tables and pictures of them, where the work is done."""

import contextlib
import socket
import threading
from pathlib import Path

import dask
import pytest
from cases import Case, Change, Check, all_of, folder, removed, replaced, table, written

from simulst.machine import cluster

EVALUATE = "simulst evaluate --data data --model fake:FakeModel --source-lang es --target-lang en --decoding la2.yaml"
NOT_OURS = "run/config.yaml: not the config.yaml of a simulst run"
SCORES = '{"BLEU": 20.0, "BLEU_low": 10, "BLEU_high": 30, "chrF": 50, "AL": 1000, "LAAL": 1100, "unit": "word"}'


def link(name: str) -> Change:
    return lambda: Path(name).symlink_to("/nowhere/at/all")


SECTION = '{"title": "t", "command": "c"}'
CONFIGS: list[tuple[str, Change]] = [
    ("run/config.yaml: no such file; give a folder that simulst evaluate made", removed("run/config.yaml")),
    (NOT_OURS, written("run/config.yaml", "a: [")),
    (NOT_OURS, written("run/config.yaml", b"\xff\xfe\x00")),
    (NOT_OURS, replaced("run/config.yaml", "label:", "label: 1\nlabel:")),
    (
        f"{NOT_OURS}: label: Input should be a valid string",
        replaced("run/config.yaml", "label: LA", "label: [LA]\nx: LA"),
    ),
    (f"{NOT_OURS}: decoding", replaced("run/config.yaml", "  read:", "  red:")),
]
RESUMED = [
    *table(
        f"{EVALUATE} --out run",
        *(("", words, change) for words, change in CONFIGS[1:]),
        ("", "run: holds an instances.log without config.yaml", removed("run/config.yaml")),
        ("--decoding sweep.yaml", "option 'ms' has several values, [500, 800]"),
        ("", "run: holds a run whose 'decoding' is", replaced("la2.yaml", "500", "600")),
        ("", "run/instances.log: index 7 is not from this", replaced("run/instances.log", '"index": 0', '"index": 7')),
        ("", "run/instances.log, line 2: not an entry", replaced("run/instances.log", '\n{"index": 1', "\n{index: 1")),
        ("", "run", all_of(removed("run"), link("run"))),
        ("", "run/instances.log", all_of(removed("run/instances.log"), folder("run/instances.log"))),
    ),
    *table(f"{EVALUATE} --out /proc/nothing", ("", "/proc/nothing: cannot be used (No such file or directory)")),
    *table(
        "simulst sweep --data data --model fake:FakeModel --source-lang es --target-lang en --decodings sweep.yaml",
        ("--out la2.yaml", "la2.yaml: a file, but a folder is needed there; give another path"),
    ),
]
REPORTS = [
    *table(
        "simulst table",
        ("nowhere", "nowhere: no such folder"),
        ("run/config.yaml", "run/config.yaml: a file; give a run's folder"),
        ("data", "data: no run in it has a scores.json"),
        ("run", "run: no run in it has a scores.json", removed("run/scores.json")),
        ("run", "run/scores.json: not valid JSON", written("run/scores.json", "{")),
        ("run", "run/scores.json: not the scores of a run", written("run/scores.json", "[1]")),
        ("run", "scores.json: the metric m: better", written("run/scores.json", '{"metrics": {"m": {}}}')),
        ("run", "run/scores.json: AL is nan, which is no number", written("run/scores.json", '{"AL": NaN}')),
        ("run", "LA-2_500ms", written("run/scores.json", "{}"), 0),
        *(("run", words, change) for words, change in CONFIGS),
    ),
    *table(
        "simulst choose run --metric LAAL",
        ("--metric LongYAAL", "run: its scores have no 'LongYAAL', as they are of single sentences ... choose from"),
        ("--metric AP", "--metric AP: a share, and a regime is in ms; choose another lag"),
        ("", "run: no run in it has a scores.json", removed("run/scores.json")),
    ),
    *table(
        "simulst plot run",
        ("--out x.jpg", "x.jpg: pictures are .png, .svg, .pdf"),
        ("--out x.png --x ALL", "run: its scores have no 'ALL'; choose from AL, LAAL"),
        ("--out x.png", "run: its scores have no 'AL'", written("run/scores.json", "{}")),
        *(("--out x.png", words, change) for words, change in CONFIGS[::3]),
    ),
    Case("simulst plot nowhere --out x.svg", "nowhere: no such folder"),
    *table(
        "local/results.py write run --recipe mini --section s --out exp --command c",
        ("--section a/b", "section 'a/b': give a name of letters, digits"),
        ("--recipe ..", "recipe '..': give a name of letters, digits"),
        ("--table t.json", "t.json: no such file; give a list of tables in JSON"),
        ("--table t.json", "t.json: 0.rows: Field required; give a list", written("t.json", '[{"head": ["a"]}]')),
        ("--table t.json", "t.json: below a, b, a row has", written("t.json", '[{"head": ["a", "b"], "rows": [[1]]}]')),
        ("--text nowhere.txt", "nowhere.txt: cannot be used (No such file or directory)"),
        ("--publish nowhere", "nowhere: not the folder of simulst, as it has no egs/mini"),
    ),
    Case("local/results.py write nowhere --recipe r --section s --out exp --command c", "nowhere: no such folder"),
    Case(
        "local/results.py write --recipe r --section s --out exp --command c",
        "s: there is nothing to write; give folders",
    ),
    Case("local/results.py render", "results: has no results; give the folder of simulst as --root"),
    *table(
        "local/results.py render mini",
        ("", "results/mini: has no results; recipes with results are none yet"),
        ("", "results/mini/s.json: not valid JSON", written("results/mini/s.json", "{")),
        ("", "results/mini/s.json: command: Field required; write it", written("results/mini/s.json", '{"title": ""}')),
        ("../x", "recipe '../x': give a name of letters, digits", written("results/mini/s.json", SECTION)),
        *(
            (
                "",
                f"results/mini/page.yaml: {words}",
                all_of(written("results/mini/s.json", SECTION), written("results/mini/page.yaml", text)),
            )
            for words, text in [
                ("not a mapping", "[]"),
                ("the page has no option 'sektions'", "sektions: []"),
                ("there is no section t; name one of s", "sections: [{section: t}]"),
                ("names the section s twice", "sections: [{section: s}, {section: s}]"),
                ("a section is not a mapping", "sections: [s]"),
                ("readme needs the option 'rows'", "readme: {curve: s, columns: [BLEU]}"),
                ("there is no score 'BLEW'", "readme: {curve: s, columns: [BLEW], rows: []}"),
                ("s has no run 'r'", "readme: {curve: s, columns: [BLEU], rows: [{section: s, run: r, name: n}]}"),
            ]
        ),
    ),
]


FINDING = "{id: X1, section: 1, sentence: s, kind: quality_at_lag, a: ['LA-2*'], b: ['hold*'], direction: more}"
FINDINGS = [
    Case("local/results.py findings --findings f.yaml --runs run", words, written("f.yaml", text), status)
    for words, text, status in (
        ("f.yaml: a file of findings is a mapping with the keys paper, command and findings", "- 1", 1),
        ("", f"paper: P\nfindings: [{FINDING}]", 0),  # its runs are missing, which the page says
    )
] + table(
    "local/results.py findings --findings f.yaml",
    ("--runs run", "f.yaml: no such"),
    ("--runs nowhere", "nowhere: ", written("f.yaml", f"paper: P\nfindings: [{FINDING}]")),
)


@pytest.mark.parametrize("case", [*RESUMED, *REPORTS, *FINDINGS], ids=str)
def test_runs(case: Case, check: Check) -> None:
    check(case)


ANSWERS = {"silent": None, "HTTP": b"HTTP/1.1 400 Bad Request\r\n\r\n", "zeros": bytes(64), "noise": bytes(range(256))}


def serve(listener: socket.socket, answer: bytes | None) -> None:
    """Send this to whoever comes, and close the connection; None: keep it, without a word."""
    held = []
    with contextlib.suppress(OSError):  # in the end the socket is closed
        while True:
            held.append(listener.accept()[0])
            if answer is not None:
                held[-1].sendall(answer)
                held.pop().close()


@pytest.mark.parametrize("answer", ANSWERS)
def test_what_answers_is_no_scheduler(answer: str, check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence: it says nothing and keeps the connection, which Dask's client would wait on without end."""
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 2 if ANSWERS[answer] is None else 60)
    monkeypatch.setattr(cluster, "ANSWER_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener, ANSWERS[answer]), daemon=True).start()
        address = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        check(Case(f"{EVALUATE} --out out --scheduler {address}", f"no Dask scheduler answers at {address} ("))
        listener.shutdown(socket.SHUT_RDWR)


PLACES = table(
    f"{EVALUATE} --out out",
    ("--scheduler tcp://127.0.0.1:1", "no Dask scheduler answers at tcp://127.0.0.1:1"),
    ("--scheduler nonsense://x:1", "no Dask scheduler answers at nonsense://x:1"),
    ("--scheduler ''", "no Dask scheduler answers at "),
    ("--scheduler tcp://127.0.0.1:1 --slurm", "--slurm and --scheduler: give one of them"),
    ("--slurm", "--slurm needs the program sbatch"),
)


@pytest.mark.parametrize("case", PLACES, ids=str)
def test_places(case: Case, check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.5)
    monkeypatch.setattr(cluster, "ANSWER_SECONDS", 60)
    monkeypatch.setenv("PATH", "/nowhere")
    with dask.config.set({"scheduler-address": None}):
        check(case)


def test_a_run_that_another_holds(check: Check, scene: Path) -> None:
    from simulst.files.folder import locked

    with locked(Path("out")):
        check(Case(f"{EVALUATE} --out out", "out: another run is at work there (process "))

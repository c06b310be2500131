"""`simulst report`: what the page shows, and the page in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from browser import browser, obstacles, page_at
from click.testing import CliRunner
from fake import FakeModel
from fake_runs import references, write_run

from simulst.commands.main import main
from simulst.config import load_sweep
from simulst.data.datadir import Utterance
from simulst.errors import SimulstError
from simulst.log.instance import Instance
from simulst.results.runs import find_runs
from simulst.runs import Task, read_run_config, run, score_run
from simulst.show.report.content import Part, report_of
from simulst.show.report.trace import open_traces
from simulst.show.report.utterances import Shown
from simulst.show.report.write import embedded
from simulst.show.table import runs_table

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)> <!--"
COMMITTED = Path(__file__).parents[2] / "results/mini"
FAKE = Task("fake:FakeModel", "es", "en")


def report(*arguments: object) -> str:
    done = CliRunner().invoke(main, ["report", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def part_of(*places: Path, **shown: Any) -> Part:
    [part] = report_of(places, Shown(**shown)).parts
    return part


@pytest.fixture(scope="module")
def decoded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six utterances of one file, which the fake model decoded under three configurations."""
    folder = tmp_path_factory.mktemp("decoded")
    lengths = [1000 + 370 * number for number in range(6)]
    audio = np.concatenate([np.full(ms * 16, number / 100) for number, ms in enumerate(lengths)])
    soundfile.write(folder / "talk.wav", audio, 16000, subtype="PCM_16")
    utterances, begin = [], 0.0
    for number, ms in enumerate(lengths):
        text = FakeModel().truth(ms * 16).strip() if number else HOSTILE
        utterances.append(Utterance(f"u{number}", folder / "talk.wav", text, begin, begin + ms / 1000))
        begin += ms / 1000
    sweep = "- read: {type: offline}\n  commit: {type: all}\n- read: {type: chunk, ms: [250, 500]}\n"
    (folder / "sweep.yaml").write_text(
        f"{sweep}  stop: {{type: max_tokens, n: 4}}\n  commit: {{type: local_agreement}}\n"
    )
    runs = folder / "runs"
    run(FAKE, utterances, [(runs / one.label, one) for one in load_sweep(folder / "sweep.yaml")])
    for place in runs.iterdir():
        score_run(place, "en", bootstrap=100)
    return folder


@pytest.fixture(scope="module")
def made(decoded: Path) -> Path:
    """The page of these runs, with findings that the results add."""
    out = decoded / "new folder/report.html"
    written = ["results", "write", decoded / "runs", "--recipe", "r", "--section", "s", "--out", decoded, "--command"]
    findings = decoded / "findings.yaml"
    sides = "a: [LA-2_N4_250ms], b: [LA-2_N4_500ms]"
    findings.write_text(
        f"paper: {HOSTILE}\nfindings:\n"
        f"  - {{id: M1, section: 2, sentence: It lags, kind: lag, {sides}, direction: less}}\n"
        "  - {id: M2, section: 2, sentence: Not there, kind: lag, a: [x], b: [y], direction: less}\n"
    )
    done = CliRunner().invoke(main, [*map(str, written), "make it", "--title", HOSTILE, "--findings", str(findings)])
    assert done.exit_code == 0, done.output
    assert report(decoded / "runs", decoded / "results/s.json", "--out", out).startswith(f"wrote {out}")
    return out


def test_the_table_is_that_of_simulst_table(decoded: Path) -> None:
    part = part_of(decoded / "runs")
    lines = [re.split(r" *\| *", line.strip("| ")) for line in runs_table(find_runs([decoded / "runs"])).splitlines()]
    assert [list(part.head), *(list(point.cells) for point in part.points)] == [lines[0], *lines[2:]]
    assert [(point.name, point.kind, point.curve) for point in part.points][:2] == [
        ("offline", "offline", "offline"),
        ("LA-2_N4_250ms", "online", "LA-2_N4"),
    ]
    kinds = {axis.key: axis.kind for axis in part.axes}
    assert kinds["BLEU"] == "quality" and kinds["LAAL_CA"] == "lag" and kinds["RTF"] == "other"
    assert (part.x, part.y) == ("LAAL", "BLEU") and set(part.points[0].scores) >= {"BLEU_low", "LAAL", "RTF"}


def test_the_decisions_of_an_utterance(decoded: Path) -> None:
    """Decoded again, it has the words of the log; what each step found and why it ended stands beside them."""
    part = part_of(decoded / "runs", count=0, names=("u5",), run="LA-2_N4_250ms")
    assert part.utterances is not None
    [one] = part.utterances.shown
    assert one.kinds == ("Asked for",) and one.notes == () and one.audio.startswith("data:audio/mpeg;base64,")
    assert 0 < len(one.loudness) <= 900 and max(one.loudness) == 100
    assert "".join(word.text for word in one.words) == one.text
    assert [step.at_ms for step in one.decisions][-1] == one.reads[-1] == 2850.0
    assert [step.final for step in one.decisions] == [False] * (len(one.decisions) - 1) + [True]
    assert one.decisions[-1].before + one.decisions[-1].new == one.text
    assert any(step.stop and step.why == "4 new tokens, most 4" for step in one.decisions)
    assert all(len(step.beams) == 2 for step in one.decisions[1:-1])
    offline = json.loads((decoded / "runs/offline/instances.log").read_text().splitlines()[5])
    assert one.offline == offline["prediction"]
    assert all(word.spoken_ms is None for word in one.words)


def test_the_best_the_worst_and_the_most_delayed(decoded: Path) -> None:
    part = part_of(decoded / "runs", count=1)
    assert part.utterances is not None and part.utterances.run == "LA-2_N4_250ms"
    shown = {kind: one for one in part.utterances.shown for kind in one.kinds}
    qualities = [one.quality for one in shown.values() if one.quality is not None]
    assert shown["Best"].quality == max(qualities) and shown["Worst"].quality == min(qualities)
    assert shown["Most delayed"].lag == max(one.lag or 0 for one in shown.values())
    assert {one.name for one in part.utterances.shown} >= {"u0"}  # whose reference is another text


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"task": {"model": "exp/gone"}}, "model exp/gone is not here"),
        ({"weights": "other"}, "The model has changed since the run"),
        ({"files": {"guide.zip": "x"}}, "guide.zip is gone or has changed since"),
        ({"context": "x"}, "was told of its recordings by --context"),
        ({"decoding": {"read": {"type": "nonsense"}}}, "No decisions are shown: .*commit"),
    ],
)
def test_what_is_missing_is_told(decoded: Path, values: dict[str, Any], said: str) -> None:
    folder = decoded / "runs/LA-2_N4_500ms"
    config = read_run_config(folder)
    task = replace(config.task, **values.pop("task")) if "task" in values else config.task
    traces = open_traces(folder, replace(config, task=task, **values))
    assert re.search(said, traces.note) and traces.model is None


def test_audio_or_words_that_are_others_are_told(decoded: Path) -> None:
    folder = decoded / "runs/LA-2_N4_500ms"
    traces = open_traces(folder, read_run_config(folder))
    row = json.loads((folder / "instances.log").read_text().splitlines()[3])
    instance = Instance(**row)
    assert traces.note == "" and traces.of(instance).decisions
    other = traces.of(replace(instance, prediction=f"{instance.prediction} more"))
    assert other.notes == ("Decoded again, it has other words than in the log, so its decisions are not shown.",)
    assert other.audio and not other.decisions
    late = traces.of(replace(instance, delays=[delay + 1 for delay in instance.delays]))
    assert "the same words at other times" in late.notes[0]
    for wrong, said in (
        ({"span": []}, "or the log does not tell which part"),
        ({"source": ["x.wav"]}, "x.wav: no such file"),
    ):
        found = traces.of(replace(instance, **wrong))
        assert said in found.notes[0] and not found.audio


def test_runs_without_logs_have_all_but_texts(tmp_path: Path) -> None:
    for name in ("one", "two"):
        place = write_run(tmp_path, name, references(5))
        score_run(place, "de", bootstrap=0)
        (place / "instances.log").unlink()
    part = part_of(tmp_path)
    assert len(part.points) == 2 and part.utterances is None
    assert part.utterances_note.startswith("one has no instances.log")


def test_results_alone() -> None:
    """All but what needs texts: each file is one part of the page."""
    files = sorted(COMMITTED.glob("*.json"))
    found = report_of(files, Shown())
    assert found.title == "Results: mini" and len(found.parts) == len(files)
    part = found.parts[files.index(COMMITTED / "en-de-tst-COMMON.json")]
    assert len(part.points) > 30 and part.points[0].cells[0] == "offline" and part.findings
    assert {"holds", "does not hold"} <= {finding.verdict for finding in part.findings}
    assert part.utterances is None and "folders of the runs" in part.utterances_note
    assert any(part.tables for part in found.parts) and any(part.comparisons for part in found.parts)


def test_what_is_refused(decoded: Path, made: Path, tmp_path: Path) -> None:
    other = score_run_of(tmp_path)
    (tmp_path / "page.html").mkdir()
    section = decoded / "results/s.json"
    changed = []
    for number, (old, new) in enumerate((('"sentences": 6', '"sentences": 5'), ('"weights": "', '"weights": "1'))):
        changed.append(tmp_path / f"{number}.json")
        changed[-1].write_text(section.read_text().replace(old, new))
        assert changed[-1].read_text() != section.read_text()
    for arguments, said in (
        ((decoded / "runs", changed[0]), "sentences of .* is 5 there, and 6 in the run"),
        ((decoded / "runs", changed[1]), "has another model's weights"),
        ((decoded / "runs", other), "different sentences or target languages"),
        ((other, COMMITTED / "en-de-tst-HE.json"), "has not the runs of"),
        ((other, COMMITTED / "en-de-tst-HE.json", COMMITTED / "en-de-tst-COMMON.json"), "give one file of results"),
        ((tmp_path / "nowhere",), "no such folder"),
        ((decoded / "talk.wav",), "not valid JSON"),
        ((decoded / "runs", "--run", "x"), "--run x: there is no such run; name one of offline"),
        ((decoded / "runs", "--utterance", "x"), "--utterance x: .* has no such utterance"),
    ):
        with pytest.raises(SimulstError, match=said):
            report(*arguments, "--out", tmp_path / "out.html")
    with pytest.raises(SimulstError, match="cannot be written"):
        report(other, "--out", tmp_path / "page.html")
    assert not (tmp_path / "out.html").exists()


def score_run_of(folder: Path) -> Path:
    place = write_run(folder, "one", references(5))
    score_run(place, "de", bootstrap=0)
    return place


def test_no_text_ends_the_script_that_holds_it(made: Path) -> None:
    text = made.read_text()
    assert text.count("<script") == text.count("</script") == 2  # the data, report.js
    assert json.loads(embedded({"x": HOSTILE + "\u2028"})) == {"x": HOSTILE + "\u2028"}
    assert "<" not in embedded(HOSTILE) and f"<title>{HOSTILE[:3]}" not in text
    assert len(text) < 500_000
    assert re.search(r"(src|href)=\"(?!data:)", text.partition("<script>")[0]) is None  # nothing is fetched


def test_a_page_that_is_there_is_replaced(decoded: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    out.write_text("old")
    report(decoded / "runs", "--utterances", 0, "--out", out)
    assert out.read_text().startswith("<!doctype html>") and [*tmp_path.iterdir()] == [out]


@pytest.fixture(scope="module")
def opened() -> Iterator[Any]:
    with browser("--autoplay-policy=no-user-gesture-required") as chromium:
        yield chromium


def drawn(page: Any) -> list[str]:
    """The runs that are drawn."""
    return page.locator("#plot .point").evaluate_all("(points) => points.map((one) => one.dataset.name)")


def test_the_page_in_a_browser(made: Path, opened: Any) -> None:
    """Axes, curves, rows, utterances, findings; nothing in the console, and no obstacle that axe finds."""
    with page_at(opened, made.as_uri(), viewport={"width": 1280, "height": 900}) as page:
        assert page.title() == HOSTILE and page.locator("h1").text_content() == HOSTILE
        assert page.locator("img").count() == 0
        assert drawn(page) == ["offline", "LA-2_N4_250ms", "LA-2_N4_500ms"]
        page.locator("#plot .point[data-name=LA-2_N4_500ms]").hover()
        told = page.locator("#tip").text_content() or ""
        assert told.startswith("LA-2_N4_500ms\nBLEU: ") and "LAAL (ms): " in told and "local_agreement" in told
        page.locator("#plot .point[data-name=LA-2_N4_500ms]").click()
        assert page.locator("#table .marked th").all_text_contents() == ["LA-2_N4_500ms"]
        page.get_by_role("button", name="LA-2_N4", exact=True).click()
        assert drawn(page) == ["offline"]
        page.get_by_role("button", name="Show all").click()
        page.get_by_label("Right").select_option("RTF")
        page.get_by_label("Up").select_option("chrF")
        named = page.locator("#plot text").all_text_contents()
        assert {"RTF", "chrF"} <= {*named} and len(drawn(page)) == 3
        page.locator("#table thead").get_by_role("button", name="BLEU", exact=True).click()
        values = [float(text) for text in page.locator("#table tbody tr td:nth-child(2)").all_text_contents()]
        assert values == sorted(values, reverse=True)
        page.locator("#lists button[data-name=u0]").first.click()
        assert page.locator("#utterance h3").text_content() == "u0"
        assert page.locator("dt:text('Reference') + dd").text_content() == HOSTILE
        assert page.locator(".steps tbody tr").count() >= 3 and "most 4" in (
            page.locator(".steps").text_content() or ""
        )
        assert "M1" in (page.locator("#verdicts").text_content() or "")
        assert obstacles(page) == []


def test_words_come_as_the_audio_plays(made: Path, opened: Any) -> None:
    with page_at(opened, made.as_uri()) as page:
        page.locator("#lists button[data-name=u0]").first.click()
        first = page.locator(".steps tbody tr").first
        first.click()
        page.locator(".spoken .late").first.wait_for()
        assert first.evaluate("(row) => row.classList.contains('marked')")
        assert page.locator(".timeline .head").get_attribute("visibility") == "visible"
        page.evaluate("document.querySelector('audio').play()")
        page.locator(".spoken .late").first.wait_for(state="detached")
        page.locator(".timeline .head[visibility=hidden]").wait_for(state="attached")  # played to the end


def test_on_a_phone_and_in_the_dark(made: Path, opened: Any) -> None:
    """Nothing is wider than the screen, except what can be scrolled by itself."""
    with page_at(opened, made.as_uri(), viewport={"width": 390, "height": 800}, color_scheme="dark") as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert obstacles(page) == []
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"


def test_several_test_sets_on_one_page(tmp_path: Path, opened: Any) -> None:
    out = tmp_path / "report.html"
    report(*sorted(COMMITTED.glob("paper_[bd]*.json")), "--out", out)
    with page_at(opened, out.as_uri()) as page:
        assert page.locator("h1").text_content() == "Results: mini"
        for name in page.locator("#part option").all_text_contents():
            page.get_by_label("Test set").select_option(name)
            assert page.locator("#curve").is_visible() != ("findings" in name)


def test_data_of_a_page_is_what_the_module_says(made: Path) -> None:
    data = json.loads(re.search(r'id="data">(.*?)</script>', made.read_text(), re.DOTALL)[1])  # type: ignore[index]
    assert set(data["parts"][0]) == set(Part.__dataclass_fields__)

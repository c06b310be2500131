"""`simulst report`: what the page shows, and the page in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from browser import browser, obstacles, page_at
from fake import FakeModel
from fake_runs import references, write_run
from printed import printed

from simulst.config import load_sweep
from simulst.data.datadir import Utterance
from simulst.errors import SimulstError
from simulst.results.runs import find_runs
from simulst.runs.decode import run
from simulst.runs.folder import Task
from simulst.runs.score import score_run
from simulst.show.report.content import Report, embedded, report_of
from simulst.show.table import runs_table

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)> <!--"
RUNS = "<img src=x onerror=alert(1)> <!--"  # the name of their folder, which heads the page
FAKE = Task("fake:FakeModel", "es", "en")


def report(*arguments: object) -> str:
    return printed("report", *arguments)


def report_on(*places: Path, count: int = 2) -> Report:
    return report_of(places, count)


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
    runs = folder / RUNS
    run(FAKE, utterances, [(runs / one.label, one) for one in load_sweep(folder / "sweep.yaml")])
    for place in runs.iterdir():
        score_run(place, "en", bootstrap=100)
    return folder


@pytest.fixture(scope="module")
def made(decoded: Path) -> Path:
    """The page of these runs."""
    out = decoded / "new folder/report.html"
    assert report(decoded / RUNS, "--out", out).startswith(f"wrote {out}")
    return out


def test_the_table_is_that_of_simulst_table(decoded: Path) -> None:
    part = report_on(decoded / RUNS)
    lines = [re.split(r" *\| *", line.strip("| ")) for line in runs_table(find_runs([decoded / RUNS])).splitlines()]
    assert [list(part.head), *(list(point.cells) for point in part.points)] == [lines[0], *lines[2:]]
    assert [(point.name, point.kind, point.curve) for point in part.points][:2] == [
        ("offline", "offline", "offline"),
        ("LA-2_N4_250ms", "online", "LA-2_N4"),
    ]
    kinds = {axis.key: axis.kind for axis in part.axes}
    assert kinds["BLEU"] == "quality" and kinds["LAAL_CA"] == "lag" and kinds["RTF"] == "other"
    assert (part.x, part.y) == ("LAAL", "BLEU") and set(part.points[0].scores) >= {"BLEU_low", "LAAL", "RTF"}


def test_an_utterance(decoded: Path) -> None:
    """It has the words and times of the log, and the text of the offline run beside them."""
    part = report_on(decoded / RUNS, count=6)
    assert part.utterances is not None
    [one] = [one for one in part.utterances.shown if one.name == "u5"]
    assert one.reads[-1] == one.words[-1].written_ms == 2850.0
    assert "".join(word.text for word in one.words) == one.text
    offline = json.loads((decoded / RUNS / "offline/instances.log").read_text().splitlines()[5])
    assert one.offline == offline["prediction"]


def test_the_best_the_worst_and_the_most_delayed(decoded: Path) -> None:
    part = report_on(decoded / RUNS, count=1)
    assert part.utterances is not None and part.utterances.run == "LA-2_N4_250ms"
    shown = {kind: one for one in part.utterances.shown for kind in one.kinds}
    qualities = [one.quality for one in shown.values() if one.quality is not None]
    assert shown["Best"].quality == max(qualities) and shown["Worst"].quality == min(qualities)
    assert shown["Most delayed"].lag == max(one.lag or 0 for one in shown.values())
    assert {one.name for one in part.utterances.shown} >= {"u0"}  # whose reference is another text


def test_runs_without_logs_have_all_but_texts(tmp_path: Path) -> None:
    for name in ("one", "two"):
        place = write_run(tmp_path, name, references(5))
        score_run(place, "de", bootstrap=0)
        (place / "instances.log").unlink()
    part = report_on(tmp_path)
    assert len(part.points) == 2 and part.utterances is None
    assert part.utterances_note.startswith("one has no instances.log")


def test_what_is_refused(decoded: Path, tmp_path: Path) -> None:
    other = score_run_of(tmp_path)
    (tmp_path / "page.html").mkdir()
    for arguments, said in (
        ((decoded / RUNS, other), "different sentences or target languages"),
        ((tmp_path / "nowhere",), "no such folder"),
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


@pytest.fixture(scope="module")
def opened() -> Iterator[Any]:
    with browser() as chromium:
        yield chromium


def drawn(page: Any) -> list[str]:
    """The runs that are drawn."""
    return page.locator("#plot .point").evaluate_all("(points) => points.map((one) => one.dataset.name)")


def test_the_page_in_a_browser(made: Path, opened: Any) -> None:
    """Axes, curves, rows, utterances; nothing in the console, and no obstacle that axe finds."""
    with page_at(opened, made.as_uri(), viewport={"width": 1280, "height": 900}) as page:
        assert page.title() == RUNS and page.locator("h1").text_content() == RUNS
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
        assert page.locator(".timeline text[data-at]").count() >= 1
        assert obstacles(page) == []


def test_on_a_phone_and_in_the_dark(made: Path, opened: Any) -> None:
    """Nothing is wider than the screen, except what can be scrolled by itself."""
    with page_at(opened, made.as_uri(), viewport={"width": 390, "height": 800}, color_scheme="dark") as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert obstacles(page) == []
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"


def test_data_of_a_page_is_what_the_module_says(made: Path) -> None:
    data = json.loads(re.search(r'id="data">(.*?)</script>', made.read_text(), re.DOTALL)[1])  # type: ignore[index]
    assert set(data) == set(Report.__dataclass_fields__)

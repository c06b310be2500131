"""The page of `simulst serve` in headless Chromium, with a fake model and a fake microphone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from browser import browser, obstacles, page_at, stop_clock
from fake import FakeModel, HeardModel, Loudness
from waiting import HANGS, closed, eventually

pytest.importorskip("websockets")
pytest.importorskip("playwright")
from playwright.sync_api import expect
from sites import Running, noise, serving, translated

from simulst.background import told
from simulst.opening import Opening
from simulst.serve import client
from simulst.serve.keys import Keys, add_key
from simulst.serve.server import Limits, find_recordings
from simulst.subtitles import Layout, as_srt, as_vtt, cues_of, written_words

SECONDS = 2.4
PHONE = {"width": 360, "height": 740}


class Telling(FakeModel):
    """Writes Chinese where Chinese is asked for."""

    def session(self, opening: Opening | None = None) -> Any:
        zh = opening is not None and opening.target == "zh"
        return FakeModel(vocabulary="chars" if zh else "words", unstable=0).session(opening)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    soundfile.write(folder / "talk.wav", np.frombuffer(noise(SECONDS), "<i2"), 16000, subtype="PCM_16")
    return folder


@pytest.fixture(scope="module")
def server(recordings: Path) -> Iterator[Running]:
    with serving(Telling(), recordings=find_recordings(recordings)) as running:
        yield running


@pytest.fixture(scope="module")
def chromium(recordings: Path) -> Iterator[Any]:
    fake = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
    with browser(*fake, f"--use-file-for-fake-audio-capture={recordings / 'talk.wav'}%noloop") as opened:
        yield opened


def expected(target: str = "en", **decoding: Any) -> Any:
    return translated(noise(SECONDS), target, Telling(), **decoding)


def ready(page: Any) -> Any:
    page.wait_for_selector("body[data-ready]")
    return page


def to_the_end(page: Any) -> None:
    expect(page.locator("#status")).to_have_text("The end.")


def saved(page: Any, name: str) -> str:
    with page.expect_download() as download:
        page.get_by_role("button", name=name, exact=True).click()
    return Path(download.value.path()).read_text(encoding="utf-8")


def test_a_recording_by_the_keyboard_alone(chromium: Any, server: Running) -> None:
    """Its words are those of `simulst translate`; they are read and saved without a mouse; axe finds no obstacle."""
    with page_at(chromium, server.page, viewport={"width": 1280, "height": 800}) as page:
        assert obstacles(ready(page)) == []
        stop_clock(page)  # or it may play to its end before the keys are pressed

        def go_to(selector: str) -> None:
            for _ in range(40):
                page.keyboard.press("Tab")
                if page.locator(f"{selector}:focus").count():
                    return
            raise AssertionError(f"no way to {selector}")

        go_to("#source")
        page.keyboard.type("talk")
        go_to("#start")
        page.keyboard.press("Enter")
        expect(page.locator("#status")).to_have_text("Playing")
        go_to("#pause")
        page.keyboard.press("Space")
        expect(page.locator("#status")).to_have_text("Paused")
        page.keyboard.press("Space")
        page.clock.resume()
        to_the_end(page)
        stream = expected()
        text = stream.committed_text.strip()
        assert page.locator("#text p").inner_text() == text
        go_to("#text")
        page.keyboard.press("End")
        last = page.locator(".word").last
        expect(last).to_be_focused()
        tip = page.locator(f"#{last.get_attribute('aria-describedby')}")
        expect(tip).to_contain_text("written")
        page.keyboard.press("ArrowLeft")
        expect(page.locator(".word").nth(-2)).to_be_focused()
        page.keyboard.press("Escape")
        expect(tip).to_be_hidden()
        assert page.locator("#text").get_attribute("aria-live") == "polite"
        assert page.locator("#lag").inner_text().endswith(" s") and page.locator("#load").inner_text().endswith(" %")
        layout = Layout()
        cues = cues_of(written_words(stream.emissions, layout.reading_speed), layout)
        assert saved(page, "Text") == f"{text}\n"
        assert (saved(page, "SRT"), saved(page, "VTT")) == (as_srt(cues), as_vtt(cues))
        assert obstacles(page) == []


def test_the_microphone(chromium: Any, server: Running) -> None:
    """Words come in order while it listens; who stops gets the last ones, and a viewer sees them all."""
    with page_at(chromium, server.page, permissions=["microphone"], viewport=PHONE, color_scheme="dark") as page:
        ready(page)
        page.get_by_role("button", name="Make a viewer’s link").click()
        page.locator("#link").wait_for()
        with page_at(chromium, page.locator("#link").input_value()) as viewer:
            ready(viewer)
            page.click("#start")
            page.locator(".word").first.wait_for()
            assert page.locator("body").evaluate("body => body.scrollWidth") <= PHONE["width"]
            assert obstacles(page) == []
            page.click("#start")
            to_the_end(page)
            text = page.locator("#text p").inner_text()
            assert text and FakeModel().truth(16000 * 60).strip().startswith(text)
            expect(viewer.locator("#text p")).to_have_text(text)
            assert viewer.locator("#controls").is_hidden() and obstacles(viewer) == []


def test_a_file_with_other_settings_in_other_scripts(chromium: Any, server: Running, recordings: Path) -> None:
    with page_at(chromium, server.page) as page:
        ready(page)
        page.select_option("#source", "file")
        page.set_input_files("#file", recordings / "talk.wav")
        page.fill("#set-chunk_ms", "500")
        page.select_option("#set-commit", "hold")
        for target, direction in (("zh", "ltr"), ("ar", "rtl")):
            page.select_option("#to", target)
            page.click("#start")
            to_the_end(page)
            found = expected(target=target, read={"type": "chunk", "ms": 500}, commit={"type": "hold", "n": 2})
            assert page.locator("#text p").inner_text() == found.committed_text.strip()
            assert page.locator(".word").count() == len(found.emissions)
            box = page.locator("#text")
            assert box.evaluate("box => [getComputedStyle(box).direction, box.lang]") == [direction, target]


def test_text_is_only_text(chromium: Any) -> None:
    """Words that look like HTML are shown as they are."""

    class Tagged(FakeModel):
        def text(self, tokens: Any) -> str:
            return "".join(" <img/src=x/onerror=alert(1)>" for _ in tokens)

    with serving(Tagged()) as server, page_at(chromium, server.page, permissions=["microphone"]) as page:
        ready(page)
        page.click("#start")
        expect(page.locator(".word").first).to_have_text("<img/src=x/onerror=alert(1)>")
        assert page.locator("#text img").count() == 0
        page.click("#start")
        to_the_end(page)


def test_a_server_that_is_started_again(chromium: Any, recordings: Path) -> None:
    """The page waits for it, and goes on where the recording was."""
    with serving(recordings=find_recordings(recordings)) as first, page_at(chromium, first.page, quiet=False) as page:
        ready(page).select_option("#source", label="talk")
        stop_clock(page)
        page.click("#start")
        says(page, "Playing")
        page.clock.run_for(1500)  # the recording has 2.4 s
        page.locator("#text .word, #text .unstable:not(:empty)").first.wait_for()
        port = first.port
        first.end()
        says(page, "Trying again")
        before = page.locator("#text p").inner_text()
        page.clock.resume()
        for _ in range(2):  # tries that fail
            page.wait_for_event("websocket")
        with serving(recordings=find_recordings(recordings), port=port):
            to_the_end(page)
            assert page.locator("#text p").first.inner_text() == before
            assert page.locator("#text p").count() == 2


LISTENS = {"permissions": ["microphone"]}
WATCHED = """
const get = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices), Old = AudioContext;
navigator.mediaDevices.getUserMedia = async (...given) => (window.media = await get(...given));
window.AudioContext = class extends Old { constructor(...given) { super(...given); window.context = this; } };
"""


def says(page: Any, sentence: str) -> None:
    expect(page.locator("#status")).to_contain_text(sentence)


def shown(page: Any) -> str:
    return str(page.locator("#text").inner_text())


@contextmanager
def listening(chromium: Any, address: str, stands: bool = False) -> Iterator[Any]:
    """A page with some words of the microphone, whose track is `media`, in `context`. stands: its clock does."""
    with page_at(chromium, address, **LISTENS) as page:
        page.add_init_script(WATCHED)
        if stands:
            stop_clock(page)
        page.reload()
        ready(page).click("#start")
        page.locator(".word").nth(2).wait_for()
        says(page, "Listening")
        yield page


def test_sound_of_a_tab_and_a_source_for_obs(chromium: Any, server: Running, recordings: Path) -> None:
    """Shared sound is translated until it is shared no more. OBS gets the final words, and nothing else."""
    with page_at(chromium, server.page, quiet=False) as page:  # its console speaks of a camera, which nobody asks for
        ready(page).click("#share")
        page.wait_for_selector("#shared")
        with page_at(chromium, f"{page.input_value('#link')}&obs", viewport={"width": 1280, "height": 300}) as obs:
            ready(obs)
            page.evaluate(
                f"() => {{ {WATCHED.replace('UserMedia', 'DisplayMedia').partition('window.AudioContext')[0]} }}"
            )
            page.select_option("#source", label="A tab, or the screen")
            page.click("#start")
            page.locator(".word").nth(2).wait_for()
            obs.locator(".word").nth(2).wait_for()
            assert page.evaluate("media.getVideoTracks().length") == 1  # without it, browsers share no sound
            page.evaluate("() => media.getAudioTracks()[0].dispatchEvent(new Event('ended'))")
            to_the_end(page)
            assert FakeModel().truth(16000 * 60).strip().startswith(shown(page)) and shown(obs) == shown(page)
            assert obs.evaluate("getComputedStyle(document.body).backgroundColor") == "rgba(0, 0, 0, 0)"
            hidden = obs.locator("header, form, aside, #status, #empty, #follow, .unstable")
            assert hidden.count() > 5 and not any(one.is_visible() for one in hidden.all())
            page.evaluate(
                "() => { media.getAudioTracks = () => []; navigator.mediaDevices.getDisplayMedia = () => media; }"
            )
            page.click("#start")
            says(page, "No sound is shared: choose a tab, or the screen, and share its sound too.")


def test_a_microphone_that_goes(chromium: Any, server: Running) -> None:
    """The page says so, writes the last words, and keeps the text."""
    with listening(chromium, server.page) as page:
        page.evaluate(
            "() => { const [track] = media.getTracks(); track.stop(); track.dispatchEvent(new Event('ended')); }"
        )
        says(page, "The microphone is gone, or no longer allowed.")
        expect(page.locator("#start")).to_have_text("Start")
        says(page, "The microphone is gone, or no longer allowed.")  # also after the last words
        assert FakeModel().truth(16000 * 60).strip().startswith(shown(page))


def test_sound_that_the_system_takes_away(chromium: Any, server: Running) -> None:
    """The page asks for it again, says what is the matter, and goes on once it is back."""
    with listening(chromium, server.page) as page:
        page.evaluate("() => { context.resume = async () => {}; return context.suspend(); }")
        says(page, "No sound comes from the microphone")
        before = page.locator(".word").count()
        page.evaluate("() => { delete context.resume; }")
        says(page, "Listening")
        page.locator(".word").nth(before).wait_for()
        page.evaluate("() => Object.defineProperty(media.getTracks()[0], 'muted', { get: () => true })")
        says(page, "No sound comes from the microphone")


def test_a_pause_longer_than_the_server_waits(chromium: Any) -> None:
    """Whether a speaker or the system makes it: the text stays, and speech is written after it."""

    def wait(terms: str) -> None:
        """Longer than the server does, after one more message."""
        server.idle(0.1)
        page.fill("#terms", terms)
        page.locator("#terms").blur()
        eventually(lambda: not server.site.connections.taken["clients"])
        server.idle(HANGS)

    with serving(limits=Limits(idle=HANGS)) as server, listening(chromium, server.page, stands=True) as page:
        page.click("#pause")
        wait("one")
        says(page, "Paused. The connection is closed meanwhile; Continue opens it again.")
        before = shown(page)
        page.click("#pause")
        page.clock.run_for(1000)
        says(page, "Connected again")
        expect(page.locator("#text p")).to_have_count(2)
        assert shown(page).startswith(before)
        page.evaluate("() => { context.resume = async () => {}; return context.suspend(); }")
        page.clock.run_for(4000)
        says(page, "No sound comes from the microphone")
        wait("two")
        page.evaluate("() => { delete context.resume; }")
        page.clock.resume()
        expect(page.locator("#text p")).to_have_count(3)
        assert shown(page).startswith(before)


def test_a_connection_that_dies(chromium: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer, and no close either: the page says it, and connects again. One that computes says that it lives."""
    (gate := tmp_path / "gate").touch()
    with serving(FakeModel(gate=str(gate))) as server, listening(chromium, server.page, stands=True) as page:
        with closed(gate):
            monkeypatch.setattr(client, "ALIVE", 0.05)
            before = page.locator("#behind").inner_text()
            expect(page.locator("#behind")).not_to_have_text(before)  # measures do not stand still
            monkeypatch.setattr(client, "ALIVE", 1e9)
            heard = page.evaluate("context.currentTime")
            while page.evaluate("context.currentTime") < heard + 1:  # seconds of sound, to which nobody answers
                pass
            while "The server has not answered for 1" not in page.locator("#status").inner_text():
                page.clock.run_for(1000)  # what was on its way may still come
            with page.expect_websocket():
                page.clock.resume()
                page.clock.fast_forward(10_000)
        says(page, "Listening")
        expect(page.locator("#text p")).to_have_count(2)


def test_a_server_with_keys(chromium: Any, recordings: Path, tmp_path: Path) -> None:
    """The page asks for a key until it is right, and keeps it for the tab; viewers are asked for none."""
    key = add_key(tmp_path / "keys", "one")
    with (
        serving(Telling(), recordings=find_recordings(recordings), keys=Keys(tmp_path / "keys")) as server,
        page_at(chromium, server.page) as page,
    ):
        page.wait_for_selector("body.locked")
        assert obstacles(page) == [] and not page.locator("#controls").is_visible()
        for given in ("wrong ключ", key):
            page.fill("#key", given)
            page.keyboard.press("Enter")
            if given != key:
                page.wait_for_selector("#door-wrong")
        page.reload()
        ready(page).select_option("#source", label="talk")
        page.click("#share")
        page.wait_for_selector("#shared")
        assert key not in page.url and key not in page.input_value("#link")
        with page_at(chromium, page.input_value("#link")) as viewer:
            says(ready(viewer), "Watching")
            page.click("#start")
            to_the_end(page)
            assert shown(page) == expected().committed_text.strip() == shown(viewer)


def test_a_full_server(chromium: Any, recordings: Path) -> None:
    """It is told, and the last text is still there; so it is after the page was loaded again."""
    with (
        serving(Telling(), Limits(clients=1), recordings=find_recordings(recordings)) as server,
        page_at(chromium, server.page) as page,
    ):
        ready(page).select_option("#source", label="talk")
        page.click("#start")
        to_the_end(page)
        page.reload()
        text = expected().committed_text.strip()
        assert shown(ready(page)) == text and saved(page, "Text") == f"{text}\n"
        eventually(lambda: not server.site.connections.taken["clients"])
        with listening(chromium, server.page):
            page.select_option("#source", label="talk")
            page.click("#start")
            says(page, "The server says: all 1 places are taken; try again later.")
            assert shown(page) == text and page.locator("#start").inner_text() == "Start"


def test_a_viewer_after_the_end(chromium: Any, server: Running) -> None:
    """The text stays, and the page does not say that somebody is watched."""
    with page_at(chromium, "about:blank", quiet=False) as viewer:
        stop_clock(viewer)
        with listening(chromium, server.page) as page:
            page.get_by_role("button", name="Make a viewer’s link").click()
            page.locator("#link").wait_for()
            viewer.goto(page.locator("#link").input_value())
            says(viewer, "Watching")
            viewer.locator(".word").nth(2).wait_for()
        says(viewer, "The server says: the speaker has gone. Trying again…")
        viewer.clock.resume()
        for _ in range(2):
            viewer.wait_for_event("websocket")
            says(viewer, "The server says: nobody speaks at this link now. Trying again…")
        assert viewer.locator(".word").count() > 2


def test_languages_are_not_guessed(chromium: Any) -> None:
    """Where the server's owner has named none; plain transcription is chosen last."""
    pairs = {"es": ("es", "en"), "fr": ("fr", "en")}
    with serving(Telling(), pairs=pairs, usual=None) as server, page_at(chromium, server.page, **LISTENS) as page:
        assert ready(page).locator("#from").input_value() == ""
        page.click("#start")
        assert page.locator("#from:invalid").count() and page.locator("#start").inner_text() == "Start"
        page.select_option("#from", "fr")
        assert page.locator("#to").input_value() == "en"


def test_another_language_and_grey_words(chromium: Any) -> None:
    """The page tells what the model hears. What is saved while somebody speaks has all words that are seen."""

    class Hears(Telling):
        def session(self, opening: Opening | None = None) -> Any:
            session = FakeModel().session(opening)
            session.meter.sounds_like = "fr"
            return session

    with serving(Hears()) as server, listening(chromium, server.page) as page:
        says(page, "Listening. It sounds like French, not Spanish: stop, and choose that under From.")
        page.locator("#text .unstable:not(:empty)").wait_for()
        page.click("#pause")
        expect(page.locator("#behind")).to_have_text("0.0 s")
        text, grey = shown(page), page.locator("#text .unstable").inner_text()
        assert grey.strip() and text.endswith(grey.strip())
        assert saved(page, "Text") == f"{text}\n"
        words = re.sub(r"\S+ --> \S+", "", saved(page, "VTT"))  # the grey ones may stand in two subtitles
        assert "".join(grey.split()) in "".join(words.split())


def test_colours_and_size_stay(chromium: Any, server: Running) -> None:
    with page_at(chromium, server.page, color_scheme="light") as page:
        size = ready(page).locator("#text").evaluate("box => getComputedStyle(box).fontSize")
        page.get_by_role("button", name="Larger text").click()
        page.get_by_role("button", name="Dark colours").click()
        assert obstacles(page) == []
        page.reload()
        larger = ready(page).locator("#text").evaluate("box => getComputedStyle(box).fontSize")
        assert float(larger[:-2]) == pytest.approx(1.2 * float(size[:-2]))
        assert page.get_by_role("button", name="Dark colours").get_attribute("aria-pressed") == "true"


def test_the_language_found_terms_and_both_texts(
    chromium: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page says which it is, tells terms at the start and later, shows what was said, and saves both."""
    monkeypatch.setattr("simulst.streams.auto.start_of_stream", Loudness)
    soundfile.write(tmp_path / "talk.wav", np.frombuffer(noise(6.4), "<i2"), 16000, subtype="PCM_16")
    said = " ".join(f"mot{second}" for second in range(6))
    model, pairs = HeardModel(unstable=0), {**HeardModel.language_pairs, "auto": ("en",)}
    with (
        serving(model, recordings=find_recordings(tmp_path), pairs=pairs, usual=None) as server,
        page_at(chromium, server.page, viewport={"width": 1280, "height": 800}) as page,
    ):
        ready(page).select_option("#source", label="talk")
        page.select_option("#from", label="Found by itself")
        assert page.locator("#to").input_value() == "en"
        page.fill("#terms", "perro=dog\nCafé")
        page.fill("#about", "A talk.")
        stop_clock(page)
        page.click("#start")
        says(page, "Playing")
        page.clock.run_for(1500)
        says(page, "Playing. The language is found after some seconds of speech.")
        page.clock.run_for(4500)
        says(page, "Playing. The language is French.")
        assert model.sessions[-1].opening.background == told("perro=dog; Café", target_text="A talk.")
        page.fill("#terms", "gato=cat")
        page.locator("#terms").blur()
        page.clock.resume()
        to_the_end(page)
        assert model.sessions[-1].opening.background == told("gato=cat", target_text="A talk.")
        assert page.locator("#heard").inner_text() == said
        assert page.locator("#heard").get_attribute("lang") == "fr" and obstacles(page) == []
        text = shown(page)
        for _ in range(2):  # a reload keeps both
            srt = saved(page, "SRT")
            lines = [line for line in srt.splitlines() if line and "-->" not in line and not line.isdigit()]
            heard = [line for line in lines if line.startswith("mot")]
            assert " ".join(heard) == said
            assert "".join(text.split()) == "".join("".join(line.split()) for line in lines if line not in heard)
            page.reload()
            assert shown(ready(page)) == text
        assert page.locator("#heard").inner_text() == said

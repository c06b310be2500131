// The page of `simulst serve`: controls, the connection to the server, measures, settings and files to save.

import { Microphone, playerOfFile, playerOfRecording } from "./audio.js";
import { Text } from "./text.js";

const $ = (id) => document.getElementById(id);
const REFUSED = new Set([1008, 1013]);  // trying again would not help
const WINDOW = 10000;  // ms of the measures
const MOST = { lag: 6, load: 1.3, wait: 1, behind: 6 };  // what fills a bar
const COMMITS = { all: "all", hold: "hold n", local_agreement: "agreement", shared_prefix: "shared prefix" };
const LABELS = { chunk_ms: "Chunk, ms", commit: "Commit", n: "n", frames: "AlignAtt frames" };

const view = new URLSearchParams(location.search).get("view");
const text = new Text($("text"), $("tip"), $("follow"), $("empty"));
const about = await (await fetch("about.json")).json();

// ---- what the browser remembers ----

function remembered(name, value) {
  try {
    if (value === undefined) return localStorage.getItem(`simulst.${name}`);
    localStorage.setItem(`simulst.${name}`, value);
  } catch { /* a browser that remembers nothing */ }
  return null;
}

// ---- the connection ----

const line = {
  socket: null,
  stream: -1,  // number of the stream whose words came last
  secret: null,
  asked: [],  // files that the server is making

  async open() {
    if (this.socket?.readyState === WebSocket.OPEN) return;
    this.opening ??= new Promise((done, failed) => {
      const place = new URL(view ? `view/${view}` : ".", location.href);
      place.protocol = place.protocol.replace("http", "ws");
      place.search = "";
      const socket = new WebSocket(place);
      socket.onopen = () => done();
      socket.onmessage = ({ data }) => this.take(JSON.parse(data));
      socket.onclose = ({ code, reason }) => {
        failed(new Error(reason || "The server does not answer."));
        if (this.socket === socket) this.closed(code, reason);
      };
      this.socket = socket;
    }).finally(() => (this.opening = null));
    await this.opening;
    if (this.secret) this.tell({ share: this.secret });
  },

  tell(message) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  },

  take(message) {
    if (message.simulst) take(message.simulst);
    if (message.end_of_processing) session.over();
    if (message.link) showLink(message.link);
    if (message.subtitles) this.asked.shift()?.done(message.text);
    if (message.error) {
      const waiting = this.asked.shift();
      if (waiting) waiting.failed(new Error(message.error));
      else say(message.error, "bad");
    }
  },

  closed(code, reason) {
    this.socket = null;
    this.stream = -1;
    while (this.asked.length) this.asked.shift().failed(new Error("The connection was lost."));
    if (view) watch(reason);
    else session.lost(code, reason);
  },
};

// ---- what is said of the state ----

function say(sentence, kind = "") {
  $("status").textContent = sentence;
  $("status").className = kind;
}

// ---- one speech ----

const session = {
  phase: "idle",  // or starting, running, paused, ending
  source: null,
  offset: 0,  // ms of audio in earlier streams of this text
  sent: 0,  // ms of audio in this stream
  times: [],  // [sent, time at which it was]

  set(next) {
    this.phase = next;
    const idle = next === "idle";
    document.body.classList.toggle("running", !idle);
    $("start").textContent = idle ? "Start" : "Stop";
    $("start").disabled = next === "starting" || next === "ending";
    $("pause").disabled = next !== "running" && next !== "paused";
    $("pause").textContent = next === "paused" ? "Continue" : "Pause";
    $("restart").disabled = next === "starting" || next === "ending" || idle;
    for (const field of document.querySelectorAll(".setup select, .setup input, #fields input, #fields select")) {
      field.disabled = !idle && !field.closest("#fields");
    }
  },

  async start() {
    if (!$("controls").reportValidity() || !fieldsAreValid()) return;
    this.set("starting");
    say("Starting…");
    try {
      await line.open();
      this.source = await chosenSource();
      this.told = false;
      await this.source.start((samples) => this.give(samples), (error) => this.ended(error));
      this.set("running");
      say(this.source instanceof Microphone ? "Listening" : "Playing", "live");
    } catch (error) {
      this.source?.stop();
      this.set("idle");
      say(sentenceOf(error), "bad");
    }
  },

  give(samples) {
    if (line.socket?.readyState !== WebSocket.OPEN) return;
    if (!this.told) {
      this.told = true;
      this.offset += this.sent;
      this.sent = 0;
      this.times = [];
      const languages = { source_lang: $("from").value, target_lang: $("to").value };
      line.tell({ details: true, sample_rate: this.source.rate, decoding: chosenSettings(), ...languages });
    }
    this.sent += (samples.length / this.source.rate) * 1000;
    this.times.push([this.sent, performance.now()]);
    line.socket.send(samples);
  },

  ended(error) {
    if (this.phase !== "running" && this.phase !== "paused") return;
    this.source.stop();
    this.set("ending");
    say(error ? sentenceOf(error) : "Writing the last words…", error ? "bad" : "live");
    line.tell({ end_of_stream: true });
  },

  over() {
    if (this.phase !== "ending") return;  // the server ends it, and says why when it closes
    this.set("idle");
    const count = text.words.length;
    say(count ? "The end." : "No words were written.");
  },

  toggle() {
    const paused = this.phase === "paused";
    this.source[paused ? "resume" : "pause"]();
    this.set(paused ? "running" : "paused");
    say(paused ? (this.source instanceof Microphone ? "Listening" : "Playing") : "Paused", paused ? "live" : "");
  },

  async restart() {
    this.source?.stop();
    line.tell({ clear: true });
    line.stream = -1;
    this.offset = this.sent = 0;
    text.clear();
    measures.clear();
    await this.start();
  },

  // When audio up to a place in the stream had been sent.
  sentAt(ms) {
    let low = 0, high = this.times.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.times[middle][0] < ms - 1) low = middle + 1;
      else high = middle;
    }
    return this.times[low]?.[1] ?? performance.now();
  },

  async lost(code, reason) {
    if (this.phase === "idle") return;
    if (REFUSED.has(code) || this.phase === "ending" || this.phase === "starting") {
      this.source?.stop();
      this.set("idle");
      say(reason ? `The server says: ${reason}.`.replace("..", ".") : "The connection was lost.", "bad");
      return;
    }
    const phase = this.phase;
    this.source.pause();
    this.set("starting");
    for (let wait = 1000; ; wait = Math.min(2 * wait, 10000)) {
      say(`${reason ? `The server says: ${reason}.` : "The connection was lost."} Trying again…`, "bad");
      await new Promise((done) => setTimeout(done, wait));
      try {
        await line.open();
        break;
      } catch { /* it is not there yet */ }
    }
    this.told = false;
    this.set("running");
    if (phase === "paused") this.toggle();
    else {
      this.source.resume();
      say("Connected again", "live");
    }
  },
};

function sentenceOf(error) {
  if (error?.name === "NotAllowedError") return "The browser was not allowed to use the microphone.";
  if (error?.name === "NotFoundError") return "There is no microphone.";
  if (error?.name === "EncodingError") return "The browser can’t read this file.";
  return String(error?.message ?? error);
}

// ---- what comes from the server ----

function take(update) {
  if (update.stream !== line.stream && update.languages[1]) {
    if (view && line.stream >= 0) session.offset += measures.heard;
    line.stream = update.stream;
    text.begin(update.languages[1], session.offset);
    measures.begin();
  }
  if (line.stream < 0) return;
  const now = performance.now();
  const words = view
    ? update.words
    : update.words.map(([word, delay]) => [word, delay, now - session.sentAt(delay)]);
  text.add(words, update.spoken, update.unstable);
  measures.take(update, now);
  $("viewers").textContent = update.viewers === 1 ? "1 viewer" : `${update.viewers} viewers`;
}

const measures = {
  heard: 0,
  past: [],  // [time, heard, computed, waited], ms

  clear() {
    this.begin();
    for (const name of ["lag", "load", "wait", "behind"]) this.show(name, null, "–");
  },

  begin() {
    this.past = [];
    this.heard = 0;
  },

  take(update, now) {
    this.heard = update.heard_ms;
    this.past.push([now, update.heard_ms, update.computed_ms, update.waited_ms]);
    while (this.past.length > 2 && now - this.past[0][0] > WINDOW) this.past.shift();
    const [first, last] = [this.past[0], this.past.at(-1)];
    const [time, heard, computed, waited] = last.map((value, i) => value - first[i]);
    if (heard > 0) this.show("load", computed / heard, `${Math.round((100 * computed) / heard)} %`);
    if (time > 0) this.show("wait", waited / time, `${(waited / 1000).toFixed(1)} s`);
    const behind = (view ? 0 : session.sent - update.heard_ms) / 1000;
    this.show("behind", behind, `${Math.max(0, behind).toFixed(1)} s`);
    const timed = text.words.filter((word) => word.spoken).slice(-10);
    const recent = timed.length ? timed : text.words.slice(-10);
    if (!recent.length) return;
    const lags = recent.map((word) => text.lag(word) ?? word.behind);
    const lag = lags.reduce((sum, one) => sum + one, 0) / lags.length / 1000;
    this.show("lag", lag, `${lag.toFixed(1)} s`);
    $("lag-note").textContent = `from ${timed.length ? "speaking" : "hearing"} to writing, last ten words`;
  },

  show(name, value, label) {
    const share = (value ?? 0) / MOST[name], bar = $(`${name}-bar`);
    bar.style.width = `${100 * Math.max(0, Math.min(1, share))}%`;
    bar.classList.toggle("much", share > 0.75);
    $(name).textContent = label;
  },
};

// ---- sources and languages ----

function option(value, label) {
  const made = document.createElement("option");
  made.value = value;
  made.textContent = label;
  return made;
}

const names = new Intl.DisplayNames(["en"], { type: "language", fallback: "code" });

function nameOf(code) {
  try {
    return names.of(code.replace("_", "-"));
  } catch {
    return code;
  }
}

function fillSources() {
  const box = $("source");
  if (navigator.mediaDevices) box.append(option("microphone", "Microphone"));
  $("insecure").hidden = Boolean(navigator.mediaDevices) || Boolean(view);
  box.append(option("file", "File"));
  about.recordings.forEach(({ name }, number) => box.append(option(String(number), name)));
  const change = () => ($("file-field").hidden = box.value !== "file");
  box.addEventListener("change", change);
  change();
}

function fillLanguages() {
  const sorted = (codes) => [...codes].sort((one, other) => nameOf(one).localeCompare(nameOf(other)));
  const from = Object.keys(about.languages);
  $("from").append(...sorted(from).map((code) => option(code, nameOf(code))));
  const wanted = [remembered("from"), about.usual?.[0], "en"].find((code) => from.includes(code));
  $("from").value = wanted ?? sorted(from)[0];
  const change = () => {
    const to = about.languages[$("from").value], before = $("to").value || remembered("to");
    $("to").replaceChildren(...to.map((code) => option(code, nameOf(code))));
    if (to.includes(before)) $("to").value = before;
  };
  change();
  $("from").addEventListener("change", () => (change(), remembered("from", $("from").value)));
  $("to").addEventListener("change", () => remembered("to", $("to").value));
}

async function chosenSource() {
  const choice = $("source").value;
  if (choice === "microphone") return new Microphone();
  if (choice !== "file") return playerOfRecording(choice, about.recordings[choice].seconds, about.part);
  const [file] = $("file").files;
  if (!file) throw new Error("Choose a file first.");
  return playerOfFile(file);
}

// ---- settings ----

function fillSettings() {
  $("settings").hidden = !Object.keys(about.settings).length;
  for (const [name, { value, least, most, choices }] of Object.entries(about.settings)) {
    const label = document.createElement("label");
    const field = document.createElement(choices ? "select" : "input");
    field.id = `set-${name}`;
    if (choices) field.append(...choices.map((one) => option(one, COMMITS[one])));
    else Object.assign(field, { type: "number", min: least, max: most, step: name === "chunk_ms" ? 100 : 1, required: true });
    field.value = value;
    label.append(LABELS[name], field);
    $("fields").append(label);
  }
}

function fieldsAreValid() {
  return [...document.querySelectorAll("#fields input")].every((field) => field.reportValidity());
}

function chosenSettings() {
  const entries = Object.entries(about.settings).map(([name, { choices }]) => {
    const { value } = $(`set-${name}`);
    return [name, choices ? value : Number(value)];
  });
  return Object.fromEntries(entries);
}

// ---- saving ----

function save(name, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type: "text/plain" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

async function exportAs(kind) {
  if (!text.words.length) {
    say("There is no text yet.");
    return;
  }
  try {
    if (kind === "txt") {
      save("translation.txt", `${text.plain}\n`);
      return;
    }
    await line.open();
    const words = text.words.map(({ text: word, delay, spoken }) => ({ text: word, delay_ms: delay, spoken }));
    const made = await new Promise((done, failed) => {
      line.asked.push({ done, failed });
      line.tell({ subtitles: kind, words });
    });
    save(`translation.${kind}`, made);
  } catch (error) {
    say(sentenceOf(error), "bad");
  }
}

// ---- viewers ----

async function share() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  line.secret = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  try {
    const open = line.socket?.readyState === WebSocket.OPEN;
    await line.open();  // which tells the secret, unless it was open
    if (open) line.tell({ share: line.secret });
  } catch (error) {
    say(sentenceOf(error), "bad");
  }
}

function showLink(name) {
  $("link").value = new URL(`?view=${name}`, location.href.split("?")[0]).href;
  $("shared").hidden = false;
  $("share").hidden = true;
}

async function watch(reason) {
  session.offset = 0;
  if (reason !== undefined) {
    say(`${reason ? `The server says: ${reason}.` : "The connection was lost."} Trying again…`);
    await new Promise((done) => setTimeout(done, 3000));
  }
  try {
    await line.open();
    text.clear();
    measures.clear();
    say("Watching", "live");
  } catch { /* `closed` tries again */ }
}

// ---- display ----

function resize(factor) {
  const size = Math.min(4, Math.max(1, Number(remembered("size") ?? 1.5) * factor));
  remembered("size", size);
  document.documentElement.style.setProperty("--size", `${size}rem`);
  text.toEnd();
}

function paint(theme) {
  const dark = theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  if (theme) document.documentElement.dataset.theme = theme;
  $("theme").setAttribute("aria-pressed", dark);
  return dark;
}

$("model").textContent = about.model;
fillSources();
fillLanguages();
fillSettings();
resize(1);
paint(remembered("theme"));
$("smaller").addEventListener("click", () => resize(1 / 1.2));
$("larger").addEventListener("click", () => resize(1.2));
$("theme").addEventListener("click", () => {
  const next = $("theme").getAttribute("aria-pressed") === "true" ? "light" : "dark";
  remembered("theme", next);
  paint(next);
});
$("controls").addEventListener("submit", (event) => {
  event.preventDefault();
  if (session.phase === "idle") session.restart();
  else session.ended();
});
$("pause").addEventListener("click", () => session.toggle());
$("restart").addEventListener("click", () => session.restart());
$("share").addEventListener("click", share);
$("copy").addEventListener("click", async () => {
  $("link").select();
  try {
    await navigator.clipboard.writeText($("link").value);
    say("The link is copied.");
  } catch {
    say("Copy the marked link.");
  }
});
for (const button of document.querySelectorAll("[data-export]")) {
  button.addEventListener("click", () => exportAs(button.dataset.export));
}
if (view) {
  document.body.classList.add("viewer");
  $("empty").textContent = "Words appear here while somebody speaks.";
  watch();
}
document.body.dataset.ready = "";

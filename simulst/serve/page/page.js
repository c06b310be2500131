// The page of `simulst serve`: controls, the connection to the server, measures, settings and files to save.

import { Microphone, Shared, playerOfFile, playerOfRecording } from "./audio.js";
import { Text } from "./text.js";

const $ = (id) => document.getElementById(id);
const REFUSED = 1008;  // trying again would not help
const SILENT = 2000;  // ms without samples of the microphone
const DEAD = 20000;  // ms without a word of the server, which says something every five seconds
const NOTE = 5000;  // ms for which a note is shown
const WINDOW = 10000;  // ms of the measures
const MOST = { lag: 6, load: 1.3, wait: 1, behind: 6 };  // what fills a bar
const AUTO = "auto";  // the language spoken is found by the model
const COMMITS = { all: "all", hold: "hold n", local_agreement: "agreement", shared_prefix: "shared prefix" };
const LABELS = { chunk_ms: "Chunk, ms", commit: "Commit", n: "n", frames: "AlignAtt frames" };

const parameters = new URLSearchParams(location.search);
const view = parameters.get("view");
const text = new Text($("text"), $("heard"), $("tip"), $("follow"), $("empty"));
// ---- what the browser remembers ----

function remembered(name, value) {
  try {
    if (value === undefined) return localStorage.getItem(`simulst.${name}`);
    localStorage.setItem(`simulst.${name}`, value);
  } catch { /* a browser that remembers nothing */ }
  return null;
}

// ---- the key, if the server asks for one; it is in no address ----

const door = {
  key: "",

  get headers() { return this.key ? { Authorization: `Bearer ${this.key}` } : {}; },
  get protocols() { return this.key && !view ? ["simulst", `openai-insecure-api-key.${this.key}`] : []; },

  // What the server says of itself. Viewers need no key, and are told nothing of it.
  async about() {
    try {
      this.key = sessionStorage.getItem("simulst.key") ?? "";
    } catch { /* a browser that keeps nothing */ }
    for (;;) {
      const about = await (await fetch("about.json", { headers: this.headers })).json();
      if (!about.locked) return about;
      if (view) return { model: "", languages: {}, settings: {}, recordings: [] };
      await this.ask();
    }
  },

  async ask() {
    $("door-wrong").hidden = !this.key;
    document.body.classList.add("locked");
    $("key").focus();
    await new Promise((done) => $("door").addEventListener("submit", (event) => (event.preventDefault(), done()), { once: true }));
    document.body.classList.remove("locked");
    this.key = $("key").value.replace(/[^\w-]/g, "");
    $("key").value = "";
    try {
      sessionStorage.setItem("simulst.key", this.key);
    } catch { /* it is asked again after a reload */ }
  },
};

const about = await door.about();

// ---- the connection ----

const line = {
  socket: null,  // an open one
  stream: -1,  // number of the stream whose words came last
  old: -1,  // numbers up to this one are of streams that were dropped
  at: 0,  // when the server last said something
  fresh: true,  // nothing has come since it was opened
  secret: null,
  asked: [],  // files that the server is making

  async open() {
    if (this.socket) return;
    this.opening ??= new Promise((done, failed) => {
      const place = new URL(view ? `view/${view}` : ".", location.href);
      place.protocol = place.protocol.replace("http", "ws");
      place.search = "";
      const socket = new WebSocket(place, door.protocols);
      const late = setTimeout(() => socket.close(), DEAD);
      socket.onopen = () => {
        clearTimeout(late);
        Object.assign(this, { socket, stream: -1, old: -1, at: performance.now(), fresh: true });
        done();
      };
      socket.onmessage = ({ data }) => {
        if (this.socket === socket) this.take(JSON.parse(data));
      };
      socket.onclose = ({ code, reason }) => {
        clearTimeout(late);
        failed(new Error(reason || "The server does not answer."));
        if (this.socket === socket) this.closed(code, reason);
      };
    }).finally(() => (this.opening = null));
    await this.opening;
    if (this.secret) this.tell({ share: this.secret });
  },

  // A connection that died without a word is not waited for.
  drop() {
    const { socket } = this;
    this.closed(1006, "");
    socket.close();
  },

  tell(message) {
    this.socket?.send(JSON.stringify(message));
  },

  // What still comes of the stream so far is not wanted.
  clear() {
    this.tell({ clear: true });
    this.old = this.stream;
    this.stream = -1;
  },

  take(message) {
    this.at = performance.now();
    if (message.simulst) take(message.simulst);
    if (message.end_of_processing) session.over();
    if (message.link) showLink(message.link);
    if (message.subtitles) this.asked.shift()?.done(message.text);
    if (message.error) {
      const waiting = this.asked.shift();
      if (waiting) waiting.failed(new Error(message.error));
      else note(message.error, "bad");
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

const status = { sentence: "", kind: "", timer: 0 };

function show(sentence, kind) {
  clearTimeout(status.timer);
  $("status").textContent = sentence;
  $("status").className = kind;
}

// The state, until the next one.
function say(sentence, kind = "") {
  Object.assign(status, { sentence, kind });
  show(sentence, kind);
}

// Something else, for a while.
function note(sentence, kind = "") {
  show(sentence, kind);
  status.timer = setTimeout(() => show(status.sentence, status.kind), NOTE);
}

function serverSays(reason) {
  return reason ? `The server says: ${reason.replace(/\.$/, "")}.` : "The connection was lost.";
}

// ---- one speech ----

const session = {
  phase: "idle",  // or starting, running, paused, lost, ending
  source: null,
  offset: 0,  // ms of audio in earlier streams of this text
  sent: 0,  // ms of audio in this stream
  times: [],  // [sent, time at which it was]
  came: 0,  // when the source last gave something
  silent: false,  // whether the system has taken the microphone away
  remark: "",  // what the server thinks of the speech
  failure: "",  // why it ends

  set(next) {
    this.phase = next;
    const idle = next === "idle", busy = next === "starting" || next === "ending";
    document.body.classList.toggle("running", !idle);
    $("start").textContent = idle ? "Start" : "Stop";
    $("start").disabled = busy;
    $("pause").disabled = next !== "running" && next !== "paused";
    $("pause").textContent = next === "paused" ? "Continue" : "Pause";
    $("restart").disabled = busy || idle;
    for (const field of document.querySelectorAll(".setup select, .setup input, #fields input, #fields select")) {
      field.disabled = !idle && !field.closest("#fields");
    }
  },

  sayRunning() {
    const [source, kind] = this.silent
      ? [`No sound comes from ${this.source.name}: a call has it, or the system. It goes on when the sound is back.`, "bad"]
      : [this.source.live ? "Listening" : "Playing", "live"];
    say(this.remark ? `${source}. ${this.remark}` : source, kind);
  },

  // The text so far stays until everything is there for another one.
  async start() {
    if (!$("controls").reportValidity() || !fieldsAreValid()) return;
    this.source?.stop();
    this.source = null;
    this.set("starting");
    say("Starting…");
    try {
      await line.open();
      line.clear();
      const source = (this.source = await chosenSource());
      await source.start(
        (samples) => this.source === source && this.give(samples),
        (error) => this.source === source && this.ended(error),
      );
      if (this.phase !== "starting") {  // the connection was lost meanwhile, which was told
        source.stop();
        return;
      }
      Object.assign(this, { told: false, offset: 0, sent: 0, silent: false, remark: "", failure: "", came: performance.now() });
      text.clear();
      measures.clear();
      this.set("running");
      this.sayRunning();
    } catch (error) {
      this.source?.stop();
      if (this.phase !== "starting") return;
      this.set("idle");
      say(sentenceOf(error), "bad");
    }
  },

  give(samples) {
    this.came = performance.now();
    if (this.phase !== "running" || !line.socket) return;
    if (!this.told) {
      this.told = true;
      this.offset += this.sent;
      this.sent = 0;
      this.times = [];
      line.at = this.came;
      const languages = { source_lang: $("from").value, target_lang: $("to").value };
      line.tell({ details: true, sample_rate: this.source.rate, decoding: chosenSettings(), ...languages, ...known() });
    }
    this.sent += (samples.length / this.source.rate) * 1000;
    this.times.push([this.sent, this.came]);
    line.socket.send(samples);
  },

  ended(error) {
    if (this.phase === "idle" || this.phase === "ending") return;
    this.source.stop();
    this.failure = error ? sentenceOf(error) : "";
    if (!line.socket) {
      this.set("idle");
      say(this.failure || "Stopped.", this.failure && "bad");
      return;
    }
    this.set("ending");
    say(this.failure || "Writing the last words…", this.failure ? "bad" : "live");
    line.at = performance.now();
    line.tell({ end_of_stream: true });
  },

  over() {
    if (this.phase !== "ending") return;  // the server ends it, and says why when it closes
    this.set("idle");
    say(this.failure || (text.words.length ? "The end." : "No words were written."), this.failure && "bad");
  },

  async toggle() {
    if (this.phase === "running") {
      this.source.pause();
      this.set("paused");
      say("Paused");
    } else if (line.socket) {
      this.goOn();
    } else {
      await this.reconnect("");
    }
  },

  goOn() {
    this.source.resume();
    this.came = performance.now();
    this.set("running");
    this.sayRunning();
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

  // The server, or the network, has closed the connection.
  async lost(code, reason) {
    this.told = false;
    if (this.phase === "idle" || this.phase === "lost") return;
    if (this.phase === "paused") {
      say("Paused. The connection is closed meanwhile; Continue opens it again.");
    } else if (this.phase === "running" && this.silent) {
      // `tick` opens it again when there is sound
    } else if (code === REFUSED || this.phase === "ending" || this.phase === "starting") {
      this.source?.stop();
      this.set("idle");
      say(serverSays(reason), "bad");
    } else {
      await this.reconnect(reason);
    }
  },

  async reconnect(reason) {
    const { source } = this;
    source.pause();
    this.set("lost");
    for (let wait = 500; ; wait = Math.min(2 * wait, 10000)) {
      if (line.socket) break;
      say(`${serverSays(reason)} Trying again…`, "bad");
      await new Promise((done) => setTimeout(done, wait));
      if (this.phase !== "lost" || this.source !== source) return;
      try {
        await line.open();
      } catch { /* it is not there yet */ }
      if (this.phase !== "lost" || this.source !== source) return;
    }
    this.goOn();
    note("Connected again", "live");
  },

  // Once a second: what nobody tells.
  tick() {
    const now = performance.now();
    if (this.phase === "running") {
      const silent = Boolean(this.source.live && (now - this.came > SILENT || this.source.muted));
      if (silent) this.source.wake();
      if (silent !== this.silent) {
        this.silent = silent;
        this.sayRunning();
      }
      if (!silent && !line.socket) this.reconnect("");
    }
    if ((this.phase === "running" || this.phase === "ending") && line.socket) {
      measures.showBehind();
      if (this.sent > measures.heard + 500 || this.phase === "ending") {
        const quiet = now - line.at;
        if (quiet > DEAD) line.drop();
        else if (quiet > DEAD / 2) note(`The server has not answered for ${Math.round(quiet / 1000)} s.`, "bad");
      }
    }
  },
};

function sentenceOf(error) {
  if (error?.name === "NotAllowedError") return `The browser was not allowed to listen to ${session.source?.name ?? "it"}.`;
  if (error?.name === "NotFoundError") return "There is no microphone.";
  if (error?.name === "EncodingError") return "The browser can’t read this file.";
  return String(error?.message ?? error);
}

// ---- what comes from the server ----

function take(update) {
  if (view && line.fresh) say("Watching", "live");
  if (update.stream <= line.old) return;
  if (update.stream !== line.stream && update.languages[1]) {
    if (view && line.stream >= 0) session.offset += measures.heard;
    if (view && line.stream < 0) {  // all of this stream comes, so the text of before is told once more, or over
      text.clear();
      measures.clear();
    }
    line.stream = update.stream;
    text.begin(update.languages[1], session.offset);
    measures.begin();
  }
  line.fresh = false;
  if (line.stream < 0) return;
  const now = performance.now();
  const words = view
    ? update.words
    : update.words.map(([word, delay]) => [word, delay, now - session.sentAt(delay)]);
  text.add(words, update.spoken, update.unstable);
  text.addSource(update.source, update.languages[0]);
  measures.take(update, now);
  $("viewers").textContent = update.viewers === 1 ? "1 viewer" : `${update.viewers} viewers`;
  const remark = remarkOn(update);
  if (!view && remark !== session.remark) {
    session.remark = remark;
    if (session.phase === "running") session.sayRunning();
  }
}

function remarkOn({ sounds_like: other, languages: [spoken] }) {
  if (spoken === AUTO) return "The language is found after some seconds of speech.";
  if ($("from").value === AUTO) return `The language is ${nameOf(spoken)}.`;
  return other ? `It sounds like ${nameOf(other)}, not ${nameOf(spoken)}: stop, and choose that under From.` : "";
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
    this.showBehind();
    const timed = text.words.filter((word) => word.spoken).slice(-10);
    const recent = timed.length ? timed : text.words.slice(-10);
    if (!recent.length) return;
    const lags = recent.map((word) => text.lag(word) ?? word.behind);
    const lag = lags.reduce((sum, one) => sum + one, 0) / lags.length / 1000;
    this.show("lag", lag, `${lag.toFixed(1)} s`);
    $("lag-note").textContent = `from ${timed.length ? "speaking" : "hearing"} to writing, last ten words`;
  },

  showBehind() {
    const behind = (view ? 0 : session.sent - this.heard) / 1000;
    this.show("behind", behind, `${Math.max(0, behind).toFixed(1)} s`);
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
  if (navigator.mediaDevices?.getDisplayMedia) box.append(option("shared", "A tab, or the screen"));
  $("insecure").hidden = Boolean(navigator.mediaDevices) || Boolean(view);
  box.append(option("file", "File"));
  about.recordings.forEach(({ name }, number) => box.append(option(String(number), name)));
  const change = () => ($("file-field").hidden = box.value !== "file");
  box.addEventListener("change", change);
  change();
}

// What was chosen before, or what the server's owner has named; else nothing is guessed.
function fillLanguages() {
  const sorted = (codes) => [...codes].sort((one, other) => nameOf(one).localeCompare(nameOf(other)));
  const from = Object.keys(about.languages);
  const known = [remembered("from"), about.usual?.[0]].find((code) => from.includes(code));
  if (!known) $("from").append(option("", "Choose…"));
  if (from.includes(AUTO)) $("from").append(option(AUTO, "Found by itself"));
  $("from").append(...sorted(from.filter((code) => code !== AUTO)).map((code) => option(code, nameOf(code))));
  $("from").value = known ?? "";
  const change = () => {
    const spoken = $("from").value, to = about.languages[spoken] ?? [];
    const usual = about.usual?.[0] === spoken ? about.usual[1] : to.find((code) => code !== spoken);
    const wanted = [$("to").value, remembered("to"), usual].find((code) => to.includes(code));
    $("to").replaceChildren(...to.map((code) => option(code, nameOf(code))));
    if (wanted) $("to").value = wanted;
  };
  change();
  $("from").addEventListener("change", () => (change(), remembered("from", $("from").value)));
  $("to").addEventListener("change", () => remembered("to", $("to").value));
}

async function chosenSource() {
  const choice = $("source").value;
  if (choice === "microphone") return new Microphone();
  if (choice === "shared") return new Shared();
  if (choice !== "file") return playerOfRecording(choice, about.recordings[choice].seconds, about.part, door.headers);
  const [file] = $("file").files;
  if (!file) throw new Error("Choose a file first.");
  return playerOfFile(file);
}

// What the speaker tells of the speech.
function known() {
  const field = $("from").value === $("to").value ? "text" : "target_text";
  return { terms: $("terms").value, [field]: $("about").value };
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
  $("set-commit")?.addEventListener("change", showWhetherItCounts);
  showWhetherItCounts();
}

function showWhetherItCounts() {
  if ($("set-n")) $("set-n").disabled = $("set-commit").value === "all"; // it has no n
}

function fieldsAreValid() {
  return [...document.querySelectorAll("#fields input")].every((field) => field.reportValidity());
}

function chosenSettings() {
  const names = Object.keys(about.settings).filter((name) => !$(`set-${name}`).disabled);
  const entries = names.map((name) => {
    const { value } = $(`set-${name}`);
    return [name, about.settings[name].choices ? value : Number(value)];
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
  if (!text.plain) {
    note("There is no text yet.");
    return;
  }
  try {
    if (kind === "txt") {
      save("translation.txt", `${text.plain}\n`);
      return;
    }
    await line.open();
    const words = text.forSubtitles(measures.heard);
    const made = await new Promise((done, failed) => {
      line.asked.push({ done, failed });
      line.tell({ subtitles: kind, words, source: text.sourceForSubtitles });
    });
    save(`translation.${kind}`, made);
  } catch (error) {
    note(sentenceOf(error), "bad");
  }
}

// ---- viewers ----

async function share() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  line.secret = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  try {
    const open = line.socket;
    await line.open();  // which tells the secret, unless it was open
    if (open) line.tell({ share: line.secret });
  } catch (error) {
    note(sentenceOf(error), "bad");
  }
}

function showLink(name) {
  $("link").value = new URL(`?view=${name}`, location.href.split("?")[0]).href;
  $("shared").hidden = false;
  $("share").hidden = true;
}

// Whoever watches is told when the speaker has gone, and waits for the next words; the text stays.
async function watch(reason) {
  if (reason !== undefined) {
    say(`${serverSays(reason)} Trying again…`);
    await new Promise((done) => setTimeout(done, 3000));
  }
  session.offset = 0;
  try {
    await line.open();
  } catch (error) {
    watch(error.message === "The server does not answer." ? "" : error.message);
  }
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
  if (session.phase === "idle") session.start();
  else session.ended();
});
for (const field of [$("terms"), $("about")]) {
  field.addEventListener("change", () => session.told && line.tell(known()));
}
$("pause").addEventListener("click", () => session.toggle());
$("restart").addEventListener("click", () => session.start());
$("share").addEventListener("click", share);
$("copy").addEventListener("click", async () => {
  $("link").select();
  try {
    await navigator.clipboard.writeText($("link").value);
    note("The link is copied.");
  } catch {
    note("Copy the marked link.");
  }
});
for (const button of document.querySelectorAll("[data-export]")) {
  button.addEventListener("click", () => exportAs(button.dataset.export));
}
setInterval(() => session.tick(), 1000);
if (!view) {  // a reload keeps the text, as long as the tab is there
  try {
    const kept = sessionStorage.getItem("simulst.text");
    if (kept) text.restore(kept);
    addEventListener("pagehide", () => sessionStorage.setItem("simulst.text", text.kept));
  } catch { /* a browser that keeps nothing */ }
}
if (view) {
  document.body.classList.add("viewer");
  document.documentElement.classList.toggle("obs", parameters.has("obs"));
  $("empty").textContent = "Words appear here while somebody speaks.";
  watch();
}
document.body.dataset.ready = "";

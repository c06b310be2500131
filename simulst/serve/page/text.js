// The running text: committed words, each with its times, and the rest that may still change.

const RIGHT_TO_LEFT = new Set(["ar", "arc", "ckb", "dv", "fa", "he", "iw", "ku", "ps", "sd", "ug", "ur", "yi"]);
const seconds = (ms) => `${(Math.max(0, ms) / 1000).toFixed(1)} s`;
const clock = (ms) => `${Math.floor(ms / 60000)}:${String(Math.floor(ms / 1000) % 60).padStart(2, "0")}`;

export class Text {
  // {text, delay, behind, spoken, begins, span}; ms; delay and spoken from the beginning of all streams; begins: the
  // language, in the first word of a paragraph
  words = [];
  source = [];  // {text, delay} of the words that were said, if the server writes them

  constructor(box, heard, tip, follow, empty) {
    Object.assign(this, { box, heard, tip, follow, empty });
    this.unstable = document.createElement("span");
    this.unstable.className = "unstable";
    this.unstable.setAttribute("aria-hidden", "true");  // it changes too often to be read aloud
    this.spans = new Map();
    box.addEventListener("scroll", () => (follow.hidden = this.atEnd()));
    follow.addEventListener("click", () => this.toEnd());
    box.addEventListener("pointerover", ({ target }) => this.spans.has(target) && this.show(target));
    box.addEventListener("pointerleave", () => this.hide());
    box.addEventListener("focusin", ({ target }) => this.spans.has(target) && this.show(target));
    box.addEventListener("focusout", () => this.hide());
    box.addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("keydown", ({ key }) => key === "Escape" && this.hide());
  }

  clear() {
    this.hide();
    this.words = [];
    this.source = [];
    this.heard.hidden = true;
    this.heard.replaceChildren();
    this.spans.clear();
    this.paragraph = null;
    this.box.replaceChildren();
    this.empty.hidden = false;
  }

  // A stream begins. offset: ms of audio before it.
  begin(language, offset) {
    this.offset = offset;
    this.timed = this.words.length;  // the first word whose times of speech are not known
    this.paragraph = null;
    this.box.lang = language;
    this.box.dir = RIGHT_TO_LEFT.has(language.split(/[-_]/)[0]) ? "rtl" : "auto";
  }

  // words: [text, delay, behind]; spoken: [first, last] of the next words whose times are known; ms within the stream.
  add(words, spoken, unstable) {
    const stay = this.atEnd();
    if (words.length || unstable) {
      this.empty.hidden = true;
      if (!this.paragraph) {
        this.paragraph = document.createElement("p");
        this.paragraph.append(this.unstable);
        this.box.append(this.paragraph);
      }
    }
    for (const [text, delay, behind] of words) {
      const span = document.createElement("span");
      span.className = "word";
      span.tabIndex = -1;
      const bare = this.paragraph.childElementCount === 1 ? text.trimStart() : text;
      const space = bare.length - bare.trimStart().length;
      span.textContent = bare.slice(space);
      this.unstable.before(bare.slice(0, space), span);
      const begins = this.paragraph.querySelectorAll(".word").length === 1 ? this.box.lang : undefined;
      const word = { text, delay: delay + this.offset, behind, spoken: null, begins, span };
      this.words.push(word);
      this.spans.set(span, word);
    }
    for (const times of spoken) {
      this.words[this.timed++].spoken = times.map((ms) => ms + this.offset);
    }
    this.unstable.textContent = unstable;
    if (stay) this.toEnd();
    else this.follow.hidden = false;
  }

  // words: [text, delay] of what was said in a language.
  addSource(words, language) {
    if (!words.length) return;
    this.heard.hidden = false;
    this.heard.lang = language;
    const said = this.heard.lastElementChild ?? this.heard.appendChild(document.createElement("p"));
    said.dir = RIGHT_TO_LEFT.has(language.split(/[-_]/)[0]) ? "rtl" : "auto";
    for (const [text, delay] of words) {
      said.append(this.source.length ? text : text.trimStart());
      this.source.push({ text, delay: delay + this.offset });
    }
    this.heard.scrollTop = this.heard.scrollHeight;
  }

  lag(word) { return word.spoken ? word.delay + word.behind - word.spoken[1] : null; }

  // With the grey words: they are what is known so far.
  get plain() {
    return [...this.box.querySelectorAll("p")].map((one) => one.textContent.trim()).filter(Boolean).join("\n\n");
  }

  // For files of subtitles. heard: ms of the stream; by then the grey words were there.
  forSubtitles(heard) {
    const final = this.words.map(({ text, delay, spoken }) => ({ text, delay_ms: delay, spoken }));
    const last = final.at(-1);
    const delay_ms = Math.max(last?.delay_ms ?? 0, this.offset + heard), end = Math.max(last?.spoken?.[1] ?? 0, delay_ms);
    const grey = this.unstable.isConnected ? this.unstable.textContent.match(/\s*\S{1,150}/g) ?? [] : [];
    return [...final, ...grey.map((text) => ({ text, delay_ms, spoken: final.every((word) => word.spoken) ? [end, end] : null }))];
  }

  get sourceForSubtitles() { return this.source.map(({ text, delay }) => ({ text, delay_ms: delay })); }

  // What a reload of the page keeps.
  get kept() {
    const { source } = this, { lang } = this.heard;
    const words = this.words.map(({ text, delay, behind, spoken, begins }) => ({ text, delay, behind, spoken, begins }));
    return JSON.stringify({ words, source, lang });
  }

  restore(kept) {
    const { words, source, lang } = JSON.parse(kept);
    for (const { text, delay, behind, spoken, begins } of words) {
      if (begins !== undefined) this.begin(begins, 0);
      this.add([[text, delay, behind]], [], "");
      this.words.at(-1).spoken = spoken;
    }
    this.offset = 0;
    this.addSource(source.map(({ text, delay }) => [text, delay]), lang);
  }

  atEnd() { return this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < 40; }

  toEnd() {
    this.box.scrollTop = this.box.scrollHeight;
    this.follow.hidden = true;
  }

  show(span) {
    const word = this.spans.get(span), lag = this.lag(word);
    this.hide();
    this.tip.textContent = lag === null
      ? `Heard until ${clock(word.delay)}, written ${seconds(word.behind)} later`
      : `Spoken at ${clock(word.spoken[1])}, written ${seconds(lag)} later`;
    this.tip.hidden = false;
    const place = span.getBoundingClientRect(), size = this.tip.getBoundingClientRect();
    const left = Math.min(place.left, innerWidth - size.width - 8);
    this.tip.style.left = `${Math.max(8, left)}px`;
    this.tip.style.top = place.top > size.height + 16 ? `${place.top - size.height - 8}px` : `${place.bottom + 8}px`;
    span.setAttribute("aria-describedby", this.tip.id);
    span.classList.add("shown");
    this.shown = span;
  }

  hide() {
    this.tip.hidden = true;
    this.shown?.removeAttribute("aria-describedby");
    this.shown?.classList.remove("shown");
    this.shown = null;
  }

  // The arrow keys go from word to word, as they are written.
  key(event) {
    const back = getComputedStyle(this.box).direction === "rtl" ? "ArrowRight" : "ArrowLeft";
    const forth = back === "ArrowLeft" ? "ArrowRight" : "ArrowLeft";
    const last = this.words.length - 1;
    const now = this.words.findIndex((word) => word.span === document.activeElement);
    const next = { [back]: now < 0 ? last : now - 1, [forth]: now < 0 ? 0 : now + 1, Home: 0, End: last }[event.key];
    if (next === undefined || last < 0) return;
    event.preventDefault();
    this.words[Math.max(0, Math.min(last, next))].span.focus();
  }
}

"use strict";
// Draws a report (content.py): every figure and every sentence comes from the data, and all text is set as text.

const report = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
// Okabe and Ito's colours, which colour-blind readers can distinguish, a little lighter where the paper is dark.
const COLOURS = {
  light: ["#0072b2", "#d55e00", "#009e73", "#b0568a", "#a87500", "#2f94c9", "#444444"],
  dark: ["#56b4e9", "#f08a45", "#2cc498", "#dd8fba", "#e6b43c", "#9fd0f2", "#c8ccd2"],
};
const MARKERS = [
  "M-4.5 0 a4.5 4.5 0 1 0 9 0 a4.5 4.5 0 1 0 -9 0",
  "M-4 -4 h8 v8 h-8 z",
  "M0 -5 l5 8.5 h-10 z",
  "M0 -5.5 l5.5 5.5 l-5.5 5.5 l-5.5 -5.5 z",
  "M0 5 l5 -8.5 h-10 z",
  "M-1.8 -5 h3.6 v3.2 h3.2 v3.6 h-3.2 v3.2 h-3.6 v-3.2 h-3.2 v-3.6 h3.2 z",
];
const DASHES = { online: null, offline: "6 4", published: "2 3" };
const dark = matchMedia("(prefers-color-scheme: dark)");
const narrow = matchMedia("(max-width: 40rem)");

let part; // of the report, the one that is shown
let printing = false;
let hidden = new Set(); // names of curves that are switched off
let order = { column: -1, down: false }; // of the table
let playing = null; // stops what follows the audio of the utterance that is shown

// ---- elements ----

function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function drawn(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function choices(select, pairs, chosen) {
  select.replaceChildren(...pairs.map(([value, text]) => element("option", { value }, text)));
  select.value = String(chosen);
}

const minus = (text) => text.replace("-", "−");
const seconds = (ms, digits = 2) => (ms / 1000).toFixed(digits);
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// ---- the curve ----

function curvesOf() {
  const curves = new Map();
  for (const point of part.points) {
    const name = point.kind === "offline" ? point.name : point.curve;
    if (!curves.has(name)) curves.set(name, { name, kind: point.kind, points: [], number: curves.size });
    curves.get(name).points.push(point);
  }
  return [...curves.values()];
}

function colourOf(curve, count) {
  const mode = dark.matches && !printing ? "dark" : "light";
  if (count <= COLOURS[mode].length) return COLOURS[mode][curve.number];
  const hue = Math.round(curve.number * 137.5) % 360; // the golden angle: neighbours differ
  return `hsl(${hue} ${mode === "dark" ? "65% 68%" : `75% ${hue > 40 && hue < 200 ? 34 : 44}%`})`;
}

function about(point, x, y) {
  const line = (axis) => {
    const [value, low, high] = ["", "_low", "_high"].map((end) => point.scores[axis.key + end]);
    const interval = low === undefined || high === undefined ? "" : ` [${low.toFixed(axis.digits)}, ${high.toFixed(axis.digits)}]`;
    return value === undefined ? null : `${axis.name}: ${value.toFixed(axis.digits)}${interval}`;
  };
  const rtf = part.axes.find((axis) => axis.key === "RTF");
  const axes = [...new Set([y, x, rtf])].filter((axis) => axis);
  return [point.name, ...axes.map(line), point.about].filter((text) => text).join("\n");
}

// Round numbers between low and high, about so many.
function ticks(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((one) => one >= rough);
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high; k += 1) found.push(Number((k * step).toPrecision(9)));
  return found;
}

// The place of a value between pixels. values: all that are drawn; they get room on either side.
function scaleOf(values, from, to) {
  const [low, high] = values.length ? [Math.min(...values), Math.max(...values)] : [0, 1];
  const room = (high - low) * 0.06 || 1;
  const scale = (value) => from + ((value - low + room) / (high - low + 2 * room)) * (to - from);
  return Object.assign(scale, { ticks: (count) => ticks(low - room, high + room, count) });
}

function draw() {
  const x = part.axes.find((axis) => axis.key === $("x").value);
  const y = part.axes.find((axis) => axis.key === $("y").value);
  const curves = curvesOf();
  const plot = $("plot");
  const [wide, high] = printing ? [640, 400] : [plot.clientWidth || 700, plot.clientHeight || 480];
  const isLevel = (point) => x.kind === "lag" && point.kind === "offline"; // what waits for the end is a level there
  const drawable = (point) => point.scores[y.key] !== undefined && (isLevel(point) || point.scores[x.key] !== undefined);
  const shown = curves
    .filter((curve) => !hidden.has(curve.name))
    .map((curve) => ({ ...curve, points: curve.points.filter(drawable) }))
    .filter((curve) => curve.points.length);
  const points = shown.flatMap((curve) => curve.points);
  const ends = points.flatMap((point) => ["", "_low", "_high"].map((end) => point.scores[y.key + end]));
  const across = scaleOf(points.filter((point) => !isLevel(point)).map((point) => point.scores[x.key]), 56, wide - 12);
  const up = scaleOf(ends.filter((value) => value !== undefined), high - 44, 12);
  const parts = [];
  const text = (content, attributes) => parts.push(drawn("text", attributes, minus(content)));
  const rule = (x1, x2, y1, y2, attributes) => parts.push(drawn("line", { x1, x2, y1, y2, ...attributes }));
  for (const value of across.ticks(wide / 90)) {
    rule(across(value), across(value), 12, high - 44, { stroke: style("--line") });
    text(String(value), { x: across(value), y: high - 26, "text-anchor": "middle" });
  }
  for (const value of up.ticks(high / 70)) {
    rule(56, wide - 12, up(value), up(value), { stroke: style("--line") });
    text(String(value), { x: 50, y: up(value) + 4, "text-anchor": "end" });
  }
  text(x.name, { x: (56 + wide) / 2, y: high - 6, "text-anchor": "middle" });
  text(y.name, { transform: `translate(12 ${high / 2}) rotate(-90)`, "text-anchor": "middle" });
  const marks = [];
  for (const curve of shown) {
    const stroke = colourOf(curve, curves.length);
    const line = { stroke, "stroke-width": 2, "stroke-dasharray": DASHES[curve.kind] };
    const mark = (point, shape) => marks.push(fill(shape, { class: "point", "data-name": point.name, onpointerenter: (event) => tell(event, about(point, x, y)), onpointerleave: () => tell(null), onclick: () => markRow(point.name) }, []));
    if (curve.points.some(isLevel)) {
      const level = up(curve.points[0].scores[y.key]);
      rule(56, wide - 12, level, level, line);
      mark(curve.points[0], drawn("line", { x1: 56, x2: wide - 12, y1: level, y2: level, stroke: "transparent", "stroke-width": 12 }));
      continue;
    }
    const places = curve.points.map((point) => [across(point.scores[x.key]), up(point.scores[y.key])]);
    parts.push(drawn("polyline", { points: places.join(" "), fill: "none", ...line }));
    curve.points.forEach((point, i) => {
      const [px, py] = places[i];
      const [low, top] = ["_low", "_high"].map((end) => point.scores[y.key + end]);
      if (low !== undefined && top !== undefined) rule(px, px, up(low), up(top), { stroke, "stroke-opacity": 0.4 });
      mark(point, drawn("path", { d: MARKERS[curve.number % MARKERS.length], transform: `translate(${px} ${py})`, fill: stroke, stroke: style("--card") }));
    });
  }
  const picture = drawn("svg", { width: wide, height: high, viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": `${y.name} over ${x.name}; the table below has the figures` }, ...parts, ...marks);
  plot.replaceChildren(picture);
  tell(null);
}

// Shows a text beside the mouse; null: none.
function tell(event, text) {
  const tip = $("tip");
  tip.hidden = event === null;
  if (event === null) return;
  tip.textContent = text;
  const frame = $("plot").getBoundingClientRect();
  const left = Math.min(event.clientX - frame.left + 14, frame.width - tip.offsetWidth - 4);
  fill(tip, { style: `left: ${Math.max(0, left)}px; top: ${event.clientY - frame.top + 14}px` }, []);
}

function showCurves() {
  const curves = curvesOf();
  const buttons = curves.map((curve) => {
    const stroke = colourOf(curve, curves.length);
    return element(
      "button",
      {
        type: "button",
        "aria-pressed": String(!hidden.has(curve.name)),
        onclick: () => {
          if (!hidden.delete(curve.name)) hidden.add(curve.name);
          showCurves();
          draw();
        },
      },
      drawn(
        "svg",
        { width: 24, height: 10, "aria-hidden": "true" },
        drawn("line", { x1: 0, x2: 24, y1: 5, y2: 5, stroke, "stroke-width": 2.5, "stroke-dasharray": DASHES[curve.kind] }),
      ),
      curve.name,
    );
  });
  const all = hidden.size > 0;
  if (curves.length > 1) {
    buttons.push(
      element(
        "button",
        {
          type: "button",
          class: "all",
          onclick: () => {
            hidden = all ? new Set() : new Set(curves.map((curve) => curve.name));
            showCurves();
            draw();
          },
        },
        all ? "Show all" : "Hide all",
      ),
    );
  }
  $("curves").replaceChildren(...buttons);
}

// ---- the table ----

function number(text) {
  const found = /-?\d+(\.\d+)?/.exec(text);
  return found ? Number(found[0]) : NaN;
}

function showTable() {
  const lines = part.points.filter((point) => point.cells.length);
  if (order.column >= 0) {
    const key = (line) => number(line.cells[order.column]);
    const compare = (a, b) => (order.column ? key(a) - key(b) : a.name.localeCompare(b.name, undefined, { numeric: true }));
    const known = (line) => !order.column || !Number.isNaN(key(line));
    lines.sort((a, b) => known(b) - known(a) || (known(a) ? compare(a, b) * (order.down ? -1 : 1) : 0));
  }
  const head = part.head.map((text, column) =>
    element(
      "th",
      { scope: "col", "aria-sort": order.column === column ? (order.down ? "descending" : "ascending") : null },
      element("button", { type: "button", onclick: () => sortBy(column) }, text),
    ),
  );
  const row = ({ name, cells: [first, ...others] }) =>
    element("tr", { "data-name": name }, element("th", { scope: "row", title: first }, first), ...others.map((text) => element("td", {}, minus(text))));
  $("table").replaceChildren(element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...lines.map(row)));
}

function sortBy(column) {
  const first = column !== order.column;
  order = first ? { column, down: column > 0 } : { column, down: !order.down };
  showTable();
  $("table").querySelectorAll("th button")[column].focus();
}

function markRow(name) {
  for (const row of $("table").tBodies[0].rows) row.classList.toggle("marked", row.dataset.name === name);
}

function tableOf(cells) {
  const [head, ...lines] = cells;
  const row = (texts, name) =>
    element("tr", {}, ...texts.map((text, i) => element(name === "th" || !i ? "th" : "td", { scope: name === "th" ? "col" : i ? null : "row" }, text)));
  return element(
    "div",
    { class: "wide", tabindex: 0, role: "region", "aria-label": head[0] },
    element("table", {}, element("thead", {}, row(head, "th")), element("tbody", {}, ...lines.map((line) => row(line, "td")))),
  );
}

// ---- utterances ----

const KINDS = ["Best", "Worst", "Most delayed", "Asked for"];

function figures(utterance) {
  const quality = utterance.quality === null ? "" : `chrF ${utterance.quality.toFixed(0)}`;
  const lag = utterance.lag === null ? "" : `${seconds(utterance.lag, 1)} s`;
  return [quality, lag].filter((text) => text).join(" · ");
}

function showLists() {
  const shown = part.utterances.shown;
  const lists = KINDS.map((kind) => {
    const ones = shown.filter((utterance) => utterance.kinds.includes(kind));
    const by = kind === "Most delayed" ? (a, b) => b.lag - a.lag : kind === "Best" ? (a, b) => b.quality - a.quality : (a, b) => a.quality - b.quality;
    ones.sort(by);
    if (!ones.length) return null;
    return element(
      "div",
      {},
      element("h3", {}, kind),
      ...ones.map((utterance) =>
        element(
          "button",
          { type: "button", "data-name": utterance.name, onclick: () => showUtterance(utterance) },
          element("span", { class: "name", title: utterance.name }, element("bdi", {}, utterance.name)),
          element("span", { class: "figures" }, figures(utterance)),
        ),
      ),
    );
  });
  $("lists").replaceChildren(...lists.filter((list) => list));
}

function showUtterance(utterance) {
  if (playing) playing();
  for (const button of $("lists").querySelectorAll("button")) {
    button.setAttribute("aria-pressed", String(button.dataset.name === utterance.name));
  }
  const sound = utterance.audio ? element("audio", { controls: "", preload: "metadata", src: utterance.audio, "aria-label": "The recording" }) : null;
  const line = timeline(utterance, (at) => seek(at));
  const words = utterance.words.map((word) => element("span", {}, word.text));
  const steps = utterance.decisions.length ? decisions(utterance, (at) => seek(at)) : null;
  const texts = element("dl", { class: "spoken" });
  const tell = (name, ...content) => texts.append(element("dt", {}, name), element("dd", {}, ...content));
  tell("Written", ...(words.length ? words : ["(nothing)"]));
  if (utterance.reference !== null) tell("Reference", utterance.reference);
  if (utterance.offline !== null) tell("Offline", utterance.offline);
  const known = [`${utterance.seconds.toFixed(1)} s`];
  if (utterance.quality !== null) known.push(`chrF ${utterance.quality.toFixed(1)}`);
  if (utterance.lag !== null) known.push(`LAAL ${seconds(utterance.lag)} s`);
  const notes = utterance.notes.map((note) => element("p", { class: "soft" }, note));
  $("utterance").replaceChildren(
    element("h3", {}, utterance.name),
    element("p", { class: "soft" }, known.join(" · ")),
    ...notes,
    ...(sound ? [element("div", { class: "bar" }, sound)] : []),
    keyOf(utterance),
    element("div", { class: "timeline", tabindex: 0, role: "region", "aria-label": "Timeline; the words and decisions stand below as text" }, line.picture),
    texts,
    ...(steps ? [steps.table] : []),
  );
  line.place();

  function seek(ms) {
    if (sound) sound.currentTime = ms / 1000;
    follow(ms);
  }
  function follow(ms) {
    const begun = ms > 0;
    line.head(begun ? ms : null);
    words.forEach((span, i) => span.classList.toggle("late", begun && utterance.words[i].written_ms > ms + 1));
    if (steps) steps.mark(begun ? ms : null);
  }
  if (!sound) return;
  let frame = 0;
  const tick = () => {
    follow(sound.ended ? 0 : sound.currentTime * 1000);
    frame = sound.paused ? 0 : requestAnimationFrame(tick);
  };
  sound.addEventListener("play", tick);
  sound.addEventListener("seeked", tick);
  sound.addEventListener("ended", () => follow(0));
  playing = () => {
    sound.pause();
    cancelAnimationFrame(frame);
  };
}

function keyOf(utterance) {
  const item = (shape, text) => element("span", {}, drawn("svg", { width: 14, height: 12, "aria-hidden": "true" }, shape), text);
  const items = [item(drawn("path", { d: "M2 1 h10 l-5 9 z", fill: style("--accent") }), "READ: decoded, and words were written")];
  items.push(item(drawn("path", { d: "M2 1 h10 l-5 9 z", fill: "none", stroke: style("--soft") }), "decoded, nothing new"));
  if (utterance.words.some((word) => word.spoken_ms)) {
    items.push(item(drawn("line", { x1: 1, x2: 13, y1: 6, y2: 6, stroke: style("--good"), "stroke-width": 3 }), "spoken, as the model aligns it"));
  }
  return element("div", { class: "key" }, ...items);
}

// Words that were written at once are one label.
function written(utterance) {
  const groups = [];
  for (const word of utterance.words) {
    const last = groups[groups.length - 1];
    if (last && Math.abs(last.at - word.written_ms) < 1) last.text += word.text;
    else groups.push({ at: word.written_ms, text: word.text });
  }
  return groups.map((group) => ({ ...group, text: group.text.trim() })).filter((group) => group.text);
}

const pen = document.createElement("canvas").getContext("2d");
function widthOf(text) {
  pen.font = `12.5px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

// The lines of a label that is about so wide. Text without spaces is cut between characters.
function wrapped(text, wide) {
  const pieces = text.includes(" ") ? text.split(/(?<= )/) : [...text];
  const lines = [""];
  for (const piece of pieces) {
    if (lines[lines.length - 1] && widthOf(lines[lines.length - 1] + piece.trimEnd()) > wide) lines.push("");
    lines[lines.length - 1] += piece;
  }
  return lines.map((line) => line.trim());
}

// The first row below which nothing stands between left and right. rows: their ends so far.
function lane(rows, left, right, depth = 1) {
  let row = 0;
  const free = (at) => !rows.slice(at, at + depth).some((taken) => taken.some(([a, b]) => left < b + 8 && a < right + 8));
  while (!free(row)) row += 1;
  for (let at = row; at < row + depth; at += 1) (rows[at] ||= []).push([left, right]);
  return row;
}

function timeline(utterance, seek) {
  const length = utterance.seconds * 1000;
  const scale = { left: 10, wide: 0 };
  const picture = drawn("svg", { role: "presentation" });
  const head = drawn("line", { class: "head", y1: 16, stroke: style("--bad"), "stroke-width": 1.5, visibility: "hidden" });
  const x = (ms) => scale.left + (Math.min(ms, length) / length) * scale.wide;

  function place() {
    const room = (picture.parentElement.clientWidth || 700) - (narrow.matches ? 35 : 56);
    const whole = Math.max(printing ? 640 : room, Math.min(6000, utterance.seconds * (printing ? 0 : 95)));
    scale.wide = whole - 20;
    const parts = [];
    const every = [1, 2, 5, 10, 20, 30].find((step) => (step / utterance.seconds) * scale.wide > 44) || 60;
    for (let second = 0; second <= utterance.seconds; second += every) {
      const at = x(second * 1000);
      parts.push(drawn("line", { x1: at, x2: at, y1: 16, y2: 20, stroke: style("--line") }));
      parts.push(drawn("text", { x: at, y: 11, class: "dim", "text-anchor": second ? "middle" : "start" }, second ? String(second) : "0 s"));
    }
    let y = 24;
    if (utterance.loudness.length) {
      const step = scale.wide / utterance.loudness.length;
      const up = utterance.loudness.map((peak, i) => `${(scale.left + i * step).toFixed(1)},${(y + 24 - peak * 0.24).toFixed(1)}`);
      const down = utterance.loudness.map((peak, i) => `${(scale.left + i * step).toFixed(1)},${(y + 24 + peak * 0.24).toFixed(1)}`);
      parts.push(drawn("polygon", { points: [...up, ...down.reverse()].join(" "), fill: style("--wave") }));
      y += 54;
    }
    const spoken = utterance.words.filter((word) => word.spoken_ms);
    const begins = y;
    if (spoken.length) {
      const rows = [];
      for (const word of spoken) {
        const [from, to] = word.spoken_ms.map(x);
        const text = word.text.trim();
        const middle = Math.max(scale.left + widthOf(text) / 2, Math.min((from + to) / 2, whole - widthOf(text) / 2));
        const row = lane(rows, Math.min(from, middle - widthOf(text) / 2), Math.max(to - 8, middle + widthOf(text) / 2 - 4));
        const top = begins + row * 22;
        parts.push(drawn("line", { x1: from + 1, x2: Math.max(from + 2, to - 1), y1: top + 2, y2: top + 2, stroke: style("--good"), "stroke-width": 3 }));
        parts.push(drawn("text", { x: middle, y: top + 16, "text-anchor": "middle" }, text));
      }
      y += rows.length * 22 + 8;
    }
    const groups = written(utterance);
    const reads = [...new Set([...utterance.reads, ...groups.map((group) => group.at)])];
    for (const read of reads) {
      const full = groups.some((group) => Math.abs(group.at - read) < 1);
      const at = x(read);
      const shape = { d: `M${at - 5} ${y} h10 l-5 9 z`, fill: full ? style("--accent") : style("--card"), stroke: full ? style("--accent") : style("--soft") };
      const mark = drawn("path", { ...shape, onclick: () => seek(read), style: "cursor: pointer" });
      mark.append(drawn("title", {}, `${seconds(read)} s`));
      parts.push(mark);
    }
    y += 20;
    const rows = [];
    const labels = [];
    const lines = [];
    for (const group of groups) {
      const at = x(group.at);
      const texts = wrapped(group.text, Math.max(110, Math.min(260, whole / 3)));
      const wide = Math.max(...texts.map(widthOf));
      const left = Math.max(2, Math.min(at - 4, whole - wide - 2));
      const row = lane(rows, left, left + wide, texts.length);
      const top = y + row * 17;
      lines.push(drawn("line", { x1: at, x2: at, y1: y - 10, y2: top + 2, stroke: style("--line") }));
      texts.forEach((text, i) => {
        const words = drawn("text", { x: left, y: top + 13 + i * 17, "data-at": group.at }, text);
        // A rim of paper, so that lines to other labels do not cross the letters.
        fill(words, { stroke: style("--card"), "stroke-width": 4, "paint-order": "stroke", "stroke-linejoin": "round" }, []);
        labels.push(words);
      });
    }
    const height = y + rows.length * 17 + 8;
    head.setAttribute("y2", height);
    fill(picture, { width: whole, height, viewBox: `0 0 ${whole} ${height}` }, []);
    picture.replaceChildren(...parts, ...lines, ...labels, head);
  }
  return {
    picture,
    place,
    head(ms) {
      head.setAttribute("visibility", ms === null ? "hidden" : "visible");
      if (ms === null) return;
      const at = x(ms);
      fill(head, { x1: at, x2: at }, []);
      const frame = picture.parentElement;
      if (at < frame.scrollLeft || at > frame.scrollLeft + frame.clientWidth - 60) frame.scrollLeft = at - frame.clientWidth / 3;
    },
  };
}

function decisions(utterance, seek) {
  const rows = utterance.decisions.map((one) => {
    const last = one.beams[one.beams.length - 1] || [];
    const others = last.slice(1).map((text) => `or: ${text.trim()}`);
    for (const text of one.beams.slice(0, -1).flat()) others.push(`step before: ${text.trim() || "(nothing)"}`);
    const best = last.length ? last[0] : "";
    const found = element("td", {});
    if (one.final) found.append(element("span", { class: "agreed" }, best.trim() || "(nothing more)"));
    else if (!best.trim()) found.append(element("span", { class: "open" }, "(nothing new)"));
    else {
      found.append(element("span", { class: "agreed" }, best.slice(0, one.agreed)), element("span", { class: "open" }, best.slice(one.agreed)));
      found.append(...others.map((text) => element("span", { class: "other" }, text)));
    }
    const stop = one.final ? "end of the source" : one.stop === null ? "not asked" : one.stop ? `ended the search${one.why ? `: ${one.why}` : ""}` : one.why ? `went on: ${one.why}` : "the model ended the text";
    return element(
      "tr",
      { onclick: () => seek(one.at_ms) },
      element("td", {}, `${seconds(one.at_ms)} s`),
      element("td", { class: "soft" }, minus(stop)),
      found,
      element("td", {}, one.new.trim() || "–"),
    );
  });
  const names = ["Read", "STOP", "Found; in bold what COMMIT finds stable", "Committed"];
  const table = element(
    "details",
    { open: "" },
    element("summary", {}, `What was decided at each of ${rows.length} steps`),
    element(
      "table",
      { class: "steps" },
      element("thead", {}, element("tr", {}, ...names.map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ...rows),
    ),
  );
  return {
    table,
    mark(ms) {
      const past = ms === null ? -1 : utterance.decisions.findLastIndex((one) => one.at_ms <= ms + 1);
      rows.forEach((row, i) => row.classList.toggle("marked", i === past));
    },
  };
}

// ---- findings, and the rest ----

function showFindings() {
  const count = (verdict) => part.findings.filter((one) => one.verdict === verdict).length;
  const verdicts = [...new Set(["holds", "does not hold", "inconclusive", ...part.findings.map((one) => one.verdict)])];
  const parts = [element("div", { class: "counts soft" }, ...verdicts.map((verdict) => element("span", {}, `${verdict} ${count(verdict)}`)))];
  const colour = { holds: "better", "does not hold": "worse" };
  const untold = ["runs missing", "for other languages"];
  for (const paper of new Set(part.findings.map((one) => one.paper))) {
    const ones = part.findings.filter((one) => one.paper === paper);
    const item = (one) =>
      element(
        "li",
        {},
        element("div", { class: `verdict ${colour[one.verdict] || "chance"}` }, element("b", {}, one.id), one.verdict),
        element(
          "div",
          {},
          one.sentence.replace(/\.?$/, "."),
          one.figures ? element("div", {}, minus(one.figures)) : null,
          element("div", { class: "soft" }, [one.place, one.runs, one.reason].filter((text) => text).join("; ")),
        ),
      );
    parts.push(element("h3", {}, paper), element("ul", { class: "paper" }, ...ones.filter((one) => !untold.includes(one.verdict)).map(item)));
    const others = ones.filter((one) => untold.includes(one.verdict));
    if (others.length) {
      parts.push(element("details", {}, element("summary", {}, `${others.length} without a test: runs are missing, or it is for other languages`), element("ul", { class: "paper" }, ...others.map(item))));
    }
  }
  $("verdicts").replaceChildren(...parts);
}

function showOthers() {
  const parts = part.tables.map(tableOf);
  const published = part.points.filter((point) => point.kind === "published");
  if (published.length) {
    const sources = new Map(published.map((point) => [point.curve, point.about]));
    parts.push(element("h3", {}, "Published by others"), ...[...sources].map(([curve, about]) => element("p", { class: "soft" }, `${curve}: ${about}`)));
  }
  if (part.text) parts.push(element("pre", {}, part.text));
  if (part.command) parts.push(element("h3", {}, "Made by"), element("pre", {}, part.command));
  $("others").replaceChildren(...parts);
  return parts.length > 0;
}

// ---- the page ----

function show(number) {
  part = report.parts[number];
  if (playing) playing();
  hidden = new Set();
  order = { column: -1, down: false };
  const several = report.parts.length > 1;
  $("facts").replaceChildren(...part.facts.map((fact) => element("li", {}, fact)));
  const rows = part.points.some((point) => point.cells.length);
  const axes = part.axes.map((axis) => [axis.key, axis.name]);
  $("curve").hidden = axes.length < 2;
  $("rows").hidden = !rows;
  choices($("x"), axes, part.x);
  choices($("y"), axes, part.y);
  $("comparisons").replaceChildren(...part.comparisons.map((text) => element("p", { style: "margin: 1rem 0 0" }, minus(text))));
  showTable();
  if (axes.length > 1) {
    showCurves();
    draw();
  }
  const utterances = part.utterances;
  $("utterances").hidden = !rows || !(utterances || part.utterances_note);
  $("utterances-note").textContent = utterances ? [`Written by ${utterances.run}.`, utterances.note].filter((text) => text).join(" ") : part.utterances_note;
  $("lists").replaceChildren();
  $("utterance").replaceChildren();
  if (utterances && utterances.shown.length) {
    showLists();
    const first = ["Asked for", "Most delayed"].map((kind) => utterances.shown.find((one) => one.kinds.includes(kind)));
    showUtterance(first.find((one) => one) || utterances.shown[0]);
  }
  $("findings").hidden = !part.findings.length;
  showFindings();
  $("more").hidden = !showOthers();
  $("title").textContent = several ? report.title : part.title;
}

function again() {
  if (!$("curve").hidden) {
    showCurves();
    draw();
  }
  const pressed = $("lists").querySelector("[aria-pressed=true]");
  if (pressed) showUtterance(part.utterances.shown.find((one) => one.name === pressed.dataset.name));
}

choices($("part"), report.parts.map((one, number) => [number, one.title]), 0);
$("choose-part").hidden = report.parts.length < 2;
$("part").addEventListener("change", () => show(Number($("part").value)));
$("x").addEventListener("change", draw);
$("y").addEventListener("change", draw);
addEventListener("resize", () => {
  if (!$("curve").hidden) draw();
});
dark.addEventListener("change", again);
narrow.addEventListener("change", again);
addEventListener("beforeprint", () => {
  printing = true;
  again();
});
addEventListener("afterprint", () => {
  printing = false;
  again();
});
show(0);

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
const DASHES = { online: null, offline: "6 4" };
const dark = matchMedia("(prefers-color-scheme: dark)");
const narrow = matchMedia("(max-width: 40rem)");

let printing = false;
let hidden = new Set(); // names of curves that are switched off
let order = { column: -1, down: false }; // of the table

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
  for (const point of report.points) {
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
  const rtf = report.axes.find((axis) => axis.key === "RTF");
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
  const x = report.axes.find((axis) => axis.key === $("x").value);
  const y = report.axes.find((axis) => axis.key === $("y").value);
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
  const lines = report.points.filter((point) => point.cells.length);
  if (order.column >= 0) {
    const key = (line) => number(line.cells[order.column]);
    const compare = (a, b) => (order.column ? key(a) - key(b) : a.name.localeCompare(b.name, undefined, { numeric: true }));
    const known = (line) => !order.column || !Number.isNaN(key(line));
    lines.sort((a, b) => known(b) - known(a) || (known(a) ? compare(a, b) * (order.down ? -1 : 1) : 0));
  }
  const head = report.head.map((text, column) =>
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

// ---- utterances ----

const KINDS = ["Best", "Worst", "Most delayed"];

function figures(utterance) {
  const quality = utterance.quality === null ? "" : `chrF ${utterance.quality.toFixed(0)}`;
  const lag = utterance.lag === null ? "" : `${seconds(utterance.lag, 1)} s`;
  return [quality, lag].filter((text) => text).join(" · ");
}

function showLists() {
  const shown = report.utterances.shown;
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
  for (const button of $("lists").querySelectorAll("button")) {
    button.setAttribute("aria-pressed", String(button.dataset.name === utterance.name));
  }
  const line = timeline(utterance);
  const texts = element("dl", { class: "spoken" });
  const tell = (name, ...content) => texts.append(element("dt", {}, name), element("dd", {}, ...content));
  tell("Written", utterance.text || "(nothing)");
  if (utterance.reference !== null) tell("Reference", utterance.reference);
  if (utterance.offline !== null) tell("Offline", utterance.offline);
  const known = [`${utterance.seconds.toFixed(1)} s`];
  if (utterance.quality !== null) known.push(`chrF ${utterance.quality.toFixed(1)}`);
  if (utterance.lag !== null) known.push(`LAAL ${seconds(utterance.lag)} s`);
  $("utterance").replaceChildren(
    element("h3", {}, utterance.name),
    element("p", { class: "soft" }, known.join(" · ")),
    keyOf(),
    element("div", { class: "timeline", tabindex: 0, role: "region", "aria-label": "Timeline; the words stand below as text" }, line.picture),
    texts,
  );
  line.place();
}

function keyOf() {
  const item = (shape, text) => element("span", {}, drawn("svg", { width: 14, height: 12, "aria-hidden": "true" }, shape), text);
  const items = [item(drawn("path", { d: "M2 1 h10 l-5 9 z", fill: style("--accent") }), "READ: decoded, and words were written")];
  items.push(item(drawn("path", { d: "M2 1 h10 l-5 9 z", fill: "none", stroke: style("--soft") }), "decoded, nothing new"));
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

function timeline(utterance) {
  const length = utterance.seconds * 1000;
  const scale = { left: 10, wide: 0 };
  const picture = drawn("svg", { role: "presentation" });
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
    const groups = written(utterance);
    const reads = [...new Set([...utterance.reads, ...groups.map((group) => group.at)])];
    for (const read of reads) {
      const full = groups.some((group) => Math.abs(group.at - read) < 1);
      const at = x(read);
      const shape = { d: `M${at - 5} ${y} h10 l-5 9 z`, fill: full ? style("--accent") : style("--card"), stroke: full ? style("--accent") : style("--soft") };
      const mark = drawn("path", shape);
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
    fill(picture, { width: whole, height, viewBox: `0 0 ${whole} ${height}` }, []);
    picture.replaceChildren(...parts, ...lines, ...labels);
  }
  return { picture, place };
}

// ---- the page ----

function show() {
  const axes = report.axes.map((axis) => [axis.key, axis.name]);
  $("title").textContent = report.title;
  $("facts").replaceChildren(...report.facts.map((fact) => element("li", {}, fact)));
  $("curve").hidden = axes.length < 2;
  choices($("x"), axes, report.x);
  choices($("y"), axes, report.y);
  showTable();
  if (axes.length > 1) {
    showCurves();
    draw();
  }
  const utterances = report.utterances;
  $("utterances").hidden = !(utterances || report.utterances_note);
  $("utterances-note").textContent = utterances ? `Written by ${utterances.run}. ${utterances.note}` : report.utterances_note;
  if (utterances && utterances.shown.length) {
    showLists();
    showUtterance(utterances.shown.find((one) => one.kinds.includes("Most delayed")) || utterances.shown[0]);
  }
}

function again() {
  if (!$("curve").hidden) {
    showCurves();
    draw();
  }
  const pressed = $("lists").querySelector("[aria-pressed=true]");
  if (pressed) showUtterance(report.utterances.shown.find((one) => one.name === pressed.dataset.name));
}

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
show();

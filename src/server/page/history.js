// The last five minutes of the engine, from the snapshots that the page has seen, as three small charts.

import { el, formatCount } from "./dom.js";
import { prepare } from "./engine_canvas.js";

const SPAN = 300; // seconds
const INTERVAL = 1; // seconds between two points
const GAP = 6; // seconds without a snapshot that interrupt a line
const HIT_WINDOW = 10; // seconds over which a hit rate is computed
const HEIGHT = 84;
const COUNTERS = ["generation_tokens", "prompt_tokens", "prefix_queries", "prefix_hits"];

const percent = (value) => `${value >= 1 || value === 0 ? Math.round(value) : value.toFixed(1)} %`;
const CHARTS = [
  { name: "Tokens/s", lines: [["generation", "decode", "generated"], ["prompt", "prefill", "prompts"]], format: formatCount, least: 10 },
  { name: "KV cache used", lines: [["usage", "decode"]], format: percent, least: 0.1 },
  { name: "Prefix hit rate, over 10 s", lines: [["hits", "decode"]], format: percent, least: 100 },
];

// The end of a scale: 1, 2 or 5 times a power of ten that is not below the value.
function niceMaximum(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((f) => f * power).find((v) => v >= value);
}

export class History {
  constructor() {
    this.points = []; // {time, generation, prompt, usage, hits} null if unknown
    this.charts = CHARTS.map((chart) => ({ ...chart, canvas: el("canvas", { role: "img", "aria-label": `${chart.name}: the last five minutes` }) }));
    this.node = el("div", { class: "history" }, this.charts.map(({ name, lines, canvas }) => el("figure", {},
      el("figcaption", {}, name, lines.filter(([, , text]) => text).map(([, color, text]) => el("span", { class: "key" }, el("span", { class: `swatch ${color}` }), text))), el("div", {}, canvas))));
  }
  // The next snapshot is from an engine that was started again.
  interrupt() {
    this.last = null;
  }
  add(view) {
    const { last } = this;
    if (last && view.time - last.time < INTERVAL) return;
    const counters = Object.fromEntries(COUNTERS.map((name) => [name, view.stats[name]]));
    const point = { time: view.time, counters, generation: null, prompt: null, usage: (100 * view.device.used) / Math.max(1, view.device.num_blocks), hits: null, begins: true };
    if (last && view.time > last.time && COUNTERS.every((name) => counters[name] >= last.counters[name])) {
      const seconds = view.time - last.time;
      point.begins = seconds > GAP;
      point.generation = (counters.generation_tokens - last.counters.generation_tokens) / seconds;
      point.prompt = (counters.prompt_tokens - last.counters.prompt_tokens) / seconds;
      point.hits = this.hitRate(point);
    }
    this.points.push(point);
    this.last = point;
    this.points = this.points.filter((p) => p.time > view.time - SPAN - GAP);
  }
  // Null if no prompt was looked up.
  hitRate({ time, counters }) {
    const before = this.points.find((p) => p.time >= time - HIT_WINDOW) ?? this.last;
    const queries = counters.prefix_queries - before.counters.prefix_queries;
    return queries > 0 ? (100 * (counters.prefix_hits - before.counters.prefix_hits)) / queries : null;
  }
  draw(colors) {
    for (const chart of this.charts) drawChart(chart, this.points, colors);
  }
}

function drawChart({ canvas, lines, format, least }, points, colors) {
  const width = canvas.parentElement.clientWidth;
  const context = prepare(canvas, width, HEIGHT);
  const top = 8;
  const bottom = HEIGHT - 18;
  const scale = niceMaximum(points.reduce((most, p) => Math.max(most, ...lines.map(([key]) => p[key] ?? 0)), least));
  const left = Math.ceil(context.measureText(format(scale)).width) + 8;
  const now = points.at(-1)?.time ?? 0;
  // Whole minutes, as few as the points need.
  const span = Math.min(SPAN, 60 * Math.max(1, Math.ceil((now - (points[0]?.time ?? now)) / 60)));
  const x = (time) => width - 2 - ((width - 2 - left) * Math.min(span, now - time)) / span;
  const y = (value) => bottom - ((bottom - top) * value) / scale;
  context.fillStyle = colors.line;
  for (const line of [top, bottom]) context.fillRect(left, line, width - left, 1);
  context.fillStyle = colors.subtle;
  context.textAlign = "right";
  context.fillText(format(scale), left - 5, top + 3);
  context.fillText(format(0), left - 5, bottom);
  context.fillText("now", width, HEIGHT - 6);
  context.textAlign = "left";
  context.fillText(`−${span / 60} min`, left, HEIGHT - 6);
  context.lineWidth = 1.8;
  context.lineJoin = "round";
  for (const [key, color] of lines) {
    context.strokeStyle = colors[color];
    context.beginPath();
    let drawing = false;
    for (const point of points) {
      if (point[key] === null || now - point.time > SPAN) {
        drawing = false;
        continue;
      }
      if (point.begins) drawing = false;
      // A first point alone is a short line.
      if (!drawing) context.moveTo(x(point.time) - 1.5, y(point[key]));
      context.lineTo(x(point.time), y(point[key]));
      drawing = true;
    }
    context.stroke();
  }
}

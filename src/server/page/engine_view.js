// The live view of the engine: counters, the blocks of the KV cache, and the requests of the last seconds. It asks the
// server for snapshots only while it is visible.

import { getJson } from "./api.js";
import { el, formatBytes, formatCount, formatSeconds } from "./dom.js";
import { decodeCells, drawPool, drawTimeline, themeColors } from "./engine_canvas.js";
import { onThemeChange } from "./shell.js";

const INTERVAL = 500; // ms

function median(values) {
  const sorted = values.filter((v) => v !== null && Number.isFinite(v)).sort((a, b) => a - b);
  return sorted.length === 0 ? NaN : sorted[Math.floor(sorted.length / 2)];
}

const percent = (part, whole) => (whole > 0 ? `${((100 * part) / whole).toFixed(1)} %` : "–");
const perSecond = (value) => (value === null ? "–" : formatCount(value));

export class EngineView {
  constructor(app) {
    this.app = app;
    this.tiles = {};
    this.status = el("p", { class: "summary", role: "status" }, "Waiting for the engine…");
    this.poolText = el("p", { class: "summary pool-summary" });
    this.timeText = el("p", { class: "summary" });
    this.pool = el("canvas", { role: "img", "aria-label": "Blocks of the KV cache" });
    this.hostPool = el("canvas", { role: "img", "aria-label": "Swapped blocks in host memory" });
    this.hostPart = el("div", { class: "host-pool", hidden: true }, el("p", { class: "summary" }, "Swapped out to host memory"), this.hostPool);
    this.timeline = el("canvas", { role: "img", "aria-label": "Timeline of requests" });
    this.memory = el("div", { class: "bars" });
    const legend = (...entries) => el("ul", { class: "legend" }, entries.map(([kind, text]) => el("li", {}, el("span", { class: `swatch ${kind}` }), text)));
    this.node = el("div", { class: "engine" }, el("div", { class: "engine-inner" }, this.makeTiles(),
      el("section", { class: "card" }, el("h2", {}, "KV cache"), this.poolText, el("div", { class: "pool-scroll", tabindex: "0", role: "region", "aria-label": "KV cache blocks" }, this.pool, this.hostPart),
        legend(["used", "used, one color per request"], ["shared", "shared by several sequences"], ["cached", "cached prefix, can be reused"], ["", "free"])),
      el("section", { class: "card" }, el("h2", {}, "Memory"), this.status, this.memory),
      el("section", { class: "card" }, el("h2", {}, "Requests"), this.timeText, el("div", { class: "timeline-scroll", tabindex: "0", role: "region", "aria-label": "Requests" }, this.timeline),
        legend(["queued", "queued"], ["prefill", "prefill, in chunks"], ["decode", "decode"], ["preempted", "preempted"]))));
    onThemeChange(() => {
      this.colors = themeColors();
      if (this.view) this.draw();
    });
  }
  makeTiles() {
    const names = { generation: "Generation", prompt: "Prompt", ttft: "TTFT, median", tpot: "TPOT, median", requests: "Sequences", hits: "Prefix hit rate", usage: "KV cache used", preemptions: "Preemptions" };
    const units = { generation: " tokens/s", prompt: " tokens/s" };
    return el("dl", { class: "tiles" }, Object.entries(names).map(([key, name]) => {
      this.tiles[key] = el("span", {}, "–");
      return el("div", { class: "tile" }, el("dt", {}, name), el("dd", {}, this.tiles[key], units[key] ? el("span", { class: "unit" }, units[key]) : null));
    }));
  }

  start() {
    if (this.active) return;
    this.active = true;
    this.previous = null;
    this.colors = themeColors();
    this.poll();
  }
  stop() {
    this.active = false;
    clearTimeout(this.timer);
  }
  async poll() {
    if (!this.active) return;
    try {
      if (!document.hidden) this.show(await getJson("internal/engine"));
    } catch (error) {
      this.status.textContent = error.message;
      this.status.classList.add("stale");
    }
    if (this.active) this.timer = setTimeout(() => this.poll(), INTERVAL);
  }

  show(view) {
    if (!this.active || view.time === this.view?.time) return;
    this.view = view;
    const last = this.previous;
    // Rates over about two seconds, so that they can be read.
    if (!last || view.time - last.time >= 2) {
      const rate = (key) => (last ? (view.stats[key] - last.stats[key]) / (view.time - last.time) : null);
      this.rates = { generation: rate("generation_tokens"), prompt: rate("prompt_tokens") };
      this.previous = view;
    }
    this.draw();
  }
  draw() {
    const { view, tiles } = this;
    const { stats, device } = view;
    const all = [...view.requests, ...view.ended];
    const seconds = (a, b) => (a === null || b === null ? null : (b - a) / 1000);
    tiles.generation.textContent = perSecond(this.rates.generation);
    tiles.prompt.textContent = perSecond(this.rates.prompt);
    tiles.ttft.textContent = formatSeconds(median(all.map((r) => seconds(r.arrival, r.first))));
    tiles.tpot.textContent = formatSeconds(median(all.filter((r) => r.generated > 1).map((r) => seconds(r.first, r.last) / (r.generated - 1))));
    tiles.requests.textContent = `${formatCount(stats.running)} + ${formatCount(stats.waiting)} waiting`;
    tiles.hits.textContent = percent(stats.prefix_hits, stats.prefix_queries);
    tiles.usage.textContent = percent(device.used, device.num_blocks);
    tiles.preemptions.textContent = formatCount(stats.preemptions);
    this.drawMemory();
    // Tasks of their own, so that none of them is long.
    setTimeout(() => this.drawPool());
    setTimeout(() => this.drawRequests());
  }
  drawRequests() {
    const { view } = this;
    const rows = [...view.requests, ...view.ended.filter((r) => r.end > -30000)].sort((a, b) => b.id - a.id).slice(0, 256);
    this.timeText.textContent = rows.length === 0 ? "No request in the last 30 seconds. Requests appear here as they arrive." : `${formatCount(view.num_requests)} active, the last 30 seconds`;
    drawTimeline(this.timeline, rows, this.colors);
  }
  drawPool() {
    const { device, host, requests, stats } = this.view;
    const cells = decodeCells(device.cells);
    const most = cells.reduce((a, c) => Math.max(a, c.refs), 0);
    const parts = [`${formatCount(device.num_blocks)} blocks of ${this.app.model.block_size} tokens`, `${formatCount(device.used)} used`,
      `${formatCount(device.shared)} shared${most > 1 ? ` by up to ${most} sequences` : ""}`, `${formatCount(device.cached)} cached`];
    if (host.num_blocks > 0) parts.push(`${formatCount(host.used)} of ${formatCount(host.num_blocks)} host blocks used`, `${formatCount(stats.swapped_out)} swapped out so far`);
    if (device.blocks_per_cell > 1) parts.push(`one cell = ${device.blocks_per_cell} blocks`);
    this.poolText.textContent = parts.join(" · ");
    drawPool(this.pool, cells, requests, this.colors);
    this.hostPart.hidden = host.num_blocks === 0;
    if (host.num_blocks > 0) drawPool(this.hostPool, decodeCells(host.cells), requests, this.colors);
  }
  drawMemory() {
    const { stats, device } = this.view;
    const { model } = this.app;
    const used = device.used * (model.kv_pool_bytes / Math.max(1, model.num_blocks));
    const contiguous = stats.running * model.kv_bytes_per_sequence;
    const scale = Math.max(used, contiguous, 1);
    const bar = (name, bytes, kind) => {
      const fill = el("span");
      fill.style.width = `${(100 * bytes) / scale}%`;
      return [el("span", {}, name), el("div", { class: `bar ${kind}` }, fill), el("span", {}, formatBytes(bytes))];
    };
    this.memory.replaceChildren(...[bar("Paged", used, ""), bar("Contiguous", contiguous, "plain")].flat());
    this.status.classList.remove("stale");
    this.status.textContent = stats.running === 0 ? "With contiguous allocation, each sequence would reserve memory for its longest length."
      : `${formatCount(stats.running)} ${stats.running === 1 ? "sequence" : "sequences"}; contiguous allocation would reserve ${formatCount(model.max_model_len)} tokens for each` +
        (stats.slots_used > 0 ? ` · waste ${percent(stats.slots_used - stats.slots_filled, stats.slots_used)}` : "");
  }
}

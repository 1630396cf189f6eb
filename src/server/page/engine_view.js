// The live view of the engine: counters, the blocks of the KV cache, the history, and the requests of the last seconds.
// It asks the server for snapshots only while it is visible.

import { getJson } from "./api.js";
import { DemoLoad, NUM_REQUESTS, describeLoad } from "./demo_load.js";
import { el, formatBytes, formatCount, formatSeconds, icon } from "./dom.js";
import { drawTimeline, themeColors } from "./engine_canvas.js";
import { History } from "./history.js";
import { PoolCanvas } from "./pool_canvas.js";
import { onThemeChange, serverGone } from "./shell.js";

const INTERVAL = 500; // ms
const RATE_SECONDS = 2;
const SILENCE = 6000; // ms without a snapshot after which the figures count as old

const RATE_NOTE = `over the last ${RATE_SECONDS} s`;
const REQUESTS_NOTE = "requests of the last minute";
// key, name, unit, what time the figure is about
const TILES = [
  ["generation", "Generation", " tokens/s", RATE_NOTE], ["prompt", "Prompts", " tokens/s", RATE_NOTE],
  ["ttft", "TTFT, median", "", REQUESTS_NOTE], ["tpot", "TPOT, median", "", REQUESTS_NOTE],
  ["requests", "Sequences", "", "now"], ["hits", "Prefix hit rate", "", "since the start"],
  ["usage", "KV cache used", "", "now"], ["preemptions", "Preemptions", "", "since the start"],
];

function median(values) {
  const sorted = values.filter((v) => v !== null && Number.isFinite(v)).sort((a, b) => a - b);
  return sorted.length === 0 ? NaN : sorted[Math.floor(sorted.length / 2)];
}

const percent = (part, whole) => (whole === 0 ? "–" : part > 0 && part / whole < 0.001 ? "< 0.1 %" : `${((100 * part) / whole).toFixed(1)} %`);
const perSecond = (value) => (value === null ? "–" : formatCount(value));
const legend = (...entries) => el("ul", { class: "legend" }, entries.map(([kind, text]) => el("li", {}, el("span", { class: `swatch ${kind}` }), text)));

export class EngineView {
  constructor(app) {
    this.app = app;
    this.tiles = {};
    this.status = el("p", { class: "summary", role: "status" }, "Waiting for the engine…");
    this.notice = el("p", { class: "engine-notice", role: "status", hidden: true });
    this.poolText = el("p", { class: "summary pool-summary" });
    this.timeText = el("p", { class: "summary" });
    this.pool = new PoolCanvas("Blocks of the KV cache");
    this.hostPool = new PoolCanvas("Swapped blocks in host memory");
    this.hostPart = el("div", { class: "host-pool", hidden: true }, el("p", { class: "summary" }, "Swapped out to host memory"), this.hostPool.node);
    this.timeline = el("canvas", { role: "img", "aria-label": "Timeline of requests" });
    this.history = new History();
    this.memory = el("div", { class: "bars" });
    this.node = el("div", { class: "engine" }, el("div", { class: "engine-inner" }, this.notice, this.makeDemo(), this.makeTiles(),
      el("section", { class: "card" }, el("h2", {}, "KV cache"), this.poolText, this.pool.node, this.hostPart,
        legend(["owners", "used by one sequence, in a color of its request"], ["shared", "shared by several sequences"], ["idle", "cached prefix, can be reused"], ["free", "free"], ["partial", "filled up to the height of its tokens"])),
      el("section", { class: "card" }, el("h2", {}, "The last five minutes"), this.history.node),
      el("section", { class: "card" }, el("h2", {}, "Memory"), this.status, this.memory),
      el("section", { class: "card" }, el("h2", {}, "Requests"), this.timeText, el("div", { class: "timeline-scroll", tabindex: "0", role: "region", "aria-label": "Requests" }, this.timeline),
        legend(["idle", "queued"], ["prefill", "prefill, in chunks"], ["decode", "decode"], ["preempted", "preempted"], ["owners", "color of its blocks"]))));
    onThemeChange(() => {
      this.colors = themeColors();
      if (this.view) this.draw();
    });
    addEventListener("resize", () => this.active && this.view && this.draw());
  }
  makeTiles() {
    return el("dl", { class: "tiles" }, TILES.map(([key, name, unit, note]) => {
      this.tiles[key] = el("span", {}, "–");
      return el("div", { class: "tile" }, el("dt", {}, name), el("dd", {}, this.tiles[key], unit ? el("span", { class: "unit" }, unit) : null), el("dd", { class: "tile-note" }, note));
    }));
  }

  makeDemo() {
    this.demo = new DemoLoad(this.app.model);
    this.demoButton = el("button", { type: "button", class: "button small", onclick: () => (this.demo.running ? this.demo.end("stopped") : this.runDemo()) }, icon("engine"), "Run a demo load");
    this.demoText = el("p", { class: "demo-text", role: "status" }, `${NUM_REQUESTS} requests at a time share a prefix, for 15 seconds. It runs only while no other client uses the server.`);
    return el("div", { class: "demo", hidden: !this.app.generates }, this.demoButton, this.demoText);
  }
  async runDemo() {
    const progress = (text) => (this.demoText.textContent = text);
    const button = (name, disabled = false) => {
      this.demoButton.lastChild.textContent = name;
      this.demoButton.disabled = disabled;
    };
    button("Run a demo load", true);
    try {
      const result = await this.demo.run((begun) => {
        button("Stop");
        progress(`${formatCount(begun)} ${begun === 1 ? "request" : "requests"} sent. It stops by itself.`);
      });
      progress(describeLoad(result));
    } catch (error) {
      progress(`Stopped: ${error.message}`);
    }
    button("Run a demo load");
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
    this.demo.end("stopped");
  }
  async poll() {
    if (!this.active) return;
    const silence = setTimeout(() => this.setOld("The engine has not answered for some seconds."), SILENCE);
    try {
      if (!document.hidden) this.show(await getJson("internal/engine"));
    } catch (error) {
      this.setOld(error.kind === "network" ? "" : error.message);
      if (error.kind === "network") return this.waitForServer();
    } finally {
      clearTimeout(silence);
    }
    if (this.active) this.timer = setTimeout(() => this.poll(), INTERVAL);
  }
  waitForServer() {
    if (this.waiting) return;
    this.waiting = true;
    serverGone(() => this.resume());
  }
  // The server is back, perhaps with other settings.
  async resume() {
    this.waiting = false;
    this.history.interrupt();
    this.previous = null;
    try {
      Object.assign(this.app.model, await getJson("internal/model"));
    } catch {
      // poll() reports it.
    }
    this.poll();
  }
  // Gray figures: they are those of the last snapshot. The reason is empty if a banner gives it.
  setOld(reason) {
    this.node.classList.add("old");
    const time = this.view ? `The figures are those of ${this.seen.toLocaleTimeString()}.` : "";
    this.notice.textContent = `${reason} ${time}`.trim();
    this.notice.hidden = this.notice.textContent === "";
  }

  show(view) {
    if (!this.active) return;
    this.node.classList.remove("old");
    this.notice.hidden = true;
    if (view.time === this.view?.time) return;
    this.view = view;
    this.seen = new Date();
    this.demo.watch(view);
    this.history.add(view);
    const last = this.previous;
    // Rates over some seconds, so that they can be read.
    if (!last || view.time - last.time >= RATE_SECONDS) {
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
    const unit = (text) => el("span", { class: "unit" }, text);
    tiles.requests.replaceChildren(formatCount(stats.running), unit(" running, "), formatCount(stats.waiting), unit(" waiting"));
    tiles.hits.textContent = percent(stats.prefix_hits, stats.prefix_queries);
    tiles.usage.textContent = percent(device.used, device.num_blocks);
    tiles.preemptions.textContent = formatCount(stats.preemptions);
    this.drawMemory();
    // Tasks of their own, so that none of them is long.
    setTimeout(() => this.drawPool());
    setTimeout(() => this.drawRequests());
    setTimeout(() => this.history.draw(this.colors));
  }
  drawRequests() {
    const { view } = this;
    const rows = [...view.requests, ...view.ended.filter((r) => r.end > -30000)].sort((a, b) => b.id - a.id).slice(0, 256);
    this.timeText.textContent = rows.length === 0 ? "No request in the last 30 seconds. Requests appear here as they arrive." : `${formatCount(view.num_requests)} active, the last 30 seconds`;
    drawTimeline(this.timeline, rows, this.colors);
  }
  drawPool() {
    const { device, host, requests, stats } = this.view;
    const { colors } = this;
    const blockSlots = this.app.model.block_size;
    const most = device.cells.reduce((a, refs, i) => (i % 6 === 2 ? Math.max(a, refs) : a), 0);
    const parts = [`${formatCount(device.num_blocks)} blocks of ${blockSlots} tokens`, `${formatCount(device.used)} used`,
      `${formatCount(device.shared)} shared${most > 1 ? ` by up to ${most} sequences` : ""}`, `${formatCount(device.cached)} cached`];
    if (stats.copied_on_write > 0) parts.push(`${formatCount(stats.copied_on_write)} copied on write so far`);
    if (host.num_blocks > 0) parts.push(`${formatCount(host.used)} of ${formatCount(host.num_blocks)} host blocks used`, `${formatCount(stats.swapped_out)} swapped out so far`);
    this.poolText.textContent = parts.join(" · ");
    this.pool.draw({ pool: device, requests, colors, blockSlots });
    this.hostPart.hidden = host.num_blocks === 0;
    if (host.num_blocks > 0) this.hostPool.draw({ pool: host, requests, colors, blockSlots });
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
    this.status.textContent = stats.running === 0 ? "With contiguous allocation, each sequence would reserve memory for its longest length."
      : `${formatCount(stats.running)} ${stats.running === 1 ? "sequence" : "sequences"}; contiguous allocation would reserve ${formatCount(model.max_model_len)} tokens for each` +
        (stats.slots_used > 0 ? ` · waste ${percent(stats.slots_used - stats.slots_filled, stats.slots_used)}` : "");
  }
}

// The blocks of one pool of the KV cache as cells of a canvas, with a map of the whole pool if it is too large for
// that. Pointer and arrow keys select a cell.

import { announce, el, formatCount } from "./dom.js";
import { ownerColor, prepare } from "./engine_canvas.js";

const CELL_SIZES = [30, 24, 20, 16, 13, 11, 9]; // px of a cell with its gap
const COMFORTABLE_HEIGHT = 260; // px; cells shrink until they fit, down to the smallest size
const NUMBERED = 20; // px from which on a shared cell has its number of sequences
const MAP_HEIGHT = 26;
const MAP_COLUMN = 4;

const cellAt = (runs, i) => ({ owner: runs[i], refs: runs[i + 1], used: runs[i + 2], cached: runs[i + 3], slots: runs[i + 4] });

// [count, owner, refs, used, cached, slots] x runs -> one record per cell, from the first block on.
export function decodeCells(runs) {
  const cells = [];
  for (let i = 0; i < runs.length; i += 6) {
    for (let n = 0; n < runs[i]; ++n) cells.push({ index: cells.length, ...cellAt(runs, i + 1) });
  }
  return cells;
}

// [index, count, owner, refs, used, cached, slots] x runs -> one record per occupied cell.
export function decodePlaced(runs) {
  const cells = [];
  for (let i = 0; i < runs.length; i += 7) {
    for (let n = 0; n < runs[i + 1]; ++n) cells.push({ index: runs[i] + n, ...cellAt(runs, i + 2) });
  }
  return cells;
}

export function cellLayout(count, width) {
  const rows = (size) => Math.ceil(count / Math.max(1, Math.floor(width / size)));
  const size = CELL_SIZES.find((s) => rows(s) * s <= COMFORTABLE_HEIGHT) ?? CELL_SIZES.at(-1);
  return { size, columns: Math.max(1, Math.floor(width / size)), rows: rows(size) };
}

// selected: the index of the selected cell, or -1. blockSlots: token slots of a block.
export function drawPool(canvas, cells, requests, colors, blockSlots, selected = -1) {
  const width = canvas.parentElement.clientWidth;
  const layout = cellLayout(cells.length, width);
  const context = prepare(canvas, width, Math.max(1, layout.rows * layout.size));
  context.textAlign = "center";
  const owner = cells[selected]?.used > 0 ? cells[selected].owner : null;
  cells.forEach((cell, i) => {
    const x = (i % layout.columns) * layout.size;
    const y = Math.floor(i / layout.columns) * layout.size;
    drawCell(context, cell, x, y, layout.size - 2, requests, colors, blockSlots);
    if (i !== selected && (owner === null || cell.used === 0 || cell.owner !== owner)) return;
    context.strokeStyle = colors.ink;
    context.lineWidth = i === selected ? 2.5 : 1;
    context.strokeRect(x + 0.5, y + 0.5, layout.size - 3, layout.size - 3);
  });
  return layout;
}

function drawCell(context, cell, x, y, size, requests, colors, blockSlots) {
  context.fillStyle = cell.used === 0 && cell.cached > 0 ? colors.idle : colors.panel;
  context.fillRect(x, y, size, size);
  if (cell.used === 0) return;
  const id = requests[cell.owner]?.id ?? 0;
  context.fillStyle = cell.refs > 1 ? colors.shared : ownerColor(id, colors);
  const filled = Math.max(1, Math.round((size * cell.slots) / (cell.used * blockSlots)));
  if (filled < size) {
    context.globalAlpha = 0.3;
    context.fillRect(x, y, size, size);
    context.globalAlpha = 1;
  }
  context.fillRect(x, y + size - filled, size, filled);
  if (cell.refs < 2 || size + 2 < NUMBERED || filled < size * 0.8) return;
  context.fillStyle = colors.surface;
  context.fillText(String(cell.refs), x + size / 2, y + size / 2 + 0.5);
}

// Columns of equal parts of the pool; the filled height is the part of their blocks that is occupied. A single block
// is visible, too.
export function drawMap(canvas, cells, requests, colors, pool) {
  const width = canvas.parentElement.clientWidth;
  const context = prepare(canvas, width, MAP_HEIGHT);
  const columns = Math.min(cells.length, Math.max(1, Math.floor(width / MAP_COLUMN)));
  const step = width / columns;
  context.fillStyle = colors.panel;
  context.fillRect(0, 0, width, MAP_HEIGHT);
  for (let column = 0, i = 0; column < columns; ++column) {
    const end = Math.ceil(((column + 1) * cells.length) / columns);
    const total = (end - i) * pool.blocks_per_cell;
    let used = 0;
    let cached = 0;
    let most = null;
    for (; i < end; ++i) {
      used += cells[i].used;
      cached += cells[i].cached;
      if (cells[i].used > 0 && (most === null || cells[i].refs > most.refs)) most = cells[i];
    }
    const height = (blocks) => (blocks === 0 ? 0 : Math.max(4, (MAP_HEIGHT * blocks) / total));
    const top = MAP_HEIGHT - height(used);
    if (used > 0) {
      context.fillStyle = most.refs > 1 ? colors.shared : ownerColor(requests[most.owner]?.id ?? 0, colors);
      context.fillRect(column * step, top, step, height(used));
    }
    context.fillStyle = colors.idle;
    context.fillRect(column * step, Math.max(0, top - height(cached)), step, Math.min(top, height(cached)));
  }
  return Math.round(pool.num_blocks / columns);
}

// "Block 17 · request #4 · 16 of 16 tokens · shared by 12 sequences"
export function describeCell(cell, requests, perCell, blockSlots) {
  const first = cell.index * perCell;
  const parts = [perCell === 1 ? `Block ${formatCount(first)}` : `Blocks ${formatCount(first)} to ${formatCount(first + perCell - 1)}`];
  if (cell.used === 0) return `${parts[0]} · ${cell.cached > 0 ? "cached prefix, no request uses it" : "free"}`;
  if (perCell > 1) parts.push(`${formatCount(cell.used)} used, ${formatCount(cell.cached)} cached`);
  const id = requests[cell.owner]?.id;
  parts.push(id === undefined ? "request not listed" : cell.refs > 1 || perCell > 1 ? `request #${id} and possibly others` : `request #${id}`);
  parts.push(`${formatCount(cell.slots)} of ${formatCount(cell.used * blockSlots)} tokens`);
  parts.push(cell.refs > 1 ? `shared by ${perCell > 1 ? "up to " : ""}${formatCount(cell.refs)} sequences` : "not shared");
  return parts.join(" · ");
}

const KEYS = { ArrowLeft: () => -1, ArrowRight: () => 1, ArrowUp: (layout) => -layout.columns, ArrowDown: (layout) => layout.columns };

export class PoolCanvas {
  constructor(name) {
    this.name = name;
    this.cells = [];
    this.selected = -1; // index into cells
    this.block = -1; // first block of the selected cell, which stays selected in the next snapshot
    this.canvas = el("canvas", { role: "application", tabindex: "0", "aria-label": name, "aria-roledescription": "picture with arrow keys" });
    this.tip = el("div", { class: "pool-tip", hidden: true });
    this.map = el("canvas", { role: "img", "aria-label": `${name}: the whole pool` });
    this.mapText = el("p", { class: "summary" });
    this.mapPart = el("div", { class: "pool-map", hidden: true }, this.map, this.mapText);
    this.none = el("p", { class: "pool-none", hidden: true }, "No block is in use.");
    this.area = el("div", { class: "pool-area" }, this.canvas, this.tip, this.none);
    this.node = el("div", {}, el("div", { class: "pool-scroll" }, this.area), this.mapPart);
    this.canvas.addEventListener("pointermove", (event) => this.select(this.cellUnder(event)));
    this.canvas.addEventListener("pointerdown", (event) => this.select(this.cellUnder(event)));
    this.canvas.addEventListener("pointerleave", () => this.select(-1));
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
    this.canvas.addEventListener("focus", () => {
      if (this.selected < 0 && this.canvas.matches(":focus-visible")) this.select(0, true);
    });
    this.canvas.addEventListener("blur", () => this.select(-1));
  }

  cellUnder(event) {
    const { size, columns } = this.layout;
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / size);
    const index = Math.floor((event.clientY - box.top) / size) * columns + column;
    return column < columns && index >= 0 && index < this.cells.length ? index : -1;
  }
  onKey(event) {
    const move = KEYS[event.key]?.(this.layout);
    if (event.key === "Escape") return this.select(-1);
    if (move === undefined) return;
    event.preventDefault();
    const to = Math.max(this.selected, 0) + move;
    if (to >= 0 && to < this.cells.length) this.select(to, true);
  }
  select(index, aloud = false) {
    if (index >= this.cells.length) index = -1;
    if (index === this.selected && !aloud) return;
    this.selected = index;
    this.block = index < 0 ? -1 : this.cells[index].index * this.perCell;
    this.drawCells();
    if (aloud && index >= 0) announce(this.tip.textContent);
  }

  // shown: {pool, requests, colors, blockSlots}
  draw(shown) {
    this.shown = shown;
    const { pool } = shown;
    const dense = decodeCells(pool.cells);
    const large = pool.blocks_per_cell > 1;
    this.cells = large ? decodePlaced(pool.placed) : dense;
    this.perCell = large ? pool.blocks_per_placed : 1;
    this.selected = this.block < 0 ? -1 : this.cells.findIndex((c) => c.index === Math.floor(this.block / this.perCell));
    this.drawCells();
    this.mapPart.hidden = !large;
    if (!large) return;
    const column = drawMap(this.map, dense, shown.requests, shown.colors, pool);
    this.mapText.textContent = `The whole pool: one column of this map is ${formatCount(column)} blocks. ${this.leftOut()}`;
  }
  leftOut() {
    const { pool } = this.shown;
    const cells = this.perCell > 1 ? `One cell above is ${formatCount(this.perCell)} blocks; ` : "Above, ";
    return pool.cached > 0 && !this.cells.some((c) => c.cached > 0 && c.used === 0)
      ? `${cells}free and cached blocks are left out.` : `${cells}free blocks are left out.`;
  }
  drawCells() {
    const { requests, colors, blockSlots } = this.shown;
    this.none.hidden = this.cells.length > 0;
    this.canvas.hidden = this.cells.length === 0;
    this.layout = drawPool(this.canvas, this.cells, requests, colors, blockSlots, this.selected);
    this.tip.hidden = this.selected < 0;
    if (this.selected < 0) return;
    this.tip.textContent = describeCell(this.cells[this.selected], requests, this.perCell, blockSlots);
    const { size, columns } = this.layout;
    const left = (this.selected % columns) * size;
    const top = (Math.floor(this.selected / columns) + 1) * size + 4;
    this.tip.style.left = `${Math.max(0, Math.min(left, this.area.clientWidth - this.tip.offsetWidth))}px`;
    // Above the cell where there is no room below it.
    const above = top - size - this.tip.offsetHeight - 8;
    this.tip.style.top = `${top + this.tip.offsetHeight > this.area.clientHeight && above >= 0 ? above : top}px`;
  }
}

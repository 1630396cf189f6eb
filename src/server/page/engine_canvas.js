// Draws the KV pool and the timeline of requests.

const CELL = 11; // px of a block with its gap
const WINDOW = 30000; // ms that the timeline shows

// The values of CSS variables, as canvas colors.
export function themeColors() {
  const probe = document.createElement("span");
  document.body.append(probe);
  const color = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const colors = Object.fromEntries(["ink", "subtle", "line", "line-strong", "accent", "danger", "warn", "panel", "surface"].map((n) => [n, color(n)]));
  probe.remove();
  return colors;
}

// A canvas of this size in CSS pixels, cleared.
function prepare(canvas, width, height) {
  const scale = Math.min(2, devicePixelRatio || 1);
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  return context;
}

const HUES = Array.from({ length: 360 }, (_, hue) => `hsl(${hue} 52% 52%)`);

export function ownerColor(id) {
  return HUES[Math.floor((id * 137.508) % 360)];
}

// [count, owner, refs, used, cached, fill] x runs -> one record per cell.
export function decodeCells(runs) {
  const cells = [];
  for (let i = 0; i < runs.length; i += 6) {
    const cell = { owner: runs[i + 1], refs: runs[i + 2], used: runs[i + 3], cached: runs[i + 4], fill: runs[i + 5] };
    for (let n = 0; n < runs[i]; ++n) cells.push(cell);
  }
  return cells;
}

export function drawPool(canvas, cells, requests, colors) {
  const width = canvas.parentElement.clientWidth;
  const columns = Math.max(1, Math.floor(width / CELL));
  const context = prepare(canvas, width, Math.max(1, Math.ceil(cells.length / columns)) * CELL);
  const size = CELL - 2;
  cells.forEach((cell, i) => {
    const x = (i % columns) * CELL;
    const y = Math.floor(i / columns) * CELL;
    context.fillStyle = cell.used === 0 && cell.cached > 0 ? colors["line-strong"] : colors.panel;
    context.fillRect(x, y, size, size);
    if (cell.used === 0) return;
    const id = requests[cell.owner]?.id ?? 0;
    context.fillStyle = cell.refs > 1 ? colors.accent : ownerColor(id);
    if (cell.fill < 100) {
      context.globalAlpha = 0.3;
      context.fillRect(x, y, size, size);
      context.globalAlpha = 1;
    }
    const filled = Math.max(1, Math.round((size * cell.fill) / 100));
    context.fillRect(x, y + size - filled, size, filled);
  });
  return columns;
}

export function drawTimeline(canvas, requests, colors) {
  const width = canvas.parentElement.clientWidth;
  const row = requests.length > 48 ? 8 : 18;
  const head = 20;
  const context = prepare(canvas, width, head + Math.max(1, requests.length) * row);
  const label = row > 12 ? 52 : 0;
  const x = (ms) => label + ((width - label) * (WINDOW + Math.max(-WINDOW, Math.min(0, ms)))) / WINDOW;
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  for (let s = 0; s <= 30; s += 10) {
    context.fillStyle = colors.line;
    context.fillRect(Math.min(width - 1, x(-s * 1000)), head - 4, 1, 9999);
    context.fillStyle = colors.subtle;
    context.textAlign = s === 30 ? "left" : "right";
    context.fillText(s === 0 ? "now" : `−${s} s`, x(-s * 1000) + (s === 30 ? 2 : -4), 8);
  }
  requests.forEach((request, i) => drawRow(context, request, head + i * row, row - (row > 12 ? 5 : 2), x, colors, label));
}

function drawRow(context, request, y, height, x, colors, label) {
  const segment = (begin, end, color, minimum = 1) => {
    if (begin === null || (end ?? 0) < -WINDOW) return;
    context.fillStyle = color;
    context.fillRect(x(begin), y, Math.max(minimum, x(end ?? 0) - x(begin)), height);
  };
  const end = request.end ?? 0;
  segment(request.arrival, request.scheduled ?? end, colors["line-strong"]);
  if (request.scheduled !== null) segment(request.scheduled, request.first ?? end, colors.warn);
  if (request.first !== null) segment(request.first, end, colors.accent);
  for (const [begin, stop] of request.pauses) segment(begin, stop ?? 0, colors.danger);
  // A line between two chunks of a prompt.
  context.fillStyle = colors.surface;
  for (const [begin] of request.chunks.slice(1)) if (begin > -WINDOW) context.fillRect(x(begin), y, 1, height);
  if (label === 0) return;
  context.fillStyle = colors.subtle;
  context.textAlign = "left";
  context.fillText(`#${request.id}`, 0, y + height / 2);
}

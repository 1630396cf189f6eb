// Drawing for the live view: colors of the theme, a canvas of the right size, and the timeline of requests.

const WINDOW = 30000; // ms that the timeline shows
const NUM_OWNER_COLORS = 7;
const NAMES = ["ink", "subtle", "line", "panel", "surface", "shared", "idle", "prefill", "decode", "preempted",
  ...Array.from({ length: NUM_OWNER_COLORS }, (_, i) => `owner-${i}`)];

// The values of CSS variables, as canvas colors.
export function themeColors() {
  const probe = document.createElement("span");
  document.body.append(probe);
  const color = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const colors = Object.fromEntries(NAMES.map((name) => [name, color(name)]));
  probe.remove();
  return colors;
}

// Requests that arrive after each other differ; after some requests the colors repeat.
export function ownerColor(id, colors) {
  return colors[`owner-${Math.abs(id) % NUM_OWNER_COLORS}`];
}

// A canvas of this size in CSS pixels, cleared.
export function prepare(canvas, width, height) {
  const scale = Math.min(2, devicePixelRatio || 1);
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  return context;
}

export function drawTimeline(canvas, requests, colors) {
  const width = canvas.parentElement.clientWidth;
  const row = requests.length > 48 ? 8 : 18;
  const head = 20;
  const context = prepare(canvas, width, head + Math.max(1, requests.length) * row);
  const label = row > 12 ? 62 : 8;
  const x = (ms) => label + ((width - label) * (WINDOW + Math.max(-WINDOW, Math.min(0, ms)))) / WINDOW;
  for (let s = 0; s <= 30; s += 10) {
    context.fillStyle = colors.line;
    context.fillRect(Math.min(width - 1, x(-s * 1000)), head - 4, 1, 9999);
    context.fillStyle = colors.subtle;
    context.textAlign = s === 30 ? "left" : "right";
    context.fillText(s === 0 ? "now" : `−${s} s`, x(-s * 1000) + (s === 30 ? 2 : -4), 8);
  }
  requests.forEach((request, i) => drawRow(context, request, head + i * row, row - (row > 12 ? 5 : 2), x, colors));
}

function drawRow(context, request, y, height, x, colors) {
  const segment = (begin, end, color, minimum = 1) => {
    if (begin === null || (end ?? 0) < -WINDOW) return;
    context.fillStyle = color;
    context.fillRect(x(begin), y, Math.max(minimum, x(end ?? 0) - x(begin)), height);
  };
  const end = request.end ?? 0;
  segment(request.arrival, request.scheduled ?? end, colors.idle);
  if (request.scheduled !== null) segment(request.scheduled, request.first ?? end, colors.prefill);
  if (request.first !== null) segment(request.first, end, colors.decode);
  for (const [begin, stop] of request.pauses) segment(begin, stop ?? 0, colors.preempted);
  // A line between two chunks of a prompt.
  context.fillStyle = colors.surface;
  for (const [begin] of request.chunks.slice(1)) if (begin > -WINDOW) context.fillRect(x(begin), y, 1, height);
  // The color of the request's blocks, and its number.
  context.fillStyle = ownerColor(request.id, colors);
  if (height < 12) {
    context.fillRect(0, y, 5, height);
    return;
  }
  context.fillRect(0, y + 2, 9, 9);
  context.fillStyle = colors.subtle;
  context.textAlign = "left";
  context.fillText(`#${request.id}`, 14, y + height / 2);
}

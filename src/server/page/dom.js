// Builds DOM nodes. Text always becomes text nodes; nothing in the page parses a string as HTML.

const SVG = "http://www.w3.org/2000/svg";

// el("button", {class: "x", onclick: f, "aria-label": "Stop"}, child, "text"): null and false children are left out.
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else if (name === "dataset") Object.assign(node.dataset, value);
    else if (name in node && typeof value !== "string") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  append(node, children);
  return node;
}

export function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

// Paths of 24 x 24 icons, drawn as lines.
const ICONS = {
  plus: "M12 5v14M5 12h14",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  copy: "M9 9h10v11H9zM5 15V4h10",
  check: "M5 12.5l4.5 4.5L19 7.5",
  retry: "M4.5 12a7.5 7.5 0 1 0 2.4-5.5M4.5 4v4.5H9",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13M10.5 11v5M13.5 11v5",
  left: "M14.5 6l-6 6 6 6",
  right: "M9.5 6l6 6-6 6",
  down: "M6 9.5l6 6 6-6",
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6L6 18",
  sliders: "M4 8h8M16 8h4M4 16h4M12 16h8M14 5.5v5M10 13.5v5",
  export: "M12 4v11M7.5 8.5L12 4l4.5 4.5M5 15v5h14v-5",
  import: "M12 15V4M7.5 10.5L12 15l4.5-4.5M5 15v5h14v-5",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8M12 3v2M12 19v2M3 12h2M19 12h2M5.6 5.6L7 7M17 17l1.4 1.4M5.6 18.4L7 17M17 7l1.4-1.4",
  moon: "M19.5 14.5A8 8 0 0 1 9.5 4.5a8 8 0 1 0 10 10z",
  auto: "M12 4a8 8 0 1 0 0 16zM12 4a8 8 0 0 1 0 16",
  search: "M10.5 5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M15 15l5 5",
  chat: "M5 5h14v11h-8l-4 4v-4H5z",
  engine: "M4 5h4v4H4zM10 5h4v4h-4zM16 5h4v4h-4zM4 11h4v4H4zM10 11h4v4h-4zM4 17h4v2H4z",
  alert: "M12 4l9 16H3zM12 10v5M12 17.5v.5",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  key: "M14.5 4a5.5 5.5 0 1 1-3.6 9.7L8 16.5H6v2H3v-3l6.6-6.6A5.5 5.5 0 0 1 14.5 4M16 8h.01",
  help: "M9 9.5a3 3 0 1 1 4 2.8c-.7.3-1 .8-1 1.7M12 17.5v.01",
  file: "M7 3h7l4 4v14H7zM13.5 3v4.5H18",
  attach: "M18.5 11.5l-6.8 6.8a4 4 0 0 1-5.7-5.7l7.5-7.5a2.7 2.7 0 0 1 3.8 3.8l-7.2 7.2a1.3 1.3 0 0 1-1.9-1.9l6.2-6.2",
  bars: "M5 19v-4M10 19V9M15 19v-7M20 19V5",
  tool: "M14.5 6.5a4 4 0 0 0-5 5L4 17l3 3 5.5-5.5a4 4 0 0 0 5-5l-2.5 2.5-3-3z",
  thought: "M9 18h6M10 21h4M12 3a6 6 0 0 0-3.5 10.9c.6.5.9 1 .9 1.6h5.2c0-.6.3-1.1.9-1.6A6 6 0 0 0 12 3z",
};

export function icon(name, className = "icon") {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", className);
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

// A button with an icon; `label` is its accessible name and tooltip.
export function iconButton(name, label, onclick, className = "icon-button") {
  return el("button", { type: "button", class: className, title: label, "aria-label": label, onclick }, icon(name));
}

// The same with a word below the icon, which begins the accessible name.
export function labeledButton(name, word, label, onclick) {
  const button = iconButton(name, label, onclick, "icon-button labeled");
  button.append(el("span", {}, word));
  return button;
}

// A short message at the bottom of the page that screen readers announce.
export function toast(text) {
  const area = document.getElementById("toasts");
  const node = el("div", { class: "toast" }, text);
  area.append(node);
  setTimeout(() => node.remove(), 3500);
}

// Tells screen readers, without showing anything.
export function announce(text) {
  document.getElementById("announcer").textContent = text;
}

export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages without TLS have no clipboard object.
    const area = el("textarea", { class: "visually-hidden" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

export function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = el("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

export function formatBytes(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let value = bytes;
  while (value >= 1024 && unit + 1 < units.length) {
    value /= 1024;
    ++unit;
  }
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

export function formatCount(value) {
  return Math.round(value).toLocaleString("en-US");
}

// 0.0123 -> "12 ms", 3.21 -> "3.2 s"
export function formatSeconds(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 0.01) return `${(seconds * 1000).toFixed(1)} ms`;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

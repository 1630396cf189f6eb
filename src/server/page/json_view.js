// JSON as a tree that can be folded.

import { el } from "./dom.js";

const MAX_NODES = 3000; // values that are shown; the rest is counted

// The value if the whole text is a JSON object or array (perhaps in a code fence), otherwise undefined.
export function parseJson(text) {
  const trimmed = text.trim().replace(/^```(?:json)?\s*\n([\s\S]*?)\n```$/, "$1").trim();
  if (!/^[[{][\s\S]*[\]}]$/.test(trimmed)) return undefined;
  try {
    return JSON.parse(trimmed);
  } catch {
    return undefined;
  }
}

function leaf(value) {
  const kind = value === null ? "null" : typeof value;
  return el("span", { class: `json-${kind}` }, JSON.stringify(value));
}

function entry(key, value, budget, depth) {
  const label = key === null ? [] : [el("span", { class: "json-key" }, key), ": "];
  if (value === null || typeof value !== "object") return el("div", { class: "json-row" }, label, leaf(value));
  const entries = Object.entries(value);
  const array = Array.isArray(value);
  const size = `${entries.length} ${array ? (entries.length === 1 ? "item" : "items") : entries.length === 1 ? "field" : "fields"}`;
  const details = el("details", { open: depth < 3 }, el("summary", {}, label, array ? "[ ] " : "{ } ", el("span", { class: "json-size" }, size)));
  const inner = el("div", { class: "json-children" });
  for (let i = 0; i < entries.length; ++i) {
    if (--budget.left < 0) {
      inner.append(el("div", { class: "json-row json-size" }, `… ${entries.length - i} more`));
      break;
    }
    inner.append(entry(entries[i][0], entries[i][1], budget, depth + 1));
  }
  details.append(inner);
  return details;
}

export function jsonTree(value) {
  return el("div", { class: "json", role: "group", "aria-label": "JSON" }, entry(null, value, { left: MAX_NODES }, 0));
}

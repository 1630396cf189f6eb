// The inline part of Markdown: emphasis, code, links and formulas in a paragraph, as DOM nodes.

import { el } from "./dom.js";
import { renderMath } from "./math.js";

const MAX_SPAN = 4000; // characters that a link or a formula may have, so that unbalanced text costs no quadratic time
const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", mdash: "—", ndash: "–", hellip: "…", times: "×" };

// The address if it is one that a page may link to, otherwise null.
export function safeUrl(text) {
  let url;
  try {
    url = new URL(text.trim());
  } catch {
    return null;
  }
  return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
}

function link(address, ...children) {
  const href = safeUrl(address);
  if (href === null) return el("span", {}, ...children);
  return el("a", { href, target: "_blank", rel: "noopener noreferrer nofollow", title: href }, ...children);
}

// "](" address ")" with at most one level of parentheses; null if it is not a link.
function readTarget(text, at) {
  if (text[at] !== "(") return null;
  let depth = 0;
  const limit = Math.min(text.length, at + MAX_SPAN);
  for (let i = at; i < limit; ++i) {
    if (text[i] === "\n") return null;
    if (text[i] === "(") ++depth;
    else if (text[i] === ")" && --depth === 0) {
      const inside = text.slice(at + 1, i).trim();
      return { address: /^<?([^\s>]*)>?/.exec(inside)[1], end: i + 1 };
    }
  }
  return null;
}

function readLabel(text, at) {
  let depth = 0;
  const limit = Math.min(text.length, at + MAX_SPAN);
  for (let i = at; i < limit; ++i) {
    if (text[i] === "\\") ++i;
    else if (text[i] === "[") ++depth;
    else if (text[i] === "]" && --depth === 0) return i;
  }
  return -1;
}

function readLink(text, at, depth) {
  const image = text[at] === "!";
  const open = image ? at + 1 : at;
  const close = readLabel(text, open);
  if (close < 0) return null;
  const target = readTarget(text, close + 1);
  if (!target) return null;
  const label = text.slice(open + 1, close);
  const children = image ? [el("span", { class: "image-mark", "aria-hidden": "true" }, "image "), label || target.address] : parse(label, depth + 1);
  return { node: link(target.address, ...children), end: target.end };
}

function readCode(text, at) {
  const ticks = /^`+/.exec(text.slice(at, at + 100))[0];
  let close = text.indexOf(ticks, at + ticks.length);
  while (close >= 0 && text[close + ticks.length] === "`") {
    const run = /^`+/.exec(text.slice(close, close + 100))[0].length;
    close = text.indexOf(ticks, close + run);
  }
  if (close < 0) return null;
  let code = text.slice(at + ticks.length, close).replace(/\n/g, " ");
  if (/^ .* $/.test(code) && code.trim() !== "") code = code.slice(1, -1);
  return { node: el("code", {}, code), end: close + ticks.length };
}

function readFormula(text, at) {
  const [open, close] = text.startsWith("\\(", at) ? ["\\(", "\\)"] : text.startsWith("\\[", at) ? ["\\[", "\\]"]
    : text.startsWith("$$", at) ? ["$$", "$$"] : ["$", "$"];
  const begin = at + open.length;
  const end = text.indexOf(close, begin);
  if (end < 0 || end - at > MAX_SPAN || end === begin) return null;
  const formula = text.slice(begin, end);
  // "$5 and $10" are prices: a formula does not begin or end with a space, and no digit follows it.
  if (open === "$" && (/^\s|\s$/.test(formula) || /\d/.test(text[end + 1] ?? "") || /\n\n/.test(formula))) return null;
  return { node: renderMath(formula, open === "$$" || open === "\\["), end: end + close.length };
}

function readAuto(text, at) {
  const angle = /^<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/.exec(text.slice(at, at + 2100));
  if (angle) return { node: link(angle[1], angle[1]), end: at + angle[0].length };
  const bare = /^https?:\/\/[^\s<>"'`]{1,2000}/.exec(text.slice(at, at + 2100));
  if (!bare || /\w/.test(text[at - 1] ?? "")) return null;
  let address = bare[0].replace(/[.,;:!?*_~]+$/, "");
  while (address.endsWith(")") && (address.match(/\(/g) ?? []).length < (address.match(/\)/g) ?? []).length) address = address.slice(0, -1);
  return { node: link(address, address), end: at + address.length };
}

function readEntity(text, at) {
  const match = /^&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|(\w{2,8}));/.exec(text.slice(at, at + 12));
  if (!match) return null;
  const code = match[1] ? parseInt(match[1], 10) : match[2] ? parseInt(match[2], 16) : -1;
  const value = code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : ENTITIES[match[3]];
  return value === undefined ? null : { node: document.createTextNode(value), end: at + match[0].length };
}

// A run of *, _ or ~ that may open or close emphasis, by CommonMark's rules of flanking.
function readDelimiter(text, at) {
  const char = text[at];
  let end = at;
  while (text[end] === char) ++end;
  const before = text[at - 1] ?? " ";
  const after = text[end] ?? " ";
  const space = (c) => /\s/.test(c);
  const mark = (c) => /[\p{P}\p{S}]/u.test(c);
  const left = !space(after) && (!mark(after) || space(before) || mark(before));
  const right = !space(before) && (!mark(before) || space(after) || mark(after));
  const inWord = char === "_";
  return { delimiter: char, count: end - at, opens: left && (!inWord || !right || mark(before)),
    closes: right && (!inWord || !left || mark(after)), end };
}

// Splits a text into nodes and delimiters.
function tokenize(text, depth) {
  const tokens = [];
  let plain = "";
  const flush = () => {
    if (plain) tokens.push({ node: document.createTextNode(plain) });
    plain = "";
  };
  let at = 0;
  while (at < text.length) {
    const char = text[at];
    let found = null;
    if (char === "\\" && /[(\[]/.test(text[at + 1] ?? "")) found = readFormula(text, at);
    if (!found && char === "\\" && /[!-/:-@[-`{-~]/.test(text[at + 1] ?? "")) {
      plain += text[at + 1];
      at += 2;
      continue;
    }
    if (char === "`") {
      found = readCode(text, at);
      if (!found) {
        const run = /^`+/.exec(text.slice(at))[0];
        plain += run;
        at += run.length;
        continue;
      }
    } else if (char === "$") found = readFormula(text, at);
    else if ((char === "[" || (char === "!" && text[at + 1] === "[")) && depth < 4) found = readLink(text, at, depth);
    else if (char === "<" || char === "h") found = readAuto(text, at);
    else if (char === "&") found = readEntity(text, at);
    else if (char === "\n") found = { node: el("br"), end: at + 1 };
    else if (char === "*" || char === "_" || char === "~") {
      found = readDelimiter(text, at);
      if (char === "~" && found.count !== 2) found = null;
    }
    if (!found) {
      plain += char;
      ++at;
      continue;
    }
    flush();
    tokens.push(found);
    at = found.end;
  }
  flush();
  return tokens;
}

// Pairs delimiters with a stack: what closes looks back for the nearest that opens.
function resolve(tokens) {
  const openers = [];
  const out = []; // nodes, and records of openers that are not closed yet
  for (const token of tokens) {
    if (token.node) {
      out.push(token.node);
      continue;
    }
    let left = token.count;
    while (token.closes && left > 0) {
      const index = openers.findLastIndex((o) => o.delimiter === token.delimiter && o.count > 0);
      if (index < 0) break;
      const opener = openers[index];
      const used = Math.min(2, opener.count, left);
      if (token.delimiter === "~" && used < 2) break;
      const begin = out.indexOf(opener) + 1;
      const children = out.splice(begin).map(toNode);
      openers.length = index + 1;
      const tag = token.delimiter === "~" ? "del" : used === 2 ? "strong" : "em";
      out.push(el(tag, {}, children));
      opener.count -= used;
      left -= used;
      if (opener.count === 0) {
        openers.pop();
        out.splice(begin - 1, 1);
      }
    }
    if (left === 0) continue;
    const record = { delimiter: token.delimiter, count: left };
    out.push(record);
    if (token.opens && openers.length < 1000) openers.push(record);
  }
  return out.map(toNode);
}

function toNode(item) {
  return item instanceof Node ? item : document.createTextNode(item.delimiter.repeat(item.count));
}

function parse(text, depth) {
  return resolve(tokenize(text, depth));
}

export function renderInline(text) {
  return parse(text, 0);
}

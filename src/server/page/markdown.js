// Markdown to DOM nodes: CommonMark's blocks, GitHub's tables, task lists and strikethrough, and formulas. The text of a
// model is not trusted: tags stay text, links open http, https and mailto only, and images become links, because loading
// one would tell another server what the model wrote.

import { copyText, el, icon } from "./dom.js";
import { highlight } from "./highlight.js";
import { renderInline } from "./inline.js";
import { renderMath } from "./math.js";

const MAX_DEPTH = 12; // nested quotes and lists; what is deeper is shown as text

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:\s+(.*?))?\s*#*\s*$/;
const RULE = /^ {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(\s+|$)/;
const DELIMITER_ROW = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
const MATH_OPEN = /^ {0,3}(\$\$|\\\[)/;

// The blocks of a text: {type, source, ...}. `source` tells a renderer whether a block has changed.
export function parseBlocks(text) {
  const lines = text.replace(/\r\n?/g, "\n").replace(/\t/g, "    ").split("\n");
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (lines[at].trim() === "") {
      ++at;
      continue;
    }
    const begin = at;
    const block = readFence(lines, at) ?? readMath(lines, at) ?? readLine(lines, at) ?? readQuote(lines, at) ??
      readList(lines, at) ?? readTable(lines, at) ?? readParagraph(lines, at);
    at = block.end;
    block.source = lines.slice(begin, at).join("\n");
    blocks.push(block);
  }
  return blocks;
}

function readFence(lines, at) {
  const open = FENCE.exec(lines[at]);
  if (!open) return null;
  const close = new RegExp(`^ {0,3}\\${open[1][0]}{${open[1].length},}\\s*$`);
  let end = at + 1;
  while (end < lines.length && !close.test(lines[end])) ++end;
  return { type: "code", language: open[2].trim().split(/\s/)[0], text: lines.slice(at + 1, end).join("\n"),
    complete: end < lines.length, end: Math.min(end + 1, lines.length) };
}

function readMath(lines, at) {
  const open = MATH_OPEN.exec(lines[at]);
  if (!open) return null;
  const close = open[1] === "$$" ? "$$" : "\\]";
  const first = lines[at].slice(open[0].length);
  const parts = [];
  for (let end = at; end < lines.length; ++end) {
    const line = end === at ? first : lines[end];
    const found = line.indexOf(close);
    if (found < 0) {
      if (line.trim() === "" && end > at) return null;
      parts.push(line);
      continue;
    }
    // Text after the formula makes it part of a paragraph.
    if (line.slice(found + 2).replace(/^[.,;]/, "").trim() !== "") return null;
    parts.push(line.slice(0, found));
    return { type: "math", text: parts.join("\n").trim(), after: line.slice(found + 2).trim(), end: end + 1 };
  }
  return null;
}

function readLine(lines, at) {
  const heading = HEADING.exec(lines[at]);
  if (heading) return { type: "heading", level: heading[1].length, text: heading[2] ?? "", end: at + 1 };
  if (RULE.test(lines[at])) return { type: "rule", end: at + 1 };
  return null;
}

function readQuote(lines, at) {
  if (!QUOTE.test(lines[at])) return null;
  let end = at;
  while (end < lines.length && lines[end].trim() !== "" && (QUOTE.test(lines[end]) || !startsBlock(lines, end))) ++end;
  return { type: "quote", text: lines.slice(at, end).map((l) => l.replace(QUOTE, "")).join("\n"), end };
}

function readList(lines, at) {
  const first = ITEM.exec(lines[at]);
  if (!first || RULE.test(lines[at])) return null;
  const ordered = /\d/.test(first[2]);
  const marker = first[2].at(-1);
  const items = [];
  let end = at;
  let loose = false;
  while (end < lines.length) {
    const item = ITEM.exec(lines[end]);
    if (!item || item[2].at(-1) !== marker || /\d/.test(item[2]) !== ordered || RULE.test(lines[end])) break;
    const indent = item[3].length > 4 || item[3] === "" ? item[1].length + item[2].length + 1 : item[0].length;
    const content = [lines[end].slice(indent)];
    ++end;
    let blank = false;
    while (end < lines.length) {
      const line = lines[end];
      if (line.trim() === "") {
        blank = true;
        content.push("");
        ++end;
        continue;
      }
      const depth = line.length - line.trimStart().length;
      // Models often indent nested lists by two or three columns only, also after a wider marker.
      const nested = depth >= indent || (depth >= 2 && ITEM.test(line.trimStart()));
      if (!nested && (blank || startsBlock(lines, end) || ITEM.test(line))) break;
      if (blank && nested) loose = loose || !ITEM.test(line.trimStart());
      content.push(nested ? line.slice(Math.min(depth, indent)) : line.trimStart());
      blank = false;
      ++end;
    }
    while (content.length > 1 && content.at(-1) === "") content.pop();
    items.push(content.join("\n"));
    if (blank && end < lines.length && ITEM.test(lines[end])) loose = true;
  }
  return { type: "list", ordered, start: ordered ? parseInt(first[2], 10) : 1, loose, items, end };
}

// The cells of a row; a pipe in a code span or after a backslash does not separate.
export function splitRow(line) {
  const cells = [];
  let cell = "";
  let code = false;
  const text = line.trim().replace(/^\|/, "").replace(/(^|[^\\])\|$/, "$1");
  for (let i = 0; i < text.length; ++i) {
    if (text[i] === "\\" && text[i + 1] === "|") {
      cell += "|";
      ++i;
    } else if (text[i] === "|" && !code) {
      cells.push(cell.trim());
      cell = "";
    } else {
      if (text[i] === "`") code = !code;
      cell += text[i];
    }
  }
  cells.push(cell.trim());
  return cells;
}

function readTable(lines, at) {
  if (at + 1 >= lines.length || !lines[at].includes("|") || !DELIMITER_ROW.test(lines[at + 1])) return null;
  const head = splitRow(lines[at]);
  const rule = splitRow(lines[at + 1]);
  if (head.length !== rule.length) return null;
  const align = rule.map((c) => (c.startsWith(":") && c.endsWith(":") ? "center" : c.endsWith(":") ? "right" : "left"));
  let end = at + 2;
  const rows = [];
  while (end < lines.length && lines[end].trim() !== "" && lines[end].includes("|")) rows.push(splitRow(lines[end++]));
  return { type: "table", head, align, rows, end };
}

function startsBlock(lines, at) {
  const line = lines[at];
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || MATH_OPEN.test(line) ||
    (ITEM.test(line) && !/^ {0,3}\d+[.)]/.test(line)) || /^ {0,3}1[.)]\s/.test(line);
}

function readParagraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && lines[end].trim() !== "") {
    const setext = /^ {0,3}(=+|-+)\s*$/.exec(lines[end]);
    if (setext) return { type: "heading", level: setext[1][0] === "=" ? 1 : 2, text: lines.slice(at, end).join("\n"), end: end + 1 };
    if (startsBlock(lines, end) || (lines[end].includes("|") && readTable(lines, end))) break;
    ++end;
  }
  return { type: "paragraph", text: lines.slice(at, end).map((l) => l.replace(/^ +/, "")).join("\n"), end };
}

export function codeBlock(text, language) {
  const copy = el("button", { type: "button", class: "code-copy", "aria-label": "Copy code" }, icon("copy"), el("span", {}, "Copy"));
  copy.addEventListener("click", async () => {
    await copyText(text);
    copy.lastChild.textContent = "Copied";
    setTimeout(() => (copy.lastChild.textContent = "Copy"), 1500);
  });
  const code = el("code", {}, ...highlight(text, language));
  return el("div", { class: "code" }, el("div", { class: "code-head" }, el("span", {}, language || "text"), copy),
    el("pre", { tabindex: "0", "aria-label": language ? `${language} code` : "code" }, code));
}

function renderList(block, depth) {
  const items = block.items.map((text) => {
    const task = /^\[([ xX])\]\s+/.exec(text);
    const blocks = parseBlocks(task ? text.slice(task[0].length) : text);
    const item = el("li", { class: task ? "task" : undefined });
    if (task) item.append(el("span", { class: task[1] === " " ? "box" : "box done", role: "img", "aria-label": task[1] === " " ? "open" : "done" }));
    for (const inner of blocks) {
      if (inner.type === "paragraph" && !block.loose) item.append(...renderInline(inner.text));
      else item.append(renderBlock(inner, depth + 1));
    }
    return item;
  });
  const list = el(block.ordered ? "ol" : "ul", {}, items);
  if (block.ordered && block.start !== 1) list.start = block.start;
  return list;
}

function renderTable(block) {
  const row = (cells, tag) => el("tr", {}, block.align.map((align, i) =>
    el(tag, { class: align === "left" ? undefined : `align-${align}`, scope: tag === "th" ? "col" : undefined }, ...renderInline(cells[i] ?? ""))));
  return el("div", { class: "table-scroll", tabindex: "0", role: "region", "aria-label": "Table" },
    el("table", {}, el("thead", {}, row(block.head, "th")), el("tbody", {}, block.rows.map((r) => row(r, "td")))));
}

export function renderBlock(block, depth = 0) {
  if (depth > MAX_DEPTH) return el("p", {}, block.source);
  switch (block.type) {
    case "code":
      return codeBlock(block.text, block.language);
    case "math":
      return el("div", { class: "math-block", tabindex: "0", role: "group", "aria-label": "Formula" }, renderMath(block.text, true), block.after);
    case "heading":
      // The page's own headings come first.
      return el(`h${Math.min(block.level + 2, 6)}`, { class: `md-h${block.level}` }, ...renderInline(block.text));
    case "rule":
      return el("hr");
    case "quote":
      return el("blockquote", {}, parseBlocks(block.text).map((b) => renderBlock(b, depth + 1)));
    case "list":
      return renderList(block, depth);
    case "table":
      return renderTable(block);
    default:
      return el("p", {}, ...renderInline(block.text));
  }
}

// Shows a text that grows. Blocks that have not changed keep their nodes, so the cost of an update depends on the last
// block and not on the length of the text.
export class MarkdownView {
  constructor(root) {
    this.root = root;
    this.sources = [];
  }
  update(text) {
    const blocks = parseBlocks(text);
    let same = 0;
    while (same < blocks.length && same < this.sources.length && this.sources[same] === blocks[same].source) ++same;
    while (this.root.childNodes.length > same) this.root.lastChild.remove();
    for (let i = same; i < blocks.length; ++i) this.root.append(renderBlock(blocks[i]));
    this.sources = blocks.map((b) => b.source);
  }
}

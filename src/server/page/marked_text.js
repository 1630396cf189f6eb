// A text field in which parts are marked: what the model wrote, in a text that a person continues and edits. The marks
// are on a copy of the text, which the field covers.

import { el } from "./dom.js";

// The ranges [begin, end] of `before` that are left in `after`, which differs from it by one edit. What was typed inside
// of a range does not belong to it.
export function shiftRanges(ranges, before, after) {
  const limit = Math.min(before.length, after.length);
  let begin = 0;
  while (begin < limit && before[begin] === after[begin]) ++begin;
  let end = 0;
  while (end < limit - begin && before[before.length - 1 - end] === after[after.length - 1 - end]) ++end;
  const resumes = before.length - end;
  const moved = after.length - before.length;
  const left = [];
  for (const [a, b] of ranges) {
    addRange(left, a, Math.min(b, begin));
    addRange(left, Math.max(a, resumes) + moved, b + moved);
  }
  return left;
}

// Extends the last range if it ends where the new one begins. Empty ranges are left out.
export function addRange(ranges, begin, end) {
  const last = ranges.at(-1);
  if (begin >= end) return;
  if (last && last[1] === begin) last[1] = end;
  else ranges.push([begin, end]);
}

export class MarkedText {
  constructor(field) {
    this.field = field;
    this.back = el("div", { class: "completion-back", "aria-hidden": "true" });
    this.node = el("div", { class: "completion-field" }, this.back, field);
    field.addEventListener("scroll", () => this.scroll(), { passive: true });
  }
  show(ranges) {
    const text = this.field.value;
    const parts = [];
    let at = 0;
    for (const [begin, end] of ranges) {
      parts.push(text.slice(at, begin), el("mark", {}, text.slice(begin, end)));
      at = end;
    }
    // A line end at the end has no height without a character.
    this.back.replaceChildren(...parts, `${text.slice(at)}\u200b`);
    this.scroll();
  }
  scroll() {
    this.back.scrollTop = this.field.scrollTop;
  }
}

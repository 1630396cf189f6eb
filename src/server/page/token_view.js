// A response as its tokens. Pointer and arrow keys tell the probability of a token and of the most likely ones at its
// place.

import { announce, el } from "./dom.js";

const percent = (p) => (p >= 0.9995 ? "100 %" : p < 0.001 ? "< 0.1 %" : `${(100 * p).toFixed(1)} %`);
// Spaces and line ends, which would be invisible.
const visible = (text) => text.replaceAll(" ", "·").replaceAll("\n", "↵").replaceAll("\t", "→");

// tokens: [text, probability, [text, probability], …] each
export function tokenView(tokens) {
  const tip = el("div", { class: "token-tip", hidden: true });
  let selected = -1;
  const select = (index, aloud = false) => {
    spans[selected]?.classList.remove("selected");
    selected = index;
    tip.hidden = index < 0;
    if (index < 0) return;
    spans[index].classList.add("selected");
    const [text, probability, ...alternatives] = tokens[index];
    const row = ([each, p]) => el("li", { class: each === text ? "chosen" : undefined }, el("code", {}, visible(each)), el("span", {}, percent(p)));
    const rows = alternatives.some(([each]) => each === text) ? alternatives : [[text, probability], ...alternatives];
    tip.replaceChildren(el("ol", {}, rows.map(row)));
    tip.style.left = `${Math.max(0, Math.min(spans[index].offsetLeft, node.clientWidth - tip.offsetWidth))}px`;
    tip.style.top = `${spans[index].offsetTop + spans[index].offsetHeight + 4}px`;
    if (aloud) announce(`${text}: ${percent(probability)}. Most likely: ${alternatives.map(([each, p]) => `${each} ${percent(p)}`).join(", ")}`);
  };
  const spans = tokens.map(([text, probability], index) => {
    // A line end has a width, so that the pointer finds it.
    const span = el("span", { class: "token" }, text.replaceAll("\n", "↵\n"));
    // Unlikely tokens are underlined more.
    span.style.setProperty("--surprise", (1 - probability).toFixed(2));
    span.addEventListener("pointerenter", () => select(index));
    return span;
  });
  const node = el("div", { class: "tokens", role: "application", tabindex: "0", "aria-label": "Tokens of the response", "aria-roledescription": "text with arrow keys" }, spans, tip);
  node.addEventListener("pointerleave", () => select(-1));
  node.addEventListener("blur", () => select(-1));
  node.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") return select(-1);
    if (move === undefined) return;
    event.preventDefault();
    const to = selected < 0 ? 0 : selected + move;
    if (to >= 0 && to < tokens.length) select(to, true);
  });
  return node;
}

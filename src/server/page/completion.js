// The view for models without a chat template: a text that the model continues.

import { ApiError } from "./api.js";
import { copyText, el, formatCount, formatSeconds, icon, iconButton } from "./dom.js";
import { STREAM, runCompletion } from "./generation.js";
import { MarkedText, addRange, shiftRanges } from "./marked_text.js";
import { openSettings, summarize, toRequest } from "./settings.js";
import { serverGone } from "./shell.js";
import { openingsFor } from "./suggestions.js";

const DEFAULT_MAX_TOKENS = 256;

export class CompletionView {
  // app: {model, changed(conversation)}
  constructor(app) {
    this.app = app;
    this.conversation = null;
    this.running = null; // AbortController
    this.text = el("textarea", { class: "completion-text", "aria-label": "Text", spellcheck: "false",
      placeholder: openingsFor(app.model)[0] });
    this.marked = new MarkedText(this.text);
    this.openings = el("div", { class: "openings", role: "group", "aria-label": "Texts to begin with" }, openingsFor(app.model).map((opening) =>
      el("button", { type: "button", class: "button small", onclick: () => this.begin(opening) }, opening.trim())));
    this.text.addEventListener("input", () => this.onEdit());
    this.text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.toggle();
    });
    this.notice = el("div", { class: "notice-area" });
    this.stats = el("span", { class: "stats", title: "Measured by the server" });
    this.runButton = el("button", { type: "button", class: "button primary run", onclick: () => this.toggle() });
    this.undoButton = iconButton("retry", "Remove the last completion", () => this.undo());
    this.settingsButton = el("button", { type: "button", class: "chip", "aria-label": "Completion settings", onclick: () => this.openSettings() }, icon("sliders"), el("span", {}, "Settings"));
    this.heading = el("div", { class: "completion-head" });
    this.node = el("div", { class: "completion" }, el("div", { class: "column" }, this.heading, this.marked.node, this.openings, this.notice,
      el("div", { class: "completion-bar" }, this.settingsButton, this.stats, el("span", { class: "grow" }), this.undoButton,
        iconButton("copy", "Copy text", () => copyText(this.text.value)), this.runButton)));
  }

  open(conversation) {
    this.stop();
    this.conversation = conversation;
    this.text.value = conversation.text;
    this.notice.replaceChildren();
    this.stats.textContent = "";
    const { model } = this.app;
    this.heading.replaceChildren(el("h1", {}, "Completion"), el("p", {}, el("strong", {}, model.id), " has no chat template. It continues the text that you write, and what it wrote is marked."));
    this.update();
    if (!matchMedia("(pointer: coarse)").matches) this.text.focus();
  }
  // A text of the page, to be continued.
  begin(text) {
    this.text.value = text;
    this.onEdit();
    this.run();
  }
  onEdit() {
    const { conversation } = this;
    conversation.generated = shiftRanges(conversation.generated ?? [], conversation.text, this.text.value);
    conversation.text = this.text.value;
    delete this.conversation.before;
    this.app.changed(this.conversation);
    this.update();
  }
  update() {
    const running = this.running !== null;
    this.runButton.replaceChildren(icon(running ? "stop" : "send"), running ? "Stop" : "Continue");
    this.undoButton.disabled = running || typeof this.conversation.before !== "string";
    this.runButton.disabled = !running && this.text.value === "";
    this.text.readOnly = running;
    this.openings.hidden = this.text.value !== "";
    this.marked.show(this.conversation.generated ?? []);
    const text = summarize(this.conversation);
    this.settingsButton.lastChild.textContent = text ? text.slice(0, 44) : "Settings";
    this.settingsButton.classList.toggle("changed", text !== "");
  }
  openSettings() {
    openSettings(this.conversation, this.app.model, () => {
      this.update();
      if (this.conversation.text) this.app.changed(this.conversation);
    });
  }
  undo() {
    this.text.value = this.conversation.before;
    this.onEdit();
  }
  toggle() {
    if (this.running) this.stop();
    else this.run();
  }
  stop() {
    this.running?.abort();
    this.running = null;
  }

  async run() {
    const { conversation } = this;
    if (this.text.value === "") return;
    const abort = new AbortController();
    this.running = abort;
    conversation.before = this.text.value;
    this.notice.replaceChildren();
    this.update();
    let pending = "";
    let frame = 0;
    const flush = () => {
      frame = 0;
      const stick = this.text.scrollHeight - this.text.scrollTop - this.text.clientHeight < 60;
      conversation.generated ??= [];
      addRange(conversation.generated, conversation.text.length, conversation.text.length + pending.length);
      conversation.text += pending;
      pending = "";
      if (this.conversation !== conversation) return;
      this.text.value = conversation.text;
      this.marked.show(conversation.generated);
      if (stick) this.text.scrollTop = this.text.scrollHeight;
    };
    try {
      const { stats, finish } = await runCompletion({ model: this.app.model.id, prompt: this.text.value, ...STREAM,
        max_tokens: DEFAULT_MAX_TOKENS, ...toRequest(conversation.params, false) }, abort.signal, (text) => {
        pending += text;
        frame ||= requestAnimationFrame(flush);
      });
      const rate = stats.rate ? ` · ${formatCount(stats.rate)} tokens/s` : "";
      this.stats.textContent = `${formatCount(stats.tokens ?? 0)} tokens${rate} · first after ${formatSeconds(stats.ttft ?? NaN)}${finish === "stop" ? " · end of text" : ""}`;
    } catch (error) {
      if (error.name !== "AbortError") this.fail(error);
    }
    cancelAnimationFrame(frame);
    flush();
    if (this.running === abort) this.running = null;
    this.app.changed(conversation);
    if (this.conversation === conversation) this.update();
  }
  fail(error) {
    const kind = error instanceof ApiError ? error.kind : "server";
    if (kind === "network") serverGone();
    const title = kind === "context" ? "The text is too long for this model" : "The text was not continued";
    this.notice.replaceChildren(el("div", { class: "error-card", role: "alert" }, icon("alert"), el("div", {}, el("strong", {}, title), el("p", {}, error.message))));
  }
}

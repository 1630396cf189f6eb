// The chat view: messages, the composer, and the response that is being generated.

import { ApiError } from "./api.js";
import { Attachments } from "./attachments.js";
import { addMessage, removeMessage, toApiMessages, visiblePath } from "./conversation.js";
import { announce, el, formatCount, icon, iconButton } from "./dom.js";
import { STREAM, runChat } from "./generation.js";
import { suggestionsFor } from "./suggestions.js";
import { AssistantMessage, UserMessage } from "./message_view.js";
import { openSettings, summarize, toRequest } from "./settings.js";
import { serverGone } from "./shell.js";
import { save } from "./store.js";

const SAVE_INTERVAL = 1000; // ms between saves while a response arrives
const STICKY = 90; // px from the end within which new text scrolls into view

function facts(model) {
  const size = model.num_parameters >= 1e9 ? `${(model.num_parameters / 1e9).toFixed(1)} B` : `${(model.num_parameters / 1e6).toFixed(1)} M`;
  return [`${size} parameters`, model.quantization || model.dtype, `${formatCount(model.max_model_len)} tokens of context`].join(" · ");
}

export class ChatView {
  // app: {model, changed(conversation), newConversation()}
  constructor(app) {
    this.app = app;
    this.conversation = null;
    this.running = null; // {message, view, abort}
    this.list = el("ol", { class: "messages", "aria-label": "Messages" });
    this.empty = el("div", { class: "empty" });
    this.scroller = el("div", { class: "scroller", tabindex: "-1" }, el("div", { class: "column" }, this.empty, this.list));
    this.jump = iconButton("down", "Jump to the end", () => this.scrollToEnd("smooth"), "icon-button jump");
    this.jump.hidden = true;
    this.scroller.addEventListener("scroll", () => this.onScroll(), { passive: true });
    this.sticky = true;
    this.node = el("div", { class: "chat" }, this.scroller, el("div", { class: "composer-area" }, this.jump));
    this.node.lastChild.append(this.makeComposer());
  }

  makeComposer() {
    this.attachments = new Attachments(this.node, () => this.updateSend());
    this.input = el("textarea", { rows: "1", placeholder: "Message", "aria-label": "Message", enterkeyhint: "send" });
    this.sendButton = el("button", { type: "submit", class: "send", "aria-label": "Send" }, icon("send"));
    this.settingsButton = el("button", { type: "button", class: "chip", "aria-label": "Conversation settings", onclick: () => this.openSettings() }, icon("sliders"), el("span", {}, "Settings"));
    this.meter = el("div", { class: "meter", role: "meter", "aria-label": "Context used", "aria-valuemin": "0", hidden: true }, el("span", { class: "meter-bar" }, el("span", { class: "meter-fill" })), el("span", { class: "meter-text" }));
    const attach = el("button", { type: "button", class: "chip", "aria-label": "Attach text files", title: "Attach text files, or drop them here", onclick: () => this.attachments.input.click() }, icon("attach"), el("span", {}, "Attach"));
    const form = el("form", { class: "composer" }, this.attachments.node, this.input, el("div", { class: "composer-row" }, attach, this.attachments.input, this.settingsButton, this.meter, el("span", { class: "grow" }), this.sendButton));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.running) this.stop();
      else this.send();
    });
    this.input.addEventListener("input", () => this.resizeInput());
    this.input.addEventListener("keydown", (event) => this.onKey(event));
    return form;
  }

  onKey(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && !matchMedia("(pointer: coarse)").matches) {
      event.preventDefault();
      if (!this.running) this.send();
    }
    if (event.key === "ArrowUp" && this.input.value === "") {
      const last = this.views?.findLast((v) => v instanceof UserMessage);
      if (last) {
        event.preventDefault();
        last.edit();
      }
    }
  }
  resizeInput() {
    this.input.style.height = "auto";
    this.input.style.height = `${Math.min(this.input.scrollHeight, 240)}px`;
    this.updateSend();
  }
  updateSend() {
    const running = this.running !== null;
    this.sendButton.replaceChildren(icon(running ? "stop" : "send"));
    this.sendButton.setAttribute("aria-label", running ? "Stop" : "Send");
    this.sendButton.classList.toggle("running", running);
    this.sendButton.disabled = !running && this.input.value.trim() === "" && this.attachments.files.length === 0;
  }

  open(conversation) {
    if (this.running) this.stop();
    this.conversation = conversation;
    this.sticky = true;
    this.renderAll();
    this.scrollToEnd("instant");
    if (!matchMedia("(pointer: coarse)").matches) this.input.focus();
  }

  renderAll() {
    const path = visiblePath(this.conversation);
    this.views = path.map((m) => (m.role === "user" ? new UserMessage(this.conversation, m, this.actions()) : new AssistantMessage(this.conversation, m, this.actions())));
    this.list.replaceChildren(...this.views.map((v) => v.node));
    this.empty.hidden = path.length > 0;
    this.node.classList.toggle("is-empty", path.length === 0);
    if (path.length === 0) this.renderEmpty();
    this.updateMeter();
    this.updateSettings();
    this.resizeInput();
  }
  renderEmpty() {
    const { model } = this.app;
    const cards = suggestionsFor(model).map(([title, rest]) => el("button", { type: "button", class: "suggestion", onclick: () => this.send(`${title} ${rest}.`) }, el("strong", {}, title), el("span", {}, rest)));
    this.empty.replaceChildren(el("h1", {}, "What is on your mind?"), el("p", { class: "empty-model" }, el("strong", {}, model.id), el("span", {}, facts(model))), el("div", { class: "suggestions" }, cards));
  }
  updateSettings() {
    const text = summarize(this.conversation);
    this.settingsButton.lastChild.textContent = text ? (text.length > 44 ? `${text.slice(0, 42)}…` : text) : "Settings";
    this.settingsButton.classList.toggle("changed", text !== "");
    this.settingsButton.title = text || "System prompt and sampling parameters";
  }
  updateMeter() {
    const last = visiblePath(this.conversation).findLast((m) => m.stats?.prompt != null);
    this.meter.hidden = !last;
    if (!last) return;
    const used = last.stats.prompt + (last.stats.tokens ?? 0);
    const max = this.app.model.max_model_len;
    const part = Math.min(1, used / max);
    this.meter.querySelector(".meter-fill").style.width = `${part * 100}%`;
    this.meter.classList.toggle("high", part > 0.85);
    this.meter.lastChild.textContent = `${formatCount(used)} / ${formatCount(max)}`;
    this.meter.title = `${formatCount(used)} of ${formatCount(max)} tokens of context are used`;
    this.meter.setAttribute("aria-valuemax", String(max));
    this.meter.setAttribute("aria-valuenow", String(used));
  }

  actions() {
    return {
      busy: () => this.running !== null,
      branchChanged: () => {
        if (this.running) this.stop();
        this.changed();
        this.renderAll();
      },
      edit: (message, text) => {
        const parent = this.conversation.messages.find((m) => m.id === message.parent) ?? null;
        this.generate(addMessage(this.conversation, parent, "user", text, message.files));
      },
      regenerate: (message) => {
        if (this.running) return;
        const parent = this.conversation.messages.find((m) => m.id === message.parent);
        // A response that failed before its first token is not worth keeping as a version.
        if (message.error && message.content === "" && !message.reasoning) removeMessage(this.conversation, message);
        this.generate(parent);
      },
      resume: (message) => this.resume(message),
      newConversation: () => this.app.newConversation(),
      canShorten: () => visiblePath(this.conversation).length > 2,
      shorten: (message) => this.shorten(message),
      openSettings: () => this.openSettings(),
    };
  }

  openSettings() {
    openSettings(this.conversation, this.app.model, () => {
      this.updateSettings();
      if (this.conversation.messages.length > 0) this.changed();
    });
  }

  send(text = this.input.value.trim()) {
    if ((text === "" && this.attachments.files.length === 0) || this.running) return;
    this.input.value = "";
    this.sticky = true;
    const parent = visiblePath(this.conversation).at(-1) ?? null;
    this.generate(addMessage(this.conversation, parent, "user", text, this.attachments.take()));
  }

  // Generates a response to the user's message.
  generate(userMessage) {
    if (this.running || !userMessage) return;
    const messages = toApiMessages(this.conversation, userMessage);
    const message = addMessage(this.conversation, userMessage, "assistant", "");
    this.start(message, { messages });
  }
  // Continues a response that reached the limit of tokens.
  resume(message) {
    if (this.running) return;
    delete message.finish;
    this.start(message, { messages: toApiMessages(this.conversation, message), add_generation_prompt: false, continue_final_message: true });
  }
  // Leaves the oldest messages out by starting the visible path at a later message, as a new branch.
  shorten(message) {
    const path = visiblePath(this.conversation).slice(0, -1);
    const kept = path.slice(Math.max(1, Math.floor(path.length / 2)));
    while (kept.length > 1 && kept[0].role !== "user") kept.shift();
    removeMessage(this.conversation, message);
    let parent = null;
    for (const old of kept) parent = Object.assign(addMessage(this.conversation, parent, old.role, old.content, old.files), { reasoning: old.reasoning });
    this.generate(parent);
  }

  async start(message, body) {
    const { conversation } = this;
    const abort = new AbortController();
    Object.assign(message, { pending: true, error: undefined, stopped: undefined, interrupted: undefined });
    this.renderAll();
    const view = this.views.find((v) => v.message === message);
    this.running = { message, view, abort, frame: 0 };
    const running = this.running;
    this.updateSend();
    this.scrollToEnd("instant");
    this.changed();
    let saved = performance.now();
    try {
      await runChat({ model: this.app.model.id, ...STREAM, ...toRequest(conversation.params), ...body },
        message, abort.signal, () => {
          running.frame ||= requestAnimationFrame(() => {
            running.frame = 0;
            if (this.running === running) this.renderRunning();
          });
          if (performance.now() - saved > SAVE_INTERVAL) {
            saved = performance.now();
            save(conversation).catch(() => {});
          }
        });
      announce("The response is complete.");
    } catch (error) {
      if (error.name === "AbortError") message.stopped = true;
      else message.error = { kind: error instanceof ApiError ? error.kind : "server", message: error.message };
      if (message.error?.kind === "network") serverGone();
    }
    cancelAnimationFrame(running.frame);
    delete message.pending;
    if (this.running === running) this.running = null;
    this.app.changed(conversation);
    if (this.conversation !== conversation) return;
    view.render();
    this.updateSend();
    this.updateMeter();
    this.keepAtEnd();
  }
  renderRunning() {
    this.running.view.render();
    this.keepAtEnd();
  }

  stop() {
    this.running?.abort.abort();
    this.running = null;
    this.updateSend();
  }
  changed() {
    this.app.changed(this.conversation);
  }

  onScroll() {
    const rest = this.scroller.scrollHeight - this.scroller.scrollTop - this.scroller.clientHeight;
    this.sticky = rest < STICKY;
    this.jump.hidden = this.sticky;
  }
  keepAtEnd() {
    if (this.sticky) this.scroller.scrollTop = this.scroller.scrollHeight;
  }
  scrollToEnd(behavior) {
    this.sticky = true;
    this.scroller.scrollTo({ top: this.scroller.scrollHeight, behavior });
  }
}

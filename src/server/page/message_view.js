// One message of a conversation on the page.

import { choose, siblings, splitReasoning, splitToolCalls } from "./conversation.js";
import { fileChips } from "./attachments.js";
import { append, copyText, el, formatCount, formatSeconds, icon, iconButton } from "./dom.js";
import { jsonTree, parseJson } from "./json_view.js";
import { MarkdownView, codeBlock } from "./markdown.js";
import { tokenView } from "./token_view.js";

const FINISHES = { length: "Stopped at the token limit.", abort: "Aborted by the server.", error: "Ended with an error." };

function toolCard(call) {
  let value;
  try {
    value = JSON.parse(call.arguments || "{}");
  } catch {
    value = undefined; // still arriving
  }
  const body = value !== null && typeof value === "object" ? jsonTree(value) : codeBlock(call.arguments, "json");
  return el("div", { class: "tool-call" }, el("div", { class: "tool-head" }, icon("tool"), el("span", {}, "Tool call"), el("code", {}, call.name)), body);
}

function statsLine(stats) {
  if (!stats || stats.tokens === null) return "";
  const parts = [`${formatCount(stats.tokens)} ${stats.tokens === 1 ? "token" : "tokens"}`];
  if (stats.rate) parts.push(`${stats.rate >= 100 ? formatCount(stats.rate) : stats.rate.toFixed(1)} tokens/s`);
  if (stats.ttft !== null) parts.push(`first after ${formatSeconds(stats.ttft)}`);
  if (stats.cached > 0) parts.push(`${formatCount(stats.cached)} of ${formatCount(stats.prompt)} prompt tokens cached`);
  return parts.join(" · ");
}

// "‹ 2/3 ›" for a message with siblings.
function branchControls(conversation, message, actions) {
  const all = siblings(conversation, message);
  if (all.length < 2) return null;
  const index = all.indexOf(message);
  const go = (step) => () => {
    choose(conversation, all[index + step]);
    actions.branchChanged();
  };
  const previous = iconButton("left", "Previous version", go(-1));
  const next = iconButton("right", "Next version", go(1));
  previous.disabled = index === 0;
  next.disabled = index === all.length - 1;
  return el("div", { class: "branches", role: "group", "aria-label": "Versions" }, previous, el("span", {}, `${index + 1}/${all.length}`), next);
}

export class UserMessage {
  constructor(conversation, message, actions) {
    this.message = message;
    this.actions = actions;
    this.bubble = el("div", { class: "bubble", hidden: message.content === "" }, message.content);
    this.bar = el("div", { class: "message-bar" }, branchControls(conversation, message, actions),
      iconButton("copy", "Copy message", () => copyText(message.content)),
      iconButton("edit", "Edit message", () => this.edit()));
    this.node = el("li", { class: "message user" }, el("article", { "aria-label": "You" }, message.files?.length ? fileChips(message.files) : null, this.bubble, this.bar));
  }
  edit() {
    if (this.actions.busy()) return;
    const field = el("textarea", { class: "edit-field", "aria-label": "Edit message", rows: String(Math.min(12, this.message.content.split("\n").length + 1)) });
    field.value = this.message.content;
    const close = () => form.replaceWith(this.bubble);
    const form = el("form", { class: "edit-form" }, field, el("div", { class: "dialog-actions" },
      el("button", { type: "button", class: "button", onclick: close }, "Cancel"), el("button", { class: "button primary" }, "Send")));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const text = field.value.trim();
      if (text === "" || text === this.message.content) return close();
      this.actions.edit(this.message, text);
    });
    field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        close();
      }
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
    });
    this.bubble.replaceWith(form);
    field.focus();
    field.setSelectionRange(field.value.length, field.value.length);
  }
}

export class AssistantMessage {
  constructor(conversation, message, actions) {
    this.conversation = conversation;
    this.message = message;
    this.actions = actions;
    this.reasoning = el("div", { class: "markdown reasoning-text" });
    this.summary = el("span", {}, "Thinking");
    this.details = el("details", { class: "reasoning", hidden: true }, el("summary", {}, icon("thought"), this.summary), this.reasoning);
    this.body = el("div", { class: "markdown" });
    this.tokens = el("div", { hidden: true });
    this.tools = el("div", { class: "tools" });
    this.notice = el("div", { class: "notice-area" });
    this.bar = el("div", { class: "message-bar" });
    this.article = el("article", { "aria-label": "Assistant" }, this.details, this.body, this.tokens, this.tools, this.notice, this.bar);
    this.node = el("li", { class: "message assistant" }, this.article);
    this.view = new MarkdownView(this.body);
    this.reasoningView = new MarkdownView(this.reasoning);
    this.render();
  }

  // Shows the current text. Called for each frame while the response arrives.
  render() {
    const { message } = this;
    const pending = message.pending === true;
    const split = message.reasoning ? { reasoning: message.reasoning, content: message.content, open: pending && message.content === "" }
      : splitReasoning(message.content);
    const { calls, rest } = splitToolCalls(split.content);
    this.renderReasoning(split, pending);
    const json = pending ? undefined : parseJson(rest);
    if (json !== undefined) this.renderJson(json, rest);
    else this.view.update(rest);
    const allCalls = [...(message.toolCalls ?? []).filter(Boolean), ...calls];
    this.tools.replaceChildren(...allCalls.map(toolCard));
    const waiting = pending && rest === "" && split.reasoning === "" && allCalls.length === 0;
    this.article.classList.toggle("waiting", waiting);
    this.article.classList.toggle("streaming", pending && !waiting);
    if (!pending) this.renderEnd();
    else {
      this.bar.replaceChildren();
      this.showTokens(false);
    }
  }

  renderReasoning(split, pending) {
    this.details.hidden = split.reasoning.trim() === "";
    if (this.details.hidden) return;
    this.reasoningView.update(split.reasoning);
    const seconds = this.message.thoughtSeconds;
    this.summary.textContent = split.open && pending ? "Thinking…" : seconds ? `Thought for ${formatSeconds(seconds)}` : "Reasoning";
  }

  renderJson(value, source) {
    const raw = codeBlock(source.trim(), "json");
    const tree = jsonTree(value);
    raw.hidden = true;
    const toggle = el("button", { type: "button", class: "link-button", "aria-pressed": "false" }, "Show source");
    toggle.addEventListener("click", () => {
      raw.hidden = !raw.hidden;
      tree.hidden = !tree.hidden;
      toggle.setAttribute("aria-pressed", String(tree.hidden));
    });
    this.body.replaceChildren(tree, raw, toggle);
    this.view = new MarkdownView(this.body);
  }

  renderEnd() {
    const { message, actions } = this;
    this.notice.replaceChildren();
    if (message.error) this.notice.append(this.errorNotice(message.error));
    else if (message.stopped) this.notice.append(el("p", { class: "note" }, "Stopped."));
    else if (message.interrupted) this.notice.append(el("p", { class: "note" }, "The page was closed before the response was complete."));
    else if (FINISHES[message.finish]) {
      this.notice.append(el("p", { class: "note" }, FINISHES[message.finish], " ",
        message.finish === "length" ? el("button", { type: "button", class: "link-button", onclick: () => actions.resume(message) }, "Continue") : null));
    }
    if (!message.error && message.content === "" && !message.reasoning && !message.stopped && !(message.toolCalls ?? []).length)
      this.notice.append(el("p", { class: "note" }, "The model ended its response without any text."));
    this.bar.replaceChildren();
    const probabilities = message.logprobs?.length ? iconButton("bars", "Probabilities", () => this.showTokens(this.tokens.hidden)) : null;
    if (probabilities) this.showTokens(true);
    append(this.bar, [branchControls(this.conversation, message, actions),
      iconButton("copy", "Copy response", () => copyText(splitReasoning(message.content).content)),
      iconButton("retry", "Regenerate", () => actions.regenerate(message)), probabilities,
      el("span", { class: "stats", title: "Measured by the server" }, statsLine(message.stats))]);
  }

  // The tokens with their probabilities instead of the formatted text.
  showTokens(shown) {
    this.tokens.replaceChildren(...(shown ? [tokenView(this.message.logprobs)] : []));
    this.tokens.hidden = !shown;
    this.body.hidden = shown;
  }

  errorNotice(error) {
    const { actions, message } = this;
    const retry = el("button", { type: "button", class: "button small", onclick: () => actions.regenerate(message) }, "Try again");
    const fresh = el("button", { type: "button", class: "button small", onclick: () => actions.newConversation() }, "New conversation");
    const titles = { network: "Connection lost", key: "Not authorized", context: "The conversation is too long for this model", busy: "The server is busy", server: "The server failed", request: "The server refused the request" };
    const buttons = error.kind === "context" ? [fresh, actions.canShorten() ? el("button", { type: "button", class: "button small", onclick: () => actions.shorten(message) }, "Drop the oldest messages") : null]
      : error.kind === "request" ? [el("button", { type: "button", class: "button small", onclick: () => actions.openSettings() }, "Settings"), retry] : [retry];
    const text = error.kind === "network" && message.content ? `${error.message} The text up to here is kept.` : error.message;
    return el("div", { class: "error-card", role: "alert" }, icon("alert"), el("div", {}, el("strong", {}, titles[error.kind] ?? "Error"), el("p", {}, text), el("div", { class: "error-actions" }, buttons)));
  }
}

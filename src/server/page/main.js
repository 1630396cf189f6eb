// Starts the page: loads the model's properties and the conversations, and shows what the address names:
//   #/ a new conversation   #/c/ID a stored one   #/engine the live view

import * as api from "./api.js";
import { ChatView } from "./chat.js";
import { CompletionView } from "./completion.js";
import { newConversation, titleOf } from "./conversation.js";
import { el, icon, iconButton, toast } from "./dom.js";
import { EngineView } from "./engine_view.js";
import { askForKey, serverGone, showShortcuts } from "./shell.js";
import { Sidebar } from "./sidebar.js";
import * as store from "./store.js";

const root = document.getElementById("app");

class App {
  constructor(model) {
    this.model = model;
    this.conversations = [];
    this.current = null;
    this.generates = model.task === "generate" && model.has_tokenizer;
    this.chats = this.generates && model.has_chat_template;
    this.view = this.chats ? new ChatView(this) : new CompletionView(this);
    this.engine = new EngineView(this);
    this.sidebar = new Sidebar(this);
    this.build();
  }

  build() {
    this.title = el("h1", { class: "top-title" });
    this.tabs = [el("a", { href: "#/", class: "tab" }, icon("chat"), this.chats ? "Chat" : "Text"), el("a", { href: "#/engine", class: "tab" }, icon("engine"), "Engine")];
    this.main = el("main", { id: "main", tabindex: "-1" });
    const top = el("header", { class: "top" }, iconButton("menu", "Conversations", () => this.toggleSidebar(), "icon-button menu-button"),
      this.title, el("span", { class: "grow" }), el("nav", { class: "tabs", "aria-label": "Views" }, this.tabs), el("span", { class: "top-model", title: this.model.architecture }, this.model.id));
    this.scrim = el("div", { class: "scrim", onclick: () => this.close() });
    root.replaceChildren(this.sidebar.node, this.scrim, el("div", { class: "page" }, top, this.main));
    root.removeAttribute("aria-busy");
    addEventListener("hashchange", () => this.route());
    addEventListener("keydown", (event) => this.onKey(event));
    store.onOtherTab(() => this.reload());
  }

  async start() {
    const transient = await store.openStore();
    if (transient) toast("This browser does not store data for this page: conversations end with the tab.");
    this.conversations = await store.loadAll();
    for (const conversation of this.conversations) for (const message of conversation.messages) {
      // The page was closed while the response arrived.
      if (message.pending) {
        delete message.pending;
        message.interrupted = true;
      }
    }
    this.route();
  }

  route() {
    const hash = location.hash || "#/";
    this.close();
    const live = hash === "#/engine";
    this.tabs.forEach((tab, i) => (live === (i === 1) ? tab.setAttribute("aria-current", "page") : tab.removeAttribute("aria-current")));
    if (live) return this.showEngine();
    this.engine.stop();
    const id = /^#\/c\/(\w+)$/.exec(hash)?.[1];
    const found = id ? this.conversations.find((c) => c.id === id) : null;
    if (id && !found) {
      toast("This conversation is not in this browser.");
      return location.replace("#/");
    }
    if (found && found === this.current && this.main.contains(this.view.node)) return;
    this.show(found ?? newConversation(this.chats ? "chat" : "completion"));
  }
  show(conversation) {
    this.current = conversation;
    if (!this.generates) return this.showNoChat();
    if (this.main.firstChild !== this.view.node) this.main.replaceChildren(this.view.node);
    this.view.open(conversation);
    this.updateTitle();
    this.sidebar.render();
  }
  showEngine() {
    this.main.replaceChildren(this.engine.node);
    this.title.textContent = "Engine";
    document.title = "Engine – quire";
    this.sidebar.render();
    this.engine.start();
  }
  // Between the live view and the conversation that was open before.
  switchView() {
    const stored = this.current && this.conversations.includes(this.current);
    location.hash = location.hash !== "#/engine" ? "#/engine" : stored ? `#/c/${this.current.id}` : "#/";
  }
  showNoChat() {
    const what = this.model.task === "embed" ? "returns embeddings" : this.model.task === "score" ? "scores texts" : "has no tokenizer";
    this.main.replaceChildren(el("div", { class: "empty" }, el("h1", {}, "No chat with this model"), el("p", {}, `${this.model.id} ${what}, so there is nothing to chat with.`)));
    this.sidebar.render();
  }
  updateTitle() {
    this.tabs[0].href = this.conversations.includes(this.current) ? `#/c/${this.current.id}` : "#/";
    if (location.hash === "#/engine") return;
    const stored = this.conversations.includes(this.current);
    this.title.textContent = stored ? titleOf(this.current) : "New conversation";
    document.title = stored ? `${titleOf(this.current)} – quire` : "quire";
  }

  newConversation() {
    this.current = null;
    if (location.hash === "#/" || location.hash === "") this.route();
    else location.hash = "#/";
  }
  // Stores a conversation after a change, and lists it from its first message on.
  changed(conversation, touch = true) {
    if (touch) conversation.updated = Date.now();
    if (!this.conversations.includes(conversation)) {
      this.conversations.unshift(conversation);
      if (location.hash !== "#/engine") history.replaceState(null, "", `#/c/${conversation.id}`);
    } else if (touch) {
      this.conversations.sort((a, b) => b.updated - a.updated);
    }
    store.save(conversation).catch((error) => toast(`The conversation cannot be stored: ${error.message}`));
    this.sidebar.render();
    this.updateTitle();
  }
  async delete(conversation) {
    this.conversations = this.conversations.filter((c) => c !== conversation);
    await store.remove(conversation.id);
    if (conversation === this.current) this.newConversation();
    this.sidebar.render();
  }
  // Another tab, or an import, has changed the stored conversations. The open one keeps its object.
  async reload() {
    const loaded = await store.loadAll();
    this.conversations = loaded.map((c) => (c.id === this.current?.id ? this.current : c));
    this.sidebar.render();
  }

  toggleSidebar() {
    document.body.classList.toggle("sidebar-open");
    if (document.body.classList.contains("sidebar-open")) this.sidebar.node.querySelector("button").focus();
  }
  close() {
    document.body.classList.remove("sidebar-open");
  }

  onKey(event) {
    const control = event.ctrlKey || event.metaKey;
    const typing = /^(TEXTAREA|INPUT|SELECT)$/.test(event.target.tagName);
    if (event.key === "Escape") {
      if (document.body.classList.contains("sidebar-open")) this.close();
      else if (this.view.running && !document.querySelector("dialog[open]")) this.view.stop();
    } else if (control && event.shiftKey && event.key.toLowerCase() === "o") this.newConversation();
    else if (control && event.key.toLowerCase() === "k") {
      document.body.classList.add("sidebar-open");
      this.sidebar.search.focus();
    } else if (control && event.key === "," && this.generates) this.view.openSettings();
    else if (control && event.key.toLowerCase() === "e") this.switchView();
    else if (event.key === "?" && !typing && !document.querySelector("dialog[open]")) showShortcuts();
    else return;
    if (event.key !== "Escape") event.preventDefault();
  }
}

async function loadModel() {
  while (true) {
    try {
      return await api.getJson("internal/model");
    } catch (error) {
      if (error.kind !== "network") throw error;
      await new Promise((resolve) => serverGone(resolve));
    }
  }
}

async function start() {
  api.onKeyNeeded(askForKey);
  try {
    const app = new App(await loadModel());
    await app.start();
  } catch (error) {
    root.replaceChildren(el("div", { class: "boot failed", role: "alert" }, icon("alert"), el("h1", {}, "The page cannot start"), el("p", {}, error.message),
      el("button", { type: "button", class: "button", onclick: () => location.reload() }, "Try again")));
  }
}

start();

// The list of conversations.

import { fromExport, titleOf, toMarkdown } from "./conversation.js";
import { download, el, icon, iconButton, labeledButton, toast } from "./dom.js";
import { confirmDialog, promptDialog, showShortcuts, themeButton } from "./shell.js";
import { save } from "./store.js";

const DAY = 24 * 3600 * 1000;

function groupOf(time) {
  const today = new Date().setHours(0, 0, 0, 0);
  if (time >= today) return "Today";
  if (time >= today - DAY) return "Yesterday";
  if (time >= today - 7 * DAY) return "Last week";
  return "Older";
}

function fileName(conversation, ending) {
  const name = titleOf(conversation).toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 40);
  return `${name || "conversation"}.${ending}`;
}

export class Sidebar {
  // app: {conversations, current, open(c), newConversation(), delete(c), changed(c), reload(), close()}
  constructor(app) {
    this.app = app;
    this.list = el("div", { class: "conversation-list" });
    this.search = el("input", { type: "search", placeholder: "Search", "aria-label": "Search conversations" });
    this.search.addEventListener("input", () => this.render());
    const file = el("input", { type: "file", accept: "application/json,.json", hidden: true, "aria-label": "Import conversations" });
    file.addEventListener("change", () => this.import(file));
    this.node = el("nav", { class: "sidebar", id: "sidebar", "aria-label": "Conversations" },
      el("div", { class: "brand" }, el("img", { src: "ui/icon.svg", alt: "", width: "26", height: "26" }), el("span", {}, "quire"), el("span", { class: "grow" }),
        iconButton("close", "Close the list", () => app.close(), "icon-button only-narrow")),
      el("button", { type: "button", class: "button new", onclick: () => app.newConversation() }, icon("plus"), "New conversation"),
      el("div", { class: "search" }, icon("search"), this.search), this.list,
      el("div", { class: "sidebar-foot" }, themeButton(), labeledButton("export", "Export", "Export all conversations", () => this.exportAll()),
        labeledButton("import", "Import", "Import conversations", () => file.click()), labeledButton("help", "Keyboard", "Keyboard shortcuts", showShortcuts), file));
  }

  render() {
    const wanted = this.search.value.trim().toLowerCase();
    const matches = (c) => wanted === "" || titleOf(c).toLowerCase().includes(wanted) || c.text.toLowerCase().includes(wanted) ||
      c.messages.some((m) => m.content.toLowerCase().includes(wanted));
    const shown = this.app.conversations.filter(matches);
    const nodes = [];
    let group = "";
    let list = null;
    for (const conversation of shown) {
      if (groupOf(conversation.updated) !== group) {
        group = groupOf(conversation.updated);
        list = el("ul", { "aria-label": group });
        nodes.push(el("h2", {}, group), list);
      }
      list.append(this.row(conversation));
    }
    if (nodes.length === 0) nodes.push(el("p", { class: "list-empty" }, wanted ? "No conversation contains this." : "Your conversations are kept in this browser and appear here."));
    this.list.replaceChildren(...nodes);
  }

  row(conversation) {
    const current = conversation === this.app.current;
    const open = el("a", { href: `#/c/${conversation.id}`, "aria-current": current ? "page" : undefined, title: titleOf(conversation) }, titleOf(conversation));
    const menu = el("details", { class: "row-menu" }, el("summary", { "aria-label": `Actions for ${titleOf(conversation)}` }, icon("more")));
    const act = (label, name, action) => el("button", { type: "button", onclick: () => {
      menu.open = false;
      action();
    } }, icon(name), label);
    menu.append(el("div", { class: "menu" }, act("Rename", "edit", () => this.rename(conversation)),
      act("Export as Markdown", "export", () => download(fileName(conversation, "md"), "text/markdown", toMarkdown(conversation))),
      act("Export as JSON", "export", () => download(fileName(conversation, "json"), "application/json", JSON.stringify(conversation, null, 2))),
      act("Delete", "trash", () => this.delete(conversation))));
    menu.addEventListener("focusout", (event) => {
      if (!menu.contains(event.relatedTarget)) menu.open = false;
    });
    menu.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !menu.open) return;
      event.stopPropagation();
      menu.open = false;
      menu.firstChild.focus();
    });
    return el("li", { class: current ? "current" : undefined }, open, menu);
  }

  async rename(conversation) {
    const title = await promptDialog("Rename", "Title", titleOf(conversation));
    if (title === null) return;
    conversation.title = title.trim();
    this.app.changed(conversation, false);
  }
  async delete(conversation) {
    if (await confirmDialog("Delete this conversation?", `“${titleOf(conversation)}” will be removed from this browser.`, "Delete")) this.app.delete(conversation);
  }
  exportAll() {
    if (this.app.conversations.length === 0) return toast("There is no conversation to export.");
    download("quire-conversations.json", "application/json", JSON.stringify({ conversations: this.app.conversations }, null, 2));
  }
  async import(file) {
    try {
      const conversations = fromExport(await file.files[0].text());
      for (const conversation of conversations) await save(conversation);
      toast(`${conversations.length} ${conversations.length === 1 ? "conversation" : "conversations"} imported.`);
      await this.app.reload();
    } catch (error) {
      toast(`The file cannot be imported: ${error.message}`);
    }
    file.value = "";
  }
}

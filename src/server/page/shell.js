// Theme, API key, notices and dialogs, which all views share.

import * as api from "./api.js";
import { el, icon, iconButton, labeledButton } from "./dom.js";

const THEMES = ["auto", "light", "dark"];
const THEME_ICONS = { auto: "auto", light: "sun", dark: "moon" };
const themeListeners = new Set();

export function onThemeChange(callback) {
  themeListeners.add(callback);
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => themeListeners.forEach((f) => f()));

function currentTheme() {
  return document.documentElement.dataset.theme ?? "auto";
}

export function themeButton() {
  const button = labeledButton(THEME_ICONS[currentTheme()], "Theme", "", () => {
    const next = THEMES[(THEMES.indexOf(currentTheme()) + 1) % THEMES.length];
    if (next === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    try {
      localStorage.setItem("quire-theme", next);
    } catch {
      // Storage may be blocked; the choice then lasts until the page is closed.
    }
    show();
    themeListeners.forEach((f) => f());
  });
  const show = () => {
    const label = `Theme: ${currentTheme() === "auto" ? "as the system" : currentTheme()}`;
    button.setAttribute("aria-label", label);
    button.title = label;
    button.firstChild.replaceWith(icon(THEME_ICONS[currentTheme()]));
  };
  show();
  return button;
}

// A modal dialog with a title and a close button; removed when it is closed.
export function openDialog(title, content, { className = "", closable = true } = {}) {
  const id = `dialog-${Math.random().toString(36).slice(2)}`;
  const dialog = el("dialog", { class: `dialog ${className}`, "aria-labelledby": id });
  const close = closable ? iconButton("close", "Close", () => dialog.close()) : null;
  dialog.append(el("div", { class: "dialog-head" }, el("h2", { id }, title), close), content);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("cancel", (event) => {
    if (!closable) event.preventDefault();
  });
  dialog.addEventListener("click", (event) => {
    if (closable && event.target === dialog) dialog.close();
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

// Resolves to whether the user agreed.
export function confirmDialog(title, text, action) {
  return new Promise((resolve) => {
    let agreed = false;
    const content = el("div", {}, el("p", {}, text), el("div", { class: "dialog-actions" },
      el("button", { type: "button", class: "button", onclick: () => dialog.close() }, "Cancel"),
      el("button", { type: "button", class: "button danger", onclick: () => { agreed = true; dialog.close(); } }, action)));
    const dialog = openDialog(title, content, { className: "small" });
    dialog.addEventListener("close", () => resolve(agreed));
  });
}

export function promptDialog(title, label, value) {
  return new Promise((resolve) => {
    let result = null;
    const input = el("input", { type: "text", id: "prompt-input", maxlength: "200" });
    input.value = value;
    const form = el("form", { method: "dialog", onsubmit: () => (result = input.value) }, el("label", { for: "prompt-input" }, label), input,
      el("div", { class: "dialog-actions" }, el("button", { type: "button", class: "button", onclick: () => dialog.close() }, "Cancel"),
        el("button", { class: "button primary" }, "Save")));
    const dialog = openDialog(title, form, { className: "small" });
    dialog.addEventListener("close", () => resolve(result));
    input.select();
  });
}

let keyDialog = null;

// Asks for an API key; resolves when one was entered. Requests that fail at the same time share one dialog.
export function askForKey(refused) {
  keyDialog ??= new Promise((resolve) => {
    const input = el("input", { type: "password", id: "key-input", autocomplete: "off", spellcheck: "false", required: true });
    const form = el("form", {},
      el("p", { id: "key-text" }, "This server accepts requests with an API key only. The key stays in this tab and is forgotten when you close it."),
      el("label", { for: "key-input" }, "API key"), input,
      refused ? el("p", { class: "field-error", role: "alert" }, "The server did not accept this key.") : null,
      el("div", { class: "dialog-actions" }, el("button", { class: "button primary" }, icon("key"), "Connect")));
    const dialog = openDialog("Connect to this server", form, { className: "small", closable: false });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const key = input.value.trim();
      if (key === "") return;
      api.storeKey(key);
      dialog.close();
      keyDialog = null;
      resolve();
    });
    input.focus();
  });
  return keyDialog;
}

// The bar that is shown while the server does not respond. Checks it until it does, and calls back everyone who has asked.
let banner = null;
let waiting = [];
export function serverGone(onBack) {
  if (onBack) waiting.push(onBack);
  if (banner !== null) return;
  banner = el("div", { class: "banner", role: "alert" }, icon("alert"), el("span", {}, "The server cannot be reached. Trying again…"));
  document.body.prepend(banner);
  const check = async () => {
    if (!(await api.isHealthy())) return setTimeout(check, 2000);
    banner.remove();
    banner = null;
    const callbacks = waiting;
    waiting = [];
    callbacks.forEach((f) => f());
  };
  setTimeout(check, 1000);
}

const SHORTCUTS = [
  ["Enter", "Send the message"], ["Shift + Enter", "New line"], ["Esc", "Stop generating"], ["↑ in an empty field", "Edit the last message"],
  ["Ctrl + Shift + O", "New conversation"], ["Ctrl + K", "Search conversations"], ["Ctrl + ,", "Settings of the conversation"],
  ["Ctrl + E", "Switch between chat and engine"], ["?", "This list"],
];

export function showShortcuts() {
  openDialog("Keyboard", el("dl", { class: "shortcuts" }, SHORTCUTS.map(([keys, text]) => [el("dt", {}, el("kbd", {}, keys)), el("dd", {}, text)])), { className: "small" });
}

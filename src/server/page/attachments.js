// Text files that are sent with a message: dropped on the chat, or chosen.

import { el, formatBytes, icon, toast } from "./dom.js";

const MAX_BYTES = 256 * 1024; // largest file; longer texts exceed the context of most models

// Throws an Error that says why the file is not attached.
export async function readTextFile(file) {
  if (file.size > MAX_BYTES) throw new Error(`${file.name} has ${formatBytes(file.size)}, the limit is ${formatBytes(MAX_BYTES)}.`);
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    if (!text.includes("\0")) return { name: file.name, text };
  } catch {
    // Not UTF-8.
  }
  throw new Error(`${file.name} is not a text file.`);
}

// The text of a message with its files, as the model sees it.
export function withFiles({ content, files }) {
  const parts = (files ?? []).map(({ name, text }) => `File ${name}:\n\n${text}`);
  return [...parts, content].filter((part) => part !== "").join("\n\n");
}

export function fileChips(files, onRemove) {
  return el("ul", { class: "files", "aria-label": "Attached files" }, files.map((file) => el("li", { class: "file" }, icon("file"), el("span", {}, file.name),
    onRemove ? el("button", { type: "button", class: "file-remove", "aria-label": `Remove ${file.name}`, onclick: () => onRemove(file) }, icon("close")) : null)));
}

export class Attachments {
  // area: the element on which files are dropped
  constructor(area, onChange) {
    this.files = [];
    this.onChange = onChange;
    this.node = el("div", { class: "attachments", hidden: true });
    this.input = el("input", { type: "file", multiple: true, hidden: true, "aria-label": "Attach text files" });
    this.input.addEventListener("change", () => this.add([...this.input.files]));
    const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
    area.addEventListener("dragover", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      area.classList.add("dropping");
    });
    area.addEventListener("dragleave", (event) => {
      if (!area.contains(event.relatedTarget)) area.classList.remove("dropping");
    });
    area.addEventListener("drop", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      area.classList.remove("dropping");
      this.add([...event.dataTransfer.files]);
    });
  }
  async add(files) {
    for (const file of files) {
      try {
        this.files.push(await readTextFile(file));
      } catch (error) {
        toast(error.message);
      }
    }
    this.input.value = "";
    this.render();
  }
  take() {
    const files = this.files;
    this.files = [];
    this.render();
    return files;
  }
  render() {
    this.node.hidden = this.files.length === 0;
    this.node.replaceChildren(fileChips(this.files, (file) => {
      this.files = this.files.filter((f) => f !== file);
      this.render();
    }));
    this.onChange();
  }
}

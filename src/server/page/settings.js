// The system prompt and the sampling parameters of a conversation. An empty field means the server's default.

import { el } from "./dom.js";
import { openDialog } from "./shell.js";

const NUMBERS = [
  ["temperature", "Temperature", 0, 2, 0.05, "Randomness. 0 always takes the most likely token."],
  ["top_p", "Top-p", 0.01, 1, 0.01, "Sample from the most likely tokens whose probabilities add up to this."],
  ["top_k", "Top-k", 0, 1000, 1, "Sample from this many tokens. 0 = all."],
  ["min_p", "Min-p", 0, 1, 0.01, "Drop tokens less likely than this fraction of the most likely one."],
  ["max_tokens", "Max tokens", 1, 1000000, 1, "Longest response, in tokens."],
  ["repetition_penalty", "Repetition penalty", 0.5, 2, 0.01, "Above 1: repeat less, prompt included."],
  ["presence_penalty", "Presence penalty", -2, 2, 0.05, "Above 0: prefer tokens that the response does not have yet."],
  ["frequency_penalty", "Frequency penalty", -2, 2, 0.05, "Above 0: avoid tokens the more often the response has them."],
  ["seed", "Seed", 0, 9007199254740991, 1, "The same seed and prompt give the same response."],
];

const NUM_ALTERNATIVES = 5;

// The fields of a request for these settings.
export function toRequest(params, chat = true) {
  const fields = {};
  for (const [name] of NUMBERS) if (typeof params[name] === "number") fields[name] = params[name];
  if (params.stop?.length) fields.stop = params.stop;
  if (params.alternatives && chat) Object.assign(fields, { logprobs: true, top_logprobs: NUM_ALTERNATIVES });
  return fields;
}

// "temperature 0.2 · top-k 40": what differs from the defaults.
export function summarize(conversation) {
  const parts = conversation.system?.trim() ? ["system prompt"] : [];
  for (const [name, label] of NUMBERS) if (typeof conversation.params[name] === "number") parts.push(`${label.toLowerCase()} ${conversation.params[name]}`);
  if (conversation.params.stop?.length) parts.push("stop strings");
  if (conversation.params.alternatives) parts.push("probabilities");
  return parts.join(" · ");
}

function numberField([name, label, min, max, step, help], params, defaults) {
  const id = `param-${name}`;
  const standard = defaults[name];
  const input = el("input", { type: "number", id, min: String(min), max: String(max), step: String(step), inputmode: "decimal",
    "aria-describedby": `${id}-help`, placeholder: standard === undefined ? (name === "max_tokens" ? "no limit" : "random") : String(Number(standard.toPrecision(4))) });
  if (typeof params[name] === "number") input.value = String(params[name]);
  return { name, input, node: el("div", { class: "field" }, el("label", { for: id }, label), input, el("p", { class: "field-help", id: `${id}-help` }, help)) };
}

// Calls onChange after a field has changed.
export function openSettings(conversation, model, onChange) {
  const chat = conversation.kind === "chat";
  const system = el("textarea", { id: "system-prompt", rows: "4", placeholder: "You are a helpful assistant." });
  system.value = conversation.system ?? "";
  const defaults = { ...model.default_sampling };
  if (!chat) defaults.max_tokens = 256;
  const fields = NUMBERS.map((f) => numberField(f, conversation.params, defaults));
  const stop = el("textarea", { id: "stop-strings", rows: "2", spellcheck: "false" });
  stop.value = (conversation.params.stop ?? []).join("\n");
  const alternatives = el("input", { type: "checkbox", id: "alternatives", checked: conversation.params.alternatives === true });
  const read = () => {
    conversation.system = system.value;
    for (const { name, input } of fields) {
      const value = input.value === "" ? NaN : Number(input.value);
      const valid = Number.isFinite(value) && input.validity.valid;
      input.setAttribute("aria-invalid", String(input.value !== "" && !input.validity.valid));
      if (valid) conversation.params[name] = value;
      else if (input.value === "") delete conversation.params[name];
    }
    conversation.params.stop = stop.value.split("\n").filter((line) => line !== "");
    if (alternatives.checked) conversation.params.alternatives = true;
    else delete conversation.params.alternatives;
    onChange();
  };
  const reset = el("button", { type: "button", class: "button", onclick: () => {
    system.value = "";
    stop.value = "";
    alternatives.checked = false;
    for (const { input } of fields) input.value = "";
    read();
  } }, "Reset to defaults");
  const form = el("form", { class: "settings", oninput: read, method: "dialog" },
    chat ? el("div", { class: "field wide" }, el("label", { for: "system-prompt" }, "System prompt"), system) : null,
    el("div", { class: "field-grid" }, fields.map((f) => f.node)),
    el("div", { class: "field wide" }, el("label", { for: "stop-strings" }, "Stop strings, one per line"), stop),
    chat ? el("div", { class: "field wide check" }, alternatives, el("label", { for: "alternatives" }, `Show the ${NUM_ALTERNATIVES} most likely tokens under the pointer`)) : null,
    el("div", { class: "dialog-actions" }, reset, el("button", { class: "button primary" }, "Done")));
  openDialog(chat ? "Conversation settings" : "Completion settings", form, { className: "wide" });
}

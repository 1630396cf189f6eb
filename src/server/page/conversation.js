// A conversation is a tree of messages: editing a message or regenerating a response adds a sibling, and `chosen` says
// which child of each message is shown. Plain data, so that it can be stored and exported as it is.

import { withFiles } from "./attachments.js";
import { newId } from "./store.js";

const ROOT = "root";

export function newConversation(kind) {
  const now = Date.now();
  return { id: newId(), kind, title: "", created: now, updated: now, system: "", params: {}, messages: [], chosen: {}, text: "" };
}

// files: [{name, text}], only of the user
export function addMessage(conversation, parent, role, content, files = []) {
  const message = { id: newId(), parent: parent?.id ?? ROOT, role, content, reasoning: "", toolCalls: [], created: Date.now(), ...(files.length > 0 ? { files } : {}) };
  conversation.messages.push(message);
  conversation.chosen[message.parent] = message.id;
  return message;
}

export function siblings(conversation, message) {
  return conversation.messages.filter((m) => m.parent === message.parent && m.role === message.role);
}

export function choose(conversation, message) {
  conversation.chosen[message.parent] = message.id;
}

// The messages that are shown, first to last.
export function visiblePath(conversation) {
  const path = [];
  let parent = ROOT;
  while (path.length <= conversation.messages.length) {
    const children = conversation.messages.filter((m) => m.parent === parent);
    if (children.length === 0) break;
    const next = children.find((m) => m.id === conversation.chosen[parent]) ?? children.at(-1);
    path.push(next);
    parent = next.id;
  }
  return path;
}

export function findMessage(conversation, id) {
  return conversation.messages.find((m) => m.id === id) ?? null;
}

// Removes a message and everything after it.
export function removeMessage(conversation, message) {
  const gone = new Set([message.id]);
  for (const m of conversation.messages) if (gone.has(m.parent)) gone.add(m.id);
  conversation.messages = conversation.messages.filter((m) => !gone.has(m.id));
  for (const id of gone) delete conversation.chosen[id];
  if (gone.has(conversation.chosen[message.parent])) delete conversation.chosen[message.parent];
}

// Messages for the API: the system prompt and the visible path up to, and including, `last`.
export function toApiMessages(conversation, last) {
  const messages = [];
  if (conversation.system.trim()) messages.push({ role: "system", content: conversation.system });
  for (const message of visiblePath(conversation)) {
    if (!(message.role === "assistant" && message.content === "" && message.id !== last.id))
      messages.push({ role: message.role, content: withFiles(message) });
    if (message.id === last.id) break;
  }
  return messages;
}

export function titleOf(conversation) {
  if (conversation.title) return conversation.title;
  const first = conversation.kind === "completion" ? conversation.text : conversation.messages[0]?.content || conversation.messages[0]?.files?.[0]?.name;
  const line = (first ?? "").trim().split("\n")[0];
  return line ? (line.length > 60 ? `${line.slice(0, 57)}…` : line) : "New conversation";
}

// Splits the text of a model that marks its reasoning with <think> tags. A template may have put the opening tag into
// the prompt; then only the closing one is in the text.
export function splitReasoning(text) {
  const open = /^\s*<(think|thinking|reasoning)>\n?/.exec(text);
  const close = /\n?<\/(think|thinking|reasoning)>\s*/.exec(text);
  if (close && (open || close.index > 0)) {
    const begin = open ? open[0].length : 0;
    return { reasoning: text.slice(begin, Math.max(begin, close.index)), content: text.slice(close.index + close[0].length), open: false };
  }
  if (open) return { reasoning: text.slice(open[0].length), content: "", open: true };
  return { reasoning: "", content: text, open: false };
}

// Tool calls that are written in the text as <tool_call>{"name", "arguments"}</tool_call>.
export function splitToolCalls(text) {
  const calls = [];
  const rest = text.replace(/<tool_call>\s*([\s\S]*?)\s*<\/tool_call>/g, (whole, body) => {
    try {
      const call = JSON.parse(body);
      calls.push({ name: String(call.name ?? "function"), arguments: JSON.stringify(call.arguments ?? call.parameters ?? {}) });
      return "";
    } catch {
      return whole;
    }
  });
  return { calls, rest };
}

function quoted(text) {
  return text.split("\n").map((line) => `> ${line}`).join("\n");
}

export function toMarkdown(conversation) {
  const parts = [`# ${titleOf(conversation)}`];
  if (conversation.kind === "completion") return `${parts[0]}\n\n${conversation.text}\n`;
  if (conversation.system.trim()) parts.push(`**System**\n\n${quoted(conversation.system)}`);
  for (const message of visiblePath(conversation)) {
    parts.push(`## ${message.role === "user" ? "You" : "Assistant"}`);
    const { reasoning, content } = splitReasoning(message.content);
    const thought = message.reasoning || reasoning;
    if (thought) parts.push(quoted(thought));
    parts.push(withFiles({ content, files: message.files }));
    for (const call of message.toolCalls ?? []) parts.push(`\`\`\`json\n${call.name}(${call.arguments})\n\`\`\``);
  }
  return `${parts.join("\n\n")}\n`;
}

// Conversations of an exported file, with fields that are missing or of another type replaced. Throws Error.
export function fromExport(text) {
  const data = JSON.parse(text);
  const list = Array.isArray(data) ? data : Array.isArray(data?.conversations) ? data.conversations : [data];
  const string = (value) => (typeof value === "string" ? value : "");
  const conversations = list.map((item) => {
    if (typeof item !== "object" || item === null || !Array.isArray(item.messages))
      throw new Error("the file has no conversations that were exported by this page");
    const fresh = newConversation(item.kind === "completion" ? "completion" : "chat");
    const messages = item.messages.filter((m) => typeof m === "object" && m !== null && typeof m.id === "string").map((m) => ({
      id: m.id,
      parent: string(m.parent) || ROOT,
      role: m.role === "assistant" ? "assistant" : "user",
      content: string(m.content),
      files: (Array.isArray(m.files) ? m.files : []).map((f) => ({ name: string(f?.name), text: string(f?.text) })),
      reasoning: string(m.reasoning),
      toolCalls: (Array.isArray(m.toolCalls) ? m.toolCalls : []).map((c) => ({ name: string(c?.name), arguments: string(c?.arguments) })),
      created: Number(m.created) || Date.now(),
    }));
    const chosen = Object.fromEntries(Object.entries(item.chosen ?? {}).filter(([, v]) => typeof v === "string"));
    return { ...fresh, title: string(item.title), system: string(item.system), text: string(item.text), messages, chosen };
  });
  return conversations;
}

// One response of the server while it arrives.

import { streamEvents } from "./api.js";

// Rates and times of a response, as the browser sees them.
class Timing {
  constructor() {
    this.begin = performance.now();
    this.first = null;
    this.last = null;
  }
  token() {
    this.last = performance.now();
    this.first ??= this.last;
  }
  stats(usage) {
    const tokens = usage?.completion_tokens ?? null;
    const decode = this.first === null ? 0 : (this.last - this.first) / 1000;
    return { prompt: usage?.prompt_tokens ?? null, cached: usage?.prompt_tokens_details?.cached_tokens ?? 0, tokens,
      ttft: this.first === null ? null : (this.first - this.begin) / 1000,
      rate: tokens !== null && tokens > 1 && decode > 0 ? (tokens - 1) / decode : null };
  }
}

function addToolCalls(message, deltas) {
  for (const delta of deltas) {
    const call = (message.toolCalls[delta.index ?? 0] ??= { name: "", arguments: "" });
    call.name += delta.function?.name ?? "";
    call.arguments += delta.function?.arguments ?? "";
  }
}

// Runs a chat request and appends what arrives to the message. onUpdate is called after each event. Throws ApiError, and
// AbortError after a stop; what has arrived stays in the message.
export async function runChat(body, message, signal, onUpdate) {
  const timing = new Timing();
  let usage = null;
  try {
    for await (const event of streamEvents("v1/chat/completions", body, signal)) {
      usage = event.usage ?? usage;
      const choice = event.choices?.[0];
      if (!choice) continue;
      const delta = choice.delta ?? {};
      const reasoning = delta.reasoning ?? delta.reasoning_content;
      if (delta.content || reasoning || delta.tool_calls) timing.token();
      if (reasoning) message.reasoning += reasoning;
      if (delta.content) {
        if (message.reasoning && !message.thoughtSeconds) message.thoughtSeconds = (performance.now() - timing.begin) / 1000;
        message.content += delta.content;
      }
      if (delta.tool_calls) addToolCalls(message, delta.tool_calls);
      if (choice.finish_reason) message.finish = choice.finish_reason;
      onUpdate();
    }
  } finally {
    message.stats = timing.stats(usage);
  }
}

// Same for a completion; onText gets each new piece of text.
export async function runCompletion(body, signal, onText) {
  const timing = new Timing();
  let usage = null;
  let finish = "";
  for await (const event of streamEvents("v1/completions", body, signal)) {
    usage = event.usage ?? usage;
    const choice = event.choices?.[0];
    if (!choice) continue;
    if (choice.text) {
      timing.token();
      onText(choice.text);
    }
    finish = choice.finish_reason ?? finish;
  }
  return { stats: timing.stats(usage), finish };
}

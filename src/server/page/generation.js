// One response of the server while it arrives.

import { streamEvents } from "./api.js";

// Fields of all requests. The last event has the usage and the engine's times, because the browser's clock would measure
// how the tokens arrive, many at once for a fast model.
export const STREAM = { stream: true, stream_options: { include_usage: true, include_timings: true } };

// usage and timings: of the last event, null if the response was stopped before.
function statsOf(usage, timings) {
  const tokens = usage?.completion_tokens ?? null;
  const seconds = (ms) => (ms ?? null) === null ? null : ms / 1000;
  const decode = seconds(timings?.decode_ms);
  const first = seconds(timings?.prefill_ms);
  return { prompt: usage?.prompt_tokens ?? null, cached: usage?.prompt_tokens_details?.cached_tokens ?? 0, tokens,
    ttft: first === null ? null : first + (seconds(timings.queue_ms) ?? 0), rate: tokens > 1 && decode > 0 ? (tokens - 1) / decode : null };
}

// [text, probability, [text, probability], …] of a token and the most likely tokens at its place.
function toAlternatives({ token, logprob, top_logprobs }) {
  const probability = (value) => Number(Math.exp(value).toPrecision(3));
  return [token, probability(logprob), ...top_logprobs.map((t) => [t.token, probability(t.logprob)])];
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
  const begin = performance.now();
  let usage = null;
  let timings = null;
  try {
    for await (const event of streamEvents("v1/chat/completions", body, signal)) {
      usage = event.usage ?? usage;
      timings = event.timings ?? timings;
      const choice = event.choices?.[0];
      if (!choice) continue;
      const delta = choice.delta ?? {};
      const reasoning = delta.reasoning ?? delta.reasoning_content;
      if (reasoning) message.reasoning += reasoning;
      if (delta.content) {
        if (message.reasoning && !message.thoughtSeconds) message.thoughtSeconds = (performance.now() - begin) / 1000;
        message.content += delta.content;
      }
      if (delta.tool_calls) addToolCalls(message, delta.tool_calls);
      if (choice.logprobs?.content) message.logprobs = [...(message.logprobs ?? []), ...choice.logprobs.content.map(toAlternatives)];
      if (choice.finish_reason) message.finish = choice.finish_reason;
      onUpdate();
    }
  } finally {
    message.stats = statsOf(usage, timings);
  }
}

// Same for a completion; onText gets each new piece of text.
export async function runCompletion(body, signal, onText) {
  let usage = null;
  let timings = null;
  let finish = "";
  for await (const event of streamEvents("v1/completions", body, signal)) {
    usage = event.usage ?? usage;
    timings = event.timings ?? timings;
    const choice = event.choices?.[0];
    if (!choice) continue;
    if (choice.text) onText(choice.text);
    finish = choice.finish_reason ?? finish;
  }
  return { stats: statsOf(usage, timings), finish };
}

// A load that shows what the engine does with requests that share a prefix. It runs only while no other client
// uses the server, and ends by itself.

import { getJson } from "./api.js";

// A browser opens six connections to a server, so that each of the clients sends several prompts at a time.
const CLIENTS = 4;
const PROMPTS = 6;
export const NUM_REQUESTS = CLIENTS * PROMPTS; // at the same time
const SAMPLES = 3; // samples per request of one client: they copy the last block of their prompt when they write to it
const SENDING = 15000; // ms until the last request is sent
const LONGEST = 45000; // ms until requests that still run are stopped
const STAGGER = 400; // ms between the first requests of two clients
const FRESH = 1000; // ms after which a snapshot has the counters of the last request
const SETTLE = 5000; // ms for which a snapshot may still show a request that has ended

const PREFIX = "Once upon a time, there was a girl named Mia. She had a small dog and a red ball. They played in the park every day. ";
const TURNS = ["One day, they saw a cat", "Then it began to rain", "Mia lost the red ball", "A boy came to the park", "The dog found a big bone", "Mom said it was late"];

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// The prefix has up to a quarter of the context, the response up to half of it. A token is about four letters.
function demoRequest(model, client, round) {
  const repeats = Math.max(1, Math.floor(Math.min(model.max_model_len / 4, 320) / (PREFIX.length / 4)));
  const prompt = TURNS.map((turn) => `${PREFIX.repeat(repeats)}${turn}, and ${client} ${round}`);
  return { model: model.id, prompt, max_tokens: Math.max(1, Math.min(400, Math.floor(model.max_model_len / 2))),
    ignore_eos: true, temperature: 0.8, n: client === 0 ? SAMPLES : 1 };
}

export class DemoLoad {
  constructor(model) {
    this.model = model;
    this.running = false;
  }

  // Resolves, when all requests have ended, to {reason, begun, shared, before, after}, with the counters of the engine
  // before and after it. The reason is "done", "stopped", "busy" (others use the server) or an error's message.
  async run(onProgress) {
    this.abort = new AbortController();
    this.begun = 0; // requests
    this.open = 0;
    this.ended = []; // times
    this.shared = 0; // blocks, at most
    this.reason = "done";
    const before = await getJson("internal/engine");
    if (before.num_requests > 0) return { reason: "busy", begun: 0 };
    this.running = true;
    const begin = performance.now();
    const limit = setTimeout(() => this.end("done"), LONGEST);
    try {
      await Promise.all(Array.from({ length: CLIENTS }, (_, i) => this.client(i, begin, onProgress)));
    } finally {
      clearTimeout(limit);
      this.running = false;
    }
    await sleep(FRESH);
    const after = await getJson("internal/engine");
    return { reason: this.reason, begun: this.begun, shared: this.shared, before: before.stats, after: after.stats };
  }

  async client(index, begin, onProgress) {
    await sleep(index * STAGGER);
    for (let round = 0; performance.now() - begin < SENDING && !this.abort.signal.aborted; ++round) {
      this.open += PROMPTS;
      this.begun += PROMPTS;
      onProgress(this.begun);
      try {
        await getJson("v1/completions", { body: demoRequest(this.model, index, round), signal: this.abort.signal });
      } catch (error) {
        if (error.name !== "AbortError") this.end(error.message);
      }
      this.open -= PROMPTS;
      this.ended.push(performance.now());
    }
  }

  end(reason) {
    if (!this.running || this.abort.signal.aborted) return;
    this.reason = reason;
    this.abort.abort();
  }

  // A snapshot while the load runs: more requests than it can have are those of others, for whom it makes room.
  watch(view) {
    if (!this.running) return;
    this.shared = Math.max(this.shared, view.device.shared);
    this.ended = this.ended.filter((time) => performance.now() - time < SETTLE);
    if (view.num_requests > Math.max(this.open, Math.min(NUM_REQUESTS, this.open + PROMPTS * this.ended.length))) this.end("busy");
  }
}

// Sentences about what the load has shown.
export function describeLoad({ reason, begun, shared, before, after }) {
  if (begun === 0) return "Others use the server. The demo load runs only on an idle one.";
  const grew = (name) => after[name] - before[name];
  const count = (n, one, several) => `${n.toLocaleString("en-US")} ${n === 1 ? one : several}`;
  const ends = { done: "", stopped: "Stopped. ", busy: "Stopped, because others use the server. " };
  const hits = Math.round((100 * grew("prefix_hits")) / Math.max(1, grew("prefix_queries")));
  const preemptions = grew("preemptions");
  return `${ends[reason] ?? `Stopped: ${reason} `}${count(begun, "request", "requests")}: ${hits} % of the prompt tokens were found in the prefix cache, up to ${count(shared, "block was", "blocks were")} shared at a time, ` +
    `${count(grew("copied_on_write"), "block was", "blocks were")} copied on write. ` +
    (preemptions > 0 ? `${count(preemptions, "preemption", "preemptions")}: the pool is too small for all of them.`
      : "Nothing was preempted: the pool has room for all of them. To see preemption, start a server with less --kv-cache-memory, such as 3MiB for the embedded model.");
}

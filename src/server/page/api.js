// Requests to this server. Paths are relative, so the page also works below a path of a reverse proxy.

const KEY = "quire-api-key";

let keyNeeded = null; // asks for a key and resolves when the user has given one

export function onKeyNeeded(callback) {
  keyNeeded = callback;
}
export function storeKey(key) {
  sessionStorage.setItem(KEY, key);
}
export function hasKey() {
  return sessionStorage.getItem(KEY) !== null;
}
export function forgetKey() {
  sessionStorage.removeItem(KEY);
}

// kind: "network", "key", "context", "busy", "request" or "server"; decides what the page offers.
export class ApiError extends Error {
  constructor(kind, message, status = 0) {
    super(message);
    this.kind = kind;
    this.status = status;
  }
}

export function errorKind(status, message) {
  if (status === 401) return "key";
  if (status === 429 || status === 503) return "busy";
  if (status >= 500) return "server";
  // "the prompt has 5003 tokens, the model supports at most 4096"
  if (/prompt has \d+ tokens|max-model-len|context/i.test(message)) return "context";
  return "request";
}

async function toError(response) {
  let message = "";
  try {
    const body = await response.json();
    message = body?.error?.message ?? "";
  } catch {
    // A proxy may answer with something else than JSON.
  }
  if (!message) message = `the server responded with status ${response.status}`;
  return new ApiError(errorKind(response.status, message), message, response.status);
}

async function send(path, options) {
  const headers = { ...(options.body === undefined ? {} : { "Content-Type": "application/json" }) };
  const key = sessionStorage.getItem(KEY);
  if (key) headers.Authorization = `Bearer ${key}`;
  try {
    return await fetch(path, {
      method: options.body === undefined ? "GET" : "POST",
      headers,
      body: options.body === undefined ? undefined : JSON.stringify(options.body),
      signal: options.signal,
      cache: "no-store",
      credentials: "same-origin",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("network", "The server cannot be reached.");
  }
}

// The response of a request that succeeded. Asks for an API key as long as the server refuses the one it gets.
async function request(path, options = {}) {
  while (true) {
    const response = await send(path, options);
    if (response.ok) return response;
    const error = await toError(response);
    if (error.kind !== "key" || keyNeeded === null || options.quiet) throw error;
    await keyNeeded(hasKey());
  }
}

export async function getJson(path, options = {}) {
  const response = await request(path, options);
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("network", "The connection ended before the response was complete.");
  }
}

export async function isHealthy() {
  try {
    return (await fetch("health", { cache: "no-store" })).ok;
  } catch {
    return false;
  }
}

// The events of a stream, parsed. Throws ApiError; ends without an error only after [DONE].
export async function* streamEvents(path, body, signal) {
  const response = await request(path, { body, signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    while (true) {
      let part;
      try {
        part = await reader.read();
      } catch (error) {
        if (error.name === "AbortError") throw error;
        throw new ApiError("network", "The connection was lost before the response was complete.");
      }
      if (part.done) throw new ApiError("network", "The connection ended before the response was complete.");
      text += part.value;
      const lines = text.split("\n");
      text = lines.pop();
      for (const line of lines) {
        if (!line.startsWith("data:")) continue; // comments keep the connection alive
        const data = line.slice(5).trim();
        if (data === "[DONE]") return;
        const event = JSON.parse(data);
        if (event.error) {
          const status = event.error.code ?? 500;
          throw new ApiError(errorKind(status, event.error.message), event.error.message, status);
        }
        yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

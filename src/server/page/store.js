// Conversations in IndexedDB. Without it (private windows of some browsers) they live until the page is closed.

const DATABASE = "quire";
const STORE = "conversations";

let database = null;
let memory = null; // Map, without IndexedDB
const channel = "BroadcastChannel" in window ? new BroadcastChannel("quire-conversations") : null;

// Calls back when another tab has changed a conversation.
export function onOtherTab(callback) {
  if (channel) channel.onmessage = () => callback();
}

function done(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

// Returns whether conversations are lost with the page.
export async function openStore() {
  try {
    const open = indexedDB.open(DATABASE, 1);
    open.onupgradeneeded = () => open.result.createObjectStore(STORE, { keyPath: "id" });
    database = await done(open);
    database.onversionchange = () => database.close();
  } catch {
    memory = new Map();
  }
  return memory !== null;
}

function store(mode) {
  return database.transaction(STORE, mode).objectStore(STORE);
}

export async function loadAll() {
  const all = memory ? [...memory.values()] : await done(store("readonly").getAll());
  return all.sort((a, b) => b.updated - a.updated);
}

export async function save(conversation) {
  // A structured clone would fail for anything but plain data, and so does this, earlier.
  const copy = JSON.parse(JSON.stringify(conversation));
  if (memory) memory.set(copy.id, copy);
  else await done(store("readwrite").put(copy));
  channel?.postMessage("changed");
}

export async function remove(id) {
  if (memory) memory.delete(id);
  else await done(store("readwrite").delete(id));
  channel?.postMessage("changed");
}

export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(9));
  return Array.from(bytes, (b) => b.toString(36).padStart(2, "0")).join("").slice(0, 14);
}

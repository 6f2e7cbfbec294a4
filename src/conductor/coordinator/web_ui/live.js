// The stream of changes. It is read with fetch, because an EventSource cannot send the header with the token.

import { authHeaders } from "./api.js";

const RETRY_MS = 2000;
const MAX_RETRY_MS = 30000;

let listener = null;
let abort = null; // ends the open stream
let lastId = "";
let retryMs = RETRY_MS;
let timer = null;

/** Whether the stream is open. Views then refresh when something changes, and seldom otherwise. */
export let isLive = false;

/**
 * Open the stream, unless it is open. `onChange` gets { workflows, all }, where `all` is true if events were missed. A
 * stream that has failed is opened again after a pause, or at once if the coordinator answers again (`isBack`).
 */
export function listen(onChange, isBack) {
  listener = onChange;
  if (abort || (timer && !isBack)) return;
  clearTimeout(timer);
  follow();
}

/** Close the stream, for example while the tab is hidden. The next `listen` continues after the last event. */
export function pause() {
  clearTimeout(timer);
  timer = null;
  abort?.abort();
  abort = null;
  isLive = false;
}

async function follow() {
  timer = null;
  const own = (abort = new AbortController());
  try {
    const headers = { ...authHeaders(), Accept: "text/event-stream", ...(lastId ? { "Last-Event-ID": lastId } : {}) };
    const response = await fetch("/api/view/events", { headers, signal: own.signal, cache: "no-store" });
    if (response.ok && response.body) {
      isLive = true;
      retryMs = RETRY_MS;
      await read(response.body.pipeThrough(new TextDecoderStream()).getReader(), own.signal);
    }
  } catch {
    // The stream has ended. The views poll until it is open again.
  }
  if (abort !== own) return; // the stream was paused, or another one was opened
  isLive = false;
  abort = null;
  timer = setTimeout(follow, retryMs);
  retryMs = Math.min(retryMs * 2, MAX_RETRY_MS);
}

async function read(reader, signal) {
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done || signal.aborted) return;
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const one of events) handle(one);
  }
}

function handle(text) {
  const fields = Object.fromEntries(text.split("\n").map((line) => [line.slice(0, line.indexOf(": ")), line.slice(line.indexOf(": ") + 2)]));
  if (fields.id) lastId = fields.id;
  if (fields.event === "change") listener?.(JSON.parse(fields.data));
  if (fields.event === "reset") listener?.({ workflows: [], all: true });
}

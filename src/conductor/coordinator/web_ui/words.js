// Formats times, durations, sizes and statuses.

import { h, say } from "./dom.js";

let ahead = 0; // how far the coordinator's clock is ahead of this machine's, in ms

/** Set the coordinator's time, from which `now` is computed. */
export function setNow(serverMs) {
  ahead = serverMs - Date.now();
}

export const now = () => Date.now() + ahead;

/** A duration: 0.4 s, 14 s, 12 min, 3 h 10 min, 2 d. */
export function span(ms) {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${Math.floor(hours / 24)} d`;
}

// One style of times in all views: 24 hours, and always with the time zone, which is the browser's.
const TIME = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
const DATE = { day: "numeric", month: "short", year: "numeric" };
const exact = new Intl.DateTimeFormat("en-GB", { ...DATE, ...TIME, timeZoneName: "short" });
const clock = new Intl.DateTimeFormat("en-GB", { ...TIME, timeZoneName: "short" });
const minute = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZoneName: "short" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZoneName: "short" });

export const exactly = (ms) => exact.format(new Date(ms));
export const timeOfDay = (ms) => clock.format(new Date(ms));
/** A time on the axis of a chart that covers `totalMs`. */
export const axisTime = (ms, totalMs) => (totalMs > 24 * 3600 * 1000 ? day : minute).format(new Date(ms));

/** How long ago, with the exact time as its title; `tick` keeps it current. */
export function ago(ms) {
  if (!ms) return "–";
  return h("time", { datetime: new Date(ms).toISOString(), title: exactly(ms), "data-since": ms }, agoText(ms));
}

/** How long something has taken so far; `tick` keeps it current. */
export function since(ms) {
  return h("time", { "data-for": ms }, span(now() - ms));
}

/** How much time is left; `tick` keeps it current. */
export function left(ms) {
  return h("time", { title: exactly(ms), "data-until": ms }, span(ms - now()));
}

const agoText = (ms) => (now() - ms < 1000 ? "now" : `${span(now() - ms)} ago`);

/** Update the times that `ago`, `since` and `left` have made; called once a second. */
export function tick() {
  for (const one of document.querySelectorAll("time[data-since]")) set(one, agoText(Number(one.dataset.since)));
  for (const one of document.querySelectorAll("time[data-for]")) set(one, span(now() - Number(one.dataset.for)));
  for (const one of document.querySelectorAll("time[data-until]")) set(one, span(Number(one.dataset.until) - now()));
}

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

/** A number of bytes. */
export function bytes(number) {
  if (number === null || number === undefined) return "in memory";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (number >= 1000 && at < units.length - 1) (number /= 1000), at++;
  return `${at && number < 10 ? number.toFixed(1) : Math.round(number)} ${units[at]}`;
}

const KINDS = {
  RUNNING: ["run", "◐"], IN_PROGRESS: ["run", "◐"], SCHEDULED: ["wait", "○"], PAUSED: ["paused", "‖"],
  COMPLETED: ["ok", "✓"], COMPLETED_WITH_ERRORS: ["warn", "✓"], SKIPPED: ["off", "»"],
  FAILED: ["bad", "✕"], FAILED_WITH_TERMINAL_ERROR: ["bad", "✕"], TIMED_OUT: ["bad", "◷"],
  TERMINATED: ["off", "■"], CANCELED: ["off", "■"],
};

/** The colour class of a status, and its sign, because colour must not be the only hint. */
export const kindOf = (status) => KINDS[status]?.[0] ?? "off";
export const signOf = (status) => KINDS[status]?.[1] ?? "·";
export const isOpen = (status) => ["RUNNING", "PAUSED", "IN_PROGRESS", "SCHEDULED"].includes(status);

/** A status as a sign and a word. */
export function status(name) {
  const word = name === "FAILED_WITH_TERMINAL_ERROR" ? "FAILED (TERMINAL ERROR)" : name.replaceAll("_", " ");
  return h("span", { class: `status ${kindOf(name)}` }, h("span", { "aria-hidden": "true" }, signOf(name)), ` ${word}`);
}

/** A command to copy. Words with special characters are quoted, so that a name cannot add a command. */
export function command(...parts) {
  const text = parts.map((one) => (/^[\w@%+=:,./-]+$/.test(one) ? one : `'${one.replaceAll("'", "'\\''")}'`)).join(" ");
  return h("p", { class: "command" }, h("code", null, text), h("button", { class: "small", type: "button", "aria-label": "Copy the command", onclick: () => copy(text) }, "Copy"));
}

export const copy = (text) => navigator.clipboard?.writeText(text).then(() => say("Copied."), () => say("The browser does not allow copying here.", true));

/** The sentence that says why something waits. */
export function waiting(one, sentence = one?.sentence, more = null) {
  if (!one) return null;
  return h("p", { class: `why ${one.urgent ? "bad" : ""}` }, sentence, more,
    one.remedy && one.kind !== "signal" ? h("span", { class: "remedy" }, ` ${one.remedy}`) : null);
}

const RANGES = [[1, "1 h"], [6, "6 h"], [24, "24 h"], [168, "7 days"]];

/** Buttons that choose how many hours a view covers. */
export function range(hours, choose) {
  return h("div", { class: "segments", role: "group", "aria-label": "Time" },
    RANGES.map(([one, text]) => h("button", { type: "button", "aria-pressed": String(one === hours), onclick: () => choose(one) }, text)));
}

const MAX_SHOWN = 100_000; // characters of JSON in one box

/** JSON with a button to copy it; long texts are folded, very long ones are cut. */
export function json(title, value, { open = true, openLines = 30 } = {}) {
  const text = JSON.stringify(value ?? {}, null, 2);
  const lines = text.split("\n").length;
  const isEmpty = value === null || value === undefined || (typeof value === "object" && !Object.keys(value).length);
  if (isEmpty) return h("p", { class: "empty", "data-key": `json-${title}` }, `${title}: `, h("span", { class: "quiet" }, "none"));
  return h("details", { class: "json", open: open && lines <= openLines, "data-key": `json-${title}` },
    h("summary", null, title, h("span", { class: "quiet" }, ` ${count(lines, "line")}`)),
    h("button", { class: "copy small", type: "button", onclick: () => copy(text) }, "Copy"),
    h("pre", { tabindex: "0", "aria-label": title }, text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}\n… ${(text.length - MAX_SHOWN).toLocaleString("en")} more characters; Copy copies all of them` : text));
}

// The timeline: one row per task, one bar per attempt, for the time it waited and the time it ran.

import { h, s } from "./dom.js";
import { exactly, isOpen, kindOf, now, signOf, span } from "./words.js";

const WIDTH = 1000;
const SHOWN = 60;
/** The words of the legend, and the kinds of statuses that they stand for. */
const KEYS = [["ran", ["ok", "warn"]], ["open", ["run", "wait"]], ["failed", ["bad"]], ["stopped", ["off", "paused"]]];

export function timeline(workflow, lines, { hrefOf, selected, all, hrefOfAll }) {
  if (!lines.length) return h("p", { class: "quiet" }, "No task is scheduled yet.");
  const begins = Math.min(workflow.createTime, ...lines.map((line) => line.scheduledMs));
  const ends = Math.max(begins + 1, ...lines.map((line) => (isOpen(line.status) ? now() : line.endedMs || line.scheduledMs)));
  const at = (ms) => Math.max(0, Math.min(WIDTH, ((ms - begins) / (ends - begins)) * WIDTH));
  const rows = new Map();
  for (const line of lines) {
    if (!rows.has(line.ref)) rows.set(line.ref, []);
    rows.get(line.ref).push(line);
  }
  const shown = [...rows].slice(0, all ? Infinity : SHOWN);
  return [
    h("p", { class: "legend quiet" },
      h("span", { class: "key waited" }), " waited ", KEYS.filter(([, kinds]) => lines.some((line) => line.startedMs && kinds.includes(kindOf(line.status)))).map(([word, [kind]]) => [h("span", { class: `key ran ${kind}` }), ` ${word} `]),
      h("span", { class: "span" }, `${span(ends - begins)} in total`)),
    h("ol", { class: "timeline" }, shown.map(([ref, attempts]) => row(ref, attempts, at, hrefOf, selected))),
    rows.size > shown.length ? h("p", null, h("a", { href: hrefOfAll }, `Show all ${rows.size} tasks`)) : null,
  ];
}

function row(ref, attempts, at, hrefOf, selected) {
  const last = attempts.at(-1);
  const took = (isOpen(last.status) ? now() : last.endedMs) - attempts[0].scheduledMs;
  const tries = attempts.length > 1 ? ` ×${attempts.length}` : "";
  return h("li", { class: selected === last.base ? "chosen" : "", "data-key": `time-${ref}` },
    h("a", { href: hrefOf(last), title: ref }, h("span", { class: `sign ${kindOf(last.status)}`, "aria-hidden": "true" }, signOf(last.status)), ` ${ref}${tries}`,
      h("span", { class: "unseen" }, ` ${last.status}`)),
    s("svg", { viewBox: `0 0 ${WIDTH} 12`, preserveAspectRatio: "none", class: "bars", "aria-hidden": "true" }, attempts.flatMap((one) => bars(one, at))),
    h("span", { class: "took" }, span(took)));
}

function bars(one, at) {
  const open = isOpen(one.status);
  const until = open ? now() : one.endedMs;
  const began = one.startedMs || until;
  const bar = (from, to, kind, text) => s("rect", { class: kind, x: at(from), y: 1, height: 10, width: Math.max(3, at(to) - at(from)) }, s("title", null, text));
  const who = one.workerId ? ` by ${one.workerId}` : "";
  const found = [bar(one.scheduledMs, began, "waited", `${one.ref} waited ${span(began - one.scheduledMs)} from ${exactly(one.scheduledMs)}`)];
  if (one.startedMs) found.push(bar(one.startedMs, until, `ran ${kindOf(one.status)}`, `${one.ref} ran ${span(until - one.startedMs)}${who}: ${one.status}`));
  return found;
}

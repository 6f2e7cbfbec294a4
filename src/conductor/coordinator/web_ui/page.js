// The frame of the web UI: selects the view by the address, shows the bar above it, and refreshes both.
//
// Other files:
// - dom: creates and updates elements
// - api: requests and sign-in
// - words: formats times, durations and statuses
// - dialogs: forms and confirmations
// - start: the form that starts a workflow
// - graph, timeline: drawings
// - workflows, execution, queues, definitions, schedules, server: one view each

import * as definitions from "./definitions.js";
import * as execution from "./execution.js";
import * as queues from "./queues.js";
import * as schedules from "./schedules.js";
import * as server from "./server.js";
import * as workflows from "./workflows.js";
import { get, onKeyNeeded, signOut, signedIn } from "./api.js";
import { ask, field } from "./dialogs.js";
import { h, morph } from "./dom.js";
import { since, tick } from "./words.js";

/**
 * Refresh intervals. After a slow answer, the next refresh waits COST times the duration of that answer (at most MAX_MS),
 * so that an open tab takes less than 1 % of the server's time.
 */
const LIVE_MS = 2000;
const IDLE_MS = 10000;
const COST = 120;
const MAX_MS = 15000;

const ROUTES = [
  [/^\/$/, workflows], [/^\/execution\/([^/]+)$/, execution], [/^\/queues$/, queues], [/^\/definitions$/, definitions.list],
  [/^\/workflowDef\/([^/]+)$/, definitions.workflow], [/^\/taskDef\/([^/]+)$/, definitions.task], [/^\/schedules$/, schedules], [/^\/server$/, server],
];
const TABS = [
  ["/", "Workflows", /^\/(execution.*)?$/],
  ["/queues", "Queues", /^\/queues/],
  ["/definitions", "Definitions", /^\/(definitions|workflowDef|taskDef)/],
  ["/schedules", "Schedules", /^\/schedules/],
  ["/server", "Server", /^\/server/],
];

const main = document.getElementById("main");
const bar = document.getElementById("bar");
let overview = null;
let problem = null;
let shown = null; // { view, params, query, data }
let timer = null;
let asked = 0; // the number of the last request; late answers to earlier requests are not shown

// -- addresses

function read() {
  const query = new URLSearchParams(location.search);
  for (const [pattern, view] of ROUTES) {
    const found = pattern.exec(location.pathname);
    if (found) return { view, params: found.slice(1).map(decodeURIComponent), query, data: null, path: location.pathname };
  }
  return { view: workflows, params: [], query, data: null, path: "/" };
}

function go(address) {
  history.pushState(null, "", address);
  enter();
}

function enter() {
  const next = read();
  const isSame = shown && shown.view === next.view && shown.path === next.path;
  if (isSame) Object.assign(next, { data: shown.data, isPlaced: shown.isPlaced });
  const isNew = !isSame && shown !== null;
  shown = next;
  if (!isSame) morph(main, h("p", { class: "quiet" }, "Loading …"));
  if (isNew) {
    scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
  refresh();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  const href = link?.getAttribute("href");
  if (!href?.startsWith("/") || link.hasAttribute("data-native") || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  go(href);
});
addEventListener("popstate", enter);

// -- requests

async function refresh(onlyDraw = false) {
  if (onlyDraw) return draw();
  clearTimeout(timer);
  const number = ++asked;
  const entered = shown;
  const began = performance.now();
  let tookMs = 0;
  try {
    // The view and the bar are loaded at the same time.
    const [data, over] = await Promise.all([entered.view.load(entered), get("/api/view/overview")]);
    tookMs = performance.now() - began;
    if (number !== asked) return;
    entered.data = data;
    overview = over;
    problem = null;
  } catch (error) {
    if (number !== asked) return;
    problem = error;
  }
  draw();
  plan(tookMs);
}

/** Schedule the next refresh: none while the tab is hidden, rarely while nothing runs. */
function plan(tookMs) {
  if (document.visibilityState === "hidden") return;
  const isMoving = problem || (shown.data && shown.view.isLive(shown.data) && overview && (overview.running || overview.waiting || overview.inHand));
  timer = setTimeout(refresh, Math.max(isMoving ? LIVE_MS : IDLE_MS, Math.min(tookMs * COST, MAX_MS)));
}

document.addEventListener("visibilitychange", () => {
  clearTimeout(timer);
  if (document.visibilityState === "visible") refresh();
});
setInterval(() => document.visibilityState === "visible" && tick(), 1000);

// -- drawing

function draw() {
  drawBar();
  const { view, data } = shown;
  document.title = `${view.title(data)} · conductor-worker`;
  if (data) morph(main, problem ? trouble() : null, h("div", { class: "view" }, view.render(data, { ...shown, go, refresh })));
  else if (problem) morph(main, trouble());
  if (data && !shown.isPlaced) placeGraph();
}

/** Scroll a wide graph once, so that its selected task or its middle is visible. */
function placeGraph() {
  shown.isPlaced = true;
  const scroll = main.querySelector(".drawing .scroll");
  if (!scroll) return;
  const at = (scroll.querySelector(".chosen .frame") ?? scroll.firstElementChild).getBoundingClientRect();
  const box = scroll.getBoundingClientRect();
  scroll.scrollLeft += at.left + at.width / 2 - (box.left + box.width / 2);
}

function trouble() {
  const text = problem.status ? problem.message : "The coordinator does not answer. Retrying …";
  return h("div", { class: "alarm", role: "alert" }, h("strong", null, problem.status === 404 ? "Not found: " : "Error: "), text);
}

function drawBar() {
  morph(bar,
    h("a", { class: "brand", href: "/" }, h("img", { src: "/page/icon.svg", alt: "", width: 20, height: 20 }), " conductor-worker"),
    h("nav", { "aria-label": "Views" }, TABS.map(([href, text, pattern]) => h("a", { href, "aria-current": pattern.test(location.pathname) ? "page" : null }, text))),
    h("div", { class: "numbers" }, overview ? numbers(overview) : null),
    h("form", { role: "search", onsubmit: (event) => {
      event.preventDefault();
      const text = event.target.elements.text.value.trim();
      go(text ? `/?${new URLSearchParams({ text })}` : "/");
    } }, h("input", { type: "search", name: "text", "aria-label": "Search workflows by id, name or correlation id",
      placeholder: "Search id, name …", value: shown?.query.get("text") ?? "" })),
    signedIn() ? h("button", { type: "button", class: "small", onclick: () => (signOut(), refresh()) }, "Sign out") : null,
    h("button", { type: "button", class: "theme", "aria-label": `Theme: ${theme()}. Change theme`, title: `Theme: ${theme()}`, onclick: nextTheme }, { light: "☀", dark: "☾", auto: "◐" }[theme()]));
}

function numbers(one) {
  const item = (href, text, value, kind) => h("a", { href, class: `figure ${kind ?? ""}` }, h("b", null, value), ` ${text}`);
  return [
    one.healthy ? null : h("a", { href: "/server", class: "figure bad" }, h("b", null, "✕"), " cannot write its database"),
    item("/?status=RUNNING", "running", one.running.toLocaleString("en")),
    item("/?status=FAILED", "failed (1 h)", one.failedLately.toLocaleString("en"), one.failedLately ? "bad" : ""),
    h("a", { href: "/queues", class: "figure" }, h("b", null, one.waiting.toLocaleString("en")), " waiting", one.oldestMs ? [" (oldest ", since(one.oldestMs), ")"] : null),
    one.unpolled.length ? h("a", { href: "/queues", class: "figure bad" }, h("b", null, "⚠"), ` no workers: ${one.unpolled.slice(0, 2).map((two) => two.ref).join(", ")}${one.unpolled.length > 2 ? ` and ${one.unpolled.length - 2} more` : ""}`) : null,
  ];
}

// -- light and dark

const theme = () => localStorage.getItem("conductor-theme") ?? "auto";

function nextTheme() {
  localStorage.setItem("conductor-theme", { auto: "light", light: "dark", dark: "auto" }[theme()]);
  showTheme();
  drawBar();
}

function showTheme() {
  document.documentElement.dataset.theme = theme();
}

// -- key and secret

onKeyNeeded((wrong) => ask({
  title: "Sign in", text: "This coordinator requires a key and a secret. The token is stored for this tab only.",
  button: "Sign in", canCancel: false, problem: wrong,
  fields: [field("Key", "keyId", { required: true }), field("Secret", "keySecret", { type: "password", required: true })],
}));

showTheme();
enter();

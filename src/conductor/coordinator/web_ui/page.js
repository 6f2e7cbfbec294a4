// The frame of the web UI: selects the view by the address, shows the bar above it, and refreshes both.
//
// Other files:
// - dom: creates and updates elements
// - api: requests and sign-in
// - access: what the key of this tab may do
// - words: formats times, durations and statuses
// - dialogs: forms and confirmations
// - schema, form: forms from JSON schemas
// - start: the form that starts a workflow; answer: the form that completes a task
// - graph, timeline: drawings
// - live: the stream of changes, after which a view is refreshed
// - charts: bars over time
// - bulk: actions on many workflows
// - overview, workflows, failures, execution, inbox, queues, workers, definitions, schedules, secrets, keys, audit,
//   server, notfound: one view each
// - noaccess: the page for a key that may not open a view

import { isAdmin, loadAccess, mayOperate, mayRead } from "./access.js";
import * as audit from "./audit.js";
import * as definitions from "./definitions.js";
import * as execution from "./execution.js";
import * as failures from "./failures.js";
import * as inbox from "./inbox.js";
import * as keys from "./keys.js";
import * as noaccess from "./noaccess.js";
import * as notfound from "./notfound.js";
import * as overviewView from "./overview.js";
import * as queues from "./queues.js";
import * as schedules from "./schedules.js";
import * as secrets from "./secrets.js";
import * as server from "./server.js";
import * as workers from "./workers.js";
import * as workflows from "./workflows.js";
import { ApiError, get, onKeyNeeded, signOut, signedIn } from "./api.js";
import * as live from "./live.js";
import { ask, field } from "./dialogs.js";
import { h, morph, say, withoutControls } from "./dom.js";
import { lost } from "./notfound.js";
import { ago, now, since, tick } from "./words.js";

/**
 * Refresh intervals. The pause after an answer is COST times the duration of the answer, at most LIVE_MS: an open tab
 * takes less than 1 % of the server's time, and a change is shown within 3 seconds. After an answer of 100 ms or more, the
 * pause is SLOW_COST times the duration, at most MAX_MS: the tab takes less than 5 % of the server's time.
 */
const LIVE_MS = 2000;
const EVENTS_MS = 5000;
const IDLE_MS = 10000;
const MIN_MS = 500;
const COST = 120;
const SLOW_COST = 20;
const MAX_MS = 15000;

const ROUTES = [
  [/^\/$/, overviewView], [/^\/workflows$/, workflows], [/^\/failures$/, failures], [/^\/workers$/, workers], [/^\/execution\/([^/]+)$/, execution], [/^\/inbox$/, inbox], [/^\/queues$/, queues], [/^\/definitions$/, definitions.list],
  [/^\/workflowDef\/([^/]+)$/, definitions.workflow], [/^\/taskDef\/([^/]+)$/, definitions.task], [/^\/schedules$/, schedules.list], [/^\/schedules\/([^/]+)$/, schedules.one], [/^\/secrets$/, secrets], [/^\/keys$/, keys], [/^\/audit$/, audit], [/^\/server$/, server],
];
const TABS = [
  ["/", "Overview", /^\/$/],
  ["/workflows", "Workflows", /^\/(workflows|execution\/.*)$/],
  ["/failures", "Failures", /^\/failures/],
  ["/inbox", "Inbox", /^\/inbox/],
  ["/queues", "Queues", /^\/queues/],
  ["/workers", "Workers", /^\/workers/],
  ["/definitions", "Definitions", /^\/(definitions|workflowDef|taskDef)/],
  ["/schedules", "Schedules", /^\/schedules/],
  ["/secrets", "Secrets", /^\/secrets/, isAdmin],
  ["/keys", "Keys", /^\/keys/, isAdmin],
  ["/audit", "Audit", /^\/audit/, mayOperate],
  ["/server", "Server", /^\/server/],
];

/** Views that need more than the role viewer: the check, and the roles in words. */
const RESTRICTED = new Map([[keys, [isAdmin, "admin"]], [audit, [mayOperate, "operator or admin"]]]);

/** The roles that may open a view, if the key of this tab has none of them; null if the key may open the view. */
function missingRoles(view) {
  if (!mayRead()) return "viewer, operator or admin";
  const [isAllowed, roles] = RESTRICTED.get(view) ?? [mayRead];
  return isAllowed() ? null : roles;
}

const LIST_QUERY = ["status", "name", "text", "before"];

const main = document.getElementById("main");
const bar = document.getElementById("bar");
let overview = null;
let problem = null;
let shown = null; // { view, params, query, data }
let timer = null;
let updatedMs = 0; // when the shown data were read
let freeAt = 0; // the next refresh begins at this time at the earliest, on the clock of `performance`
let plannedAt = 0; // when the next refresh begins
let isShownLive = false; // whether the bar says that the stream is open
let isStale = false; // something has changed since the last request was sent
let failedRequests = 0; // failed requests in a row
let asked = 0; // the number of the last request; late answers to earlier requests are not shown

// -- addresses

function read() {
  const query = new URLSearchParams(location.search);
  // Links of earlier releases: the list of workflows was at "/".
  if (location.pathname === "/" && LIST_QUERY.some((name) => query.has(name))) history.replaceState(null, "", `/workflows${location.search}`);
  for (const [pattern, view] of ROUTES) {
    const found = pattern.exec(location.pathname);
    const params = found?.slice(1).map(decoded);
    if (params && !params.includes(null)) return { view, params, query, data: null, path: location.pathname };
  }
  return { view: notfound, params: [], query, data: null, path: location.pathname };
}

/** A decoded part of a path, or null if its escapes are not valid. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return null;
  }
}

function go(address) {
  history.replaceState({ top: scrollY }, "");
  history.pushState(null, "", address);
  enter();
}

function enter(event) {
  const next = read();
  next.top = event?.state?.top; // "back" returns to the place where the view was left
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
  if (link.closest(".graph")) shown.wantsPanel = true;
  if (link.closest(".pages")) scrollTo(0, 0);
});
addEventListener("resize", () => shown?.data && draw());
addEventListener("popstate", enter);

// -- requests

async function refresh(onlyDraw = false) {
  if (onlyDraw) return draw();
  clearTimeout(timer);
  const number = ++asked;
  const entered = shown;
  const began = performance.now();
  isStale = false;
  let tookMs = 0;
  try {
    await loadAccess();
    // The view and the bar are loaded at the same time.
    const [data, over] = missingRoles(entered.view) ? [null, null] : await Promise.all([entered.view.load(entered), get("/api/view/overview")]);
    tookMs = performance.now() - began;
    await loadAccess(); // the tab may have signed in meanwhile
    if (number !== asked) return;
    entered.missing = missingRoles(entered.view);
    if (mayRead()) live.listen(changed, problem !== null);
    entered.data = data;
    overview = over;
    problem = null;
    failedRequests = 0;
    updatedMs = now();
  } catch (error) {
    if (number !== asked) return;
    problem = error;
    failedRequests++;
  }
  draw();
  plan(tookMs);
}

/**
 * Schedule the next refresh: none while the tab is hidden, rarely while nothing runs. While the stream of changes is open,
 * a change refreshes a view, and the timer only covers changes that the stream does not report, such as the progress of a task.
 */
function plan(tookMs) {
  if (document.visibilityState === "hidden") return;
  const pauseMs = Math.min(tookMs * COST, Math.max(LIVE_MS, tookMs * SLOW_COST), MAX_MS);
  const isMoving = !problem && (shown.data && shown.view.isLive(shown.data) && overview && (overview.running || overview.waiting || overview.inHand));
  // While the coordinator does not answer, the pause doubles from LIVE_MS to IDLE_MS. After a 404, retries are rare.
  const retryMs = problem?.status === 404 ? IDLE_MS : Math.min(LIVE_MS * 2 ** (failedRequests - 1), IDLE_MS);
  const usualMs = problem ? retryMs : !isMoving ? IDLE_MS : live.isLive && shown.view.usesEvents ? EVENTS_MS : LIVE_MS;
  freeAt = performance.now() + Math.max(MIN_MS, pauseMs);
  refreshAt(isStale ? freeAt : performance.now() + Math.max(usualMs, pauseMs));
}

function refreshAt(at) {
  clearTimeout(timer);
  plannedAt = at;
  timer = setTimeout(refresh, Math.max(0, at - performance.now()));
}

/** If the view shows a workflow that has changed, refresh it at `freeAt`, or now if that time has passed. */
function changed({ workflows, all }) {
  const { view, data } = shown;
  if (!view.usesEvents || document.visibilityState === "hidden" || (data && !all && view.shows && !view.shows(data, workflows))) return;
  isStale = true;
  if (plannedAt > freeAt && plannedAt > performance.now()) refreshAt(freeAt);
}

document.addEventListener("visibilitychange", () => {
  clearTimeout(timer);
  if (document.visibilityState === "visible") refresh();
  else live.pause();
});
// The key "/" moves the focus to the search, unless a text is being typed.
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, textarea, select, dialog, [contenteditable]")) return;
  event.preventDefault();
  const search = bar.querySelector("input[type=search]");
  search?.focus();
  search?.select();
});
setInterval(() => {
  if (document.visibilityState !== "visible") return;
  if (isShownLive !== (live.isLive && !problem)) drawBar(); // the stream was opened or has ended since the last refresh
  tick();
}, 1000);

// An error of the server is shown in the dialog that caused it, in the view that could not be loaded, or else as a message.
addEventListener("unhandledrejection", (event) => {
  if (!(event.reason instanceof ApiError)) return;
  event.preventDefault();
  say(event.reason.message, true);
});

// -- drawing

function draw() {
  drawBar();
  const { view, data, missing } = shown;
  document.title = withoutControls(`${missing ? noaccess.title() : view.title(data)} · conductor-worker`);
  if (missing) morph(main, problem ? trouble() : null, h("div", { class: "view" }, noaccess.render(missing, () => (signOut(), refresh()))));
  else if (data) morph(main, problem ? trouble() : null, h("div", { class: "view" }, content(view, data)));
  else if (problem) morph(main, trouble());
  if (data && !shown.isPlaced) placeGraph();
  if (data && shown.wantsPanel) showPanel();
}

/** The content of a view. A view that cannot show its data says so, and the next refresh tries again. */
function content(view, data) {
  try {
    return view.render(data, { ...shown, go, refresh, overview });
  } catch (error) {
    console.error(error);
    return h("div", { class: "alarm", role: "alert" }, h("strong", null, "The web UI cannot show this: "), error.message);
  }
}

/** In a narrow window the panel is below the graph: show it when a task is selected. */
function showPanel() {
  shown.wantsPanel = false;
  const head = main.querySelector("section.task h2, .branches");
  if (head && head.getBoundingClientRect().top > innerHeight - 80) head.closest("section").scrollIntoView({ block: "start" });
}

/** Scroll once: the view to the place where it was left, and a wide graph so that its selected task or its middle is visible. */
function placeGraph() {
  shown.isPlaced = true;
  if (shown.top) scrollTo(0, shown.top);
  const scroll = main.querySelector(".drawing .scroll");
  if (!scroll) return;
  const at = (scroll.querySelector(".chosen .frame") ?? scroll.firstElementChild).getBoundingClientRect();
  const box = scroll.getBoundingClientRect();
  scroll.scrollLeft += at.left + at.width / 2 - (box.left + box.width / 2);
}

function trouble() {
  if (problem.status === 404) return h("div", { role: "alert" }, lost(h("p", null, problem.message)));
  const text = problem.status ? problem.message : "The coordinator does not answer. Retrying …";
  return h("div", { class: "alarm", role: "alert" }, h("strong", null, "Error: "), text);
}

function drawBar() {
  morph(bar,
    h("a", { class: "brand", href: "/" }, h("img", { src: "/page/icon.svg", alt: "", width: 20, height: 20 }), " conductor-worker"),
    h("nav", { "aria-label": "Views" }, TABS.filter(([, , , may]) => (may ?? mayRead)()).map(([href, text, pattern]) => h("a", { href, "aria-current": pattern.test(location.pathname) ? "page" : null }, text, href === "/inbox" ? inboxCount() : null))),
    h("div", { class: "numbers" }, overview ? [numbers(overview), updateState()] : null),
    mayRead() && h("form", { role: "search", onsubmit: (event) => {
      event.preventDefault();
      const text = event.target.elements.text.value.trim();
      go(text ? `/workflows?${new URLSearchParams({ text })}` : "/workflows");
    } }, h("input", { type: "search", name: "text", "aria-label": "Search workflows by id, name, correlation id or reason of a failure",
      "aria-keyshortcuts": "/", title: "Press / to search", placeholder: "Search   /", value: shown?.query.get("text") ?? "" })),
    signedIn() ? h("button", { type: "button", class: "small signout", onclick: () => (signOut(), refresh()) }, "Sign out") : null,
    h("button", { type: "button", class: "theme", "aria-label": `Theme: ${theme()}. Change theme`, title: `Theme: ${theme()}`, onclick: nextTheme }, { light: "☀", dark: "☾", auto: "◐" }[theme()]));
}

/** When the view was updated, and whether the stream of changes is open. */
function updateState() {
  const isCurrent = isShownLive = live.isLive && !problem;
  return h("span", { class: `live ${problem ? "stale" : ""}` }, h("span", { class: "dot", "aria-hidden": "true" }, isCurrent ? "●" : "○"),
    problem ? " not updated, " : isCurrent ? " live, updated " : " updated ", ago(updatedMs));
}

function inboxCount() {
  const number = overview?.inbox;
  return number ? h("span", { class: "badge" }, h("span", { class: "unseen" }, ", "), number >= 1000 ? "999+" : number, h("span", { class: "unseen" }, " waiting")) : null;
}

function numbers(one) {
  const item = (href, text, value, kind) => h("a", { href, class: `figure ${kind ?? ""}` }, h("b", null, value), ` ${text}`);
  return [
    one.healthy ? null : h("a", { href: "/server", class: "figure bad" }, h("b", null, "✕"), " cannot write its database"),
    item("/workflows?status=RUNNING", "running", one.running.toLocaleString("en")),
    item("/failures?hours=1", "failed (1 h)", one.failedLately.toLocaleString("en"), one.failedLately ? "bad" : ""),
    h("a", { href: "/queues", class: "figure" }, h("b", null, one.waiting.toLocaleString("en")), " waiting", one.oldestMs ? [" (oldest ", since(one.oldestMs), ")"] : null),
    one.fastLoops.length ? h("a", { href: `/execution/${one.fastLoops[0].workflowId}`, class: "figure bad" }, h("b", null, "⚠"), ` ${one.fastLoops.length === 1 ? "a loop runs" : `${one.fastLoops.length} loops run`} without a pause`) : null,
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

onKeyNeeded((work) => ask({
  title: "Sign in", text: "This coordinator requires a key and a secret. The token is stored for this tab only.",
  button: "Sign in", canCancel: false, work,
  fields: [field("Key", "keyId", { required: true }), field("Secret", "keySecret", { type: "password", required: true })],
}));

showTheme();
enter();

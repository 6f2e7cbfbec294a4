// View: the tasks that wait for a person or a signal, oldest first.

import { mayOperate } from "./access.js";
import { completeDialog, failDialog } from "./answer.js";
import { get, withQuery } from "./api.js";
import { h } from "./dom.js";
import { setNow, since, status } from "./words.js";

export const title = (data) => (data?.count ? `Inbox (${data.count})` : "Inbox");
export const isLive = () => true;
export const usesEvents = true;

export async function load({ query }) {
  const page = await get(withQuery("/api/view/inbox", { after: query.get("after") }));
  setNow(page.nowMs);
  return page;
}

export function render(page, { query, refresh }) {
  return [
    h("div", { class: "head" }, h("h1", null, "Inbox"), h("span", { class: "quiet" }, "Tasks that wait for a person or a signal, oldest first")),
    page.tasks.length ? h("ul", { class: "inbox" }, page.tasks.map((one) => entry(one, refresh))) : nothing(query),
    h("nav", { class: "pages", "aria-label": "Pages" }, query.get("after") ? h("a", { href: "/inbox" }, "« Oldest") : null,
      page.next ? h("a", { href: `/inbox?after=${encodeURIComponent(page.next)}`, rel: "next" }, "Newer »") : null),
  ];
}

function nothing(query) {
  if (query.get("after")) return h("p", { class: "blank" }, "No newer task waits. ", h("a", { href: "/inbox" }, "Show the oldest"));
  return h("div", { class: "blank" }, h("h2", null, "Nothing waits for you"), h("p", null, "HUMAN tasks, and WAIT tasks without an end, appear here until somebody completes or fails them."));
}

function entry(one, refresh) {
  const facts = Object.entries(one.facts ?? {});
  const name = one.title ?? one.ref;
  const button = (word, kind, work) => h("button", { type: "button", class: kind, "aria-label": `${word} ${name} of ${one.workflowName} ${one.correlationId ?? one.workflowId}`, onclick: async () => {
    if (await work(one.taskId)) refresh();
  } }, `${word} …`);
  return h("li", { "data-key": one.taskId, class: "card" },
    h("div", null,
      h("a", { class: "strong", href: `/execution/${one.workflowId}?attempt=${one.taskId}` }, name), h("span", { class: "quiet" }, one.title ? ` ${one.ref} · ${one.type}` : ` ${one.type}`),
      h("p", null, h("a", { href: `/execution/${one.workflowId}` }, one.workflowName), one.correlationId ? ` ${one.correlationId}` : null, h("span", { class: "quiet" }, " · waiting for ", since(one.sinceMs)),
        one.workflowStatus === "PAUSED" ? [" ", status("PAUSED")] : null),
      facts.length ? h("p", { class: "tags" }, facts.map(([key, value]) => h("span", null, h("span", { class: "quiet" }, `${key} `), String(value)))) : null),
    !mayOperate() ? null : h("div", { class: "buttons" }, button("Complete", "primary", completeDialog), button("Fail", "danger", failDialog)));
}

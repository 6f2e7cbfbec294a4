// View: the health and configuration of the coordinator.

import { get } from "./api.js";
import { h } from "./dom.js";
import { ago, bytes, count, setNow, span } from "./words.js";

export const title = () => "Server";
export const isLive = () => true;

export async function load() {
  const found = await get("/api/view/server");
  setNow(found.nowMs);
  return found;
}

export function render(one) {
  const keeps = [
    one.keepFinishedS !== null ? `for ${span(one.keepFinishedS * 1000)}` : null,
    one.keepFinishedCount !== null ? `at most ${count(one.keepFinishedCount, "workflow")}` : null,
  ].filter(Boolean).join(", ");
  const perCommit = one.commits ? (one.committedCallers / one.commits).toFixed(1) : "–";
  const rows = [
    ["State", one.healthy ? h("span", { class: "status ok" }, "✓ HEALTHY") : h("span", { class: "status bad" }, `✕ ${one.health}`)],
    ["Version", `conductor-worker ${one.version}, Python ${one.python}`],
    ["Process", [`${one.pid}, started `, ago(one.startedMs)]],
    ["Database", h("code", null, one.database)],
    ["File size", `${bytes(one.fileBytes)}${one.logBytes ? `, write-ahead log ${bytes(one.logBytes)}` : ""}`],
    ["Commits since the start", `${one.commits.toLocaleString("en")}, ${perCommit} requests per commit`],
    ["Parked polls", one.parkedPolls],
    ["Retention of finished workflows", keeps || "unlimited"],
  ];
  return [h("h1", null, "Server"), h("section", { class: "card", "aria-label": "Server" }, h("dl", { class: "facts roomy" }, rows.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]))),
    h("p", { class: "quiet" }, "For programs: ", h("a", { href: "/health", "data-native": "" }, "/health"), " and ", h("a", { href: "/api-docs", "data-native": "" }, "/api-docs"), " (OpenAPI).")];
}

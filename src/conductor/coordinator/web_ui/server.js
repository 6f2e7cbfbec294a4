// View: the health and configuration of the coordinator.

import { get } from "./api.js";
import { h } from "./dom.js";
import { ago, bytes, count, exactly, setNow, span } from "./words.js";

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
  const replica = one.replication;
  const replicaState = replica && (replica.running && !replica.lastError ? `${replica.url}, ${span(replica.lagS * 1000)} behind, ${bytes(replica.bytes)} copied` : h("span", { class: "status bad" }, `✕ ${replica.lastError || "Litestream is not running"}`));
  const perCommit = one.commits ? (one.committedCallers / one.commits).toFixed(1) : "–";
  const isMemory = one.database === ":memory:";
  const rows = [
    ["State", one.healthy ? h("span", { class: "status ok" }, "✓ HEALTHY") : [h("span", { class: "status bad" }, "✕ NOT HEALTHY"), ` ${one.health}`]],
    ["Version", `conductor-worker ${one.version}, Python ${one.python}`],
    ["Process", [`${one.pid}, started `, ago(one.startedMs), ` (${exactly(one.startedMs)})`]],
    ["Database", isMemory ? "in memory: everything is lost when the process ends" : h("code", null, one.database)],
    ["File size", `${bytes(one.fileBytes)}${one.logBytes ? `, write-ahead log ${bytes(one.logBytes)}` : ""}`],
    ["Commits since the start", `${one.commits.toLocaleString("en")}, ${perCommit} requests per commit`],
    ["Replica", replicaState || "none"],
    ...(one.unreadableSecrets ? [["Secrets", h("span", { class: "status bad" }, `✕ ${count(one.unreadableSecrets, "stored secret")} cannot be read: start the server with CONDUCTOR_SECRETS_KEY`)]] : []),
    ["Polls waiting for a task", one.parkedPolls],
    ["Finished workflows are kept", keeps || ["without a limit. To remove old ones, start the server with ", h("code", null, "--keep-days 30"), "."]],
  ];
  const command = (text, does) => h("li", null, h("code", null, text), h("span", { class: "quiet" }, ` ${does}`));
  const link = (href, text, does) => h("li", null, h("a", { href, "data-native": "" }, text), ` ${does}`);
  return [h("h1", null, "Server"), h("section", { class: "card", "aria-label": "Server" }, h("dl", { class: "facts roomy" }, rows.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]))),
    h("div", { class: "columns even" },
      h("section", { class: "card", "aria-label": "Commands" }, h("h2", null, "Maintenance"), h("ul", { class: "links" },
        command(isMemory ? "conductor-worker serve --database FILE" : `conductor-worker backup ${copyOf(one.database)} --database ${one.database}`, isMemory ? "keeps the workflows in a file." : "copies the database while the server runs."),
        command("conductor-worker purge --help", "removes finished workflows now."),
        command("conductor-worker doctor", "checks the setup, and names what is wrong."))),
      h("section", { class: "card", "aria-label": "For programs" }, h("h2", null, "For programs"), h("ul", { class: "links" },
        link("/metrics", "/metrics", "for Prometheus"), link("/health", "/health", "for probes"), link("/api-docs", "/api-docs", "the REST API as OpenAPI"))))];
}

/** The name for a copy of a database in the same directory. */
function copyOf(database) {
  return `${database.replace(/\.db$/, "")}-copy.db`;
}

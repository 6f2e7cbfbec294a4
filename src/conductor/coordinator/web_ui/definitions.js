// Views: workflow definitions with graph, versions and differences; task definitions with settings and schemas.

import { mayStart } from "./access.js";
import { get, withQuery } from "./api.js";
import { h } from "./dom.js";
import { Tasks, graph, walk } from "./graph.js";
import { resolve, unwrap } from "./schema.js";
import { fullSchema, startDialog } from "./start.js";
import { ago, command, count, json } from "./words.js";

const SHOWN_INPUTS = 30;

const notThere = (error) => {
  if (error.status === 404) return null;
  throw error;
};

/** The list of definitions. */
export const list = {
  title: () => "Definitions",
  isLive: () => false,
  async load() {
    const [workflows, tasks] = await Promise.all([get("/api/metadata/workflow"), get("/api/metadata/taskdefs")]);
    return { workflows, tasks };
  },
  render({ workflows, tasks }, { go }) {
    const byName = new Map();
    for (const one of workflows) byName.set(one.name, [...(byName.get(one.name) ?? []), one]);
    return [
      h("h1", null, "Definitions"),
      h("h2", null, count(byName.size, "workflow")),
      byName.size ? h("div", { class: "scroll" }, h("table", { class: "list cards" },
        h("thead", null, h("tr", null, h("th", null, "Workflow"), h("th", null, "Versions"), h("th", { class: "number" }, "Tasks"), h("th", { class: "wide" }, "Description"), h("th", null, h("span", { class: "unseen" }, "Start")))),
        h("tbody", null, [...byName].map(([name, versions]) => h("tr", { "data-key": name },
          h("th", { scope: "row" }, h("a", { href: `/workflowDef/${encodeURIComponent(name)}` }, name)),
          h("td", { "data-label": "Versions" }, versions.map((one) => h("a", { class: "version", href: `/workflowDef/${encodeURIComponent(name)}?version=${one.version}` }, `v${one.version}`))),
          h("td", { class: "number", "data-label": "Tasks" }, [...walk(versions.at(-1).tasks)].length), h("td", { class: "wide" }, versions.at(-1).description ?? ""),
          h("td", { class: "act" }, mayStart() && h("button", { type: "button", class: "small", "aria-label": `Start ${name}`, onclick: () => startDialog(name, go) }, "Start …"))))))) : h("p", { class: "quiet" }, "No workflows are registered."),
      h("h2", null, count(tasks.length, "task")),
      tasks.length ? h("div", { class: "scroll" }, h("table", { class: "list cards" },
        h("thead", null, h("tr", null, h("th", null, "Task"), h("th", { class: "number" }, "Retries"), h("th", { class: "number" }, "Timeout"), h("th", { class: "number" }, "Response timeout"), h("th", null, "Limits"), h("th", null, "Schemas"), h("th", { class: "wide" }, "Description"))),
        h("tbody", null, tasks.map((one) => h("tr", { "data-key": one.name },
          h("th", { scope: "row" }, h("a", { href: `/taskDef/${encodeURIComponent(one.name)}` }, one.name)),
          h("td", { class: "number", "data-label": "Retries" }, one.retryCount), h("td", { class: "number", "data-label": "Timeout" }, one.timeoutSeconds ? `${one.timeoutSeconds} s` : "none"), h("td", { class: "number", "data-label": "Response timeout" }, `${one.responseTimeoutSeconds} s`),
          h("td", { "data-label": "Limits" }, limitsOf(one) || "–"), h("td", { "data-label": "Schemas" }, [one.inputSchema ? "input" : null, one.outputSchema ? "output" : null].filter(Boolean).join(", ") || "–"), h("td", { class: "wide" }, one.description ?? "")))))) : h("p", { class: "quiet" }, "No tasks are registered."),
    ];
  },
};

const limitsOf = (one) => [one.concurrentExecLimit ? `${one.concurrentExecLimit} concurrent` : null, one.rateLimitPerFrequency ? `${one.rateLimitPerFrequency} per ${one.rateLimitFrequencyInSeconds} s` : null].filter(Boolean).join(", ");

/** One workflow definition. */
export const workflow = {
  title: (data) => data?.name ?? "Workflow definition",
  isLive: () => false,
  async load({ params, query }) {
    const name = params[0];
    const versions = (await get(`/api/metadata/workflow/${encodeURIComponent(name)}/versions`)) ?? [];
    const sorted = [...versions].sort((one, other) => one.version - other.version);
    const shown = versionOf(sorted, query);
    const [warnings, schedules, schema] = await Promise.all([
      shown ? get(withQuery(`/api/view/definition/${encodeURIComponent(name)}/warnings`, { version: shown.version })).catch(() => null) : null,
      get(withQuery("/api/view/schedules", { workflow: name })).catch(() => null), shown ? fullSchema(shown.inputSchema) : null]);
    return { name, versions: sorted, warnings: warnings?.warnings ?? [], schedules: schedules?.schedules ?? [], schema };
  },
  render({ name, versions, warnings, schedules, schema }, { query, go }) {
    if (!versions.length) return h("div", { class: "blank" }, h("h1", null, name), h("p", null, "No workflow with this name is registered. ", h("a", { href: "/definitions" }, "All definitions")));
    const shown = versionOf(versions, query);
    const other = versions.find((one) => String(one.version) === query.get("against"));
    const here = `/workflowDef/${encodeURIComponent(name)}`;
    const select = (label, current, to, all) => h("label", { class: "inline" }, `${label} `, h("select", { onchange: (event) => go(to(event.target.value)) }, all.map((one) => h("option", { value: one.value, selected: one.value === current }, one.text))));
    const numbers = versions.map((one) => ({ value: String(one.version), text: `v${one.version}` }));
    const against = (version) => (version ? `${here}?version=${shown.version}&against=${version}` : `${here}?version=${shown.version}`);
    return [
      h("div", { class: "head" }, h("h1", null, name),
        select("Version", String(shown.version), (version) => `${here}?version=${version}`, numbers),
        versions.length > 1 ? select("Compare with", other ? String(other.version) : "", against, [{ value: "", text: "nothing" }, ...numbers.filter((one) => one.value !== String(shown.version))]) : null,
        mayStart() && h("button", { type: "button", class: "primary", onclick: () => startDialog(name, go, shown === versions.at(-1) ? {} : { version: shown.version }) }, "Start …"),
        h("a", { href: `/workflows?name=${encodeURIComponent(name)}` }, "Workflows with this definition")),
      shown.description ? h("p", null, shown.description) : null,
      warnings.map((text) => h("p", { class: "why warn" }, "⚠ ", text)),
      other ? difference(other, shown) : null,
      h("div", { class: "columns" },
        h("section", { class: "drawing", "aria-label": "Graph" }, h("div", { class: "scroll" }, graph(shown, {
          tasks: new Tasks(), selected: query.get("task"), hrefOf: (ref) => `${here}?version=${shown.version}&task=${encodeURIComponent(ref)}`, hrefOfRound: () => here, room: document.documentElement.clientWidth - 60, hrefOfBranches: (ref) => `${here}?version=${shown.version}&task=${encodeURIComponent(ref)}` }))),
        h("div", { class: "side" },
          h("section", { class: "card", "aria-label": "Use" }, h("h2", null, "Inputs"), inputsOf(shown, schema), h("h2", null, "Start it from a terminal"), command("conductor-worker", "workflow", "start", name, ...(shown === versions.at(-1) ? [] : ["--version", String(shown.version)]), "--input", exampleOf(shown, schema), "--wait"),
            h("h2", null, "Schedules"), schedules.length ? h("ul", null, schedules.map((one) => h("li", null, h("a", { href: `/schedules/${encodeURIComponent(one.schedule.name)}` }, one.schedule.name), `: ${one.times.map((time) => `${time.words} ${time.zone}`).join("; ")}${one.schedule.paused ? " (paused)" : ""}`))) : h("p", { class: "quiet" }, "No schedule starts this workflow. ", h("a", { href: "/schedules" }, "All schedules"))),
          h("section", { class: "card", "aria-label": "Definition" },
          query.get("task") ? json(query.get("task"), [...walk(shown.tasks)].find((one) => one.taskReferenceName === query.get("task"))) : null,
          h("p", { class: "quiet" }, shown.updateTime ? ["Changed ", ago(shown.updateTime)] : null), json("Definition", shown)))),
    ];
  },
};

const versionOf = (versions, query) => versions.find((one) => String(one.version) === query.get("version")) ?? versions.at(-1);

/** The inputs of a workflow: the properties of its schema with their types or, without a schema, the declared names. */
function inputsOf(definition, schema) {
  const root = unwrap(schema);
  const rule = root ? resolve(root, root) : null;
  const all = rule?.properties && typeof rule.properties === "object" ? Object.keys(rule.properties) : definition.inputParameters ?? [];
  if (!all.length) return h("p", { class: "quiet" }, "The definition names no inputs.");
  const required = new Set(Array.isArray(rule?.required) ? rule.required : []);
  return [h("dl", { class: "facts" }, all.slice(0, SHOWN_INPUTS).map((key) => {
    const one = rule?.properties ? resolve(rule.properties[key], root) : {};
    const type = Array.isArray(one.enum) ? one.enum.slice(0, 6).join(" | ") : [one.type ?? ""].flat().join(" or ");
    return [h("dt", null, h("code", null, key)), h("dd", null, [type, required.has(key) ? "required" : null, one.description].filter((part) => typeof part === "string" && part).join(" · ") || "any value")];
  })), all.length > SHOWN_INPUTS ? h("p", { class: "quiet" }, `and ${all.length - SHOWN_INPUTS} more`) : null,
  root ? [definition.enforceSchema === false ? h("p", { class: "quiet" }, "The schema is not enforced.") : null, json("Input schema", root, { open: false })] : null];
}

/** A sample input as JSON: the required properties of the schema or, without a schema, the declared inputs. */
function exampleOf(definition, schema) {
  const root = unwrap(schema);
  const rule = root ? resolve(root, root) : null;
  const keys = rule?.properties ? (Array.isArray(rule.required) ? rule.required : []) : definition.inputParameters ?? [];
  const samples = { integer: 1, number: 1.5, boolean: true, array: [], object: {} };
  return JSON.stringify(Object.fromEntries(keys.slice(0, SHOWN_INPUTS).map((key) => {
    const one = rule?.properties ? resolve(rule.properties[key], root) : {};
    return [key, one.default ?? one.enum?.[0] ?? samples[one.type] ?? "…"];
  })));
}

const TIMES = ["createTime", "updateTime", "createdBy", "updatedBy", "version"];

/** The difference by lines; unchanged lines far from a change are left out. */
function difference(from, to) {
  const text = (one) => JSON.stringify(one, (key, value) => (TIMES.includes(key) ? undefined : value), 2).split("\n");
  const lines = diff(text(from), text(to));
  const isNear = lines.map((_, at) => lines.slice(Math.max(0, at - 3), at + 4).some(([sign]) => sign !== " "));
  const changed = lines.filter(([sign]) => sign !== " ").length;
  return h("section", { class: "card", "aria-label": "Difference" }, h("h2", null, `From v${from.version} to v${to.version}: ${changed ? count(changed, "changed line") : "no difference"}`),
    changed ? h("pre", { class: "diff", tabindex: "0", "aria-label": "Difference" }, lines.map(([sign, line], at) => (isNear[at] ? h("span", { class: sign === "+" ? "plus" : sign === "-" ? "minus" : "" }, `${sign} ${line}\n`) : null))) : null);
}

/** Compare two lists of lines. Returns [sign, line] for each line. */
export function diff(one, other) {
  if (one.length * other.length > 4_000_000) return [...one.map((line) => ["-", line]), ...other.map((line) => ["+", line])];
  const common = Array.from({ length: one.length + 1 }, () => new Uint16Array(other.length + 1));
  for (let i = one.length - 1; i >= 0; i--) for (let j = other.length - 1; j >= 0; j--) common[i][j] = one[i] === other[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
  const found = [];
  let i = 0;
  let j = 0;
  while (i < one.length && j < other.length) {
    if (one[i] === other[j]) found.push([" ", one[i]]), i++, j++;
    else if (common[i + 1][j] >= common[i][j + 1]) found.push(["-", one[i++]]);
    else found.push(["+", other[j++]]);
  }
  while (i < one.length) found.push(["-", one[i++]]);
  while (j < other.length) found.push(["+", other[j++]]);
  return found;
}

/** One task definition. */
export const task = {
  title: (data) => data?.name ?? "Task definition",
  isLive: () => false,
  async load({ params }) {
    const name = params[0];
    const [definition, workflows, polls] = await Promise.all([
      get(`/api/metadata/taskdefs/${encodeURIComponent(name)}`).catch(notThere), get("/api/metadata/workflow"),
      get(`/api/tasks/queue/polldata?taskType=${encodeURIComponent(name)}`)]);
    for (const key of ["inputSchema", "outputSchema"]) if (definition?.[key]) definition[key] = (await fullSchema(definition[key])) ?? definition[key]; // a reference is replaced by its schema
    return { name, definition, polls: polls ?? [], users: workflows.filter((one) => [...walk(one.tasks)].some((two) => two.name === name)) };
  },
  render({ name, definition, polls, users }) {
    const fields = Object.entries(definition ?? {}).filter(([key, value]) => !["name", "inputSchema", "outputSchema", "inputTemplate", "createTime", "updateTime"].includes(key) && value !== null && value !== "" && typeof value !== "object");
    return [
      h("h1", null, name),
      definition ? (definition.description ? h("p", null, definition.description) : null) : h("p", { class: "why" }, "This task has no registered definition. It uses the defaults: 3 retries, 60 s apart."),
      h("div", { class: "columns even" },
        h("section", { class: "card", "aria-label": "Settings" }, h("h2", null, "Settings"), !fields.length ? h("p", { class: "quiet" }, "None are registered.") : h("dl", { class: "facts" }, fields.map(([key, value]) => [h("dt", null, key), h("dd", null, String(value))]))),
        h("section", { class: "card", "aria-label": "Schemas and workers" }, h("h2", null, "Workers"),
          polls.length ? h("ul", null, polls.map((one) => h("li", null, one.workerId ?? "unnamed", one.domain ? ` in domain ${one.domain}` : "", ", ", ago(one.lastPollTime)))) : h("p", { class: "why bad" }, "No worker has polled this task since the coordinator started."),
          h("h2", null, "Used by"), users.length ? h("ul", null, users.map((one) => h("li", null, h("a", { href: `/workflowDef/${encodeURIComponent(one.name)}?version=${one.version}` }, `${one.name} v${one.version}`)))) : h("p", { class: "quiet" }, "No registered workflow"),
          definition ? [json("Input schema", definition.inputSchema?.data ?? definition.inputSchema), json("Output schema", definition.outputSchema?.data ?? definition.outputSchema), json("Input template", definition.inputTemplate)] : null)),
    ];
  },
};

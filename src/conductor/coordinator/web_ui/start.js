// The form that starts a workflow, made from its input schema or from the names of its inputs.

import { ask, field } from "./dialogs.js";
import { get, post, withQuery } from "./api.js";
import { h } from "./dom.js";
import { jsonForm, schemaOfNames } from "./form.js";

/**
 * Ask for a workflow and its input, start the workflow, and show it. `more` may have: version, input (a value to begin
 * with), correlationId, text (a sentence for the dialog), and definition (used if the workflow is not registered).
 */
export async function startDialog(name, go, more = {}) {
  const names = name ? null : await get("/api/metadata/workflow/names");
  if (names && !names.length) {
    await ask({ title: "No workflows are registered", text: "Register a definition first: run conductor-worker workflow register FILE, or POST /api/metadata/workflow.", button: "OK", canCancel: false });
    return;
  }
  const holder = h("div");
  const correlation = field("Correlation id", "correlationId", { value: more.correlationId ?? "", hint: "Optional: a name to find the workflow by, such as an order number." });
  let chosen = null;
  const choose = async (wanted) => {
    const next = { name: wanted, ...await inputForm(wanted, more) };
    if (chosen && chosen.wanted !== wanted) return; // another workflow was chosen meanwhile
    chosen = { ...next, wanted };
    holder.replaceChildren(...[next.description ? h("p", { class: "quiet" }, next.description) : null, next.form.element].filter(Boolean));
  };
  const first = name ?? names[0];
  await choose(first);
  const picker = names ? field("Workflow", "name", { options: names, value: first }) : null;
  picker?.querySelector("select").addEventListener("change", (event) => {
    chosen = { wanted: event.target.value };
    choose(event.target.value);
  });
  let id = null;
  await ask({
    title: name ? `Start ${name}${more.version ? ` v${more.version}` : ""}` : "Start a workflow", text: more.text, button: "Start", isWide: true,
    fields: [picker, holder, correlation],
    check: ({ correlationId }) => {
      if (!chosen.form) throw new Error("The definition is still being loaded. Try again in a moment.");
      return { correlationId, input: chosen.form.read() };
    },
    work: async (asked) => (id = await start(chosen, asked, more)),
    done: (started) => `Started ${chosen.name}: ${started}`,
  });
  if (id) go(`/execution/${id}`);
}

function start(chosen, { correlationId, input }, { version, definition }) {
  if (chosen.isKnown || !definition) return post(withQuery(`/api/workflow/${encodeURIComponent(chosen.name)}`, { correlationId, version }), input);
  return post("/api/workflow", { name: chosen.name, input, workflowDef: definition, ...(correlationId ? { correlationId } : {}) });
}

/** The form for the input of a workflow. The form is empty unless `input` is given. */
export async function inputForm(name, { version, input, definition } = {}) {
  const known = await get(withQuery(`/api/metadata/workflow/${encodeURIComponent(name)}`, { version })).catch((error) => {
    if (error.status === 404) return null;
    throw error;
  });
  const found = known ?? definition ?? {};
  const schema = await fullSchema(found.inputSchema);
  const names = found.inputParameters ?? [];
  return { isKnown: known !== null, description: found.description, form: jsonForm({ schema: schema ?? (names.length ? schemaOfNames(names) : null), value: input }) };
}

/** The content of a schema. Instead of the content, a definition can have the name of a registered schema. */
export async function fullSchema(schema) {
  if (!schema || schema.data || schema.properties || !schema.name) return schema ?? null;
  const path = `/api/schema/${encodeURIComponent(schema.name)}${schema.version ? `/${schema.version}` : ""}`;
  return get(path).catch(() => null);
}

// The form that starts a workflow, built from its input schema or from the input of the last start.

import { act, ask, field, objectOf } from "./dialogs.js";
import { get, post, withQuery } from "./api.js";

/** Ask for a workflow and its input, start the workflow, and show it. */
export async function startDialog(name, go) {
  if (!name) {
    const names = await get("/api/metadata/workflow/names");
    if (!names.length) {
      await ask({ title: "No workflows are registered", text: "Register a definition first, from a program or with POST /api/metadata/workflow.", button: "OK", canCancel: false });
      return;
    }
    const asked = await ask({ title: "Start a workflow", fields: [field("Workflow", "name", { options: names, value: names[0] })], button: "Next" });
    if (!asked) return;
    name = asked.name;
  }
  const definition = await get(`/api/metadata/workflow/${encodeURIComponent(name)}`).catch(() => ({ version: 0 }));
  const schema = definition.inputSchema?.data ?? definition.inputSchema;
  const last = await lastInput(name);
  const properties = schema?.properties ? Object.entries(schema.properties) : null;
  const fields = properties
    ? properties.map(([key, rule]) => fieldOf(key, rule, last?.[key], schema.required?.includes(key)))
    : [field("Input, as JSON", "input", { rows: 10, value: JSON.stringify(last ?? emptyInput(definition), null, 2), hint: last ? "Filled in with the input of the last start." : null })];
  const asked = await ask({
    title: `Start ${name}`, text: definition.description, button: "Start",
    fields: [...fields, field("Correlation id", "correlationId", { hint: "Optional: a name to find the workflow by, such as an order number." })],
    check: (values) => ({ correlationId: values.correlationId, input: properties ? inputOf(properties, values) : objectOf(values.input, "The input") }),
  });
  if (!asked) return;
  let id = null;
  await act((started) => `Started ${name}: ${started}`, async () => (id = await post(withQuery(`/api/workflow/${encodeURIComponent(name)}`, { correlationId: asked.correlationId }), asked.input)));
  if (id) go(`/execution/${id}`);
}

async function lastInput(name) {
  const page = await get(withQuery("/api/view/workflows", { name, size: 1 })).catch(() => null);
  const last = page?.results?.[0];
  if (!last) return null;
  return (await get(`/api/workflow/${last.workflowId}?includeTasks=false`)).input;
}

function emptyInput(definition) {
  return Object.fromEntries((definition.inputParameters ?? []).map((key) => [key, ""]));
}

const typeOf = (rule) => (Array.isArray(rule.type) ? rule.type.find((one) => one !== "null") : rule.type);

function fieldOf(key, rule, last, required) {
  const label = rule.title ? `${rule.title} (${key})` : key;
  const value = last ?? rule.default;
  const hint = rule.description;
  const name = `in-${key}`;
  if (rule.enum) return field(label, name, { options: rule.enum, value, hint });
  switch (typeOf(rule)) {
    case "boolean": return field(label, name, { type: "checkbox", value: value === true, hint });
    case "integer": case "number": return field(label, name, { type: "number", value: value ?? "", hint, required });
    case "string": return field(label, name, { value: value ?? "", hint, required });
    default: return field(`${label}, as JSON`, name, { rows: 4, value: value === undefined ? "" : JSON.stringify(value, null, 2), hint, required });
  }
}

function inputOf(properties, values) {
  const input = {};
  for (const [key, rule] of properties) {
    const given = values[`in-${key}`];
    if (given === "") continue;
    const type = typeOf(rule);
    if (rule.enum) input[key] = rule.enum.find((one) => String(one) === given);
    else if (type === "integer" || type === "number") input[key] = Number(given);
    else if (type === "string" || type === "boolean") input[key] = given;
    else {
      try {
        input[key] = JSON.parse(given);
      } catch (error) {
        throw new Error(`${key} is not JSON: ${error.message}`);
      }
    }
  }
  return input;
}

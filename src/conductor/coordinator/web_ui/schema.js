// Reads JSON schemas for form.js. Schemas come from definitions and task inputs, so every loop of this module is bounded:
// a recursive or huge schema ends in a JSON editor, never in an endless form.

const MAX_STEPS = 20; // references and combinations that are followed for one rule
const MAX_OPTIONS = 300;
const MAX_VARIANTS = 20;

export const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const isScalar = (value) => value === null || typeof value !== "object";

/** A JSON schema without Conductor's wrapper { name, version, type, data }. Null if there is none. */
export function unwrap(schema) {
  const found = isObject(schema?.data) ? schema.data : schema;
  return isObject(found) && ["properties", "type", "$ref", "anyOf", "oneOf", "allOf", "enum"].some((key) => Object.hasOwn(found, key)) && found.type !== "JSON" ? found : null;
}

/** Follow references and merge combinations. The result has `nullable` if null is allowed besides one other type. */
export function resolve(rule, root) {
  let found = isObject(rule) ? rule : {};
  for (let step = 0; step < MAX_STEPS; step++) {
    if (typeof found.$ref === "string") {
      const { $ref, ...rest } = found;
      const target = lookUp(root, $ref);
      if (!isObject(target)) return rest;
      found = { ...target, ...rest };
    } else if (Array.isArray(found.allOf) && found.allOf.length <= MAX_VARIANTS) {
      const { allOf, ...rest } = found;
      found = allOf.filter(isObject).map((one) => (one.$ref ? { ...lookUp(root, one.$ref), ...one, $ref: undefined } : one)).reduce(merge, rest);
    } else {
      const ways = found.anyOf ?? found.oneOf;
      const left = Array.isArray(ways) ? ways.filter((one) => one?.type !== "null") : null;
      if (left?.length !== 1 || left.length === ways.length && found.type) return found;
      const { anyOf, oneOf, ...rest } = found;
      found = { ...(isObject(left[0]) ? left[0] : {}), ...rest, nullable: left.length < ways.length };
    }
  }
  return {};
}

function merge(one, other) {
  const properties = isObject(one.properties) || isObject(other.properties) ? { properties: { ...one.properties, ...other.properties } } : {};
  return { ...other, ...one, ...properties, required: [...asList(one.required), ...asList(other.required)] };
}

const asList = (value) => (Array.isArray(value) ? value : []);

/** The part of a schema that a local reference names, such as "#/$defs/Order". */
function lookUp(root, reference) {
  if (!reference.startsWith("#") || reference.length > 500) return null;
  let found = root;
  for (const step of reference.slice(1).split("/").filter(Boolean)) {
    const key = decoded(step).replaceAll("~1", "/").replaceAll("~0", "~");
    if (found === null || typeof found !== "object" || !Object.hasOwn(found, key)) return null;
    found = found[key];
  }
  return found;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The kind of control for a resolved rule: one of the keys of CONTROLS in form.js. */
export function kindOf(rule) {
  if (Object.hasOwn(rule, "const")) return "const";
  if (Array.isArray(rule.enum)) return rule.enum.length && rule.enum.length <= MAX_OPTIONS && rule.enum.every(isScalar) ? "enum" : "json";
  const ways = variantsOf(rule);
  if (ways) return ways.length <= MAX_VARIANTS ? "variants" : "json";
  const types = (Array.isArray(rule.type) ? rule.type : [rule.type]).filter((one) => one !== "null" && one !== undefined);
  if (types.length > 1) return "any";
  const type = types[0] ?? (isObject(rule.properties) ? "object" : rule.items ? "array" : "any");
  if (type === "object") return isObject(rule.properties) && Object.keys(rule.properties).length ? "object" : "json";
  if (type === "array") return isObject(rule.items) ? "array" : "json";
  return ["string", "integer", "number", "boolean"].includes(type) ? type : "any";
}

export const variantsOf = (rule) => [rule.anyOf, rule.oneOf].find((ways) => Array.isArray(ways) && ways.length) ?? null;

/** Whether a value can be shown by the control of this kind. */
export function fits(kind, value, rule) {
  switch (kind) {
    case "object": return isObject(value);
    case "array": return Array.isArray(value) && value.length <= 50;
    case "string": return typeof value === "string";
    case "integer": case "number": return typeof value === "number";
    case "boolean": return typeof value === "boolean";
    case "enum": return rule.enum.includes(value);
    case "const": return JSON.stringify(value) === JSON.stringify(rule.const);
    default: return true;
  }
}

/** Parse JSON. Throw an error for a whole number that JavaScript cannot represent exactly. */
export function parseJson(text, what) {
  try {
    return JSON.parse(text, (key, value, context) => {
      if (typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "")) {
        throw new Error(`the browser cannot send ${context.source} exactly. Send it from a program, or as a text`);
      }
      return value;
    });
  } catch (error) {
    throw new Error(error instanceof SyntaxError ? `${what} is not JSON: ${error.message}` : `${what}: ${error.message}`);
  }
}

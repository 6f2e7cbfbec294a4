// Draws a definition. Definitions are nested (sequence, fork, switch, loop), so the layout is a recursion over blocks:
// a block has a width and a height and paints itself at a position; its edges enter and leave at its middle.

import { s, withoutControls } from "./dom.js";
import { count, kindOf, signOf } from "./words.js";

const BOX = { w: 196, h: 44 };
const GAP = { x: 20, y: 22 };
const CHARS = 23; // characters of a name that fit into a box
/** A fork with more branches is folded: one box stands for the branches that are not drawn. */
export const SHOWN_BRANCHES = 6;
const SHOWN_CASES = 5;
const MIN_SCALE = 0.55; // smaller names could not be read

/**
 * Set `base` and `path` of each attempt: its reference name in the definition, and the iterations of the loops around it
 * ("2.3" is iteration 3 of a loop inside iteration 2 of another loop, "" is outside loops).
 */
export function placeTasks(lines, definition) {
  const known = refsOf(definition);
  for (const line of lines) {
    let base = line.ref;
    const path = [];
    for (let suffix; !known.has(base) && (suffix = /__(\d+)$/.exec(base)); base = base.slice(0, suffix.index)) path.unshift(suffix[1]);
    const isForked = !known.has(base) && !line.iteration; // a forked task whose own name ends in a number
    line.base = isForked ? line.ref : base;
    line.path = isForked ? "" : path.join(".");
  }
}

const refsOf = (definition) => new Set([...walk(definition.tasks)].map((task) => task.taskReferenceName));

/** The attempts of a workflow, by reference name. `rounds` has the selected iteration of each loop. */
export class Tasks {
  constructor(lines = [], rounds = {}) {
    this.rounds = rounds;
    this.byRef = new Map();
    for (const line of lines) {
      if (!this.byRef.has(line.base)) this.byRef.set(line.base, []);
      this.byRef.get(line.base).push(line);
    }
    this.any = lines.length > 0;
  }

  /** The latest attempt in this iteration. */
  latest(ref, path) {
    return this.all(ref, path).at(-1) ?? null;
  }

  all(ref, path) {
    return (this.byRef.get(ref) ?? []).filter((line) => line.path === path);
  }

  /** The tasks that a dynamic fork has started: those that the definition does not name, up to the next dynamic fork. */
  forkedBy(fork, path, definition) {
    const known = refsOf(definition);
    const seq = this.latest(fork, path)?.seq;
    if (seq === undefined) return [];
    const later = [...this.byRef.values()].flat().filter((line) => line.type === "FORK_JOIN_DYNAMIC" && line.seq > seq).map((line) => line.seq);
    const next = later.reduce((one, other) => Math.min(one, other), Infinity);
    return [...this.byRef].filter(([ref]) => !known.has(ref)).map(([, lines]) => lines.filter((line) => line.path === path && line.seq > seq && line.seq < next)).filter((lines) => lines.length);
  }
}

/** Every task of a definition, including those inside branches and loops. */
export function* walk(tasks) {
  for (const task of tasks ?? []) {
    yield task;
    for (const inner of insideOf(task)) yield* walk(inner);
  }
}

function insideOf(task) {
  switch (task.type) {
    case "SWITCH": case "DECISION": return [...Object.values(task.decisionCases ?? {}), task.defaultCase ?? []];
    case "FORK_JOIN": return task.forkTasks ?? [];
    case "DO_WHILE": return [task.loopOver ?? []];
    default: return [];
  }
}

/**
 * Draw a definition. `look` has: tasks (a Tasks), selected (a reference name), hrefOf(ref, path),
 * hrefOfRound(loop, round, path), hrefOfBranches(fork, path), and room (the width that is available). Everything that can be selected is a link, so that the keyboard can reach it.
 */
export function graph(definition, look) {
  const context = { ...look, definition, path: "" };
  const body = sequence(definition.tasks ?? [], context);
  const pad = 10;
  const w = Math.max(body.w, 60) + 2 * pad;
  const middle = w / 2;
  const top = 18;
  const h = body.h + 2 * top + 2 * GAP.y;
  const scale = Math.max(MIN_SCALE, Math.min(1, (look.room ?? Infinity) / w)); // a narrow window shows a smaller graph
  return s("svg", { class: "graph", width: Math.round(w * scale), height: Math.round(h * scale), viewBox: `0 0 ${w} ${h}`, role: "group", "aria-label": `Graph of ${definition.name}` },
    s("circle", { class: "end", cx: middle, cy: top - 8, r: 5 }),
    line(middle, top - 3, middle, top + GAP.y),
    body.paint(middle - body.w / 2, top + GAP.y),
    line(middle, top + GAP.y + body.h, middle, h - 15),
    s("circle", { class: "end", cx: middle, cy: h - 10, r: 5 }),
    s("circle", { class: "end inner", cx: middle, cy: h - 10, r: 2 }));
}

const line = (x1, y1, x2, y2, kind = "") => s("path", { class: `wire ${kind}`, d: `M${x1} ${y1}L${x2} ${y2}` });

function sequence(tasks, context) {
  const blocks = tasks.map((task) => block(task, context));
  const w = Math.max(0, ...blocks.map((one) => one.w));
  const h = blocks.reduce((sum, one) => sum + one.h, 0) + GAP.y * Math.max(0, blocks.length - 1);
  return { w, h, paint: (x, y) => {
    const painted = [];
    blocks.forEach((one, at) => {
      if (at) painted.push(line(x + w / 2, y - GAP.y, x + w / 2, y));
      painted.push(one.paint(x + (w - one.w) / 2, y));
      y += one.h + GAP.y;
    });
    return painted;
  } };
}

function block(task, context) {
  switch (task.type ?? "SIMPLE") {
    case "FORK_JOIN": return fork(task, context);
    case "FORK_JOIN_DYNAMIC": return dynamicFork(task, context);
    case "SWITCH": case "DECISION": return choice(task, context);
    case "DO_WHILE": return loop(task, context);
    case "JOIN": case "EXCLUSIVE_JOIN": return small(task, context, "join");
    default: return box(task, context);
  }
}

function cut(text, length = CHARS) {
  const shown = withoutControls(text);
  return shown.length > length ? `${shown.slice(0, length - 1)}…` : shown;
}

const pen = document.createElement("canvas").getContext("2d");

/** Cut a name of a task to a width in pixels: wide letters need more room than others. */
function fit(text, width) {
  pen.font = `600 12.5px ${getComputedStyle(document.body).fontFamily}`;
  let length = CHARS;
  while (length > 4 && pen.measureText(cut(text, length)).width > width) length--;
  return cut(text, length);
}

function linkOf(task, context, children, label) {
  const ref = task.taskReferenceName;
  const found = context.tasks.latest(ref, context.path);
  const kind = found ? kindOf(found.status) : "none";
  const chosen = context.selected === ref ? "chosen" : "";
  const said = `${ref}, ${task.type ?? "SIMPLE"}${found ? `, ${found.status}` : context.tasks.any ? ", not reached" : ""}${label ?? ""}`;
  return s("a", { class: `node ${kind} ${chosen}`, href: context.hrefOf(ref, context.path), "aria-label": said, "aria-current": chosen ? "true" : null, "data-ref": ref },
    s("title", null, said), children);
}

function box(task, context) {
  const ref = task.taskReferenceName;
  const type = task.type ?? "SIMPLE";
  const attempts = context.tasks.all(ref, context.path);
  const found = attempts.at(-1);
  const second = type === "SIMPLE" ? (task.name === ref ? "worker task" : task.name) : type.replaceAll("_", " ").toLowerCase();
  const label = attempts.length > 1 ? `, ${count(attempts.length, "attempt")}` : "";
  return { w: BOX.w, h: BOX.h, paint: (x, y) => linkOf(task, context, [
    s("rect", { class: "frame", x, y, width: BOX.w, height: BOX.h, rx: 6 }),
    type === "SUB_WORKFLOW" ? s("rect", { class: "frame second", x: x + 3, y: y + 3, width: BOX.w - 6, height: BOX.h - 6, rx: 4 }) : null,
    s("rect", { class: "stripe", x, y, width: 5, height: BOX.h, rx: 2.5 }),
    s("text", { class: "sign", x: x + 14, y: y + 18 }, found ? signOf(found.status) : "·"),
    s("text", { class: "name", x: x + 30, y: y + 18 }, fit(ref, BOX.w - 36)),
    s("text", { class: "more", x: x + 30, y: y + 34 }, cut(second, 22)),
    attempts.length > 1 ? s("text", { class: "more", x: x + BOX.w - 8, y: y + 34, "text-anchor": "end" }, `×${attempts.length}`) : null,
  ], label) };
}

function small(task, context, word) {
  const h = 26;
  const w = 150;
  const found = context.tasks.latest(task.taskReferenceName, context.path);
  return { w, h, paint: (x, y) => linkOf(task, context, [
    s("rect", { class: "frame", x, y, width: w, height: h, rx: 13 }),
    s("text", { class: "name", x: x + w / 2, y: y + 17, "text-anchor": "middle" }, `${found ? `${signOf(found.status)} ` : ""}${word} ${cut(task.taskReferenceName, 13)}`),
  ]) };
}

/** Blocks side by side, each with its label, joined above and below. `kinds` are the classes of their edges. */
function beside(blocks, labels, kinds) {
  const labelled = labels.some(Boolean);
  const head = labelled ? 34 : 18;
  const foot = 16;
  const widths = blocks.map((one, at) => Math.max(one.w, labels[at] ? 90 : 40));
  const w = widths.reduce((sum, one) => sum + one, 0) + GAP.x * (blocks.length - 1);
  const h = head + Math.max(0, ...blocks.map((one) => one.h)) + foot;
  return { w, h, paint: (x, y) => {
    const middle = x + w / 2;
    let at = x;
    const painted = blocks.map((one, index) => {
      const cx = at + widths[index] / 2;
      const kind = kinds[index];
      const nodes = s("g", { class: kind },
        s("path", { class: `wire ${kind}`, d: `M${middle} ${y}V${y + 8}H${cx}V${y + head}` }),
        one.paint(cx - one.w / 2, y + head),
        s("path", { class: `wire ${kind}`, d: `M${cx} ${y + head + one.h}V${y + h - 8}H${middle}V${y + h}` }),
        labels[index] ? s("text", { class: "label", x: cx + 5, y: y + 24 }, s("title", null, labels[index]), cut(labels[index], 16)) : null);
      at += widths[index] + GAP.x;
      return nodes;
    });
    return painted;
  } };
}

function stack(...blocks) {
  const w = Math.max(...blocks.map((one) => one.w));
  const h = blocks.reduce((sum, one) => sum + one.h, 0);
  return { w, h, paint: (x, y) => blocks.map((one) => {
    const painted = one.paint(x + (w - one.w) / 2, y);
    y += one.h;
    return painted;
  }) };
}

const RANK = { bad: 0, run: 1, wait: 2, paused: 2, warn: 3, ok: 4, off: 5, none: 6 };

/** The status of a branch: the worst status of its tasks. */
export function branchStatus(branch, tasks, path) {
  const found = [...walk(branch)].map((task) => tasks.latest(task.taskReferenceName, path)).filter(Boolean);
  if (!found.length) return null;
  const worst = found.reduce((one, other) => (RANK[kindOf(one.status)] <= RANK[kindOf(other.status)] ? one : other));
  const last = branch.at(-1) && tasks.latest(branch.at(-1).taskReferenceName, path);
  return kindOf(worst.status) === "ok" && !last ? "RUNNING" : worst.status;
}

/** Count statuses: "180 ✓ 15 ◐ 5 ✕". */
export function tally(statuses) {
  const counts = new Map();
  for (const one of statuses) counts.set(one ? signOf(one) : "·", (counts.get(one ? signOf(one) : "·") ?? 0) + 1);
  return [...counts].map(([sign, number]) => `${number} ${sign}`).join("  ");
}

function fork(task, context) {
  const branches = task.forkTasks ?? [];
  const isFolded = branches.length > SHOWN_BRANCHES;
  const statuses = branches.map((branch) => branchStatus(branch, context.tasks, context.path));
  let shown = branches.map((branch, at) => [branch, statuses[at]]);
  if (isFolded) {
    const isRetried = (branch) => branch.some((one) => context.tasks.all(one.taskReferenceName, context.path).length > 1);
    const interesting = ([branch, worst]) => RANK[worst ? kindOf(worst) : "none"] - (isRetried(branch) ? 0.5 + RANK.wait - RANK.run : 0);
    shown = [...shown].sort((one, other) => interesting(one) - interesting(other)).slice(0, SHOWN_BRANCHES - 3);
  }
  const blocks = shown.map(([branch]) => sequence(branch, context));
  if (isFolded) blocks.push(folded(task.taskReferenceName, `${branches.length} branches`, tally(statuses), context));
  return stack(small(task, context, "fork"), beside(blocks, blocks.map(() => ""), blocks.map(() => "")));
}

function dynamicFork(task, context) {
  const forked = context.tasks.forkedBy(task.taskReferenceName, context.path, context.definition).map((lines) => lines.at(-1));
  if (!forked.length) return box(task, context);
  return stack(box(task, context), { w: 1, h: 14, paint: (x, y) => line(x, y, x, y + 14) },
    folded(task.taskReferenceName, count(forked.length, "forked task"), tally(forked.map((one) => one.status)), context));
}

function folded(ref, first, second, context) {
  return { w: BOX.w, h: BOX.h, paint: (x, y) => s("a", { class: "node folded", href: context.hrefOfBranches(ref, context.path), "aria-label": `${first} of ${ref}: ${second}` },
    s("rect", { class: "frame", x: x + 5, y: y + 5, width: BOX.w - 5, height: BOX.h - 3, rx: 6 }),
    s("rect", { class: "frame", x, y, width: BOX.w - 4, height: BOX.h - 3, rx: 6 }),
    s("text", { class: "name", x: x + 14, y: y + 17 }, first),
    s("text", { class: "more", x: x + 14, y: y + 33 }, second)) };
}

function choice(task, context) {
  const found = context.tasks.latest(task.taskReferenceName, context.path);
  const taken = found?.chosen;
  const cases = Object.entries(task.decisionCases ?? {});
  const isNamed = cases.some(([name]) => name === taken);
  let ways = [...cases.map(([name, tasks]) => ({ name, tasks, isTaken: found && name === taken })),
    { name: "default", tasks: task.defaultCase ?? [], isTaken: found && !isNamed && taken !== undefined }];
  let left = 0;
  if (ways.length > SHOWN_CASES) {
    const all = ways.length;
    ways = [...ways].sort((one, other) => Number(other.isTaken ?? 0) - Number(one.isTaken ?? 0)).slice(0, SHOWN_CASES - 1);
    left = all - ways.length;
  }
  const blocks = ways.map((way) => (way.tasks.length ? sequence(way.tasks, context) : { w: 40, h: 24, paint: (x, y) => line(x + 20, y, x + 20, y + 24, way.isTaken ? "taken" : "") }));
  const labels = ways.map((way) => (way.isTaken ? `${way.name} ✓` : way.name));
  const kinds = ways.map((way) => (found ? (way.isTaken ? "taken" : "untaken") : ""));
  if (left) {
    blocks.push(folded(task.taskReferenceName, `${left} more cases`, "not taken", context));
    labels.push("…");
    kinds.push("untaken");
  }
  return stack(diamond(task, context), beside(blocks, labels, kinds));
}

function diamond(task, context) {
  const w = BOX.w;
  const h = 40;
  const text = comparedBy(task, context.tasks.latest(task.taskReferenceName, context.path)?.chosen);
  const found = context.tasks.latest(task.taskReferenceName, context.path);
  return { w, h, paint: (x, y) => linkOf(task, context, [
    s("path", { class: "frame", d: `M${x + 16} ${y}H${x + w - 16}L${x + w} ${y + h / 2}L${x + w - 16} ${y + h}H${x + 16}L${x} ${y + h / 2}Z` }),
    s("text", { class: "name", x: x + w / 2, y: y + 17, "text-anchor": "middle" }, `${found ? `${signOf(found.status)} ` : ""}${cut(task.taskReferenceName, 20)}`),
    s("text", { class: "more", x: x + w / 2, y: y + 32, "text-anchor": "middle" }, cut(text, 26)),
  ], `, ${text}`) };
}

/** The label of a SWITCH: the value that it compares ("checked.kind") and, if known, the case ("checked.kind = risky"). */
export function comparedBy(task, chosen) {
  const name = task.expression ?? task.caseExpression ?? task.caseValueParam ?? "";
  const isScript = task.type === "DECISION" ? Boolean(task.caseExpression) : !["value-param", undefined, null].includes(task.evaluatorType);
  const given = isScript || !Object.hasOwn(task.inputParameters ?? {}, name) ? name : task.inputParameters[name];
  const text = typeof given === "string" ? given.replace(/^\$\{(.*)\}$/, "$1").replace(/^workflow\.input\./, "input.").replace(".output.", ".") : JSON.stringify(given);
  return `${text || "switch"}${chosen === undefined || chosen === null ? "" : ` = ${chosen}`}`;
}

function loop(task, context) {
  const ref = task.taskReferenceName;
  const lines = [...walk(task.loopOver)].flatMap((one) => context.tasks.byRef.get(one.taskReferenceName) ?? []);
  const before = context.path ? `${context.path}.` : "";
  const newest = lines.reduce((most, one) => (one.path.startsWith(before) ? Math.max(most, Number.parseInt(one.path.slice(before.length), 10) || 0) : most), 0);
  const chosen = Math.max(Math.min(1, newest), Math.min(context.tasks.rounds[ref] || newest, newest));
  const body = sequence(task.loopOver ?? [], { ...context, path: `${before}${chosen}` });
  const pad = 14;
  const head = 34;
  const w = Math.max(body.w + 2 * pad, 270);
  const h = body.h + head + 2 * pad + 4;
  return { w, h, paint: (x, y) => s("g", { class: "loop" },
    s("rect", { class: "around", x, y, width: w, height: h, rx: 10 }),
    linkOf(task, context, [
      s("rect", { class: "frame bare", x: x + 4, y: y + 4, width: w - 84, height: head - 8, rx: 5 }),
      s("text", { class: "name", x: x + 14, y: y + 21 }, `↻ ${cut(ref, 12)}${newest ? ` · iteration ${chosen}/${newest}` : ""}`)]),
    newest > 1 ? [roundLink(x + w - 70, y + 5, "‹", ref, chosen - 1, newest, context), roundLink(x + w - 36, y + 5, "›", ref, chosen + 1, newest, context)] : null,
    body.paint(x + (w - body.w) / 2, y + head + pad)) };
}

function roundLink(x, y, sign, ref, round, newest, context) {
  if (round < 1 || round > newest) return null;
  return s("a", { class: "node round", href: context.hrefOfRound(ref, round, context.path), "aria-label": `iteration ${round} of ${ref}` },
    s("rect", { class: "frame", x, y, width: 28, height: 24, rx: 5 }), s("text", { class: "name", x: x + 14, y: y + 17, "text-anchor": "middle" }, sign));
}

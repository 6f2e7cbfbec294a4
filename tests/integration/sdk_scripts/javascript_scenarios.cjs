// The JavaScript SDK as worker and client: `node javascript_scenarios.cjs URL`. A line of JSON a scenario.
const assert = require("node:assert/strict");
const { OrkesClients, TaskManager, NonRetryableException, getTaskContext } = require("@io-orkes/conductor-javascript");

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
let workflows, tasks, metadata;

const WORKERS = [
  { taskDefName: "first", concurrency: 10, execute: async ({ inputData }) => done({ doubled: 2 * inputData.n }) },
  { taskDefName: "second", concurrency: 10, execute: async ({ inputData }) => done({ sum: inputData.doubled + 1 }) },
  { taskDefName: "flaky", execute: flaky },
  { taskDefName: "doomed", execute: async () => { throw new NonRetryableException("no such order"); } },
  { taskDefName: "patient", execute: patient },
  { taskDefName: "painted", domain: "blue", execute: async () => done({ colour: "blue" }) },
  { taskDefName: "long", leaseExtendEnabled: true, execute: long },
  { taskDefName: "late", concurrency: 1, execute: long },
  { taskDefName: "talkative", execute: talkative },
];

function done(outputData) {
  return { status: "COMPLETED", outputData };
}

async function flaky(task) {
  if (task.retryCount < task.inputData.failures) throw new Error(`failure ${task.retryCount}`);
  return done({ attempts: task.retryCount + 1 });
}

async function patient(task) {
  if (task.pollCount < 3) return { status: "IN_PROGRESS", callbackAfterSeconds: 1, outputData: {} };
  return done({ polls: task.pollCount });
}

async function long(task) {
  await sleep(task.inputData.seconds * 1000);
  return done({ slept: task.inputData.seconds });
}

async function talkative() {
  getTaskContext().addLog("one");
  return done({});
}

async function define(name, steps, { responseTimeoutSeconds = 60, retryCount = 3 } = {}) {
  for (const step of steps) {
    await metadata.registerTask({
      name: step, retryCount, retryLogic: "FIXED", retryDelaySeconds: 0, timeoutSeconds: 0, responseTimeoutSeconds,
    });
  }
  const given = { n: "${workflow.input.n}", failures: "${workflow.input.failures}", seconds: "${workflow.input.seconds}" };
  await metadata.registerWorkflowDef({
    name, version: 1, schemaVersion: 2, timeoutSeconds: 0, ownerEmail: "a@example.org",
    tasks: steps.map((step) => ({
      name: step, taskReferenceName: step, type: "SIMPLE",
      inputParameters: step === "second" ? { doubled: "${first.output.doubled}" } : given,
    })),
  }, true);
}

const start = (name, input = {}, more = {}) => workflows.startWorkflow({ name, version: 1, input, ...more });

async function wait(id, status = "COMPLETED") {
  for (let tries = 0; tries < 600; tries++) {
    const workflow = await workflows.getWorkflow(id, true);
    if (workflow.status === status) return workflow;
    await sleep(100);
  }
  throw new Error(`${id} is not ${status}: ${JSON.stringify(await workflows.getWorkflow(id, true))}`);
}

const statuses = (workflow) => workflow.tasks.map((task) => task.status);

const SCENARIOS = {
  async workflows_of_two_steps() {
    await define("two_steps", ["first", "second"]);
    const ids = await Promise.all(Array.from({ length: 20 }, (_, n) => start("two_steps", { n })));
    for (const [n, id] of ids.entries()) {
      const workflow = await wait(id);
      assert.equal(workflow.tasks[1].outputData.sum, 2 * n + 1);
    }
  },
  async retries() {
    await define("with_flaky", ["flaky"]);
    const workflow = await wait(await start("with_flaky", { failures: 2 }));
    assert.deepEqual(statuses(workflow), ["FAILED", "FAILED", "COMPLETED"]);
  },
  async terminal_failure() {
    await define("with_doomed", ["doomed"]);
    const workflow = await wait(await start("with_doomed"), "FAILED");
    assert.deepEqual(statuses(workflow), ["FAILED_WITH_TERMINAL_ERROR"]);
    assert.match(workflow.tasks[0].reasonForIncompletion, /no such order/);
  },
  async task_in_progress() {
    await define("with_patient", ["patient"]);
    const workflow = await wait(await start("with_patient"));
    assert.equal(workflow.tasks[0].outputData.polls, 3);
  },
  async domains() {
    await define("with_painted", ["painted"]);
    const workflow = await wait(await start("with_painted", {}, { taskToDomain: { painted: "blue" } }));
    assert.equal(workflow.tasks[0].outputData.colour, "blue");
  },
  async heartbeats() {
    await define("with_long", ["long"], { responseTimeoutSeconds: 5 });
    assert.deepEqual(statuses(await wait(await start("with_long", { seconds: 8 }))), ["COMPLETED"]);
  },
  async late_result() {
    await define("with_late", ["late"]);
    const ended = await start("with_late", { seconds: 3 });
    while (statuses(await workflows.getWorkflow(ended, true))[0] !== "IN_PROGRESS") await sleep(50);
    await workflows.terminate(ended, "enough");
    assert.deepEqual(statuses(await wait(await start("with_late", { seconds: 0 }))), ["COMPLETED"]);
    assert.deepEqual((await workflows.getWorkflow(ended, true)).tasks[0].outputData ?? {}, {});
  },
  async logs() {
    await define("with_talkative", ["talkative"]);
    const [task] = (await wait(await start("with_talkative"))).tasks;
    await tasks.addTaskLog(task.taskId, "two");
    assert.deepEqual((await tasks.getTaskLogs(task.taskId)).map((entry) => entry.log), ["one", "two"]);
  },
  async search() {
    await define("searched", ["first"]);
    const id = await start("searched", { n: 1 });
    await wait(id);
    const found = await workflows.search(0, 10, "workflowType = 'searched' AND status = 'COMPLETED'", "*");
    assert.deepEqual(found.results.map((one) => one.workflowId), [id]);
  },
  async terminate() {
    await define("ended", ["nobody"]);
    const id = await start("ended");
    await workflows.terminate(id, "enough");
    assert.deepEqual(statuses(await wait(id, "TERMINATED")), ["CANCELED"]);
  },
  async pause_and_resume() {
    await define("paused", ["by_hand", "first"]);
    const id = await start("paused", { n: 4 });
    await workflows.pause(id);
    assert.equal((await workflows.getWorkflowStatus(id, false, false)).status, "PAUSED");
    await workflows.updateTaskByRefName("by_hand", id, "COMPLETED", { by: "hand" });
    assert.deepEqual(statuses(await workflows.getWorkflow(id, true)), ["COMPLETED"]);
    await workflows.resume(id);
    assert.equal((await wait(id)).tasks[1].outputData.doubled, 8);
  },
  async retry_and_restart() {
    await define("retried", ["by_hand"], { retryCount: 0 });
    const id = await start("retried");
    await workflows.updateTaskByRefName("by_hand", id, "FAILED", {});
    await wait(id, "FAILED");
    await workflows.retry(id, false);
    await workflows.updateTaskByRefName("by_hand", id, "COMPLETED", {});
    assert.deepEqual(statuses(await wait(id)), ["FAILED", "COMPLETED"]);
    await workflows.restart(id, false);
    assert.deepEqual(statuses(await wait(id, "RUNNING")), ["SCHEDULED"]);
    await workflows.terminate(id, "enough");
  },
};

async function main() {
  const clients = await OrkesClients.from({ serverUrl: process.argv[2] });
  [workflows, tasks, metadata] = [clients.getWorkflowClient(), clients.getTaskClient(), clients.getMetadataClient()];
  const manager = new TaskManager(clients.getClient(), WORKERS, { options: { pollInterval: 50 } });
  manager.startPolling();
  for (const [scenario, play] of Object.entries(SCENARIOS)) {
    let failure = null;
    try {
      await play();
    } catch (error) {
      failure = error.stack ?? JSON.stringify(error);
    }
    console.log(JSON.stringify({ scenario, failure }));
  }
  await manager.stopPolling();
  process.exit(0);
}

main();

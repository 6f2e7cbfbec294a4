// The Java SDK as worker and client: `java -cp 'lib/*' JavaScenarios.java URL`. A line of JSON a scenario.

import com.fasterxml.jackson.databind.ObjectMapper;
import com.netflix.conductor.client.automator.TaskRunnerConfigurer;
import com.netflix.conductor.client.exception.ConductorClientException;
import com.netflix.conductor.client.http.ConductorClient;
import com.netflix.conductor.client.http.MetadataClient;
import com.netflix.conductor.client.http.TaskClient;
import com.netflix.conductor.client.http.WorkflowClient;
import com.netflix.conductor.client.worker.Worker;
import com.netflix.conductor.common.metadata.tasks.Task;
import com.netflix.conductor.common.metadata.tasks.TaskDef;
import com.netflix.conductor.common.metadata.tasks.TaskExecLog;
import com.netflix.conductor.common.metadata.tasks.TaskResult;
import com.netflix.conductor.common.metadata.workflow.RerunWorkflowRequest;
import com.netflix.conductor.common.metadata.workflow.StartWorkflowRequest;
import com.netflix.conductor.common.metadata.workflow.WorkflowDef;
import com.netflix.conductor.common.metadata.workflow.WorkflowTask;
import com.netflix.conductor.common.run.TaskSummary;
import com.netflix.conductor.common.run.Workflow;
import com.netflix.conductor.common.run.WorkflowSummary;
import com.netflix.conductor.sdk.workflow.def.ConductorWorkflow;
import com.netflix.conductor.sdk.workflow.def.tasks.SimpleTask;
import com.netflix.conductor.sdk.workflow.executor.WorkflowExecutor;
import com.netflix.conductor.sdk.workflow.executor.task.AnnotatedWorkerExecutor;
import com.netflix.conductor.sdk.workflow.executor.task.NonRetryableException;
import com.netflix.conductor.sdk.workflow.executor.task.TaskContext;
import com.netflix.conductor.sdk.workflow.task.InputParam;
import com.netflix.conductor.sdk.workflow.task.OutputParam;
import com.netflix.conductor.sdk.workflow.task.WorkerTask;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.conductoross.conductor.common.model.SignalResponse;

public class JavaScenarios {
    interface Scenario {
        void play() throws Exception;
    }

    static String url;
    static TaskClient tasks;
    static WorkflowClient workflows;
    static MetadataClient metadata;
    static AnnotatedWorkerExecutor annotated;

    // Workers of the interface.

    record Plain(String getTaskDefName, boolean leaseExtendEnabled, Function<Task, TaskResult> work) implements Worker {
        @Override
        public TaskResult execute(Task task) {
            return work.apply(task);
        }

        @Override
        public int getPollingInterval() {
            return 50;
        }
    }

    static Worker worker(String name, Function<Task, TaskResult> work) {
        return new Plain(name, false, work);
    }

    static final List<Worker> WORKERS = List.of(
            worker("first", task -> completed(task, "doubled", 2 * number(task, "n"))),
            worker("flaky", JavaScenarios::flaky),
            worker("doomed", JavaScenarios::doomed),
            worker("patient", JavaScenarios::patient),
            worker("painted", task -> completed(task, "colour", task.getDomain())),
            new Plain("long", true, JavaScenarios::sleepy),
            worker("late", JavaScenarios::sleepy),
            worker("talkative", task -> completed(task, "said", 2).log("one").log("two")));

    static int number(Task task, String name) {
        return ((Number) task.getInputData().get(name)).intValue();
    }

    static TaskResult completed(Task task, String name, Object value) {
        TaskResult result = new TaskResult(task);
        result.setStatus(TaskResult.Status.COMPLETED);
        return result.addOutputData(name, value);
    }

    static TaskResult flaky(Task task) {
        if (task.getRetryCount() < number(task, "failures")) {
            throw new IllegalStateException("failure " + task.getRetryCount());
        }
        return completed(task, "attempts", task.getRetryCount() + 1);
    }

    static TaskResult doomed(Task task) {
        TaskResult result = new TaskResult(task);
        result.setStatus(TaskResult.Status.FAILED_WITH_TERMINAL_ERROR);
        result.setReasonForIncompletion("no such order");
        return result;
    }

    static TaskResult patient(Task task) {
        if (task.getPollCount() >= number(task, "rounds")) {
            return completed(task, "polls", task.getPollCount());
        }
        TaskResult result = new TaskResult(task);
        result.setStatus(TaskResult.Status.IN_PROGRESS);
        result.setCallbackAfterSeconds(1);
        return result;
    }

    static TaskResult sleepy(Task task) {
        sleep(1000L * number(task, "seconds"));
        return completed(task, "slept", number(task, "seconds"));
    }

    // Workers by annotation.

    public static class Annotated {
        @WorkerTask(value = "second", threadCount = 10, pollingInterval = 50)
        public @OutputParam("sum") int second(@InputParam("doubled") int doubled) {
            return doubled + 1;
        }

        @WorkerTask(value = "annotated_flaky", pollingInterval = 50)
        public Map<String, Object> flaky(@InputParam("failures") int failures) {
            int retries = TaskContext.get().getRetryCount();
            if (retries < failures) {
                throw new IllegalStateException("failure " + retries);
            }
            return Map.of("attempts", retries + 1);
        }

        @WorkerTask(value = "annotated_doomed", pollingInterval = 50)
        public void doomed() {
            throw new NonRetryableException("no such order");
        }

        @WorkerTask(value = "annotated_patient", pollingInterval = 50)
        public @OutputParam("polls") int patient(@InputParam("rounds") int rounds) {
            TaskContext context = TaskContext.get();
            context.setCallbackAfter(context.getPollCount() < rounds ? 1 : 0);
            return context.getPollCount();
        }

        @WorkerTask(value = "annotated_painted", domain = "blue", pollingInterval = 50)
        public @OutputParam("colour") String painted() {
            return "blue";
        }

        @WorkerTask(value = "annotated_talkative", pollingInterval = 50)
        public void talkative() {
            TaskContext.get().addLog("one");
            TaskContext.get().addLog("two");
        }
    }

    // What the scenarios need.

    static void define(String name, String... steps) {
        define(name, 60, 3, steps);
    }

    static void define(String name, int responseTimeoutSeconds, int retries, String... steps) {
        metadata.registerTaskDefs(
                Arrays.stream(steps).map(step -> taskDef(step, responseTimeoutSeconds, retries)).toList());
        metadata.updateWorkflowDefs(List.of(workflowDef(name, steps)));
    }

    static TaskDef taskDef(String name, int responseTimeoutSeconds, int retries) {
        TaskDef definition = new TaskDef(name);
        definition.setRetryCount(retries);
        definition.setRetryLogic(TaskDef.RetryLogic.FIXED);
        definition.setRetryDelaySeconds(0);
        definition.setTimeoutSeconds(0);
        definition.setResponseTimeoutSeconds(responseTimeoutSeconds);
        definition.setOwnerEmail("a@example.org");
        return definition;
    }

    static WorkflowDef workflowDef(String name, String... steps) {
        WorkflowDef definition = new WorkflowDef();
        definition.setName(name);
        definition.setVersion(1);
        definition.setOwnerEmail("a@example.org");
        definition.setTimeoutSeconds(0);
        definition.setTasks(Arrays.stream(steps).map(JavaScenarios::step).toList());
        return definition;
    }

    static WorkflowTask step(String name) {
        WorkflowTask step = new WorkflowTask();
        step.setName(name);
        step.setTaskReferenceName(name);
        for (String key : List.of("n", "failures", "rounds", "seconds")) {
            step.getInputParameters().put(key, "${workflow.input." + key + "}");
        }
        if (name.equals("second")) {
            step.getInputParameters().put("doubled", "${first.output.doubled}");
        }
        return step;
    }

    static StartWorkflowRequest request(String name, Map<String, Object> input) {
        StartWorkflowRequest request = new StartWorkflowRequest();
        request.setName(name);
        request.setVersion(1);
        request.setInput(input);
        return request;
    }

    static String start(String name, Map<String, Object> input) {
        return workflows.startWorkflow(request(name, input));
    }

    static String start(String name) {
        return start(name, Map.of());
    }

    static Workflow wait(String id) {
        return wait(id, Workflow.WorkflowStatus.COMPLETED);
    }

    static Workflow wait(String id, Workflow.WorkflowStatus status) {
        return waitFor(id + " is " + status, () -> {
            Workflow workflow = workflows.getWorkflow(id, true);
            return workflow.getStatus() == status ? workflow : null;
        });
    }

    static <T> T waitFor(String what, Supplier<T> condition) {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (System.nanoTime() < deadline) {
            T value = condition.get();
            if (value != null) {
                return value;
            }
            sleep(100);
        }
        throw new AssertionError("it did not happen in time that " + what);
    }

    static void sleep(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    static <T, R> List<R> each(Collection<T> all, Function<T, R> what) {
        return all.stream().map(what).toList();
    }

    static List<String> statuses(Workflow workflow) {
        return each(workflow.getTasks(), task -> task.getStatus().name());
    }

    static void same(Object expected, Object actual) {
        check(Objects.equals(expected, actual), "expected " + expected + ", not " + actual);
    }

    static void check(boolean condition, String otherwise) {
        if (!condition) {
            throw new AssertionError(otherwise);
        }
    }

    static void refused(int status, Runnable mistake) {
        try {
            mistake.run();
        } catch (ConductorClientException error) {
            same(status, error.getStatus());
            check(!error.getMessage().isBlank(), "it does not say what is wrong");
            return;
        }
        throw new AssertionError("it was not refused");
    }

    // The scenarios.

    static void sixtyWorkflowsOfTwoSteps() {
        define("two_steps", "first", "second");
        WorkflowDef definition = workflowDef("two_steps", "first", "second");
        definition.setOutputParameters(Map.of("sum", "${second.output.sum}"));
        metadata.updateWorkflowDefs(List.of(definition));
        List<String> ids = IntStream.range(0, 60).mapToObj(n -> start("two_steps", Map.of("n", n))).toList();
        for (int n = 0; n < ids.size(); n++) {
            Workflow workflow = wait(ids.get(n));
            same(Map.of("sum", 2 * n + 1), workflow.getOutput());
            same(List.of("COMPLETED", "COMPLETED"), statuses(workflow));
        }
    }

    static void retries(String task) {
        define("with_" + task, task);
        Workflow workflow = wait(start("with_" + task, Map.of("failures", 2)));
        same(List.of("FAILED", "FAILED", "COMPLETED"), statuses(workflow));
        same(List.of(0, 1, 2), each(workflow.getTasks(), Task::getRetryCount));
        same(Map.of("attempts", 3), workflow.getTasks().get(2).getOutputData());
        same(workflow.getTasks().get(0).getTaskId(), workflow.getTasks().get(1).getRetriedTaskId());
        check(workflow.getTasks().get(0).getReasonForIncompletion().contains("failure 0"), "the reason");
    }

    static void retriesRunOut() {
        define("runs_out", 60, 1, "flaky");
        Workflow workflow = wait(start("runs_out", Map.of("failures", 9)), Workflow.WorkflowStatus.FAILED);
        same(List.of("FAILED", "FAILED"), statuses(workflow));
    }

    static void terminalFailure(String task) {
        define("with_" + task, task);
        Workflow workflow = wait(start("with_" + task), Workflow.WorkflowStatus.FAILED);
        same(List.of("FAILED_WITH_TERMINAL_ERROR"), statuses(workflow));
        same("no such order", workflow.getTasks().get(0).getReasonForIncompletion());
        same(Set.of(task), workflow.getFailedReferenceTaskNames());
    }

    static void taskInProgress(String task) {
        define("with_" + task, task);
        Workflow workflow = wait(start("with_" + task, Map.of("rounds", 3)));
        same(1, workflow.getTasks().size());
        same(3, workflow.getTasks().get(0).getPollCount());
        same(Map.of("polls", 3), workflow.getTasks().get(0).getOutputData());
    }

    static void domains(String task) {
        define("with_" + task, task);
        StartWorkflowRequest request = request("with_" + task, Map.of());
        request.setTaskToDomain(Map.of(task, "blue"));
        Task done = wait(workflows.startWorkflow(request)).getTasks().get(0);
        same("blue", done.getDomain());
        same(Map.of("colour", "blue"), done.getOutputData());
        String undelivered = start("with_" + task);
        same(List.of("SCHEDULED"), statuses(workflows.getWorkflow(undelivered, true)));
        workflows.terminateWorkflow(undelivered, "nobody works without a domain");
    }

    static void heartbeats() {
        define("with_long", 5, 3, "long");
        Workflow workflow = wait(start("with_long", Map.of("seconds", 8)));
        same(List.of("COMPLETED"), statuses(workflow));
    }

    static void lateResult() {
        define("with_late", "late");
        String ended = start("with_late", Map.of("seconds", 3));
        waitFor("the task is in progress", () -> statuses(workflows.getWorkflow(ended, true)).get(0).equals("IN_PROGRESS") ? true : null);
        workflows.terminateWorkflow(ended, "enough");
        same(List.of("COMPLETED"), statuses(wait(start("with_late", Map.of("seconds", 0)))));
        same(Map.of(), workflows.getWorkflow(ended, true).getTasks().get(0).getOutputData());
    }

    static void logs(String task) {
        define("with_" + task, task);
        String id = wait(start("with_" + task)).getTasks().get(0).getTaskId();
        tasks.logMessageForTask(id, "three");
        same(List.of("one", "two", "three"), each(tasks.getTaskLogs(id), TaskExecLog::getLog));
    }

    static void search() {
        define("searched", "first");
        List<String> ids = IntStream.range(0, 3).mapToObj(n -> start("searched", Map.of("n", n))).toList();
        ids.forEach(JavaScenarios::wait);
        String query = "workflowType = 'searched' AND status = 'COMPLETED'";
        List<WorkflowSummary> found = workflows.search(0, 10, "", "*", query).getResults();
        same(Set.copyOf(ids), Set.copyOf(each(found, WorkflowSummary::getWorkflowId)));
        same(Set.copyOf(ids), Set.copyOf(each(workflows.searchV2(query).getResults(), Workflow::getWorkflowId)));
        same(List.of(), workflows.search("workflowType = 'searched' AND status = 'FAILED'").getResults());
        List<TaskSummary> summaries = tasks.search(query).getResults();
        same(Set.copyOf(ids), Set.copyOf(each(summaries, TaskSummary::getWorkflowId)));
        List<Task> whole = tasks.searchV2(query).getResults();
        same(Set.copyOf(ids), Set.copyOf(each(whole, Task::getWorkflowInstanceId)));
    }

    static void correlation() {
        define("correlated", "first");
        StartWorkflowRequest request = request("correlated", Map.of("n", 1));
        request.setCorrelationId("order-7");
        String id = workflows.startWorkflow(request);
        wait(id);
        List<Workflow> found = workflows.getWorkflows("correlated", "order-7", true, true);
        same(List.of(id), each(found, Workflow::getWorkflowId));
        same(List.of(), workflows.getWorkflows("correlated", "order-7", false, false));
        same(List.of(), workflows.getRunningWorkflow("correlated", 1));
    }

    static void terminate() {
        define("ended", "nobody");
        String id = start("ended");
        workflows.terminateWorkflow(id, "enough");
        Workflow workflow = wait(id, Workflow.WorkflowStatus.TERMINATED);
        same("enough", workflow.getReasonForIncompletion());
        same(List.of("CANCELED"), statuses(workflow));
    }

    static void pauseAndResume() {
        define("paused", "by_hand", "first");
        String id = start("paused", Map.of("n", 4));
        workflows.pauseWorkflow(id);
        same("PAUSED", workflows.getWorkflowStatusSummary(id, false, false).getStatus().name());
        tasks.updateTask(id, "by_hand", TaskResult.Status.COMPLETED, Map.of("by", "hand"));
        same(List.of("COMPLETED"), statuses(workflows.getWorkflow(id, true)));
        workflows.resumeWorkflow(id);
        List<Task> done = wait(id).getTasks();
        same(List.of(Map.of("by", "hand"), Map.of("doubled", 8)), each(done, Task::getOutputData));
    }

    static void retry() {
        define("retried", 60, 0, "by_hand");
        String id = start("retried");
        Workflow failed = tasks.updateTaskSync(id, "by_hand", TaskResult.Status.FAILED, Map.of());
        same(Workflow.WorkflowStatus.FAILED, failed.getStatus());
        workflows.retryLastFailedTask(id);
        wait(id, Workflow.WorkflowStatus.RUNNING);
        tasks.updateTask(id, "by_hand", TaskResult.Status.COMPLETED, Map.of());
        same(List.of("FAILED", "COMPLETED"), statuses(wait(id)));
    }

    static void restart() {
        define("restarted", "by_hand");
        String id = start("restarted");
        tasks.updateTask(id, "by_hand", TaskResult.Status.COMPLETED, Map.of());
        String before = wait(id).getTasks().get(0).getTaskId();
        workflows.restart(id, false);
        Workflow again = wait(id, Workflow.WorkflowStatus.RUNNING);
        same(List.of("SCHEDULED"), statuses(again));
        check(!before.equals(again.getTasks().get(0).getTaskId()), "it is a new task");
        tasks.updateTask(id, "by_hand", TaskResult.Status.COMPLETED, Map.of());
        wait(id);
    }

    static void rerun() {
        define("rerun", "first", "second");
        String id = start("rerun", Map.of("n", 1));
        RerunWorkflowRequest request = new RerunWorkflowRequest();
        request.setReRunFromTaskId(wait(id).getTasks().get(1).getTaskId());
        same(id, workflows.rerunWorkflow(id, request));
        same(List.of(Map.of("doubled", 2), Map.of("sum", 3)), each(wait(id).getTasks(), Task::getOutputData));
    }

    static void skip() {
        define("skipped", "by_hand", "nobody");
        String id = start("skipped");
        workflows.skipTaskFromWorkflow(id, "nobody");
        tasks.updateTask(id, "by_hand", TaskResult.Status.COMPLETED, Map.of());
        check(statuses(wait(id)).contains("SKIPPED"), "the skipped task is not shown as such");
    }

    static void remove() {
        define("removed", "first");
        String id = start("removed", Map.of("n", 1));
        wait(id);
        workflows.deleteWorkflow(id, false);
        refused(404, () -> workflows.getWorkflow(id, true));
    }

    static void bulk() {
        define("many", "nobody");
        List<String> ids = List.of(start("many"), start("many"));
        same(ids, workflows.pauseWorkflows(ids).getBulkSuccessfulResults());
        same(ids, workflows.resumeWorkflows(ids).getBulkSuccessfulResults());
        same(ids, workflows.terminateWorkflows(ids, "enough").getBulkSuccessfulResults());
        same(ids, workflows.restartWorkflows(ids, false).getBulkSuccessfulResults());
        workflows.terminateWorkflows(ids, "enough");
        same(Set.of("nothing"), workflows.retryWorkflows(List.of("nothing")).getBulkErrorResults().keySet());
    }

    static void pollingByHand() {
        define("polled", "polled_by_hand");
        check(tasks.pollTask("polled_by_hand", "me", null) == null, "there is nothing to poll yet");
        Set<String> ids = IntStream.range(0, 3).mapToObj(n -> start("polled")).collect(Collectors.toSet());
        same(3, tasks.getQueueSizeForTask("polled_by_hand"));
        List<Task> got = new ArrayList<>();
        got.add(waitFor("one is polled", () -> tasks.pollTask("polled_by_hand", "me", null)));
        waitFor("all are polled", () -> {
            got.addAll(tasks.batchPollTasksByTaskType("polled_by_hand", "me", 5, 100));
            return got.size() == 3 ? got : null;
        });
        same(ids, Set.copyOf(each(got, Task::getWorkflowInstanceId)));
        for (Task task : got) {
            same(Task.Status.IN_PROGRESS, task.getStatus());
            tasks.updateTask(completed(task, "by", "poll"));
            same(Task.Status.COMPLETED, tasks.getTaskDetails(task.getTaskId()).getStatus());
        }
        ids.forEach(JavaScenarios::wait);
        same("me", tasks.getPollData("polled_by_hand").get(0).getWorkerId());
        check(!tasks.getAllPollData().isEmpty(), "nobody polled");
        same(List.of(), tasks.batchPollTasksInDomain("polled_by_hand", "blue", "me", 5, 100));
    }

    /** The SDK's taskUpdateV2: each report is answered with the next task. */
    static void reportsAnsweredWithTheNextTask() {
        define("chained", "link");
        List<String> ids = IntStream.range(0, 20).mapToObj(n -> start("chained", Map.of("n", n))).toList();
        Set<String> called = ConcurrentHashMap.newKeySet();
        ConductorClient client = new ConductorClient.Builder<>()
                .basePath(url)
                .configureOkHttp(http -> http.addInterceptor(chain -> {
                    called.add(chain.request().url().encodedPath());
                    return chain.proceed(chain.request());
                }))
                .build();
        Worker link = worker("link", task -> completed(task, "n", number(task, "n")));
        TaskRunnerConfigurer runner =
                new TaskRunnerConfigurer.Builder(new TaskClient(client), List.of(link)).withThreadCount(2).build();
        System.setProperty("taskUpdateV2", "true"); // read by a thread that init starts
        try {
            runner.init();
            for (int n = 0; n < ids.size(); n++) {
                same(Map.of("n", n), wait(ids.get(n)).getTasks().get(0).getOutputData());
            }
        } finally {
            System.clearProperty("taskUpdateV2");
            runner.shutdown();
        }
        same(Set.of("/api/tasks/poll/batch/link", "/api/tasks/update-v2"), called);
    }

    static void signals() {
        WorkflowTask pause = new WorkflowTask();
        pause.setName("pause");
        pause.setTaskReferenceName("pause");
        pause.setType("WAIT");
        WorkflowTask again = new WorkflowTask();
        again.setName("again");
        again.setTaskReferenceName("again");
        again.setType("WAIT");
        WorkflowDef definition = workflowDef("signalled");
        definition.setTasks(List.of(pause, again));
        metadata.updateWorkflowDefs(List.of(definition));
        String id = start("signalled");
        SignalResponse first = tasks.signal(id, Task.Status.COMPLETED, Map.of("said", "go"));
        same(List.of("COMPLETED", "IN_PROGRESS"), statuses(first.getWorkflow()));
        same(false, first.isSignalTimeout());
        same(id, first.getTargetWorkflowId());
        tasks.signalAsync(id, Task.Status.COMPLETED, Map.of("said", "done"));
        same(Map.of("said", "done"), wait(id).getOutput());
        refused(404, () -> tasks.signal(id, Task.Status.COMPLETED, Map.of()));
        refused(404, () -> tasks.signal("nothing", Task.Status.COMPLETED, Map.of()));
    }

    static void executedAndWaitedFor() throws Exception {
        define("executed", "first");
        StartWorkflowRequest request = request("executed", Map.of("n", 5));
        var run = workflows.executeWorkflow(request, (String) null, 20).get(60, TimeUnit.SECONDS);
        same(Workflow.WorkflowStatus.COMPLETED, run.getStatus());
        same(Map.of("doubled", 10), run.getOutput());
        var signal = workflows.executeWorkflowWithReturnStrategy(request).get(60, TimeUnit.SECONDS);
        same("COMPLETED", signal.getTargetWorkflowStatus());
    }

    static void workflowAsCode() throws Exception {
        metadata.registerTaskDefs(List.of(taskDef("first", 60, 3)));
        WorkflowExecutor executor = new WorkflowExecutor(tasks, workflows, metadata, annotated);
        ConductorWorkflow<Map<String, Object>> workflow = new ConductorWorkflow<>(executor);
        workflow.setName("as_code");
        workflow.setVersion(1);
        workflow.setOwnerEmail("a@example.org");
        SimpleTask step = new SimpleTask("first", "first");
        step.input("n", "${workflow.input.n}");
        workflow.add(step);
        workflow.registerWorkflow(true);
        Workflow done = workflow.execute(Map.of("n", 21)).get(60, TimeUnit.SECONDS);
        same(Map.of("doubled", 42), done.getOutput());
        same(Workflow.WorkflowStatus.COMPLETED, workflow.executeDynamic(Map.of("n", 1)).get().getStatus());
    }

    static void definitions() {
        metadata.registerTaskDefs(List.of(taskDef("described", 60, 3)));
        same(60L, metadata.getTaskDef("described").getResponseTimeoutSeconds());
        TaskDef changed = taskDef("described", 30, 1);
        changed.setDescription("new");
        metadata.updateTaskDef(changed);
        same("new", metadata.getTaskDef("described").getDescription());
        check(each(metadata.getAllTaskDefs(), TaskDef::getName).contains("described"), "it is among all of them");

        metadata.registerWorkflowDef(workflowDef("described", "described"));
        refused(409, () -> metadata.registerWorkflowDef(workflowDef("described", "described")));
        WorkflowDef second = workflowDef("described", "described", "first");
        second.setVersion(2);
        metadata.updateWorkflowDefs(List.of(second));
        same(2, metadata.getWorkflowDef("described", null).getVersion());
        same(1, metadata.getWorkflowDef("described", 1).getTasks().size());
        List<WorkflowDef> latest = metadata.getAllWorkflowsWithLatestVersions();
        check(latest.stream().anyMatch(one -> one.getName().equals("described") && one.getVersion() == 2), "the latest");

        metadata.unregisterWorkflowDef("described", 1);
        metadata.unregisterWorkflowDef("described", 2);
        metadata.unregisterTaskDef("described");
        refused(404, () -> metadata.getWorkflowDef("described", null));
        refused(404, () -> metadata.getTaskDef("described"));
    }

    static void mistakes() {
        refused(404, () -> start("there is no such workflow"));
        refused(404, () -> workflows.getWorkflow("nothing", true));
        refused(404, () -> workflows.terminateWorkflow("nothing", "enough"));
        refused(404, () -> tasks.getTaskDetails("nothing"));
        refused(404, () -> metadata.updateTaskDef(taskDef("there is no such task", 60, 3)));
        TaskResult unknown = new TaskResult();
        unknown.setTaskId("nothing");
        unknown.setWorkflowInstanceId("nothing");
        unknown.setStatus(TaskResult.Status.COMPLETED);
        refused(404, () -> tasks.updateTask(unknown));
        refused(404, () -> tasks.updateTaskV2(unknown));
        refused(400, () -> metadata.registerWorkflowDef(workflowDef("without tasks")));
        define("mistaken", "nobody");
        String id = start("mistaken");
        refused(409, () -> workflows.restart(id, false));
        refused(404, () -> workflows.retryLastFailedTask(id));
        workflows.terminateWorkflow(id, "enough");
    }

    static final Map<String, Scenario> SCENARIOS = new LinkedHashMap<>();

    static {
        SCENARIOS.put("sixty_workflows_of_two_steps", JavaScenarios::sixtyWorkflowsOfTwoSteps);
        SCENARIOS.put("retries", () -> retries("flaky"));
        SCENARIOS.put("retries_of_an_annotated_worker", () -> retries("annotated_flaky"));
        SCENARIOS.put("retries_run_out", JavaScenarios::retriesRunOut);
        SCENARIOS.put("terminal_failure", () -> terminalFailure("doomed"));
        SCENARIOS.put("terminal_failure_of_an_annotated_worker", () -> terminalFailure("annotated_doomed"));
        SCENARIOS.put("task_in_progress", () -> taskInProgress("patient"));
        SCENARIOS.put("task_in_progress_of_an_annotated_worker", () -> taskInProgress("annotated_patient"));
        SCENARIOS.put("domains", () -> domains("painted"));
        SCENARIOS.put("domains_of_an_annotated_worker", () -> domains("annotated_painted"));
        SCENARIOS.put("heartbeats", JavaScenarios::heartbeats);
        SCENARIOS.put("late_result", JavaScenarios::lateResult);
        SCENARIOS.put("logs", () -> logs("talkative"));
        SCENARIOS.put("logs_of_an_annotated_worker", () -> logs("annotated_talkative"));
        SCENARIOS.put("search", JavaScenarios::search);
        SCENARIOS.put("correlation", JavaScenarios::correlation);
        SCENARIOS.put("terminate", JavaScenarios::terminate);
        SCENARIOS.put("pause_and_resume", JavaScenarios::pauseAndResume);
        SCENARIOS.put("retry", JavaScenarios::retry);
        SCENARIOS.put("restart", JavaScenarios::restart);
        SCENARIOS.put("rerun", JavaScenarios::rerun);
        SCENARIOS.put("skip", JavaScenarios::skip);
        SCENARIOS.put("remove", JavaScenarios::remove);
        SCENARIOS.put("bulk", JavaScenarios::bulk);
        SCENARIOS.put("polling_by_hand", JavaScenarios::pollingByHand);
        SCENARIOS.put("reports_answered_with_the_next_task", JavaScenarios::reportsAnsweredWithTheNextTask);
        SCENARIOS.put("signals", JavaScenarios::signals);
        SCENARIOS.put("executed_and_waited_for", JavaScenarios::executedAndWaitedFor);
        SCENARIOS.put("workflow_as_code", JavaScenarios::workflowAsCode);
        SCENARIOS.put("definitions", JavaScenarios::definitions);
        SCENARIOS.put("mistakes", JavaScenarios::mistakes);
    }

    public static void main(String[] arguments) throws Exception {
        url = arguments[0];
        ConductorClient client = new ConductorClient(url);
        tasks = new TaskClient(client);
        workflows = new WorkflowClient(client);
        metadata = new MetadataClient(client);
        TaskRunnerConfigurer runner = new TaskRunnerConfigurer.Builder(tasks, WORKERS)
                .withThreadCount(10)
                .withTaskToDomain(Map.of("painted", "blue"))
                .build();
        runner.init();
        annotated = new AnnotatedWorkerExecutor(tasks);
        annotated.initWorkersFromInstances(List.of(new Annotated()));
        annotated.startPolling();
        ObjectMapper json = new ObjectMapper();
        for (Map.Entry<String, Scenario> scenario : SCENARIOS.entrySet()) {
            Map<String, String> line = new LinkedHashMap<>();
            line.put("scenario", scenario.getKey());
            line.put("failure", null);
            try {
                scenario.getValue().play();
            } catch (Throwable error) {
                StringWriter text = new StringWriter();
                error.printStackTrace(new PrintWriter(text));
                line.put("failure", text.toString());
            }
            System.out.println(json.writeValueAsString(line));
        }
        runner.shutdown();
        annotated.shutdown();
        System.exit(0);
    }
}

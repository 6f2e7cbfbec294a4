"""Worker options: spellings × precedence, rejected values, suggestions for misspelt names, and the two signatures."""

import inspect
import itertools
import multiprocessing
import os
import pickle

import pytest

from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.configuration.connection_options import CONNECTION_OPTIONS
from conductor.client.configuration.option import list_global_variables, list_variables, list_worker_variables
from conductor.client.worker.worker import CODE_OPTIONS, Worker
from conductor.client.worker.worker_config import (
    OPTIONS,
    ConfigurationError,
    find_unknown_variables,
    format_start_line,
    process_worker_id,
    resolve_worker_config,
)
from conductor.client.worker.worker_task import worker_task

NAME = "process-order"
PER_WORKER = [row.name for row in OPTIONS.values() if row.per_worker]
PER_PROCESS = [row.name for row in OPTIONS.values() if not row.per_worker]
PAIRS = [(name, variable) for name in OPTIONS for variable in list_variables(OPTIONS[name], NAME)]


def sample(name, n=0):
    """Values of the option that differ from the default and from each other, as text and as they are read."""
    row = OPTIONS[name]
    if row.kind is bool:
        value = not row.default
        return ("true" if value else "false"), value
    if row.choices:
        return row.choices[n % len(row.choices)].lower(), row.choices[n % len(row.choices)]
    if row.kind is str:
        return f"text{n}", f"text{n}"
    value = row.kind((row.minimum or 0) + 7 + n)
    return str(value), value


def opposite(name, value):
    if OPTIONS[name].kind is bool:
        return "no" if value else "yes"
    return next(text for n in itertools.count() for text, other in [sample(name, n)] if other != value)


def test_options_have_the_documented_defaults():
    config = resolve_worker_config("x", env={})
    documented = {
        "poll_interval_millis": 100,
        "thread_count": 1,
        "domain": None,
        "poll_timeout": 100,
        "lease_extend_enabled": False,
        "register_task_def": False,
        "overwrite_task_def": True,
        "strict_schema": False,
        "paused": False,
    }
    assert {name: config[name] for name in documented} == documented
    assert all(config.source(name) == "default" for name in OPTIONS)


def test_the_documented_order_of_spellings():
    assert list(list_variables(OPTIONS["thread_count"], "process_order")) == [
        "conductor.worker.process_order.thread_count",
        "CONDUCTOR_WORKER_PROCESS_ORDER_THREAD_COUNT",
        "CONDUCTOR_WORKER_process_order_THREAD_COUNT",
        "conductor_worker_process_order_thread_count",
        "conductor.worker.all.thread_count",
        "CONDUCTOR_WORKER_ALL_THREAD_COUNT",
        "CONDUCTOR_WORKER_THREAD_COUNT",
        "conductor_worker_thread_count",
    ]


@pytest.mark.parametrize(("name", "variable"), PAIRS)
def test_every_option_is_read_from_every_spelling(name, variable):
    text, value = sample(name)
    config = resolve_worker_config(NAME, env={variable: text})
    assert getattr(config, name) == config[name] == value
    assert config.source(name) == f"env {variable}"


@pytest.mark.parametrize(("name", "variable"), PAIRS)
def test_every_spelling_beats_code_and_the_spellings_after_it(name, variable):
    text, value = sample(name)
    variables = list(list_variables(OPTIONS[name], NAME))
    weaker = variables[variables.index(variable) + 1 :]
    env = {variable: text} | dict.fromkeys(weaker, opposite(name, value))
    code = {} if name == "paused" else {name: OPTIONS[name].default}
    assert resolve_worker_config(NAME, code, env=env)[name] == value


#: Options for which nothing is a value.
CLEARABLE = ["domain", "worker_id", "task_log_level", "process_name", "journal_dir"]


@pytest.mark.parametrize(("name", "variable"), [pair for pair in PAIRS if pair[0] not in CLEARABLE])
def test_an_empty_variable_counts_as_unset(name, variable):
    _, value = sample(name)
    config = resolve_worker_config(NAME, {name: value}, env={variable: ""})
    assert (config[name], config.source(name)) == (value, "code")


@pytest.mark.parametrize(("name", "variable"), [pair for pair in PAIRS if pair[0] in CLEARABLE])
def test_a_variable_set_to_nothing_clears_what_the_code_gave_where_nothing_is_a_value(name, variable):
    _, value = sample(name)
    config = resolve_worker_config(NAME, {name: value}, env={variable: ""})
    assert config[name] == resolve_worker_config(NAME, env={})[name] != value
    assert config.source(name) == f"env {variable}"


def test_a_worker_can_leave_the_domain_of_all_the_others():
    env = {"CONDUCTOR_WORKER_ALL_DOMAIN": "production", "conductor.worker.shy.domain": ""}
    assert resolve_worker_config("shy", {"domain": "dev"}, env=env).domain is None
    assert resolve_worker_config("other", {"domain": "dev"}, env=env).domain == "production"


@pytest.mark.parametrize("name", OPTIONS)
def test_code_beats_the_default_under_every_name(name):
    _, value = sample(name)
    for spelling in OPTIONS[name].spellings:
        config = resolve_worker_config("x", {spelling: value}, env={})
        assert config[name] == config[spelling] == value
        assert config.source(spelling) == "code"


@pytest.mark.parametrize("name", OPTIONS)
def test_none_in_code_means_not_given(name):
    assert resolve_worker_config("x", {name: None}, env={}).source(name) == "default"


@pytest.mark.parametrize("name", PER_PROCESS)
def test_an_option_of_the_process_has_no_variable_of_one_worker(name):
    env = {variable: sample(name)[0] for variable in list_worker_variables("x", OPTIONS[name])}
    assert resolve_worker_config("x", env=env).source(name) == "default"
    assert all("did you mean" in warning for warning in find_unknown_variables(env, ["x"]))
    assert len(find_unknown_variables(env, ["x"])) == len(env)


def test_the_printed_example_of_the_hierarchy():
    env = {
        "conductor.worker.all.domain": "production",
        "conductor.worker.all.thread_count": "20",
        "conductor.worker.process_order.thread_count": "50",
    }
    config = resolve_worker_config("process_order", poll_interval_millis=1000, thread_count=5, domain="dev", env=env)
    assert (config.domain, config.thread_count) == ("production", 50)
    assert format_start_line(config, "process_order", 12345) == (
        "Conductor Worker[name=process_order, pid=12345, status=active, poll_interval=1000ms, domain=production, "
        "thread_count=50, poll_timeout=100ms, lease_extend=false]"
    )


def test_the_start_line_without_a_domain_and_paused():
    config = resolve_worker_config("greet", lease_extend_enabled=True, env={"CONDUCTOR_WORKER_PAUSED": "yes"})
    assert format_start_line(config, "greet", 7) == (
        "Conductor Worker[name=greet, pid=7, status=paused, poll_interval=100ms, thread_count=1, poll_timeout=100ms, "
        "lease_extend=true]"
    )


def test_the_environment_of_the_process_is_the_default(monkeypatch):
    monkeypatch.setenv("CONDUCTOR_WORKER_GREET_THREAD_COUNT", "9")
    assert resolve_worker_config("greet").thread_count == 9


@pytest.mark.parametrize(
    ("name", "expected"),
    [("my.task", "MY_TASK"), ("my-task", "MY_TASK"), ("äb 1", "_B_1"), ("already_OK", "ALREADY_OK")],
)
def test_a_name_in_a_variable(name, expected):
    env = {f"CONDUCTOR_WORKER_{expected}_DOMAIN": "here"}
    assert resolve_worker_config(name, env=env).domain == "here"


def test_a_worker_does_not_take_the_variable_of_another_option_for_its_own():
    env = {"CONDUCTOR_WORKER_IDLE_POLL_TIMEOUT": "3000"}
    config = resolve_worker_config("idle", env=env)
    assert (config.idle_poll_timeout, config.poll_timeout) == (3000, 100)


@pytest.mark.parametrize(
    "variable",
    [
        "conductor_worker_{name}_{option}",
        "CONDUCTOR_WORKER_{name}_{OPTION}",
        "CONDUCTOR_WORKER_{NAME}_{OPTION}",
    ],
)
@pytest.mark.parametrize("name", ["process_order", "my-task", "charge.Card"])
def test_the_variables_of_one_worker_as_programs_for_conductor_python_spell_them(name, variable):
    env = {
        variable.format(name=name, NAME=name.upper(), option=option, OPTION=option.upper()): text
        for option, text in [("domain", "vip"), ("polling_interval", "1000.0"), ("lease_extend_enabled", "true")]
    }
    config = resolve_worker_config(name, {"domain": "dev"}, env=env)
    assert (config.domain, config.poll_interval_millis, config.lease_extend_enabled) == ("vip", 1000, True)
    assert find_unknown_variables(env, [name]) == []


BOOLEANS = {True: ["true", "1", "yes", "on"], False: ["false", "0", "no", "off"]}
SPELLED = [
    (meant, case(text))
    for meant, texts in BOOLEANS.items()
    for text in texts
    for case in (str.lower, str.upper, str.title, " {} ".format)
]


def read_option(row, text, monkeypatch):
    """The value of an option of either table, read from the environment as a program reads it."""
    monkeypatch.setenv(row.variable or f"CONDUCTOR_WORKER_{row.name.upper()}", text)
    return getattr(Configuration(), row.name) if row.variable else resolve_worker_config("x")[row.name]


EVERY_BOOLEAN = [row for row in [*OPTIONS.values(), *CONNECTION_OPTIONS.values()] if row.kind is bool]
each_boolean = pytest.mark.parametrize("row", EVERY_BOOLEAN, ids=[row.variable or row.name for row in EVERY_BOOLEAN])


@pytest.mark.parametrize(("meant", "text"), SPELLED)
@each_boolean
def test_every_boolean_option_of_workers_and_connections_takes_every_spelling(row, meant, text, monkeypatch):
    assert read_option(row, text, monkeypatch) is meant


@pytest.mark.parametrize("text", ["ture", "2", "enabled", "y", "t", "-"])
@each_boolean
def test_every_boolean_option_refuses_everything_else_by_name(row, text, monkeypatch):
    with pytest.raises(ConfigurationError) as refused:
        read_option(row, text, monkeypatch)
    message = str(refused.value)
    assert (row.variable or f"CONDUCTOR_WORKER_{row.name.upper()}") in message
    assert f"Invalid boolean value: {text} " in message
    assert "(allowed: true, 1, yes, on, false, 0, no, off)" in message


@pytest.mark.parametrize("row", [row for row in EVERY_BOOLEAN if row.per_worker and not row.variable])
def test_a_boolean_in_code_may_be_a_text_of_the_same_spellings(row):
    for meant, text in SPELLED:
        assert resolve_worker_config("x", {row.name: text}, env={})[row.name] is meant


@pytest.mark.parametrize("text", ["5.0", "5", " 5 ", "5e0"])
def test_whole_floats_are_integers(text, monkeypatch):
    assert resolve_worker_config("x", env={"CONDUCTOR_WORKER_THREAD_COUNT": text}).thread_count == 5
    monkeypatch.setenv("CONDUCTOR_HTTP_POOL_SIZE", text)
    assert Configuration().pool_size == 5


def test_both_signatures_have_every_option_of_a_worker():
    """The decorator and Worker name the options for editors: the only places besides the table."""
    assert CODE_OPTIONS - set(inspect.signature(Worker).parameters) == set()
    assert CODE_OPTIONS - set(inspect.signature(worker_task).parameters) == {"paused"}
    further = {"task_definition_name", "poll_interval", "task_def", "retries", "retry_delay_s", "backoff", "timeout_s"}
    assert set(inspect.signature(worker_task).parameters) - CODE_OPTIONS == further


@pytest.mark.parametrize("variable", [v for n, v in PAIRS if n == "paused"])
def test_p29_a_misspelled_boolean_is_an_error(variable):
    with pytest.raises(ConfigurationError) as caught:
        resolve_worker_config(NAME, env={variable: "ture"})
    message = str(caught.value)
    assert "Invalid boolean value: ture" in message
    assert variable in message
    assert "true, 1, yes, on, false, 0, no, off" in message
    assert "\n" not in message


def test_p29_no_threads_is_an_error_that_names_the_worker_and_the_argument():
    with pytest.raises(ConfigurationError, match=r"'greet'.*thread_count.*0.*from 1 to 10000"):
        resolve_worker_config("greet", thread_count=0, env={})


def bad_values(name):
    row = OPTIONS[name]
    if row.kind is bool:
        return ["maybe", "2", "tru"]
    if row.choices:
        return ["LOUD"]
    if row.kind is str:
        return []
    below = [str(row.kind(row.minimum - 1))] if row.minimum is not None else []
    above = [str(row.kind(row.maximum + 1))] if row.maximum is not None else []
    other = ["nan", "inf", "-inf"] if row.kind is float else ["1.5"]
    return ["abc", "1x", *below, *above, *other]


@pytest.mark.parametrize(("name", "text"), [(name, text) for name in OPTIONS for text in bad_values(name)])
def test_a_bad_variable_stops_with_one_line_that_says_what_is_allowed(name, text):
    variable = next(iter(list_variables(OPTIONS[name], NAME)))
    with pytest.raises(ConfigurationError) as caught:
        resolve_worker_config(NAME, env={variable: text})
    message = str(caught.value)
    assert variable in message
    assert text in message
    assert OPTIONS[name].allowed in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("thread_count", 10_001),
        ("thread_count", "5"),
        ("thread_count", True),
        ("thread_count", 1.5),
        ("poll_timeout", 5001),
        ("poll_timeout", -1),
        ("poll_interval_millis", 0),
        ("strict_schema", 1),
        ("strict_schema", "ture"),
        ("domain", 5),
        ("shutdown_grace_seconds", float("nan")),
        ("update_retry_delay_seconds", -0.5),
        ("task_log_level", "LOUD"),
    ],
)
def test_a_bad_value_in_code_names_worker_and_argument(name, value):
    with pytest.raises(ConfigurationError, match=f"worker 'w', {name}.*{value}"):
        resolve_worker_config("w", {name: value}, env={})


def test_whole_floats_and_whole_numbers_pass_for_each_other():
    config = resolve_worker_config("w", poll_interval=250.0, shutdown_grace_seconds=5, env={})
    assert (config.poll_interval_millis, config.shutdown_grace_seconds) == (250, 5.0)
    assert type(config.poll_interval_millis) is int


def test_a_bad_value_that_a_stronger_one_covers_is_not_read():
    env = {"conductor.worker.w.thread_count": "3", "CONDUCTOR_WORKER_ALL_THREAD_COUNT": "many"}
    assert resolve_worker_config("w", env=env).thread_count == 3


def test_two_spellings_in_code_must_agree():
    assert resolve_worker_config("w", poll_interval=50, poll_interval_millis=50, env={}).poll_interval_millis == 50
    with pytest.raises(ConfigurationError, match="poll_interval_millis=50"):
        resolve_worker_config("w", poll_interval_millis=50, poll_interval=60, env={})


def test_an_option_that_does_not_exist():
    with pytest.raises(ConfigurationError, match="no option 'treads'"):
        resolve_worker_config("w", treads=5, env={})


def test_a_resolved_configuration_is_a_mapping_and_pickles():
    config = resolve_worker_config("w", thread_count=5, env={})
    assert set(config) == set(OPTIONS)
    assert dict(config)["thread_count"] == config["thread_count"] == 5
    assert config["poll_interval"] == 100
    assert dict(pickle.loads(pickle.dumps(config))) == dict(config)
    with pytest.raises(KeyError):
        config["nope"]


def test_p32_the_worker_id_belongs_to_the_process():
    own = process_worker_id()
    assert str(os.getpid()) in own
    assert resolve_worker_config("a", env={}).worker_id == own == resolve_worker_config("b", env={}).worker_id
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        other = pool.apply(process_worker_id)
    assert other != own


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("CONDUCTOR_WORKER_ALL_THREADCOUNT", "CONDUCTOR_WORKER_ALL_THREAD_COUNT"),
        ("CONDUCTOR_WORKER_PROCES_ORDER_THREAD_COUNT", "CONDUCTOR_WORKER_PROCESS_ORDER_THREAD_COUNT"),
        ("CONDUCTOR_WORKERS_DOMAIN", "CONDUCTOR_WORKER_DOMAIN"),
        ("conductor_worker_all_domain", "CONDUCTOR_WORKER_ALL_DOMAIN"),
        ("conductor.worker.process_order.thread-count", "conductor.worker.process_order.thread_count"),
        ("CONDUCTOR_WORKER_PROCESS_ORDER_JOURNAL_DIR", "CONDUCTOR_WORKER_JOURNAL_DIR"),
    ],
)
def test_a_near_miss_is_told_the_nearest_real_name(variable, meant):
    (warning,) = find_unknown_variables({variable: "1", "PATH": "/bin"}, ["process_order"])
    assert variable in warning
    assert f"did you mean {meant}?" in warning


def test_a_far_miss_is_told_without_advice():
    (warning,) = find_unknown_variables({"CONDUCTOR_WORKER_XYZZY": "1"}, ["process_order"])
    assert "CONDUCTOR_WORKER_XYZZY sets nothing" in warning
    assert "did you mean" not in warning


def test_real_names_and_foreign_names_are_not_warned_about():
    real = {variable: "1" for _, variable in PAIRS}
    foreign = {"CONDUCTOR_SERVER_URL": "x", "CONDUCTOR_AUTH_KEY": "x", "WORKER_DOMAIN": "x"}
    assert find_unknown_variables(real | foreign, [NAME]) == []


def test_no_two_options_share_a_variable():
    everything = [variable for row in OPTIONS.values() for variable in list_global_variables(row)]
    assert len(everything) == len(set(everything))


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("CONDUCTOR_SERVER_ULR", "CONDUCTOR_SERVER_URL"),
        ("conductor_server_url", "CONDUCTOR_SERVER_URL"),
        ("CONDUCTOR_AUTH_SECRT", "CONDUCTOR_AUTH_SECRET"),
        ("CONDUCTOR_HTTP_2", "CONDUCTOR_HTTP2"),
        ("CONDUCTOR_LOGLEVEL", "CONDUCTOR_LOG_LEVEL"),
        ("CONDUCTOR_JOURNAL_DIR", "CONDUCTOR_WORKER_JOURNAL_DIR"),
    ],
)
def test_a_near_miss_of_every_variable_is_told_the_nearest_real_name(variable, meant):
    (warning,) = find_unknown_variables({variable: "1", "PATH": "/bin"}, ["process_order"])
    assert f"environment variable {variable} sets nothing" in warning
    assert f"did you mean {meant}?" in warning


def test_a_handler_warns_of_a_mistyped_server(monkeypatch, caplog):
    monkeypatch.setenv("CONDUCTOR_SERVER_ULR", "http://conductor:8080/api")
    TaskHandlerAsyncIO(workers=[])
    (warning,) = caplog.messages
    assert "CONDUCTOR_SERVER_ULR sets nothing: did you mean CONDUCTOR_SERVER_URL?" in warning


def test_variables_that_kubernetes_sets_for_a_service_are_not_warned_about():
    """In a cluster with a service `conductor-server` every container has these."""
    ends = ["SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "PORT_8080_TCP", "PORT_8080_TCP_ADDR"]
    env = {f"{service}_{end}": "1" for service in ("CONDUCTOR", "CONDUCTOR_SERVER") for end in ends}
    assert find_unknown_variables(env, []) == []

"""Every option × every spelling × precedence; values not allowed; names that were meant; the reference page."""

import itertools
import multiprocessing
import os
import pickle
from pathlib import Path

import pytest

from conductor.client.worker.options_reference import options_markdown
from conductor.client.worker.variables import global_variables, variables_of, worker_variables
from conductor.client.worker.worker_config import (
    OPTIONS,
    ConfigurationError,
    process_worker_id,
    resolve_worker_config,
    start_line,
    unknown_variables,
)

NAME = "process-order"
PER_WORKER = [row.name for row in OPTIONS.values() if row.per_worker]
PER_PROCESS = [row.name for row in OPTIONS.values() if not row.per_worker]
PAIRS = [(name, variable) for name in OPTIONS for variable in variables_of(OPTIONS[name], NAME)]


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


def test_the_documented_defaults():
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
    assert list(variables_of(OPTIONS["thread_count"], "process_order")) == [
        "conductor.worker.process_order.thread_count",
        "CONDUCTOR_WORKER_PROCESS_ORDER_THREAD_COUNT",
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
    variables = list(variables_of(OPTIONS[name], NAME))
    weaker = variables[variables.index(variable) + 1 :]
    env = {variable: text} | dict.fromkeys(weaker, opposite(name, value))
    code = {} if name == "paused" else {name: OPTIONS[name].default}
    assert resolve_worker_config(NAME, code, env=env)[name] == value


@pytest.mark.parametrize(("name", "variable"), PAIRS)
def test_an_empty_variable_counts_as_unset(name, variable):
    config = resolve_worker_config(NAME, env={variable: ""})
    assert config.source(name) == "default"


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
    env = {variable: sample(name)[0] for variable in worker_variables("x", OPTIONS[name])}
    assert resolve_worker_config("x", env=env).source(name) == "default"
    assert all("did you mean" in warning for warning in unknown_variables(env, ["x"]))
    assert len(unknown_variables(env, ["x"])) == len(env)


def test_the_printed_example_of_the_hierarchy():
    env = {
        "conductor.worker.all.domain": "production",
        "conductor.worker.all.thread_count": "20",
        "conductor.worker.process_order.thread_count": "50",
    }
    config = resolve_worker_config("process_order", poll_interval_millis=1000, thread_count=5, domain="dev", env=env)
    assert (config.domain, config.thread_count) == ("production", 50)
    assert start_line(config, "process_order", 12345) == (
        "Conductor Worker[name=process_order, pid=12345, status=active, poll_interval=1000ms, domain=production, "
        "thread_count=50, poll_timeout=100ms, lease_extend=false]"
    )


def test_the_start_line_without_a_domain_and_paused():
    config = resolve_worker_config("greet", lease_extend_enabled=True, env={"CONDUCTOR_WORKER_PAUSED": "yes"})
    assert start_line(config, "greet", 7) == (
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


@pytest.mark.parametrize("text", ["true", "TRUE", "1", "yes", "Yes", " true "])
def test_true(text):
    assert resolve_worker_config("x", env={"CONDUCTOR_WORKER_PAUSED": text}).paused is True


@pytest.mark.parametrize("text", ["false", "False", "0", "no", "NO"])
def test_false(text):
    assert resolve_worker_config("x", env={"CONDUCTOR_WORKER_OVERWRITE_TASK_DEF": text}).overwrite_task_def is False


@pytest.mark.parametrize("variable", [v for n, v in PAIRS if n == "paused"])
def test_p29_a_misspelled_boolean_is_an_error(variable):
    with pytest.raises(ConfigurationError) as caught:
        resolve_worker_config(NAME, env={variable: "ture"})
    message = str(caught.value)
    assert "Invalid boolean value: ture" in message
    assert variable in message
    assert "true, 1, yes, false, 0, no" in message
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
    variable = next(iter(variables_of(OPTIONS[name], NAME)))
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
    with pytest.raises(ConfigurationError, match="'treads' is not an option"):
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
    (warning,) = unknown_variables({variable: "1", "PATH": "/bin"}, ["process_order"])
    assert variable in warning
    assert f"did you mean {meant}?" in warning


def test_a_far_miss_is_told_without_advice():
    (warning,) = unknown_variables({"CONDUCTOR_WORKER_XYZZY": "1"}, ["process_order"])
    assert "CONDUCTOR_WORKER_XYZZY sets nothing" in warning
    assert "did you mean" not in warning


def test_real_names_and_foreign_names_are_not_warned_about():
    real = {variable: "1" for _, variable in PAIRS}
    foreign = {"CONDUCTOR_SERVER_URL": "x", "CONDUCTOR_AUTH_KEY": "x", "WORKER_DOMAIN": "x"}
    assert unknown_variables(real | foreign, [NAME]) == []


def test_no_two_options_share_a_variable():
    everything = [variable for row in OPTIONS.values() for variable in global_variables(row)]
    assert len(everything) == len(set(everything))


def test_the_reference_page_is_current():
    page = Path(__file__).parents[3] / "docs" / "reference" / "options.md"
    assert page.read_text(encoding="utf-8") == options_markdown(), (
        "run: python -m conductor.client.worker.options_reference > docs/reference/options.md"
    )


@pytest.mark.parametrize("name", OPTIONS)
def test_the_reference_page_has_every_option_with_its_default_and_bounds(name):
    (line,) = [line for line in options_markdown().splitlines() if line.startswith(f"| `{name}` |")]
    row = OPTIONS[name]
    assert row.help in line
    assert row.default_text or str(row.default if row.default is not None else "none") in line
    assert all(str(bound) in line for bound in (row.minimum, row.maximum) if bound is not None)

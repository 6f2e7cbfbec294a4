"""A draft-07 validator with `nullable`, and instances near a schema: some are valid, some are nearly valid."""

import jsonschema
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from jsonschema.validators import extend


def _unless_null(keyword):
    def validate(validator, value, instance, schema):
        if instance is not None or schema.get("nullable") is not True:
            yield from keyword(validator, value, instance, schema) or ()

    return validate


NullableValidator = extend(
    Draft7Validator, {name: _unless_null(keyword) for name, keyword in Draft7Validator.VALIDATORS.items()}
)


def validator(schema):
    return NullableValidator(schema)


def check_schema(schema):
    jsonschema.Draft7Validator.check_schema(schema)


NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | st.text(max_size=5)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


def inputs_near(schema):
    """Inputs of a task for a schema of one."""
    return _objects(schema, schema, 3)


def near(schema, root, depth):
    """Mostly what the schema describes, sometimes something else."""
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        return near(target, root, depth - 1) if depth else st.just({})
    described = _described(schema, root, depth)
    options = [*[described] * 6, ANYTHING, *([st.none()] if schema.get("nullable") else [])]
    return st.deferred(lambda: st.one_of(options))  # deferred, because its repr is short


def _described(schema, root, depth):
    for keyword in ("anyOf", "allOf"):
        if keyword in schema:
            return st.one_of([near(option, root, depth) for option in schema[keyword]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"]) | st.sampled_from(schema["enum"]).map(_look_alike)
    types = schema.get("type", [])
    makers = {"object": _objects, "array": _arrays, "string": _strings, "integer": _integers, "number": _numbers}
    makers |= {"boolean": lambda *_: st.booleans(), "null": lambda *_: st.none()}
    kinds = [types] if isinstance(types, str) else types
    return st.one_of([makers[kind](schema, root, depth) for kind in kinds]) if kinds else ANYTHING


def _look_alike(value):
    """1 for true, 1.0 for 1, the text of a number."""
    if isinstance(value, bool):
        return int(value)
    return float(value) if isinstance(value, int) else value


def _objects(schema, root, depth):
    properties = schema.get("properties", {})
    required = list(schema.get("required", []))
    present = st.fixed_dictionaries(
        {name: near(properties[name], root, depth) for name in required},
        optional={name: near(part, root, depth) for name, part in properties.items() if name not in required},
    )
    extra = schema.get("additionalProperties", True)
    values = near(extra, root, depth) if isinstance(extra, dict) else SCALARS
    names = (
        near(schema["propertyNames"], root, depth).filter(lambda k: isinstance(k, str))
        if "propertyNames" in schema
        else st.text(max_size=3)
    )
    more = st.dictionaries(names, values, max_size=2)
    without = present.flatmap(lambda made: st.sampled_from([*made, None]).map(lambda name: _without(made, name)))
    return st.one_of(present, present, without, st.builds(lambda a, b: {**b, **a}, present, more))


def _without(made, name):
    return {key: value for key, value in made.items() if key != name}


def _arrays(schema, root, depth):
    items = schema.get("items", {})
    if isinstance(items, list):
        exact = st.tuples(*(near(item, root, depth) for item in items)).map(list)
        return exact | exact.map(lambda made: made[:-1]) | exact.map(lambda made: [*made, 1])
    return st.lists(near(items, root, depth) if depth else SCALARS, max_size=schema.get("maxItems", 2) + 1)


def _strings(schema, root, depth):
    longest = schema.get("maxLength", 4) + 1
    if "pattern" not in schema:
        return st.text(max_size=longest)
    fitting = st.from_regex(schema["pattern"])
    return fitting | fitting.map(lambda text: text + "\n") | fitting.map(str.swapcase) | fitting.flatmap(_damaged)


def _damaged(text):
    """Remove one character, or replace it."""
    place = st.integers(0, max(0, len(text) - 1))
    return st.builds(lambda i, c: text[:i] + c + text[i + 1 :], place, st.sampled_from(["", "0", "9", "3", "-", "x"]))


def _integers(schema, root, depth):
    edges = [schema[word] + d for word in _BOUNDS if word in schema for d in (-1, 0, 1)] or [0]
    return st.sampled_from(edges) | st.integers(-5, 5) | st.floats(-5, 5) | st.integers(-(2**70), 2**70)


def _numbers(schema, root, depth):
    edges = [schema[word] + d for word in _BOUNDS if word in schema for d in (-0.5, 0, 0.5)] or [0]
    return st.sampled_from(edges) | NUMBERS


_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")

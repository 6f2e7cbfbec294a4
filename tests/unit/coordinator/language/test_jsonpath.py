"""JSONPath gives the results of Jayway JsonPath, in time proportional to the data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.coordinator.definitions.validation import validate_definition
from conductor.coordinator.language.expressions import lookup_in, resolve
from conductor.coordinator.language.jsonpath import ExpressionError, parse_path, walk
from conductor.coordinator.language.value_sizes import TooLarge
from conductor.coordinator.limits import MAX_ELEMENTS_WALKED

#: The document of the README of Jayway JsonPath.
STORE: dict[str, Any] = {
    "book": [
        {"category": "reference", "author": "Nigel Rees", "title": "Sayings", "price": 8.95},
        {"category": "fiction", "author": "Evelyn Waugh", "title": "Sword", "price": 12.99},
        {"category": "fiction", "author": "Herman Melville", "title": "Moby", "isbn": "0-553", "price": 8.99},
        {"category": "fiction", "author": "J. R. R. Tolkien", "title": "Lord", "isbn": "0-395", "price": 22.99},
    ],
    "bicycle": {"color": "red", "price": 19.95, "gone": None},
    "numbers": [1, 2, 3, 4],
    "expensive": 10,
    "nested": [{"tags": ["a", "b"], "items": [{"id": 1}, {"id": 2}]}, {"tags": [], "items": [{"id": 3}]}],
}
TITLES = [book["title"] for book in STORE["book"]]


def value(path: str) -> Any:
    return resolve(f"${{{path_in('store', path)}}}", lookup_in({"store": STORE}))


def path_in(start: str, path: str) -> str:
    return f"{start}{path}" if path[0] in ".[" else f"{start}.{path}"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("book[*].author", [book["author"] for book in STORE["book"]]),
        ("book[?(@.isbn)].title", TITLES[2:]),
        ("book[?(!@.isbn)].title", TITLES[:2]),
        ("book[?(@.price < 10)].title", [TITLES[0], TITLES[2]]),
        ("book[?(@.price==8.99)].title", [TITLES[2]]),
        ("book[?(@.price == '8.99')].title", [TITLES[2]]),
        ("book[?(@.price != 8.99 && @['category'] == 'fiction')].title", [TITLES[1], TITLES[3]]),
        ('book[?(@.price > 20 || (@.category == "reference" && !(@.price > 9)))].title', [TITLES[0], TITLES[3]]),
        ("book[?(@.category in ['reference', 'other'])].title", [TITLES[0]]),
        ("book[?(@.category nin ['reference'])].title", TITLES[1:]),
        ("book[?(@.author contains 'Wa')].title", [TITLES[1]]),
        ("book[?(@.author.length() >= 15)].title", [TITLES[2], TITLES[3]]),
        ("nested[?(@.tags contains 'b')].items[0].id", [1]),
        ("nested[?(@.tags empty true)].items[*].id", [3]),
        ("nested[?(@.items size 2)].tags", [["a", "b"]]),
        ("nested[?(@.items[0].id == 3)].items.length()", [1]),
        ("numbers[?(@ >= 3)]", [3, 4]),
        ("bicycle[?(@.color == 'red')].price", [19.95]),
        ("bicycle[?(@.gone)].price", [19.95]),
        ("bicycle[?(@.gone == null)].price", [19.95]),
        ("book[?(@.missing == null)]", []),
        ("numbers[1:3]", [2, 3]),
        ("numbers[:2]", [1, 2]),
        ("numbers[-2:]", [3, 4]),
        ("numbers[1:-1]", [2, 3]),
        ("numbers[0,2]", [1, 3]),
        ("numbers[0, -1, 9]", [1, 4]),
        ("book[0:2].title", TITLES[:2]),
        ("bicycle['color','price']", {"color": "red", "price": 19.95}),
        ("bicycle['color', 'nothing']", {"color": "red"}),
        ("book[0,1]['title','price']", [{"title": t, "price": p} for t, p in zip(TITLES, (8.95, 12.99), strict=False)]),
        ("['bicycle','book'].price", [19.95]),
        ("numbers.sum()", 10),
        ("numbers.max()", 4),
        ("numbers.min()", 1),
        ("numbers.avg()", 2.5),
        ("numbers.stddev()", 1.118033988749895),
        ("numbers.first()", 1),
        ("numbers.last()", 4),
        ("numbers.size()", 4),
        ("bicycle.keys()", ["color", "price", "gone"]),
        ("book.sum()", None),
        ("missing.sum()", None),
        ("nested[*].items.length()", [2, 1]),
        ("nested[*].items[*].id", [1, 2, 3]),
        ("nested..id", [1, 2, 3]),
        ("..color", ["red"]),
        ("book..[?(@.price > 20)].title", [TITLES[3]]),
        ("nested..items[0].id", [1, 3]),
        ("bicycle.*", ["red", 19.95, None]),
        ("missing[*].x", []),
        ("missing[?(@.x == 1)]", []),
        ("missing[0].x", None),
    ],
)
def test_a_path_gives_what_jayway_gives_s07(path: str, expected: Any) -> None:
    found = value(path)
    assert found == (pytest.approx(expected) if isinstance(expected, float) else expected)
    task = {"name": "a", "taskReferenceName": "a", "inputParameters": {"x": f"${{{path_in('workflow.input', path)}}}"}}
    assert validate_definition({"name": "w", "tasks": [task]}) == []


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("a[?(@.x =~ /a.*/)]", "regular expressions are not supported in a filter"),
        ("a[?(@.x == )]", "a path @.x, a number, a 'text', true, false or null is expected in a filter"),
        ("a[?(1)]", "a comparison such as @.x == 1 is expected"),
        ("a[?(@.x == 1]", "')' is expected"),
        ("a[?(@.x == 1)", "']' is expected"),
        ("a[?(@..x == 1)]", "are allowed after @"),
        ("a[?(@.x.sum() == 1)]", "are allowed after @"),
        ("a[?(@.x == $.y)]", "is expected in a filter"),
        ("a[?(" + "(" * 30 + "@.x" + ")" * 30 + ")]", "more than 20 levels of parentheses"),
        ("a[?(" + " || ".join(["@.x"] * 51) + ")]", "more than 50 comparisons"),
        ("a.median()", "supported: names"),
        ("a..", "supported: names"),
        ("a...b", "supported: names"),
    ],
)
def test_an_unsupported_path_is_named_s07(path: str, why: str) -> None:
    with pytest.raises(ExpressionError) as found:
        parse_path(path)
    assert why in str(found.value)


# -- against a model that is written as simply as possible


class Part(NamedTuple):
    """A step of a path: its text, and all values that it leads to from one value."""

    text: str
    model: Callable[[Any], list[Any]]
    many: bool


def children(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list) else []


def inside(value: Any) -> Iterator[Any]:
    yield value
    for child in children(value):
        yield from inside(child)


def key(name: str) -> Callable[[Any], list[Any]]:
    return lambda value: [value[name]] if isinstance(value, dict) and name in value else []


def index(number: int) -> Callable[[Any], list[Any]]:
    return lambda value: value[number:][:1] if isinstance(value, list) and -len(value) <= number else []


def filtered(test: Callable[[Any], bool]) -> Callable[[Any], list[Any]]:
    def model(value: Any) -> list[Any]:
        candidates = value if isinstance(value, list) else [value] if isinstance(value, dict) else []
        return [one for one in candidates if test(one)]

    return model


def less(name: str, number: int) -> Callable[[Any], bool]:
    return lambda one: any(type(found) is int and found < number for found in key(name)(one))


key_names = st.sampled_from(["a", "b", "c"])
numbers = st.integers(-4, 4)
ends = st.none() | numbers
tests = st.one_of(
    key_names.map(lambda name: (f"@.{name}", lambda one: key(name)(one) != [])),
    st.tuples(key_names, numbers).map(lambda given: (f"@.{given[0]} < {given[1]}", less(*given))),
)
combined_tests = st.recursive(
    tests,
    lambda inner: st.one_of(
        inner.map(lambda one: (f"!({one[0]})", lambda value: not one[1](value))),
        st.tuples(inner, inner).map(
            lambda two: (f"({two[0][0]}) && ({two[1][0]})", lambda value: two[0][1](value) and two[1][1](value))
        ),
        st.tuples(inner, inner).map(
            lambda two: (f"({two[0][0]} || {two[1][0]})", lambda value: two[0][1](value) or two[1][1](value))
        ),
    ),
    max_leaves=4,
)
parts = st.one_of(
    key_names.map(lambda name: Part(f".{name}", key(name), many=False)),
    key_names.map(lambda name: Part(f"['{name}']", key(name), many=False)),
    numbers.map(lambda number: Part(f"[{number}]", index(number), many=False)),
    st.just(Part("[*]", children, many=True)),
    key_names.map(lambda name: Part(f"..{name}", lambda v: [x for i in inside(v) for x in key(name)(i)], many=True)),
    st.lists(numbers, min_size=2, max_size=3).map(
        lambda all_: Part(str(all_), lambda v: [x for number in all_ for x in index(number)(v)], many=True)
    ),
    st.tuples(ends, ends).map(
        lambda two: Part(
            f"[{'' if two[0] is None else two[0]}:{'' if two[1] is None else two[1]}]",
            lambda v: v[two[0] : two[1]] if isinstance(v, list) else [],
            many=True,
        )
    ),
    combined_tests.map(lambda test: Part(f"[?({test[0]})]", filtered(test[1]), many=True)),
)
documents = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(key_names, inner, max_size=3),
    max_leaves=15,
)


@settings(max_examples=300)
@given(st.lists(parts, min_size=1, max_size=4), documents)
def test_a_path_leads_where_the_model_leads_s07(steps: list[Part], document: Any) -> None:
    found = [document]
    for step in steps:
        found = [reached for one in found for reached in step.model(one)]
    expected = found if any(step.many for step in steps) else found[0] if found else None
    assert walk(document, parse_path("x" + "".join(step.text for step in steps))[1:]) == expected


# -- work


@pytest.mark.parametrize(
    "path",
    [
        "tree" + "[0,0]" * 40,
        "tree" + "[*]" * 40,
        "tree" + "..*" * 20,
        "tree" + "..[0]" * 20,
        "tree" + "[?(@.length() > 0)][*]" * 400,
        "long.sum()",
        "long[?(@ in [1, 2, 3])]",
        "map.keys()",
    ],
)
def test_the_work_of_a_path_is_bounded_s07(path: str) -> None:
    tree: Any = [1]
    for _ in range(50):
        tree = [tree, tree]
    numbers = range(MAX_ELEMENTS_WALKED + 1)
    documents = {"tree": tree, "long": list(numbers), "map": dict.fromkeys(map(str, numbers))}
    with pytest.raises(TooLarge, match="the number of list elements that these expressions visit"):
        resolve(f"${{{path}}}", lookup_in(documents))


def test_the_meter_counts_each_element_once_per_step_s07() -> None:
    counted: list[int] = []
    rows = [{"a": {"b": number}, "tags": ["x"] * 10} for number in range(1000)]
    walk(rows, parse_path("x[?(@.a.b < 10 && @.tags contains 'y')].a.b")[1:], counted.append)
    assert sum(counted) <= 2 * 1000 + 10 * 10
    counted.clear()
    walk({"rows": rows}, parse_path("x..b")[1:], counted.append)
    assert sum(counted) < 100_000

"""Types that a worker author would write, one of each kind."""

import collections
import dataclasses
import enum
from dataclasses import InitVar, dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    TypeVar,
)
from uuid import UUID

import annotated_types
import attrs
import msgspec
import pydantic

T = TypeVar("T")
OrderId = NewType("OrderId", int)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(enum.StrEnum):
    YES = "yes"
    NO = "no"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


@dataclass
class Item:
    sku: str
    price: float
    quantity: int = 1


@dataclass
class Order:
    id: int
    items: list[Item]
    note: str | None = None
    placed: datetime | None = None


@dataclass
class OptionalWithoutDefault:
    a: int | None
    b: int


@dataclass(frozen=True)
class Frozen:
    a: int
    b: str = "b"


@dataclass
class WithFactory:
    tags: list[str] = field(default_factory=list)


@dataclass
class WithHidden:
    a: int
    total: int = field(init=False, default=5)


@dataclass
class WithInitVar:
    a: int
    scale: InitVar[int]

    def __post_init__(self, scale):
        self.a *= scale


@dataclass
class Picky:
    a: int

    def __post_init__(self):
        if self.a < 0:
            raise ValueError("a must not be negative")


@dataclass
class Tree:
    value: int
    children: list["Tree"] = field(default_factory=list)
    parent: Optional["Tree"] = None


@dataclass
class Page(Generic[T]):
    items: list[T]
    next: str | None = None


@dataclass
class IntPage(Page[int]):
    total: int = 0


@dataclass
class Base:
    a: int


@dataclass
class Derived(Base):
    b: str


@dataclass(kw_only=True)
class Described:
    """An order line."""

    amount: Annotated[int, msgspec.Meta(ge=1, description="how many")]
    name: str = field(default="", metadata={"description": "what it is called"})


class Point(NamedTuple):
    x: int
    y: int = 0


Untyped = collections.namedtuple("Untyped", "a b")


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Loose(TypedDict, total=False):
    title: Required[str]
    year: int


class StructOrder(msgspec.Struct, rename="camel"):
    order_id: int
    total: Decimal = Decimal(0)


class StructClosed(msgspec.Struct, forbid_unknown_fields=True):
    a: int


class Circle(msgspec.Struct, tag="circle"):
    r: float


class Square(msgspec.Struct, tag="square"):
    side: float


class Pair(msgspec.Struct, array_like=True):
    a: int
    b: str


@attrs.define
class AttrsOrder:
    id: int
    _secret: str = "s"


class ModelItem(pydantic.BaseModel):
    sku: str
    price: float = pydantic.Field(gt=0, description="in euros")


class ModelOrder(pydantic.BaseModel):
    order_id: int = pydantic.Field(alias="orderId")
    items: list[ModelItem] = []
    at: datetime | None = None


class ModelClosed(pydantic.BaseModel, extra="forbid"):
    a: int


class ModelLink(pydantic.BaseModel):
    url: pydantic.HttpUrl


class ModelList(pydantic.RootModel[list[int]]):
    pass


@pydantic.dataclasses.dataclass
class ModelData:
    a: int
    b: str = "b"


class Plain:
    def __init__(self, a):
        self.a = a


Positive = Annotated[int, annotated_types.Gt(0)]
Percent = Annotated[float, msgspec.Meta(ge=0, le=100)]
Short = Annotated[str, annotated_types.Len(1, 3)]
Code = Annotated[str, pydantic.Field(pattern="^[A-Z]+$")]
Pairs = Annotated[list[int], msgspec.Meta(min_length=2)]
Even = Annotated[int, msgspec.Meta(multiple_of=2)]
Size = Literal["S", "M", 5]

__all__ = [name for name in dir() if not name.startswith("_")]
ALSO = (UUID, Any, dataclasses)

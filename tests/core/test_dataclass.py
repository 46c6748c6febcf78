"""Classes of `ptc._dataclass` behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle  # noqa: TID251  # of the host's own objects, by applications
from dataclasses import field
from inspect import isfunction
from typing import TYPE_CHECKING, Any

import pytest

import ptc._dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    Decorator = Callable[..., Any]


def classes(dataclass: Decorator) -> tuple[Any, ...]:
    """The same classes, by one decorator."""

    @dataclass(frozen=True, slots=True)
    class Empty:
        """No field."""

    @dataclass(frozen=True, slots=True)
    class One:
        """One field."""

        a: int

    @dataclass(frozen=True, slots=True)
    class Many:
        """Defaults, factories, and fields that count in some methods only."""

        a: int
        b: str = "b"
        c: list[int] = field(default_factory=list)
        d: int = field(default=1, compare=False)
        e: int = field(default=2, repr=False)
        f: int = field(default=3, init=False)
        g: int = field(default=4, kw_only=True)
        h: int = field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "h", 2 * self.a)

    @dataclass(frozen=True, slots=True)
    class Heir(One):
        """A field of its own after an inherited one."""

        z: int = 9

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Keywords:
        """Keywords only."""

        a: int
        b: int = 1

    @dataclass(frozen=True, slots=True)
    class Own:
        """Methods of its own, which stay."""

        a: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]  # not hashable

    @dataclass(frozen=True, slots=True, eq=False)
    class Identity:
        """Equal to itself only."""

        a: int

    @dataclass(slots=True)
    class Open:
        """Fields that can be set."""

        a: int
        b: list[int] = field(default_factory=list)
        c: int = field(default=1, compare=False)
        d: int = field(init=False)

        def __post_init__(self) -> None:
            self.d = 3

    @dataclass(slots=True, eq=False)
    class OpenIdentity:
        """Equal to itself only, and hashable."""

        a: int

    return Empty, One, Many, Heir, Keywords, Own, Identity, Open, OpenIdentity


PAIRS = list(zip(classes(dataclasses.dataclass), classes(ptc._dataclass.dataclass), strict=True))
CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((1,), {}),
    ((1, 2), {}),
    ((), {"a": 1}),
    ((), {"a": 1, "b": 3}),
    ((1, "x", [1], 5, 6), {"g": 7}),
    ((1,), {"a": 1}),
    ((1,), {"unknown": 1}),
    ((1, 2, 3, 4, 5, 6, 7, 8), {}),
]


def told(what: Callable[[], Any]) -> Any:
    """The outcome of a function: its value, or the type of its error."""
    try:
        return what()
    except Exception as error:  # noqa: BLE001  # compared
        return type(error)


def outcome(kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    made = told(lambda: kind(*args, **kwargs))
    if isinstance(made, type):
        return made
    other = kind(*args, **kwargs)
    return (
        repr(made).replace(kind.__qualname__, "Class"),
        made == other,
        made == kind(*args, **{**kwargs, "a": 5}) if not args and kwargs else None,
        told(lambda: hash(made) == hash(other)),
        # Before 3.12, the standard library raises TypeError for a name without a field.
        hasattr(made, "a")
        and (
            told(lambda: setattr(copy.copy(made), "a", 1)),
            told(lambda: delattr(copy.copy(made), "a")),
        ),
        hasattr(made, "__dict__"),
        dataclasses.asdict(made),
        told(lambda: repr(dataclasses.replace(made, a=2)).replace(kind.__qualname__, "")),
        told(lambda: dataclasses.astuple(copy.copy(made))),
        told(lambda: dataclasses.astuple(copy.deepcopy(made))),
        [f.name for f in dataclasses.fields(made)],
        kind.__match_args__,
        made.__eq__(1),
    )


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0].__name__)
def test_class_is_that_of_the_standard_library(pair: tuple[Any, Any]) -> None:
    theirs, ours = pair
    for args, kwargs in CALLS:
        assert outcome(ours, args, kwargs) == outcome(theirs, args, kwargs)
    assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)
    assert ours.__doc__ == theirs.__doc__


def test_method_is_compiled_when_it_is_first_used_or_with_all_others() -> None:
    first, second, *_ = classes(ptc._dataclass.dataclass)
    third = classes(ptc._dataclass.dataclass)[1]
    assert not any(isfunction(vars(kind)["__init__"]) for kind in (first, second, third))
    first()
    inspect.signature(second)
    ptc._dataclass.compile_all()
    assert all(isfunction(vars(kind)["__init__"]) for kind in (first, second, third))
    assert third(4) == third(a=4)
    assert not ptc._dataclass._LATER


@ptc._dataclass.dataclass(frozen=True, slots=True)
class Pickled:
    """Found by its name."""

    a: int
    b: list[Any] = field(default_factory=list)


def test_object_is_pickled_by_its_fields() -> None:
    assert pickle.loads(pickle.dumps(Pickled(1, [2]))) == Pickled(1, [2])  # noqa: S301


def test_repr_of_an_object_that_holds_itself_ends() -> None:
    made = Pickled(1)
    made.b.append(made)
    assert repr(made) == "Pickled(a=1, b=[...])"


def test_unknown_attribute_is_refused() -> None:
    """The standard library raises TypeError here, before 3.12."""
    with pytest.raises(dataclasses.FrozenInstanceError, match="'unknown'"):
        Pickled(1).unknown = 1  # type: ignore[attr-defined]  # what is tested


def test_class_without_slots_is_made_by_the_standard_library() -> None:
    @ptc._dataclass.dataclass
    class Plain:
        a: int

    plain = Plain(1)
    plain.a = 2
    assert plain == Plain(2)
    assert Plain.__init__.__code__.co_filename == "<string>"

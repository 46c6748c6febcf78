"""Hostile uses of `dataclass`, `namedtuple`, `NamedTuple`, `TypedDict` and `Enum`.

`tests/programs/allowed/data_classes.py` compares honest uses with CPython.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tests.worker.test_modules import ENVIRONMENT, PRELUDE

HARNESS = """
import dataclasses, typing, collections, enum, abc, json, functools
def tries(function, *args, **options):
    try:
        return repr(function(*args, **options))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
def gen():
    yield 1
"""


def evaluate(script: str) -> Any:
    """`result` of a script that runs behind the language layer alone."""
    text = f"{PRELUDE}\nprint(json.dumps(run({HARNESS + script!r}), default=repr))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text],
        text=True, capture_output=True, timeout=120, env=ENVIRONMENT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return __import__("json").loads(done.stdout)


FOREIGN = """
@dataclasses.dataclass(frozen=True, order=True)
class D:
    obj: int
    loads: int = 1
class Other:
    obj = loads = 1
receivers = [json, gen(), AttributeError("x"), len, gen, Other(), (1, 2), dataclasses, abc.ABC]
"""


@pytest.mark.parametrize(
    "call",
    [
        "D.__init__(r, 1)",
        "D.__repr__(r)",
        "D.__eq__(r, r)",
        "D.__lt__(r, r)",
        "D.__hash__(r)",
    ],
)
def test_generated_methods_refuse_receivers_that_are_not_instances(call: str) -> None:
    answers = evaluate(f"{FOREIGN}\nresult = [tries(lambda: {call}) for r in receivers]")
    assert all("a method of a dataclass was called on" in answer for answer in answers)


def test_generated_methods_accept_subclasses_and_partially_built_classes() -> None:
    answers = evaluate("""
made = []
class Base:
    def __init_subclass__(cls):
        made.append(tries(cls, 5))
@dataclasses.dataclass(slots=True)
class D(Base):
    a: int
class E(D):
    pass
result = [made, repr(E(3)), D(1) == D(1), E(1) == E(1), D.__repr__(E(4))]
""")
    # Without a docstring or fields, the class statement's own hook sees a class without `__init__`.
    assert answers[0] == ["TypeError: D() takes no arguments", "D(a=5)", "E(a=5)"]
    assert answers[1:] == ["E(a=3)", True, True, "E(a=4)"]


@pytest.mark.parametrize(
    "name", ["_\uff3fclosure_\uff3f", "__globals__", "a b", "class", "x\uff11"]
)
def test_field_name_must_be_a_plain_identifier(name: str) -> None:
    answer = evaluate(f"""
f = dataclasses.field(default=1)
@dataclasses.dataclass
class D:
    x: int = f
def rename():
    f.name = {name!r}
    @dataclasses.dataclass
    class E(D):
        pass
    return E()
result = tries(rename)
""")
    assert answer.startswith("TypeError: ")


def test_a_docstring_is_never_evaluated_as_a_signature() -> None:
    answer = evaluate('''
class B:
    """B(a=sys.executable, b=os.sep)
--

"""
@dataclasses.dataclass(init=False)
class C(B):
    x: int = 0
@dataclasses.dataclass(init=False)
class D(B):
    x: int = 0
    def __init__(self, a, /, b=2, *more, c: int = 3, **rest): pass
result = [C.__doc__, D.__doc__]
''')
    assert answer == ["C()", "D(a, /, b=2, *more, c: int = 3, **rest)"]


MATCH = """
taken = []
state = {"kind": None, "subject": None}
class Base(abc.ABC):
    def __init_subclass__(cls, **options):
        if state["kind"] is not None:
            cls.register(state["kind"])
            try:
                match state["subject"]:
                    case cls(found):
                        taken.append(found)
            except TypeError:
                pass
subjects = [gen(), gen, len, AttributeError("x"), json, type(gen()), functools.partial(gen)]
"""
NAMES = [
    "gi_frame", "gi_code", "f_back", "tb_frame", "cr_frame", "obj", "format", "mro", "func",
    "cell_contents", "fget", "get_loop", "parser",
]  # fmt: skip


@pytest.mark.parametrize(
    "maker",
    [
        "dataclasses.dataclass(slots=True)(type_with(Base, name))",
        "typing.NamedTuple('N', [(name, int)])",
        "collections.namedtuple('N', [name])",
        "collections.namedtuple('N', name)",
    ],
)
def test_no_hook_sees_a_class_that_matches_a_guarded_name_by_position(maker: str) -> None:
    classes = "\n".join(
        f"def _class_{name}(base):\n    class K(base):\n        {name}: int = 0\n    return K"
        for name in NAMES
    )
    answer = evaluate(f"""{MATCH}{classes}
made = {{{", ".join(f"{name!r}: _class_{name}" for name in NAMES)}}}
def type_with(base, name):
    return made[name](base)
for subject in subjects:
    for name in {NAMES!r}:
        state.update(kind=type(subject), subject=subject)
        try:
            kind = {maker}
            class Sub(kind, Base):
                pass
        except TypeError:
            pass
        state.update(kind=None)
result = [repr(each) for each in taken]
""")
    assert answer == []


def test_functional_forms_validate_normalized_names() -> None:
    answer = evaluate(r"""
wide = "\uff3f\uff3fclass\uff3f\uff3f"
result = [
    tries(collections.namedtuple, "N", [wide]),
    tries(collections.namedtuple, "N", ["\uff3fx"]),
    tries(typing.NamedTuple, "N", [(wide, int)]),
    tries(enum.Enum, "E", [wide]),
    tries(enum.Enum, "E", {wide: 1}),
    tries(enum.Enum, "E", [("\uff3fx", 1)]),
    collections.namedtuple("N", ["\uff58"])(1).x,
]
""")
    assert answer[-1] == 1
    assert all("Error: " in each for each in answer[:-1]), answer


def test_namedtuple_and_typeddict_can_be_base_classes() -> None:
    answer = evaluate("""
class P(typing.NamedTuple):
    x: int
    y: int = 2
class T(typing.TypedDict, total=False):
    a: int
N = typing.NamedTuple("N", [("a", int), ("b", str)])
M = typing.TypedDict("M", {"a": int, "not an identifier": str})
result = [P(1), P(1).y, T(a=1), N(1, "b"), M(a=1), N._fields, typing.is_typeddict(M)]
""")
    assert answer == [[1, 2], 2, {"a": 1}, [1, "b"], {"a": 1}, ["a", "b"], True]

"""The guards a compiled script calls, and its builtins. No module, no jail: one `exec` each."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pytest

from ptc._language._compiler import ScriptRejected, compile_script, demangle
from ptc._wire._protocol import Output
from ptc.errors import ToolError
from ptc.worker._classes import register
from ptc.worker._guards import RefusedError, script_builtins, script_globals
from ptc.worker._modules._console import CONSOLE


def execute(source: str, **extra: object) -> dict[str, Any]:
    """Run `source` as a script and return its globals."""
    builtins = script_builtins(extra={"ToolError": ToolError, **extra})
    namespace = script_globals(builtins, {})
    code = compile_script(source, require_run=False).code
    exec(code, namespace)  # noqa: S102  # what these tests are about
    return namespace


def value(source: str, **extra: object) -> Any:
    return execute(f"result = {source}", **extra)["result"]


def refusal_of(source: str, **extra: object) -> str:
    with pytest.raises(RefusedError) as error:
        execute(source, **extra)
    return str(error.value)


OWN = """
class C:
    gi_frame = "mine"
    def __init__(self):
        self.func = "f"
        self.obj = 1
        self._x = "private"
    def mro(self):
        return "mro"
    def format(self, *args):
        return args
c = C()
"""


@pytest.mark.parametrize(
    ("receiver", "name"),
    [
        ("(x for x in ())", "gi_frame"),
        ("C", "mro"),
        ("int", "mro"),
        ("type", "mro"),
        ("AttributeError()", "obj"),
        ("AttributeError", "obj"),
        ("ValueError()", "with_traceback"),
        ("property(len)", "fget"),
        ("C.prop", "fget"),
        ("(lambda: 1)", "func"),
        ("len", "func"),
        ("''", "parser"),
    ],
)
def test_power_attribute_is_refused_on_foreign_objects(receiver: str, name: str) -> None:
    source = "class C:\n    prop = property(len)\n"
    # A script function may have any attribute of its own; it just has none here.
    if receiver.startswith("(lambda"):
        with pytest.raises(AttributeError):
            execute(f"{source}{receiver}.{name}")
    else:
        assert demangle(name) in refusal_of(f"{source}{receiver}.{name}")


def test_scripts_may_define_power_attributes_of_their_own() -> None:
    source = f"""{OWN}
c.obj += 4
c.func, (c.parser, *c.gen) = 1, (2, 3)
for c.fget in (7,):
    pass
del c.gi_frame_ if False else c.func
result = [c.gi_frame, C.gi_frame, c.mro(), c.format(1), c.obj, c.parser, c.gen, c.fget]
result += [hasattr(c, "func"), hasattr(c, "obj")]
"""
    source = source.replace("del c.gi_frame_ if False else c.func", "del c.func")
    found = execute(source)["result"]
    assert found == ["mine", "mine", "mro", (1,), 5, 2, [3], 7, False, True]


def test_power_attribute_inherited_from_the_library_is_refused() -> None:
    source = "class E(AttributeError):\n    pass\nE().obj"
    assert "obj" in refusal_of(source)
    source = "class S(str):\n    def f(self): return super().mro\nS().f()"
    assert "mro" in refusal_of(source)


@pytest.mark.parametrize(
    "name", ["__globals__", "__class__", "__dict__", "__code__", "__call__", "__init__", "mro"]
)
@pytest.mark.parametrize("receiver", ["f", "C", "c", "len", "ValueError()", "super"])
def test_getattr_with_a_string_follows_the_rules_of_source(receiver: str, name: str) -> None:
    if (receiver, name) == ("c", "__class__"):
        receiver = "[c]"  # of an object of the script it is readable
    source = f"def f(): pass\nclass C: pass\nc = C()\ngetattr({receiver}, {name!r})"
    with pytest.raises(AttributeError):
        execute(source)
    assert value(f"getattr({receiver}, {name!r}, 'no')", f=len, C=len, c=len) == "no"


def test_class_annotation_with_an_unbound_mark_stays_text() -> None:
    source = "from __future__ import annotations\nclass A:\n    x: ClassVar[int] = 1\n"
    assert execute(f"{source}found = A.__annotations__")["found"] == {"x": "ClassVar[int]"}


def test_getattr_is_not_fooled_by_a_str_subclass() -> None:
    source = """
class S(str):
    def startswith(self, *a): return False
    def endswith(self, *a): return False
    def __len__(self): return 0
    def __eq__(self, other): return False
    __hash__ = str.__hash__
def f(): pass
getattr(f, S("__globals__"))
"""
    # `str.__hash__` is not a value a script may keep: define it.
    source = source.replace("__hash__ = str.__hash__", "def __hash__(self): return 1")
    assert "__globals__" in refusal_of(source)


def test_private_names_in_strings_refer_to_script_attributes() -> None:
    found = execute(f"""{OWN}
setattr(c, "_y", 2)
result = [getattr(c, "_x"), hasattr(c, "_y"), c._y, getattr(c, "_nope", None), hasattr(c, "_nope")]
delattr(c, "_y")
result.append(hasattr(c, "_y"))
""")
    assert found["result"] == ["private", True, 2, None, False, False]


@pytest.mark.parametrize(
    "source",
    [
        "c.y = 1; setattr(c, 'ptc_private_y', 1)",
        "type('D', (), {'ptc_private_y': 1})",
        "type('D', (), {'__annotations__': {'ptc_private_y': int}})",
        "vars(c)['ptc_private_y'] = 1",
        "object.__setattr__(c, 'ptc_private_y', 1)",
    ],
)
def test_prefix_of_renamed_names_is_refused_in_text(source: str) -> None:
    with pytest.raises(AttributeError, match="a name may not start with 'ptc_private_'"):
        execute(f"{OWN}\n{source}")


def test_a_private_attribute_of_a_foreign_object_does_not_exist() -> None:
    class Host:
        _secret = "s"  # a decoy

    for source in ("host._secret", "getattr(host, '_secret')", "'{0._secret}'.format(host)"):
        with pytest.raises(AttributeError):
            value(source, host=Host())
    assert value("hasattr(host, '_secret')", host=Host()) is False


def test_storing_on_foreign_objects_is_refused_for_guarded_names() -> None:
    class Host:
        obj = 1

    for source in ("host.obj = 2", "setattr(host, 'obj', 2)", "del host.obj", "host.obj += 1"):
        refusal_of(source, host=Host())
    for source in ("host.__class__ = 1", "setattr(host, '__dict__', {})"):
        with pytest.raises(Exception, match=r"__class__|__dict__"):
            execute(source, host=Host())
    assert Host.obj == 1


def test_only_script_functions_can_be_renamed_and_only_to_text() -> None:
    found = execute("""
def f(): pass
f.__name__ = "g"
f.__doc__ = "text"
f.note = 1
result = [f.__name__, f.__doc__, f.note]
""")
    assert found["result"] == ["g", "text", 1]
    refusal_of("def f(): pass\nf.__name__ = 3")
    refusal_of("host.__name__ = 'x'", host=execute)


def test_only_permitted_hooks_can_be_set_on_a_class() -> None:
    assert execute("class A: pass\nA.__len__ = lambda self: 3\nresult = len(A())")["result"] == 3
    refusal_of("class A: pass\nsetattr(A, '__reduce__', 1)")
    refusal_of("class A: pass\nsetattr(A, '__match_args__', ('gi_frame',))")
    # The compiler restores private names in this hook's definition, so it cannot be set later.
    refusal_of("class A: pass\nA.__getattr__ = lambda self, name: name")


def test_type_never_returns_a_metaclass() -> None:
    found = execute("""
class C: pass
result = [type(C) is type, type(type) is type, type(int) is type, type(type(C)) is type,
          C.__class__ is type, isinstance(C, type), isinstance(1, type), issubclass(type, type),
          type(1) is int, str(type)]
""")
    assert found["result"] == [True] * 6 + [False, True, True, "<class 'type'>"]
    for source in ("type('A', (type,), {})", "type(int)('A', (type(int),), {})", "type(1, 2)"):
        with pytest.raises(TypeError, match=r"may not subclass|takes 1 or 3 arguments"):
            execute(source)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("type('A', (slice,), {})", "may not subclass"),
        ("class A(type): pass", "may not subclass type; use __init_subclass__"),
        ("type('A', (ExceptionGroup,), {})", "may not subclass"),
        ("type('A', [], {})", "must be tuple, not list"),
        ("type('A', (), {'__slots__': ('gi_frame',)})", "__slots__ must be defined"),
        ("type('A', (), {'__match_args__': ('gi_frame',)})", "__match_args__ must be defined"),
        ("type('A', (), {'__getattribute__': len})", "__getattribute__ must be defined"),
        ("type('A', (), {'__del__': len})", "__del__ must be defined"),
        ("type('A', (), {'__getattr__': len})", "__getattr__ must be defined"),
        ("type('A', (), {'__class__': int})", "__class__ must be defined"),
        ("type('A', (), {'__doc__': 1})", "__doc__ must be a text"),
        ("type('A', (), {1: 2})", "must be string"),
        ("type('__import__', (), {})", "may not be named"),
        ("type('A', (), {}, metaclass=type)", "keyword arguments"),
        ("type(type('B', (), {}))('A', (list, slice), {})", "may not subclass"),
    ],
)
def test_class_made_by_type_follows_the_rules_of_a_class_statement(
    source: str, message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        execute(source)


def test_class_made_by_type_belongs_to_the_script() -> None:
    found = execute("""
A = type("A", (dict,), {"_x": 1, "gi_frame": 2, "f": lambda self: self._x})
a = A(b=1)
class B(A):
    def __init_subclass__(cls, tag=0): cls.tag = tag
C = type("C", (B,), {"__annotations__": {"_y": "int"}}, tag=5)
a._z = 3
result = [a.f(), a.gi_frame, a["b"], sorted(vars(a)), C.tag, C.__annotations__, C.__name__, repr(C)]
""")
    assert found["result"] == [
        1, 2, 1, ["_z"], 5, {"_y": "int"}, "C", "<class '__main__.C'>",
    ]  # fmt: skip


def test_script_cannot_construct_a_task_from_its_type() -> None:
    import asyncio

    async def main() -> None:
        task = asyncio.current_task()
        assert value("type(t).__name__", t=task) == "Task"
        assert value("isinstance(t, type(t))", t=task) is True
        with pytest.raises(TypeError):
            value("type(t)(None, loop=1)", t=task)

    asyncio.run(main())


# ---------------------------------------------------------------------------------------------
# Classes


@pytest.mark.parametrize("base", ["(x for x in ()).__class__", "type", "super", "property", "bool"])
def test_class_with_a_disallowed_base_is_refused(base: str) -> None:
    with pytest.raises(TypeError):
        execute(f"class A({base}): pass")


@pytest.mark.parametrize(
    "base",
    [
        "object",
        "int",
        "float",
        "complex",
        "str",
        "bytes",
        "bytearray",
        "list",
        "tuple",
        "dict",
        "set",
        "frozenset",
        "Exception",
        "ValueError",
        "OSError",
        "BaseException",
        "ToolError",
        "AttributeError",
        "list[int]",
    ],
)
def test_a_class_may_extend_data_types_and_exceptions(base: str) -> None:
    execute(f"class A({base}):\n    pass\nclass B(A): pass\nissubclass(B, A) or 1/0")


def test_an_exception_group_cannot_be_extended() -> None:
    for source in ("class G(ExceptionGroup): pass", "class G(ValueError, ExceptionGroup): pass"):
        with pytest.raises(TypeError, match="may not subclass ExceptionGroup"):
            execute(source)


def test_a_metaclass_is_refused() -> None:
    with pytest.raises(TypeError, match="metaclasses are not available"):
        execute("class A(metaclass=lambda *a: 1): pass")
    with pytest.raises(TypeError, match="may not subclass"):
        execute("class M(type): pass")


def test_match_args_cannot_name_a_power_attribute() -> None:
    # Results of decorators and library functions are checked too: dataclasses fill the tuple.
    for names, kept in (
        (("x", "gi_frame"), ()),
        (("__globals__",), ()),
        (("x", "y"), ("x", "y")),
    ):
        made = register(type("Made", (), {"__match_args__": names}))
        assert made.__match_args__ == kept  # type: ignore[attr-defined]  # set on the line above
    for wrong in (["x"], "x", (1,), (type("S", (str,), {})("x"),)):
        with pytest.raises(TypeError, match="must be a tuple of text"):
            register(type("Made", (), {"__match_args__": wrong}))
    source = """
class A:
    __match_args__ = ("x",)
class B(A):
    x = 1
    gi_frame = 2
match B():
    case A(v):
        result = v
"""
    assert execute(source)["result"] == 1


def test_object_new_instantiates_script_classes_only() -> None:
    source = """
class A:
    def __new__(cls, *args):
        self = super().__new__(cls)
        self.made = args
        return self
    def __init__(self, *args): pass
class T(tuple):
    def __new__(cls, *items):
        return super().__new__(cls, items)
result = [A(1).made, T(1, 2)]
"""
    assert execute(source)["result"] == [(1,), (1, 2)]
    with pytest.raises(TypeError, match="own classes only"):
        execute("object.__new__(ValueError)")


# ---------------------------------------------------------------------------------------------
# Namespaces


def test_globals_shows_the_names_of_the_script_only() -> None:
    found = execute("""
x = 1
def f(_p=2):
    y = 3
    return sorted(globals()), locals()
result, local = f()
globals()["z"] = 5
result2 = z
""")
    assert found["result"] == ["f", "x"]
    assert found["local"] == {"_p": 2, "y": 3}
    assert found["result2"] == 5


def test_namespace_view_refuses_the_names_that_source_refuses() -> None:
    for name in ("@getattr", "__builtins__", "__name__"):
        with pytest.raises(KeyError):
            execute(f"globals()[{name!r}] = 1")
        with pytest.raises(KeyError):
            execute(f"class A: pass\na = A()\nvars(a)[{name!r}] = 1")


def test_the_namespace_of_an_object_can_be_read_and_written() -> None:
    found = execute(f"""{OWN}
c.__dict__.update(a=1, _b=2)
vars(c)["k"] = 3
c.__dict__["_x"] += "!"
del c.__dict__["obj"]
result = [c.a, c._b, c.k, c._x, hasattr(c, "obj"), sorted(vars(c))]
result += [c.__dict__.pop("k"), "k" in vars(c)]
""")
    assert found["result"] == [
        1, 2, 3, "private!", False, ["_b", "_x", "a", "func", "k"], 3, False,
    ]  # fmt: skip


def test_the_namespace_of_a_foreign_object_is_refused() -> None:
    for source in ("vars(host)", "host.__dict__.keys()", "vars(len)", "vars(type(host))"):
        with pytest.raises((TypeError, AttributeError)):
            value(source, host=io.StringIO())
    assert value("hasattr(host, '__dict__')", host=io.StringIO()) is False


def test_attribute_hooks_receive_names_as_spelled_in_the_script() -> None:
    found = execute("""
seen = []
class H:
    def __getattr__(self, name):
        "text"
        seen.append(name)
        if name.startswith("_"): raise AttributeError(name)
        return name
    def __setattr__(self, *args):
        seen.append(args[0])
        super().__setattr__(*args)
    def __delattr__(self, name):
        seen.append(name)
        object.__delattr__(self, name)
class D:
    def __set_name__(self, owner, name):
        seen.append(name)
class E:
    _d = D()
h = H()
h._x = 1
h.missing, hasattr(h, "_y"), h._x
del h._x
""")
    assert found["seen"] == ["_d", "_x", "missing", "_y", "_x"]


def test_dir_lists_only_attributes_a_script_can_use() -> None:
    found = execute(f"{OWN}\nresult = dir(c)")["result"]
    assert {"_x", "func", "obj", "mro", "__len__"} & set(found) == {"_x", "func", "obj", "mro"}
    assert "__globals__" not in value("dir(f)", f=execute)
    assert not [name for name in value("dir(s)", s=io.StringIO()) if name == "__dict__"]


# ---------------------------------------------------------------------------------------------
# Text


@pytest.mark.parametrize(
    ("template", "arguments"),
    [
        ("{}-{}", (1, 2)),
        ("{0!r:>6}|{1:{2}}", ("a", 3.14159, ".2f")),
        ("{a[0]}{a[1]:03d}", ()),
        ("{0.real:.1f}", (1.5,)),
        ("{{}}{0}", (1,)),
        ("{:>{w}}", ("x",)),
        ("plain", ()),
    ],
)
def test_str_format_matches_cpython(template: str, arguments: tuple[Any, ...]) -> None:
    extra = {"a": [1, 2], "w": 4}
    found = value("t.format(*a, **k)", t=template, a=arguments, k=extra)
    assert found == template.format(*arguments, **extra)
    assert value("str.format(t, *a, **k)", t=template, a=arguments, k=extra) == found


@pytest.mark.parametrize(
    "template",
    [
        "{0.__globals__}",
        "{0.__class__}",
        "{0.__class__.__mro__}",
        "{0.gi_frame}",
        "{x.__dict__}",
        "{0:{0.__code__}}",
        "{0[a].__globals__}",
        "{0.real.__init__}",
        "{0.__class__.__init__.__globals__}",
    ],
)
def test_format_string_follows_the_attribute_rules_of_source(template: str) -> None:
    class Trap(dict[str, Any]):
        real = 1

    for source in (
        "t.format(o, x=o)",
        "str.format(t, o, x=o)",
        "getattr(t, 'format')(o, x=o)",
        "S(t).format(o, x=o)",
        "S.format(t, o, x=o)",
        "[f(o, x=o) for f in [t.format]][0]",
    ):
        with pytest.raises(AttributeError):
            value(source, t=template, o=Trap(a=execute), S=type("S", (str,), {}))
    if "0" not in template:
        with pytest.raises(AttributeError):
            value("t.format_map({'x': o})", t=template, o=execute)


def test_format_reads_private_names_of_script_objects() -> None:
    source = f"{OWN}\nresult = '{{0._x}} {{c.func}} {{0.__class__.__name__}}'.format(c, c=c)"
    assert execute(source)["result"] == "private f C"


# ---------------------------------------------------------------------------------------------
# Builtins


def test_function_and_class_names_are_as_spelled_in_the_script() -> None:
    found = execute("""
class _A:
    class _B: pass
    def _m(self): pass
    def __n(self): pass
    names = [_m.__name__, __n.__name__, _B.__name__, _B.__qualname__]
result = _A.names + [_A.__name__, type(_A()).__name__, (lambda: 1).__name__, len.__name__]
""")
    assert found["result"] == [
        "_m", "__n", "_B", "_A._B", "_A", "_A", "<lambda>", "len",
    ]  # fmt: skip


def test_explicit_exception_cause_can_be_read() -> None:
    found = execute("""
try:
    try:
        raise KeyError("a")
    except KeyError as error:
        raise ValueError("b") from error
except ValueError as error:
    result = repr(error.__cause__)
""")
    assert found["result"] == "KeyError('a')"
    found = execute("try:\n    1/0\nexcept Exception as e:\n    result = e.__cause__")
    assert found["result"] is None


def test_chain_of_exception_causes_can_be_walked() -> None:
    found = execute("""
def chain(e):
    names = []
    while e is not None:
        names.append(type(e).__name__)
        e = e.__cause__
    return names

def root(e):
    while e.__cause__ is not None:
        e = e.__cause__
    return e

def last(e):
    while e.__cause__:
        e = e.__cause__
    return e

try:
    try:
        raise KeyError("a")
    except KeyError as error:
        raise ValueError("b") from error
except ValueError as error:
    result = [chain(error), repr(root(error)), repr(last(error)), repr(error.__cause__ or 0)]
    plain = KeyError()
    if plain.__cause__ is None and not plain.__cause__ and not isinstance(plain.__cause__, OSError):
        result.append(plain.__cause__ or "none")
""")
    root = "KeyError('a')"
    assert found["result"] == [["ValueError", "KeyError"], root, root, root, "none"]


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("open('x')", FileNotFoundError),
        ("open('x', 'rb')", FileNotFoundError),
        ("open('x', 'w')", PermissionError),
        ("input('?')", EOFError),
    ],
)
def test_possibly_unreachable_refusal_is_deferred_to_run_time(
    source: str, kind: type[BaseException]
) -> None:
    execute(f"asked = False\nif asked:\n    {source}")
    execute(f"asked = False\nx = asked and {source}\ny = {source} if asked else 1")
    execute(f"def never():\n    return {source}")
    with pytest.raises(kind, match=r"ctx|inputs"):
        execute(f"if 1:\n    {source}")
    caught = execute(f"try:\n    {source}\nexcept {kind.__name__}:\n    result = 'caught'")
    assert caught["result"] == "caught"
    for sure in (source, f"for i in [1]:\n    {source}", f"def f():\n    {source}\nf()"):
        with pytest.raises(ScriptRejected):
            compile_script(sure, require_run=False)


def test_class_body_reads_outer_private_name_before_binding_it() -> None:
    found = execute("""
_limit = 3
def _helper(x):
    return x + _limit
class A:
    _limit = _limit
    _helper = staticmethod(_helper)
    _twice = _limit * 2
    _limit = 10
    def f(self, n=_limit):
        return [self._limit, self._twice, self._helper(1), n, _limit]
result = A().f()
""")
    assert found["result"] == [10, 6, 4, 10, 3]


@pytest.mark.parametrize("name", ["__builtins__", "__import__", "__loader__", "__class__"])
def test_class_body_cannot_read_outer_dunder_names(name: str) -> None:
    for body in (f"x = {name}", f"{name}", f"def f(self, a={name}): ...", f"x: int = {name}"):
        with pytest.raises(ScriptRejected):
            compile_script(f"class A:\n    {body}\n", require_run=False)


def test_script_builtins_exclude_dangerous_functions() -> None:
    table = script_builtins(extra={})
    hidden = "eval exec compile breakpoint help memoryview __loader__ __spec__"
    assert not table.keys() & set(hidden.split())
    for name in ("open", "input", "exit", "quit"):
        assert getattr(table[name], "__module__", "") == "ptc.worker._guards"
    assert table["BaseException"] is BaseException
    assert "BaseExceptionGroup" not in table


def test_script_can_replace_and_restore_input() -> None:
    source = "old = input\ninput = iter(['a']).__next__\nresult = input()\ninput = old\n"
    assert execute(source)["result"] == "a"
    with pytest.raises(EOFError, match="take values from `inputs`"):
        execute(source + "input('?')")


def test_print_writes_to_the_configured_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(CONSOLE, "write", CONSOLE.write)
    said: list[tuple[str, Output]] = []
    builtins = script_builtins(extra={}, write=lambda text, output: said.append((text, output)))
    code = compile_script("print(1, 2, sep='')", require_run=False).code
    exec(code, script_globals(builtins, {}))  # noqa: S102  # what these tests are about
    assert said == [("12\n", Output.STDOUT)]


def test_two_scripts_share_no_globals() -> None:
    builtins = script_builtins(extra={})
    first, second = script_globals(builtins, {}), script_globals(builtins, {})
    exec(compile_script("x = 1", require_run=False).code, first)  # noqa: S102  # as above
    assert "x" not in second


def test_an_unknown_module_raises_as_in_python() -> None:
    source = "try:\n    import numpy\nexcept ImportError as error:\n    result = repr(error)"
    with contextlib.suppress(ImportError):
        assert execute(source)["result"] == "ModuleNotFoundError(\"No module named 'numpy'\")"


@pytest.mark.parametrize(
    "expression",
    [
        "len.__defaults__", "print.__annotations__", "hasattr.__defaults__", "Tool.__annotations__",
        "Tool().__annotations__", "int.__annotations__", "[].append.__wrapped__",
        "(1).__context__", "[].__traceback__", "print.__kwdefaults__", "call.__defaults__",
        "call.__wrapped__", "call.__annotations__",
    ],
)  # fmt: skip
def test_introspection_of_foreign_objects_is_refused(expression: str) -> None:
    class Tool:
        value: int = 1

    def call(a: int = 1) -> None: ...

    call.__wrapped__ = len  # type: ignore[attr-defined]  # functions take attributes
    # Before the freeze, a script's class is one that a class statement of a script made.
    refusal_of(f"x = {expression}", Tool=Tool, call=call)


def test_traceback_is_a_copy_that_cannot_be_changed() -> None:
    found = execute("""
def fail():
    raise ValueError("x")
try:
    fail()
except ValueError as error:
    e = error
tb = e.__traceback__
def tries(function):
    try:
        return function()
    except Exception as error:
        return type(error).__name__
def change():
    tb.tb_next = None
result = [tb.tb_lineno, tb.tb_next.tb_lineno, tb.tb_next.tb_next, tries(change), type(tb).__name__,
          tries(lambda: tb.tb_frame.f_globals), tries(lambda: tb.tb_frame.f_back),
          tries(lambda: tb.tb_frame.f_code.co_code), tries(lambda: type(tb)().tb_frame)]
""")
    refused = "AttributeError"
    assert found["result"] == [
        5, 3, None, refused, "traceback", refused, refused, refused, refused,
    ]  # fmt: skip
    refusal_of("tb = ValueError()\nsetattr(tb, '__traceback__', None)")

def raised(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return [type(error).__name__, str(error)]


def case_locals_of_a_class_body():
    class A:
        locals()["x"] = 42
        vars().update(y=1, _z=2)
        locals().setdefault("w", 3)
        seen = sorted(name for name in locals() if not name.startswith("__"))
    class Colour(enum.Enum):
        locals()["RED"] = 1
    return [A.x, A.y, A._z, A().w, A.seen, Colour.RED.value]


def case_locals_of_a_function():
    a, _b = 1, 2
    return [locals(), sorted(vars())]


def case_vars_of_a_class():
    class A:
        "Doc."
        x: int = 1
        _y = 2
        def __init__(self): ...
        def f(self): ...
        @property
        def p(self): return 1
    names = sorted(name for name in vars(A) if name not in ("__dict__", "__weakref__"))
    found = {k: v for k, v in vars(A).items() if not k.startswith("_")}
    return [names, list(found), vars(A)["__module__"], vars(A)["__doc__"], A.__dict__["x"],
            type(vars(A)).__name__, repr(vars(A)["__annotations__"]), callable(vars(A)["__init__"])]


def case_globals_are_the_names_of_the_script():
    return ["ctx" in globals(), "inputs" in globals(), "Node" in globals()]


def case_types_of_classes():
    return [issubclass(type(int), Callable), issubclass(type, Callable), isinstance(int, Callable),
            issubclass(type(int), type)]


def case_deepcopy_of_a_slice():
    part = slice([1], (2,), None)
    made = copy.deepcopy(part)
    return [made is part, made.start is part.start, made == part, repr(copy.deepcopy({"a": part}))]


def case_decimal_format():
    return [raised(format, decimal.Decimal("1.5"), "zz"), raised(format, decimal.Decimal("1"), "9" * 50),
            format(decimal.Decimal("1.5"), ".2f")]


def case_log_record():
    record = logging.LogRecord("app", logging.INFO, "/srv/app.py", 12, "%s of %d", ("one", 2), None, "f")
    other = logging.LogRecord("n", 10, "a.b.py", 1, "x", None, (ValueError, ValueError("v"), None))
    return [record.getMessage(), record.pathname, record.filename, record.module, record.lineno,
            record.funcName, record.levelname, record.exc_info, repr(record), other.module, other.funcName,
            other.args in (None, ()), other.exc_info[0].__name__,
            logging.Formatter("%(name)s:%(lineno)d:%(message)s").format(record)]


class Private:
    __slots__ = ("_slot",)
    def _helper(self, a, *, _b=1): pass
    def __mangled(self): pass
    class _Inner: pass
    @property
    def _p(self): return 1
    def call(self): return self.__mangled(1)


def case_private_names_in_messages():
    p = Private()
    class Abstract(abc.ABC):
        @abc.abstractmethod
        def _todo(self): ...
    @dataclass(frozen=True)
    class Frozen:
        _x: int
    calls = [lambda: p._helper(), lambda: p._helper(1, 2), lambda: setattr(p, "_p", 2), lambda: p._nope,
             lambda: Private._nope, lambda: p._slot, lambda: p.call(), lambda: Abstract(),
             lambda: delattr(p, "_q"), lambda: getattr(p, "_r"), lambda: setattr(Frozen(1), "_x", 2),
             lambda: Frozen(), lambda: p._helper(1, _c=2), lambda: setattr(p, "_other", 1)]
    return [raised(call) for call in calls]


def case_private_names_of_errors():
    p = Private()
    try:
        p._nope
    except AttributeError as error:
        return [str(error), repr(error), error.name, error.args, f"{error}", "%s" % error, repr([error]),
                traceback.format_exc().splitlines()[-1], str(copy.copy(error)), repr(error.__context__)]


def case_private_names_of_functions():
    text = repr(Private._helper)
    return [Private._helper.__name__, Private._helper.__qualname__, text[:text.index(" at ")],
            repr(Private()._helper)[:36], repr(Private._Inner), Private._Inner.__qualname__]


def case_errors_that_scripts_make():
    class Own(AttributeError):
        pass
    error = Own("a", 2)
    error.args = ("b",)
    named = AttributeError("x", name="_y", obj=1)
    return [str(error), repr(error), error.args, str(Own()), repr(TypeError()), str(TypeError(1)), named.name,
            TypeError("a", "b").args, str(TypeError("a", "b")), error.name]


def case_builtins_are_builtin():
    functions = (print, sorted, hasattr, id, len, time.time,
                 time.sleep, time.perf_counter, time.monotonic, time.gmtime, time.localtime, time.strftime, sys.exit)
    return [[repr(f), repr(type(f)), f.__name__, type(f).__name__] for f in functions]


def case_names_of_functions():
    functions = (functools.wraps, asyncio.run, logging.getLogger, warnings.warn, warnings.simplefilter,
                 traceback.format_exc, os.getenv, uuid.uuid4, inspect.signature, typing.get_type_hints)
    return [f.__name__ for f in functions]


def case_messages_name_the_function():
    calls = [lambda: time.sleep(), lambda: warnings.warn(), lambda: typing.get_type_hints(),
             lambda: logging.getLogger(1, 2), lambda: functools.wraps()]
    return [(raised(call)[1].partition("(")[0].rpartition(".")[2] or "").replace(" missing", "") for call in calls]


def with_methods(cls):
    original = cls.__init__

    @functools.wraps(original)
    def __init__(self, *args):
        original(self, *args)
        self.seen = args

    def __repr__(self):
        return f"{cls.__name__}{self.seen}"

    def __eq__(self, other):
        return __hash__(self) == __hash__(other)

    def __hash__(self):
        return len(self.seen)
    __str__ = __repr__
    cls.__init__, cls.__repr__, cls.__str__ = __init__, __repr__, __str__
    cls.__eq__ = __eq__
    setattr(cls, "__hash__", __hash__)
    return cls


def case_methods_that_a_class_decorator_sets():
    @with_methods
    class A:
        def __init__(self, *args):
            "Set up."

    def __len__(self):
        return 5

    class B(A):
        size = __len__
        __len__ = __len__
    A.__lt__ = lambda self, other: "lt"
    return [repr(A(1)), str(A(1, 2)), A(1) == A(2), len({A(1), A(2)}), A.__init__.__doc__, A.__init__.__name__,
            len(B()), B().size(), getattr(A, "__lt__")(1, 2), B.__init__ is A.__init__, A(1) < 2]


def case_decorator_that_is_a_class():
    class Counted:
        __name__ = "counted"

        def __init__(self, function):
            self.before = self.__name__
            functools.update_wrapper(self, function)
            self.function, self.calls = function, 0

        def __call__(self, *args):
            self.calls += 1
            return self.function(*args)

    def double(n):
        "Double it."
        return n + n
    double.unit = "m"
    counted = Counted(double)
    found = [counted(2), counted.calls, counted.before, Counted.__name__, counted.__name__, counted.__doc__,
             counted.unit, counted.__wrapped__ is double, counted.__qualname__ == double.__qualname__]
    counted.__name__, counted.__doc__ = "other", None
    return [*found, counted.__name__, counted.__doc__]


def case_text_of_a_class_that_its_body_computes():
    class A:
        """Text."""
        __doc__ += " More."
        seen = __doc__
    class B:
        __doc__ = f"About {A.__name__}."
    return [A.__doc__, A.seen, A().__doc__, B.__doc__]


def case_modules_cannot_be_copied():
    return [raised(function, value) for function in (copy.copy, copy.deepcopy) for value in (copy, [math])[:1]]


def case_names_of_types():
    made = (sys.stdout, sys.stderr, os.environ, logging.getLogger(), logging.getLogger("a"))
    return [repr(type(each)) for each in made] + [type(sys.stdout).__name__, repr(logging.Formatter), repr(abc.ABC)]

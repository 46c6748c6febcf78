"""Each key: its effect from a file, a wrong value of it, its variable, its option, its page."""

from __future__ import annotations

import importlib.util
import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner
from pydantic import BaseModel

import ptc
from ptc import BlockingSession, Session, ToolError, UsageError
from ptc._cli._run import command as run_command
from ptc._config._keys import KEYS, Key
from ptc._config._schema import _model
from ptc._config._settings import load_settings, unknown_variables
from tests.core.pools import pool_of

PAGE = Path(ptc.__file__).parent.parent / "docs" / "configuration.md"
TOOLS = """
from pydantic import BaseModel
from ptc import Toolset, tool


class Keys(BaseModel):
    api_key: str = "none"


@tool
def price(item: str) -> float:
    \"\"\"Look up a price.\"\"\"
    return 2.5


@tool(side_effect=True, idempotent=True)
def pay(amount: int) -> int:
    \"\"\"Pay.\"\"\"
    return amount


@tool(env=Keys)
def keyed() -> str:
    \"\"\"Use a key.\"\"\"
    return "used"


stock = Toolset("stock", (price,))
_hidden = price
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with tools, and without variables of ptc."""
    monkeypatch.chdir(tmp_path)
    for key in KEYS.values():
        monkeypatch.delenv(key.variable, raising=False)
    monkeypatch.setenv("SHOP_KEY", "secret-of-the-shop")
    monkeypatch.setenv("PTC_WEBHOOK_SECRET", "a key of more than 24 characters")
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "mcp.json").write_text(
        '{"mcpServers": {"shop": {"command": "npx", "args": ["shop"]}}}'
    )
    skill = tmp_path / "sub" / "skills" / "greet"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: greet\ndescription: Greets.\n---\n")
    return tmp_path


Write = Callable[[str], None]


@pytest.fixture
def write(folder: Path) -> Write:
    def write_file(text: str) -> None:
        (folder / "ptc.toml").write_text(text)

    return write_file


def open_it() -> Session:
    session = Session.from_config()
    anyio.run(session.history.close)
    return session


def rejects_101(session: Session) -> bool:
    with pytest.raises(ToolError, match="<= 100"):
        session.select_tools()["pay"].validate({"amount": 101})
    return list(session.select_tools()) == ["pay", "read"]


def keyed(session: Session) -> Any:
    values = session._direct._shared.environment.values.get("keyed")
    return getattr(values, "api_key", None)


def bounds_of(session: Session) -> Any:
    """The bounds of the runs that stay in the journal."""
    return session.history.retention._retention


def server_of(session: Session) -> Any:
    """The fields of the only MCP server."""
    specs = [spec for provider in session._catalog.providers for spec in specs_of(provider)]
    if not specs:
        return None
    (spec,) = specs
    folder = Path.cwd() if spec.cwd is None else spec.cwd.resolve()
    return spec.name, spec.command, spec.args, spec.env, folder.name


def specs_of(provider: Any) -> list[Any]:
    return list(provider._specs)


def readable_folders(session: Session) -> list[str]:
    """Folders that the function of `bash` has in its closure."""
    variables = inspect.getclosurevars(session.select_tools(["bash"])["bash"].function).nonlocals
    return [str(folder.relative_to(Path.cwd())) for folder in variables["folders"]]


EFFECTS: dict[str, tuple[str, Callable[[Session], Any], Any]] = {
    "root": ('root = "sub"', lambda s: s.root.name, "sub"),
    "toolsets": ("toolsets = []", lambda s: s.tool_names(), []),
    "tools": (
        'toolsets = []\ntools = ["tools.py"]',
        lambda s: sorted(s.tool_names()),
        ["keyed", "pay", "price"],
    ),
    "skills": ('skills = ["sub/skills"]', lambda s: "Skill" in s.tool_names(), True),
    "allow": ('tools = ["tools.py"]\nallow = ["pay(amount <= 100)", "read"]', rejects_101, True),
    "packages": ('packages = ["numpy"]', lambda s: "numpy" in s.describe_tools(), True),
    "env": (
        'tools = ["tools.py"]\nenv = { api_key = "SHOP_KEY" }',
        lambda s: keyed(s),
        "secret-of-the-shop",
    ),
    "model": ('model = "openai:gpt-5"', lambda s: "generate_object" in s.tool_names(), True),
    "engine": ('engine = "wasm"', lambda s: s.engine.split()[0], "wasm"),
    "reuse_workers": ("reuse_workers = true", lambda s: pool_of(s)._restore, "1"),
    "isolation": ('isolation = "process"', lambda s: pool_of(s)._isolation, "process"),
    "untrusted": ('untrusted = "mark"', lambda s: s.untrusted, "mark"),
    "unprotected": (
        'unprotected = [".vscode"]',
        lambda s: s._direct._shared.unprotected,
        {".vscode"},
    ),
    "protected": (
        'protected = ["sub/infra"]',
        lambda s: s._direct._shared.protected,
        {"sub/infra", "ptc.toml"},
    ),
    "agents": (
        'agents = ["sub"]',
        lambda s: [folder.name for folder in s._kinds.folders],
        ["sub"],
    ),
    "journal": (
        'root = "sub"\njournal = "runs.sqlite3"',
        lambda s: s.history._store.source == Path.cwd() / "runs.sqlite3",
        True,
    ),
    "mcp_servers": (
        '[mcp_servers.files]\ncommand = "npx"\nargs = ["server"]\nenv = ["SHOP_KEY"]\ncwd = "sub"',
        lambda s: server_of(s),
        ("files", "npx", ("server",), {"SHOP_KEY": "secret-of-the-shop"}, "sub"),
    ),
    "mcp_config": (
        'mcp_config = "mcp.json"',
        lambda s: (server_of(s) or ())[:4],
        ("shop", "npx", ("shop",), {}),
    ),
    "retention_days": ("retention_days = 7", lambda s: bounds_of(s).max_age_ms, 7 * 86_400_000),
    "retention_runs": ("retention_runs = 7", lambda s: bounds_of(s).max_runs, 7),
    "retention_bytes": ("retention_bytes = 7", lambda s: bounds_of(s).max_bytes, 7),
    "max_attempts": ("max_attempts = 7", lambda s: s.history.max_attempts, 7),
    "telemetry": ("telemetry = true", lambda s: s._runner._telemetry._option, True),
    "store_source": (
        "store_source = false",
        lambda s: s._runner._programs._store_source,
        False,
    ),
    "journal_in_root": (
        'journal = "runs.sqlite3"\njournal_in_root = true',
        lambda s: s.history._store.source == Path.cwd() / "runs.sqlite3",
        True,
    ),
    "webhook": (
        'webhook = "https://hooks.example.com/ptc"',
        lambda s: s.history.webhook is not None,
        True,
    ),
    "approvals_expire_ms": ("approvals_expire_ms = 7", lambda s: s.history._expiry, 7),
    "artifacts": (
        'artifacts = "sub/large"',
        lambda s: s.artifacts.folder == Path.cwd() / "sub" / "large",
        True,
    ),
    "programs": (
        'programs = "sub/saved"',
        lambda s: s._saved.store.folder == Path.cwd() / "sub" / "saved",
        True,
    ),
    "workers": ("workers = 2", lambda s: pool_of(s)._size, 2),
    "max_concurrent_runs": ("max_concurrent_runs = 3", lambda s: s._runs._most, 3),
    "builtin.network": (
        "[builtin]\nnetwork = true",
        lambda s: "web_fetch" in s.tool_names(),
        importlib.util.find_spec("httpx") is not None,
    ),
    "builtin.git_writes": (
        "[builtin]\ngit_writes = true",
        lambda s: s.select_tools(["git"])["git"].side_effect,
        True,
    ),
    "builtin.readable": (
        '[builtin]\nreadable = ["sub/toolchain"]',
        lambda s: readable_folders(s),
        ["sub/toolchain"],
    ),
    "limits.max_calls_by_tool": (
        "[limits]\nmax_calls_by_tool = { bash = 3 }",
        lambda s: s.limits.max_calls_by_tool,
        {"bash": 3},
    ),
    "ceiling.max_calls_by_tool": (
        "[ceiling]\nmax_calls_by_tool = { bash = 3 }",
        lambda s: s.limits.max_calls_by_tool,
        {"bash": 3},
    ),
}
"""Text of a file, and an observation of the session that is made from it."""


def get_limit(name: str) -> Callable[[Session], Any]:
    return lambda s: getattr(s.limits, name)


for _name in KEYS:
    _table, _dot, _last = _name.partition(".")
    if _dot and _table != "builtin" and _last != "max_calls_by_tool":
        # A ceiling lowers the default of its limit.
        EFFECTS[_name] = (f"[{_table}]\n{_last} = 7", get_limit(_last), 7)

WRONG: dict[str, list[Any]] = {
    "text": [5, '""', "[]"],
    "path": [5, '""', "true"],
    "flag": ['"true"', 1, "[]"],
    "number": [0, -1, "1.5", '"5"', "true", 10**12],
    "list": ['"read"', "[5]", '[""]', "{ a = 1 }"],
    "paths": ['"a"', "[5]"],
    "counts": [5, "{ bash = 0 }", '{ bash = "3" }', "[]"],
    "servers": [
        5,
        '"npx"',
        "{ a = 5 }",
        "{ a = { command = 5 } }",
        '{ a = { command = "npx", args = "--key=sk-1234" } }',
        '{ a = { command = "npx", env = ["sk-1234"] } }',
        '{ a = { command = "npx", env = { KEY = "sk-1234" } } }',
        '{ a = { url = "https://example.com", token_env = "sk-1234" } }',
    ],
    "variables": ['"SHOP_KEY"', '{ api_key = "sk-1234" }', "{ api_key = 5 }", '["SHOP_KEY"]'],
}


def holes(keys: Mapping[str, Key]) -> dict[str, list[str]]:
    """Name what a key of the model lacks: an option, a variable, or an entry in a table above."""
    found: dict[str, list[str]] = {}
    taken = Counter(key.variable for key in keys.values())
    options = Counter(key.option for key in keys.values() if key.option)
    for name in fields_of_model(_model()) | keys.keys():
        key = keys.get(name)
        present = {
            "row": key is not None,
            "option": key is not None and (is_option(key) if key.option else key.flag != ""),
            "option of its own": key is None or options[key.option] <= 1,
            "variable": key is not None and taken[key.variable] == 1,
            "test of its effect": name in EFFECTS,
            "test of a wrong value": key is not None and key.kind in WRONG,
            "test of a text": key is not None and key.kind in VALUES,
        }
        if missing := [what for what, there in present.items() if not there]:
            found[name] = missing
    return found


def fields_of_model(model: type[BaseModel], prefix: str = "") -> set[str]:
    """Full names of the keys that the validation of a file accepts."""
    names: set[str] = set()
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            names |= fields_of_model(kind, f"{prefix}{name}.")
        else:
            names.add(f"{prefix}{name}")
    return names


def is_option(key: Key) -> bool:
    """Return True if `ptc run` has the option of the key."""
    flags = {flag for option in run_command.params for flag in option.opts}
    return key.option.partition("/")[0] in flags


def test_every_key_has_an_option_a_variable_and_tests_of_right_and_wrong_values() -> None:
    assert holes(KEYS) == {}
    assert EFFECTS.keys() == KEYS.keys()


def test_new_key_without_tests_is_found() -> None:
    new: Any = Key("new_key", "text", "Help.", None, "--new-key", "X")
    odd: Any = replace(new, name="odd", kind="color", option="")
    twin: Any = replace(new, name="limits_timeout.ms", option="--root")
    found = holes({**KEYS, "new_key": new, "odd": odd, "limits_timeout.ms": twin})
    assert found["new_key"] == ["option", "test of its effect"]
    assert found["odd"] == ["test of its effect", "test of a wrong value", "test of a text"]
    assert {"option of its own", "variable"} <= {*found["limits_timeout.ms"], *found["root"]}


@pytest.mark.parametrize("name", KEYS)
def test_key_in_a_file_has_its_effect(name: str, write: Write) -> None:
    text, observe, expected = EFFECTS[name]
    if name != "allow":
        assert observe(Session.from_config(settings={"journal": ":memory:"})) != expected
    write(f"# a comment\n{text}\n")
    assert observe(open_it()) == expected


@pytest.mark.parametrize("name", KEYS)
def test_wrong_value_of_a_key_is_an_error_with_its_line(name: str, write: Write) -> None:
    key = KEYS[name]
    table, _, last = name.rpartition(".")
    for value in WRONG[key.kind]:
        write(f"# a comment\n\n[{table}]\n{last} = {value}\n" if table else f"\n\n\n{last}={value}")
        with pytest.raises(UsageError) as caught:
            load_settings()
        message = str(caught.value)
        assert message.startswith(f"ptc.toml:4: {name}"), message
        assert "must be " in message
        assert "sk-1234" not in message


VALUES = {
    "text": "openai:gpt-5",
    "path": "sub",
    "flag": "true",
    "number": "9",
    "list": "read",
    "paths": "a,b",
    "counts": "bash=3,read=4",
    "variables": "api_key=SHOP_KEY",
    "servers": "files=npx some-server --flag",
}
PARSED: dict[str, Any] = {
    "flag": True,
    "number": 9,
    "list": ["read"],
    "paths": ["a", "b"],
    "counts": {"bash": 3, "read": 4},
    "variables": {"api_key": "SHOP_KEY"},
    "servers": {"files": {"command": "npx", "args": ["some-server", "--flag"]}},
}


@pytest.mark.parametrize("name", KEYS)
def test_command_line_overrides_variable_overrides_file(
    name: str, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ptc._cli._config import command

    key = KEYS[name]
    text = key.choices[0] if key.choices else VALUES[key.kind]
    assert load_settings().by_name[name].origin == "default"
    write(EFFECTS[name][0])
    assert load_settings().by_name[name].origin == "file"
    monkeypatch.setenv(key.variable, text)
    found = load_settings().by_name[name]
    assert (found.origin, found.place) == ("environment", key.variable)
    assert found.value == PARSED.get(key.kind, text)
    flag = key.option.partition("/")[0]
    arguments = [flag] if key.kind == "flag" else [flag, text.partition(",")[0]]
    for given in ([*arguments] if flag else None, ["--set", f"{name}={text}"]):
        if given is None or (name == "toolsets" and given[0] == "--set"):
            continue
        shown = CliRunner().invoke(command, ["show", "--all", "--json", *given])
        assert shown.exit_code == 0, shown.exception
        assert f'"place": "{key.flag}"' in shown.output
    assert load_settings(environment={}).by_name[name].origin == "file"


@pytest.mark.parametrize("name", KEYS)
def test_wrong_variable_is_an_error_that_names_it(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = KEYS[name]
    if key.kind in ("path", "list", "paths") or (key.kind == "text" and not key.choices):
        return  # any text is one
    monkeypatch.setenv(key.variable, "no")
    with pytest.raises(UsageError, match=rf"^{key.variable}\b"):
        load_settings()


@pytest.mark.parametrize("name", KEYS)
def test_key_is_documented_with_its_variable(name: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    table, _, last = name.rpartition(".")
    if table in ("limits", "ceiling"):
        assert f"[{table}]" in page
    else:
        assert f"`{last}`" in page
        assert f"`{KEYS[name].variable}`" in page
    if KEYS[name].option:
        assert f"`{KEYS[name].option.partition('/')[0]}" in page


# --- messages ------------------------------------------------------------------------------------


def test_every_problem_is_reported_with_its_line_and_the_nearest_key(write: Write) -> None:
    limits = "[limits]\ntimeot_ms = 5\nmax_emits = 0\n"
    write(f'toolset = ["builtin"]\ntimeout_ms = 5\n\n{limits}[buitin]\n')
    with pytest.raises(UsageError) as caught:
        load_settings()
    assert str(caught.value).splitlines() == [
        "ptc.toml:1: toolset is not a key (did you mean `toolsets` or `tools` or `root`?)",
        "ptc.toml:2: timeout_ms is not a key (did you mean `limits.timeout_ms` or "
        "`ceiling.timeout_ms`?)",
        "ptc.toml:5: limits.timeot_ms is not a key (did you mean `timeout_ms` or "
        "`tool_timeout_ms`?)",
        "ptc.toml:6: limits.max_emits must be an integer from 1 to 1,000,000, not 0",
        "ptc.toml:7: buitin is not a key (did you mean `builtin` or `isolation`?)",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('root = "nope"', "ptc.toml:1: root '"),
        ('toolsets = ["bultin"]', "ptc.toml:1: toolsets: no toolset 'bultin' is installed (did"),
        ('allow = ["raed"]', "ptc.toml:1: allow: there is no tool 'raed' (did you mean `read`"),
        ('\nallow = ["read(path"]', "ptc.toml:2: allow: 'read(path' is not a rule: write a rule"),
        (
            "allow = [\"read(pth='a')\"]",
            "Allow('read'): unknown parameter 'pth' (did you mean `path`",
        ),
        ('packages = ["os"]', "ptc.toml:1: packages: "),
        ('unprotected = ["state"]', "ptc.toml:1: unprotected: 'state' is not a protected path"),
        ('env = { x = "SHOP_KEY" }', "ptc.toml:1: env: no tool declares 'x'"),
        ('journal = "j.sqlite3"', "lies inside the root"),
        ("[limits]\nmax_calls_by_tool = { bsh = 1 }", "ptc.toml:2: limits.max_calls_by_tool names"),
        (
            "[limits]\ntimeout_ms = 500\n[ceiling]\ntimeout_ms = 400",
            "ptc.toml:2: limits.timeout_ms is 500, above ceiling.timeout_ms, which is 400",
        ),
        ('tools = ["nope.py"]', "ptc.toml:1: tools: "),
        ('tools = ["no_such_module:x"]', "no module 'no_such_module' is installed"),
        ('tools = ["tools.py:pric"]', "tools.py has no 'pric' (did you mean `price`"),
        ('tools = ["tools.py:Keys"]', "must be a Tool, a Toolset, a ToolProvider, a tool of"),
        ('tools = ["tools"]', "ptc.toml:1: tools: 'tools' names no tools: write FILE.py"),
        ('tools = ["empty.py"]', "empty.py defines no tool at its top level"),
        ('tools = ["broken.py"]', "broken.py, line 2: ZeroDivisionError: division by zero"),
        ('tools = ["syntax.py"]', "syntax.py, line 1: SyntaxError"),
        ('tools = ["quits.py"]', "quits.py, line 1: SystemExit"),
        ("root = ", "ptc.toml:1: this is not valid TOML: "),
        ('a = """\n', "this is not valid TOML: "),
    ],
)
def test_problem_names_its_place(text: str, message: str, folder: Path, write: Write) -> None:
    (folder / "empty.py").write_text("from ptc import tool\nfrom ptc_tools import read\n")
    (folder / "broken.py").write_text("x = 0\ny = 1 / x\n")
    (folder / "syntax.py").write_text("def (\n")
    (folder / "quits.py").write_text("raise SystemExit(3)\n")
    write(text + "\n")
    with pytest.raises(UsageError) as caught:
        Session.from_config()
    assert message in str(caught.value)


def test_unset_variable_of_a_secret_is_named(folder: Path, write: Write) -> None:
    (folder / "tools.py").write_text(TOOLS.replace('api_key: str = "none"', "api_key: str"))
    write('tools = ["tools.py"]\nenv = { api_key = "NOT_SET" }\n')
    with pytest.raises(UsageError, match=r"ptc\.toml:2: env: api_key is missing.*: NOT_SET$"):
        Session.from_config()


def test_misspelt_variable_is_found() -> None:
    [message] = unknown_variables({"PTC_TOOLSET": "x", "PTC_ROOT": ".", "PATH": ""})
    assert message.startswith("PTC_TOOLSET is not a variable of ptc (did you mean `PTC_TOOLSETS`")


# --- tools ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reference", "names"),
    [
        ("tools.py:price", ["price"]),
        ("tools.py:stock", ["price"]),
        ("tools.py:some", ["price", "pay"]),
        ("tools:some", ["price", "pay"]),
        ("ptc_tools:read", ["read"]),
    ],
)
def test_reference_names_a_tool_a_toolset_or_a_list(
    reference: str, names: list[str], folder: Path, write: Write
) -> None:
    (folder / "tools.py").write_text(f"{TOOLS}\nsome = [price, pay]\n")
    write(f'toolsets = []\ntools = ["{reference}"]\n')
    assert open_it().tool_names() == names


def test_relative_paths_of_a_file_are_relative_to_it(
    folder: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write('root = "sub"\ntools = ["tools.py"]\njournal = "j.sqlite3"\n')
    monkeypatch.chdir(folder / "sub")
    session = open_it()
    assert session.root == (folder / "sub").resolve()
    assert "price" in session.tool_names()


@pytest.mark.anyio
async def test_from_config_takes_arguments_over_everything(
    folder: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("[limits]\ntimeout_ms = 1\n")
    monkeypatch.setenv("PTC_LIMITS_TIMEOUT_MS", "2")
    async with Session.from_config(settings={"limits.timeout_ms": 3}, workers=1) as session:
        assert session.limits.timeout_ms == 3
    with pytest.raises(UsageError, match=r"^limits\.timeout_ms must be an integer"):
        Session.from_config(settings={"limits.timeout_ms": 0})
    with pytest.raises(UsageError, match=r"^limits\.timeot_ms is not a key"):
        Session.from_config(settings={"limits.timeot_ms": 5})


def test_blocking_session_reads_the_configuration(write: Write) -> None:
    write('toolsets = []\ntools = ["tools.py"]\nallow = ["price"]\n')
    with BlockingSession.from_config() as session:
        assert session.allowed_tools == ("price",)
        assert session.tool("price", {"item": "tea"}).value == 2.5


def test_wrong_webhook_is_reported_with_its_place(write: Write) -> None:
    write('\nwebhook = "http://example.com/hook"\n')
    with pytest.raises(UsageError, match=r"^ptc\.toml:2: webhook: 'example\.com' is not"):
        Session.from_config()

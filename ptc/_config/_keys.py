"""Table of the configuration keys. Each has a place in a file, a variable, and an option.

To add a key, add a row here and use it in `_session_arguments`: the schema of the file, the
command-line option, the environment variable and ``ptc config show`` follow from the row. This
module imports no library, since every command creates its options from it.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal, TypeAlias

from .._dataclass import dataclass
from .._records._limits import CEILING, MAXIMA, Limits

__all__ = ["KEYS", "Key", "Kind"]

Kind: TypeAlias = Literal[
    "text", "path", "flag", "number", "list", "paths", "counts", "variables", "servers"
]


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the configuration."""

    name: str
    """Name in a file: ``root``, or ``limits.timeout_ms`` in the table ``limits``."""
    kind: Kind
    help: str
    """Help of the option, and the description in the documentation."""
    default: Any
    """Value without a source."""
    option: str = ""
    """Command-line option. A key without one is set with ``--set``."""
    metavar: str = ""
    """Name of the value in the help of the option."""
    choices: tuple[str, ...] = ()
    """Accepted texts; empty for any."""
    most: int = 0
    """Maximum of a number."""
    aliases: tuple[str, ...] = ()
    """Other names of the option."""

    @property
    def variable(self) -> str:
        """Environment variable of the key."""
        return "PTC_" + self.name.upper().replace(".", "_")

    @property
    def flag(self) -> str:
        """Text that sets the key on a command line, for messages."""
        return self.option.partition("/")[0] or f"--set {self.name}"

    @property
    def expected(self) -> str:
        """Form of a value, for messages: "must be ..."."""
        if self.choices:
            return " or ".join(f'"{choice}"' for choice in self.choices)
        return {
            "text": "text",
            "path": "a path, as text",
            "flag": "true or false",
            "number": f"an integer from 1 to {self.most:,}",
            "list": "a list of texts",
            "paths": "a list of paths, as texts",
            "counts": "a table of tools and integers, as { bash = 3 }",
            "variables": "a table of names and names of environment variables, as "
            '{ api_key = "SHOP_API_KEY" }; never put a secret into a file',
            "servers": "a table of servers, each with command or url, as "
            '{ files = { command = "npx", args = ["some-server"] } }',
        }[self.kind]


_LIMIT_HELP = {
    "timeout_ms": "Wall time of the run, tools included, in ms.",
    "max_cpu_ms": "CPU time of the script's process, in ms.",
    "max_tool_calls": "Tool calls that the script may make.",
    "max_calls_by_tool": "Calls of one tool, as in bash=3; may be repeated.",
    "tool_timeout_ms": "Wall time of one tool call in ms; a longer call is cancelled.",
    "max_output_bytes": "Bytes of the value's JSON; a larger value is truncated and stored whole "
    "in a file.",
    "max_memory_bytes": "Memory that the script may use.",
}
"""Limits with an option of their own."""


def _limit_keys() -> list[Key]:
    keys = []
    for table, defaults in (("limits", Limits()), ("ceiling", CEILING)):
        for field in fields(Limits):
            name, by_tool = field.name, field.name == "max_calls_by_tool"
            own = table == "limits" and name in _LIMIT_HELP
            words = "Limit of a run" if table == "limits" else "Highest limit a run may request"
            keys.append(
                Key(
                    f"{table}.{name}",
                    "counts" if by_tool else "number",
                    _LIMIT_HELP[name] if own else f"{words}; see docs/limits.md.",
                    dict(defaults.max_calls_by_tool) if by_tool else getattr(defaults, name),
                    f"--{name.replace('_', '-')}" if own else "",
                    "TOOL=N" if by_tool else "N",
                    most=MAXIMA["max_tool_calls" if by_tool else name],
                )
            )
    return keys


KEYS: dict[str, Key] = {
    key.name: key
    for key in (
        Key(
            *(
                "root",
                "path",
                "Folder to which the tools are confined. [default: the current folder]",
            ),
            *(".", "--root", "DIR"),
        ),
        Key(
            *("toolsets", "list", "Installed toolset to use; may be repeated. [default: builtin]"),
            *(["builtin"], "--toolset", "NAME"),
        ),
        Key(
            "tools",
            "list",
            "Tools of your own: a Python file (`tools.py`, or `tools.py:NAME`), a name in an "
            "installed module (`shop.tools:NAME`), or a prompt or an agent (`triage.md`); may be "
            "repeated. Python is executed outside of the sandbox, with your rights.",
            *([], "--tools", "FILE"),
        ),
        Key(
            "skills",
            "paths",
            "Folder of skills, each a folder with a SKILL.md; may be repeated. Adds the tools "
            "search_skills and Skill.",
            *([], "--skills", "DIR"),
        ),
        Key(
            "mcp_servers",
            "servers",
            "MCP server whose tools are added: a command, or the URL of streamable HTTP; may be "
            "repeated. The command is executed outside of the sandbox, with your rights.",
            *({}, "--mcp-server", "NAME=COMMAND"),
        ),
        Key(
            "mcp_config",
            "path",
            "File with a block mcpServers, as the clients of MCP use it (mcp.json). Its commands "
            "are executed outside of the sandbox, with your rights.",
            *(None, "--mcp-config", "FILE"),
        ),
        Key(
            "allow",
            "list",
            "Tools that scripts may call: names, patterns such as git_*, toolsets, and rules such "
            "as pay(amount<=100); may be repeated; '' allows none. [default: all without side "
            "effects]",
            *(None, "--allow", "TOOL,..."),
        ),
        Key(
            "packages",
            "list",
            "Installed package that scripts may import, such as numpy; may be repeated. A script "
            "with packages is confined by the kernel layer alone.",
            *([], "--package", "NAME"),
        ),
        Key(
            "env",
            "variables",
            "Value that tools declare with env=, and the environment variable that holds it; may "
            "be repeated.",
            *({}, "--env", "NAME=VARIABLE"),
        ),
        Key(
            "model",
            "text",
            "Model that generates data (the tool generate_object), as in openai:gpt-5.",
            *(None, "--model", "PROVIDER:NAME"),
        ),
        Key(
            "engine",
            "text",
            "process: run scripts in processes that the kernel confines, on Linux. wasm: run them "
            "in WebAssembly (pip install 'ptc-host[wasm]'), on every system. auto: in processes if "
            "this machine has every kernel layer, otherwise in WebAssembly. [default: auto]",
            *("auto", "--engine"),
            choices=("auto", "process", "wasm"),
        ),
        Key(
            "isolation",
            "text",
            "jail: require every kernel layer. process: use the layers that this machine has; "
            "without seccomp or Landlock, one bug in the language layer gives a script your "
            "user's rights. [default: jail]",
            *("jail", "--isolation"),
            choices=("jail", "process"),
        ),
        Key(
            "untrusted",
            "text",
            "Treatment of the results of scripts and tools as text for a model: mark them as data "
            "that others wrote, or strip what is hidden in them. [default: only tools that declare "
            "it, as web_fetch and those of MCP servers]",
            *(None, "--untrusted"),
            choices=("mark", "strip"),
        ),
        Key(
            "unprotected",
            "list",
            "Protected path that tools may change, such as .vscode or git; may be repeated. Other "
            "programs execute files written there. See the table in docs/security.md.",
            *([], "--unprotect", "NAME"),
        ),
        Key(
            "protected",
            "paths",
            "Further file or folder in the root that no tool may change; may be repeated.",
            *([], "--protect", "PATH"),
        ),
        Key(
            "agents",
            "paths",
            "Folder with kinds of child agents as Markdown files, which no tool may change; may be "
            "repeated.",
            *([], "--agents", "DIR"),
        ),
        Key(
            "journal",
            "path",
            "Journal of recorded runs: a file, the address of a PostgreSQL server, or `embedded:` "
            "for a server on this machine. [default: a file for the root in your state directory]",
            *(None, "--journal", "FILE|URL"),
            aliases=("--store",),
        ),
        Key(
            "journal_in_root",
            "flag",
            "Allow a journal inside the root. Scripts that may write there can then forge "
            "approvals, and read the inputs and results of all runs.",
            *(False, "--journal-in-root/--no-journal-in-root"),
        ),
        Key(
            "retention_days",
            "number",
            "Days for which runs that have ended stay in the journal. [default: for ever]",
            *(None, "--retention-days", "N"),
            most=36_500,
        ),
        Key(
            "retention_runs",
            "number",
            "Number of ended runs that stay in the journal. [default: all]",
            *(None, "--retention-runs", "N"),
            most=10**12 - 1,
        ),
        Key(
            "retention_bytes",
            "number",
            "Total size in bytes of the records of ended runs that stay. [default: no bound]",
            *(None, "--retention-bytes", "N"),
            most=10**12 - 1,
        ),
        Key(
            "telemetry",
            "flag",
            "Export spans and metrics by OTLP, as the variables OTEL_* configure it (pip install "
            "'ptc-host[otel]').",
            *(False, "--otel/--no-otel"),
        ),
        Key(
            "max_attempts",
            "number",
            "Times that a run may be started without reaching its end or a pause.",
            *(5, "--max-attempts", "N"),
            most=1_000_000,
        ),
        Key(
            "store_source",
            "flag",
            "Store the text of each script in the journal. Without it, only its digest is stored, "
            "and a run cannot be resumed without the script.",
            *(True, "--store-source/--no-store-source"),
        ),
        Key(
            "webhook",
            "text",
            "URL that is notified when a run pauses for a decision, and when it is decided: "
            "https, or http to a loopback address. PTC_WEBHOOK_SECRET holds the key that signs.",
            *(None, "--webhook", "URL"),
        ),
        Key(
            "approvals_expire_ms",
            "number",
            "Age in ms at which a call that awaits approval counts as rejected. [default: never]",
            *(None, "--approvals-expire-ms", "N"),
            most=10 * 365 * 86_400_000,
        ),
        Key(
            "artifacts",
            "path",
            "Folder of values that are too large, and of attachments, or the address of a store "
            "that machines share, such as s3://bucket/prefix. [default: .ptc/artifacts in the "
            "root, or the database of the journal]",
            *(None, "--artifacts", "DIR|URL"),
        ),
        Key(
            "programs",
            "path",
            "Folder of saved programs, which are tools. [default: .ptc/programs in the root]",
            *(None, "--programs", "DIR"),
        ),
        Key(
            "workers",
            "number",
            "Worker processes kept ready, up to 64. [default: 1 for a command, 4 in Python]",
            *(None, "--workers", "N"),
            most=64,
        ),
        Key(
            "reuse_workers",
            "flag",
            "Restore a worker process after its run and use it again, which halves the cost of a "
            "run; the kernel then no longer separates one run from the next. Linux 6.7, x86-64.",
            *(False, "--reuse-workers/--no-reuse-workers"),
        ),
        Key(
            "max_concurrent_runs",
            "number",
            "Scripts that run at once, up to 256; others wait.",
            *(16, "--max-concurrent-runs", "N"),
            most=256,
        ),
        Key(
            "builtin.network",
            "flag",
            "Let commands of the built-in tools use the network, and add web_fetch and web_search.",
            *(False, "--network/--no-network"),
        ),
        Key(
            "builtin.git_writes",
            "flag",
            "Let the built-in git tool add, commit and check out.",
            *(False, "--git-writes/--no-git-writes"),
        ),
        Key(
            "builtin.readable",
            "paths",
            "Folder outside the root, such as a toolchain, that commands may read and execute; may "
            "be repeated.",
            *([], "--readable", "DIR"),
        ),
        *_limit_keys(),
    )
}
"""All keys by name, in the order of the documentation."""

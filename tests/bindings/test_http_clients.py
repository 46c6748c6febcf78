"""The file of tokens, and the options of the HTTP server: everything wrong is refused."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from ptc import Limits, UsageError
from ptc_bindings._http_clients import TOKEN_VARIABLE, Client, Clients, create_token, load_clients
from ptc_bindings.mcp import command

TOKEN = "abcdefghij-0123456789"
DIGEST = hashlib.sha256(TOKEN.encode()).hexdigest()
TABLE = f'[tokens.alice]\nsha256 = "{DIGEST}"\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens.toml"
    path.write_text(TABLE)
    path.chmod(0o600)
    return path


def load(file: Path | None, root: Path, **environment: str) -> dict[bytes, Client]:
    return load_clients(file, environment, Limits(), root)


def test_client_has_the_tools_and_limits_of_its_table(file: Path, root: Path) -> None:
    more = 'allow = ["read", "grep"]\nlimits = { timeout_ms = 5000 }\nmax_concurrent_calls = 3\n'
    file.write_text(TABLE + more + '[tokens.bob]\nenv = "BOB"\n')
    clients = Clients(load(file, root, BOB=TOKEN + "b"))
    expected = Client("alice", ("read", "grep"), Limits(timeout_ms=5_000), 3)
    assert clients.find(TOKEN.encode()) == expected
    assert clients.find(f"{TOKEN}b".encode()) == Client("bob", limits=Limits())
    for wrong in (None, b"", b"x", DIGEST.encode(), bytes.fromhex(DIGEST)):
        assert clients.find(wrong) is None


def test_variable_holds_the_token_of_one_client(root: Path) -> None:
    (client,) = load(None, root, **{TOKEN_VARIABLE: TOKEN}).values()
    assert client.name == "default"
    assert load(None, root) == {}


def test_new_token_opens_its_own_table(file: Path, root: Path) -> None:
    token, table = create_token("bob")
    file.write_text(TABLE + table)
    client = Clients(load(file, root)).find(token.encode())
    assert client is not None
    assert client.name == "bob"
    assert create_token("bob")[0] != token


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there is no token; add a table such as [tokens.alice]"),
        ("tokens = 1", "there is no token"),
        ("[tokens.alice", "this is not TOML"),
        (
            f"[token.alice]\nsha256 = '{DIGEST}'",
            "'token' is not a known key (did you mean `tokens`",
        ),
        (
            "[tokens.alice]\nsha265 = 'x'",
            "tokens.alice.sha265 is not a known key (did you mean `sha",
        ),
        (TABLE + "alow = ['read']", "tokens.alice.alow is not a known key (did you mean `allow`"),
        (TABLE + "allow = 'read'", "tokens.alice.allow: Input should be a valid list"),
        (TABLE + "allow = [1]", "tokens.alice.allow.0: Input should be a valid string"),
        (
            TABLE + "max_concurrent_calls = 0",
            "tokens.alice.max_concurrent_calls: Input should be gr",
        ),
        (
            TABLE + "limits = { timeout = 5 }",
            "limits.timeout is not a known limit (did you mean `tim",
        ),
        (TABLE + "limits = { timeout_ms = 0 }", "tokens.alice.limits: Limits.timeout_ms must be"),
        (TABLE + "limits = { timeout_ms = '5' }", "tokens.alice.limits: Limits.timeout_ms must be"),
        (TABLE + "env = 'X'", "set either `sha256` or `env`"),
        ("[tokens.alice]", "set either `sha256` or `env`"),
        (
            "[tokens.alice]\nenv = 'NOT_SET'",
            "tokens.alice.env: the environment variable 'NOT_SET' is",
        ),
        ("[tokens.alice]\nenv = 'SHORT'", "tokens.alice.env: the token must have at least 20"),
        ("[tokens.alice]\nsha256 = 'abc'", "tokens.alice.sha256: this is not a SHA-256 digest"),
        (f"[tokens.alice]\nsha256 = '{hashlib.sha256(b'').hexdigest()}'", "of an empty token"),
        ("[tokens.'a/../b']\nsha256 = 'x'", "'a/../b' is not a valid name of a client"),
        (
            TABLE + TABLE.replace("alice", "bob"),
            "tokens.bob: the client 'alice' has the same token",
        ),
    ],
)
def test_error_in_the_file_names_file_key_and_nearest_match(
    file: Path, root: Path, text: str, message: str
) -> None:
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        load(file, root, SHORT="short")
    assert str(caught.value).startswith(str(file))
    assert message in str(caught.value)


def test_token_in_the_file_is_refused(file: Path, root: Path) -> None:
    file.write_text(f'[tokens.alice]\ntoken = "{TOKEN}"\n')
    with pytest.raises(UsageError, match="a token must not be in the file") as caught:
        load(file, root)
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize("mode", [0o602, 0o604, 0o620, 0o666, 0o601])
def test_file_that_others_may_write_is_refused(file: Path, root: Path, mode: int) -> None:
    file.chmod(mode)
    with pytest.raises(UsageError, match=r"other users may read or write .* run: chmod 600"):
        load(file, root)
    file.chmod(0o440)
    assert load(file, root)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file away")
def test_file_of_another_user_is_refused(file: Path, root: Path) -> None:
    os.chown(file, 12_345, 12_345)
    with pytest.raises(UsageError, match=r"belongs to another user \(uid 12345\)"):
        load(file, root)


def test_file_inside_the_root_is_refused(file: Path, root: Path) -> None:
    inside = file.rename(root / "tokens.toml")
    link = root.parent / "link.toml"
    link.symlink_to(inside)
    for path in (inside, link):
        with pytest.raises(UsageError, match="is inside --root"):
            load(path, root)


def test_pipe_or_missing_file_is_refused(tmp_path: Path, root: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name, message in (
        ("pipe", "is not a file"),
        ("gone", "No such file"),
        (".", "cannot be read"),
    ):
        with pytest.raises(UsageError, match=message):
            load(tmp_path / name, root)


def test_two_clients_named_default_are_refused(file: Path, root: Path) -> None:
    file.write_text(TABLE.replace("alice", "default"))
    with pytest.raises(UsageError, match="is the token of the client 'default'"):
        load(file, root, **{TOKEN_VARIABLE: TOKEN + "x"})


# --- the command --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--http", "nonsense"], "--http: 'nonsense' is not HOST:PORT"),
        (["--http", "127.0.0.1:70000"], "is not HOST:PORT"),
        (["--http", "0.0.0.0:0"], "0.0.0.0 is not a loopback address"),
        (["--http", "[::]:0"], ":: is not a loopback address"),
        (["--http", "0.0.0.0:0", "--tokens", "{file}"], "pass --allow-host with the name"),
        (["--http", "192.0.2.1:1", "--tokens", "{file}"], "cannot listen on 192.0.2.1, port 1"),
        (["--tokens", "{file}"], "--tokens is for --http"),
        (["--http", "0", "--tokens", "{file}", "--journal", "{root}/j"], "lies inside --root"),
        (["--new-token", "a b"], "'a b' is not a valid name"),
    ],
)
def test_unsafe_http_option_is_refused_before_anything_starts(
    file: Path, root: Path, options: list[str], message: str
) -> None:
    given = [option.format(file=file, root=root) for option in options]
    result = CliRunner().invoke(command, ["--root", str(root), "--toolset", "builtin", *given])
    assert isinstance(result.exception, UsageError), result.output
    assert message in str(result.exception)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("allow = ['raed']", "tokens.alice.allow: there is no tool 'raed' (did you mean `read`"),
        ("limits = { timeout_ms = 86400000 }", "tokens.alice.limits: above the ceiling of the ser"),
        ("limits = { max_calls_by_tool = { raed = 1 } }", "raed"),
    ],
)
def test_client_is_checked_against_the_session(
    file: Path, root: Path, more: str, message: str
) -> None:
    file.write_text(TABLE + more)
    options = ["--root", str(root), "--http", "127.0.0.1:0", "--tokens", str(file)]
    result = CliRunner().invoke(command, options)
    assert isinstance(result.exception, UsageError), result.output
    assert str(result.exception).startswith(f"{file}: tokens.alice")
    assert message in str(result.exception)


def test_new_token_option_prints_token_and_table(root: Path) -> None:
    result = CliRunner().invoke(command, ["--new-token", "alice"])
    first, header, digest = result.output.splitlines()
    token = first.rpartition(" ")[2]
    assert header == "[tokens.alice]"
    assert digest == f'sha256 = "{hashlib.sha256(token.encode()).hexdigest()}"'


def test_print_config_of_http_has_no_token(file: Path, root: Path) -> None:
    options = ["--root", str(root), "--http", "[::1]:8765", "--tokens", str(file), "--print-config"]
    result = CliRunner().invoke(command, options)
    assert json.loads(result.output)["mcpServers"]["ptc"] == {
        "type": "http",
        "url": "http://[::1]:8765/mcp",
        "headers": {"Authorization": "Bearer ${PTC_MCP_TOKEN}"},
    }

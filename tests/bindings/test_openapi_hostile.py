"""Hostile documents, arguments and servers: requests stay where the application allows them."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from ptc import BlockingSession, ToolError, UsageError
from ptc_bindings import _openapi_document
from ptc_bindings._openapi_access import Servers
from ptc_bindings.openapi import OpenAPITools

from .openapi_server import (
    KEY,
    PASSWORD,
    Answer,
    Store,
    document,
    json_body,
    parameter,
    run_store,
    zipped,
)

pytest.importorskip("httpx", reason="needs the extra `openapi`")

BASE = "https://a.example/v1"
MOST = 20_000


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with run_store() as running:
        yield running


@pytest.fixture(scope="module")
def session(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingSession]:
    """A session whose server may send 20,000 bytes, and whose environment names a proxy."""
    root = tmp_path_factory.mktemp("root")
    whole = document(store.url)
    whole["security"] = [{"api_key": [], "query_key": []}]
    api = OpenAPITools(
        whole,
        name="petstore",
        servers=[f"{store.url}/v1"],
        credentials={"api_key": KEY, "query_key": PASSWORD},
        max_response_bytes=MOST,
        timeout_ms=10_000,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        patch.setenv("ALL_PROXY", "http://127.0.0.1:9")
        with BlockingSession(
            root, tools=[api], toolsets=(), journal=str(root.parent / "journal.sqlite3"), workers=1
        ) as opened:
            yield opened


def failure(session: BlockingSession, name: str, arguments: dict[str, Any]) -> ToolError:
    error = session.tool(f"petstore.{name}", arguments).error
    assert error is not None
    return error


def journal_with(session: BlockingSession, text: bytes) -> bytes:
    """Return the files of the journal once they have a text, which a thread writes."""
    files = [session.root.parent / f"journal.sqlite3{end}" for end in ("", "-wal")]
    deadline = time.monotonic() + 20
    while text not in (recorded := b"".join(file.read_bytes() for file in files)):
        assert time.monotonic() < deadline, "the call was not recorded"
        time.sleep(0.01)
    return recorded


def refuse(document: Any, match: str, **options: Any) -> None:
    options = {"name": "api", "servers": [BASE], **options}
    with pytest.raises(UsageError, match=match):
        OpenAPITools(document, **options)


def minimal(operation: dict[str, Any], path: str = "/x", **more: Any) -> dict[str, Any]:
    return {"openapi": "3.1.0", "paths": {path: {"get": operation}}, **more}


# --- arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["", ".", "..", "../admin", "a/../../admin", "..\\admin"])
def test_path_parameter_cannot_leave_its_segment(
    value: str, session: BlockingSession, store: Store
) -> None:
    before = len(store.seen)
    error = failure(session, "get_file", {"name": value})
    assert error.code == "invalid_arguments"
    assert "`name`: a part of a path" in error.message
    assert len(store.seen) == before


@pytest.mark.parametrize(
    "value", ["a/b", "a?x=1#y", "%2e%2e", "a;b=c", "\r\nX: 1\0", "größe", "a b"]
)
def test_path_parameter_is_percent_encoded(
    value: str, session: BlockingSession, store: Store
) -> None:
    session.tool("petstore.get_file", {"name": value}).unwrap()
    assert store.last.target == f"/v1/files/{quote(value, safe='')}?key={PASSWORD}"


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\0", "ä", " a", "\x7f"])
def test_header_value_cannot_add_a_header(
    value: str, session: BlockingSession, store: Store
) -> None:
    before = len(store.seen)
    error = failure(session, "list_pets", {"X_Request_ID": value})
    assert error.code == "invalid_arguments"
    assert "X-Request-ID must be visible ASCII characters in one line" in error.message
    assert len(store.seen) == before


def test_values_cannot_add_parameters_cookies_or_fields(
    session: BlockingSession, store: Store
) -> None:
    arguments = {"tags": ["a&key=evil#"], "theme": "x; session=evil\r\n", "where": {"a]&b": "="}}
    session.tool("petstore.list_pets", arguments).unwrap()
    query = "tags=a%26key%3Devil%23&where%5Ba%5D%26b%5D=%3D"
    assert store.last.target == f"/v1/pets?{query}&key={PASSWORD}"
    assert store.last.headers["cookie"] == "theme=x%3B%20session%3Devil%0D%0A"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("get_file", {"name": "\ud800"}),
        ("list_pets", {"where": {"\ud800": "x"}}),
        ("copy_pet", {"id": "1", "id_body": 1, "note": "\ud800"}),
        ("login", {"user": "\ud800"}),
    ],
)
def test_text_that_is_not_unicode_is_an_invalid_argument(
    name: str, arguments: dict[str, Any], session: BlockingSession
) -> None:
    error = failure(session, name, arguments)
    assert error.code == "invalid_arguments"
    assert "lone surrogate" in error.message


# --- servers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/v1",
        "http://a.example/v1",
        "https://a.example:444/v1",
        "https://a.example.evil.example/v1",
        "https://a.example@evil.example/v1",
        "https://a.example/v10",
        "https://a.example/",
        "https://a.example/v1/../admin",
        "https://a.example/v1/%2e%2e/admin",
        "https://a.example/v1/..%2fadmin",
        "//evil.example/v1",
        "\\\\evil.example/v1",
        "https://a.example/v1#@evil",
        "file:///etc/passwd",
        "https://{host}/v1",
    ],
)
def test_server_outside_of_the_list_is_refused(url: str) -> None:
    assert not Servers([BASE]).permits(url)
    whole = minimal({}, servers=[{"url": url, "variables": {"host": {"default": "evil.example"}}}])
    refuse(whole, r"GET /x is left out: its server .* is not below one of https://a\.example/v1")


def test_server_of_an_operation_is_checked_too() -> None:
    operation = {"servers": [{"url": "https://evil.example/v1"}]}
    refuse(minimal(operation, servers=[{"url": BASE}]), "evil.example")


@pytest.mark.parametrize("url", ["/v1", "/v1/", "https://A.EXAMPLE:443/v1/b", "https://{h}/v1"])
def test_server_below_the_list_is_used(url: str) -> None:
    servers = [
        {"url": "https://evil.example"},
        {"url": url, "variables": {"h": {"default": "a.example"}}},
    ]
    assert OpenAPITools(minimal({}, servers=servers), name="api", servers=[BASE]).files == ()


@pytest.mark.parametrize("path", ["x", "/../a", "/a/%2e%2e/b", "/a b", "/a?x", "/a#b", "//x/.."])
def test_path_of_a_document_stays_below_its_server(path: str) -> None:
    refuse(minimal({}, path), "its path is not one of a URL")


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1:9/v1/pets",
        "//evil.example/v1/pets",
        "/admin",
        "/v1/../admin",
        "file:///etc/passwd",
        "http://[evil/",
    ],
)
def test_redirect_to_another_server_is_refused(
    target: str, session: BlockingSession, store: Store
) -> None:
    store.reply("/v1/pets", None, 302, Location=target)
    before = len(store.seen)
    error = failure(session, "list_pets", {})
    assert error.code in ("redirect_refused", "not_allowed")
    assert len(store.seen) == before + 1
    store.answers.clear()


def test_redirect_on_the_server_is_followed_by_reads_only(
    session: BlockingSession, store: Store
) -> None:
    store.reply("/v1/pets", None, 307, Location="/v1/files/a")
    assert session.tool("petstore.list_pets").unwrap()["target"] == "/v1/files/a"
    assert failure(session, "add_pet", {"name": "x"}).code == "redirect_refused"
    store.reply("/v1/pets", None, 302, Location="/v1/pets")
    assert "more than 5 times" in failure(session, "list_pets", {}).message
    store.answers.clear()


@pytest.mark.parametrize("url", ["http://a.example", "http://10.0.0.1"])
def test_credentials_need_an_encrypted_connection(url: str) -> None:
    refuse(minimal({}), "credentials need https", servers=[url], headers={"X-Token": "secret-1"})
    assert OpenAPITools(minimal({}), name="api", servers=[url]).files == ()


# --- credentials --------------------------------------------------------------------------------


def test_echoed_credentials_are_redacted(
    session: BlockingSession, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.answers["/v1/files/a"] = lambda seen: Answer(
        400, f"{seen.target} {seen.headers['x-key']}".encode(), "text/plain"
    )
    source = """
async def run(ctx, inputs):
    pets = await ctx.petstore.list_pets()
    try:
        await ctx.petstore.get_file(name="a")
    except ToolError as error:
        return [pets, error.message]
"""
    with caplog.at_level(logging.DEBUG):
        result = session.program(source=source)
    (pets, message) = result.value
    assert pets["headers"]["x-key"] == "[secret api_key]"
    assert message.startswith("HTTP 400 Bad Request: /v1/files/a?key=[")
    assert message.endswith("[secret api_key]")
    recorded = journal_with(session, b"petstore.get_file")
    shown = f"{result!r} {session.describe_tools()} {caplog.text}"
    for secret in (KEY, PASSWORD):
        assert secret not in shown
        assert secret.encode() not in recorded
    store.answers.clear()


def test_unreachable_server_is_named_without_a_query(tmp_path: Path) -> None:
    whole = document("http://127.0.0.1:9")
    api = OpenAPITools(
        whole | {"security": [{"query_key": []}]},
        name="petstore",
        servers=["http://127.0.0.1:9"],
        credentials={"query_key": KEY},
    )
    assert KEY not in repr(vars(api))
    with BlockingSession(tmp_path, tools=[api], toolsets=(), journal=":memory:") as session:
        error = failure(session, "list_pets", {})
    assert (error.code, error.retryable) == ("unreachable", True)
    assert error.message.startswith("http://127.0.0.1:9 cannot be reached, so the call was not")


def test_variable_in_a_document_is_not_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_VALUE", "secret-0123456789")
    operation = {
        "description": "${SECRET_VALUE}",
        "parameters": [parameter("query", "${SECRET_VALUE}")],
    }
    api = OpenAPITools(minimal(operation), name="api", servers=[BASE])
    assert "secret-0123456789" not in repr(vars(api))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (
            {"credentials": {"api_kye": "x"}},
            r"no security scheme 'api_kye' \(did you mean .*api_key",
        ),
        ({"credentials": {"api_key": "${NOT_SET_HERE}"}}, "variable NOT_SET_HERE is not set"),
        ({"credentials": {"api_key": "a\r\nX: 1"}}, "credentials.api_key: the value of the header"),
        ({"credentials": {"login": "ann"}}, "must be `user:password`"),
        ({"headers": {"X Y": "1"}}, "header name 'X Y' is invalid"),
        ({"headers": {"X": "a\nb"}}, "in one line"),
        ({"servers": []}, "at least one base URL"),
        ({"servers": ["ftp://a.example"]}, "must be http"),
        (
            {"servers": ["https://user:secret@a.example"]},
            r"'https://user:\[credential\]@a.example': it must have no user name, password",
        ),
        ({"name": "call"}, "no name of ctx"),
        ({"timeout_ms": 0}, "timeout_ms"),
    ],
)
def test_wrong_option_is_refused(options: dict[str, Any], match: str) -> None:
    refuse(document("https://a.example"), match, **options)


# --- documents ----------------------------------------------------------------------------------


LOOP = {"schemas": {"A": {"$ref": "#/components/schemas/A"}}}


def json_of(schema: Any) -> dict[str, Any]:
    return {"requestBody": json_body(schema)}


def refers(ref: str) -> dict[str, Any]:
    return json_of({"$ref": ref})


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "another version": ({"swagger": "2.0"}, "OpenAPI 3.0, 3.1 or 3.2, but 'swagger 2.0'"),
    "a reference to a URL": (minimal(refers("http://127.0.0.1:9/x")), "another document"),
    "a reference to a file": (minimal(refers("/etc/passwd#/x")), "another document"),
    "a reference to nothing": (minimal(refers("#/components/x")), "names nothing"),
    "a reference to itself": (
        minimal(refers("#/components/schemas/A"), components=LOOP),
        "circle",
    ),
    "a reference to the whole": (minimal(refers("#")), "not a JSON pointer"),
    "no operation": (minimal({}) | {"paths": {}}, "there is no operation to offer"),
    "a path that is no table": ({"openapi": "3.1.0", "paths": {"/x": 1}}, "should be a table"),
    "an undeclared path parameter": (minimal({}, "/x/{a}"), "not those that it declares"),
    "an unknown place": (minimal({"parameters": [parameter("moon", "a")]}), "a parameter is wrong"),
    "a place that is no text": (
        minimal({"parameters": [parameter("query", "a") | {"in": {}}]}),
        "a parameter is wrong",
    ),
    "a style that is no text": (
        minimal({"parameters": [parameter("query", "a", style=[])]}),
        "has the style",
    ),
    "required that is a number": (
        minimal(json_of({"type": "object", "required": [1]})),
        "of names",
    ),
    "an invisible name": (
        minimal({"parameters": [parameter("query", "a\u200b")]}),
        "invisible characters",
    ),
    "two parameters of one name": (
        minimal({"parameters": [parameter("query", n) for n in ("a-b", "a_b", "a.b")]}),
        "'a.b' and the query parameter 'a_b' have the same name",
    ),
    "a deep schema": (
        minimal({"parameters": [parameter("query", "a", {"type": "array"})]}),
        "more than 64 levels",
    ),
}
_deep = WRONG["a deep schema"][0]["paths"]["/x"]["get"]["parameters"][0]["schema"]
for _ in range(80):
    _deep["items"] = {"type": "array"}
    _deep = _deep["items"]


@pytest.mark.parametrize("case", WRONG)
def test_wrong_document_is_refused(case: str) -> None:
    refuse(*WRONG[case])


def test_reference_to_another_document_is_refused() -> None:
    """Also in a schema that only another schema refers to."""
    schemas = {"A": {"properties": {"a": {"$ref": "other.json#/B"}}}}
    refuse(
        minimal(refers("#/components/schemas/A"), components={"schemas": schemas}),
        r"GET /x: \$ref 'other.json#/B' leads to another document; bundle them",
    )


def test_two_operations_of_one_name_are_refused() -> None:
    paths = {"/a": {"get": {"operationId": "getPet"}}, "/b": {"put": {"operationId": "get_pet"}}}
    refuse(
        {"openapi": "3.0.0", "paths": paths},
        "GET /a and PUT /b are both named api.get_pet; change an operationId",
    )


def test_definitions_that_double_do_not_exhaust_the_host() -> None:
    """Forty definitions that each refer to the next one twice: 2 to the power of 40 parts."""
    for key in ("allOf", "properties"):
        schemas: dict[str, Any] = {}
        for number in range(40):
            following = {"$ref": f"#/components/schemas/S{number + 1}"}
            both = [following, dict(following)]
            parts = both if key == "allOf" else {"a": both[0], "b": both[1]}
            schemas[f"S{number}"] = {"type": "object", key: parts}
        schemas["S40"] = {"type": "object", "properties": {"end": {"type": "string"}}}
        whole = minimal(refers("#/components/schemas/S0"), components={"schemas": schemas})
        api = OpenAPITools(whole, name="api", servers=[BASE])
        (tool,) = api._toolset
        assert len(json.dumps(tool.parameters)) < 300_000


def test_texts_are_bounded_and_visible() -> None:
    text = "read\x1b[2J\u200bable \U000e0041" + "x" * 9_000
    operation = {"summary": text, "parameters": [parameter("query", "a", description=text)]}
    (tool,) = OpenAPITools(minimal(operation), name="api", servers=[BASE])._toolset
    for shown in (tool.description, tool.parameters["properties"]["a"]["description"]):
        assert shown.startswith("read[2Jable xxx")
        assert len(shown) <= 4_000


def test_header_that_routes_a_request_is_no_argument(caplog: pytest.LogCaptureFixture) -> None:
    names = ["Host", "Cookie", "Content-Length", "Transfer-Encoding", "Authorization"]
    names += ["X-HTTP-Method-Override", "X-Fine"]
    operation = {"parameters": [parameter("header", name) for name in names]}
    (tool,) = OpenAPITools(minimal(operation), name="api", servers=[BASE])._toolset
    assert tool.parameter_names == ("X_Fine",)
    refuse(
        minimal({"parameters": [parameter("header", "Host", required=True)]}), "requires the header"
    )


def test_yaml_aliases_cannot_expand_without_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_openapi_document, "_MOST_NODES", 50_000)
    pytest.importorskip("yaml", reason="needs the extra `openapi`")
    lines = ["openapi: 3.1.0", "a0: &a0 [x, x]"]
    lines += [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
    file = tmp_path / "bomb.yaml"
    file.write_text("\n".join(lines))
    refuse(file, "more than 50,000 parts")
    file.write_text("openapi: 3.1.0\na: &a [*a]\n")
    refuse(file, "200 levels")
    file.write_text("openapi: !!python/object/apply:os.getpid []\n")
    refuse(file, "not valid YAML")


def test_file_that_is_no_document_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    refuse(file, "cannot be read: No such file")
    for text, match in {"[]": "not a table", "{": "not valid JSON", "{}": "swagger None"}.items():
        file.write_text(text)
        refuse(file, match)
    file.write_bytes(b" " * (16 * 1024 * 1024 + 1))
    refuse(file, "more than 16,777,216 bytes")


# --- responses ----------------------------------------------------------------------------------


def test_response_is_bounded(session: BlockingSession, store: Store) -> None:
    store.reply("/v1/files/a", "x" * MOST)
    error = failure(session, "get_file", {"name": "a"})
    assert error.code == "too_large"
    assert "succeeded with HTTP 200, but its response has more than 20,000 bytes" in error.message
    store.reply("/v1/files/a", "x" * 300_000, 500)
    error = failure(session, "get_file", {"name": "a"})
    assert len(error.message) <= 2_000
    assert error.message.startswith("HTTP 500 Internal Server Error")
    store.answers.clear()


def test_compressed_body_is_bounded(session: BlockingSession, store: Store) -> None:
    store.answers["/v1/files/a"] = lambda _: zipped(b'"fine"')
    assert session.tool("petstore.get_file", {"name": "a"}).unwrap() == "fine"
    store.answers["/v1/files/a"] = lambda _: zipped(b" " * 10_000_000)
    assert failure(session, "get_file", {"name": "a"}).code == "too_large"
    broken = zipped(b'"fine"')
    for answer in (
        Answer(body=broken.body[:-9], headers=broken.headers),
        Answer(body=b"no gzip", headers=broken.headers),
        Answer(body=b"x", headers={"Content-Encoding": "br"}),
        Answer(body=b'{"a": '),
        Answer(body=b'{"a": NaN}'),
    ):
        store.answers["/v1/files/a"] = lambda _, answer=answer: answer  # type: ignore[misc]
        assert failure(session, "get_file", {"name": "a"}).code == "bad_result"
    store.answers.clear()


def test_data_with_a_field_of_the_protocol_is_data(session: BlockingSession, store: Store) -> None:
    row = {"status": "error", "error": "x", "isError": True}
    store.reply("/v1/files/a", row)
    assert session.tool("petstore.get_file", {"name": "a"}).unwrap() == row
    store.answers.clear()


def test_invented_media_type_is_an_attachment(session: BlockingSession, store: Store) -> None:
    store.answers["/v1/files/a"] = lambda _: Answer(body=b"x", kind="nonsense\x7f/../../x")
    handle = session.tool("petstore.get_file", {"name": "a"}).unwrap()
    assert (handle["mime_type"], handle["name"]) == (
        "application/octet-stream",
        "petstore_get_file.bin",
    )
    store.answers.clear()

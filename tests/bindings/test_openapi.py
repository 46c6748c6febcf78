"""Operations of OpenAPI documents as tools, against a real server on loopback."""

from __future__ import annotations

import base64
import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

import ptc
from ptc import BlockingSession, Session, UsageError
from ptc_bindings.openapi import OpenAPITools

from .openapi_server import (
    KEY,
    PASSWORD,
    PET,
    Answer,
    Seen,
    Store,
    document,
    json_body,
    ok,
    parameter,
    run_store,
)

pytest.importorskip("httpx", reason="needs the extra `openapi`")


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with run_store() as running:
        yield running


SCHEMES = {
    "query_key": (f"/v1/pets?key={KEY}", {}),
    "cookie_key": ("/v1/pets", {"cookie": f"session={KEY}"}),
    "token": ("/v1/pets", {"authorization": f"Bearer {KEY}"}),
}


def providers(url: str) -> Iterator[OpenAPITools]:
    """The store several times: with its own credentials, with each other one, with keys."""
    yield OpenAPITools(
        document(url),
        name="petstore",
        servers=[url],
        credentials={"api_key": "${PET_KEY}", "login": "ann:${PET_PASSWORD}"},
        headers={"User-Agent": "tests"},
    )
    for scheme in SCHEMES:
        whole = document(url) | {"security": [{scheme: []}]}
        yield OpenAPITools(
            whole,
            name=scheme,
            servers=[url],
            operations=["list_pets"],
            credentials={scheme: KEY},
        )
    yield OpenAPITools(
        document(url),
        name="keyed",
        servers=[url],
        idempotency_header="Idempotency-Key",
        response_headers=["Link", "X-Total"],
    )


@pytest.fixture(scope="module")
def session(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingSession]:
    """A session that all tests share."""
    root = tmp_path_factory.mktemp("root")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PET_KEY", KEY)
        patch.setenv("PET_PASSWORD", PASSWORD)
        tools = list(providers(store.url))
    with BlockingSession(root, tools=tools, toolsets=(), journal=":memory:", workers=1) as opened:
        yield opened


def tools_of(provider: OpenAPITools) -> dict[str, ptc.Tool]:
    return {tool.name.partition(".")[2]: tool for tool in anyio.run(_opened, provider)}


async def _opened(provider: OpenAPITools) -> list[ptc.Tool]:
    (toolset,) = await provider.open()
    await provider.aclose()
    return list(toolset)


def minimal(operation: dict[str, Any], path: str = "/x", method: str = "post") -> dict[str, Any]:
    """A document with one operation named `call`."""
    whole = {"operationId": "call", **operation}
    return {"openapi": "3.1.0", "paths": {path: {method: whole}}}


def tool_of(operation: dict[str, Any], **more: Any) -> ptc.Tool:
    parts = {**minimal(operation), **more}
    return tools_of(OpenAPITools(parts, name="api", servers=["https://a.example"]))["call"]


# --- calls --------------------------------------------------------------------------------------


def test_script_calls_operations_by_name(session: BlockingSession, store: Store) -> None:
    store.reply("/v1/pets/7", {"id": 7, "name": "Rex", "tag": None})
    store.reply("/v1/pets", {"id": 8, "name": "Tom"})
    source = """
async def run(ctx, inputs):
    pet = await ctx.petstore.get_pet(petId=7)
    added = await ctx.petstore.add_pet(name="Tom", parent={"name": pet.name})
    return [pet.name, pet.tag, added.id]
"""
    result = session.program(source=source, allowed_tools=["petstore.get_*", "petstore.add_pet"])
    assert result.value == ["Rex", None, 8]
    assert json.loads(store.last.body) == {"name": "Tom", "parent": {"name": "Rex"}}
    assert (store.last.method, store.last.target) == ("POST", "/v1/pets")
    assert store.last.headers["content-type"] == "application/json"
    assert store.last.headers["user-agent"] == "tests"
    store.answers.clear()


def test_parameters_are_put_in_their_places(session: BlockingSession, store: Store) -> None:
    arguments = {
        "tags": ["a b", "c&d"],
        "ids": ["1", "2,3"],
        "where": {"name": "ä"},
        "X_Request_ID": "r-1",
        "theme": "dark;x",
    }
    session.tool("petstore.list_pets", arguments)
    query = "tags=a%20b&tags=c%26d&ids=1,2%2C3&where%5Bname%5D=%C3%A4"
    assert store.last.target == f"/v1/pets?{query}"
    assert store.last.headers["x-request-id"] == "r-1"
    assert store.last.headers["cookie"] == "theme=dark%3Bx"
    session.tool("petstore.list_pets")
    # The default is the server's: it is described, and not sent.
    assert store.last.target == "/v1/pets"


def test_body_is_a_form_a_list_or_left_out(session: BlockingSession, store: Store) -> None:
    session.tool("petstore.login", {"user": "a&b=c", "roles": ["x", "y"]})
    assert store.last.body == b"user=a%26b%3Dc&roles=x&roles=y"
    session.tool("petstore.add_notes", {"body": ["one"]})
    assert store.last.body == b'["one"]'
    session.tool("petstore.copy_pet", {"id": "7", "class_": "new"})
    assert (store.last.target, store.last.body) == ("/v1/pets/7/copy?class=new", b"")


def test_field_with_the_name_of_a_parameter_has_its_place_added(
    session: BlockingSession, store: Store
) -> None:
    session.tool("petstore.copy_pet", {"id": "7", "id_body": 8})
    assert (store.last.target, store.last.body) == ("/v1/pets/7/copy", b'{"id":8}')
    error = session.tool("petstore.copy_pet", {"id": "7", "note": "x"}).error
    assert error is not None
    assert "id_body" in error.message


def test_invalid_arguments_are_rejected_before_the_server_sees_them(
    session: BlockingSession, store: Store
) -> None:
    before = len(store.seen)
    wrong: list[dict[str, Any]] = [{"name": ""}, {"name": "x", "age": 0}, {"name": "x", "id": 1}]
    for arguments in [*wrong, {}]:
        error = session.tool("petstore.add_pet", arguments).error
        assert error is not None
        assert error.code == "invalid_arguments"
    nested = session.tool("petstore.add_pet", {"name": "x", "parent": {"name": 1}}).error
    assert nested is not None
    assert "parent.name" in nested.message
    assert len(store.seen) == before


RESPONSES: dict[str, tuple[Answer, Any]] = {
    "JSON": (Answer(body=b'{"a": [1, null]}'), {"a": [1, None]}),
    "a subtype of JSON": (Answer(body=b"[1]", kind="application/problem+json"), [1]),
    "nothing": (Answer(status=204), None),
    "text": (Answer(body="größer".encode("latin-1"), kind="text/csv; charset=latin-1"), "größer"),
    "text without a type": (Answer(body=b"{x}", kind=""), "{x}"),
    "another success": (Answer(status=202, body=b'"queued"'), "queued"),
}


@pytest.mark.parametrize("case", RESPONSES)
def test_responses_are_data(case: str, session: BlockingSession, store: Store) -> None:
    answer, expected = RESPONSES[case]
    store.answers["/v1/files/a"] = lambda _: answer
    assert session.tool("petstore.get_file", {"name": "a"}).unwrap() == expected


def test_binary_response_is_an_attachment_with_a_handle(
    session: BlockingSession, store: Store
) -> None:
    store.answers["/v1/files/a"] = lambda _: Answer(body=b"\x89PNG\0", kind="image/png")
    result = session.tool("petstore.get_file", {"name": "a"})
    (stored,) = result.attachments
    assert isinstance(stored, ptc.AttachmentRef)
    handle = {"attachment": stored.id, "mime_type": "image/png", "size_bytes": 5}
    assert handle.items() <= result.unwrap().items()
    assert Path(stored.path).read_bytes() == b"\x89PNG\0"


def test_failure_has_status_text_and_retryability(session: BlockingSession, store: Store) -> None:
    store.reply("/v1/pets/7", {"message": "no such pet"}, 404)
    error = session.tool("petstore.get_pet", {"petId": 7}).error
    assert error is not None
    assert (error.code, error.retryable, error.details) == ("http_404", False, {"status": 404})
    assert error.message == 'HTTP 404 Not Found: {"message": "no such pet"}'
    for status in (429, 503):
        store.reply("/v1/pets/7", "slow down", status, Retry_After="30")
        error = session.tool("petstore.get_pet", {"petId": 7}).error
        assert error is not None
        assert (error.code, error.retryable) == (f"http_{status}", True)
        assert error.details == {"status": status, "retry_after_s": 30}
    source = """
async def run(ctx, inputs):
    try:
        await ctx.petstore.get_pet(petId=7)
    except ToolError as error:
        return [error.code, error.details["status"]]
"""
    assert session.program(source=source).value == ["http_503", 503]
    store.answers.clear()


def test_lost_connection_of_a_side_effect_has_an_unknown_outcome(
    session: BlockingSession, store: Store
) -> None:
    store.answers["/v1/pets"] = lambda _: Answer(status=0)
    read = session.tool("petstore.list_pets").error
    change = session.tool("petstore.add_pet", {"name": "x"}).error
    assert read is not None
    assert change is not None
    assert (read.code, read.retryable) == ("connection_lost", True)
    assert (change.code, change.retryable) == ("connection_lost", False)
    assert "unknown whether the call had an effect" in change.message
    store.answers.clear()


def test_calls_are_concurrent_and_end_at_a_time_out(session: BlockingSession, store: Store) -> None:
    together, released = threading.Barrier(5), threading.Event()

    def wait(seen: Seen) -> Answer:
        if seen.target.endswith("/0"):
            released.wait(20)
        else:
            together.wait(20)
        return Answer(body=b"1")

    store.answers.update({f"/v1/pets/{number}": wait for number in range(6)})
    source = """
import asyncio

async def run(ctx, inputs):
    return await asyncio.gather(*(ctx.petstore.get_pet(petId=n) for n in inputs["ids"]))
"""
    inputs = {"ids": [1, 2, 3, 4, 5]}
    assert session.program(source=source, inputs=inputs).value == [1] * 5
    stopped = session.program(source=source, inputs={"ids": [0]}, limits={"timeout_ms": 300})
    assert stopped.status == "timed_out"
    released.set()
    assert session.tool("petstore.get_file", {"name": "a"}).unwrap()["method"] == "GET"
    store.answers.clear()


# --- credentials --------------------------------------------------------------------------------


def test_credentials_are_sent_as_the_document_says(session: BlockingSession, store: Store) -> None:
    session.tool("petstore.list_pets")
    assert store.last.headers["x-key"] == KEY
    session.tool("petstore.delete_pet", {"petId": 1})
    pair = base64.b64encode(f"ann:{PASSWORD}".encode()).decode()
    assert store.last.headers["authorization"] == f"Basic {pair}"
    assert "x-key" not in store.last.headers
    session.tool("petstore.login", {"user": "x"})
    assert not {"x-key", "authorization"} & store.last.headers.keys()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_each_kind_of_credential_is_sent_and_redacted(
    scheme: str, session: BlockingSession, store: Store
) -> None:
    target, headers = SCHEMES[scheme]
    result = session.tool(f"{scheme}.list_pets")
    assert store.last.target == target
    assert headers.items() <= store.last.headers.items()
    assert KEY not in str(result.to_dict())


def test_parameter_that_is_a_credential_is_no_argument(session: BlockingSession) -> None:
    (listed,) = session.tool_definitions(["petstore.list_pets"])
    names = ["limit", "tags", "ids", "where", "X_Request_ID", "theme"]
    assert list(listed["parameters"]["properties"]) == names


def test_missing_credential_is_named_by_the_error(session: BlockingSession, store: Store) -> None:
    store.reply("/v1/pets", "who are you", 401)
    error = session.tool("keyed.list_pets").error
    assert error is not None
    assert error.message.endswith("(no credential was configured for api_key)")
    store.answers.clear()


# --- tools --------------------------------------------------------------------------------------


def test_effects_follow_methods_and_no_extension_widens_them(session: BlockingSession) -> None:
    tools = {
        name.partition(".")[2]: (tool.side_effect, tool.idempotent)
        for name, tool in session._session.select_tools(["petstore"]).items()
    }
    assert tools == {
        "list_pets": (False, True),
        "add_pet": (True, False),
        "get_pet": (False, True),
        "has_pet": (False, True),
        "replace_pet": (True, True),
        "patch_pets_pet_id": (True, False),
        "delete_pet": (True, True),
        "get_file": (False, True),
        "login": (True, False),
        "copy_pet": (True, False),
        "add_notes": (True, False),
    }
    unlisted = {name for name in session._session.select_tools() if name.startswith("petstore.")}
    assert unlisted == {f"petstore.{name}" for name, effects in tools.items() if not effects[0]}


def test_recursive_schema_is_described_and_checked(session: BlockingSession) -> None:
    add, read = session._session.select_tools(["petstore.add_pet", "petstore.get_pet"]).values()
    shown = add.parameters["properties"]
    assert shown["parent"]["properties"]["parent"] == {"description": "A Pet."}
    assert shown["age"] == {"type": "integer", "exclusiveMinimum": 0}
    assert shown["tag"] == {"type": ["string", "null"], "enum": ["cat", "dog", None]}
    assert (list(shown), add.parameters["required"]) == (
        ["name", "tag", "age", "parent", "pin"],
        ["name"],
    )
    assert read.result_schema is not None
    pet = read.result_schema["$defs"]["Pet"]
    assert pet["properties"]["parent"] == {"$ref": "#/$defs/Pet"}
    assert (pet["required"], "pin" in pet["properties"]) == (["id", "name"], False)
    assert "-> Pet:" in session.describe_tools(["petstore.get_pet"])


def test_null_is_understood_in_both_versions() -> None:
    fields = {
        "a": {"type": ["string", "null"]},
        "b": {"$ref": "#/components/schemas/A", "nullable": True},
        "c": {"type": "number", "exclusiveMinimum": 3},
    }
    made = tool_of(
        {"requestBody": json_body({"type": "object", "properties": fields})},
        components={"schemas": {"A": {"type": "object", "properties": {"x": {}}}}},
    )
    assert made.validate({"a": None, "b": None, "c": 3.5})
    for wrong in ({"a": 1}, {"b": 1}, {"c": 3}, {"d": 1}):
        with pytest.raises(ptc.ToolError):
            made.validate(wrong)


def test_fields_of_composed_bodies_are_arguments_and_others_are_one_body() -> None:
    named = {"allOf": [{"type": "object", "required": ["a"], "properties": {"a": {}}}, PET]}
    components = {"schemas": {"Pet": {"type": "object", "properties": {"b": {}}}}}
    composed = tool_of({"requestBody": json_body(named)}, components=components)
    assert (composed.parameter_names, composed.parameters["required"]) == (("a", "b"), ["a"])
    for schema in (
        {"oneOf": [PET, {"type": "string"}]},
        {"type": "object", "properties": {"a": {}}, "additionalProperties": True},
        {"type": "object"},
    ):
        whole = tool_of({"requestBody": json_body(schema)}, components=components)
        assert whole.parameter_names == ("body",)


def test_result_schemas_of_several_successes_are_joined() -> None:
    responses = {**ok(PET), "204": {"description": ""}, "404": ok({"type": "string"})["200"]}
    components = {"schemas": {"Pet": {"type": "object"}}}
    made = tool_of({"responses": responses}, components=components)
    assert made.result_schema == {
        "anyOf": [{"$ref": "#/$defs/Pet"}, {"type": "null"}],
        "$defs": {"Pet": {"type": "object"}},
    }
    picture: dict[str, Any] = {"200": {"content": {"image/png": {}}}}
    assert tool_of({"responses": picture}).result_schema is None


@pytest.mark.parametrize(
    ("operation", "path", "name"),
    [
        ("getHTTPInfo", "/x", "get_http_info"),
        ("pets/list-all", "/x", "pets_list_all"),
        ("import", "/x", "import_"),
        ("2fa", "/x", "n2fa"),
        (None, "/pets/{id}/toys", "post_pets_id_toys"),
        ("x" * 80, "/x", "x" * 53 + "_d929cd"),
    ],
)
def test_names_of_tools_are_identifiers(operation: str | None, path: str, name: str) -> None:
    names = [parameter("path", "id")] if "{id}" in path else []
    whole = minimal({"operationId": operation, "parameters": names}, path)
    api = OpenAPITools(whole, name="api", servers=["https://a.example"])
    (found,) = tools_of(api)
    assert found == name
    assert len(f"api.{found}") <= 64


def test_operations_are_selected_by_patterns(store: Store) -> None:
    def names(*patterns: str) -> set[str]:
        api = OpenAPITools(
            document(store.url),
            name="a",
            servers=[store.url],
            operations=patterns,
            approval=["*_pet"],
        )
        tools = tools_of(api)
        assert all(tool.needs_approval is True for name, tool in tools.items() if "_pet" in name)
        return set(tools)

    assert names("get_*", "DELETE *") == {"get_pet", "get_file", "delete_pet"}
    with pytest.raises(UsageError, match=r"operations: no operation matches 'nothing'"):
        names("nothing")


def test_operation_that_no_tool_can_do_is_left_out_with_a_warning(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "ptc"):
        api = OpenAPITools(document(store.url), name="a", servers=[store.url])
    assert "upload" not in tools_of(api)
    assert "POST /photo is left out: its body must be multipart/form-data" in caplog.text


def test_script_follows_the_pages_of_a_header(session: BlockingSession, store: Store) -> None:
    def page(seen: Seen) -> Answer:
        number = int(seen.target.rpartition("=")[2])
        headers = {"Link": f"limit={number + 1}"} if number < 3 else {}
        return Answer(body=b"[%d]" % number, headers=headers)

    store.answers["/v1/pets"] = page
    source = """
async def run(ctx, inputs):
    found, following = [], "limit=1"
    while following:
        page = await ctx.keyed.list_pets(limit=int(following.partition("=")[2]))
        found += page.body
        following = page.headers["Link"]
    return found, page.headers
"""
    value = session.program(source=source).value
    assert value == [[1, 2, 3], {"Link": None, "X-Total": None}]
    (listed,) = session._session.select_tools(["keyed.list_pets"]).values()
    assert listed.result_schema is not None
    assert listed.result_schema["properties"]["body"]["items"] == {"$ref": "#/$defs/Pet"}
    store.answers.clear()


def test_idempotency_key_is_sent_if_the_application_names_its_header(
    session: BlockingSession, store: Store
) -> None:
    source = """
async def run(ctx, inputs):
    for _ in range(2):
        await ctx.keyed.add_pet(name="x")
"""
    session.program(source=source, allowed_tools=["keyed.add_pet"]).unwrap()
    keys = [seen.headers["idempotency-key"] for seen in store.seen[-2:]]
    assert [len(key) for key in keys] == [64, 64]
    assert keys[0] != keys[1]
    session.tool("keyed.list_pets")
    assert "idempotency-key" not in store.last.headers
    (added,) = session._session.select_tools(["keyed.add_pet"]).values()
    assert added.repeatable


@pytest.mark.anyio
@pytest.mark.both_loops
async def test_sessions_on_both_loops_call_operations(store: Store, tmp_path: Path) -> None:
    api = OpenAPITools(document(store.url), name="api", servers=[store.url])
    for _ in range(2):  # a provider can be opened again
        async with Session(tmp_path, tools=[api], toolsets=(), journal=":memory:") as session:
            assert (await session.tool("api.list_pets")).value["method"] == "GET"


# --- configuration ------------------------------------------------------------------------------


def test_file_of_tools_may_define_the_provider(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    yaml = pytest.importorskip("yaml", reason="needs the extra `openapi`")
    monkeypatch.setenv("PET_KEY", KEY)
    monkeypatch.chdir(tmp_path)
    whole = document(store.url)
    whole["paths"]["/pets"]["get"]["responses"] = {200: {"description": "a number in YAML"}}
    (tmp_path / "petstore.yaml").write_text(yaml.safe_dump(whole))
    (tmp_path / "api.py").write_text(
        "from pathlib import Path\n"
        "from ptc_bindings.openapi import OpenAPITools\n"
        "petstore = OpenAPITools(Path(__file__).with_name('petstore.yaml'), name='petstore',\n"
        f"    servers=['{store.url}'], credentials={{'api_key': '${{PET_KEY}}'}})\n"
    )
    (tmp_path / "ptc.toml").write_text(
        'tools = ["api.py"]\nallow = ["petstore.list_pets", "write"]\n'
        'journal = ":memory:"\nworkers = 1\n'
    )
    with BlockingSession.from_config() as session:
        assert session.tool("petstore.list_pets").unwrap()["target"] == "/v1/pets"
        error = session.tool("write", {"path": "petstore.yaml", "content": "evil"}).error
        assert session._session.select_tools().keys() == {"petstore.list_pets", "write"}
    assert error is not None
    assert error.code == "protected_path"
    assert store.last.headers["x-key"] == KEY

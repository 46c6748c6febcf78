"""Hostile documents, archives and syntax trees end in ordinary errors, also inside the jail."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ptc import Limits, Session

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="the jail is for Linux"),
]

LIMITS = Limits(timeout_ms=60_000, max_memory_bytes=128 << 20)


@pytest.fixture(scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    root = tmp_path_factory.mktemp("root")
    async with Session(root, toolsets=(), limits=LIMITS, ceiling=LIMITS) as opened:
        yield opened


async def errors_of(session: Session, source: str) -> Any:
    """Run a script that fills `attempts` with functions, and return how each of them ends."""
    result = await session.program(
        source=f"{source}\nends = []\nfor attempt in attempts:\n    try:\n"
        "        ends.append([repr(attempt())[:60]])\n"
        "    except Exception as error:\n        ends.append(type(error).__name__)\nends"
    )
    assert session.violations == ()
    assert result.error is None, result.error
    return result.value


LAUGHS = """
laughs = '<!DOCTYPE a [<!ENTITY b0 "ha">' + "".join(
    f'<!ENTITY b{n + 1} "{f"&b{n};" * 10}">' for n in range(9)) + "]><a>&b9;</a>"
"""


async def test_xml_with_declarations_of_its_own_is_refused(session: Session) -> None:
    source = f"""
import io
import xml.etree.ElementTree as ET
{LAUGHS}
quadratic = '<!DOCTYPE a [<!ENTITY b "' + "x" * 50_000 + '">]><a>' + "&b;" * 10_000 + "</a>"
outside = '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>'
default = '<!DOCTYPE a [<!ATTLIST c d CDATA "' + "x" * 50_000 + '">]><a>' + "<c/>" * 10_000 + "</a>"
parameter = '<!DOCTYPE a [<!ENTITY % b SYSTEM "http://localhost/x"> %b;]><a/>'
bombs = [laughs, quadratic, outside, default, parameter]
def fed(text):
    parser = ET.XMLParser()
    for letter in text[:2000]:
        parser.feed(letter)
    return parser.close()
def fed_again(text):
    parser = ET.XMLParser()
    for part in (text[:200], text[200:], text):
        try:
            parser.feed(part)
        except ET.ParseError:
            pass
    return parser.close()
readers = [ET.fromstring, ET.XML, ET.XMLID, lambda text: ET.fromstringlist([text]), fed, fed_again,
    lambda text: ET.parse(io.StringIO(text)), lambda text: ET.canonicalize(text),
    lambda text: ET.ElementTree().parse(io.BytesIO(text.encode())),
    lambda text: ET.fromstring(text.encode("utf-16"))]
attempts = [lambda text=text, reader=reader: reader(text) for text in bombs for reader in readers]
"""
    assert set(await errors_of(session, source)) == {"ParseError"}


async def test_files_named_to_parsers_are_refused(session: Session) -> None:
    source = """
import configparser, mimetypes
import xml.etree.ElementTree as ET
tree = ET.ElementTree(ET.Element("a"))
parser = configparser.RawConfigParser()
class Own(configparser.ConfigParser): pass
attempts = [
    lambda: ET.parse("/etc/passwd"), lambda: ET.ElementTree(file="x"), lambda: tree.parse("x"),
    lambda: tree.write("x"), lambda: ET.canonicalize(from_file="x"),
    lambda: parser.read("x"), lambda: parser.read(["x", "y"]), lambda: Own().read("x"),
    lambda: mimetypes.init(["x"]), lambda: super(configparser.ConfigParser, Own()).read("x"),
]
"""
    *ends, of_super = await errors_of(session, source)
    assert set(ends) <= {"FileNotFoundError", "OSError"}, ends
    assert of_super == "TypeError", "super() starts at a class of the script"


@pytest.mark.parametrize("module", ["gzip", "bz2", "lzma"])
async def test_decompression_bomb_is_an_ordinary_error(session: Session, module: str) -> None:
    source = f"""
import {module} as module
bomb = module.compress(bytes(1 << 24)) * 16
attempts = [lambda: len(module.decompress(bomb)), lambda: module.decompress(bomb[:-9])]
"""
    assert await errors_of(session, source) == ["MemoryError", "MemoryError"]


async def test_archive_that_asks_for_a_huge_dictionary_is_an_ordinary_error(
    session: Session,
) -> None:
    source = """
import lzma
header = bytes([0x5D]) + (0xFFFFFFFF).to_bytes(4, "little") + b"\\xff" * 8 + bytes(64)
attempts = [
    lambda: lzma.decompress(header, format=lzma.FORMAT_ALONE),
    lambda: lzma.compress(b"x", preset=9 | lzma.PRESET_EXTREME),
    lambda: lzma.LZMADecompressor(memlimit=1000).decompress(lzma.compress(b"x")),
]
"""
    assert await errors_of(session, source) == ["MemoryError", "MemoryError", "LZMAError"]


async def test_deep_sources_and_documents_are_ordinary_errors(session: Session) -> None:
    source = """
import ast, json, tomllib
import xml.etree.ElementTree as ET
deep = 20_000
texts = ["-" * deep + "1", "1" + "+1" * deep, "a" + ".b" * deep, "(" * 1000 + ")" * 1000,
    "not " * deep + "1", "lambda: " * deep + "1", "[" * 140 + "]" * 140, "f'{" * 50 + "1",
    "if 1:\\n" * 3, "a" + "[0]" * deep, "x = " * deep + "1", "{1:" * 140 + "2" + "}" * 140,
    "elif".join(["if a: b\\n"] * 1000), "await " * deep + "x", "\\0", "\\ud800",
    "1 if 1 else " * deep + "1"]
def both(text):
    tree = ast.parse(text)
    return [len(ast.unparse(tree)), len(ast.dump(tree))]
chain = leaf = ast.List([], ast.Load())
for _ in range(deep):
    chain = ast.List([chain], ast.Load())
loop = ast.List([], ast.Load())
loop.elts.append(loop)
element = ET.Element("a")
for _ in range(deep):
    outer = ET.Element("a")
    outer.append(element)
    element = outer
attempts = [lambda text=text: both(text) for text in texts]
attempts += [lambda text=text: ast.literal_eval(text) for text in texts]
attempts += [lambda: ast.unparse(chain), lambda: ast.dump(chain), lambda: ast.literal_eval(chain),
    lambda: ast.dump(loop), lambda: ast.unparse(loop), lambda: ast.fix_missing_locations(loop),
    lambda: tomllib.loads("a = " + "[" * deep + "]" * deep), lambda: ET.tostring(element),
    lambda: ET.indent(element), lambda: len(list(element.iter())),
    lambda: ET.fromstring("<a>" * deep),
    lambda: len(list(ET.fromstring("<a>" * deep + "</a>" * deep).itertext()))]
"""
    ends = await errors_of(session, source)
    errors = {each for each in ends if isinstance(each, str)}
    assert errors <= {
        "RecursionError", "MemoryError", "SyntaxError", "ValueError", "ParseError",
        "UnicodeEncodeError", "TypeError", "IndentationError",
    }, ends  # fmt: skip


async def test_ast_functions_ignore_fields_that_a_script_sets(session: Session) -> None:
    source = """
import ast, copy, types
class Fake:
    _fields = ("__class__", "secret")
    _attributes = ("__dict__",)
def function(): ...
function._fields = ("__globals__", "__code__")
node = ast.Name("a", ast.Load())
node._fields = ("__reduce_ex__", "__class__")
made = ast.Name("a", ast.Load(), **{"_attributes": ("__reduce_ex__",)})
outer = ast.Expr(node)
holding = ast.Expr(Fake())
text = ast.Constant(Fake())
attempts = [
    lambda value=value, use=use: use(value)
    for value in (Fake(), function, node, made, outer, holding, text, (n for n in ()), Fake, ast)
    for use in (ast.dump, ast.unparse, ast.fix_missing_locations, ast.increment_lineno,
        lambda v: ast.copy_location(v, v), ast.literal_eval)
]
attempts += [
    lambda value=value, use=use: use(value)
    for value in (Fake(), function, node, made, (n for n in ()), Fake, ast)
    for use in (lambda v: list(ast.iter_fields(v)), lambda v: list(ast.walk(v)), ast.get_docstring,
        lambda v: ast.get_source_segment("a", v), lambda v: ast.NodeVisitor().generic_visit(v))
]
attempts += [lambda: copy.deepcopy(node), lambda: copy.deepcopy(outer)]
"""
    ends = await errors_of(session, source)
    returned = [end[0] for end in ends if type(end) is list]
    # The node itself; from 3.14 on the text of one.
    whole = ("Expr(value=Name(id='a', ctx=Load()))",) if sys.version_info >= (3, 14) else ()
    assert all("object at" in end or end in whole for end in returned), returned
    errors = {"TypeError", "AttributeError", "ValueError"}
    assert {end for end in ends if type(end) is str} <= errors


async def test_parsed_text_never_becomes_code(session: Session) -> None:
    source = """
import ast
def run(ctx, inputs):
    tree = ast.parse("open('/etc/passwd')")
    found = []
    for use in (ast.parse, str, repr):
        found.append(type(use(tree)).__name__)
    return [found, hasattr(ast, "compile"), hasattr(tree, "co_code")]
"""
    result = await session.program(source=source)
    assert result.value == [["Module", "str", "str"], False, False]

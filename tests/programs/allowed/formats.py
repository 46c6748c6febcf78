"""Modules that read and write formats, walk syntax trees, and hold references."""

import ast
import binascii
import bz2
import calendar
import codecs
import collections
import configparser
import contextvars
import copy
import csv
import dataclasses
import decimal
import difflib
import enum
import functools
import gzip
import http
import io
import ipaddress
import itertools
import lzma
import math
import mimetypes
import os
import os.path
import queue
import sys
import time
import tomllib
import types
import typing
import urllib.parse
import uuid
import weakref
import xml.etree.ElementTree as ET
import zlib
from http import HTTPMethod, HTTPStatus
from xml.etree import ElementTree

SOURCE = '''
import os, sys as system
from json import loads

def outer(a, b=1, *rest, key=None, **more) -> int:
    """Do it.

    More.
    """
    x = [n * 2 for n in range(a) if n % 2]
    return helper(x, f"{a!r:>{b}}") + 1.5

class Box(dict):
    "A box."
    async def put(self): await self.x
'''


class Calls(ast.NodeVisitor):
    def __init__(self):
        self.names = []

    def visit_Call(self, node):
        if isinstance(node.func, ast.Name):
            self.names.append(node.func.id)
        self.generic_visit(node)

    def visit_Constant(self, node):
        self.names.append(node.value)


class Rename(ast.NodeTransformer):
    def visit_Name(self, node):
        if node.id == "x":
            return ast.copy_location(ast.Name(id="renamed", ctx=node.ctx), node)
        return node

    def visit_Import(self, node):
        return None

    def visit_ImportFrom(self, node):
        return [node, ast.Pass()]


def trees():
    tree = ast.parse(SOURCE)
    out = [ast.dump(tree), ast.unparse(tree), ast.dump(tree, indent=1, include_attributes=True)]
    out.append([type(node).__name__ for node in ast.walk(tree)])
    calls = Calls()
    calls.visit(tree)
    out.append(calls.names)
    out.append([ast.get_docstring(node) for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))])
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            child.parent = node
    out.append(sum(hasattr(node, "parent") for node in ast.walk(tree)))
    changed = ast.fix_missing_locations(Rename().visit(copy.deepcopy(ast.parse(SOURCE))))
    out += [ast.unparse(changed), changed.body[0].lineno]
    out.append(ast.get_source_segment(SOURCE, tree.body[2].body[1]))
    made = ast.Assign(targets=[ast.Name("a", ast.Store())], value=ast.Constant(3), lineno=1)
    out.append(ast.unparse(made))
    out += [ast.literal_eval("[1, {'a': (2.5, -3j)}]"), ast.literal_eval(ast.parse("[1, -2]", mode="eval"))]
    match ast.parse("f(1)", mode="eval").body:
        case ast.Call(args=[ast.Constant(value=value)]):
            out.append(value)
    out.append([name for name, _ in ast.iter_fields(made)])
    out.append(ast.increment_lineno(ast.parse("a"), 4).body[0].lineno)
    for bad in ("x = (", "a b", "def f(:\n", "'\\z", "return = 1"):
        try:
            ast.parse(bad)
            out.append("parsed")
        except SyntaxError as error:
            out.append([error.msg, error.lineno, error.offset, error.filename, str(error)])
    try:
        ast.literal_eval("f()")
    except ValueError as error:
        out.append(type(error).__name__)
    return out


class Parser(configparser.ConfigParser):
    def optionxform(self, optionstr):
        return optionstr


def configurations():
    parser = configparser.ConfigParser()
    parser.read_string("[DEFAULT]\nbase = /srv\n[web]\nport = 80\npath = %(base)s/www\non = yes\n[empty]\n")
    out = [parser.sections(), parser["web"]["path"], parser.getint("web", "port"), parser["web"].getboolean("on")]
    out += [parser.has_option("web", "none"), parser.get("web", "none", fallback="x"), dict(parser["web"])]
    parser.read_dict({"db": {"host": "h", "n": 3}})
    parser.set("db", "user", "u")
    text = io.StringIO()
    parser.write(text)
    out.append(text.getvalue())
    for bad in ("no section", "[a]\nx", "[a]\n[a]"):
        try:
            configparser.ConfigParser().read_string(bad)
        except configparser.Error as error:
            out.append([type(error).__name__, str(error)])
    try:
        parser.get("nope", "x")
    except configparser.NoSectionError as error:
        out.append(str(error))
    exact = Parser(interpolation=configparser.ExtendedInterpolation())
    exact.read_string("[A]\nKey = 1\nOther = ${Key}2")
    out.append(dict(exact["A"]))
    exact.optionxform = str
    out.append(configparser.RawConfigParser(allow_no_value=True).sections())
    parser.read_file(io.StringIO("[file]\na=1"))
    out.append(parser["file"]["a"])
    return out


def documents():
    root = ET.fromstring('<?xml version="1.0"?><!DOCTYPE r><r a="1"><b>x</b>tail<b n="2"/><c:d xmlns:c="u">é</c:d></r>')
    out = [root.tag, root.attrib, [b.text for b in root.findall("b")], root[0].tail, root.find("b[@n]").get("n")]
    out += [root.find("{u}d").text, root.findtext("b"), [e.tag for e in root.iter()], "".join(root.itertext())]
    child = ET.SubElement(root, "new", {"k": "v"})
    child.text = "<&>"
    root.remove(root[0])
    ET.indent(root)
    out += [ET.tostring(root, encoding="unicode"), ET.tostring(root).decode(), len(root)]
    tree = ET.parse(io.StringIO("<a><b/></a>"))
    out.append([e.tag for e in tree.getroot().iter("b")])
    for buffer, encoding in ((io.BytesIO(), "utf-8"), (io.StringIO(), "unicode")):
        ElementTree.ElementTree(root).write(buffer, encoding=encoding, xml_declaration=encoding == "utf-8")
        value = buffer.getvalue()
        out.append(value.decode() if isinstance(value, bytes) else value)
    for bad in ("<a>", "", "<a>&nbsp;</a>", "<a></b>", "text"):
        try:
            ET.fromstring(bad)
        except ET.ParseError as error:
            out.append([str(error), error.code, list(error.position)])
    out.append(ET.canonicalize("<a  b='2' a='1'/>"))
    parser = ET.XMLParser(encoding="utf-8")
    parser.feed("<a>")
    parser.feed("x</a>")
    out.append(parser.close().text)
    out += [ET.fromstringlist(["<a>", "</a>"]).tag, ET.XMLID("<a id='x'/>")[1]["x"].tag]
    out.append(ET.tostring(copy.deepcopy(root)) == ET.tostring(root))
    ET.register_namespace("p", "u")
    out.append(ET.tostring(ET.fromstring('<a xmlns="u"/>'), encoding="unicode"))
    out.append(ET.iselement(root))
    return out


def compressed():
    data = b"abc" * 1000
    out = [gzip.decompress(gzip.compress(data)) == data, gzip.compress(data, mtime=0).hex()]
    out += [bz2.decompress(bz2.compress(data)) == data, lzma.decompress(lzma.compress(data)) == data]
    packer = zlib.compressobj(wbits=31)
    out.append(gzip.decompress(packer.compress(data) + packer.flush()) == data)
    unpacker = bz2.BZ2Decompressor()
    out += [len(unpacker.decompress(bz2.compress(data), 100)), unpacker.eof]
    for function in (gzip.decompress, bz2.decompress, lzma.decompress, zlib.decompress):
        try:
            function(b"damaged data")
        except (OSError, lzma.LZMAError, zlib.error) as error:
            out.append([type(error).__name__, str(error)])
    out += [binascii.b2a_qp(b"a=\xe9").decode(), binascii.a2b_uu(binascii.b2a_uu(b"x")).decode()]
    return out


def texts():
    out = [codecs.encode("Hello", "rot13"), codecs.decode(b"616263", "hex").decode(), codecs.lookup("U8").name]
    out += [codecs.BOM_UTF8.hex(), list(codecs.iterdecode([b"\xc3", b"\xa9"], "utf-8"))]
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    out += [decoder.decode(b"\xe2\x82"), decoder.decode(b"\xac!", final=True)]
    try:
        codecs.lookup("no-such-codec")
    except LookupError as error:
        out.append(str(error))
    out += [mimetypes.guess_type("a/b.tar.gz"), mimetypes.guess_type("http://x.y/p.html"), mimetypes.guess_extension("text/html")]
    mimetypes.add_type("application/x-mine", ".mine")
    out += [mimetypes.guess_type("z.mine"), mimetypes.types_map[".png"], ".png" in mimetypes.guess_all_extensions("image/png")]
    out.append(tomllib.loads("a = 1\n[t]\nd = 1979-05-27\nl = [1.5, true]\n[[x]]\ny = 'z'"))
    out.append(tomllib.load(io.BytesIO(b"a = 'b'")))
    try:
        tomllib.loads("a = ")
    except tomllib.TOMLDecodeError as error:
        out.append(str(error))
    return out


def queues():
    out = []
    for kind in (queue.Queue, queue.LifoQueue, queue.PriorityQueue, queue.SimpleQueue):
        q = kind()
        for item in (3, 1, 2):
            q.put(item)
        out.append([q.qsize(), q.get(), q.get_nowait(), q.get(timeout=1), q.empty()])
        try:
            q.get(block=False)
        except queue.Empty as error:
            out.append(repr(error))
    q = queue.Queue(maxsize=1)
    q.put("a")
    try:
        q.put_nowait("b")
    except queue.Full as error:
        out.append([repr(error), q.full(), q.maxsize])
    q.get()
    q.task_done()
    q.join()
    try:
        q.task_done()
    except ValueError as error:
        out.append(str(error))
    return out


class Node:
    def __init__(self, name):
        self.name = name


def references():
    node = Node("a")
    ref = weakref.ref(node)
    out = [ref() is node, ref().name, isinstance(ref, weakref.ref), weakref.ref(node) == ref]
    cache = weakref.WeakValueDictionary(a=node)
    keys = weakref.WeakKeyDictionary()
    keys[node] = 1
    group = weakref.WeakSet([node])
    out += [cache["a"].name, keys[node], len(group)]
    del node
    out += [ref() is None, len(cache), len(keys), len(group)]
    return out


level = contextvars.ContextVar("level", default=0)


def contexts():
    token = level.set(1)
    level.set(2)
    out = [level.get(), level.name, token.old_value is contextvars.Token.MISSING]
    level.reset(token)
    return [*out, level.get(), token.var is level]


class Semi(csv.Dialect):
    delimiter = ";"
    quotechar = '"'
    lineterminator = "\n"
    quoting = csv.QUOTE_MINIMAL


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int = 2


class Replaced:
    def __init__(self, a):
        self.a = a

    def __replace__(self, **changes):
        return Replaced(**changes)


def names():
    out = [HTTPStatus(404).phrase, HTTPStatus.OK.value, HTTPMethod.GET.value, http.HTTPStatus.CREATED]
    out += [math.__name__, os.path.__name__, json_name(), math.__doc__.splitlines()[0], ET.__name__]
    csv.register_dialect("semi", Semi)
    out += [next(csv.reader(["a;b"], "semi")), "semi" in csv.list_dialects()]
    out += [os.path.splitdrive("/a"), os.pathsep, os.extsep, os.fsdecode(b"a"), os.name, isinstance("x", os.PathLike)]
    out += [urllib.parse.urlsplit(b"http://a/b").path.decode(), uuid.RFC_4122, time.daylight, sys.hexversion]
    out += [str(ipaddress.ip_network("10.0.0.0/8")), ipaddress.IPV4LENGTH, decimal.MIN_ETINY]
    out += [difflib.IS_LINE_JUNK("# \n")]
    out += [enum.EnumCheck is not None, functools.WRAPPER_UPDATES, isinstance((n for n in ()), types.GeneratorType)]
    out += [calendar.firstweekday(), binascii.b2a_uu(b"abc").decode()]
    out += [isinstance(int | str, types.UnionType), isinstance(len, types.BuiltinFunctionType)]
    if sys.version_info >= (3, 12):
        out += [list(itertools.batched("abcde", 2)), math.sumprod([1, 2], [3, 4]), calendar.JANUARY, calendar.Day.MONDAY]
        out += [os.path.splitroot("/a/b"), csv.QUOTE_STRINGS, typing.override(len) is len]
        out.append(typing.TypeAliasType("Pair", tuple[int, int]).__name__)
    if sys.version_info >= (3, 13):
        out += [copy.replace(Point(1), y=5).y, copy.replace(Replaced(1), a=7).a, math.fma(2.0, 3.0, 4.0)]
        P = collections.namedtuple("P", "a b")
        out += [copy.replace(P(1, 2), b=3).b, typing.is_protocol(typing.Sized), typing.NoDefault is not None]
        try:
            copy.replace(3, a=1)
        except TypeError as error:
            out.append(str(error))
        out.append(str(typing.ReadOnly[int]))
        q = queue.Queue()
        q.shutdown()
        try:
            q.put(1)
        except queue.ShutDown as error:
            out.append(repr(error))
    return out


def json_name():
    import json

    return json.__name__


def run(ctx, inputs):
    return [
        trees(), configurations(), documents(), compressed()[2:], texts(), queues(), references(), contexts(), names(),
    ]  # fmt: skip

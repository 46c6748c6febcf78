"""configparser, xml.etree, gzip, codecs and mimetypes on text and bytes, without files.

Rule 1: no document expands beyond its size: a document type with declarations of its own is
    refused (test_xml_with_declarations_of_its_own_is_refused).
"""

from __future__ import annotations

import codecs
import configparser
import gzip
import mimetypes
import pyexpat
import struct
import zlib
from typing import Any, Final, NoReturn
from xml.etree import ElementTree

from .._clock import Clock
from .._freeze import replace_attribute
from .._types import exact_text
from ._console import CONSOLE

__all__ = ["codecs_members", "confine_formats", "gzip_members", "mimetypes_members", "xml_members"]


def confine_formats() -> None:
    """Remove the access to files from classes that scripts share with the library."""

    def read(self: Any, filenames: Any, encoding: Any = None) -> NoReturn:
        raise OSError(
            "ConfigParser.read() is not available: access files through ctx, for example "
            "`parser.read_string(await ctx.read(path))`"
        )

    replace_attribute(configparser.RawConfigParser, "read", read)
    mapping: Any = configparser.ConverterMapping
    set_item, proxy_init = mapping.__setitem__, configparser.SectionProxy.__init__

    # The library adds the names to "get"; text of a script could answer with any other name.
    def set_converter(self: Any, key: Any, value: Any) -> None:
        set_item(self, exact_text(key) if isinstance(key, str) else key, value)

    def start_proxy(self: Any, parser: Any, name: Any) -> None:
        if configparser.RawConfigParser not in type(parser).__mro__:
            raise TypeError("a section belongs to a parser")
        proxy_init(self, parser, name)

    replace_attribute(mapping, "__setitem__", set_converter)
    replace_attribute(configparser.SectionProxy, "__init__", start_proxy)
    library = ElementTree.__dict__
    library["open"] = _refuse_file  # in place of the builtin, for `parse` and `write`
    library["XMLParser"] = XMLParser


def _refuse_file(file: Any, *_: Any, **__: Any) -> NoReturn:
    raise FileNotFoundError(
        f"{file!r} is not available: access files through ctx; use ElementTree.fromstring(text) "
        "and ElementTree.tostring(element)"
    )


# ---------------------------------------------------------------------------------------------
# xml.etree.ElementTree

_library_parser: Any = ElementTree.XMLParser
_TARGETS: Final = (ElementTree.TreeBuilder, ElementTree.C14NWriterTarget)


class _Prolog:
    """Reads a document up to its first element, and refuses declarations.

    Entities multiply text (``&a;`` of ``&b;&b;`` of ...), and so do default values of attributes.
    Both are declared inside the document type, before the first element.
    """

    def __init__(self, encoding: Any) -> None:
        self._parser = pyexpat.ParserCreate(encoding, "}")
        self._parser.StartDoctypeDeclHandler = self._check
        self._parser.StartElementHandler = self._finish
        self._open = True
        self._refused: ElementTree.ParseError | None = None

    def _check(self, name: str, system: Any, public: Any, has_declarations: int) -> None:
        if has_declarations:
            error = ElementTree.ParseError(
                "declarations in the document type are not accepted; remove the part in brackets "
                f"after <!DOCTYPE {name}"
            )
            error.code = pyexpat.errors.codes[pyexpat.errors.XML_ERROR_SYNTAX]
            error.position = self._parser.CurrentLineNumber, self._parser.CurrentColumnNumber
            self._refused = error
            raise error

    def _finish(self, *_: Any) -> None:
        self._open = False

    def feed(self, data: Any, *, final: bool = False) -> None:
        """Read on.

        Raises:
            ParseError: If the document has declarations, or is not XML.
        """
        if self._refused is not None:  # the rest of the document must not pass without its start
            raise self._refused
        if self._open:
            try:
                self._parser.Parse(data, final)
            except pyexpat.ExpatError as found:
                error = ElementTree.ParseError(str(found))
                error.code, error.position = found.code, (found.lineno, found.offset)
                self._refused = error
                raise error from None


class XMLParser:
    """`ElementTree.XMLParser`, which builds elements only."""

    def __init__(self, *, target: Any = None, encoding: Any = None) -> None:
        if target is not None and type(target) not in _TARGETS:
            raise TypeError("XMLParser() takes no target here; parse the text, then walk the tree")
        self._parser = _library_parser(target=target, encoding=encoding)
        self._prolog = _Prolog(encoding)

    @property
    def entity(self) -> dict[str, str]:
        """Texts of entities that a document uses without declaring them."""
        entity: dict[str, str] = self._parser.entity
        return entity

    @property
    def version(self) -> str:
        """Name and version of the parser."""
        version: str = self._parser.version
        return version

    def feed(self, data: Any, /) -> None:
        """Parse the next part of a document."""
        self._prolog.feed(data)
        self._parser.feed(data)

    def close(self) -> Any:
        """Finish, and return the root element."""
        self._prolog.feed(b"", final=True)
        return self._parser.close()


XMLParser.__module__ = "xml.etree.ElementTree"


def xml_members() -> dict[str, Any]:
    """Return the members of `xml.etree.ElementTree` that replace those of the library."""

    def dump(elem: Any) -> None:
        tree: Any = elem
        if not isinstance(elem, ElementTree.ElementTree):
            tree = ElementTree.ElementTree(elem)
        tree.write(CONSOLE.stdout, encoding="unicode")
        tail = tree.getroot().tail
        if not tail or tail[-1] != "\n":
            CONSOLE.stdout.write("\n")

    return {"XMLParser": XMLParser, "dump": dump}


# ---------------------------------------------------------------------------------------------
# gzip


# Made before a script exists, which could put another under this key of the library's cache.
_GZIP_HEADER: Final = struct.Struct("<4sLBB")


def gzip_members(clock: Clock) -> dict[str, Any]:
    """Return the members of `gzip`."""

    def compress(data: Any, compresslevel: int = 9, *, mtime: Any = None) -> bytes:
        made = zlib.compress(data, level=compresslevel, wbits=31)
        moment = int(clock.now() if mtime is None else mtime)
        return _GZIP_HEADER.pack(made, moment, made[8], 255) + made[10:]

    return {"BadGzipFile": gzip.BadGzipFile, "compress": compress, "decompress": gzip.decompress}


# ---------------------------------------------------------------------------------------------
# codecs


class _Codec:
    """A codec without its streams, which read any attribute of the object they wrap."""

    __module__ = "codecs"  # reprs and errors show it

    __slots__ = ("decode", "encode", "incrementaldecoder", "incrementalencoder", "name")

    def __init__(self, found: codecs.CodecInfo) -> None:
        self.name: str = found.name
        self.encode, self.decode = found.encode, found.decode
        self.incrementalencoder = found.incrementalencoder
        self.incrementaldecoder = found.incrementaldecoder

    def __repr__(self) -> str:
        return f"<codecs.CodecInfo object for encoding {self.name}>"


def codecs_members() -> dict[str, Any]:
    """Return the members of `codecs` that replace those of the library."""

    def lookup(encoding: str, /) -> _Codec:
        return _Codec(codecs.lookup(encoding))

    return {"lookup": lookup}


# ---------------------------------------------------------------------------------------------
# mimetypes


def mimetypes_members() -> dict[str, Any]:
    """Return the members of `mimetypes`, with the library's own table of types."""
    mimetypes.knownfiles.clear()  # they differ between machines, and the jail opens none
    mimetypes.init()
    types: Any = mimetypes._db  # type: ignore[attr-defined]  # a script must not hold it: `read` opens files

    def init(files: Any = None) -> None:
        for file in () if files is None else files:
            _refuse_file(file)

    def guess_type(url: Any, strict: bool = True) -> Any:
        return types.guess_type(url, strict)

    def guess_all_extensions(type: str, strict: bool = True) -> list[str]:
        found: list[str] = types.guess_all_extensions(type, strict)
        return found

    def guess_extension(type: str, strict: bool = True) -> Any:
        return types.guess_extension(type, strict)

    def add_type(type: str, ext: str, strict: bool = True) -> None:
        types.add_type(type, ext, strict)

    members = {
        "add_type": add_type,
        "common_types": mimetypes.common_types,
        "encodings_map": mimetypes.encodings_map,
        "guess_all_extensions": guess_all_extensions,
        "guess_extension": guess_extension,
        "guess_type": guess_type,
        "init": init,
        "suffix_map": mimetypes.suffix_map,
        "types_map": mimetypes.types_map,
    }
    if hasattr(types, "guess_file_type"):  # 3.13

        def guess_file_type(path: Any, *, strict: bool = True) -> Any:
            return types.guess_file_type(path, strict=strict)

        members["guess_file_type"] = guess_file_type
    return members

"""PDF on standard input -> JSON ``{"title", "text"}``. Run as a confined process.

``python -I -S _pdf_text.py FOLDER``, where FOLDER holds the package pypdf.
"""

from __future__ import annotations

import io
import json
import logging
import sys


def main() -> None:
    """Convert standard input."""
    sys.path.append(sys.argv[1])
    from pypdf import PdfReader

    # Its warnings about odd files could be mistaken for the reason of a failure.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    reader = PdfReader(io.BytesIO(sys.stdin.buffer.read()))
    title = reader.metadata.title if reader.metadata else None
    pages = [page.extract_text() for page in reader.pages]
    text = "\n\n".join(page.strip() for page in pages)
    sys.stdout.write(json.dumps({"title": str(title or "")[:1_000], "text": text}))


if __name__ == "__main__":
    main()

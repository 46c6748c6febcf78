"""Operations of an OpenAPI document as tools. Needs: pip install 'ptc-host[openapi]'"""

import threading
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

from ptc import BlockingSession
from ptc_bindings.openapi import OpenAPITools

DOCUMENT = {"openapi": "3.1.0", "paths": {"/items.json": {"get": {"operationId": "listItems"}}}}
SCRIPT = """
items = sorted(ctx.shop.list_items(), key=lambda item: item.price)
[[item.name, item.price] for item in items if item.stock]
"""

folder = Path(__file__).parents[1] / "data"  # in place of a service on the internet
server = HTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=folder))
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
# With a key: credentials={"name of a security scheme": "${SHOP_KEY}"}
shop = OpenAPITools(DOCUMENT, name="shop", servers=[url])
with BlockingSession(tools=[shop], toolsets=()) as session:
    print(session.program(source=SCRIPT).unwrap())

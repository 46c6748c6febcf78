"""A server that is compatible with S3, on loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def s3() -> Iterator[Callable[[str], dict[str, Any]]]:
    """Start a server that is compatible with S3, and return options for a client of a bucket."""
    moto = pytest.importorskip("moto.server", reason="pip install 'moto[server]'")
    boto3 = pytest.importorskip("boto3", reason="pip install 'moto[server]'")
    pytest.importorskip("obstore", reason="pip install obstore")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {
        "endpoint": f"http://{host}:{port}",
        "access_key_id": "test",
        "secret_access_key": "test",
        "region": "us-east-1",
    }

    def make_bucket(name: str) -> dict[str, Any]:
        client = boto3.client(
            "s3",
            endpoint_url=options["endpoint"],
            aws_access_key_id="test",
            aws_secret_access_key="test",
            region_name="us-east-1",
        )
        client.create_bucket(Bucket=name)
        client.close()
        return options

    yield make_bucket
    server.stop()

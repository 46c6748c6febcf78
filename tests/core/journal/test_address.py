"""Addresses of servers, and the passwords in them."""

from __future__ import annotations

import pytest

from ptc.errors import PtcError, UsageError
from ptc.journal import open_journal
from ptc.journal._address import describe_address, redact_address

_ADDRESSES = [
    "postgresql://ada:sekret@host/db",
    "postgres://ada:sekret@host:1/db?sslmode=require",
    "postgresql://ada:se/sekret@host/db",
    "postgresql://ada:se@sekret@host/db",
    "postgresql://ada:se#sekret?@host/db",
    "postgresql://host/db?user=ada&password=sekret&sslpassword=sekret",
    "postgresql://ada:sekret@[host/db",
]


@pytest.mark.parametrize("address", _ADDRESSES)
def test_no_description_of_an_address_has_its_password(address: str) -> None:
    assert "sekret" not in redact_address(address)
    assert "sekret" not in describe_address(address)
    assert "host" in redact_address(address)


def test_address_without_password_and_path_are_unchanged() -> None:
    for text in (
        "postgresql://ada@host:5432/db?sslmode=require",
        "embedded:/a:b@c",
        "runs.sqlite3",
    ):
        assert redact_address(text) == text


@pytest.mark.parametrize(
    "address",
    ["postgresql://ada:sekret@127.0.0.1:1/db", "postgresql://ada:a/sekret@127.0.0.1:1/db"],
)
def test_error_of_an_unusable_address_has_no_password(address: str) -> None:
    pytest.importorskip("asyncpg", reason="pip install -e '.[postgres]'")
    with pytest.raises(PtcError) as caught:
        open_journal(address)
    assert "sekret" not in str(caught.value)
    assert "sekret" not in repr(caught.value.__cause__)


def test_malformed_address_names_the_remedy() -> None:
    pytest.importorskip("asyncpg", reason="pip install -e '.[postgres]'")
    with pytest.raises(UsageError, match="PGPASSWORD"):
        open_journal("postgresql://ada:a/sekret@127.0.0.1/db")

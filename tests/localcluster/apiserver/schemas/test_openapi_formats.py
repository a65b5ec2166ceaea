# ruff: noqa: E501 — a message stands on one line, however long Kubernetes made it.
"""String formats. The expected results are those of a real API server for the same strings."""

import pytest

from windlass.localcluster.apiserver.schemas import openapi_formats


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        (
            "date-time",
            ["2020-01-01T00:00:00Z", "2020-01-01t00:00:00.123+01:00", "2020-02-29T00:00:00Z"],
            ["2020-02-30T00:00:00Z", "2021-02-29T00:00:00Z", "2020-01-01T00:00:00", "2020-01-01", "2020-01-00T00:00:00Z"],
        ),
        ("date", ["2020-01-01"], ["20200101", "2020-W01-1", "2020-13-01"]),
        ("duration", ["1h", "1h30m", "-1h", "1.5h", "5 days", "22 ns", "1 week", "10m5x"], ["x", "1", "2020-01-01", " "]),
        ("uri", ["http://a/b", "/x/y", "a:b", "//a"], ["foo", "a b", "?x=1", "example.com"]),
        ("email", ["a@b", "A <a@b.c>"], ["a@", "a", "example.com"]),
        ("hostname", ["example.com", "foo", "é.com", "YWI="], ["ex_ample", "-a.com", "a-.com", "a.b", "1.2.3.4", "a" * 64 + ".com", "0-1-2"]),
        ("ipv4", ["1.2.3.4"], ["1.2.3", "::1"]),
        ("ipv6", ["::1"], ["1.2.3.4", "fe80::1%eth0"]),
        ("cidr", ["10.0.0.0/8", "::/0"], ["10.0.0.1/33", "10.0.0.1"]),
        ("mac", ["aa:bb:cc:dd:ee:ff", "aa-bb-cc-dd-ee-ff", "aabb.ccdd.eeff"], ["aa:bb:cc", "aa:bb-cc:dd:ee:ff"]),
        ("uuid", ["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B42D3A456426614174000"], ["123e4567"]),
        ("uuid3", ["123e4567-e89b-32d3-a456-426614174000"], ["123e4567-e89b-42d3-a456-426614174000"]),
        ("uuid4", ["123e4567-e89b-42d3-a456-426614174000"], ["123e4567-e89b-42d3-c456-426614174000"]),
        ("uuid5", ["123e4567-e89b-52d3-a456-426614174000"], ["123e4567-e89b-42d3-a456-426614174000"]),
        ("byte", ["YWJj", "YWI="], ["YWI", "é", ""]),
        ("hexcolor", ["#fff", "ffffff"], ["#ff"]),
        ("rgbcolor", ["rgb(1,2,3)", "rgb( 1 , 2 , 3 )"], ["rgb(1, 2,256)"]),
        ("creditcard", ["4111111111111111", "4111-1111-1111-1111"], ["4111111111111112"]),
        ("ssn", ["123-45-6789"], ["123456789"]),
        ("isbn", ["0321751043", "978-0321751041", "0-321-75104-3"], ["0321751044"]),
        ("isbn10", ["0321751043"], ["9780321751041"]),
        ("isbn13", ["9780321751041"], ["0321751043"]),
        ("bsonobjectid", ["507f1f77bcf86cd799439011"], ["507f1f77"]),
    ],
)  # fmt: skip
def test_formats(name: str, good: list[str], bad: list[str]) -> None:
    check = openapi_formats.check_of(name)
    assert check is not None
    assert [text for text in [*good, *bad] if check(text)] == good


@pytest.mark.parametrize("name", ["", "int32", "int64", "double", "password", "binary", "anything"])
def test_unknown_formats_are_ignored(name: str) -> None:
    assert openapi_formats.check_of(name) is None

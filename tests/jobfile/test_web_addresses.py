"""URLs of files: validity and file names."""

import pytest

from windlass.jobfile import web_addresses

COMPLETE: dict[str, str] = {
    # URL → file name
    "https://example.com/a.tgz": "a.tgz",
    "HTTP://example.com:8080/x/a%20b.csv?v=1#part": "a b.csv",
    "ftp://me:secret@[::1]:21/a": "a",
    "https://example.com/caf%C3%A9": "café",
    "https://example.com/a%2Fb": "b",
    "https://example.com/%zz": "%zz",
    "https://example.com": "",
    "https://example.com/a/": "",
    "https://example.com/a/%2e%2E": "",
}
INCOMPLETE = [
    "", "a.tgz", "/a.tgz", "file:///a", "https:///a", "https://h:/a", "https://h:0/a", "https://h:70000/a",
    "https://h/a b", "https://h/\0", "https://h:x/a", " https://h/a",
]  # fmt: skip


@pytest.mark.parametrize(("text", "file"), COMPLETE.items())
def test_complete_url_is_valid_and_has_a_file_name(text: str, file: str) -> None:
    assert web_addresses.is_valid_url(text)
    assert web_addresses.file_of(text) == file


@pytest.mark.parametrize("text", INCOMPLETE)
def test_incomplete_url_is_invalid(text: str) -> None:
    assert not web_addresses.is_valid_url(text)

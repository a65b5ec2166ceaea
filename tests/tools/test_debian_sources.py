"""Package sources of another release, in both formats."""

from pathlib import Path

import pytest

import debian_sources
from debian_sources import SourceFile

MODERN = """\
# The archive
Types: deb
URIs: http://archive.test/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main contrib
Signed-By: /keys/debian.gpg
"""
KEY_IN_PLACE = """\
types: deb
uris: http://archive.test/security
suites: bookworm-security
components: main
signed-by:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
"""

REWRITTEN = {
    "stanza": (
        "debian.sources",
        MODERN,
        """\
types: deb deb-src
uris: http://archive.test/debian
suites: trixie trixie-updates
components: main
signed-by: /keys/debian.gpg""",
    ),
    "key in place": (
        "debian.sources",
        KEY_IN_PLACE,
        """\
types: deb deb-src
uris: http://archive.test/security
suites: trixie-security
components: main
signed-by: -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc""",
    ),
    "one line": (
        "sources.list",
        "deb http://archive.test/debian bookworm main contrib  # the archive\n",
        "deb http://archive.test/debian trixie main\ndeb-src http://archive.test/debian trixie main\n",
    ),
    "one line with options": (
        "sources.list",
        "deb [arch=arm64 signed-by=/keys/a.gpg] http://archive.test/security bookworm-security main\n",
        """\
deb [arch=arm64 signed-by=/keys/a.gpg] http://archive.test/security trixie-security main
deb-src [arch=arm64 signed-by=/keys/a.gpg] http://archive.test/security trixie-security main
""",
    ),
}


@pytest.mark.parametrize(("name", "text", "expected"), REWRITTEN.values(), ids=REWRITTEN.keys())
def test_same_archive_for_another_release(name: str, text: str, expected: str) -> None:
    assert debian_sources.for_release([SourceFile(name, text)], "bookworm", "trixie") == (
        SourceFile(name, expected),
    )


def test_stanzas_stay_separate() -> None:
    (file,) = debian_sources.for_release(
        [SourceFile("a.sources", f"{MODERN}\n{KEY_IN_PLACE}")], "bookworm", "trixie"
    )
    assert [stanza.splitlines()[1] for stanza in file.text.split("\n\n")] == [
        "uris: http://archive.test/debian",
        "uris: http://archive.test/security",
    ]


NOT_DEBIANS = {
    "another release": ("sources.list", "deb http://archive.test/debian bullseye main\n"),
    "a suite that follows it": ("sources.list", "deb http://other.test/apt bookworm-pgdg main\n"),
    "another component": ("sources.list", "deb http://other.test/linux bookworm stable\n"),
    "only sources": ("sources.list", "deb-src http://archive.test/debian bookworm main\n"),
    "a comment": ("sources.list", "# deb http://archive.test/debian bookworm main\n"),
    "a folder": ("sources.list", "deb http://other.test/flat ./\n"),
    "switched off": ("a.sources", "Enabled: no\n" + MODERN),
    "stanza of another": ("a.sources", MODERN.replace("main contrib", "stable")),
    "nothing": ("a.sources", ""),
}


@pytest.mark.parametrize(("name", "text"), NOT_DEBIANS.values(), ids=NOT_DEBIANS.keys())
def test_entries_that_are_not_debians_are_dropped(name: str, text: str) -> None:
    debian = SourceFile("debian.sources", MODERN)
    kept = debian_sources.for_release([SourceFile(name, text), debian], "bookworm", "trixie")
    assert [file.name for file in kept] == ["debian.sources"]
    with pytest.raises(debian_sources.SourcesError, match="Debian's suite bookworm with the component main"):
        debian_sources.for_release([SourceFile(name, text)], "bookworm", "trixie")


def test_machine_files_are_those_that_apt_reads(tmp_path: Path) -> None:
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    for path in (tmp_path / "sources.list", parts / "b.sources", parts / "a.list", parts / "c.list.save"):
        path.write_text(path.name)
    names = [file.name for file in debian_sources.of_machine(tmp_path)]
    assert names == ["sources.list", "a.list", "b.sources"]


def test_apt_configuration_keeps_download_settings_only(tmp_path: Path) -> None:
    dump = (
        'Acquire::http::Proxy "http://proxy.test:3128";\n'
        'Acquire::IndexTargets::deb::DEP-11::MetaKey "icons";\n'
        'APT::Update::Post-Invoke:: "rm -f /var/cache/apt/archives/*.deb";\n'
        'Dir::State::Lists "lists/";\n'
    )
    lines = debian_sources.apt_configuration(dump, tmp_path).splitlines()
    assert 'Acquire::http::Proxy "http://proxy.test:3128";' in lines
    assert f'Dir::State::Lists "{tmp_path}/lists";' in lines
    assert not [line for line in lines if "Post-Invoke" in line or "DEP-11" in line or '"lists/"' in line]

"""The formats of reports: hostile text, sizes, and the logs in them."""

import base64
import gzip
import hashlib
import random
import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
import reports
from reports import HOSTILE

from windlass.client.report import markdown, page
from windlass.client.report.contents import Report
from windlass.client.report.page import PageWriter
from windlass.client.report.writing import Format, JsonWriter, Writer, format_of


def written(
    make: type[PageWriter] | type[JsonWriter],
    contents: Report,
    logs: dict[int, list[str]] | None = None,
    note: str = "",
) -> bytes:
    data = bytearray()
    tasks = contents.tasks
    lines_of = [(reports.log_of(tasks[at]), lines) for at, lines in (logs or {}).items()]
    reports.write(make, data.extend, contents, lines_of, note)
    return bytes(data)


class Parsed(HTMLParser):
    """The elements of a page, and the texts of its scripts and of the others."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: dict[str, str] = {}
        self.text = ""
        self._script = ""
        self.feed(data.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.elements.append((tag, attributes))
        if tag == "script":
            self._script = attributes.get("id") or attributes.get("data-first") or "program"

    def handle_endtag(self, tag: str) -> None:
        self._script = "" if tag == "script" else self._script

    def handle_data(self, data: str) -> None:
        if self._script:
            self.scripts[self._script] = self.scripts.get(self._script, "") + data
        else:
            self.text += data

    def lines(self, chunk: str) -> list[str]:
        return gzip.decompress(base64.b64decode(self.scripts[chunk])).decode().split("\n")


def test_page_escapes_hostile_text_everywhere() -> None:
    tasks = [reports.task(0, is_failed=True, text=HOSTILE), reports.task(1)]
    found = Parsed(written(PageWriter, reports.report(tasks, HOSTILE), {0: [HOSTILE, "end"]}, HOSTILE))
    plain = Parsed(written(PageWriter, reports.report(tasks, "text"), {0: ["text", "end"]}, "text"))
    assert found.elements == plain.elements
    shown = "</script><img src=x onerror=alert(1)> --> ]]> `|` ``` @user #1 red \\x00 \\u202eabc"
    assert found.lines("0") == [f"10:11:12.500 {shown}", "10:11:12.500 end"]
    assert found.text.count(shown) >= 10
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", found.text)
    assert msgspec.json.decode(found.scripts["log-index"])[0]["note"] == shown
    assert msgspec.json.decode(found.scripts["data"])["events"][0]["message"] == shown


def test_page_allows_no_network_and_no_script_but_its_own() -> None:
    found = Parsed(written(PageWriter, reports.report()))
    policy = next(attributes["content"] for name, attributes in found.elements if "http-equiv" in attributes)
    digest = base64.b64encode(hashlib.sha256(found.scripts["program"].encode()).digest()).decode()
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert f"script-src 'sha256-{digest}'" in policy
    assert not [name for name, attributes in found.elements if {"src", "style"} & attributes.keys()]
    links = [attributes["href"] or "" for name, attributes in found.elements if "href" in attributes]
    assert all(link.startswith("#") for link in links)


def test_page_without_scripts_shows_failed_attempts_first() -> None:
    tasks = [reports.task(at, is_failed=at == 9999, text="cause") for at in range(10_000)]
    found = Parsed(written(PageWriter, reports.report(tasks)))
    rows = sum(name == "tr" for name, _ in found.elements)
    assert rows < page.MAX_ROWS + 50
    assert "exited with code 3: cause" in found.text
    assert "The timeline has all 10000 attempts, this table 200 of them" in found.text


def test_page_writes_logs_in_chunks_that_small_logs_share() -> None:
    tasks = [reports.task(0), reports.task(1), reports.task(2)]
    line = "x" * 999
    found = Parsed(written(PageWriter, reports.report(tasks), {0: ["a", "b"], 1: [line] * 1500, 2: ["end"]}))
    logs = msgspec.json.decode(found.scripts["log-index"])
    assert [(each["task"], each["first"], each["lines"]) for each in logs] == [
        ("worker-0", 0, 2),
        ("worker-1", 2, 1500),
        ("worker-2", 1502, 1),
    ]
    chunks = [attributes for name, attributes in found.elements if attributes.get("class") == "chunk"]
    assert len(chunks) == 3
    assert sum(int(each["data-lines"] or 0) for each in chunks) == 1503
    assert all(len(found.lines(each["data-first"] or "")) == int(each["data-lines"] or 0) for each in chunks)


@pytest.mark.parametrize("make", [PageWriter, JsonWriter])
def test_logs_are_written_while_they_are_read(make: type[PageWriter] | type[JsonWriter]) -> None:
    noise = random.Random(1)  # cannot be compressed much
    lines = (noise.randbytes(50).hex() for _ in range(30_000))
    sizes: list[int] = []
    reports.write(
        make,
        lambda data: sizes.append(len(data)),
        reports.report(),
        [(reports.log_of(reports.task()), lines)],
    )
    assert sum(sizes) > 1_500_000
    assert max(sizes) < page.CHUNK_CHARACTERS


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        ("2026-01-01T10:11:12.123456789Z", "10:11:12.123"),
        ("2026-01-01T10:11:12Z", "10:11:12.000"),
        ("2026-01-01T10:11:12.5+02:00", "08:11:12.500"),
    ],
)
def test_log_lines_start_with_the_time_in_utc(stamp: str, expected: str) -> None:
    data = bytearray()
    writer: Writer = PageWriter(data.extend)
    writer.begin(reports.report())
    writer.begin_log(reports.log_of(reports.task()))
    writer.add_line(stamp, "text")
    writer.end_log("")
    writer.end()
    assert Parsed(bytes(data)).lines("0") == [f"{expected} text"]


@pytest.mark.parametrize("logs", [{}, {0: []}, {0: [HOSTILE, ""], 1: ["end"]}])
def test_json_is_a_report_with_its_logs(logs: dict[int, list[str]]) -> None:
    contents = reports.report([reports.task(0, is_failed=True, text=HOSTILE), reports.task(1)], HOSTILE)
    found = msgspec.json.decode(written(JsonWriter, contents, logs, "incomplete"), type=Report)
    assert msgspec.structs.replace(found, logs=()) == contents
    assert [(each.task, each.note) for each in found.logs] == [(f"worker-{at}", "incomplete") for at in logs]
    lines = [[f"2026-01-01T10:11:12.5Z {text}" for text in each] for each in logs.values()]
    assert [list(each.lines) for each in found.logs] == lines


def test_markdown_has_hostile_text_only_in_code() -> None:
    tasks = [reports.task(0, is_failed=True, text=HOSTILE)]
    text = markdown.render(reports.report(tasks, HOSTILE))
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
    fence = ""
    for line in text.splitlines():
        if fence:
            fence = "" if line == fence else fence
        elif found := re.match("`{3,}", line):
            fence = found[0]
        else:
            # As GitHub, split cells before their code is recognized.
            cells = re.split(r"(?<!\\)\|", line)
            outside = [re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", cell) for cell in cells]
            assert not re.search("[<@#`]", "".join(outside).lstrip("#")), line
    assert fence == ""


@pytest.mark.parametrize("number", [10, 10_000])
def test_markdown_fits_into_an_issue_of_github(number: int) -> None:
    tasks = [reports.task(at, is_failed=True, text="cause " * 100) for at in range(number)]
    text = markdown.render(reports.report(tasks, "line\n" * 9, events=number))
    assert len(text) <= markdown.MAX_CHARACTERS
    assert "## Events" in text
    assert "## Spec" in text
    assert ("… and" in text) == (number > 200)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("r.html", Format.HTML), ("r", Format.HTML), ("r.JSON", Format.JSON), ("r.md", Format.MARKDOWN)],
)
def test_format_of_a_file_is_that_of_its_suffix(name: str, expected: Format) -> None:
    assert format_of(Path(name)) is expected

"""Every way that a file can be wrong is named, with what to do, and nothing is read beyond the limit."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from engine.cli.errors import UsageMistake
from engine.cli.files import read_lines, read_payload, read_text, unique

UGLY: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "blank": (b" \n\t \xef\xbb\xbf"[:4], "is empty"),
    "binary": (b"text\0more", "is binary"),
    "latin-1": ("café".encode("latin-1"), "is not UTF-8 text (byte 0xe9 at 3)"),
    "utf-16": ("hello".encode("utf-16"), "is UTF-16 text"),
    "pdf": (b"%PDF-1.7 ...", "is a PDF"),
    "docx": (b"PK\x03\x04...", "an archive or office document"),
    "png": (b"\x89PNG\r\n", "is an image"),
    "gzip": (b"\x1f\x8b\x08", "is compressed"),
    "too large": (b"x" * 1_001, "is larger than 1,000 bytes"),
}


@pytest.mark.parametrize("name", UGLY)
def test_a_file_that_is_no_text_is_refused_by_name_and_kind(tmp_path: Path, name: str) -> None:
    content, says = UGLY[name]
    path = tmp_path / "notes.md"
    path.write_bytes(content)

    with pytest.raises(UsageMistake) as caught:
        read_text(str(path), limit=1_000)

    assert str(path) in str(caught.value)
    assert says in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageMistake, match="No such file"):
        read_text(str(tmp_path / "gone.md"), limit=10)


def test_a_folder_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(UsageMistake, match="is a folder"):
        read_text(str(tmp_path), limit=10)


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_a_name_that_no_file_can_have_is_refused(name: str) -> None:
    with pytest.raises(UsageMistake):
        read_text(name, limit=10)


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_a_file_one_may_not_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "private.md"
    path.write_text("x")
    path.chmod(0)

    with pytest.raises(UsageMistake, match="Permission denied"):
        read_text(str(path), limit=10)


def test_an_endless_file_is_read_up_to_the_limit_only(tmp_path: Path) -> None:
    path = tmp_path / "endless"
    os.mkfifo(path)
    done = threading.Event()

    def pour() -> None:
        with path.open("wb", buffering=0) as pipe:
            try:
                while not done.is_set():
                    pipe.write(b"x" * 1_000)
            except BrokenPipeError:
                return

    thread = threading.Thread(target=pour, daemon=True)
    thread.start()
    with pytest.raises(UsageMistake, match="larger"):
        read_text(str(path), limit=5_000)
    done.set()
    thread.join(10)


@pytest.mark.parametrize("text", ["héllo", "中文", "\U0001f600 and\ttabs\r\n"])
def test_any_utf_8_text_is_kept_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "notes.md"
    path.write_bytes(text.encode())

    assert read_text(str(path), limit=1_000) == text


def test_a_byte_order_mark_is_not_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_bytes(b"\xef\xbb\xbfhello")

    assert read_text(str(path), limit=1_000) == "hello"


def test_a_text_of_exactly_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_bytes(b"x" * 1_000)

    assert len(read_text(str(path), limit=1_000)) == 1_000


def test_a_payload_is_given_as_itself_or_by_file(tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    path.write_text('{"a": 1}')

    assert read_payload('{"b": 2}', limit=100) == '{"b": 2}'
    assert read_payload(f"@{path}", limit=100) == '{"a": 1}'


def test_lines_are_numbered_and_empty_ones_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"a": 1}\n\n  \n{"b": 2}')

    assert [(number, text.strip()) for number, text in read_lines(str(path), limit=100)] == [
        (1, '{"a": 1}'),
        (4, '{"b": 2}'),
    ]


@pytest.mark.parametrize("second", [b'{"\xff"}', b"x" * 200], ids=["not UTF-8", "too long"])
def test_a_wrong_line_is_told_by_its_number(tmp_path: Path, second: bytes) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'{"a": 1}\n' + second + b"\n")

    with pytest.raises(UsageMistake, match=r"in\.jsonl:2"):
        read_lines(str(path), limit=100)


def test_a_file_that_is_named_twice_counts_once() -> None:
    assert unique(["b", "a", "b"]) == ["b", "a"]

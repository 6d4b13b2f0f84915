"""A file is refused before it is read if it may need more memory than is available."""

import pytest

from formats import bounds


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    monkeypatch.setattr(bounds, "available_bytes", lambda: 1_000_000_000)


def test_a_file_that_may_need_more_than_is_available_is_refused_in_one_sentence():
    bounds.check("a.json", 50_000_000, 20)
    words = "a.json: reading its 51 MB may need 1.0 GB of memory, and 1.0 GB are available: give a"
    with pytest.raises(bounds.TooLarge, match=words):
        bounds.check("a.json", 51_000_000, 20)


def test_where_the_system_reports_no_memory_and_for_small_files_nothing_is_refused(monkeypatch):
    monkeypatch.setattr(bounds, "available_bytes", lambda: None)
    bounds.check("a.json", 1 << 40, 20)
    monkeypatch.setattr(bounds, "available_bytes", lambda: 0)
    bounds.check("a.json", 800_000, 20)


def test_a_file_that_is_refused_is_not_read(tmp_path, monkeypatch):
    file = tmp_path / "a.json"
    file.write_bytes(b"{}" * 10_000_000)
    monkeypatch.setattr(type(file), "read_bytes", lambda path: pytest.fail("it was read"))
    with pytest.raises(bounds.TooLarge):
        bounds.content(file, 51)

"""A report goes into a folder that can be written to, or an error of ours says why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cosend.errors import SettingError
from cosend.reports.folder import check_ready, writing


def test_a_look_at_a_folder_leaves_nothing_behind(tmp_path: Path) -> None:
    check_ready(tmp_path / "a" / "b", ["page.html", "plots/one.png"])
    (tmp_path / "file").write_text("a file")
    for name in ("file", "file/below"):
        with pytest.raises(SettingError, match="a folder that can be written to"):
            check_ready(tmp_path / name, ["page.html"])
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_is_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "page.html").mkdir()
    with pytest.raises(SettingError, match=r"page\.html is a folder there"):
        check_ready(tmp_path, ["page.html"])
    (tmp_path / "plots").write_text("a file")
    with pytest.raises(SettingError, match="plots is a file there"):
        check_ready(tmp_path, ["plots/one.png"])


@pytest.mark.parametrize("folder", [None, "a\0b", b"a"], ids=repr)
def test_what_is_no_path_is_refused(folder: Any) -> None:
    with pytest.raises(SettingError, match="here must be the path of a file or folder"):
        check_ready(folder, [], "here")


def test_a_file_that_may_not_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(SettingError, match=r"no permission to write page\.html"):
        check_ready(tmp_path, ["page.html"])


def test_what_goes_wrong_later_is_our_error_too(tmp_path: Path) -> None:
    (tmp_path / "page.html").mkdir()
    with (
        pytest.raises(SettingError, match=r"folder must be .*\(Is a directory, .*page\.html\), got"),
        writing(tmp_path),
    ):
        (tmp_path / "page.html").write_text("x")

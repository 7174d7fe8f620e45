"""What the documentation says can be done, can be done."""

import re
from pathlib import Path

import place
from place.plan.define import STREAM_OPTIONS

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    *(ROOT / "docs").glob("*.md"),
]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text("utf-8"), re.DOTALL)


def test_every_statement_of_the_language_page_works() -> None:
    session = place.connect()
    statements = blocks(ROOT / "docs" / "language.md", "sql")
    assert len(statements) >= 6
    for block in statements:
        session.sql(block)


def test_every_option_is_documented() -> None:
    page = (ROOT / "docs" / "language.md").read_text("utf-8")
    for option in STREAM_OPTIONS:
        assert f"`{option}`" in page, option


def test_the_python_of_the_readme_works() -> None:
    (code,) = blocks(ROOT / "README.md", "python")
    scope: dict[str, object] = {}
    exec(code, scope)
    assert scope["session"].answer("near") == [(1,)]  # type: ignore[attr-defined]


def test_the_python_of_the_python_page_works() -> None:
    text = (ROOT / "docs" / "python.md").read_text("utf-8").partition("## The same over HTTP")[0]
    codes = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(codes) == 4
    scope: dict[str, object] = {}
    for code in codes:
        exec(code, scope)


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8")):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page.name}: {link}"

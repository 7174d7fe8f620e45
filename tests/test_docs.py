"""What the documentation says can be done, can be done."""

import ast
import contextlib
import io
import re
from pathlib import Path

import pytest
from rich.console import Console

import place
from place.plan.define import STREAM_OPTIONS
from place.prompt import Prompt
from place.script.blocks import parse_script
from place.script.command import opener
from place.script.runner import Batching, ScriptRunner

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(DOCS.rglob("*.md")),
]
NAMED = [page for page in PAGES if page.name != "CHANGELOG.md"]
"""Pages that speak of the code as it is; the changelog may name what is no longer there."""


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text("utf-8"), re.DOTALL)


SCRIPTS = [
    pytest.param(f"\n{text}", page, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, text in enumerate(blocks(page, "cq"), start=1)
]


@pytest.mark.parametrize("runtime", ["reference", "local"])
@pytest.mark.parametrize(("text", "page"), SCRIPTS)
def test_every_script_of_a_page_holds(text: str, page: Path, runtime: str) -> None:
    script = parse_script(text, page)
    ScriptRunner(script, opener(runtime, "1x1"), Batching("each")).run()
    if runtime == "local":
        ScriptRunner(script, opener(runtime, "2x2"), Batching("one")).run()


def test_the_design_has_an_example_in_each_section() -> None:
    page = (DOCS / "design.md").read_text("utf-8")
    without = {"The idea", "The words", "Batch invariance", "The house"}
    for section in page.split("\n## ")[1:]:
        title = section.partition("\n")[0]
        assert ("```cq" in section) == (title not in without), title


def test_sections_of_the_design_that_the_code_cites_are_there() -> None:
    titles = re.findall(r"^## (.+)$", (DOCS / "design.md").read_text("utf-8"), re.MULTILINE)
    cited = re.compile(r'docs/design\.md,\s+"([^"]+)"')
    found = [
        (path, title)
        for path in (ROOT / "place").rglob("*.py")
        for title in cited.findall(path.read_text("utf-8"))
    ]
    assert len(found) >= 3
    for path, title in found:
        assert title in titles, f"{path}: {title}"


def test_every_statement_of_the_language_page_works() -> None:
    session = place.connect()
    statements = blocks(DOCS / "language.md", "sql")
    assert len(statements) >= 6
    for block in statements:
        session.sql(block)


@pytest.mark.parametrize("page", ["runtimes.md", "generator.md", "planner.md"])
def test_statements_of_other_pages_work(page: str) -> None:
    """The planner's page speaks of the streams of the language page, the others of their own."""
    session = place.connect()
    if page == "planner.md":
        for block in blocks(DOCS / "language.md", "sql"):
            session.sql(block)
    statements = blocks(DOCS / page, "sql")
    assert statements
    for block in statements:
        session.sql(block)


def test_every_option_is_documented() -> None:
    page = (DOCS / "language.md").read_text("utf-8")
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
    assert len(codes) == 6
    scope: dict[str, object] = {}
    for code in codes:
        exec(code, scope)


def test_the_python_of_the_notebooks_page_works() -> None:
    (code,) = blocks(DOCS / "notebooks.md", "python")
    scope: dict[str, object] = {}
    exec(f"{code}\nshown = live_map(session, 'near', live=False)\nshown.close()", scope)


def test_the_prompt_of_the_readme_works() -> None:
    """What stands after `place>` is typed, and what is answered contains the other lines."""
    (transcript,) = re.findall(r"place sql\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    shown = io.StringIO()
    with contextlib.closing(place.connect()) as session:
        prompt = Prompt(session, Console(file=shown, width=100))
        for line in transcript.splitlines():
            if line.startswith("place> "):
                prompt.take(line.removeprefix("place> "))
            else:
                assert shown.getvalue().splitlines()[-1] == line


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
            if "://" in link:
                continue
            path, _, heading = link.partition("#")
            target = page.parent / path if path else page
            assert target.exists(), f"{page.name}: {link}"
            if heading:
                assert heading in headings(target), f"{page.name}: {link}"


def headings(page: Path) -> set[str]:
    """The names by which links find the headings of a page."""
    found = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found}


PATH = re.compile(r"`((?:place|tests|bench|docs|requirements)(?:/[\w.*-]+)+/?)`")
NAME_IN_FILE = re.compile(r"`([A-Za-z_]\w*(?:\.\w+)?)` (?:in |of |\()`(place/[\w/]+\.py)`")
ATTRIBUTE = re.compile(r"`([A-Z]\w*[a-z]\w*\.\w+)`")
CLASS = re.compile(r"`([A-Z]\w*[a-z]\w*)`")


def test_every_path_that_a_page_names_is_there() -> None:
    for page in NAMED:
        for path in PATH.findall(page.read_text("utf-8")):
            assert list(ROOT.glob(path.rstrip("/"))), f"{page.name}: {path}"


def test_every_name_of_the_code_is_where_a_page_says() -> None:
    """`name` in `place/file.py` is defined there; `Class.method` and `Class` are somewhere."""
    modules = {path: defined(path) for path in (ROOT / "place").rglob("*.py")}
    everywhere = set().union(*modules.values())
    for page in NAMED:
        for name, path in NAME_IN_FILE.findall(page.read_text("utf-8")):
            assert name in modules[ROOT / path], f"{page.name}: `{name}` in {path}"
    for page in (ROOT / "CONTRIBUTING.md", DOCS / "architecture.md", DOCS / "glossary.md"):
        text = page.read_text("utf-8")
        for name in [*ATTRIBUTE.findall(text), *CLASS.findall(text)]:
            assert name in everywhere, f"{page.name}: `{name}`"


def defined(path: Path) -> set[str]:
    """What a module defines: functions, classes and values, and with a dot what classes have."""
    names: set[str] = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        names |= _bound(node)
        if isinstance(node, ast.ClassDef):
            inner = {name for item in node.body for name in _bound(item)}
            own = [item for item in ast.walk(node) if isinstance(item, ast.Attribute)]
            inner |= {
                item.attr
                for item in own
                if isinstance(item.ctx, ast.Store)
                if isinstance(item.value, ast.Name) and item.value.id == "self"
            }
            names |= {f"{node.name}.{name}" for name in inner}
    return names


def _bound(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if not isinstance(node, ast.Assign | ast.AnnAssign):
        return set()
    names = [item for item in ast.walk(node) if isinstance(item, ast.Name)]
    return {item.id for item in names if isinstance(item.ctx, ast.Store)}

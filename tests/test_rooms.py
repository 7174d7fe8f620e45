"""The house: which room may import which, as the table of docs/architecture.md says."""

import ast
import functools
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "place"

# A room may import itself and these; the longest prefix that fits a module is its room.
BELOW_ENGINE = {"place.errors", "place.model", "place.kernels", "place.sql", "place.plan"}
BELOW_RUNTIME = BELOW_ENGINE | {"place.engine", "place.sim"}
BELOW_SESSION = BELOW_RUNTIME | {
    "place.runtime",
    "place.runtime.reference",
    "place.runtime.reference_trigger",
    "place.runtime.spark",
}
TABLES = "place.runtime.repository.delta"
FRONT = BELOW_SESSION | {"place.session", "place.statements", "place.script", "place"}
ROOMS: dict[str, set[str]] = {
    "place.errors": set(),
    "place.model": {"place.errors"},
    "place.kernels": set(),
    "place.sql": {"place.errors"},
    "place.plan": {"place.errors", "place.model", "place.sql"},
    "place.engine": {"place.errors", "place.model", "place.kernels", "place.plan"},
    "place.sim": {"place.errors", "place.model", "place.kernels"},
    "place.runtime": BELOW_RUNTIME
    | {"place.runtime.reference", "place.runtime.reference_trigger", TABLES},
    TABLES: {"place.errors"},
    "place.runtime.reference": {
        "place.errors",
        "place.model",
        "place.plan",
        "place.runtime.reference_nearest",
    },
    "place.runtime.reference_nearest": {"place.errors", "place.model"},
    "place.runtime.reference_trigger": {
        "place.errors",
        "place.model",
        "place.plan",
        "place.runtime.reference",
    },
    "place.runtime.spark": BELOW_RUNTIME | {"place.runtime"},
    "place.connection": {"place.errors", "place.model"},
    "place.subscription": {"place.errors", "place.model", "place.plan"},
    "place.client": {"place.errors", "place.model", "place.connection"},
    "place.statements": BELOW_SESSION,
    "place.past_session": BELOW_SESSION | {"place.statements"},
    "place.session": BELOW_SESSION
    | {
        "place.client",
        "place.connection",
        "place.past_session",
        "place.statements",
        "place.subscription",
    },
    "place": {"place.session", "place.connection", "place.model"},
    "place.script": BELOW_SESSION | {"place.session", "place.statements"},
    "place.server": FRONT | {"place.web"},
    "place.web": FRONT,
    "place.notebook": FRONT | {"place.connection", "place.web"},
    "place.prompt": FRONT,
    "place.operate": FRONT | {"place.server"},
    "place.tour": FRONT | {"place.prompt"},
    "place.demo": FRONT | {"place.prompt", "place.operate", "place.server"},
    "place.cli": FRONT
    | {"place.prompt", "place.tour", "place.demo", "place.operate", "place.server", "place.web"},
}
SOLE_IMPORTERS = {
    "pyspark": "place.runtime.spark",
    "py4j": "place.runtime.spark",
    "numba": "place.kernels",
    "sqlglot": ("place.sql", "place.plan"),
    "sqlite3": ("place.runtime", "place.server"),
    "obstore": "place.runtime",
    "deltalake": TABLES,
    "anywidget": "place.notebook",
    "traitlets": "place.notebook",
    "paho": "place.runtime",
    "psycopg": "place.runtime",
    "pyais": "place.runtime",
    "google": "place.runtime",
    "fastapi": "place.server",
    "starlette": "place.server",
    "uvicorn": "place.server",
    "rich": ("place.prompt", "place.tour", "place.demo", "place.operate", "place.script"),
}


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def room_of(module: str) -> str:
    fitting = [room for room in ROOMS if module == room or module.startswith(room + ".")]
    return max(fitting, key=len)


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@functools.cache
def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
            # `from place.sql import statements` names a module, not the package
            for alias in node.names:
                candidate = f"{node.module}.{alias.name}"
                if (ROOT / Path(*candidate.split("."))).with_suffix(".py").exists():
                    found.discard(node.module or "")
                    found.add(candidate)
    return found


MODULES = sorted(PACKAGE.rglob("*.py"))


def test_a_module_imports_only_what_its_room_may() -> None:
    wrong = [
        f"{module_of(path)} imports {imported}"
        for path in MODULES
        for imported in imports_of(path)
        if imported == "place" or imported.startswith("place.")
        if room_of(imported) not in (room := room_of(module_of(path)), *ROOMS[room])
    ]
    assert wrong == []


def test_a_library_is_imported_only_where_it_belongs() -> None:
    wrong = []
    for path in MODULES:
        for imported in imports_of(path):
            owners = SOLE_IMPORTERS.get(imported.split(".")[0])
            rooms = (owners,) if isinstance(owners, str) else owners
            if rooms is not None and room_of(module_of(path)) not in rooms:
                wrong.append(f"{module_of(path)} imports {imported}")
    assert wrong == []


def test_a_module_says_why_it_exists_and_is_of_one_piece() -> None:
    assert [path for path in MODULES if not ast.get_docstring(tree_of(path))] == []
    long = [path for path in MODULES if len(path.read_text("utf-8").splitlines()) > 500]
    assert long == [], "two files in one"


def test_a_runtime_is_asked_through_its_interface() -> None:
    """Nobody outside of the runtime on Spark reaches into its pipeline, or knows its class."""
    inner = {"place.runtime.spark.runtime", "place.runtime.spark.pipeline"}
    wrong = []
    for path in MODULES:
        room = room_of(module_of(path))
        if room in ("place.runtime.spark", "place.runtime"):
            continue
        attributes = (n for n in ast.walk(tree_of(path)) if isinstance(n, ast.Attribute))
        if any(attribute.attr == "pipeline" for attribute in attributes):
            wrong.append(path)
        if room != "place.session" and inner & imports_of(path):  # which opens it
            wrong.append(path)
    assert wrong == []


OPERATORS = sorted((PACKAGE / "engine" / "operators").glob("*.py"))
CONTRACT = "place.engine.operators.contract"
ABOVE_OPERATORS = {"cell", "chain", "chains", "timeline", "worker", "checkpoint", "answers"}


def test_an_operator_knows_neither_another_one_nor_the_cell() -> None:
    above = {f"place.engine.{name}" for name in ABOVE_OPERATORS}
    wrong = [
        f"{path} imports {imported}"
        for path in OPERATORS
        for imported in imports_of(path) - {module_of(path), CONTRACT}
        if imported.startswith("place.engine.operators") or imported in above
    ]
    assert wrong == []


def test_no_two_modules_and_no_two_classes_of_the_engine_and_the_kernels_share_a_name() -> None:
    modules: dict[str, list[Path]] = {}
    classes: dict[str, list[Path]] = {}
    for room in ("engine", "kernels"):
        for path in (PACKAGE / room).rglob("*.py"):
            modules.setdefault(path.stem, []).append(path)
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.ClassDef):
                    classes.setdefault(node.name, []).append(path)
    del modules["__init__"]
    for found in (modules, classes):
        assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def test_an_array_type_has_one_name() -> None:
    for path in (*(PACKAGE / "engine").rglob("*.py"), *(PACKAGE / "kernels").rglob("*.py")):
        if path.stem != "arrays":
            for line in path.read_text("utf-8").splitlines():
                assert not re.match(r"\w+ = NDArray\[np\.\w+\]", line), f"{path}: {line}"


def test_the_lock_pins_by_hash_and_names_no_host() -> None:
    for lock in (ROOT / "requirements").glob("*.lock"):
        text = lock.read_text("utf-8")
        assert "://" not in text
        requirements = [line for line in text.splitlines() if line and line[0].isalnum()]
        assert requirements
        assert all("==" in line for line in requirements)
        assert text.count("--hash=sha256:") >= len(requirements)


def test_tests_and_benchmarks_are_of_one_piece_too() -> None:
    for path in [*(ROOT / "tests").rglob("*.py"), *(ROOT / "bench").rglob("*.py")]:
        assert len(path.read_text("utf-8").splitlines()) <= 500, f"{path} is two files in one"

"""What people install: the wheel and the source distribution have all that the commands need."""

from __future__ import annotations

import email
import importlib.metadata
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from place import __version__

ROOT = Path(__file__).parent.parent
NAME = f"place_server-{__version__}"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source distribution, and the wheel that is made of it, as a release is made.

    The checkout is copied first: setuptools leaves files in what it builds.
    """
    folder = tmp_path_factory.mktemp("package")
    tree, made = folder / "tree", folder / "made"
    for name in files():
        target = tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(made), str(tree)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return made


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment with the wheel alone; libraries are those that are here."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    (wheel,) = built.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-compile"]
    done = subprocess.run(
        [*pip, "--no-deps", "--no-index", "--disable-pip-version-check", str(wheel)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    site = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    libraries = {
        importlib.metadata.distribution(name).locate_file("")
        for name in ("pyspark", "numba", "fastapi")
    }
    (site / "libraries.pth").write_text("".join(f"{path}\n" for path in libraries))
    return home / "bin"


def files() -> list[str]:
    """The files of the project: those of the checkout, or of the source distribution."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return [name for name in done.stdout.splitlines() if (ROOT / name).is_file()]
    hidden = (".venv", ".git", "__pycache__", ".hypothesis", "build", "dist")
    every = [path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file()]
    return [str(path) for path in every if not set(path.parts) & set(hidden)]


def run(
    installed: Path, tmp_path: Path, *arguments: str, **more: float
) -> subprocess.CompletedProcess[str]:
    """Run the installed command elsewhere than in the checkout."""
    command = [str(installed / "place"), *arguments]
    return subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=more.get("timeout", 60)
    )


def test_the_wheel_has_the_package_whole_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert wheel.name == f"{NAME}-py3-none-any.whl"
    found = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert found == {name for name in files() if name.startswith("place/")}


def test_the_source_distribution_can_be_read_tested_and_measured(built: Path) -> None:
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {name.removeprefix(f"{NAME}/") for name in archive.getnames()}
    for top in ("place/", "tests/", "bench/", "docs/", "requirements/"):
        assert {name for name in files() if name.startswith(top)} <= names
    assert {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile", "pyproject.toml"} <= names


def test_the_metadata_says_for_which_python_it_is_and_what_it_needs(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        metadata = email.message_from_bytes(archive.read(f"{NAME}.dist-info/METADATA"))
        entries = archive.read(f"{NAME}.dist-info/entry_points.txt").decode()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert metadata["Name"] == "place-server"
    assert metadata["Version"] == project["version"] == __version__
    assert metadata["Requires-Python"] == ">=3.11"
    known = metadata.get_all("Classifier") or []
    for minor in (11, 12, 13, 14):
        assert f"Programming Language :: Python :: 3.{minor}" in known
    needed = [text for text in metadata.get_all("Requires-Dist") or [] if "extra ==" not in text]
    assert len(needed) == len(project["dependencies"])
    assert "place = place.cli:main" in entries


def test_commands_work_without_a_checkout(installed: Path, tmp_path: Path) -> None:
    where = subprocess.run(
        [str(installed / "python"), "-c", "import place; print(place.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(where.stdout.strip()).is_relative_to(installed.parent)
    done = run(installed, tmp_path, "--version")
    assert done.stdout.strip() == f"place {__version__}", done.stderr
    assert "--seconds" in run(installed, tmp_path, "demo", "--help").stdout
    (tmp_path / "near.cq").write_text(
        "statement ok\nCREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE)\n\n"
        "statement ok\nREGISTER QUERY near AS SELECT id FROM Cars INSIDE (0, 0, 5)\n\n"
        "at 1s\nCars (1, 3, 4)\n----\n+ near (1)\n"
    )
    done = run(installed, tmp_path, "script", "near.cq", "--runtime", "reference")
    assert done.returncode == 0, done.stdout + done.stderr


def test_files_of_the_package_are_found_where_it_is_installed(
    installed: Path, tmp_path: Path
) -> None:
    code = (
        "from place.operate.compiling import demo_statements\n"
        "from place.tour import files, parse_script, Path\n"
        "print(demo_statements(9, 1, 7))\n"
        "tour = files('place') / 'tour.cq'\n"
        "print(parse_script(tour.read_text('utf-8'), Path(str(tour))).path)\n"
        "print((files('place.web') / 'index.html').read_text('utf-8'))\n"
    )
    python = str(installed / "python")
    done = subprocess.run([python, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "CREATE STREAM" in done.stdout
    assert str(installed.parent) in done.stdout
    assert "<html" in done.stdout


def test_benchmarks_are_of_the_checkout(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "command.py").write_text("raise SystemExit('somebody else')")
    done = run(installed, tmp_path, "bench", "match", "--objects", "10")
    assert done.returncode == 1
    assert "benchmarks are not in the installed package" in done.stderr
    assert "make env" in done.stderr


@pytest.mark.long
def test_the_installed_demonstration_runs(installed: Path, tmp_path: Path) -> None:
    size = ("--objects", "500", "--rate", "4", "--seconds", "8", "--port", "0")
    done = run(installed, tmp_path, "demo", *size, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the live map is at http://127.0.0.1:" in done.stdout

"""The house: which room imports which, the tree in the README, and what the documents say."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "rhapsode"

# Room -> what it may not import at any level of indentation but inside `if TYPE_CHECKING`.
FORBIDDEN = {
    "engine": (
        "torch", "mlx", "rhapsode.qwen3", "rhapsode.book", "rhapsode.audio", "rhapsode.pipeline", "rhapsode.verify",
    ),
    "book": (
        "torch", "mlx", "numpy", "av", "rhapsode.qwen3", "rhapsode.audio", "rhapsode.engine", "rhapsode.pipeline",
        "rhapsode.verify",
    ),
    "audio": (
        "torch", "mlx", "rhapsode.qwen3", "rhapsode.book", "rhapsode.engine", "rhapsode.pipeline", "rhapsode.verify",
    ),
    "qwen3": (
        "av", "lxml", "rich", "transformers", "rhapsode.book", "rhapsode.audio", "rhapsode.pipeline",
        "rhapsode.verify", "rhapsode.bench",
    ),
    # It measures the engine and the model; of the way of a book only what `beside` puts a stopwatch on.
    "bench": (
        "av", "lxml", "rich", "rhapsode.pipeline", "rhapsode.progress",
        "rhapsode.narrator", "rhapsode.qwen3.narrator", "rhapsode.verify",
    ),
    # It hears any narrator, and knows of the engine only how long a line should take and what can be wrong with it.
    "verify": (
        "torch", "mlx", "transformers", "rhapsode.qwen3", "rhapsode.audio", "rhapsode.engine.decode",
        "rhapsode.engine.lanes", "rhapsode.engine.meter", "rhapsode.engine.stepper",
    ),
}  # fmt: skip
# Rooms that run from a bare checkout on a GPU machine: nothing but these and the standard library at import.
BARE = {"bench", "engine", "qwen3"}
BARE_PACKAGES = {"mlx", "numpy", "torch", "safetensors", "tokenizers", "rhapsode"}


def setuptools_settings() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]


def imports(file: Path, *, top_level_only: bool = False) -> set[str]:
    """Modules that a file imports when it runs."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    found: set[str] = set()
    for node in tree.body if top_level_only else ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


@pytest.mark.parametrize("room", FORBIDDEN)
def test_rooms_do_not_reach_back(room: str) -> None:
    for file in (PACKAGE / room).rglob("*.py"):
        for module in imports(file):
            for forbidden in FORBIDDEN[room]:
                within = module == forbidden or module.startswith(f"{forbidden}.")
                assert not within, f"{file.relative_to(ROOT)} imports {module}"


def test_one_file_of_the_bench_knows_books_and_audio() -> None:
    for file in (PACKAGE / "bench").rglob("*.py"):
        known = {m for m in imports(file) if m.startswith(("rhapsode.book", "rhapsode.audio"))}
        assert file.name == "beside.py" or not known, f"{file.name} imports {known}"


def test_each_back_end_knows_its_own_arrays_alone() -> None:
    for file in (PACKAGE / "qwen3").rglob("*.py"):
        room = file.relative_to(PACKAGE / "qwen3").parts[0]
        known = {module.partition(".")[0] for module in imports(file)} & {"mlx", "torch"}
        assert known <= {room}, f"{file.relative_to(ROOT)} imports {known}"


@pytest.mark.parametrize("room", sorted(BARE))
def test_bare_rooms_need_little(room: str) -> None:
    for file in (PACKAGE / room).rglob("*.py"):
        for module in imports(file, top_level_only=True):
            package = module.split(".")[0]
            assert package in BARE_PACKAGES or package in sys.stdlib_module_names, (
                f"{file.relative_to(ROOT)} imports {module}"
            )


# What of the bench knows no array library but numpy: the clock, the book, its schedule, counts and pages.
WITHOUT_TORCH = (
    "stopwatch", "workload", "schedule", "shapes", "counts", "choices", "requests", "result", "table", "page",
    "gauge", "run", "sweep", "measure", "source", "deviation", "on_mlx",
)  # fmt: skip


def test_one_file_of_the_bench_knows_mlx() -> None:
    for file in (PACKAGE / "bench").rglob("*.py"):
        known = {m for m in imports(file) if m.split(".")[0] == "mlx" or m.startswith("rhapsode.qwen3.mlx")}
        assert file.name == "on_mlx.py" or not known, f"{file.name} imports {known}"


def test_only_the_torch_room_and_what_measures_it_import_torch() -> None:
    for file in PACKAGE.rglob("*.py"):
        if "torch" in {module.split(".")[0] for module in imports(file)}:
            assert {PACKAGE / "qwen3" / "torch", PACKAGE / "bench"} & set(file.parents), file.relative_to(ROOT)
            assert file.parent != PACKAGE / "bench" or file.stem not in WITHOUT_TORCH, file.relative_to(ROOT)


def test_what_makes_the_voice_is_not_part_of_the_product() -> None:
    """`training` imports the product, never the other way round, and neither it nor the tests are shipped."""
    for file in PACKAGE.rglob("*.py"):
        outside = {module for module in imports(file) if module.split(".")[0] in ("training", "tests")}
        assert not outside, f"{file.relative_to(ROOT)} imports {outside}"
    assert setuptools_settings()["packages"]["find"] == {"include": ["rhapsode*"], "namespaces": False}


def test_everything_that_is_no_code_is_shipped() -> None:
    settings = setuptools_settings()
    shipped = {
        path
        for package, patterns in settings["package-data"].items()
        for pattern in patterns
        for path in ROOT.joinpath(*package.split(".")).glob(pattern)
    }
    data = {ROOT / name for name in files_here() if name.startswith("rhapsode/") and not name.endswith(".py")}
    assert data and data <= shipped, data - shipped
    for file in PACKAGE.rglob("*.py"):
        assert (file.parent / "__init__.py").exists(), f"{file.relative_to(ROOT)} is in no package"


def test_importing_rhapsode_imports_no_array_library() -> None:
    check = "import sys, rhapsode; print([m for m in ('numpy', 'torch', 'mlx', 'av', 'lxml') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def files_here() -> set[str]:
    """Paths of all files that are part of the project."""
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    return {name for name in tracked if (ROOT / name).exists()}


def tree_of_readme() -> set[str]:
    """Paths of the annotated tree, those of folders with a slash at the end."""
    block = re.search(r"## The house\n+```\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
    assert block is not None
    paths: set[str] = set()
    parents: list[str] = []
    for line in block[1].splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        for name in re.match(r"\s*((?:[\w.-]+/ ?)+(?=\s|$)|\S+)", line)[1].split():  # type: ignore[index]
            path = "".join(parents[:depth]) + name
            paths.add(path)
            if name.endswith("/"):
                parents[depth:] = [name]
    return paths


def test_the_tree_lists_what_is_there() -> None:
    files = files_here()
    quiet = {name for name in files if Path(name).name.startswith((".", "__")) or name.startswith(".")}
    # Of the tests and of the embedded checkpoint, the tree shows folders; their files come and go.
    quiet |= {name for name in files if re.match(r"tests/\w+/|rhapsode/demo/", name)}
    folders = {f"{parent}/" for name in files for parent in Path(name).parents if str(parent) != "."}
    folders -= {folder for folder in folders if re.match(r"\.|rhapsode/demo/.", folder)}
    there = {name for name in files - quiet} | folders
    listed = tree_of_readme()
    assert listed - there == set(), "the tree lists what is not there"
    assert there - listed == set(), "the tree does not list what is there"


def test_every_file_says_what_it_knows() -> None:
    for file in PACKAGE.rglob("*.py"):
        if file.name == "__init__.py" and not file.read_text(encoding="utf-8").strip():
            continue
        text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
        assert text, f"{file.relative_to(ROOT)} opens without a word"


def test_readme_options_exist() -> None:
    """Every option that the README names is one of the command line's, and every name of the API exists."""
    import rhapsode
    from rhapsode.cli import _parser

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    known: set[str] = set()
    for action in _parser()._subparsers._group_actions[0].choices.values():  # type: ignore[union-attr]
        known.update(option for entry in action._actions for option in entry.option_strings)
    assert set(re.findall(r"`(--[a-z-]+)`", readme)) <= known
    for name in re.findall(r"rhapsode\.([a-z_]+)\(", readme):
        assert callable(getattr(rhapsode, name))


def test_dependencies_are_permissive_and_constrained() -> None:
    """What pyproject asks for is pinned in constraints.txt at a version that satisfies the floor."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = dict(
        line.strip().split("==")
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line and not line.startswith("#")
    )
    pinned = {canonicalize_name(name): version for name, version in pins.items()}
    extras = project["optional-dependencies"]
    for wanted in [*project["dependencies"], *extras["dev"], *extras["verify"]]:
        requirement = Requirement(wanted)
        version = pinned.get(canonicalize_name(requirement.name))
        assert version and requirement.specifier.contains(version), wanted


@pytest.mark.parametrize(("system", "machine", "wanted"), [
    ("darwin", "arm64", "mlx"), ("darwin", "x86_64", "torch"), ("linux", "x86_64", "torch"),
    ("win32", "AMD64", "torch"),
])  # fmt: skip
def test_each_machine_is_brought_one_array_library(system: str, machine: str, wanted: str) -> None:
    """What pip would install there: no torch on Apple silicon, whichever extra for reading is asked for."""
    from packaging.requirements import Requirement

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    here = {"sys_platform": system, "platform_machine": machine}
    requirements = [Requirement(line) for line in project["dependencies"]]
    extra = [Requirement(line) for line in project["optional-dependencies"]["mlx"]]

    def brought(wanted: list[Requirement]) -> set[str]:
        return {one.name for one in wanted if one.marker is None or one.marker.evaluate(here)} & {"mlx", "torch"}

    assert brought(requirements) == {wanted}
    assert brought([*requirements, *extra]) == {wanted} | ({"mlx"} if system != "win32" else set())

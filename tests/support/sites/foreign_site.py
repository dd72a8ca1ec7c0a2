"""A Django site of somebody else: made with startproject outside this repository, with our wheel installed."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support import ROOT


def build_wheel(folder: Path) -> Path:
    _run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)],
        cwd=folder,
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


class ForeignSite:
    """A virtual environment with the wheel, and a fresh project in it. Django comes from where the tests have it; or,
    given another `python`, from the package index like everything else."""

    def __init__(
        self, folder: Path, wheel: Path, *, python: Path | None = None, packages: Sequence[str] = ()
    ) -> None:
        self.folder = folder / "site"
        self.folder.mkdir()
        self.python = folder / "venv" / "bin" / "python"
        if python is None:
            self._borrow(folder, wheel)
        else:
            _run([str(python), "-m", "venv", str(folder / "venv")], cwd=folder)
            pip = [str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            _run([*pip, f"{wheel}[api,postgres,videos]", *packages], cwd=folder, env=_of_pip())
        self.run("-m", "django", "startproject", "somebodys", ".")

    def _borrow(self, folder: Path, wheel: Path) -> None:
        _run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], cwd=folder)
        (packages,) = (folder / "venv").glob("lib/python*/site-packages")
        (packages / "tests.pth").write_text(sysconfig.get_path("purelib"))
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--quiet"]
        _run([*pip, "--no-deps", "--no-index", "--disable-pip-version-check", str(wheel)], cwd=folder)

    def run(
        self, *arguments: str, check: bool = True, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return _run([str(self.python), *arguments], cwd=self.folder, check=check, env=env)

    def manage(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.run("manage.py", *arguments, check=check)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def add_to_settings(self, text: str) -> None:
        with (self.folder / "somebodys" / "settings.py").open("a") as file:
            file.write(f"\n{text}\n")

    def use_database(self, settings: dict[str, Any]) -> None:
        kept = {
            key: settings[key]
            for key in ("ENGINE", "NAME", "USER", "PASSWORD", "HOST", "PORT", "OPTIONS")
            if settings[key]
        }
        self.add_to_settings(f"DATABASES = {{'default': {kept!r}}}")


def _of_pip() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("PIP_")}


def _run(
    command: list[str], *, cwd: Path, check: bool = True, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    clean = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    done = subprocess.run(
        command, cwd=cwd, env=clean | (env or {}), capture_output=True, text=True, timeout=600
    )
    if check and done.returncode:
        raise AssertionError(
            f"{' '.join(command)} exited with {done.returncode}:\n{done.stdout}{done.stderr}"
        )
    return done

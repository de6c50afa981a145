"""Install the wheel and the sdist, each in an environment of its own, and try what a new user tries."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMMANDS = (
    ("python", "-c", "import tutelage as tl; print(tl.__version__, len(tl.__all__), 'names')"),
    ("tutelage", "demo", "--picture", "demo"),
    ("tutelage", "teach", "--world", "published:0:10", "--learner", "L3", "--teacher", "bilevel"),
    ("tutelage", "reproduce", "figure1", "--out", "results"),
)


def try_out(package: Path) -> None:
    """In an empty folder, without the repository on the path."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        venv.create(folder / "env", with_pip=True)
        bin_folder = folder / "env" / "bin"
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        install = ["pip", "install", "--quiet", "--constraint", str(ROOT / "constraints.txt"), f"{package}[playground]"]
        for command in (("python", "-m", *install), *COMMANDS):
            started = time.monotonic()
            subprocess.run(
                [bin_folder / command[0], *command[1:]],
                cwd=folder,
                env=environment,
                check=True,
                stdout=subprocess.DEVNULL,
            )
            print(f"{package.name}: {' '.join(command)[:70]}: {time.monotonic() - started:.0f} s")
        _serve(bin_folder / "tutelage", folder, environment)
        print(f"{package.name}: tutelage serve answers")


def _serve(program: Path, folder: Path, environment: dict[str, str]) -> None:
    """Start the playground at a free port, load its page and the players, and stop it."""
    command = [program, "serve", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = next(found[0] for line in server.stdout if (found := re.search(r"http://[\w.]+:\d+", line)))
            with urllib.request.urlopen(address, timeout=60) as page:
                assert "<html" in page.read().decode()
            with urllib.request.urlopen(f"{address}/api/players", timeout=60) as players:
                assert json.load(players)["teachers"]
        finally:
            server.terminate()


if __name__ == "__main__":
    for path in sorted(Path(sys.argv[1]).resolve().iterdir()):
        try_out(path)

"""The lowest version that `pyproject.toml` declares for each dependency, as pins for pip: `name==version`."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
extras = (line for name, lines in project["optional-dependencies"].items() if name != "dev" for line in lines)
for requirement in (*project["dependencies"], *extras):
    print(re.sub(r">=([\w.]+).*", r"==\1", requirement))

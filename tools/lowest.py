"""The lowest version that `pyproject.toml` declares for each dependency, as pins for pip: `name==version`.

The tools of developers and of the site have no part in the package, and pip takes no extras in a pin.
"""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
extras = (
    line for name, lines in project["optional-dependencies"].items() if name not in ("dev", "docs") for line in lines
)
for requirement in (*project["dependencies"], *extras):
    print(re.sub(r"(\[.*\])?>=([\w.]+).*", r"==\2", requirement))

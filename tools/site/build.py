"""`make docs`: the site, in site/. A warning, a failing block of code or a dead link ends the build."""

import shutil
import sys
import tempfile
from pathlib import Path

from links import dead_links
from sphinx.cmd.build import build_main
from staging import ROOT, stage
from story import site_page


def main() -> int:
    """The exit code."""
    site = ROOT / "site"
    with tempfile.TemporaryDirectory() as made:
        source, built, trees = (Path(made) / name for name in ("source", "site", "trees"))
        stage(source)
        settings = ["-c", str(Path(__file__).parent), "-d", str(trees)]
        if failed := build_main([*settings, "--fail-on-warning", "--keep-going", "--quiet", str(source), str(built)]):
            return failed
        (built / "story.html").write_text(site_page(), encoding="utf-8")
        shutil.rmtree(site, ignore_errors=True)
        shutil.move(built, site)
    dead = dead_links(site)
    print("\n".join(dead) or f"{len(list(site.rglob('*.html')))} pages: open {site / 'index.html'}")
    return len(dead) > 0


if __name__ == "__main__":
    sys.exit(main())

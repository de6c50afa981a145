"""Every link of the built site leads to a page, and to a place on it; nothing is loaded from elsewhere."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """The links, the loaded files and the ids of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids.add(given.get("id", ""))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in ("img", "script", "iframe", "source") and "src" in given:
            self.loaded.append(given["src"])
        elif tag == "link" and given.get("rel") not in ("canonical", "next", "prev", "index", "search", "author"):
            self.loaded.append(given.get("href", ""))


def dead_links(site: Path) -> list[str]:
    """One line for each link that leads nowhere and each file that would be loaded over the network."""
    pages = {path.resolve(): _Page(path) for path in sorted(site.rglob("*.html")) if "_static" not in path.parts}
    found = []
    for path, page in pages.items():
        here = path.relative_to(site.resolve())
        found += [f"{here}: {link} is dead" for link in page.links if not _leads(link, path, pages)]
        found += [f"{here}: {link} is not in the site" for link in page.loaded if not _is_there(link, path)]
    return found


def _leads(link: str, path: Path, pages: dict[Path, _Page]) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target not in pages:
        return target.is_file()
    return not parts.fragment or unquote(parts.fragment) in pages[target].ids


def _is_there(link: str, path: Path) -> bool:
    parts = urlsplit(link)
    return parts.scheme == "data" or (not parts.netloc and (path.parent / unquote(parts.path)).resolve().is_file())

"""The page as one HTML file that needs no server: its modules, its style, and a recording of answers.

No build step: each module becomes a function, and its imports become lookups. A recording is what the page has instead
of a server: the answers by request, the scene that it opens with, and the places that it shows.
"""

import json
import re
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any
from urllib.parse import quote

from tutelage.environments.object_world import ObjectWorld
from tutelage.playground import schema
from tutelage.playground.gardens import STORY

IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w.]+)";\n', re.MULTILINE)
EXPORTED = re.compile(r"^export (?:async )?(?:function|class|const|let) (\w+)", re.MULTILINE)
LINKED = re.compile(r"<(?:link|script) [^>]*>(?:</script>)?\n")
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; "
    "form-action 'none'"
)


def _read(name: str) -> str:
    return resources.files("tutelage.playground").joinpath("page", name).read_text(encoding="utf-8")


def _modules(name: str, texts: dict[str, str]) -> dict[str, str]:
    """The texts of a module and of all that it imports, each after those that it imports."""
    if name not in texts:
        text = _read(name)
        for found in IMPORT.finditer(text):
            _modules(found[2], texts)
        texts[name] = text
    return texts


def _as_function(name: str, text: str) -> str:
    def lookup(found: re.Match[str]) -> str:
        names = re.sub(r"(\w+) as (\w+)", r"\1: \2", found[1])
        return f'const {{{names}}} = modules["{found[2]}"];\n'

    exported = ", ".join(EXPORTED.findall(text))
    body = re.sub(r"^export ", "", IMPORT.sub(lookup, text), flags=re.MULTILINE)
    return f'modules["{name}"] = await (async () => {{\n{body}\nreturn {{ {exported} }};\n}})();\n'


def bundled(recording: Mapping[str, Any] | None = None, title: str = "Tutelage") -> str:
    """The whole page. Without a recording, the text `tutelageRecording = null` can be replaced by one."""
    code = "".join(_as_function(name, text) for name, text in _modules("app.js", {}).items())
    code = code.replace("</script", "<\\/script")
    kept = json.dumps(recording, allow_nan=False).replace("<", "\\u003c")
    head = [
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        f'<link rel="icon" href="data:image/svg+xml,{quote(_read("icon.svg"))}">',
        f"<style>\n{_read('style.css')}</style>",
        f"<script>globalThis.tutelageRecording = {kept};</script>",
        f'<script type="module">const modules = {{}};\n{code}</script>',
        "</head>",
    ]
    page = re.sub(r"<title>[^<]*</title>", f"<title>{title}</title>", LINKED.sub("", _read("index.html")))
    return page.replace("</head>", "\n".join(head))


def site_page() -> str:
    """The page for a website: the story, the gardens, and the rounds of an adaptive teacher."""
    places = ["story", "play", "rounds"]
    recording = {"scene": {"place": "story-0"}, "places": places, "answers": dict(_answers())}
    return bundled(recording, "Tutelage: teach someone who has a mind of their own")


def _answers() -> Iterator[tuple[str, Any]]:
    """The answers that the places of the site's page ask for, by the page's own keys."""
    from tutelage.playground.jobs import run_job

    yield "/api/players ", schema.known_players()
    rules = [{"colour": "green", "distance": 1, "allowance": 0}]
    learner = {"model": "soft", "preferences": rules, "mismatch_penalty": 5, "violation_penalty": 10}
    scene = {"world": _as_on_the_page(STORY.world), "learner": learner}

    def events(job: str, request: str) -> list[Any]:
        sent: list[Any] = []
        run_job(job, request, lambda name, data: sent.append([name, data]))
        return sent[:-1] + events("bound", request) if sent[-1][0] == "later" else sent

    for teacher, most in (("volume_search", 20), ("bilevel", 1)):
        request = json.dumps(scene | {"teacher": teacher, "max_rounds": most}, separators=(",", ":"))
        yield f"/api/teach {request}", events("teach", request)
    request = json.dumps(scene, separators=(",", ":"))
    yield f"/api/reach {request}", events("reach", request)[0][1]


def _as_on_the_page(world: ObjectWorld) -> dict[str, Any]:
    """The fields of a painted world, with numbers as JavaScript writes them: 1 for 1.0."""
    text = re.sub(r"\b(\d+)\.0\b", r"\1", world.to_json())
    return {name: value for name, value in json.loads(text).items() if name not in ("generator", "seed")}

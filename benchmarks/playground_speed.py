"""The times of docs/playground.md: `PYTHONPATH=tests python benchmarks/playground_speed.py` on an idle machine."""

import sys
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any

import httpx
from playground_support import learner_fields, running, teaching  # type: ignore[import-not-found]

import tutelage as tl

N_TRIES, N_CLIENTS = 3, 20
PUBLISHED = tl.object_world(10, 0)
LESSON = teaching("bilevel", learner_fields("soft", "L3"), PUBLISHED)
ROUNDS = teaching("line_search", learner_fields("hard", "L3", 2.5), PUBLISHED, max_rounds=20)


def times(address: str, request: dict[str, Any]) -> list[float]:
    """Seconds until each event."""
    began = perf_counter()
    with httpx.stream("POST", f"{address}/api/teach", json=request, timeout=600) as answer:
        return [perf_counter() - began for line in answer.iter_lines() if line.startswith("event: ")]


def main() -> None:
    """Print the time of each request."""
    with running() as address:
        for name, request in (("bi-level", LESSON), ("line search", ROUNDS)):
            tries = [times(address, request) for _ in range(N_TRIES)]
            firsts, lasts = ([one[place] for one in tries] for place in (0, -1))
            for what, seconds in (("first round", firsts), ("end", lasts)):
                sys.stdout.write(f"{name}, {what}: {min(seconds):.2f} to {max(seconds):.2f} s\n")
        with ThreadPoolExecutor(N_CLIENTS) as clients:
            all_times = list(clients.map(lambda _: times(address, LESSON), range(N_CLIENTS)))
        lesson, end = (max(one[place] for one in all_times) for place in (0, -1))
        sys.stdout.write(f"{N_CLIENTS} clients: all lessons after {lesson:.1f} s, all bounds after {end:.1f} s\n")


if __name__ == "__main__":
    main()

"""The page of the command line, from the commands themselves."""

import re
from collections.abc import Iterator
from typing import Any

import typer


def command_pages() -> str:
    """Markdown: every command with its text and its options."""
    from tutelage.cli.app import make_app

    group: Any = typer.main.get_command(make_app())
    lines = [_plain(group.epilog or ""), ""]
    for name, command in _commands(group):
        lines += [f"## `tutelage {name}`", "", *_described(name, command), ""]
    return "\n".join(lines)


def _commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Every command by its whole name, `import graph`, those of groups included."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def _described(name: str, command: Any) -> Iterator[str]:
    arguments = " ".join(parameter.name.upper() for parameter in command.params if _is_argument(parameter))
    yield f"    tutelage {name} [OPTIONS] {arguments}".rstrip()
    yield ""
    yield _plain(command.help or "")
    yield ""
    yield "| option | default | meaning |"
    yield "|---|---|---|"
    for parameter in command.params:
        yield _row(parameter)


def _row(parameter: Any) -> str:
    flags = [parameter.name.upper()] if _is_argument(parameter) else [*parameter.opts, *parameter.secondary_opts]
    given = parameter.default
    shown = "" if callable(given) or given in (None, "", False, [], ()) else f"`{given}`"
    meaning = _plain(getattr(parameter, "help", None) or "").replace("\n", " ").replace("|", "\\|")
    return f"| {', '.join(f'`{flag}`' for flag in flags)} | {shown} | {meaning} |"


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _plain(text: str) -> str:
    """Rich markup as Markdown: a line in bold is a command, so it becomes code. Dashes start lists."""
    text = re.sub(r"\[bold\][^\[]+\[/bold\]", lambda found: " ".join(found[0].split()), text)
    text = re.sub(r"^\[bold\](.+?)\[/bold\]$", r"    \1", text, flags=re.MULTILINE)
    text = re.sub(r"\[bold\](.+?)\[/bold\]", r"`\1`", text)
    return re.sub(r"\[/?[a-z]+\]", "", text).replace("\\[", "[").replace("\b\n", "").replace("\f", "")
